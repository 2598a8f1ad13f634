//! A watch that outlives the manager it is kept with: whoever answers next goes on where it stood.

use std::time::Duration;

use fence::JobId;
use stats::RunResult;
use stats::feed::{Event, Shown, Watcher};
use stats::wire::decode_result;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Streaming;

use super::FleetClient;
use super::calls::{PAUSE_FIRST, PAUSE_LAST};
use super::error::{Failure, FleetError, Verdict, Why, judge};
use crate::wire::{self, proto};

/// A watch that hears nothing for so long is begun anew elsewhere: the manager may have lost the
/// owner without noticing.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Somebody who watches would rather wait than begin again: so many times the patience of other
/// questions.
const PATIENCE_FACTOR: u32 = 10;

/// What a watch brings.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the frequent one")]
pub enum WatchUpdate {
    Shown(Shown),
    /// The last.
    Final(Box<RunResult>),
    /// The connection is lost; the watch goes on elsewhere.
    Broken(Broken),
}

/// A watch that hears nothing at the moment.
#[derive(Debug)]
pub struct Broken {
    /// Whom it was kept with, or tried at, and what came of it.
    pub reason: String,
    /// All managers have been tried since something was last heard: what each of them said.
    pub all: Option<Vec<String>>,
    /// So many of them answered that they cannot do it now.
    pub answered: usize,
    /// For how long it is tried.
    pub patience: Duration,
}

/// A running watch.
pub struct JobWatch {
    client: FleetClient,
    job: JobId,
    views: bool,
    progress: bool,
    watcher: Watcher,
    open: Option<(usize, Streaming<proto::WatchEvent>)>,
    /// What has failed since something was last heard.
    failures: Vec<Failure>,
    failing_since: Option<Instant>,
    pause: Duration,
    not_before: Option<Instant>,
}

impl JobWatch {
    pub(super) fn new(client: FleetClient, job: JobId, views: bool) -> Self {
        Self {
            client,
            job,
            views,
            progress: false,
            watcher: Watcher::default(),
            open: None,
            failures: Vec::new(),
            failing_since: None,
            pause: PAUSE_FIRST,
            not_before: None,
        }
    }

    /// With the whole result as it would be now, about once a second.
    #[must_use]
    pub fn in_full(mut self) -> Self {
        self.progress = true;
        self
    }

    /// What is new; `None` after the result. Safe to cancel.
    ///
    /// # Errors
    /// If the job is unknown, or no manager has answered for a long time.
    pub async fn next(&mut self) -> Result<Option<WatchUpdate>, FleetError> {
        while !self.watcher.is_over() {
            if self.open.is_none() {
                if let Some(told) = self.connect().await? {
                    return Ok(Some(told));
                }
                continue;
            }
            let Some((number, parts)) = &mut self.open else { continue };
            let number = *number;
            match timeout(SILENCE_MAX, parts.message()).await {
                Ok(Ok(Some(part))) => {
                    if let Some(told) = self.take(number, &part)? {
                        return Ok(Some(told));
                    }
                }
                Ok(Ok(None)) => {
                    let why = Why::NotNow("it has ended the watch before the job's end".to_owned());
                    return self.lose(number, why).map(Some);
                }
                Ok(Err(status)) => match judge(&status) {
                    Verdict::Elsewhere(why) => return self.lose(number, why).map(Some),
                    Verdict::Final(code, message) => {
                        let address = self.client.managers[number].clone();
                        return Err(FleetError::Refused { address, code, message });
                    }
                },
                Err(_) => {
                    self.open = None;
                    self.client.leave(number);
                }
            }
        }
        Ok(None)
    }

    fn take(
        &mut self,
        number: usize,
        part: &proto::WatchEvent,
    ) -> Result<Option<WatchUpdate>, FleetError> {
        let malformed = |what: String| FleetError::Malformed {
            address: self.client.managers[number].clone(),
            what,
        };
        let event = Event::decode(&part.event).map_err(|bad| malformed(bad.to_string()))?;
        self.failures.clear();
        (self.failing_since, self.pause, self.not_before) = (None, PAUSE_FIRST, None);
        match self.watcher.take(event) {
            None => Ok(None),
            Some(Shown::Final(bytes)) => {
                let result = decode_result(&bytes).map_err(|bad| malformed(bad.to_string()))?;
                Ok(Some(WatchUpdate::Final(Box::new(result))))
            }
            Some(shown) => Ok(Some(WatchUpdate::Shown(shown))),
        }
    }

    /// Opens the watch at the next manager, after the pause that is due.
    async fn connect(&mut self) -> Result<Option<WatchUpdate>, FleetError> {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
        let position = self.watcher.position();
        let request = proto::WatchRequest {
            job: wire::job_bytes(self.job),
            epoch: position.epoch,
            seq: position.seq,
            window: position.window,
            views: self.views,
            progress: self.progress,
        };
        let number = self.client.lock().manager;
        let asked = self.client.ask_one(number, self.client.deadline, |channel| {
            let (mut jobs, request) = (channel, request.clone());
            async move { jobs.watch(request).await }
        });
        match asked.await {
            Ok(parts) => {
                self.open = Some((number, parts));
                Ok(None)
            }
            Err(Verdict::Elsewhere(why)) => self.lose(number, why).map(Some),
            Err(Verdict::Final(code, message)) => {
                let address = self.client.managers[number].clone();
                Err(FleetError::Refused { address, code, message })
            }
        }
    }

    /// Goes on elsewhere, unless all has been tried for long enough.
    fn lose(&mut self, number: usize, why: Why) -> Result<WatchUpdate, FleetError> {
        self.open = None;
        self.client.leave(number);
        let now = Instant::now();
        let tried_for = now - *self.failing_since.get_or_insert(now);
        let failure = Failure { address: self.client.managers[number].clone(), why };
        let reason = failure.to_string();
        self.failures.retain(|one| one.address != failure.address);
        self.failures.push(failure);
        let all = self.failures.len() == self.client.managers.len();
        let hopeless = all && self.failures.iter().all(Failure::is_lasting);
        let patience = self.client.patience * PATIENCE_FACTOR;
        if hopeless || tried_for > patience {
            let failures = std::mem::take(&mut self.failures);
            return Err(FleetError::Nobody { failures, tried_for });
        }
        // The first try elsewhere is at once.
        if all {
            self.not_before = Some(now + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_LAST);
        }
        let answered = self.failures.iter().filter(|one| one.is_an_answer()).count();
        let all = all.then(|| self.failures.iter().map(ToString::to_string).collect());
        Ok(WatchUpdate::Broken(Broken { reason, all, answered, patience }))
    }
}
