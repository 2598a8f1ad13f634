//! The client's side of [`Jobs`](crate::wire::proto): submit, watch, steer and fetch, at whichever
//! manager can do it.
//!
//! ```text
//! ask ──▶ the manager that answered last ──unreachable, not now──▶ the next ──▶ ... ──▶ a pause, from the beginning
//!                │ an answer, or a no that every manager would say
//!                ▼
//!              done
//! ```
//!
//! Everything can be asked again: submissions have a key, blobs a hash, a watch its position. So a
//! question whose answer was lost is simply put to the next manager.

mod blobs;
mod calls;
pub mod enrol;
mod error;
pub mod keys;
mod look;
pub mod pack;
mod scale;
mod watch;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::JobId;
use ledger_state::BlobRef;
use node::config::CredentialFiles;
use node::network::{Limits, Mutual, Network};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use trust::{Gates, Policy};

use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::{self, proto};
use calls::{PAUSE_FIRST, PAUSE_LAST};

pub use blobs::{Progress, blob_of};
pub use error::{Failure, FleetError, Why};
pub use watch::{Broken, JobWatch, WatchUpdate};

/// Jobs that are named when an abbreviated id means several.
const ALIKE_MAX: u32 = 100;
/// A new manager may have to read the whole ledger.
const CHANGE_WITHIN: Duration = Duration::from_secs(30);
/// The longest pause that a manager may ask for.
const PAUSE_ASKED_MAX: Duration = Duration::from_secs(5);

type Jobs = JobsClient<Channel>;
/// Is told, in a sentence, why something takes longer.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Clone)]
pub struct ClientOptions {
    pub credentials: CredentialFiles,
    /// `host:port`, tried in turn.
    pub managers: Vec<String>,
    /// For one connection, and for one answer. 5 s.
    pub deadline: Duration,
    /// How long a change is tried while no manager can do it. 30 s. Questions make one round over
    /// all managers.
    pub patience: Duration,
    pub notice: Option<Notice>,
}

impl ClientOptions {
    #[must_use]
    pub fn new(credentials: CredentialFiles, managers: Vec<String>) -> Self {
        Self {
            credentials,
            managers,
            deadline: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            notice: None,
        }
    }
}

/// A job to be created once, however often it is asked for.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Made by the client and kept until there is an answer.
    pub key: String,
    pub name: String,
    /// Stored before ([`FleetClient::put`]).
    pub bundle: BlobRef,
    /// Since the first try with this key.
    pub age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub job: JobId,
    /// An earlier try had created it.
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Steering {
    Pause,
    Resume,
    /// Of all workflows that have users to set, if none is named.
    Vus {
        workflow: Option<String>,
        vus: u32,
    },
    Rate {
        workflow: Option<String>,
        per_second: f64,
    },
}

/// A step of a change of the managers.
#[derive(Clone, Debug)]
pub enum ManagerStep {
    /// One that was started to join learns from now on.
    Admit { address: String },
    /// It votes, once it has caught up.
    Promote { node: String },
    /// One that is gone counts no more.
    Remove { node: String },
    /// What all managers go by; what is not there stays.
    Limits { lease_ms: Option<u64>, keep_jobs_ms: Option<u64>, retries: Option<u32> },
}

#[derive(Clone)]
pub struct FleetClient {
    network: Arc<dyn Network>,
    managers: Arc<[String]>,
    deadline: Duration,
    patience: Duration,
    notice: Option<Notice>,
    last: Arc<Mutex<Last>>,
}

/// Who answered last, and the way there.
#[derive(Default)]
struct Last {
    manager: usize,
    channel: Option<(usize, Channel)>,
}

impl FleetClient {
    /// Connects to the first manager that answers.
    ///
    /// # Errors
    /// If the credentials cannot be used, or no manager can be reached.
    pub async fn connect(options: ClientOptions) -> Result<Self, FleetError> {
        let limits = Limits { handshake: options.deadline, ..Limits::default() };
        let policy = Policy { gates: Gates::None, expected: None };
        let network =
            Mutual::load(options.credentials, policy, limits).map_err(FleetError::Credentials)?;
        let mut client =
            Self::on(Arc::new(network), options.managers, options.deadline, options.patience)?;
        client.notice = options.notice;
        client.reach().await?;
        Ok(client)
    }

    /// On a network that is there already; nothing is connected yet.
    ///
    /// # Errors
    /// If there is nobody to ask.
    pub fn on(
        network: Arc<dyn Network>,
        managers: Vec<String>,
        deadline: Duration,
        patience: Duration,
    ) -> Result<Self, FleetError> {
        if managers.is_empty() {
            return Err(FleetError::NoManagers);
        }
        let (managers, last) = (managers.into(), Arc::default());
        Ok(Self { network, managers, deadline, patience, notice: None, last })
    }

    /// The same client, which tells nobody why something takes longer: the terminal may be in use.
    #[must_use]
    pub fn without_notice(mut self) -> Self {
        self.notice = None;
        self
    }

    async fn reach(&self) -> Result<(), FleetError> {
        let begun = Instant::now();
        let mut failures = Vec::new();
        for number in self.in_turn() {
            match self.channel(number).await {
                Ok(_) => return Ok(()),
                Err(why) => failures.push(self.failure(number, why)),
            }
        }
        Err(FleetError::Nobody { failures, tried_for: begun.elapsed() })
    }

    /// # Errors
    /// If nobody has accepted it in time, or it is refused for good.
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted, FleetError> {
        use proto::submit_reply::Answer;
        let begun = Instant::now();
        let mut pause = PAUSE_FIRST;
        let mut known_as = None;
        loop {
            let left = self.patience.saturating_sub(begun.elapsed());
            let age = submission.age + begun.elapsed();
            let request = proto::SubmitRequest {
                key: submission.key.clone(),
                name: submission.name.clone(),
                bundle: Some(wire::blob_out(&submission.bundle)),
                age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            };
            let asked = self.ask(left, |mut jobs| {
                let request = request.clone();
                async move { jobs.submit(request).await }
            });
            let (address, reply) = match asked.await {
                // Somebody may have accepted it before the connection broke.
                Err(FleetError::Nobody { failures, .. })
                    if known_as.is_some()
                        || failures
                            .iter()
                            .any(|one| matches!(one.why, Why::Broke(_) | Why::TimedOut { .. })) =>
                {
                    let reason = failures.iter().map(ToString::to_string).collect::<Vec<_>>();
                    let (reason, tried_for) = (reason.join("; "), begun.elapsed());
                    return Err(FleetError::Undecided { job: known_as, reason, tried_for });
                }
                asked => asked?,
            };
            let malformed = |what: String| FleetError::Malformed { address: address.clone(), what };
            let id = |bytes: &[u8]| {
                wire::job_from(bytes).map_err(|bad| malformed(bad.message().to_owned()))
            };
            let (wanted, reason) = match reply.answer {
                Some(Answer::Accepted(accepted)) => {
                    let job = id(&accepted.job)?;
                    return Ok(Submitted { job, repeated: accepted.repeated });
                }
                Some(Answer::Rejected(rejected)) => {
                    let (kind, reason) = (rejected.kind, rejected.reason);
                    return Err(FleetError::Rejected { address, kind, reason });
                }
                Some(Answer::Pending(pending)) => {
                    known_as = Some(id(&pending.job)?);
                    (Duration::ZERO, "it is not known yet whether the job was accepted".to_owned())
                }
                Some(Answer::Retry(retry)) => (Duration::from_millis(retry.after_ms), retry.reason),
                None => return Err(malformed("no answer that this version knows".to_owned())),
            };
            let wait = wanted.min(PAUSE_ASKED_MAX).max(pause);
            if begun.elapsed() + wait > self.patience {
                let (job, tried_for) = (known_as, begun.elapsed());
                return Err(match job {
                    Some(_) => FleetError::Undecided { job, reason, tried_for },
                    // Whoever asks to come again later has not taken it.
                    None => FleetError::NotAccepted { address, reason, tried_for },
                });
            }
            self.tell(&format!("{address}: {reason}; trying again"));
            sleep(wait).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    /// # Errors
    /// If the job is unknown, or nobody answers.
    pub async fn status(&self, job: JobId) -> Result<proto::JobStatus, FleetError> {
        let ask = move |mut jobs: Jobs| async move {
            jobs.status(proto::StatusRequest { job: wire::job_bytes(job) }).await
        };
        Ok(self.ask(Duration::ZERO, ask).await?.1)
    }

    /// The newest jobs first; with those that have ended, if they are wanted. What runs is asked of
    /// its owners.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn list(&self, ended: bool, limit: u32) -> Result<proto::ListReply, FleetError> {
        self.list_of(proto::ListRequest { limit, ended, prefix: String::new(), live: true }).await
    }

    async fn list_of(&self, request: proto::ListRequest) -> Result<proto::ListReply, FleetError> {
        let ask = |mut jobs: Jobs| {
            let request = request.clone();
            async move { jobs.list(request).await }
        };
        Ok(self.ask(Duration::ZERO, ask).await?.1)
    }

    /// The job whose id is, or begins with, this.
    ///
    /// # Errors
    /// If there is none or more than one, or nobody answers.
    pub async fn find(&self, text: &str) -> Result<JobId, FleetError> {
        if let Ok(job) = text.parse() {
            return Ok(job);
        }
        let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
        let wanted = plain(text);
        let (limit, prefix) = (ALIKE_MAX, wanted.clone());
        // Only the names matter.
        let list = proto::ListRequest { limit, ended: true, prefix, live: false };
        let list = self.list_of(list).await?;
        let all = list.jobs.iter().filter_map(|job| wire::job_from(&job.job).ok());
        let mut jobs: Vec<JobId> =
            all.filter(|job| plain(&job.to_string()).starts_with(&wanted)).collect();
        let prefix = text.to_owned();
        match (jobs.len(), jobs.pop()) {
            (1, Some(job)) if list.more == 0 => Ok(job),
            (_, None) => Err(FleetError::NoSuchJob { prefix }),
            (_, Some(last)) => {
                jobs.push(last);
                Err(FleetError::Ambiguous { prefix, more: list.more, jobs })
            }
        }
    }

    /// Ends a job as its plan says: with graceful stop and teardown. `now`, or said a second time:
    /// at once.
    ///
    /// # Errors
    /// If the job is unknown, or nobody can do it in time.
    pub async fn cancel(
        &self,
        job: JobId,
        reason: &str,
        now: bool,
    ) -> Result<proto::CancelReply, FleetError> {
        // One wish, however often it is sent: a manager that has not answered may have written it.
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| FleetError::Random)?;
        let (job, reason) = (wire::job_bytes(job), reason.to_owned());
        let request = proto::CancelRequest { job, reason, now, nonce: nonce.to_vec().into() };
        let ask = |mut jobs: Jobs| {
            let request = request.clone();
            async move { jobs.cancel(request).await }
        };
        Ok(self.ask(self.patience, ask).await?.1)
    }

    /// # Errors
    /// If the job is unknown or does not run, or nobody can do it in time.
    pub async fn steer(&self, job: JobId, how: &Steering) -> Result<proto::SteerReply, FleetError> {
        use proto::steer_request::{Scale, What};
        let scale = |workflow: &Option<String>, value| Scale {
            workflow: workflow.clone().unwrap_or_default(),
            value,
        };
        let what = match how {
            Steering::Pause => What::Pause(true),
            Steering::Resume => What::Resume(true),
            Steering::Vus { workflow, vus } => What::Vus(scale(workflow, f64::from(*vus))),
            Steering::Rate { workflow, per_second } => What::Rate(scale(workflow, *per_second)),
        };
        let request = proto::SteerRequest { job: wire::job_bytes(job), what: Some(what) };
        let ask = |mut jobs: Jobs| {
            let request = request.clone();
            async move { jobs.steer(request).await }
        };
        Ok(self.ask(self.patience, ask).await?.1)
    }

    /// # Errors
    /// If the job is unknown, or nobody answers.
    pub async fn logs(&self, job: JobId) -> Result<Vec<proto::AttemptLog>, FleetError> {
        let ask = move |mut jobs: Jobs| async move {
            jobs.logs(proto::JobRequest { job: wire::job_bytes(job) }).await
        };
        Ok(self.ask(Duration::ZERO, ask).await?.1.logs)
    }

    /// Lets a node finish what it runs, and take no more. Can be repeated, and then says how far it
    /// has come.
    ///
    /// # Errors
    /// If the node is unknown, or nobody can do it in time.
    pub async fn drain(&self, node: &str) -> Result<proto::DrainReply, FleetError> {
        let ask = |mut jobs: Jobs| {
            let request = proto::DrainRequest { node: node.to_owned() };
            async move { jobs.drain(request).await }
        };
        Ok(self.ask(self.patience, ask).await?.1)
    }

    /// Managers and workers, as the one that answers sees them.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn fleet(&self) -> Result<proto::FleetReply, FleetError> {
        let ask = |mut jobs: Jobs| async move { jobs.fleet(proto::FleetRequest {}).await };
        Ok(self.ask(Duration::ZERO, ask).await?.1)
    }

    /// Who keeps the ledger, as the one that answers knows it.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn managers(&self) -> Result<proto::ManagersReply, FleetError> {
        let ask = |mut jobs: Jobs| async move { jobs.managers(proto::ManagersRequest {}).await };
        Ok(self.ask(Duration::ZERO, ask).await?.1)
    }

    /// One step of a change of the managers; the id of the one concerned. Can be repeated.
    ///
    /// # Errors
    /// If it cannot be done, or nobody can do it in time.
    pub async fn change_managers(&self, step: &ManagerStep) -> Result<String, FleetError> {
        use proto::change_managers_request::Step;
        let step = match step {
            ManagerStep::Admit { address } => Step::Admit(address.clone()),
            ManagerStep::Promote { node } => Step::Promote(node.clone()),
            ManagerStep::Remove { node } => Step::Remove(node.clone()),
            ManagerStep::Limits { lease_ms, keep_jobs_ms, retries } => {
                Step::Limits(crate::wire::proto::SetLimits {
                    lease_ms: *lease_ms,
                    keep_jobs_ms: *keep_jobs_ms,
                    retries: *retries,
                })
            }
        };
        let request = proto::ChangeManagersRequest { step: Some(step) };
        let ask = |mut jobs: Jobs| {
            let request = request.clone();
            async move { jobs.change_managers(request).await }
        };
        Ok(self.ask_within(self.patience, CHANGE_WITHIN, ask).await?.1.node)
    }

    /// What happens in a job, from its beginning to its result. `views`: with snapshots for a
    /// dashboard.
    #[must_use]
    pub fn watch(&self, job: JobId, views: bool) -> JobWatch {
        JobWatch::new(self.clone(), job, views)
    }
}
