//! The service that managers call. It hands every question to the actor and waits for the machine's
//! answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use control::message::{WorkerRequest, WorkerResponse};
use fence::NodeId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use trust::Role;

use super::group::Group;
use crate::wire::proto::Envelope;
use crate::wire::proto::worker_control_server::{WorkerControl, WorkerControlServer};
use crate::wire::{FOR_OWNER, MESSAGE_BYTES_MAX, caller, seal, unseal};

/// Questions that wait for the actor; beyond it callers are told to come again.
pub(super) const QUESTIONS_MAX: usize = 1024;
/// The machine answers at once, but for a stop by force, which it answers within two seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

pub(super) enum Question {
    WorkerRequest {
        from: NodeId,
        request: Box<WorkerRequest>,
        answer: oneshot::Sender<WorkerResponse>,
    },
    Drain,
}

pub(super) struct WorkerService {
    questions: mpsc::Sender<Question>,
    /// Set when the worker has joined; nobody commands it before.
    group: Arc<OnceLock<Arc<Group>>>,
}

impl WorkerService {
    pub fn server(
        questions: mpsc::Sender<Question>,
        group: Arc<OnceLock<Arc<Group>>>,
    ) -> WorkerControlServer<Self> {
        WorkerControlServer::new(Self { questions, group })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Who calls, if it is a manager of the group: a certificate alone commands nobody.
    async fn manager<T>(&self, request: &Request<T>) -> Result<NodeId, Status> {
        let caller = caller(request, &[Role::Manager])?;
        let manager = caller.ok_or_else(|| Status::unauthenticated("who is calling?"))?.node;
        let starting = || Status::unavailable("this worker is starting");
        self.group.get().ok_or_else(starting)?.admit(manager).await?;
        Ok(manager)
    }

    fn put(&self, question: Question) -> Result<(), Status> {
        self.questions.try_send(question).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Status::resource_exhausted("too many questions wait for this worker; ask again")
            }
            mpsc::error::TrySendError::Closed(_) => {
                Status::unavailable("this worker is shutting down")
            }
        })
    }
}

#[tonic::async_trait]
impl WorkerControl for WorkerService {
    async fn call(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let caller = self.manager(&request).await?;
        // A member of the group may ask for the job's owner, if that does not reach this worker.
        let owner = request.metadata().get(FOR_OWNER).and_then(|owner| owner.to_str().ok());
        let from = owner.and_then(|owner| owner.parse().ok()).unwrap_or(caller);
        let request = Box::new(unseal::<WorkerRequest>(request.get_ref())?);
        let (answer, answered) = oneshot::channel();
        self.put(Question::WorkerRequest { from, request, answer })?;
        match timeout(ANSWER_WITHIN, answered).await {
            Ok(Ok(answer)) => Ok(Response::new(seal(&answer)?)),
            Ok(Err(_)) => Err(Status::unavailable("this worker is shutting down")),
            Err(_) => Err(Status::deadline_exceeded("this worker did not answer in time")),
        }
    }

    async fn drain(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        self.manager(&request).await?;
        self.put(Question::Drain)?;
        Ok(Response::new(seal(&())?))
    }
}
