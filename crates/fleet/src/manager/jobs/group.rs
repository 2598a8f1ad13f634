//! The managers' own group: who keeps the ledger, and changing that.
//!
//! ```text
//! manager --join-group ── waits ──▶ admit: it learns ──▶ promote: it votes
//! a manager that is gone for good ──▶ remove: the others are enough without it
//! ```
//!
//! One change at a time, each an entry of the ledger; each step can be repeated. Between two
//! changes of those who vote jobs write down their counts (`manager::voters`).

use std::time::Duration;

use fence::NodeId;
use ledger::{Change, Changed, NotChanged, ReadLevel, Written};
use ledger_state::{Command, Reply};
use membership::discovery::Seed;
use tonic::{Request, Response, Status};

use super::Service;
use crate::local::ledger_of;
use crate::manager::{Parts, roster, voters};
use crate::wire::proto::{self, LedgerMember, NodeState};

/// For one step, after the wait for its turn; a new member may have to read the whole ledger.
const STEP_WITHIN: Duration = Duration::from_secs(20);
/// For a look at what is here.
const LOOK_WITHIN: Duration = Duration::from_millis(500);

/// As much of a name as is worth repeating.
const NAME_MAX: usize = 80;

fn node_of(text: &str) -> Result<NodeId, Status> {
    text.parse().map_err(|_| {
        Status::invalid_argument(format!("`{text}` is no node's id; `volley managers` lists them"))
    })
}

/// A no that another try or another manager may turn into a yes is `unavailable`.
fn refused(why: &NotChanged) -> Status {
    match why {
        NotChanged::NotLeader { .. }
        | NotChanged::NoQuorum
        | NotChanged::Busy
        | NotChanged::NotCaughtUp { .. } => Status::unavailable(why.to_string()),
        NotChanged::Unreachable(address) => Status::failed_precondition(format!(
            "no manager's ledger answers at {address}: is it started with --join-group, is that the port after its \
             own, and does its certificate belong to this cluster?"
        )),
        NotChanged::WouldLoseMajority { .. }
        | NotChanged::NoSuchMember(_)
        | NotChanged::OtherGroup(_)
        | NotChanged::LastVoter
        | NotChanged::Refused(_) => Status::failed_precondition(why.to_string()),
    }
}

/// Every manager goes by them from then on (R25); what runs keeps what it was started with.
async fn set_limits(
    parts: &Parts,
    limits: proto::SetLimits,
) -> Result<Response<proto::ChangeManagersReply>, Status> {
    let proto::SetLimits { lease_ms, keep_jobs_ms, retries } = limits;
    let keep_min = u64::try_from(crate::manager::KEEP_JOBS_MIN.as_millis()).unwrap_or(u64::MAX);
    if keep_jobs_ms.is_some_and(|ms| ms < keep_min) {
        return Err(Status::invalid_argument(format!(
            "--keep-jobs is too short: at least {}m, because clients may still ask what became of a submission",
            keep_min / 60_000
        )));
    }
    let command = Command::SetLimits { lease_ms, kept_ms: keep_jobs_ms, retries };
    match parts.ledger.propose(command, STEP_WITHIN).await {
        Written::Committed { reply: Reply::Refused(refusal), .. } => {
            Err(Status::invalid_argument(refusal.to_string()))
        }
        Written::Committed { .. } => Ok(Response::new(proto::ChangeManagersReply::default())),
        Written::NotCommitted(why) => Err(Status::unavailable(why.to_string())),
        Written::Unknown(_) => Err(Status::unavailable(
            "it is not known whether it was done; the same again is harmless",
        )),
    }
}

impl Service {
    /// As this manager knows it: also one that is cut off should say what it sees.
    pub(super) async fn managers(
        &self,
        request: &Request<proto::ManagersRequest>,
    ) -> Result<Response<proto::ManagersReply>, Status> {
        self.who(request)?;
        let parts = self.0.serving()?;
        let (status, view) = (parts.ledger.status(), parts.member.view());
        let known = roster::nodes(&view, None, &[], |entry| self.0.judge(&parts, entry));
        let member = |node: &NodeId, address: &str, voter: bool| {
            let waits = roster::is_without_ledger(&view, *node);
            let node = node.to_string();
            let state = match known.iter().find(|known| known.node == node) {
                Some(known) if waits && known.state() == NodeState::Alive => NodeState::Waiting,
                Some(known) => known.state(),
                None => NodeState::Unspecified,
            };
            LedgerMember { node, address: address.to_owned(), voter, state: state.into() }
        };
        let voters = status.voters.iter().map(|(node, at)| member(node, &at.address, true));
        let learners = status.learners.iter().map(|(node, at)| member(node, &at.address, false));
        let limits = parts.ledger.read(ReadLevel::Eventual, LOOK_WITHIN, |state| proto::Limits {
            lease_ms: state.limits().lease_ms,
            keep_jobs_ms: state.limits().kept_ms,
            retries: state.limits().retries,
        });
        Ok(Response::new(proto::ManagersReply {
            members: voters.chain(learners).collect(),
            leader: status.leader.map(|(node, _)| node.to_string()).unwrap_or_default(),
            term: status.term,
            changing: status.changing,
            applied: status.applied,
            limits: limits.await.ok().map(|read| read.value),
            node: parts.ledger.session().node.to_string(),
        }))
    }

    /// Returns when those who vote may change. Only who leads changes them, and only who leads
    /// waits.
    async fn settled(&self, parts: &Parts, change: &Change) -> Result<(), Status> {
        let status = parts.ledger.status();
        let votes = |node: &NodeId| status.voters.iter().any(|(voter, _)| voter == node);
        let changes = match change {
            // One that has lost its log stops voting until it has caught up.
            Change::Admit { address } => status.voters.iter().any(|(_, at)| at.address == *address),
            Change::Promote { node } => !votes(node),
            Change::Remove { node } => votes(node),
        };
        if changes && status.leads {
            voters::settled(parts).await?;
        }
        Ok(())
    }

    pub(super) async fn change_managers(
        &self,
        request: Request<proto::ChangeManagersRequest>,
    ) -> Result<Response<proto::ChangeManagersReply>, Status> {
        use proto::change_managers_request::Step;
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let step = request.into_inner().step;
        // What was said has not been looked at yet, and goes into the log.
        let short = |text: &str| text.chars().take(NAME_MAX).collect::<String>();
        let what = match &step {
            Some(Step::Admit(address)) => format!("admit the manager at {}", short(address)),
            Some(Step::Promote(node)) => format!("let manager {} vote", short(node)),
            Some(Step::Remove(node)) => format!("remove manager {}", short(node)),
            Some(Step::Limits(_)) => "change the cluster's limits".to_owned(),
            None => return Err(Status::invalid_argument("nothing is asked for")),
        };
        // Before anything else: what is answered tells who is there.
        self.may_operate(who.as_ref(), &what)?;
        let change = match step {
            Some(Step::Admit(address)) => {
                let manager = Seed::parse(&address, node::config::PORT)
                    .map_err(|error| Status::invalid_argument(error.to_string()))?;
                Change::Admit { address: ledger_of(&manager).to_string() }
            }
            Some(Step::Promote(node)) => Change::Promote { node: node_of(&node)? },
            Some(Step::Remove(node)) => {
                let node = node_of(&node)?;
                // Its jobs would have an owner that can write nothing down, and that nobody takes
                // for dead.
                if roster::managers(&parts.member.view()).contains(&node) {
                    return Err(Status::failed_precondition(format!(
                        "manager {node} still runs; `volley drain {node} --wait 1m` ends it"
                    )));
                }
                Change::Remove { node }
            }
            Some(Step::Limits(limits)) => return set_limits(&parts, limits).await,
            None => return Err(Status::invalid_argument("nothing is asked for")),
        };
        self.settled(&parts, &change).await?;
        match parts.ledger.change_members(change, STEP_WITHIN).await {
            Changed::Done { node } => {
                Ok(Response::new(proto::ChangeManagersReply { node: node.to_string() }))
            }
            Changed::Not(why) => Err(refused(&why)),
            Changed::Unknown => Err(Status::unavailable(
                "it is not known whether it was done; the same again is harmless",
            )),
        }
    }
}
