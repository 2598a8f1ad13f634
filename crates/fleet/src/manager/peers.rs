//! What managers ask of each other: to keep an owner's checkpoint, to give a new owner the newest one, to leave.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use trust::Role;

use super::Shared;
use super::checkpoints::{Kept, Promised};
use crate::wire::proto::desk_server::Desk;
use crate::wire::proto::{Checkpoint, KeepReply, PromiseReply, PromiseRequest, Sealed};
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

    async fn promise(
        &self,
        request: Request<PromiseRequest>,
    ) -> Result<Response<PromiseReply>, Status> {
        caller(&request, &[Role::Manager])?;
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

    async fn leave(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        caller(&request, &[Role::Manager])?;
        self.0.told_to_leave.send_replace(true);
        Ok(Response::new(wire::seal(&())?))
    }
}
