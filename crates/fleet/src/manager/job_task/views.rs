//! What a job has counted, for those who look at it: sums, windows, views, and in the end the
//! result.

use std::sync::Arc;
use std::time::Duration;

use control::owner::{Conclusion, Event};
use stats::{Snapshot, WorkflowSnapshot};
use tokio::time::Instant;

use super::{Input, JobSummary, JobTask};
use crate::manager::{effects, lock, now, status};

/// How often the sums are made for those who ask.
const SUMS_EVERY: Duration = Duration::from_millis(500);
/// Of whole results, to each that looks at a job.
const PROGRESS_BYTES_PER_S: u64 = 256 << 10;
/// Elections are over by then.
const UNDECIDED_AFTER: Duration = Duration::from_secs(2);
/// Windows do not wait longer than this for streams.
const LAST_WINDOWS: Duration = Duration::from_secs(1);

impl JobTask {
    /// What status and lists show. A look at every attempt is not for every question.
    pub(super) fn sum(&mut self) {
        if let Some(statistics) = &self.statistics {
            self.summed = Instant::now();
            let waits_for = self.owner.queued().map(status::queued);
            self.summaries
                .send_replace(JobSummary { counted: Some(statistics.totals()), waits_for });
        }
    }

    /// The majority that has the last checkpoint is one of those who voted then. A change of the
    /// voters may leave a majority behind that has never heard of it, and a new owner would ask
    /// those.
    pub(super) fn look_at_voters(&mut self) {
        let Some(parts) = self.shared.parts() else { return };
        let voters = effects::voters(&parts);
        if std::mem::replace(&mut self.voters, voters.clone()) != voters
            && let Some(statistics) = &mut self.statistics
        {
            statistics.keep_anew();
        }
    }

    /// Whoever watches a job whose owner is cut off with it hears why its load stops.
    fn look_at_majority(&mut self) {
        let since = *lock(&self.shared.undecided);
        let is_undecided = since.is_some_and(|since| since.elapsed() >= UNDECIDED_AFTER);
        if std::mem::replace(&mut self.told_undecided, is_undecided) == is_undecided {
            return;
        }
        let why = match is_undecided {
            true => {
                "the managers cannot decide anything now, because too few of them reach each other (`volley managers` \
                 shows which): workers stop when their leases end, and go on when a majority is back"
            }
            false => "a majority of the managers is back",
        };
        let state = self.state;
        self.tell(|feed| feed.state(state, why));
    }

    /// Ten times a second: windows, thresholds, a checkpoint when it is due.
    pub(super) fn tick(&mut self) {
        if self.summed.elapsed() >= SUMS_EVERY {
            self.sum();
            self.look_at_voters();
            self.look_at_majority();
            // So that an owner knows when it stood still itself.
            self.step(Event::Tick);
        }
        let clock = self.clock();
        let Some(statistics) = &mut self.statistics else { return };
        let step = statistics.step(clock);
        if let Some(checkpoint) = statistics.checkpoint(clock, &self.owner) {
            self.effects.spawn(effects::keep(
                Arc::clone(&self.shared),
                self.inbox.clone(),
                self.job,
                self.epoch.number,
                checkpoint.number,
                checkpoint.bytes,
            ));
        }
        if !step.windows.is_empty() {
            self.tell(|feed| step.windows.into_iter().for_each(|window| feed.window(window)));
        }
        if step.ticked {
            let view = self.snapshot(clock);
            self.tell(|feed| feed.view(view));
            self.show_progress();
        }
        if let Some(number) = step.broken.filter(|_| !self.broken) {
            self.broken = true;
            let known = self.bundle.thresholds.get(number);
            let name = known.map(|threshold| format!("{} {}", threshold.metric, threshold.text));
            let reason =
                format!("threshold {}", name.unwrap_or_else(|| format!("number {}", number + 1)));
            self.step(Event::Threshold { number, reason });
        }
    }

    /// The whole result as it would be now, for those who look at it; the larger it is, the less
    /// often.
    fn show_progress(&mut self) {
        let is_wanted = !self.lookers.is_empty() && Instant::now() >= self.look_again;
        let Some(statistics) = self.statistics.as_mut().filter(|_| is_wanted) else { return };
        let result = status::so_far(statistics, &self.bundle, &self.owner);
        let Ok(bytes) = stats::wire::encode_result(&result) else { return };
        let rest = Duration::from_secs(bytes.len() as u64 / PROGRESS_BYTES_PER_S);
        self.look_again = Instant::now() + rest;
        let (state, planned) = (self.state, self.planned());
        self.tell(|feed| feed.progress(state, planned, bytes));
    }

    fn planned(&self) -> Option<Duration> {
        let workflows = &self.bundle.manifest.workflows;
        let longest = workflows.iter().map(|part| part.length).max();
        longest.filter(|_| workflows.iter().all(|part| part.layer == 0))
    }

    pub(super) fn snapshot(&mut self, clock: Duration) -> Snapshot {
        let planned = self.planned();
        let manifest = &self.bundle.manifest;
        let mut snapshot = Snapshot {
            plan: self.bundle.name.clone(),
            elapsed: clock,
            planned,
            state: self.state,
            ..Snapshot::default()
        };
        let Some(statistics) = &mut self.statistics else { return snapshot };
        statistics.merge().fill(&mut snapshot);
        for (number, part) in manifest.workflows.iter().enumerate() {
            let (vus, iterations, dropped) = statistics.merge().workflow_counts(number);
            snapshot.workflows.push(WorkflowSnapshot {
                name: part.name.clone(),
                state: self.owner.workflow(number),
                progress: self.owner.progress_of(number, now()),
                load: format!("up to {} VUs", part.vus_max),
                stage: String::new(),
                vus,
                iterations,
                dropped,
            });
        }
        snapshot
    }

    /// Makes the final result and stores it.
    pub(super) fn conclude(&mut self, conclusion: &Conclusion) {
        let clock = self.clock();
        self.sum();
        let Some(mut statistics) = self.statistics.take() else {
            // Made before; the ledger has not said so yet.
            return;
        };
        // Whoever watches sees the last windows, too.
        let last = statistics.step(clock + LAST_WINDOWS);
        self.tell(|feed| last.windows.into_iter().for_each(|window| feed.window(window)));
        let result = status::result(conclusion, statistics, &self.bundle, &self.owner, clock);
        let (shared, inbox) = (Arc::clone(&self.shared), self.inbox.clone());
        match stats::wire::encode_result(&result) {
            Ok(bytes) => {
                self.effects.spawn(async move {
                    if let Some(blob) = effects::put(&shared, &inbox, bytes.clone()).await {
                        let _ = inbox.send(Input::Concluded(Some(blob), bytes)).await;
                    }
                });
            }
            Err(error) => {
                tracing::error!(job = %self.job, %error, "the result cannot be written");
                self.effects.spawn(async move {
                    let _ = inbox.send(Input::Concluded(None, Vec::new())).await;
                });
            }
        }
    }
}
