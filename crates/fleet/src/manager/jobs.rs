//! What clients ask of a manager. What only a job's owner knows is asked there and passed on.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use control::fleet::message::Steer;
use control::fleet::owner::{WhenFull, decode_report};
use control::ledger::{
    BlobRef, Command, CreateJob, IdempotencyKey, Job, Rejection, Reply, Submission,
};
use fence::{JobId, NodeId, WorkflowNo};
use futures_util::{Stream, StreamExt};
use ledger::{ReadLevel, Written};
use membership::Role as MemberRole;
use sha2::{Digest, Sha256};
use stats::feed::{Event, Position, What};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use trust::{Identity, Role};

use super::desk::{DeskHandle, Input};
use super::office::{Chunks, chunks};
use super::{Shared, errands, lock, roster, status, survey};
use crate::bundle::{BUNDLE_BYTES_MAX, Bundle};
use crate::wire::proto::jobs_client::JobsClient;
use crate::wire::proto::jobs_server::Jobs;
use crate::wire::proto::{self, JobStatus};
use crate::wire::{blob_in, blob_out, caller, job_bytes, job_from, seal};

/// A minority says so within a second (and a little for the way).
const READ_WITHIN: Duration = Duration::from_millis(900);
const WRITE_WITHIN: Duration = Duration::from_secs(5);
const BLOB_WITHIN: Duration = Duration::from_secs(25);
const DESK_WITHIN: Duration = Duration::from_secs(5);
/// Blobs that are looked for in one call; each may have to be asked for elsewhere.
const MISSING_MAX: usize = 1_000;
/// Jobs in one list.
const LIST_MAX: u32 = 1_000;
/// Events on their way to a watcher that is slow.
const EVENTS_AHEAD: usize = 64;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub struct Service(pub Arc<Shared>);

type Events = Pin<Box<dyn Stream<Item = Result<proto::WatchEvent, Status>> + Send>>;

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
        caller(request, &[Role::Client, Role::Gate, Role::Manager])
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

    /// The owner of a job, if it is another manager, and the caller was not passed on already.
    async fn elsewhere(
        &self,
        who: Option<&Identity>,
        id: JobId,
    ) -> Result<Option<JobsClient<tonic::transport::Channel>>, Status> {
        if who.is_some_and(|who| who.role == Role::Manager) {
            return Ok(None);
        }
        let owner = self.job(id, |job, _| job.owner.map(|owner| owner.node)).await?;
        let parts = self.0.serving()?;
        let other = owner.filter(|owner| *owner != parts.ledger.id());
        let channel = other.and_then(|owner| errands::channel(&parts, owner));
        Ok(channel.map(JobsClient::new))
    }

    fn free_of(&self, policy: &control::fleet::owner::Policy) -> Result<(), Status> {
        let parts = self.0.serving()?;
        let workers = self.0.workers(&parts);
        let ready = workers.iter().filter(|worker| worker.takes_work());
        let total: u32 = ready.map(|worker| worker.total).sum();
        let needs = policy.cores_min.max(1);
        if policy.when_full == WhenFull::Refuse && total < needs {
            return Err(Status::failed_precondition(format!(
                "the plan needs {needs} cores, and the fleet has {total}; start more workers, or submit it with \
                 `--when-full queue`"
            )));
        }
        Ok(())
    }
}

fn rejected(rejection: &Rejection) -> proto::submit_reply::Rejected {
    let (kind, reason) = match rejection {
        Rejection::KeyReused { job } => (
            "key_reused",
            format!("the key was used for another submission, job {job}; take a new key"),
        ),
        Rejection::InvalidKey(problem) => ("invalid_key", problem.to_string()),
        Rejection::TooLate { age_ms, retention_ms } => (
            "too_late",
            format!(
                "the first try was {} s ago, and jobs are remembered for {} s: it may have run; take a new key",
                age_ms / 1_000,
                retention_ms / 1_000
            ),
        ),
        Rejection::Invalid(problem) => ("invalid", problem.to_string()),
        Rejection::IdTaken { job } => ("id_taken", format!("another key has the id {job}")),
    };
    proto::submit_reply::Rejected { kind: kind.to_owned(), reason }
}

fn reply(submission: &Submission) -> proto::SubmitReply {
    use proto::submit_reply::{Accepted, Answer, Pending, RetryLater};
    let answer = match submission {
        Submission::Accepted { job, duplicate, .. } => {
            Answer::Accepted(Accepted { job: job_bytes(*job), repeated: *duplicate })
        }
        Submission::Rejected(rejection) => Answer::Rejected(rejected(rejection)),
        Submission::Pending { job } => Answer::Pending(Pending { job: job_bytes(*job) }),
        Submission::RetryLater { after_ms, why } => {
            Answer::Retry(RetryLater { after_ms: *after_ms, reason: why.to_string() })
        }
    };
    proto::SubmitReply { answer: Some(answer) }
}

fn refuse(kind: &str, reason: String) -> proto::SubmitReply {
    let rejected = proto::submit_reply::Rejected { kind: kind.to_owned(), reason };
    proto::SubmitReply { answer: Some(proto::submit_reply::Answer::Rejected(rejected)) }
}

#[tonic::async_trait]
impl Jobs for Service {
    async fn missing(
        &self,
        request: Request<proto::MissingRequest>,
    ) -> Result<Response<proto::MissingReply>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let asked = request.get_ref().blobs.len();
        if asked > MISSING_MAX {
            return Err(Status::invalid_argument(format!(
                "{asked} blobs are asked for at once; at most {MISSING_MAX} are looked for"
            )));
        }
        let mut missing = Vec::new();
        for blob in request.into_inner().blobs {
            let known = parts.ledger.get_blob(&blob_in(&blob)?, READ_WITHIN).await;
            if known.is_err() {
                missing.push(blob);
            }
        }
        Ok(Response::new(proto::MissingReply { missing }))
    }

    async fn put(
        &self,
        request: Request<Streaming<proto::Chunk>>,
    ) -> Result<Response<proto::BlobRef>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let mut stream = request.into_inner();
        let mut named: Option<BlobRef> = None;
        let mut content = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            if let Some(blob) = &chunk.blob {
                named = Some(blob_in(blob)?);
            }
            let limit = named.map_or(BUNDLE_BYTES_MAX as u64, |blob| blob.bytes);
            if (content.len() + chunk.content.len()) as u64 > limit.min(BUNDLE_BYTES_MAX as u64) {
                return Err(Status::resource_exhausted(format!(
                    "a job has at most {BUNDLE_BYTES_MAX} bytes with all its files"
                )));
            }
            content.extend_from_slice(&chunk.content);
        }
        let blob = parts.ledger.put_blob(content, BLOB_WITHIN).await;
        let blob = blob.map_err(|error| unavailable(&error))?;
        if named.is_some_and(|named| named != blob) {
            return Err(Status::data_loss("what arrived is not what was announced; send it again"));
        }
        Ok(Response::new(blob_out(&blob)))
    }

    async fn submit(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::SubmitReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::SubmitRequest { key, name, bundle, age_ms } = request.into_inner();
        let key: IdempotencyKey = match key.parse() {
            Ok(key) => key,
            Err(error) => return Ok(Response::new(refuse("invalid_key", format!("{error}")))),
        };
        let bundle = bundle.ok_or_else(|| Status::invalid_argument("no plan is named"))?;
        let blob = blob_in(&bundle)?;
        let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
        let content = content.map_err(|error| {
            Status::failed_precondition(format!("the plan has to be stored first: {error}"))
        })?;
        let bundle = match Bundle::decode(&content) {
            Ok(bundle) => bundle,
            Err(error) => return Ok(Response::new(refuse("invalid_bundle", error.to_string()))),
        };
        if let Err(status) = self.free_of(&bundle.manifest.policy) {
            return Ok(Response::new(refuse("too_few_cores", status.message().to_owned())));
        }
        let mut fingerprint = Sha256::new();
        fingerprint.update((name.len() as u64).to_le_bytes());
        fingerprint.update(&name);
        fingerprint.update(blob.hash);
        let tenant = who.map_or_else(|| "nobody".to_owned(), |who| who.node.to_string());
        let fingerprint = fingerprint.finalize().into();
        let create =
            CreateJob { tenant, key, fingerprint, name, plan: blob, age_ms, rehearsal: false };
        let submission = parts.ledger.submit(create, WRITE_WITHIN).await;
        Ok(Response::new(reply(&submission)))
    }

    async fn cancel(
        &self,
        request: Request<proto::CancelRequest>,
    ) -> Result<Response<proto::CancelReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::CancelRequest { job, reason } = request.into_inner();
        let job = job_from(&job)?;
        self.job(job, |_, _| ()).await?;
        let requestor = who.map(|who| who.to_string()).unwrap_or_default();
        let command = Command::CancelJob { job, reason, requestor };
        let (state, already) = match parts.ledger.propose(command, WRITE_WITHIN).await {
            Written::Committed { reply: Reply::Done { .. }, .. } => {
                ("cancelling".to_owned(), false)
            }
            Written::Committed { reply: Reply::Already { .. }, .. } => {
                ("cancelling".to_owned(), true)
            }
            Written::Committed { reply: Reply::Ended { outcome, .. }, .. } => {
                (outcome.to_string(), true)
            }
            Written::Committed { reply: Reply::Refused(refusal), .. } => {
                return Err(Status::failed_precondition(refusal.to_string()));
            }
            Written::Committed { reply, .. } => return Err(Status::internal(format!("{reply:?}"))),
            Written::NotCommitted(why) => return Err(unavailable(&why)),
            Written::Unknown(_) => {
                let why = "it is not known whether the cancel was written; say it again";
                return Err(Status::unavailable(why));
            }
        };
        Ok(Response::new(proto::CancelReply { state, already }))
    }

    async fn status(
        &self,
        request: Request<proto::StatusRequest>,
    ) -> Result<Response<JobStatus>, Status> {
        let who = self.who(&request)?;
        let job = job_from(&request.get_ref().job)?;
        let known = self.job(job, |known, now_ms| status::of_ledger(job, known, now_ms)).await?;
        if let Some(desk) = self.0.desk(job) {
            let (answer, details) = oneshot::channel();
            if desk.send(Input::Status(answer))
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

    async fn list(
        &self,
        request: Request<proto::ListRequest>,
    ) -> Result<Response<proto::ListReply>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::ListRequest { limit, ended, prefix } = request.into_inner();
        let limit = if limit == 0 { 100 } else { limit.min(LIST_MAX) } as usize;
        let read = parts.ledger.read(ReadLevel::Strong, READ_WITHIN, |state| {
            let begins = |id: JobId| format!("{:032x}", id.0).starts_with(&prefix);
            let wanted = |job: &Job| ended || job.end.is_none();
            let mut jobs: Vec<(u64, JobStatus)> = state
                .jobs()
                .filter(|(id, job)| wanted(job) && (prefix.is_empty() || begins(*id)))
                .map(|(id, job)| (job.created.number, status::of_ledger(id, job, state.now_ms())))
                .collect();
            jobs.sort_by_key(|(created, _)| std::cmp::Reverse(*created));
            jobs
        });
        let jobs = read.await.map_err(|error| unavailable(&error))?.value;
        let more = u32::try_from(jobs.len().saturating_sub(limit)).unwrap_or(u32::MAX);
        let jobs = jobs.into_iter().take(limit).map(|(_, job)| job).collect();
        Ok(Response::new(proto::ListReply { jobs, more }))
    }

    type WatchStream = Events;

    async fn watch(
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

    async fn steer(
        &self,
        request: Request<proto::SteerRequest>,
    ) -> Result<Response<proto::SteerReply>, Status> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let job = job_from(&request.job)?;
        let Some(desk) = self.0.desk(job) else {
            if let Some(mut owner) = self.elsewhere(who.as_ref(), job).await? {
                return owner.steer(request).await;
            }
            let state = self.job(job, |job, _| job.end.is_some()).await?;
            let why =
                if state { "the job has ended" } else { "the job has no owner yet; try again" };
            return Err(Status::failed_precondition(why));
        };
        let steer = self.read_steer(job, request.what).await?;
        let said = said(&steer);
        let (answer, answered) = oneshot::channel();
        if !desk.send(Input::Steer(steer, answer)) {
            return Err(Status::unavailable("the job's owner is busy; try again"));
        }
        match timeout(DESK_WITHIN, answered).await {
            Ok(Ok(Ok(()))) => Ok(Response::new(proto::SteerReply { said })),
            Ok(Ok(Err(why))) => Err(Status::failed_precondition(why)),
            Ok(Err(_)) | Err(_) => Err(Status::unavailable(
                "the job's owner has not answered; look at `volley status`",
            )),
        }
    }

    type ResultStream = Chunks;

    async fn result(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<Chunks>, Status> {
        self.who(&request)?;
        let job = job_from(&request.get_ref().job)?;
        let (result, ended) = self.job(job, |job, _| (job.result, job.end.is_some())).await?;
        let Some(blob) = result else {
            return Err(Status::failed_precondition(if ended {
                "the job ended without a result; `volley status` says why"
            } else {
                "the job has not ended yet; `volley watch` follows it"
            }));
        };
        let parts = self.0.serving()?;
        let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
        let content = content.map_err(|error| unavailable(&error))?;
        Ok(Response::new(chunks(&blob, content)))
    }

    async fn logs(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::LogsReply>, Status> {
        self.who(&request)?;
        let id = job_from(&request.get_ref().job)?;
        let parts = self.0.serving()?;
        let (plan, ends) = self
            .job(id, |job, _| {
                let ends: Vec<BlobRef> =
                    job.attempts().filter_map(|record| record.end.as_ref()?.result).collect();
                (job.plan, ends)
            })
            .await?;
        let content = parts.ledger.get_blob(&plan, BLOB_WITHIN).await;
        let content = content.map_err(|error| unavailable(&error))?;
        let bundle =
            Bundle::decode(&content).map_err(|error| Status::internal(error.to_string()))?;
        let mut logs = Vec::new();
        for blob in ends {
            let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
            let content = content.map_err(|error| unavailable(&error))?;
            let Ok(report) = decode_report(&content) else { continue };
            let workflow = bundle.manifest.workflows.get(report.shard.workflow.0 as usize);
            logs.push(proto::AttemptLog {
                workflow: workflow.map_or("setup and teardown", |part| &part.name).to_owned(),
                shard: report.shard.shard,
                attempt: report.attempt.0,
                worker: report.worker.to_string(),
                status: report.status.to_string(),
                error: report.error.unwrap_or_default(),
                text: report.log,
                counters: Some(status::counters(&report.counters)),
            });
        }
        Ok(Response::new(proto::LogsReply { logs }))
    }

    async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let name = request.into_inner().node;
        let node: NodeId = name.parse().map_err(|_| {
            Status::invalid_argument(format!(
                "`{name}` is no node's id; `volley members` lists them"
            ))
        })?;
        // Whether it has ended is seen in the membership.
        let said = |said: &str| {
            Ok(Response::new(proto::DrainReply { said: said.to_owned(), done: false }))
        };
        if node == parts.ledger.id() {
            self.0.told_to_leave.send_replace(true);
            return said("this manager gives its jobs to the others and ends");
        }
        let Some(peer) = roster::peer(&parts.member.view(), node) else {
            return Err(Status::not_found(format!("no node {node} is known here")));
        };
        let role = peer.role;
        let channel = parts.member.channel(peer.address, role, node);
        match role {
            MemberRole::Worker => {
                let mut crew = proto::crew_client::CrewClient::new(channel);
                crew.drain(seal(&())?).await?;
                said("the worker finishes what it runs, takes no more, and ends")
            }
            MemberRole::Manager => {
                let mut desk = proto::desk_client::DeskClient::new(channel);
                desk.leave(seal(&())?).await?;
                said("the manager gives its jobs to the others and ends")
            }
            role => Err(Status::invalid_argument(format!("a {role} is not drained"))),
        }
    }

    async fn fleet(
        &self,
        request: Request<proto::FleetRequest>,
    ) -> Result<Response<proto::FleetReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let owned = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, |state| {
            let live = state.jobs().filter(|(_, job)| job.end.is_none());
            live.filter_map(|(_, job)| job.owner.map(|owner| owner.node)).collect::<Vec<_>>()
        });
        let owned = owned.await.map_err(|error| unavailable(&error))?.value;
        let mut reply = survey::here(&self.0, &parts, &owned);
        if who.is_none_or(|who| who.role != Role::Manager) {
            survey::everywhere(&parts, &mut reply).await;
        }
        Ok(Response::new(reply))
    }
}

fn said(steer: &Steer) -> String {
    match steer {
        Steer::Pause => "paused".to_owned(),
        Steer::Resume => "resumed".to_owned(),
        Steer::Vus { vus, .. } => format!("{vus} VUs from now on"),
        Steer::Rate { per_second, .. } => format!("{per_second} per second from now on"),
    }
}

impl Service {
    async fn read_steer(
        &self,
        job: JobId,
        what: Option<proto::steer_request::What>,
    ) -> Result<Steer, Status> {
        use proto::steer_request::What as Wish;
        let (scale, is_rate) = match what {
            Some(Wish::Pause(_)) => return Ok(Steer::Pause),
            Some(Wish::Resume(_)) => return Ok(Steer::Resume),
            Some(Wish::Vus(scale)) => (scale, false),
            Some(Wish::Rate(scale)) => (scale, true),
            None => return Err(Status::invalid_argument("nothing is asked for")),
        };
        let parts = self.0.serving()?;
        let plan = self.job(job, |job, _| job.plan).await?;
        let content = parts.ledger.get_blob(&plan, BLOB_WITHIN).await;
        let content = content.map_err(|error| unavailable(&error))?;
        let bundle =
            Bundle::decode(&content).map_err(|error| Status::internal(error.to_string()))?;
        let names: Vec<&str> =
            bundle.manifest.workflows.iter().map(|part| part.name.as_str()).collect();
        let number = match (&scale.workflow[..], &names[..]) {
            ("", [_]) => Some(0),
            (name, names) => names.iter().position(|known| *known == name),
        };
        let Some(number) = number else {
            return Err(Status::invalid_argument(format!(
                "which workflow? This job has: {}",
                names.join(", ")
            )));
        };
        if !scale.value.is_finite() || scale.value < 0.0 {
            return Err(Status::invalid_argument("the new value must be a number from 0 on"));
        }
        let workflow = WorkflowNo(u32::try_from(number).unwrap_or(u32::MAX));
        let part = &bundle.manifest.workflows[number];
        if part.is_open != is_rate {
            let (has, flag) = match part.is_open {
                true => ("a rate, and no number of virtual users", "--rate"),
                false => ("virtual users, and no rate", "--vus"),
            };
            let text = format!("{} has {has} to set; say {flag}", part.name);
            return Err(Status::invalid_argument(text));
        }
        if is_rate {
            let from = Duration::ZERO;
            return Ok(Steer::Rate { workflow, per_second: scale.value, from });
        }
        let most = part.vus_max;
        let vus = scale.value.round();
        if vus > f64::from(most) {
            return Err(Status::invalid_argument(format!("at most {most} VUs are planned for it")));
        }
        Ok(Steer::Vus { workflow, vus: vus as u32 })
    }

    /// Follows a job from owner to owner until its end.
    async fn follow(
        &self,
        who: Option<Identity>,
        job: JobId,
        request: proto::WatchRequest,
        events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
    ) -> Result<(), Status> {
        let proto::WatchRequest { epoch, seq, window, views, .. } = request;
        let mut position = Position { epoch, seq, window };
        loop {
            if events.is_closed() {
                return Ok(());
            }
            if let Some(desk) = self.0.desk(job) {
                if self.pass_on(&desk, &mut position, views, events).await {
                    return Ok(());
                }
            } else if let Some(owner) = self.elsewhere(who.as_ref(), job).await? {
                if from_other(owner, job, &mut position, views, events).await {
                    return Ok(());
                }
            } else {
                let (result, epoch) = self
                    .job(job, |job, _| {
                        (job.end.as_ref().map(|_| job.result), job.epoch.map(|epoch| epoch.number))
                    })
                    .await?;
                if let Some(result) = result {
                    let parts = self.0.serving()?;
                    let content = match result {
                        Some(blob) => parts.ledger.get_blob(&blob, BLOB_WITHIN).await,
                        None => Ok(Vec::new()),
                    };
                    let content = content.map_err(|error| unavailable(&error))?;
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
        desk: &DeskHandle,
        position: &mut Position,
        views: bool,
        events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
    ) -> bool {
        let mut newest = desk.newest.clone();
        loop {
            newest.borrow_and_update();
            let news = lock(&desk.feed).since(position, false);
            for event in news {
                let is_view = matches!(event.what, What::View(_));
                advance(position, &event);
                if is_view && !views {
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
    views: bool,
    events: &mpsc::Sender<Result<proto::WatchEvent, Status>>,
) -> bool {
    let Position { epoch, seq, window } = *position;
    let request = proto::WatchRequest { job: job_bytes(job), epoch, seq, window, views };
    let Ok(Ok(stream)) = timeout(DESK_WITHIN, owner.watch(request)).await else { return false };
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
