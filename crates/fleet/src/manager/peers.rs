//! What managers ask of each other: to keep an owner's checkpoint, to give the newest one, to leave.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use trust::Role;

use super::Shared;
use super::checkpoints::Kept;
use crate::wire::proto::desk_server::Desk;
use crate::wire::proto::{Checkpoint, JobRequest, KeepReply, Sealed};
use crate::wire::{self, caller, job_from};

pub struct Service(pub Arc<Shared>);

#[tonic::async_trait]
impl Desk for Service {
    async fn keep(&self, request: Request<Checkpoint>) -> Result<Response<KeepReply>, Status> {
        caller(&request, &[Role::Manager])?;
        let Checkpoint { job, epoch, number, content } = request.into_inner();
        let job = job_from(&job)?;
        let keeper = self.0.keeper.clone();
        let kept = tokio::task::spawn_blocking(move || keeper.keep(job, (epoch, number), &content));
        let kept = kept.await.map_err(|error| Status::internal(error.to_string()))?;
        let kept = kept.map_err(|error| Status::internal(format!("not written: {error}")))?;
        Ok(Response::new(KeepReply { kept }))
    }

    async fn find(&self, request: Request<JobRequest>) -> Result<Response<Checkpoint>, Status> {
        caller(&request, &[Role::Manager])?;
        let job = job_from(&request.get_ref().job)?;
        let keeper = self.0.keeper.clone();
        let found = tokio::task::spawn_blocking(move || keeper.read(job)).await;
        let found = found.map_err(|error| Status::internal(error.to_string()))?;
        let found = found.map_err(|error| Status::internal(format!("not read: {error}")))?;
        let job = wire::job_bytes(job);
        Ok(Response::new(match found {
            Some(Kept { place: (epoch, number), content }) => {
                Checkpoint { job, epoch, number, content: content.into() }
            }
            None => Checkpoint { job, ..Checkpoint::default() },
        }))
    }

    async fn leave(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        caller(&request, &[Role::Manager])?;
        self.0.told_to_leave.send_replace(true);
        Ok(Response::new(wire::seal(&())?))
    }
}
