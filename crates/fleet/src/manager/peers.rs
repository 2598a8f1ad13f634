//! What managers ask of each other: to keep an owner's checkpoint, to give a new owner the newest one, what running
//! jobs have counted, to leave.

use std::sync::Arc;

use control::fleet::message::{Ask, Frames, FramesAnswer, Renew, Tell, Told};
use tonic::{Request, Response, Status};

use super::checkpoints::{Kept, Promised};
use super::{Shared, authority, breakers, office, relay, status};
use crate::wire::proto::desk_server::Desk;
use crate::wire::proto::{
    Checkpoint, CountsReply, CountsRequest, JobCounts, KeepReply, PromiseReply, PromiseRequest,
    RelayRequest, Sealed, relay_request::Kind,
};
use crate::wire::{self, job_from};

/// As many as a list has.
const COUNTS_MAX: usize = 1_000;

pub struct Service(pub Arc<Shared>);

#[tonic::async_trait]
impl Desk for Service {
    async fn keep(&self, request: Request<Checkpoint>) -> Result<Response<KeepReply>, Status> {
        authority::manager(&self.0, &request)?;
        let Checkpoint { job, epoch, number, content } = request.into_inner();
        let job = job_from(&job)?;
        let keeper = self.0.keeper.clone();
        let kept = tokio::task::spawn_blocking(move || keeper.keep(job, (epoch, number), &content));
        let kept = kept.await.map_err(|error| Status::internal(error.to_string()))?;
        let kept = kept.map_err(|error| Status::internal(format!("not written: {error}")))?;
        Ok(Response::new(KeepReply { kept }))
    }

    async fn promise(
        &self,
        request: Request<PromiseRequest>,
    ) -> Result<Response<PromiseReply>, Status> {
        authority::manager(&self.0, &request)?;
        let PromiseRequest { job, epoch } = request.into_inner();
        let id = job_from(&job)?;
        let keeper = self.0.keeper.clone();
        let promised = tokio::task::spawn_blocking(move || keeper.promise(id, epoch)).await;
        let promised = promised.map_err(|error| Status::internal(error.to_string()))?;
        let promised = promised.map_err(|error| Status::internal(format!("not read: {error}")))?;
        Ok(Response::new(match promised {
            Promised::Newest(Kept { place: (epoch, number), content, .. }) => {
                let newest = Checkpoint { job, epoch, number, content: content.into() };
                PromiseReply { newest: Some(newest), promised: 0 }
            }
            Promised::Refused { promise } => PromiseReply { newest: None, promised: promise },
        }))
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
            let desk = self.0.desk(job_from(&job)?);
            let counted = desk.and_then(|desk| *desk.counted.borrow());
            let counters = counted.map(|counted| status::counters(&counted));
            counts.extend(counters.map(|counters| JobCounts { job, counters: Some(counters) }));
        }
        Ok(Response::new(CountsReply { counts }))
    }

    async fn renewed(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let by = authority::manager(&self.0, &request)?;
        let renewed: Renew = wire::unseal(request.get_ref())?;
        if let Some(by) = by {
            relay::renewed_by(&self.0, renewed.worker, by);
        }
        relay::tell_desks(&self.0, &renewed);
        Ok(Response::new(wire::seal(&())?))
    }

    async fn relay(&self, request: Request<RelayRequest>) -> Result<Response<Sealed>, Status> {
        let by = authority::manager(&self.0, &request)?;
        let request = request.into_inner();
        let kind = request.kind();
        let worker = ledger::wire::node_from(&request.worker)
            .map_err(|_| Status::invalid_argument("which worker?"))?;
        let sealed = request.sealed.unwrap_or_default();
        let answer = match kind {
            Kind::Tell => {
                let tell: Tell = wire::unseal(&sealed)?;
                authority::may_tell(&*self.0.serving()?, worker, &tell).await?;
                let desk = tell.job().and_then(|job| self.0.desk(job));
                let told = desk.map(|desk| office::tell_desk(&desk, tell)).transpose()?;
                wire::seal(&told.unwrap_or(Told::NotOwner { owner: None }))?
            }
            Kind::Frames => {
                let frames: Frames = wire::unseal(&sealed)?;
                if frames.worker != worker {
                    return Err(Status::permission_denied("a worker speaks for itself only"));
                }
                match self.0.desk(frames.job) {
                    Some(desk) => wire::seal(&office::frames_to_desk(&desk, frames).await?)?,
                    None => wire::seal(&FramesAnswer::NotOwner { owner: None })?,
                }
            }
            Kind::Ask => {
                let ask: Ask = wire::unseal(&sealed)?;
                let parts = self.0.serving()?;
                let answer = breakers::ask_for(&self.0, &parts, worker, &ask, by).await;
                let answer = answer.ok_or_else(|| Status::unavailable("it does not answer"))?;
                wire::seal(&answer)?
            }
            Kind::Unspecified => return Err(Status::invalid_argument("what is passed on?")),
        };
        Ok(Response::new(answer))
    }

    async fn leave(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        authority::manager(&self.0, &request)?;
        self.0.told_to_leave.send_replace(true);
        Ok(Response::new(wire::seal(&())?))
    }
}
