//! Who is there, as membership sees it: hints, which the workers themselves and the ledger correct.

use std::collections::BTreeSet;
use std::time::Duration;

use control::breaker::{self, Tripped};
use control::pool;
use control::routing::{Pace, Presence, Routing, Signals, Why};
use fence::{BootId, NodeId};
use membership::agent::View;
use membership::health::{Assessment, Progress};
use membership::heartbeat::{Beat, Heartbeat, Stage};
use membership::identity::Peer;
use membership::table::Entry;
use membership::{Role, State};

use crate::wire::proto::{self, FleetNode, NodeRole, NodeState};

/// Everybody of a role that was heard of and is not declared dead.
fn is_live(entry: &Entry) -> bool {
    matches!(entry.state, State::Confirmed | State::Suspect)
}

/// The workers with what their last heartbeats say, and what is thought of each.
pub fn workers(view: &View, judge: impl Fn(&Entry) -> Routing) -> Vec<pool::Worker> {
    let workers = view.entries.iter().filter(|entry| entry.peer.role == Role::Worker);
    workers.filter_map(|entry| worker(entry, judge(entry))).collect()
}

/// The lives of the workers that are there.
pub fn lives(view: &View) -> impl Iterator<Item = (NodeId, BootId)> + '_ {
    let workers = view.entries.iter().filter(|entry| entry.peer.role == Role::Worker);
    workers.filter(|entry| is_live(entry)).map(|entry| (entry.peer.node, entry.peer.boot))
}

/// Everything that is known of a worker's health, in one place.
pub fn signs(
    entry: &Entry,
    health: Option<Assessment>,
    breaker: Option<(breaker::State, Tripped)>,
) -> Signals {
    let heartbeat = Heartbeat::decode(&entry.heartbeat);
    let is_accepting = |heartbeat: Heartbeat| match heartbeat.beat {
        // A full one accepts, and has no room.
        Beat::Worker(beat) => beat.accepting && heartbeat.stage != Stage::Draining,
        _ => false,
    };
    let is_full =
        |heartbeat: Heartbeat| matches!(heartbeat.beat, Beat::Worker(beat) if beat.disk_full);
    Signals {
        presence: match entry.state {
            State::Unconfirmed | State::Confirmed => Presence::There,
            State::Suspect => Presence::Suspect,
            State::Dead | State::Left => Presence::Gone,
        },
        accepting: heartbeat.is_some_and(is_accepting),
        disk_full: heartbeat.is_some_and(is_full),
        pace: match health.map(|health| health.progress) {
            None | Some(Progress::Idle | Progress::Normal) => Pace::Usual,
            Some(Progress::Slow | Progress::Degraded) => Pace::Low,
            Some(Progress::Stuck) => Pace::Stuck,
        },
        short_of_memory: health.is_some_and(|health| health.short_of_memory),
        overdue: health.is_some_and(|health| health.evict),
        breaker,
    }
}

/// Somebody has come within this time, and has not said yet what he can do. Somebody who was told
/// of and cannot be reached is not waited for by every job.
pub fn is_incomplete(view: &View, within: Duration) -> bool {
    let workers = view.entries.iter().filter(|entry| entry.peer.role == Role::Worker);
    let there = |entry: &&Entry| is_live(entry) || entry.state == State::Unconfirmed;
    let is_new = |entry: &&Entry| view.age.saturating_sub(entry.since) < within;
    let unknown = |entry: &Entry| worker(entry, Routing::Route).is_none();
    workers.filter(there).filter(is_new).any(unknown)
}

/// None: it has not said yet how many cores it has.
fn worker(entry: &Entry, routing: Routing) -> Option<pool::Worker> {
    let Beat::Worker(beat) = Heartbeat::decode(&entry.heartbeat)?.beat else { return None };
    Some(pool::Worker {
        node: entry.peer.node,
        boot: entry.peer.boot,
        total: beat.cores,
        free: beat.cores_free,
        draining: !beat.accepting && !beat.disk_full,
        disk_full: beat.disk_full,
        live: is_live(entry),
        routing,
    })
}

/// The managers that membership does not take for dead, this one among them.
pub fn managers(view: &View) -> BTreeSet<NodeId> {
    let others = view.entries.iter().filter(|entry| entry.peer.role == Role::Manager);
    let others = others.filter(|entry| is_live(entry)).map(|entry| entry.peer.node);
    others.chain([view.me.node]).collect()
}

/// A manager that is there and says that it has no part in the ledger: it starts, is cut off, or
/// waits to be let in.
pub fn is_without_ledger(view: &View, node: NodeId) -> bool {
    let entry = view.entries.iter().find(|entry| entry.peer.node == node);
    let heartbeat = entry.and_then(|entry| Heartbeat::decode(&entry.heartbeat));
    matches!(heartbeat.map(|heartbeat| heartbeat.beat), Some(Beat::Manager(beat)) if !beat.has_quorum)
}

/// Where the managers that are there are found, this one first: for those who come.
pub fn seeds(view: &View) -> Vec<String> {
    let others = view.entries.iter().filter(|entry| entry.peer.role == Role::Manager);
    let others = others.filter(|entry| is_live(entry)).map(|entry| entry.peer.address);
    std::iter::once(view.me.address).chain(others).map(|address| address.to_string()).collect()
}

/// Where a node is found, and in which life.
pub fn peer(view: &View, node: NodeId) -> Option<Peer> {
    if node == view.me.node {
        return Some(view.me);
    }
    let known = view.entries.iter().find(|entry| entry.peer.node == node);
    known.map(|entry| entry.peer)
}

/// Everybody, for people. `owned`: the owner of each running job.
pub fn nodes(
    view: &View,
    leader: Option<NodeId>,
    owned: &[NodeId],
    judge: impl Fn(&Entry) -> (Routing, Option<Why>),
) -> Vec<FleetNode> {
    let jobs = |node: NodeId| {
        u32::try_from(owned.iter().filter(|owner| **owner == node).count()).unwrap_or(u32::MAX)
    };
    let me = FleetNode {
        node: view.me.node.to_string(),
        role: NodeRole::from(view.me.role).into(),
        address: view.me.address.to_string(),
        state: NodeState::Alive.into(),
        jobs: jobs(view.me.node),
        leads: leader == Some(view.me.node),
        ..FleetNode::default()
    };
    let other = |entry: &Entry| {
        let mut node = FleetNode {
            node: entry.peer.node.to_string(),
            role: NodeRole::from(entry.peer.role).into(),
            address: entry.peer.address.to_string(),
            state: NodeState::from(entry.state).into(),
            jobs: jobs(entry.peer.node),
            // Until the others have noticed, a leader that has left is still the last one they
            // knew.
            leads: leader == Some(entry.peer.node) && is_live(entry),
            ..FleetNode::default()
        };
        let beat = Heartbeat::decode(&entry.heartbeat).map(|heartbeat| heartbeat.beat);
        if let Some(Beat::Worker(beat)) = beat {
            (node.cores, node.cores_free, node.shards) = (beat.cores, beat.cores_free, beat.shards);
            node.draining = !beat.accepting && !beat.disk_full;
            let (routing, why) = judge(entry);
            node.routing = proto::Routing::from(routing).into();
            // The state says the rest.
            let shown = why.filter(|why| !matches!(why, Why::Gone | Why::Suspect | Why::Draining));
            node.why = shown.map(|why| why.to_string()).unwrap_or_default();
        }
        node
    };
    std::iter::once(me).chain(view.entries.iter().map(other)).collect()
}
