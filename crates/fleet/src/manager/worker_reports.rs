//! What workers say to a manager: any of them, about jobs that it owns or not.

use std::sync::Arc;
use std::time::Duration;

use control::message::{FrameBatch, FrameBatchAck, RenewRequest, ReportAck, WorkerReport};
use control::relay::Way;
use fence::canary::{self, Canary};
use fence::{JobId, NodeId};
use ledger::ReadLevel;
use ledger_state::State;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use trust::Role;

use super::job_task::{Input, JobTaskHandle};
use super::transfers::{self, Chunks};
use super::{Shared, addenda, authority, lock, relay};
use crate::wire::proto::relay_request::Kind;
use crate::wire::proto::worker_reports_server::WorkerReports;
use crate::wire::proto::{BlobRef, Envelope, GroupReply, GroupRequest};
use crate::wire::{blob_in, caller, seal, unseal};

/// For a read that a majority has to confirm.
const READ_WITHIN: Duration = Duration::from_millis(1_500);
/// For a job task to answer; a worker tries again.
const JOB_TASK_WITHIN: Duration = Duration::from_millis(1_500);

pub struct Service(pub Arc<Shared>);

impl Service {
    fn worker<T>(&self, request: &Request<T>) -> Result<Option<NodeId>, Status> {
        Ok(caller(request, &[Role::Worker])?.map(|identity| identity.node))
    }

    /// Where words on a job go that is not led here.
    async fn way(&self, job: JobId) -> Result<Way, Status> {
        let parts = self.0.serving()?;
        let me = parts.ledger.id();
        let find = |state: &State| Way::of(state, job, me);
        let known = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, find).await;
        let known = known.map_err(|error| Status::unavailable(error.to_string()))?.value;
        if known != Way::Unknown {
            return Ok(known);
        }
        // Perhaps it has not arrived here yet.
        let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, find).await;
        Ok(read.map_err(|error| Status::unavailable(error.to_string()))?.value)
    }

    /// Passes a worker's words on to the owner of its job.
    async fn relay(
        &self,
        owner: NodeId,
        worker: Option<NodeId>,
        kind: Kind,
        sealed: Envelope,
    ) -> Option<Envelope> {
        let parts = self.0.parts()?;
        relay::to_owner(&parts, owner, worker?, kind, sealed).await
    }
}

/// What a worker tells the owner of its job, which is led here.
pub fn hand_to_job_task(
    job_task: &JobTaskHandle,
    report: WorkerReport,
) -> Result<ReportAck, Status> {
    if !job_task.send(Input::WorkerReport(Box::new(report))) {
        return Err(Status::resource_exhausted("the job's owner is busy; try again"));
    }
    Ok(ReportAck::Taken)
}

/// Frames for the owner of their job, which is led here.
pub async fn frames_to_desk(
    job_task: &JobTaskHandle,
    frames: FrameBatch,
) -> Result<FrameBatchAck, Status> {
    let (answer, answered) = oneshot::channel();
    if job_task.send(Input::FrameBatch(Box::new(frames), answer))
        && let Ok(Ok(answer)) = timeout(JOB_TASK_WITHIN, answered).await
    {
        return Ok(answer);
    }
    Err(Status::unavailable("the job's owner is busy or has just gone; try again"))
}

fn foreign(shared: &Shared) -> Status {
    authority::refused(shared, "foreign_attempt");
    Status::permission_denied("a worker speaks for itself only: the certificate says somebody else")
}

#[tonic::async_trait]
impl WorkerReports for Service {
    async fn report(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let node = self.worker(&request)?;
        let report: WorkerReport = unseal(request.get_ref())?;
        if let Some(node) = node {
            self.0.breakers.heard(node);
            authority::may_tell(&*self.0.serving()?, node, &report).await?;
        }
        let Some(job) = report.job() else {
            // It drains: everybody here who might want it hears of it.
            for (_, job_task) in self.0.job_tasks() {
                job_task.send(Input::WorkerReport(Box::new(report.clone())));
            }
            return Ok(Response::new(seal(&ReportAck::Taken)?));
        };
        let told = match self.0.job_task(job) {
            Some(job_task) => hand_to_job_task(&job_task, report)?,
            None => match self.way(job).await? {
                Way::Nobody => ReportAck::NotOwner { owner: None },
                Way::Owner(owner) => {
                    let sealed = request.into_inner();
                    if let Some(answer) = self.relay(owner, node, Kind::WorkerReport, sealed).await
                    {
                        return Ok(Response::new(answer));
                    }
                    ReportAck::NotOwner { owner: Some(owner) }
                }
                Way::Ended => match report {
                    WorkerReport::Ended(report) => addenda::take(&self.0, node, *report).await?,
                    _ => ReportAck::Taken,
                },
                Way::Unknown => ReportAck::UnknownJob,
            },
        };
        Ok(Response::new(seal(&told)?))
    }

    async fn push_frames(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let node = self.worker(&request)?;
        let frames: FrameBatch = unseal(request.get_ref())?;
        if node.is_some_and(|node| node != frames.worker) {
            return Err(foreign(&self.0));
        }
        let job = frames.job;
        if let Some(job_task) = self.0.job_task(job) {
            return Ok(Response::new(seal(&frames_to_desk(&job_task, frames).await?)?));
        }
        let answer = match self.way(job).await? {
            Way::Nobody => FrameBatchAck::NotOwner { owner: None },
            Way::Owner(owner) => {
                let sealed = request.into_inner();
                if let Some(answer) = self.relay(owner, node, Kind::FrameBatch, sealed).await {
                    return Ok(Response::new(answer));
                }
                FrameBatchAck::NotOwner { owner: Some(owner) }
            }
            Way::Ended | Way::Unknown => FrameBatchAck::UnknownJob,
        };
        Ok(Response::new(seal(&answer)?))
    }

    async fn renew(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let node = self.worker(&request)?;
        let renew: RenewRequest = unseal(request.get_ref())?;
        if node.is_some_and(|node| node != renew.worker) {
            return Err(foreign(&self.0));
        }
        self.0.breakers.heard(renew.worker);
        let parts = self.0.serving()?;
        let decide = |state: &State| renew.decide(state);
        let level = match canary::active(Canary::StaleRenewal) {
            true => ReadLevel::Eventual,
            false => ReadLevel::Strong,
        };
        let read = parts.ledger.read(level, READ_WITHIN, decide).await;
        {
            let mut undecided = lock(&self.0.undecided);
            *undecided = match &read {
                Ok(_) => None,
                Err(_) => undecided.or_else(|| Some(tokio::time::Instant::now())),
            };
        }
        // Without a majority nothing is decided, least of all a refusal.
        let read = read.map_err(|error| Status::unavailable(error.to_string()))?;
        relay::notice(&self.0, &parts, &renew, &read.value);
        Ok(Response::new(seal(&read.value)?))
    }

    async fn group(&self, request: Request<GroupRequest>) -> Result<Response<GroupReply>, Status> {
        self.worker(&request)?;
        let status = self.0.serving()?.ledger.status();
        let Some(group) = status.group else { return Ok(Response::new(GroupReply::default())) };
        let members = status.voters.iter().chain(&status.learners);
        Ok(Response::new(GroupReply {
            cluster: group.cluster,
            generation: group.generation,
            members: members.map(|(node, _)| ledger::wire::node_bytes(*node)).collect(),
        }))
    }

    type GetBlobStream = Chunks;

    async fn get_blob(&self, request: Request<BlobRef>) -> Result<Response<Chunks>, Status> {
        let node = self.worker(&request)?;
        let blob = blob_in(request.get_ref())?;
        let parts = self.0.serving()?;
        if let Some(node) = node {
            authority::may_fetch(&parts, node, &blob).await?;
        }
        Ok(Response::new(transfers::download(&self.0, node, &blob).await?))
    }
}
