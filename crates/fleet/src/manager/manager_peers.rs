//! What managers ask of each other: to keep an owner's checkpoint, to give a new owner the newest
//! one, what running jobs have counted, to leave.

use std::pin::Pin;
use std::sync::Arc;

use control::message::{
    FrameBatch, FrameBatchAck, RenewRequest, ReportAck, WorkerReport, WorkerRequest,
};
use fence::JobId;
use futures_util::{Stream, stream};
use tonic::{Request, Response, Status, Streaming};

use super::checkpoints::{CheckpointError, Kept, PromiseAnswer};
use super::voters::voters_in;
use super::{
    Shared, authority, breakers, checkpoint_parts, effects, lock, relay, status, worker_reports,
};
use crate::wire::proto::manager_peers_server::ManagerPeers;
use crate::wire::proto::{
    self, Checkpoint, CountsReply, CountsRequest, Envelope, JobCounts, PromiseReply,
    PromiseRequest, RelayRequest, StoreCheckpointReply, relay_request::Kind,
};
use crate::wire::{self, job_from};

/// As many as a list has.
const COUNTS_MAX: usize = 1_000;

pub struct Service(pub Arc<Shared>);

impl Service {
    /// Refuses whoever counts its majority by voters that this manager knows to be replaced. A
    /// change of the voters is on a majority of the old ones when it counts, so no majority of them
    /// takes anything after it.
    fn by_present_voters(&self, theirs: Option<proto::Voters>) -> Result<(), Status> {
        let known = self.0.serving()?.ledger.status().membership;
        if voters_in(theirs) < known {
            return Err(Status::failed_precondition("the managers that vote have changed since"));
        }
        Ok(())
    }

    /// A damaged promise is made anew for the next call; this one has to be made again.
    async fn not_kept(&self, job: JobId, error: &CheckpointError) -> Status {
        if let (CheckpointError::PromiseLost, Some(parts)) = (error, self.0.parts()) {
            effects::restore(&self.0, &parts, job).await;
        }
        Status::unavailable(error.to_string())
    }
}

#[tonic::async_trait]
impl ManagerPeers for Service {
    async fn store_checkpoint(
        &self,
        request: Request<Streaming<Checkpoint>>,
    ) -> Result<Response<StoreCheckpointReply>, Status> {
        authority::manager(&self.0, &request)?;
        let mut parts = request.into_inner();
        let none = || Status::invalid_argument("a checkpoint without parts");
        let first = parts.message().await?.ok_or_else(none)?;
        self.by_present_voters(first.voters)?;
        let _room = self.0.checkpoints.room(first.bytes).await?;
        let content = checkpoint_parts::gather(&first, parts).await?;
        let Checkpoint { job, epoch, number, voters, .. } = first;
        let job = job_from(&job)?;
        let checkpoints = self.0.checkpoints.clone();
        let kept = self.0.host.blocking(move || checkpoints.keep(job, (epoch, number), &content));
        let kept = kept.await.map_err(|error| Status::internal(error.to_string()))?;
        match kept {
            Ok(kept) => {
                // They may have changed while it was written.
                self.by_present_voters(voters)?;
                Ok(Response::new(StoreCheckpointReply { kept }))
            }
            Err(error) => Err(self.not_kept(job, &error).await),
        }
    }

    type PromiseCheckpointStream = Pin<Box<dyn Stream<Item = Result<PromiseReply, Status>> + Send>>;

    async fn promise_checkpoint(
        &self,
        request: Request<PromiseRequest>,
    ) -> Result<Response<Self::PromiseCheckpointStream>, Status> {
        authority::manager(&self.0, &request)?;
        let PromiseRequest { job, epoch, voters } = request.into_inner();
        self.by_present_voters(voters)?;
        let id = job_from(&job)?;
        let checkpoints = self.0.checkpoints.clone();
        let promised = self.0.host.blocking(move || checkpoints.promise(id, epoch)).await;
        let promised = promised.map_err(|error| Status::internal(error.to_string()))?;
        let promised = match promised {
            Ok(promised) => promised,
            Err(error) => return Err(self.not_kept(id, &error).await),
        };
        let reply = match promised {
            PromiseAnswer::Newest(Kept { place: (epoch, number), content }) => {
                let first = Checkpoint { job, epoch, number, ..Checkpoint::default() };
                let part =
                    |newest| PromiseReply { newest: Some(newest), ..PromiseReply::default() };
                let parts =
                    checkpoint_parts::split(first, content).map(move |newest| Ok(part(newest)));
                return Ok(Response::new(Box::pin(stream::iter(parts))));
            }
            PromiseAnswer::Damaged => PromiseReply { damaged: true, ..PromiseReply::default() },
            PromiseAnswer::Refused { promise } => {
                PromiseReply { promised: promise, ..PromiseReply::default() }
            }
        };
        Ok(Response::new(Box::pin(stream::once(std::future::ready(Ok(reply))))))
    }

    async fn settled(
        &self,
        request: Request<proto::SettledRequest>,
    ) -> Result<Response<proto::SettledReply>, Status> {
        authority::manager(&self.0, &request)?;
        let asked = voters_in(request.into_inner().voters);
        let settled = lock(&self.0.kept_by).clone();
        let led = lock(&self.0.job_tasks);
        let jobs = settled.into_iter().filter(|(job, by)| *by >= asked && led.contains_key(job));
        let jobs = jobs.map(|(job, _)| wire::job_bytes(job)).collect();
        Ok(Response::new(proto::SettledReply { jobs }))
    }

    async fn counts(
        &self,
        request: Request<CountsRequest>,
    ) -> Result<Response<CountsReply>, Status> {
        authority::manager(&self.0, &request)?;
        let asked = request.into_inner().jobs;
        if asked.len() > COUNTS_MAX {
            let why = format!("{} jobs at once; at most {COUNTS_MAX} are counted", asked.len());
            return Err(Status::invalid_argument(why));
        }
        let mut counts = Vec::new();
        for job in asked {
            let job_task = self.0.job_task(job_from(&job)?);
            let summary = job_task.map(|job_task| job_task.summary.borrow().clone());
            counts.extend(summary.map(|summary| JobCounts {
                job,
                counters: summary.counted.map(|counted| status::counters(&counted)),
                waits_for: summary.waits_for.unwrap_or_default(),
            }));
        }
        Ok(Response::new(CountsReply { counts }))
    }

    async fn renewed(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let by = authority::manager(&self.0, &request)?;
        let renewed: RenewRequest = wire::unseal(request.get_ref())?;
        if let Some(by) = by {
            lock(&self.0.renewers).note(renewed.worker, by);
        }
        relay::tell_job_tasks(&self.0, &renewed);
        Ok(Response::new(wire::seal(&())?))
    }

    async fn relay(&self, request: Request<RelayRequest>) -> Result<Response<Envelope>, Status> {
        let by = authority::manager(&self.0, &request)?;
        let request = request.into_inner();
        let kind = request.kind();
        let worker = ledger::wire::node_from(&request.worker)
            .map_err(|_| Status::invalid_argument("which worker?"))?;
        let sealed = request.sealed.unwrap_or_default();
        let answer = match kind {
            Kind::WorkerReport => {
                let tell: WorkerReport = wire::unseal(&sealed)?;
                authority::may_tell(&*self.0.serving()?, worker, &tell).await?;
                let job_task = tell.job().and_then(|job| self.0.job_task(job));
                let told = job_task
                    .map(|job_task| worker_reports::hand_to_job_task(&job_task, tell))
                    .transpose()?;
                wire::seal(&told.unwrap_or(ReportAck::NotOwner { owner: None }))?
            }
            Kind::FrameBatch => {
                let frames: FrameBatch = wire::unseal(&sealed)?;
                if frames.worker != worker {
                    return Err(Status::permission_denied("a worker speaks for itself only"));
                }
                match self.0.job_task(frames.job) {
                    Some(job_task) => {
                        wire::seal(&worker_reports::frames_to_desk(&job_task, frames).await?)?
                    }
                    None => wire::seal(&FrameBatchAck::NotOwner { owner: None })?,
                }
            }
            Kind::WorkerRequest => {
                let ask: WorkerRequest = wire::unseal(&sealed)?;
                let parts = self.0.serving()?;
                let answer = breakers::ask_for(&self.0, &parts, worker, &ask, by).await;
                let answer = answer.ok_or_else(|| Status::unavailable("it does not answer"))?;
                wire::seal(&answer)?
            }
            Kind::Unspecified => return Err(Status::invalid_argument("what is passed on?")),
        };
        Ok(Response::new(answer))
    }

    async fn leave(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        authority::manager(&self.0, &request)?;
        self.0.told_to_leave.send_replace(true);
        Ok(Response::new(wire::seal(&())?))
    }
}
