//! The tasks that move a node: one follows Raft's reports, one drives elections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fence::NodeId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, Instant, sleep_until};
use tonic::Status;

use crate::core::Core;
use crate::election::{Effect, Election, Event, Timing, View};
use crate::peers::{Client, Lane};
use crate::runtime::random_below;
use crate::standing::Standing;
use crate::types::Member;
use crate::wire::proto::PreVoteRequest;
use crate::wire::seal;

/// Follows Raft's reports.
pub(crate) async fn pulse(core: Arc<Core>, standing: watch::Sender<Standing>) {
    let mut reports = core.raft.metrics();
    let mut claimed = false;
    loop {
        let (before, after) = {
            let report = reports.borrow_and_update();
            let before = standing.borrow().clone();
            let after = before.after(&report, Instant::now());
            (before, after)
        };
        if after.leading && !(before.leading && before.vote == after.vote) {
            let term = after.vote.leader_id().get_term();
            core.metrics.leaderships.add(1);
            core.observer.became_leader(core.me.node, term);
            tracing::info!(node = %core.me.node, term, "leads");
        }
        let claims = after.claims(Instant::now(), core.timing.election_max);
        if claimed && !claims && after.leading {
            core.metrics.quorum_lost.add(1);
            tracing::warn!(node = %core.me.node, "leads without a majority, and stops claiming");
        }
        claimed = claims;
        let admitted = after.member(core.me.node).is_some_and(|member| member.disk == core.me.disk);
        if admitted && core.storage.identity().awaits_admission {
            match core.storage.admitted().await {
                Ok(()) => drop(core.waiting.send_replace(None)),
                Err(error) => core.fail(&error.to_string()),
            }
        }
        if core.links.state_limits.get().is_none()
            && let Some(limits) = core.storage.limits()
        {
            let _ = core.links.state_limits.set(limits);
        }
        let stopped = after.stopped.clone();
        // Raft reports after every step; those who wait are woken only by what they can wait for.
        standing.send_if_modified(|standing| {
            let news = after.differs(standing);
            *standing = after;
            news
        });
        if let Some(why) = stopped {
            if !*core.stopping.borrow() {
                core.fail(&format!("Raft has stopped: {why}"));
            }
            return;
        }
        if reports.changed().await.is_err() {
            if !*core.stopping.borrow() {
                core.fail("Raft has gone without a word");
            }
            return;
        }
    }
}

/// A node that has failed leaves the leadership, and everything else, to others.
pub(crate) async fn leave_when_failed(core: Arc<Core>) {
    let mut failed = core.failed.subscribe();
    if failed.wait_for(Option::is_some).await.is_ok() {
        let _ = core.raft.shutdown().await;
    }
}

/// Tells the observer of the state's digest as it changes.
pub(crate) async fn digests(core: Arc<Core>) {
    let mut applied = core.applied.watch();
    while applied.changed().await.is_ok() {
        applied.borrow_and_update();
        let (index, digest) = core.applied.read(|state| (state.applied(), state.digest()));
        core.observer.applied(core.me.node, index, digest);
    }
}

/// Drives elections.
pub(crate) async fn elections(core: Arc<Core>, mut events: mpsc::Receiver<Event>) {
    let timing = Timing {
        lease: core.timing.election_max,
        jitter: core.timing.election_max - core.timing.election_min,
        round: core.timing.election_min,
        unhealthy: core.timing.election_max,
    };
    let jitter = || Duration::from_millis(random_below(timing.jitter.as_millis() as u64 + 1));
    let start = Instant::now();
    let mut election = Election::new(core.me.node, timing, Duration::ZERO, jitter());
    let mut asked = FuturesUnordered::new();
    // Answered when Raft has come to the election that was asked for last.
    let mut begun: Option<oneshot::Receiver<()>> = None;
    loop {
        // At least once a heartbeat: this node may have become a voter, or stopped leading.
        let soon = Instant::now() + core.timing.heartbeat;
        let wake = soon.min(start + election.wake_at()).max(Instant::now() + MIN_WAIT);
        let event = tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(event) => event,
                None => return,
            },
            Some((round, from, granted)) = asked.next(), if !asked.is_empty() => {
                Event::Answer { round, from, granted }
            }
            () = sleep_until(wake) => Event::Tick,
        };
        if core.serving().is_err() {
            return;
        }
        if begun.as_mut().is_some_and(|begun| begun.try_recv() != Err(TryRecvError::Empty)) {
            begun = None;
        }
        let electing = begun.is_some();
        let (view, members) = {
            let standing = core.standing.borrow();
            let view = View { configs: standing.configs(), leading: standing.leading, electing };
            (view, Arc::clone(&standing.membership))
        };
        let late = wake.elapsed();
        if event == Event::Tick && late > core.timing.heartbeat {
            core.metrics.late_ticks.add(1);
            election.step(Event::Late { by: late }, start.elapsed(), jitter(), &view);
        }
        let effect = election.step(event, start.elapsed(), jitter(), &view);
        let slack = election.slack(start.elapsed());
        core.slack_ms.store(slack.as_millis() as u64, Ordering::Relaxed);
        core.asking.store(election.is_asking(), Ordering::Relaxed);
        match effect {
            None => {}
            Some(Effect::Ask { round, voters }) => {
                for voter in voters {
                    let Some(member) = members.membership().get_node(&voter).cloned() else {
                        continue;
                    };
                    let core = Arc::clone(&core);
                    asked.push(async move {
                        core.metrics.pre_votes_asked.add(1);
                        let granted = ask(&core, voter, &member, timing.round).await;
                        if let Err(status) = &granted {
                            tracing::debug!(%voter, %status, "no answer to a pre-vote");
                        }
                        (round, voter, granted.unwrap_or(false))
                    });
                }
            }
            Some(Effect::Elect) => {
                core.metrics.elections.add(1);
                tracing::info!(node = %core.me.node, "a majority would vote for this node: it stands");
                if let Err(error) = core.raft.trigger().elect().await {
                    core.fail(&error.to_string());
                    return;
                }
                // Raft takes its messages in order.
                let (tell, told) = oneshot::channel();
                core.raft.external_request(move |_| {
                    let _ = tell.send(());
                });
                begun = Some(told);
            }
        }
    }
}

/// A task never spins, whatever the machine says.
const MIN_WAIT: Duration = Duration::from_millis(1);

async fn ask(core: &Core, node: NodeId, member: &Member, within: Duration) -> Result<bool, Status> {
    let standing = core.standing();
    let last_log = core.raft.data_metrics().borrow().last_log;
    let header = core.links.header(node, member)?;
    let request = PreVoteRequest {
        header: Some(header.to_wire()),
        sealed: seal(&(last_log, *standing.membership.log_id()))?,
        voters_digest: standing.voters_digest(),
    };
    let call = |mut client: Client| async move { client.pre_vote(request).await };
    let reply = core.links.peers.call(Lane::Raft, &member.address, within, call).await?;
    if reply.granted {
        core.metrics.pre_votes_granted.add(1);
    } else {
        tracing::debug!(%node, reason = reply.reason, "a pre-vote was refused");
    }
    Ok(reply.granted)
}
