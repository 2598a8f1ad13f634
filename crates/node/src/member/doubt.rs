//! Whether another process runs as this node, with a later start.
//!
//! The gossip may tell so. Whoever has the gossip key can make that up, so it ends nothing (R26):
//! the process that is told of is asked itself, if this node may connect to it, and so are the
//! managers, with whom each node speaks over mutual TLS when it starts. Only their answers end this
//! node.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use membership::Peer;
use tokio::sync::watch;
use tokio::time::timeout;
use trust::{Expected, Gates};

use super::search::greet;
use super::{Inner, look_for};
use crate::wire::proto::membership_client::MembershipClient;

/// For one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// More managers than this are not asked: the later process has greeted most of those that there
/// are.
const ASKED_MAX: usize = 7;

/// Looks into what the gossip tells, one case at a time, until told to stop.
pub(crate) async fn run(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let mut told = inner.doubt.subscribe();
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            changed = told.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let about = *told.borrow_and_update();
        let Some(about) = about else { continue };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = look_into(&inner, about) => {}
        }
    }
}

async fn look_into(inner: &Inner, about: Peer) {
    let role = inner.identity.role;
    let gates = inner.config.gates == Gates::Configured;
    let it = role.may_open(role, gates).then_some(Peer { role, node: inner.life.node, ..about });
    let managers = inner.agent.view();
    let managers = managers.entries.iter().filter(|entry| entry.state.is_live());
    let managers = managers.map(|entry| entry.peer).filter(|peer| peer.role == look_for(role));
    let asked: Vec<Peer> = it.into_iter().chain(managers.take(ASKED_MAX)).collect();
    let mut answers = 0_u32;
    for peer in asked {
        let expected = Expected { role: peer.role, node: Some(peer.node) };
        let channel = inner.channels.to(peer.address, expected);
        let mut client = MembershipClient::new(channel);
        let within = inner.scaled(ANSWER_WITHIN).max(ANSWER_WITHIN);
        // What it says of us is acted on there.
        let greeted = timeout(within, greet(inner, &mut client, None)).await;
        if let Ok(Ok(hello)) = greeted {
            answers += 1;
            if peer.node == inner.life.node && hello.node() == peer.node {
                inner.met_self(hello.boot);
            }
        }
        if inner.end.borrow().is_some() {
            return;
        }
    }
    inner.numbers.unproven_lives.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        told = %about.boot, at = %about.address, own = %inner.life.boot, answers,
        "the gossip tells of a later start of this node, and nobody who was asked over mutual TLS confirms it; this \
         process goes on. If it happens again, somebody has the gossip key who should not: change it"
    );
}
