//! The sealed parts of messages, and the one place where each of them is read. Whatever bytes come
//! in, the answer is the message or a refusal with a name.

use fence::NodeId;
use ledger_state::{CreateJob, Limits, Proposal};
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use serde::{Deserialize, Serialize};

use crate::types::{LogId, SnapshotMeta, TypeConfig, Vote};
use crate::wire::{Refusal, unseal};

/// A real vote, with what the voter needs to judge whether the candidate's disk is the admitted
/// one.
#[derive(Serialize, Deserialize)]
pub struct Ballot {
    pub rpc: VoteRequest<NodeId>,
    pub membership: Option<LogId>,
}

/// What stands before the bytes of a snapshot.
#[derive(Serialize, Deserialize)]
pub struct SnapshotHead {
    pub vote: Vote,
    pub meta: SnapshotMeta,
    pub bytes: u64,
}

/// Where a candidate's log ends, and where its membership stands in it.
pub type PreVote = (Option<LogId>, Option<LogId>);

pub fn append(bytes: &[u8]) -> Result<AppendEntriesRequest<TypeConfig>, Refusal> {
    unseal(bytes)
}

pub fn ballot(bytes: &[u8]) -> Result<Ballot, Refusal> {
    unseal(bytes)
}

pub fn snapshot_head(bytes: &[u8]) -> Result<SnapshotHead, Refusal> {
    unseal(bytes)
}

pub fn pre_vote(bytes: &[u8]) -> Result<PreVote, Refusal> {
    unseal(bytes)
}

pub fn proposal(bytes: &[u8]) -> Result<Proposal, Refusal> {
    unseal(bytes)
}

pub fn job(bytes: &[u8]) -> Result<CreateJob, Refusal> {
    unseal(bytes)
}

/// The limits of a group; ones with which the ledger could not keep its promises are refused.
pub fn limits(bytes: &[u8]) -> Result<Limits, Refusal> {
    let limits: Limits = unseal(bytes)?;
    limits.check().map_err(|bad| Refusal::Malformed(bad.to_string()))?;
    Ok(limits)
}
