//! How a job task comes to be: everything that is known of its job is fetched, then the owner
//! adopts it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control::owner::{Adoption, Owner, Settings, decode_report};
use control::statistics::Statistics;
use fence::{Epoch, JobId};
use ledger::ReadLevel;
use ledger_state::{BlobRef, Command, Outcome};
use stats::RunState;
use stats::feed::Feed;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Input, JobSummary, JobTask, Lookers};
use crate::bundle::BundleHead;
use crate::manager::effects::Found;
use crate::manager::{Shared, effects, now, roster};

/// What a job task is made from.
pub(super) struct Start {
    pub shared: Arc<Shared>,
    pub job: JobId,
    pub epoch: Epoch,
    pub inbox: mpsc::Sender<Input>,
    pub feed: Arc<Mutex<Feed>>,
    pub newest: watch::Sender<u64>,
    pub lookers: Lookers,
    pub summaries: watch::Sender<JobSummary>,
}

/// A job that comes when a worker has just joined waits so long for its first heartbeat, rather
/// than run without it.
const HEARTBEATS_WITHIN: Duration = Duration::from_secs(2);
/// Who came longer ago and has still said nothing cannot be reached, and no job waits for it.
const JUST_JOINED: Duration = Duration::from_secs(10);

/// A job's state that could not be read is read again after this.
const READ_AGAIN: Duration = Duration::from_millis(100);
/// A plan that nobody has had for so long, while the ledger could be read, is lost: it was on a
/// majority of the managers before the job was created.
const PLAN_WITHIN: Duration = Duration::from_secs(300);
/// How often a job whose plan is looked for is looked at itself: it may be cancelled.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// What an attempt has reported is waited for so long, for each. Without it the result says what is
/// missing.
const REPORT_WITHIN: Duration = Duration::from_secs(30);

impl Start {
    async fn wait_for_heartbeats(&self) -> Option<()> {
        let until = tokio::time::Instant::now() + HEARTBEATS_WITHIN;
        while roster::is_incomplete(&self.shared.parts()?.member.view(), JUST_JOINED)
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(())
    }

    /// None: it is no longer ours, or can never be run.
    pub(super) async fn run(self) -> Option<JobTask> {
        let (job, now_ms, limits) = loop {
            let parts = self.shared.parts()?;
            let read = parts.ledger.read(ReadLevel::Strong, Duration::from_secs(5), |state| {
                (state.job(self.job).cloned(), state.now_ms(), state.limits().clone())
            });
            match read.await {
                Ok(read) => break read.value,
                Err(error) => tracing::debug!(%error, "a job's state is waited for"),
            }
            // A ledger without a majority refuses at once.
            tokio::time::sleep(READ_AGAIN).await;
        };
        let job = job.filter(|job| job.epoch == Some(self.epoch) && job.end.is_none())?;
        let first = self.plan(&job.plan).await?;
        let bundle = match BundleHead::decode(&first) {
            Ok(bundle) => bundle,
            Err(error) => {
                self.fail(error.to_string()).await;
                return None;
            }
        };
        drop(first);
        let checkpoint = match job.shards.is_empty() {
            true => Found::default(),
            false => effects::find(&self.shared, self.job, self.epoch.number).await?,
        };
        let mut unsure: Vec<String> = Vec::new();
        if checkpoint.unsure {
            unsure.push(
                "checkpoints of the statistics were damaged: counts may be missing".to_owned(),
            );
        }
        let mut reports = Vec::new();
        for end in job.attempts().filter_map(|record| record.end.as_ref()) {
            if let Some(blob) = &end.result {
                match effects::get_within(&self.shared, blob, REPORT_WITHIN).await? {
                    Some(content) => reports.extend(decode_report(&content)),
                    None => unsure
                        .push("the report of an attempt is lost: no manager has it".to_owned()),
                }
            }
        }
        if job.shards.is_empty() {
            self.wait_for_heartbeats().await?;
        }
        let workers = self.shared.workers(&*self.shared.parts()?);
        let mut seed = [0; 8];
        // Not a secret, but nobody should foresee it; zero would do at worst.
        let _ = getrandom::fill(&mut seed);
        let adoption = Adoption {
            job: &job,
            epoch: self.epoch,
            now_ms,
            manifest: bundle.manifest.clone(),
            settings: Settings {
                lease: fence::LeaseTerms::new(Duration::from_millis(limits.lease_ms)),
                retries: limits.retries,
                ..self.shared.settings
            },
            seed: u64::from_le_bytes(seed),
            workers,
        };
        let at = now();
        let (mut owner, effects) = match Owner::adopt(adoption, at) {
            Ok(adopted) => adopted,
            Err(error) => {
                self.fail(format!("the job cannot be led: {error:?}")).await;
                return None;
            }
        };
        let clock = owner.clock(at);
        let statistics = match bundle.schema() {
            Ok(schema) => {
                let restored = Statistics::new(
                    schema.clone(),
                    &bundle.thresholds,
                    checkpoint.checkpoint.as_deref(),
                    clock,
                );
                restored.or_else(|error| {
                    tracing::warn!(job = %self.job, %error, "the last owner's statistics cannot be read");
                    unsure.push(format!("the last owner's statistics cannot be read: {error}"));
                    Statistics::new(schema, &bundle.thresholds, None, clock)
                })
            }
            Err(error) => Err(error),
        };
        let mut statistics = match statistics {
            Ok(statistics) => statistics,
            Err(error) => {
                self.fail(format!("the job's statistics cannot be counted: {error}")).await;
                return None;
            }
        };
        statistics.learn(&job, &reports, clock);
        owner.recall(statistics.memory());
        unsure.into_iter().for_each(|what| statistics.note_incomplete(what));
        let mut job_task = JobTask {
            shared: self.shared,
            job: self.job,
            epoch: self.epoch,
            inbox: self.inbox,
            feed: self.feed,
            newest: self.newest,
            lookers: self.lookers,
            look_again: Instant::now(),
            summaries: self.summaries,
            summed: Instant::now(),
            owner,
            bundle,
            statistics: Some(statistics),
            effects: JoinSet::new(),
            steers: BTreeMap::new(),
            asked: 0,
            state: RunState::Preparing,
            broken: false,
            told_undecided: false,
            paused: job.is_paused(),
            result: None,
            voters: (Vec::new(), (0, 0)),
            trouble: None,
            deposed: false,
        };
        job_task.sum();
        tracing::info!(job = %job_task.job, epoch = %job_task.epoch, "led here");
        job_task.carry_out(effects);
        let told = job_task.statistics.as_ref().map(|statistics| statistics.told(job_task.job));
        told.into_iter().flatten().for_each(|event| job_task.step(event));
        Some(job_task)
    }

    /// The beginning of the job's bundle. A job whose plan is lost ends, at once if it is
    /// cancelled.
    async fn plan(&self, plan: &BlobRef) -> Option<Vec<u8>> {
        let until = Instant::now() + PLAN_WITHIN;
        loop {
            if let Some(first) = effects::head_within(&self.shared, plan, LOOK_EVERY).await? {
                return Some(first);
            }
            let parts = self.shared.parts()?;
            let read = parts.ledger.read(ReadLevel::Strong, LOOK_EVERY, |state| {
                let job = state.job(self.job)?;
                let mine = job.epoch == Some(self.epoch) && job.end.is_none();
                mine.then(|| job.cancel.is_some())
            });
            // Without the ledger nothing is known, and the copies may be where it is.
            let Ok(read) = read.await else { continue };
            let lost = "the job's plan is lost: no manager that was reached has it";
            if read.value? {
                self.end(Outcome::Cancelled, format!("cancelled; {lost}")).await;
                return None;
            }
            if Instant::now() >= until {
                self.end(Outcome::Failed, lost.to_owned()).await;
                return None;
            }
        }
    }

    /// It can never run: its outcome is written, so that nobody waits for it.
    async fn fail(&self, detail: String) {
        self.end(Outcome::Failed, detail).await;
    }

    async fn end(&self, outcome: Outcome, detail: String) {
        let (job, epoch) = (self.job, self.epoch);
        tracing::warn!(%job, detail, "a job cannot be run");
        let detail = detail.chars().take(1_000).collect();
        let command = Command::FinishJob { job, epoch, outcome, detail };
        effects::commit(Arc::clone(&self.shared), self.inbox.clone(), 0, command).await;
    }
}
