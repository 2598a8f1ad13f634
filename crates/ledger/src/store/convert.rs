//! Between the consensus library's types and ours. The only place, with the two adapters, that a
//! newer library touches.

use openraft::{EntryPayload, LeaderId};

use super::record::{Ballot, Content, Leader, Members, MembersAt, Position, RecordError, Stored};
use crate::types::{Entry, LogId, StoredMembership, Vote};

pub fn position(id: &LogId) -> Position {
    Position {
        leader: Leader { term: id.leader_id.term, node: id.leader_id.node_id },
        index: id.index,
    }
}

pub fn log_id(position: Position) -> LogId {
    LogId::new(LeaderId::new(position.leader.term, position.leader.node), position.index)
}

pub fn ballot(vote: &Vote) -> Ballot {
    Ballot {
        leader: Leader { term: vote.leader_id.term, node: vote.leader_id.node_id },
        committed: vote.committed,
    }
}

pub fn vote(ballot: Ballot) -> Vote {
    Vote {
        leader_id: LeaderId::new(ballot.leader.term, ballot.leader.node),
        committed: ballot.committed,
    }
}

type Membership = openraft::Membership<fence::NodeId, crate::types::Member>;

pub fn members(membership: &Membership) -> Members {
    Members {
        configs: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
    }
}

pub fn membership(members: Members) -> Membership {
    Membership::new(members.configs, members.nodes)
}

pub fn stored_membership(members: MembersAt) -> StoredMembership {
    StoredMembership::new(members.at.map(log_id), membership(members.members))
}

pub fn stored(entry: Entry) -> Result<Stored, RecordError> {
    let content = match entry.payload {
        EntryPayload::Blank => Content::Blank,
        EntryPayload::Normal(batch) => Content::Commands(batch),
        EntryPayload::Membership(membership) => Content::Members(members(&membership)),
    };
    Stored::new(position(&entry.log_id), &content)
}

pub fn entry(stored: &Stored) -> Result<Entry, RecordError> {
    let payload = match stored.decode()? {
        Content::Blank => EntryPayload::Blank,
        Content::Commands(batch) => EntryPayload::Normal(batch),
        Content::Members(members) => EntryPayload::Membership(membership(members)),
    };
    Ok(Entry { log_id: log_id(stored.position), payload })
}
