//! Watching a job from owner to owner, until it has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fence::JobId;
use futures_util::{Stream, StreamExt};
use stats::feed::{Event, Position, What};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use trust::{Identity, Role};

use super::{BLOB_WITHIN, JOB_TASK_WITHIN, Service, unavailable};
use crate::manager::job_task::JobTaskHandle;
use crate::manager::{addenda, lock, status};
use crate::wire::proto;
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::{job_bytes, job_from};

/// Events on their way to a watcher that is slow.
const EVENTS_AHEAD: usize = 64;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(super) type Events = Pin<Box<dyn Stream<Item = Result<proto::WatchEvent, Status>> + Send>>;

/// What a watcher is told beside windows, notes, states and the result.
#[derive(Clone, Copy)]
struct Wants {
    views: bool,
    progress: bool,
}

impl Service {
    pub(super) async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Result<Response<Events>, Status> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let job = job_from(&request.job)?;
        self.job(job, |_, _| ()).await?;
        let (events, stream) = mpsc::channel(EVENTS_AHEAD);
        let service = Self(Arc::clone(&self.0));
        tokio::spawn(async move {
            let ended = service.follow(who, job, request, &events).await;
            if let Err(status) = ended {
                // Whoever watched may have gone.
                let _ = events.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    /// Follows a job from owner to owner until its end.
    async fn follow(
        &self,
        who: Option<Identity>,
        job: JobId,
        request: proto::WatchRequest,
        events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
    ) -> Result<(), Status> {
        let passed_on = who.as_ref().is_some_and(|who| who.role == Role::Manager);
        let me = self.0.serving()?.ledger.id();
        let proto::WatchRequest { epoch, seq, window, views, progress, .. } = request;
        let wants = Wants { views, progress };
        let mut position = Position { epoch, seq, window };
        loop {
            if events.is_closed() {
                return Ok(());
            }
            if let Some(job_task) = self.0.job_task(job) {
                if self.pass_on(&job_task, &mut position, wants, events).await {
                    return Ok(());
                }
            } else if let Some(owner) = self.elsewhere(who.as_ref(), job).await? {
                if from_other(owner, job, &mut position, wants, events).await {
                    return Ok(());
                }
            } else {
                let (result, epoch, owner, addenda) = self
                    .job(job, |job, _| {
                        let result = job.end.as_ref().map(|end| (job.result, end.outcome));
                        let epoch = job.epoch.map(|epoch| epoch.number);
                        let owner = job.owner.map(|owner| owner.node);
                        (result, epoch, owner, addenda::of_job(job))
                    })
                    .await?;
                if passed_on && result.is_none() && owner != Some(me) {
                    // Whoever passed it on has to look again: it would wait here for what happens
                    // elsewhere.
                    return Err(Status::unavailable("the job is not led here"));
                }
                if let Some((result, outcome)) = result {
                    let parts = self.0.serving()?;
                    let bytes = result.map_or(0, |blob| blob.bytes);
                    let peer = who.as_ref().map(|who| who.node);
                    let _room = self.0.transfers.room(&parts, peer, bytes).await?;
                    let content = match result {
                        Some(blob) => parts.ledger.get_blob(&blob, BLOB_WITHIN).await,
                        None => Ok(Vec::new()),
                    };
                    let content = content.map_err(|error| unavailable(&error))?;
                    let content = addenda::amended(status::as_decided(content, outcome), addenda);
                    let epoch = epoch.unwrap_or_default();
                    let event = Event { epoch, seq: u64::MAX, what: What::Final(content) };
                    send(events, &event).await;
                    return Ok(());
                }
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// True: the watcher has its result, or has gone.
    async fn pass_on(
        &self,
        job_task: &JobTaskHandle,
        position: &mut Position,
        wants: Wants,
        events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
    ) -> bool {
        let mut newest = job_task.newest.clone();
        let _looks = wants.progress.then(|| job_task.lookers.enter());
        loop {
            newest.borrow_and_update();
            let news = lock(&job_task.feed).since(position, false);
            for event in news {
                advance(position, &event);
                let is_wanted = match event.what {
                    What::View(_) => wants.views,
                    What::Progress { .. } => wants.progress,
                    _ => true,
                };
                if !is_wanted {
                    continue;
                }
                let is_last = matches!(event.what, What::Final(_));
                if !send(events, &event).await || is_last {
                    return true;
                }
            }
            tokio::select! {
                biased;
                () = events.closed() => return true,
                changed = newest.changed() => if changed.is_err() {
                    // The owner has gone, here; another goes on.
                    return false;
                },
            }
        }
    }
}

fn advance(position: &mut Position, event: &Event) {
    if let What::Window(window) = &event.what {
        position.window = position.window.max(window.last + 1);
    }
    (position.epoch, position.seq) = (event.epoch, event.seq);
}

async fn send(events: &mpsc::Sender<Result<proto::WatchEvent, Status>>, event: &Event) -> bool {
    events.send(Ok(proto::WatchEvent { event: event.encode().into() })).await.is_ok()
}

/// Passes on what another manager tells. True: the watcher has its result, or has gone.
async fn from_other(
    mut owner: JobsClient<tonic::transport::Channel>,
    job: JobId,
    position: &mut Position,
    Wants { views, progress }: Wants,
    events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
) -> bool {
    let Position { epoch, seq, window } = *position;
    let request = proto::WatchRequest { job: job_bytes(job), epoch, seq, window, views, progress };
    let Ok(Ok(stream)) = timeout(JOB_TASK_WITHIN, owner.watch(request)).await else { return false };
    let mut stream = stream.into_inner();
    while let Some(Ok(told)) = stream.next().await {
        let Ok(event) = Event::decode(&told.event) else { return false };
        advance(position, &event);
        let is_last = matches!(event.what, What::Final(_));
        if events.send(Ok(told)).await.is_err() || is_last {
            return true;
        }
    }
    false
}
