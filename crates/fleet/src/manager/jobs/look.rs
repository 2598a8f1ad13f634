//! What people see of jobs and nodes: status, lists, results, logs.

use control::owner::{blob_of, decode_report};
use engine::secrets::mask_credentials;
use fence::{JobId, NodeId};
use ledger::ReadLevel;
use ledger_state::{AttemptRecord, BlobRef, Counters, Job};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use trust::Role;

use super::{BLOB_WITHIN, READ_WITHIN, Service, counts, unavailable};
use crate::manager::job_task::Input;
use crate::manager::transfers::{self, Chunks};
use crate::manager::{addenda, fleet_view, status};
use crate::wire::proto::{self, JobStatus};
use crate::wire::{job_bytes, job_from};

/// Jobs in one list.
const LIST_MAX: u32 = 1_000;

/// A job in a list.
struct Line {
    job: JobId,
    status: JobStatus,
    /// What its ended attempts have counted.
    ended: Counters,
    /// Whom to ask how it goes on.
    owner: Option<NodeId>,
}

impl Service {
    pub(super) async fn status(
        &self,
        request: Request<proto::StatusRequest>,
    ) -> Result<Response<JobStatus>, Status> {
        let who = self.who(&request)?;
        let job = job_from(&request.get_ref().job)?;
        let look =
            |known: &Job, now_ms| (status::whole_of_ledger(job, known, now_ms), known.totals);
        let (mut known, ended) = self.job(job, look).await?;
        if let Some(job_task) = self.0.job_task(job) {
            status::count(&mut known, &ended, &job_task.summary.borrow());
            let (answer, details) = oneshot::channel();
            if job_task.send(Input::Status(answer))
                && let Ok(Ok(details)) = timeout(READ_WITHIN, details).await
            {
                return Ok(Response::new(status::join(known, details.status)));
            }
        } else if let Some(mut owner) = self.elsewhere(who.as_ref(), job).await? {
            let asked = owner.status(proto::StatusRequest { job: job_bytes(job) });
            if let Ok(Ok(answer)) = timeout(READ_WITHIN, asked).await {
                return Ok(answer);
            }
        }
        Ok(Response::new(known))
    }

    pub(super) async fn list(
        &self,
        request: Request<proto::ListRequest>,
    ) -> Result<Response<proto::ListReply>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::ListRequest { limit, ended, prefix, live } = request.into_inner();
        let limit = if limit == 0 { 100 } else { limit.min(LIST_MAX) } as usize;
        let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, |state| {
            let begins = |id: JobId| format!("{:032x}", id.0).starts_with(&prefix);
            let wanted = state.jobs().filter(|(id, job)| {
                (ended || job.end.is_none()) && (prefix.is_empty() || begins(*id))
            });
            // The newest of them, before anything is written out: there may be many thousands.
            let mut newest: Vec<(JobId, &Job)> = wanted.collect();
            newest.sort_by_key(|(_, job)| std::cmp::Reverse(job.created.number));
            let more = newest.len().saturating_sub(limit);
            newest.truncate(limit);
            let line = |(id, job): (JobId, &Job)| Line {
                job: id,
                status: status::of_ledger(id, job, state.now_ms()),
                ended: job.totals,
                owner: job.owner.filter(|_| job.end.is_none()).map(|owner| owner.node),
            };
            (newest.into_iter().map(line).collect::<Vec<Line>>(), more)
        });
        let (mut lines, more) = read.await.map_err(|error| unavailable(&error))?.value;
        if live {
            let led = lines.iter().filter_map(|line| Some((line.job, line.owner?)));
            let led: Vec<_> = led.collect();
            let counted = counts::gather(&self.0, &parts, &led).await;
            for Line { job, status, ended, .. } in &mut lines {
                if let Some(summary) = counted.get(job) {
                    status::count(status, ended, summary);
                }
            }
        }
        let jobs = lines.into_iter().map(|line| line.status).collect();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        Ok(Response::new(proto::ListReply { jobs, more }))
    }

    pub(super) async fn result(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<Chunks>, Status> {
        let who = self.who(&request)?;
        let job = job_from(&request.get_ref().job)?;
        let look = |job: &Job, _| {
            let outcome = job.end.as_ref().map(|end| end.outcome);
            (job.result, outcome, addenda::of_job(job))
        };
        let (result, ended, addenda) = self.job(job, look).await?;
        let Some((blob, outcome)) = result.zip(ended) else {
            return Err(Status::failed_precondition(if ended.is_some() {
                "the job ended without a result; `volley status` says why"
            } else {
                "the job is still running and has no result yet; `volley watch` follows it"
            }));
        };
        let node = who.map(|who| who.node);
        if outcome == ledger_state::Outcome::Cancelled || !addenda.is_empty() {
            // Its owner may have found another one before the cancel came; and workers may have
            // come back since.
            let parts = self.0.serving()?;
            let _room = self.0.transfers.room(&parts, node, blob.bytes).await?;
            let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
            let content = content.map_err(|error| unavailable(&error))?;
            let content = addenda::amended(status::as_decided(content, outcome), addenda);
            return Ok(Response::new(transfers::small(&blob_of(&content), content)));
        }
        let chunks = transfers::download(&self.0, node, &blob).await?;
        Ok(Response::new(chunks))
    }

    pub(super) async fn logs(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::LogsReply>, Status> {
        let who = self.who(&request)?;
        let id = job_from(&request.get_ref().job)?;
        let parts = self.0.serving()?;
        let (plan, ends) = self
            .job(id, |job, _| {
                // A worker's own word says more than what its owner had written for it.
                let late = |record: &AttemptRecord| record.addendum.as_ref()?.result;
                let end = |record: &AttemptRecord| record.end.as_ref()?.result;
                let last = |record| late(record).or_else(|| end(record));
                let ends: Vec<BlobRef> = job.attempts().filter_map(last).collect();
                (job.plan, ends)
            })
            .await?;
        let bundle = self.head_of(&plan).await?;
        let mut logs = Vec::new();
        let peer = who.map(|who| who.node);
        for blob in ends {
            let _room = self.0.transfers.room(&parts, peer, blob.bytes).await?;
            let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
            let content = content.map_err(|error| unavailable(&error))?;
            let Ok(report) = decode_report(&content) else { continue };
            let workflow = bundle.manifest.workflows.get(report.shard.workflow.0 as usize);
            logs.push(proto::AttemptLog {
                workflow: workflow.map_or("setup and teardown", |part| &part.name).to_owned(),
                shard: report.shard.shard,
                attempt: report.attempt.0,
                worker: report.worker.to_string(),
                status: proto::AttemptStatus::from(report.status).into(),
                error: mask_credentials(report.error.unwrap_or_default()),
                text: mask_credentials(report.log),
                counters: Some(status::counters(&report.counters)),
            });
        }
        Ok(Response::new(proto::LogsReply { logs }))
    }

    pub(super) async fn fleet(
        &self,
        request: Request<proto::FleetRequest>,
    ) -> Result<Response<proto::FleetReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let owned = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, |state| {
            let live = state.active_jobs();
            live.filter_map(|(_, job)| job.owner.map(|owner| owner.node)).collect::<Vec<_>>()
        });
        let owned = owned.await.map_err(|error| unavailable(&error))?.value;
        let mut reply = fleet_view::here(&self.0, &parts, &owned);
        if who.is_none_or(|who| who.role != Role::Manager) {
            fleet_view::everywhere(&parts, &mut reply).await;
        }
        Ok(Response::new(reply))
    }
}
