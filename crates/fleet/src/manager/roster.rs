//! Who is there, as membership sees it: hints, which the workers themselves and the ledger correct.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use control::fleet::pool;
use fence::NodeId;
use membership::agent::View;
use membership::heartbeat::{Beat, Heartbeat};
use membership::table::Entry;
use membership::{Role, State};

use crate::wire::proto::FleetNode;

/// Everybody of a role that was heard of and is not declared dead.
fn is_live(entry: &Entry) -> bool {
    matches!(entry.state, State::Confirmed | State::Suspect)
}

/// The workers with what their last heartbeats say.
pub fn workers(view: &View) -> Vec<pool::Worker> {
    let workers = view.entries.iter().filter(|entry| entry.peer.role == Role::Worker);
    workers.filter_map(worker).collect()
}

/// Somebody has come within this time, and has not said yet what he can do. Somebody who was told of and cannot be
/// reached is not waited for by every job.
pub fn is_incomplete(view: &View, within: Duration) -> bool {
    let workers = view.entries.iter().filter(|entry| entry.peer.role == Role::Worker);
    let there = |entry: &&Entry| is_live(entry) || entry.state == State::Unconfirmed;
    let is_new = |entry: &&Entry| view.age.saturating_sub(entry.since) < within;
    workers.filter(there).filter(is_new).any(|entry| worker(entry).is_none())
}

/// None: it has not said yet how many cores it has.
fn worker(entry: &Entry) -> Option<pool::Worker> {
    let Beat::Worker(beat) = Heartbeat::decode(&entry.heartbeat)?.beat else { return None };
    Some(pool::Worker {
        node: entry.peer.node,
        boot: entry.peer.boot,
        total: beat.cores,
        free: beat.cores_free,
        // What runs on a suspect goes on; nothing new is put there (ARCH-72).
        draining: !beat.accepting || entry.state == State::Suspect,
        live: is_live(entry),
    })
}

/// The managers that membership does not take for dead, this one among them.
pub fn managers(view: &View) -> BTreeSet<NodeId> {
    let others = view.entries.iter().filter(|entry| entry.peer.role == Role::Manager);
    let others = others.filter(|entry| is_live(entry)).map(|entry| entry.peer.node);
    others.chain([view.me.node]).collect()
}

/// Where the managers that are there are found, this one first: for those who come.
pub fn seeds(view: &View) -> Vec<String> {
    let others = view.entries.iter().filter(|entry| entry.peer.role == Role::Manager);
    let others = others.filter(|entry| is_live(entry)).map(|entry| entry.peer.address);
    std::iter::once(view.me.address).chain(others).map(|address| address.to_string()).collect()
}

/// Where a node is found.
pub fn address(view: &View, node: NodeId) -> Option<(Role, SocketAddr)> {
    if node == view.me.node {
        return Some((view.me.role, view.me.address));
    }
    let known = view.entries.iter().find(|entry| entry.peer.node == node);
    known.map(|entry| (entry.peer.role, entry.peer.address))
}

/// Everybody, for people. `owned`: the owner of each running job.
pub fn nodes(view: &View, leader: Option<NodeId>, owned: &[NodeId]) -> Vec<FleetNode> {
    let jobs = |node: NodeId| {
        u32::try_from(owned.iter().filter(|owner| **owner == node).count()).unwrap_or(u32::MAX)
    };
    let me = FleetNode {
        node: view.me.node.to_string(),
        role: view.me.role.to_string(),
        address: view.me.address.to_string(),
        state: "alive".to_owned(),
        jobs: jobs(view.me.node),
        leads: leader == Some(view.me.node),
        ..FleetNode::default()
    };
    let other = |entry: &Entry| {
        let mut node = FleetNode {
            node: entry.peer.node.to_string(),
            role: entry.peer.role.to_string(),
            address: entry.peer.address.to_string(),
            state: match entry.state {
                State::Unconfirmed => "heard of",
                State::Confirmed => "alive",
                State::Suspect => "suspect",
                State::Dead => "dead",
                State::Left => "left",
            }
            .to_owned(),
            jobs: jobs(entry.peer.node),
            leads: leader == Some(entry.peer.node),
            ..FleetNode::default()
        };
        let beat = Heartbeat::decode(&entry.heartbeat).map(|heartbeat| heartbeat.beat);
        if let Some(Beat::Worker(beat)) = beat {
            (node.cores, node.cores_free, node.shards) = (beat.cores, beat.cores_free, beat.shards);
            node.draining = !beat.accepting;
        }
        node
    };
    std::iter::once(me).chain(view.entries.iter().map(other)).collect()
}
