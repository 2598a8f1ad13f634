//! What clients ask of a manager. What only a job's owner knows is asked there and passed on.

mod counts;
mod follow;
mod group;
mod look;
mod rights;
mod steer;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use fence::JobId;
use ledger::ReadLevel;
use ledger_state::{BlobRef, Job};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use trust::{Identity, Role};

use super::transfers::Chunks;
use super::{Shared, authority, effects};
use crate::bundle::{BundleHead, HEAD_BYTES_MAX};
use crate::wire::caller;
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::proto::jobs_server::Jobs;
use crate::wire::proto::{self, JobStatus};

/// A minority says so within a second (and a little for the way).
const READ_WITHIN: Duration = Duration::from_millis(900);
const WRITE_WITHIN: Duration = Duration::from_secs(5);
const BLOB_WITHIN: Duration = Duration::from_secs(25);
const JOB_TASK_WITHIN: Duration = Duration::from_secs(5);

/// The upload of a plan with its files takes as long as it takes; its handler does not wait for a
/// silent client.
pub const PUT_PATH: &str = "/volley.fleet.v1.Jobs/Put";

pub struct Service(pub Arc<Shared>);

fn unavailable(error: &dyn std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn unknown(job: JobId) -> Status {
    Status::not_found(format!(
        "no job {job} is known here; ended jobs are forgotten after a while (`volley jobs --ended` lists them)"
    ))
}

impl Service {
    fn who<T>(&self, request: &Request<T>) -> Result<Option<Identity>, Status> {
        let who = caller(request, &[Role::Client, Role::Gate, Role::Manager])?;
        if let Some(who) = who.as_ref().filter(|who| who.role == Role::Manager) {
            authority::must_be_member(&*self.0.serving()?, who)?;
        }
        Ok(who)
    }

    /// A job as a majority knows it.
    async fn job<T>(&self, id: JobId, look: impl Fn(&Job, u64) -> T) -> Result<T, Status> {
        let parts = self.0.serving()?;
        let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, |state| {
            state.job(id).map(|job| look(job, state.now_ms()))
        });
        let read = read.await.map_err(|error| unavailable(&error))?;
        read.value.ok_or_else(|| unknown(id))
    }

    /// What managers know of a job's plan.
    async fn head_of(&self, bundle: &BlobRef) -> Result<BundleHead, Status> {
        let parts = self.0.serving()?;
        let first = parts.ledger.blob_head(bundle, HEAD_BYTES_MAX, BLOB_WITHIN).await;
        let first = first.map_err(|error| unavailable(&error))?;
        BundleHead::decode(&first).map_err(|error| Status::internal(error.to_string()))
    }

    /// The owner of a job, if it is another manager, and the caller was not passed on already.
    async fn elsewhere(
        &self,
        who: Option<&Identity>,
        id: JobId,
    ) -> Result<Option<JobsClient<Channel>>, Status> {
        if who.is_some_and(|who| who.role == Role::Manager) {
            return Ok(None);
        }
        let owner = self.job(id, |job, _| job.owner.map(|owner| owner.node)).await?;
        let parts = self.0.serving()?;
        let other = owner.filter(|owner| *owner != parts.ledger.id());
        let channel = other.and_then(|owner| effects::channel(&parts, owner));
        Ok(channel.map(JobsClient::new))
    }
}

type Asked<T> = Result<Response<T>, Status>;

/// Each is answered in the room where it belongs.
#[tonic::async_trait]
impl Jobs for Service {
    async fn missing(&self, request: Request<proto::MissingRequest>) -> Asked<proto::MissingReply> {
        self.missing(request).await
    }

    async fn put(&self, request: Request<Streaming<proto::Chunk>>) -> Asked<proto::BlobRef> {
        self.put(request).await
    }

    async fn submit(&self, request: Request<proto::SubmitRequest>) -> Asked<proto::SubmitReply> {
        self.submit(request).await
    }

    async fn cancel(&self, request: Request<proto::CancelRequest>) -> Asked<proto::CancelReply> {
        self.cancel(request).await
    }

    async fn status(&self, request: Request<proto::StatusRequest>) -> Asked<JobStatus> {
        self.status(request).await
    }

    async fn list(&self, request: Request<proto::ListRequest>) -> Asked<proto::ListReply> {
        self.list(request).await
    }

    type WatchStream = follow::Events;

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Asked<follow::Events> {
        self.watch(request).await
    }

    async fn steer(&self, request: Request<proto::SteerRequest>) -> Asked<proto::SteerReply> {
        self.steer(request).await
    }

    type ResultStream = Chunks;

    async fn result(&self, request: Request<proto::JobRequest>) -> Asked<Chunks> {
        self.result(request).await
    }

    async fn logs(&self, request: Request<proto::JobRequest>) -> Asked<proto::LogsReply> {
        self.logs(request).await
    }

    async fn drain(&self, request: Request<proto::DrainRequest>) -> Asked<proto::DrainReply> {
        self.drain(request).await
    }

    async fn fleet(&self, request: Request<proto::FleetRequest>) -> Asked<proto::FleetReply> {
        self.fleet(request).await
    }

    async fn managers(
        &self,
        request: Request<proto::ManagersRequest>,
    ) -> Asked<proto::ManagersReply> {
        self.managers(&request).await
    }

    async fn change_managers(
        &self,
        request: Request<proto::ChangeManagersRequest>,
    ) -> Asked<proto::ChangeManagersReply> {
        self.change_managers(request).await
    }
}
