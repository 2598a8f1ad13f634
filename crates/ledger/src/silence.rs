//! Who does not answer the leader.
//!
//! ```text
//! leader ──append, ten a second──▶ member       an answer, a proposal or a read of it is a sign of life
//!        ──status, on another connection──▶     asked back when half of the patience is over
//!        ──append { silent }──▶ the others      who hand it to whoever asks, while they hear the leader
//! ```
//!
//! The leader alone hears every member. One that it does not hear can write nothing to the ledger,
//! however alive it is to membership, whose gossip takes ways around a cut. The report rides on the
//! appends that are sent anyway: it is a hint about now (R6), and an entry in the log would outlast
//! what it says. Whoever hears no leader has no report, and a leader without a majority makes none:
//! it may be the one that is cut off.
//!
//! Three election time-outs are the patience on a quiet network. A pause of one second, with the
//! heartbeat and the back-off around it, is 1.3 s at worst and must mean nothing; two of them would
//! leave no room. See [`base::detector`] for how it grows where packets are lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::detector::{Detector, Patience};
use fence::{Moment, NodeId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::config::Timing;
use crate::core::Core;
use crate::peers::{Client, Lane};
use crate::types::Member;
use crate::wire::node_from;
use crate::wire::proto::StatusRequest;

/// Patience in election time-outs: without noise, and however much there is.
const FIRST: u32 = 3;
const MOST: u32 = 15;
/// More members than a group has.
const REPORTED_MAX: usize = 64;

struct Watched {
    detector: Detector<NodeId>,
    /// When a leader's report last came.
    reported: Option<Instant>,
    /// This node has led without a majority a moment ago.
    alone: bool,
}

pub(crate) struct Silence {
    started: Instant,
    /// How long a leader's report holds.
    holds: Duration,
    watched: Mutex<Watched>,
    silent: watch::Sender<BTreeSet<NodeId>>,
}

impl Silence {
    pub(crate) fn new(timing: &Timing) -> Self {
        let first = timing.election_max * FIRST;
        let most = timing.election_max * MOST;
        let detector = Detector::new(Patience { first, most });
        Self {
            started: Instant::now(),
            holds: timing.election_max,
            watched: Mutex::new(Watched { detector, reported: None, alone: false }),
            silent: watch::Sender::new(BTreeSet::new()),
        }
    }

    fn now(&self) -> Moment {
        Moment::since_boot(self.started.elapsed())
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sign of life.
    pub(crate) fn heard(&self, node: NodeId) {
        let now = self.now();
        self.watched().detector.heard(node, now);
    }

    /// Its machine refuses connections to its address.
    pub(crate) fn refused(&self, node: NodeId) {
        let now = self.now();
        self.watched().detector.refused(node, now);
    }

    /// A live leader has said who is silent.
    pub(crate) fn reported(&self, silent: &[impl AsRef<[u8]>]) {
        self.watched().reported = Some(Instant::now());
        let silent = silent.iter().take(REPORTED_MAX);
        let silent = silent.filter_map(|node| node_from(node.as_ref()).ok()).collect();
        self.say(silent);
    }

    fn say(&self, silent: BTreeSet<NodeId>) {
        self.silent.send_if_modified(|said| {
            let news = *said != silent;
            *said = silent;
            news
        });
    }

    /// The report as it is now.
    pub(crate) fn watch(&self) -> watch::Receiver<BTreeSet<NodeId>> {
        self.silent.subscribe()
    }

    /// Looks anew, as the leader of these or as a follower of that one. Returns whom the leader
    /// should ask back.
    fn look(&self, role: &Role, late: Duration) -> Vec<NodeId> {
        let now = self.now();
        let mut watched = self.watched();
        if !late.is_zero() {
            watched.detector.stood_still(late, now);
        }
        match role {
            Role::Leads { others } => {
                watched.detector.watch(others.iter().map(|(node, _)| *node), now);
                watched.reported = None;
                if std::mem::take(&mut watched.alone) {
                    // Whoever answers first has brought the majority back; the others get the same
                    // chance.
                    watched.detector.stood_still(Duration::MAX, now);
                }
                let silent: BTreeSet<NodeId> = watched.detector.silent(now).collect();
                let doubt = watched.detector.patience(now) / 2;
                let quiet = |node: &NodeId| {
                    watched.detector.quiet_for(*node, now).is_some_and(|quiet| quiet >= doubt)
                };
                let quiet = others.iter().map(|(node, _)| *node).filter(quiet).collect();
                drop(watched);
                self.say(silent);
                quiet
            }
            Role::Follows { leader } => {
                // Gaps between the leader's messages teach what a silence is worth here.
                if let Some(leader) = leader {
                    watched.detector.watch([*leader], now);
                }
                watched.alone = false;
                let holds = watched.reported.is_some_and(|at| at.elapsed() < self.holds);
                drop(watched);
                if !holds {
                    self.say(BTreeSet::new());
                }
                Vec::new()
            }
            Role::LeadsAlone => {
                // Whom it does not hear says more about itself.
                (watched.reported, watched.alone) = (None, true);
                drop(watched);
                self.say(BTreeSet::new());
                Vec::new()
            }
        }
    }
}

enum Role {
    Leads { others: Vec<(NodeId, Member)> },
    LeadsAlone,
    Follows { leader: Option<NodeId> },
}

fn role(core: &Core) -> Role {
    let standing = core.standing();
    if !standing.leading {
        let leader = standing.leader.map(|(node, _)| node);
        return Role::Follows { leader: leader.filter(|leader| *leader != core.me.node) };
    }
    match core.claims() {
        true => Role::Leads { others: core.others() },
        false => Role::LeadsAlone,
    }
}

/// Looks once a heartbeat.
pub(crate) async fn run(core: Arc<Core>) {
    let every = core.timing.heartbeat;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = JoinSet::new();
    let mut asking = BTreeSet::new();
    let mut last = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Some(answered) = asked.join_next() => {
                if let Ok((node, answers)) = answered {
                    asking.remove(&node);
                    if answers {
                        core.links.silence.heard(node);
                    }
                }
                continue;
            }
        }
        if core.serving().is_err() {
            return;
        }
        // What others have said while this task did not run lies unread.
        let late = last.elapsed().saturating_sub(every);
        last = Instant::now();
        let late = if late > every { late } else { Duration::ZERO };
        let role = role(&core);
        let quiet = core.links.silence.look(&role, late);
        let Role::Leads { others } = role else { continue };
        for (node, member) in others {
            if quiet.contains(&node) && asking.insert(node) {
                let core = Arc::clone(&core);
                asked.spawn(async move { (node, answers(&core, node, &member).await) });
            }
        }
    }
}

/// Whether it answers on another connection than that of Raft, which one lost packet may hold up. A
/// node whose ledger has stopped is as good as silent.
async fn answers(core: &Core, node: NodeId, member: &Member) -> bool {
    let within = core.timing.election_max;
    let call = |mut client: Client| async move { client.status(StatusRequest {}).await };
    let reply = core.links.peers.call(Lane::Work, &member.address, within, call).await;
    let Ok(reply) = reply else { return false };
    let who = reply.identity.and_then(|identity| node_from(&identity.node).ok());
    who == Some(node) && reply.failed.is_empty()
}
