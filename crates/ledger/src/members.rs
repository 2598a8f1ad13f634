//! Changing the members: one change at a time, each an entry of the log (LEDG-101).
//!
//! A node is admitted as a learner, catches up, and is then promoted. One that comes back with
//! another disk is removed and admitted anew: it has forgotten what it once acknowledged, so it
//! starts from nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fence::{GroupId, NodeId};
use futures_util::future::join_all;
use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, sleep, timeout_at};

use crate::answer::{NotCommitted, ReadError, Redirect};
use crate::bootstrap::{Greeting, greet};
use crate::core::Core;
use crate::peers::{Client, Lane};
use crate::proposals::not_leader;
use crate::quorum::majority;
use crate::reads;
use crate::types::Member;
use crate::wire::proto::change_members_request::Change as Wire;
use crate::wire::proto::{Admit, ChangeMembersRequest, Named};
use crate::wire::{Refusal, node_bytes, node_from, unseal};

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Takes the node at this address in as a learner: a new one, or one that has come back with
    /// another disk.
    Admit { address: String },
    /// Makes a learner a voter, when it has caught up.
    Promote { node: NodeId },
    /// Takes a voter or a learner out.
    Remove { node: NodeId },
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub enum Changed {
    /// Committed, or it was so already.
    Done { node: NodeId },
    /// Nothing was changed.
    Not(NotChanged),
    /// It may have happened, or may still. Repeating the same change is harmless.
    Unknown,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotChanged {
    NotLeader {
        leader: Option<Redirect>,
    },
    NoQuorum,
    /// Another change is under way.
    Busy,
    /// Fewer than a majority of the voters that would be are alive.
    WouldLoseMajority {
        live: u32,
        voters: u32,
    },
    NoSuchMember(NodeId),
    /// The learner has not caught up within the deadline.
    NotCaughtUp {
        behind: u64,
    },
    /// The node at the address belongs to another group.
    OtherGroup(GroupId),
    /// Nobody answers at the address.
    Unreachable(String),
    LastVoter,
    Refused(String),
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader { leader } => NotCommitted::NotLeader { leader: leader.clone() }.fmt(f),
            Self::NoQuorum => NotCommitted::NoQuorum.fmt(f),
            Self::Busy => f.write_str("another change of the members is under way; wait for it"),
            Self::WouldLoseMajority { live, voters } => write!(
                f,
                "only {live} of the {voters} voters that would remain are alive: the group could not decide any more"
            ),
            Self::NoSuchMember(node) => write!(f, "{node} is not a member"),
            Self::NotCaughtUp { behind } => {
                write!(f, "the learner is still {behind} entries behind; try again")
            }
            Self::OtherGroup(group) => write!(f, "the node belongs to group {group}"),
            Self::Unreachable(address) => write!(f, "nobody answers at {address}"),
            Self::LastVoter => f.write_str("the last voter cannot be removed"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotChanged {}

impl Change {
    pub(crate) fn to_wire(&self, within: Duration) -> ChangeMembersRequest {
        let change = match self {
            Self::Admit { address } => Wire::Admit(Admit { address: address.clone() }),
            Self::Promote { node } => Wire::Promote(Named { node: node_bytes(*node) }),
            Self::Remove { node } => Wire::Remove(Named { node: node_bytes(*node) }),
        };
        ChangeMembersRequest {
            change: Some(change),
            within_ms: within.as_millis() as u64,
            forwarded: true,
        }
    }

    pub(crate) fn from_wire(request: ChangeMembersRequest) -> Result<Self, Refusal> {
        Ok(match request.change {
            None => return Err(Refusal::Malformed("no change is named".to_owned())),
            Some(Wire::Admit(Admit { address })) => Self::Admit { address },
            Some(Wire::Promote(Named { node })) => Self::Promote { node: node_from(&node)? },
            Some(Wire::Remove(Named { node })) => Self::Remove { node: node_from(&node)? },
        })
    }
}

/// Makes a change, here or, once, at the leader.
pub(crate) async fn change(
    core: &Arc<Core>,
    change: Change,
    within: Duration,
    may_forward: bool,
) -> Changed {
    let deadline = Instant::now() + within;
    let standing = core.standing();
    if !standing.leading {
        let NotCommitted::NotLeader { leader } = not_leader(&standing) else {
            return Changed::Unknown;
        };
        return match leader {
            Some(leader) if may_forward => forward(core, &leader, &change, within).await,
            leader => Changed::Not(NotChanged::NotLeader { leader }),
        };
    }
    if !core.claims() {
        return Changed::Not(NotChanged::NoQuorum);
    }
    let Ok(_one) = core.changing.try_lock() else {
        return Changed::Not(NotChanged::Busy);
    };
    let changed = match make(core, &change, deadline).await {
        Ok(node) => Changed::Done { node },
        Err(changed) => changed,
    };
    tracing::info!(?change, ?changed, "a change of the members");
    changed
}

async fn make(core: &Core, change: &Change, deadline: Instant) -> Result<NodeId, Changed> {
    settle(core, deadline).await?;
    match change {
        Change::Admit { address } => admit(core, address, deadline).await,
        Change::Promote { node } => promote(core, *node, deadline).await,
        Change::Remove { node } => remove(core, *node, deadline).await,
    }
}

/// Waits until the members that this node knows are committed and no change of them is half done,
/// and has a majority confirm that it still leads. Without this a voter on its way out would pass
/// for a member: "it was so already" would be said of a node that is gone a moment later.
async fn settle(core: &Core, deadline: Instant) -> Result<(), Changed> {
    loop {
        reads::confirm(core, deadline).await.map_err(|error| {
            Changed::Not(match error {
                ReadError::NoLeader => NotChanged::NotLeader { leader: None },
                ReadError::NoQuorum | ReadError::Deadline => NotChanged::NoQuorum,
                ReadError::Stopped(why) => NotChanged::Refused(why),
            })
        })?;
        let members = core.raft.with_raft_state(|state| {
            let (known, committed) =
                (state.membership_state.effective(), state.membership_state.committed());
            let half_done = known.membership().get_joint_config().len() > 1;
            (*known.log_id(), known.log_id() == committed.log_id(), half_done)
        });
        let (known, committed, half_done) =
            members.await.map_err(|error| Changed::Not(NotChanged::Refused(error.to_string())))?;
        if committed && !half_done {
            let mut standing = core.standing.clone();
            let seen = standing.wait_for(|standing| *standing.membership.log_id() >= known);
            let seen = timeout_at(deadline, seen).await;
            return match seen {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(Changed::Not(NotChanged::Busy)),
            };
        }
        if committed {
            complete(core, deadline).await;
        }
        if Instant::now() + core.timing.heartbeat >= deadline {
            return Err(Changed::Not(NotChanged::Busy));
        }
        if !committed {
            sleep(core.timing.heartbeat / 4).await;
        }
    }
}

async fn forward(core: &Core, leader: &Redirect, change: &Change, within: Duration) -> Changed {
    let request = change.to_wire(within);
    let call = |mut client: Client| async move { client.change_members(request).await };
    match core.links.peers.call(Lane::Work, &leader.address, within, call).await {
        Ok(reply) => unseal(&reply.sealed).unwrap_or(Changed::Unknown),
        Err(_) => Changed::Unknown,
    }
}

async fn admit(core: &Core, address: &str, deadline: Instant) -> Result<NodeId, Changed> {
    let greeting: Greeting = greet(core, address)
        .await
        .ok_or_else(|| Changed::Not(NotChanged::Unreachable(address.to_owned())))?;
    if let Some(group) = greeting.group
        && Some(group) != core.group()
    {
        return Err(Changed::Not(NotChanged::OtherGroup(group)));
    }
    let node = greeting.node;
    let wanted = Member { address: address.to_owned(), disk: greeting.disk };
    let known = core.standing().member(node).cloned();
    match known {
        Some(member) if member == wanted => return Ok(node),
        Some(member) if member.disk == wanted.disk => {
            // Only the address has changed: the same node with the same memory.
            let nodes = BTreeMap::from([(node, wanted)]);
            commit(core, ChangeMembers::SetNodes(nodes), deadline).await?;
            return Ok(node);
        }
        Some(_) => {
            remove(core, node, deadline).await?;
        }
        None => {}
    }
    commit(core, ChangeMembers::AddNodes(BTreeMap::from([(node, wanted)])), deadline).await?;
    Ok(node)
}

async fn promote(core: &Core, node: NodeId, deadline: Instant) -> Result<NodeId, Changed> {
    let standing = core.standing();
    if standing.member(node).is_none() {
        return Err(Changed::Not(NotChanged::NoSuchMember(node)));
    }
    if standing.is_voter(node) {
        return Ok(node);
    }
    loop {
        let behind = {
            let metrics = core.raft.metrics();
            let metrics = metrics.borrow();
            let matched = metrics.replication.as_ref().and_then(|all| *all.get(&node)?);
            let last = metrics.last_log_index.unwrap_or(0);
            last.saturating_sub(matched.map_or(0, |matched| matched.index))
        };
        if behind <= core.config.limits.append_entries {
            break;
        }
        if Instant::now() + core.timing.heartbeat >= deadline {
            return Err(Changed::Not(NotChanged::NotCaughtUp { behind }));
        }
        sleep(core.timing.heartbeat).await;
    }
    let mut voters: BTreeSet<NodeId> = standing.configs().concat_last();
    voters.insert(node);
    check_live(core, &voters).await?;
    commit(core, ChangeMembers::AddVoterIds(BTreeSet::from([node])), deadline).await?;
    Ok(node)
}

async fn remove(core: &Core, node: NodeId, deadline: Instant) -> Result<NodeId, Changed> {
    let standing = core.standing();
    if standing.member(node).is_none() {
        return Ok(node);
    }
    let nodes = BTreeSet::from([node]);
    if !standing.is_voter(node) {
        commit(core, ChangeMembers::RemoveNodes(nodes), deadline).await?;
        return Ok(node);
    }
    let mut voters: BTreeSet<NodeId> = standing.configs().concat_last();
    voters.remove(&node);
    if voters.is_empty() {
        return Err(Changed::Not(NotChanged::LastVoter));
    }
    check_live(core, &voters).await?;
    commit(core, ChangeMembers::RemoveVoters(nodes), deadline).await?;
    Ok(node)
}

trait ConcatLast {
    fn concat_last(self) -> BTreeSet<NodeId>;
}

impl ConcatLast for Vec<BTreeSet<NodeId>> {
    /// The voters that are to be, if a change is under way.
    fn concat_last(mut self) -> BTreeSet<NodeId> {
        self.pop().unwrap_or_default()
    }
}

/// Whether the voters that would be have a majority that answers now, each with its admitted disk.
async fn check_live(core: &Core, voters: &BTreeSet<NodeId>) -> Result<(), Changed> {
    let others = core.others().into_iter().filter(|(node, _)| voters.contains(node));
    let answers = join_all(others.map(|(node, member)| async move {
        let greeting = greet(core, &member.address).await;
        greeting.is_some_and(|greeting| greeting.node == node && greeting.disk == member.disk)
    }))
    .await;
    let live = answers.into_iter().filter(|alive| *alive).count()
        + usize::from(voters.contains(&core.me.node));
    if live < majority(voters.len()) {
        let (live, voters) = (live as u32, voters.len() as u32);
        tracing::warn!(live, voters, "a change of the members would lose the majority");
        return Err(Changed::Not(NotChanged::WouldLoseMajority { live, voters }));
    }
    Ok(())
}

async fn commit(
    core: &Core,
    change: ChangeMembers<NodeId, Member>,
    deadline: Instant,
) -> Result<(), Changed> {
    let written = timeout_at(deadline, core.raft.change_membership(change, false)).await;
    match written.map_err(|_| Changed::Unknown)? {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
            Err(Changed::Not(match error {
                ChangeMembershipError::InProgress(_) => NotChanged::Busy,
                ChangeMembershipError::EmptyMembership(_) => NotChanged::LastVoter,
                ChangeMembershipError::LearnerNotFound(missing) => {
                    NotChanged::NoSuchMember(missing.node_id)
                }
            }))
        }
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)) | RaftError::Fatal(_)) => {
            Err(Changed::Unknown)
        }
    }
}

/// Ends a change that was left half done, by a leader that died or by a caller whose time was over.
pub(crate) async fn finish(core: &Core) {
    let Ok(_one) = core.changing.try_lock() else { return };
    if core.standing().is_changing() && core.claims() {
        complete(core, Instant::now() + core.timing.request).await;
    }
}

/// Both sets of voters become the new one.
async fn complete(core: &Core, deadline: Instant) {
    let nothing_more = ChangeMembers::AddVoterIds(BTreeSet::new());
    match commit(core, nothing_more, deadline).await {
        Ok(()) => tracing::info!("a change of the members that was left half done is finished"),
        Err(changed) => tracing::warn!(?changed, "a change of the members is still half done"),
    }
}
