//! Asking a member from outside: submit, status, changes of the members. For commands and tools,
//! which are no members.

use base::millis;
use std::sync::Arc;
use std::time::Duration;

use fence::{GroupId, NodeId};
use ledger_state::{CreateJob, Submission};
use tonic::Status;

use crate::config::{Limits, Timing};
use crate::members::{Change, Changed};
use crate::metrics::Metrics;
use crate::peers::{Client as Connection, Lane, Peers};
use crate::transport::Transport;
use crate::types::DiskId;
use crate::wire::proto::{MemberStatus, StatusReply, StatusRequest, SubmitRequest};
use crate::wire::{node_from, seal, unseal};

/// Why a member gave no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError(String);

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClientError {}

/// What a member says of itself and its group.
#[derive(Clone, Debug)]
pub struct MemberView {
    pub node: NodeId,
    pub boot: u64,
    pub disk: DiskId,
    pub group: Option<GroupId>,
    pub term: u64,
    pub leader: Option<(NodeId, String)>,
    /// This member leads, and a majority has answered it lately.
    pub leads: bool,
    pub applied: u64,
    pub last_log: u64,
    pub members: Vec<Known>,
    /// Why it has stopped serving.
    pub failed: Option<String>,
    pub software: String,
}

/// A member as another one knows it.
#[derive(Clone, Debug)]
pub struct Known {
    pub node: NodeId,
    pub address: String,
    pub disk: DiskId,
    pub voter: bool,
}

/// Connections to any number of members.
pub struct Client {
    peers: Peers,
}

impl Client {
    #[must_use]
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        let metrics = Arc::new(Metrics::default());
        Self { peers: Peers::new(transport, Timing::default(), Limits::default(), metrics) }
    }

    /// Hands a submission to a member. An error says nothing about whether it was taken: ask again
    /// with the same key.
    pub async fn submit(
        &self,
        address: &str,
        job: &CreateJob,
        within: Duration,
    ) -> Result<Submission, ClientError> {
        let sealed = seal(job).map_err(|refusal| ClientError(refusal.to_string()))?;
        let request = SubmitRequest { sealed, within_ms: millis(within) };
        let call = |mut client: Connection| async move { client.submit(request).await };
        let reply = self
            .peers
            .call(Lane::Work, address, within, call)
            .await
            .map_err(|s| said(address, &s))?;
        unseal(&reply.sealed).map_err(|refusal| ClientError(format!("{address}: {refusal}")))
    }

    /// How a member is.
    pub async fn status(&self, address: &str, within: Duration) -> Result<MemberView, ClientError> {
        let call = |mut client: Connection| async move { client.status(StatusRequest {}).await };
        let reply = self
            .peers
            .call(Lane::Work, address, within, call)
            .await
            .map_err(|s| said(address, &s))?;
        view(reply).map_err(|error| ClientError(format!("{address}: {error}")))
    }

    /// Changes who belongs to the group.
    pub async fn change_members(
        &self,
        address: &str,
        change: &Change,
        within: Duration,
    ) -> Result<Changed, ClientError> {
        let request = change.to_wire(within);
        let call = |mut client: Connection| async move { client.change_members(request).await };
        let reply = self
            .peers
            .call(Lane::Work, address, within, call)
            .await
            .map_err(|s| said(address, &s))?;
        unseal(&reply.sealed).map_err(|refusal| ClientError(format!("{address}: {refusal}")))
    }
}

fn said(address: &str, status: &Status) -> ClientError {
    ClientError(format!("{address}: {}", status.message()))
}

fn view(reply: StatusReply) -> Result<MemberView, ClientError> {
    let wrong = |refusal: crate::wire::Refusal| ClientError(refusal.to_string());
    let identity = reply.identity.ok_or_else(|| ClientError("it does not say who it is".into()))?;
    let leader = match reply.leader.as_ref() {
        [] => None,
        bytes => Some((node_from(bytes).map_err(wrong)?, reply.leader_address)),
    };
    let known = |member: MemberStatus| {
        let MemberStatus { node, address, disk, voter } = member;
        Ok(Known { node: node_from(&node).map_err(wrong)?, address, disk: DiskId(disk), voter })
    };
    Ok(MemberView {
        node: node_from(&identity.node).map_err(wrong)?,
        boot: identity.boot,
        disk: DiskId(identity.disk),
        group: identity.cluster.map(|cluster| GroupId { cluster, generation: identity.generation }),
        term: reply.term,
        leader,
        leads: reply.leads,
        applied: reply.applied,
        last_log: reply.last_log,
        members: reply.members.into_iter().map(known).collect::<Result<_, _>>()?,
        failed: Some(reply.failed).filter(|why| !why.is_empty()),
        software: identity.software,
    })
}
