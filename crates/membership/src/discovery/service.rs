//! The shell around [`Bootstrap`]: runs its effects with a resolver and a dialer, as one task
//! beside the serving node.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Bootstrap, Effect, Event, Hello, LookupError, Notice, ProbeFailure, ProbeId, Resolver,
};

/// What a probe or a join gives, when it is done.
pub type Dialed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Somebody who can reach other nodes. The machine keeps the deadlines: what takes too long is
/// dropped.
pub trait Dialer: Send + Sync {
    /// First contact: verify the peer, and ask who it is.
    fn probe(&self, address: SocketAddr) -> Dialed<Result<Hello, ProbeFailure>>;
    /// Join its membership, and wait for its acknowledgement over the path that gossip takes.
    fn join(&self, hello: Hello) -> Dialed<Result<(), String>>;
}

/// Runs until `inbox` closes or the machine gives up. `inbox` brings what the node table knows:
/// members up and gone. `notify` is called for every notice, and `observe` after every step (for
/// status and metrics).
pub async fn run(
    mut machine: Bootstrap,
    resolver: Arc<dyn Resolver>,
    dialer: Arc<dyn Dialer>,
    mut inbox: mpsc::Receiver<Event>,
    mut notify: impl FnMut(Notice),
    mut observe: impl FnMut(&Bootstrap),
) {
    let begun = Instant::now();
    let mut tasks: JoinSet<Event> = JoinSet::new();
    let mut probes: BTreeMap<ProbeId, AbortHandle> = BTreeMap::new();
    let (lookup_deadline, join_deadline) = machine.deadlines();
    let mut event = Event::Start;
    loop {
        if let Event::Answered { probe, .. } | Event::ProbeFailed { probe, .. } = &event {
            probes.remove(probe);
        }
        for effect in machine.step(event, begun.elapsed()) {
            match effect {
                Effect::Resolve(question) => {
                    let resolver = Arc::clone(&resolver);
                    tasks.spawn(async move {
                        let result = timeout(lookup_deadline, resolver.lookup(&question)).await;
                        let result = result.unwrap_or(Err(LookupError::TimedOut));
                        Event::Resolved { question, result }
                    });
                }
                Effect::Probe { probe, address } => {
                    let dialing = dialer.probe(address);
                    let task = tasks.spawn(async move {
                        match dialing.await {
                            Ok(hello) => Event::Answered { probe, hello },
                            Err(why) => Event::ProbeFailed { probe, why },
                        }
                    });
                    probes.insert(probe, task);
                }
                Effect::Cancel(probe) => {
                    if let Some(task) = probes.remove(&probe) {
                        task.abort();
                    }
                }
                Effect::Join(hello) => {
                    let node = hello.node();
                    let joining = dialer.join(*hello);
                    tasks.spawn(async move {
                        match timeout(join_deadline, joining).await {
                            Ok(Ok(())) => Event::JoinAcknowledged { node },
                            Ok(Err(why)) => Event::JoinFailed { node, why },
                            Err(_) => Event::JoinFailed { node, why: "no answer in time".into() },
                        }
                    });
                }
                Effect::Notice(notice) => notify(notice),
            }
        }
        observe(&machine);
        let wake = machine.next_wake().map(|at| begun + at);
        event = loop {
            tokio::select! {
                biased;
                said = inbox.recv() => match said {
                    Some(event) => break event,
                    None => return,
                },
                Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                    // An aborted probe has nothing to say.
                    if let Ok(event) = done {
                        break event;
                    }
                }
                () = sleep_until(wake.unwrap_or(begun)), if wake.is_some() => break Event::Tick,
            }
        };
    }
}
