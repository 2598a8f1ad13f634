//! Follows the node table: tells discovery who is up and who is gone, keeps the three signals of
//! every node, and has it looked into when the gossip tells of another process in this node's
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fence::NodeId;
use membership::agent::View;
use membership::discovery;
use membership::health::Tracker;
use membership::heartbeat::Heartbeat;
use membership::{Notice, State};
use tokio::sync::{mpsc, watch};

use super::{End, Inner, lock};

pub(crate) async fn run(
    inner: Arc<Inner>,
    events: mpsc::Sender<discovery::Event>,
    mut stop: watch::Receiver<bool>,
) {
    let mut views = inner.agent.watch();
    let mut live = BTreeSet::new();
    let mut heard = BTreeMap::new();
    let mut noticed = Duration::ZERO;
    let mut group = inner.group.subscribe();
    loop {
        let view = views.borrow_and_update().clone();
        assess(&inner, &view, &mut heard);
        watch_self(&inner, &view, &mut noticed);
        let now_live: BTreeSet<NodeId> = view
            .entries
            .iter()
            .filter(|entry| entry.state.is_live())
            .map(|entry| entry.peer.node)
            .collect();
        lock(&inner.hellos).retain(|node, _| now_live.contains(node));
        let up = now_live.difference(&live).filter_map(|node| {
            let at = view.entries.binary_search_by_key(node, |entry| entry.peer.node).ok()?;
            Some(discovery::Event::MemberUp { node: *node, address: view.entries[at].peer.address })
        });
        let gone =
            live.difference(&now_live).map(|node| discovery::Event::MemberGone { node: *node });
        for event in up.chain(gone).collect::<Vec<_>>() {
            if events.send(event).await.is_err() {
                break;
            }
        }
        live = now_live;
        let grouped = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            Ok(()) = group.changed() => *group.borrow_and_update(),
            changed = views.changed() => {
                if changed.is_err() {
                    // The thread has ended; whoever supervises us ends the node.
                    return;
                }
                None
            }
        };
        if let Some(group) = grouped {
            // Without discovery nobody needs to know.
            let _ = events.send(discovery::Event::Grouped { group }).await;
        }
    }
}

/// Brings the three signals up to date with what the table shows.
fn assess(inner: &Inner, view: &View, heard: &mut BTreeMap<NodeId, Duration>) {
    let mut tracker = lock(&inner.health);
    let mut known = Vec::new();
    for entry in &view.entries {
        let node = entry.peer.node;
        match entry.state {
            State::Left => {
                tracker.remove(node);
                heard.remove(&node);
                continue;
            }
            State::Unconfirmed => continue,
            State::Confirmed | State::Suspect | State::Dead => {}
        }
        take(&mut tracker, entry, view.age, heard);
        if tracker.assess(node, view.age).is_some() {
            known.push(node);
        }
    }
    heard.retain(|node, _| {
        let is_known = view.entries.binary_search_by_key(node, |entry| entry.peer.node).is_ok();
        if !is_known {
            tracker.remove(*node);
        }
        is_known
    });
    let judged = |node| Some((node, tracker.judge(node, view.age)?));
    let assessments = known.into_iter().filter_map(judged).collect();
    drop(tracker);
    *lock(&inner.assessments) = assessments;
}

fn take(
    tracker: &mut Tracker,
    entry: &membership::Entry,
    now: Duration,
    heard: &mut BTreeMap<NodeId, Duration>,
) {
    let node = entry.peer.node;
    let at = match entry.state {
        // Somebody reaches it. In a large cluster that is seldom this member.
        State::Confirmed => now,
        _ => entry.last_heard.unwrap_or(entry.first_seen),
    };
    if heard.insert(node, at) != Some(at) {
        tracker.answered(node, at);
    }
    if let Some(heartbeat) = Heartbeat::decode(&entry.heartbeat) {
        tracker.beat(node, entry.peer.boot, heartbeat, at);
    }
    if entry.state == State::Dead {
        tracker.died(node);
    }
}

fn watch_self(inner: &Inner, view: &View, noticed: &mut Duration) {
    let seen = *noticed;
    for (at, notice) in view.notices.iter().filter(|(at, _)| *at > seen) {
        if let Notice::LaterLifeTold { peer } = notice {
            inner.doubt.send_replace(Some(*peer));
        }
        *noticed = *at;
    }
}

impl Inner {
    /// This node has to stop. The first reason counts.
    pub(crate) fn end_with(&self, end: &End) {
        let is_first = self.end.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some(end.clone());
            }
            is_first
        });
        if is_first {
            tracing::error!(node = %self.life.node, "{end}");
        }
    }
}
