//! What changes a job that is there, or a node: cancel, live control, drain.

use std::time::Duration;

use control::message::Steer;
use fence::{JobId, NodeId, ShardKey, WorkflowNo};
use ledger::Written;
use ledger_state::{Command, Grace, Reply};
use membership::Role as MemberRole;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::{JOB_TASK_WITHIN, Service, WRITE_WITHIN, unavailable};
use crate::bundle::{BundleHead, HEAD_BYTES_MAX};
use crate::manager::job_task::Input;
use crate::manager::roster;
use crate::wire::proto;
use crate::wire::{job_from, seal};

/// Shards that are named to somebody who steers.
const MISSED_MAX: usize = 100;
/// For the plan of a job that is being cancelled.
const PLAN_WITHIN: Duration = Duration::from_secs(3);
/// The graceful stop of a plan that says none, and time for an owner.
const USUAL_STOP: Duration = Duration::from_secs(60);

impl Service {
    pub(super) async fn cancel(
        &self,
        request: Request<proto::CancelRequest>,
    ) -> Result<Response<proto::CancelReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::CancelRequest { job, reason, now, nonce } = request.into_inner();
        let job = job_from(&job)?;
        let nonce = <[u8; 16]>::try_from(&nonce[..]).map_err(|_| {
            Status::invalid_argument("a cancel has a nonce of 16 bytes; is the client older?")
        })?;
        self.may_change(who.as_ref(), job, "cancel").await?;
        let requestor = who.map(|who| who.to_string()).unwrap_or_default();
        let grace = if now { None } else { Some(self.grace(job).await?) };
        let command = Command::CancelJob { job, reason, requestor, nonce, grace };
        let already = match parts.ledger.propose(command, WRITE_WITHIN).await {
            Written::Committed { reply: Reply::Done { .. }, .. } => false,
            Written::Committed { reply: Reply::Already { .. }, .. } => true,
            Written::Committed { reply: Reply::Ended { outcome, .. }, .. } => {
                let outcome = proto::Outcome::from(outcome).into();
                let reply = proto::CancelReply { outcome, already: true, now: true, within_ms: 0 };
                return Ok(Response::new(reply));
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
        // It is written. What is said of the time that is left is for people: without it the answer
        // is still right.
        let left = self.job(job, |job, now_ms| {
            let cancel = job.cancel.as_ref();
            let until = cancel.map_or(0, |cancel| cancel.teardown_until_ms);
            (cancel.is_some_and(|cancel| cancel.hard.is_some()), until.saturating_sub(now_ms))
        });
        let (now, within_ms) = left.await.unwrap_or((now, 0));
        let outcome = proto::Outcome::Unspecified.into();
        Ok(Response::new(proto::CancelReply { outcome, already, now, within_ms }))
    }

    /// How long a cancelled job may take to end, by its plan. A cancel must not wait for a plan
    /// that cannot be read: then the job has the time that is usual, and no teardown.
    async fn grace(&self, job: JobId) -> Result<Grace, Status> {
        let settings = &self.0.settings;
        let parts = self.0.serving()?;
        let plan = self.job(job, |job, _| job.plan).await?;
        let first = parts.ledger.blob_head(&plan, HEAD_BYTES_MAX, PLAN_WITHIN).await;
        let bundle = first.ok().and_then(|first| BundleHead::decode(&first).ok());
        match bundle {
            Some(bundle) => Ok(bundle.manifest.grace(settings)),
            None => {
                tracing::warn!(%job, "cancelled without a look at its plan: its teardown is not run");
                let usual = crate::manager::millis(USUAL_STOP);
                Ok(Grace { stop_ms: usual, teardown_ms: usual, hooks: None })
            }
        }
    }

    pub(super) async fn steer(
        &self,
        request: Request<proto::SteerRequest>,
    ) -> Result<Response<proto::SteerReply>, Status> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let job = job_from(&request.job)?;
        self.may_change(who.as_ref(), job, wish(&request)).await?;
        let Some(job_task) = self.0.job_task(job) else {
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
        if !job_task.send(Input::Steer(steer, answer)) {
            return Err(Status::unavailable("the job's owner is busy; try again"));
        }
        match timeout(JOB_TASK_WITHIN, answered).await {
            Ok(Ok(Ok(missed))) => {
                let name =
                    |key: ShardKey| format!("shard {} of workflow {}", key.shard, key.workflow.0);
                let missed = missed.into_iter().take(MISSED_MAX).map(name).collect();
                Ok(Response::new(proto::SteerReply { said, missed }))
            }
            Ok(Ok(Err(why))) => Err(Status::failed_precondition(why)),
            Ok(Err(_)) | Err(_) => Err(Status::unavailable(
                "the job's owner has not answered; look at `volley status`",
            )),
        }
    }

    pub(super) async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let name = request.into_inner().node;
        let node: NodeId = name.parse().map_err(|_| {
            Status::invalid_argument(format!(
                "`{name}` is no node's id; `volley debug members` lists them"
            ))
        })?;
        self.may_operate(who.as_ref(), &format!("drain node {node}"))?;
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
                let mut crew = proto::worker_control_client::WorkerControlClient::new(channel);
                crew.drain(seal(&())?).await?;
                said("the worker finishes what it runs, takes no more, and ends")
            }
            MemberRole::Manager => {
                let mut job_task = proto::manager_peers_client::ManagerPeersClient::new(channel);
                job_task.leave(seal(&())?).await?;
                said("the manager gives its jobs to the others and ends")
            }
            role => Err(Status::invalid_argument(format!("a {role} is not drained"))),
        }
    }

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
        let plan = self.job(job, |job, _| job.plan).await?;
        let bundle = self.head_of(&plan).await?;
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
            // The owner decides from when on, by where the schedule stands.
            let from = Duration::ZERO;
            return Ok(Steer::Rate { workflow, per_second: scale.value, from });
        }
        let most = part.vus_max;
        let vus = scale.value.round();
        if vus > f64::from(most) {
            return Err(Status::invalid_argument(format!(
                "at most {most} VUs are planned for it, and none can be added while it runs"
            )));
        }
        Ok(Steer::Vus { workflow, vus: vus as u32 })
    }
}

fn wish(request: &proto::SteerRequest) -> &'static str {
    use proto::steer_request::What as Wish;
    match request.what {
        Some(Wish::Pause(_)) => "pause",
        Some(Wish::Resume(_)) => "resume",
        Some(Wish::Vus(_) | Wish::Rate(_)) | None => "scale",
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
