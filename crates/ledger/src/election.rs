//! When to stand for election: a pure machine around Raft's own.
//!
//! Raft alone lets a node that was cut off for a while come back with a higher term and throw the
//! leader out. So a node first asks the others whether they would vote for it, which changes
//! nothing on either side; only a majority of yes starts a real election (CORE-20 to CORE-22).
//!
//! ```text
//!            lease + jitter without a leader          majority of yes
//! Following ───────────────────────────────▶ Asking ──────────────────▶ Elect (once), then wait again
//!     ▲                                         │
//!     └────── a leader is heard, or time is up ─┘
//! ```
//!
//! A machine that is overloaded must not change its leaders: that costs more than it has. A node
//! whose own task was not run in time knows that what the leader said may lie unread, here or on
//! its way; it waits that much longer, before it asks and before it grants. And one whose elections
//! come to nothing stands less and less often.
//!
//! **Invariant:** no clock, no randomness, no I/O in here: `now` and the jitter are handed in.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::NodeId;

use crate::quorum;
use crate::types::{DiskId, LogId};

/// How often others are let go first by a pre-vote alone.
const YIELDS: u32 = 2;
/// Each election that brought no leader doubles the wait for the next, so often.
const DOUBLINGS: u32 = 4;
/// However late a task was run: a leader that is silent for so many leases is gone.
const SLACK_LEASES: u32 = 8;
/// How many leases a task that was late makes the node wait longer.
const SLACK_FOR_LEASES: u32 = 16;

/// Times, already scaled.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a leader counts as alive after it was heard.
    pub lease: Duration,
    /// The wait after the lease is drawn from here.
    pub jitter: Duration,
    /// How long answers are waited for.
    pub round: Duration,
    /// What a node that feels unhealthy waits longer, so that a healthy one goes first.
    pub unhealthy: Duration,
}

/// What the machine has to know of Raft when it decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The voters; two sets while they change.
    pub configs: Vec<BTreeSet<NodeId>>,
    /// This node leads.
    pub leading: bool,
    /// An election was asked for, and Raft has not come to it yet: its disk may hold it up for
    /// seconds.
    pub electing: bool,
}

impl View {
    fn is_voter(&self, node: NodeId) -> bool {
        self.configs.iter().any(|voters| voters.contains(&node))
    }

    fn is_alone(&self, node: NodeId) -> bool {
        self.configs.iter().all(|voters| voters.len() == 1 && voters.contains(&node))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// The last [`Event::Tick`] should have come so much earlier: the task or the machine did not
    /// get to run.
    Late { by: Duration },
    /// An append of a live leader was taken.
    Heard,
    /// This node has promised another one its pre-vote, or given it its vote: that one goes first.
    Promised { vote: bool },
    /// An answer to our question number `round`.
    Answer { round: u64, from: NodeId, granted: bool },
    /// The node's own health changed.
    Health { good: bool },
    /// The log is corrupt or poisoned: this node must not lead.
    Unfit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask these, under this number.
    Ask { round: u64, voters: BTreeSet<NodeId> },
    /// Start the real election.
    Elect,
}

#[derive(Clone, Debug)]
struct Round {
    number: u64,
    yes: BTreeSet<NodeId>,
    ends: Duration,
}

/// One node's side of elections.
#[derive(Clone, Debug)]
pub struct Election {
    me: NodeId,
    timing: Timing,
    heard: Option<Duration>,
    due: Duration,
    rounds: u64,
    asking: Option<Round>,
    /// How often another one was let go first since a leader was heard.
    yielded: u32,
    /// How often this node has stood since a leader was heard.
    stood: u32,
    /// How late its task was run at worst of late, and until when that counts.
    late: (Duration, Duration),
    healthy: bool,
    fit: bool,
}

impl Election {
    /// A start counts as having heard a leader: one that is there gets the chance to be heard.
    pub fn new(me: NodeId, timing: Timing, now: Duration, jitter: Duration) -> Self {
        Self {
            me,
            timing,
            heard: None,
            due: now + timing.lease + jitter,
            rounds: 0,
            asking: None,
            yielded: 0,
            stood: 0,
            late: (Duration::ZERO, Duration::ZERO),
            healthy: true,
            fit: true,
        }
    }

    /// Takes an event. `jitter` is a fresh random wait of at most [`Timing::jitter`].
    pub fn step(
        &mut self,
        event: Event,
        now: Duration,
        jitter: Duration,
        view: &View,
    ) -> Option<Effect> {
        match event {
            Event::Heard => {
                self.heard = Some(now);
                (self.yielded, self.stood) = (0, 0);
                self.asking = None;
                self.due = now + self.timing.lease + self.slack(now) + self.patience(jitter);
                None
            }
            Event::Late { by } => {
                let by = by.min(self.timing.lease * SLACK_LEASES).max(self.slack(now));
                self.late = (by, now + self.timing.lease * SLACK_FOR_LEASES);
                // Answers to a question of before the standstill say nothing of now.
                self.asking = None;
                self.due = self.due.max(now + by);
                None
            }
            Event::Promised { vote } => {
                // One that asks and asks, and cannot hear the answers, must not keep everybody else
                // from standing.
                if !vote && self.yielded >= YIELDS {
                    return None;
                }
                self.yielded += u32::from(!vote);
                self.asking = None;
                self.due = self.due.max(now + self.timing.round + self.patience(jitter));
                None
            }
            Event::Health { good } => {
                self.healthy = good;
                None
            }
            Event::Unfit => {
                self.fit = false;
                self.asking = None;
                None
            }
            Event::Answer { round, from, granted } => {
                let current = self.asking.as_mut().filter(|asking| asking.number == round)?;
                if granted {
                    current.yes.insert(from);
                }
                self.decide(now, jitter, view)
            }
            Event::Tick => self.tick(now, jitter, view),
        }
    }

    fn tick(&mut self, now: Duration, jitter: Duration, view: &View) -> Option<Effect> {
        if view.leading || !self.fit || !view.is_voter(self.me) {
            if view.leading {
                self.stood = 0;
            }
            self.asking = None;
            self.due = now + self.timing.lease + self.patience(jitter);
            return None;
        }
        if view.electing {
            // One more now would be held later, when nobody may be there any more, and raise the
            // term for nothing.
            self.asking = None;
            self.due = self.due.max(now + self.timing.round);
            return None;
        }
        if let Some(asking) = &self.asking {
            if now >= asking.ends {
                self.asking = None;
                self.due = now + self.patience(jitter);
            }
            return None;
        }
        let alone = view.is_alone(self.me);
        if now < self.due && !(alone && self.rounds == 0) {
            return None;
        }
        self.rounds += 1;
        self.asking = Some(Round {
            number: self.rounds,
            yes: BTreeSet::new(),
            ends: now + self.timing.round,
        });
        if let Some(elect) = self.decide(now, jitter, view) {
            return Some(elect);
        }
        let voters = view.configs.iter().flatten().copied().filter(|id| *id != self.me).collect();
        Some(Effect::Ask { round: self.rounds, voters })
    }

    fn decide(&mut self, now: Duration, jitter: Duration, view: &View) -> Option<Effect> {
        let asking = self.asking.as_ref()?;
        if view.leading
            || view.electing
            || now >= asking.ends
            || !quorum::reached(&view.configs, self.me, &asking.yes)
        {
            return None;
        }
        self.asking = None;
        let wait = self.timing.round * (1 << self.stood.min(DOUBLINGS));
        self.stood = self.stood.saturating_add(1);
        self.due = now + wait + self.slack(now) + self.patience(jitter);
        Some(Effect::Elect)
    }

    fn patience(&self, jitter: Duration) -> Duration {
        if self.healthy { jitter } else { jitter + self.timing.unhealthy }
    }

    /// How much longer than the lease a leader counts as alive, because this node was not run in
    /// time.
    pub fn slack(&self, now: Duration) -> Duration {
        let (by, until) = self.late;
        if now < until { by } else { Duration::ZERO }
    }

    /// Whether a leader was heard within the lease.
    pub fn leader_alive(&self, now: Duration) -> bool {
        self.heard.is_some_and(|heard| now < heard + self.timing.lease + self.slack(now))
    }

    /// Whether answers are being waited for.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// When the next [`Event::Tick`] is due.
    pub fn wake_at(&self) -> Duration {
        self.asking.as_ref().map_or(self.due, |asking| asking.ends)
    }
}

/// What a candidate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    pub disk: DiskId,
    pub last_log: Option<LogId>,
    /// Where its membership stands in the log, and the digest of it.
    pub membership: Option<LogId>,
    pub voters_digest: u64,
}

/// What the asked node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    pub node: NodeId,
    /// It is asking for pre-votes itself.
    pub asking: bool,
    /// It leads and a majority answers it, or it heard a leader within the lease.
    pub leader_alive: bool,
    pub last_log: Option<LogId>,
    pub membership: Option<LogId>,
    pub voters_digest: u64,
    /// It knows no members at all: a new group is being founded, or it was just admitted.
    pub blank: bool,
    /// The disk under which the candidate is a voter here, if it is one.
    pub admitted: Option<DiskId>,
    pub fit: bool,
}

/// Why a pre-vote is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum No {
    LeaderAlive,
    LogOlder,
    VotersDiffer,
    NotAVoter,
    DiskNotAdmitted,
    AskingItself,
    Unfit,
}

impl No {
    pub fn name(self) -> &'static str {
        match self {
            Self::LeaderAlive => "leader_alive",
            Self::LogOlder => "log_older",
            Self::VotersDiffer => "voters_differ",
            Self::NotAVoter => "not_a_voter",
            Self::DiskNotAdmitted => "disk_not_admitted",
            Self::AskingItself => "asking_itself",
            Self::Unfit => "unfit",
        }
    }
}

impl Judge {
    /// Would this node vote for that one?
    ///
    /// Two nodes that stand at the same membership entry must agree on its voters. One that stands
    /// at an older entry may still grant, also to a candidate whom it does not know: else a leader
    /// that died in the middle of a change could leave nobody who can be elected.
    pub fn answer(&self, candidate: &Candidate) -> Result<(), No> {
        if !self.fit {
            return Err(No::Unfit);
        }
        if !self.blank && candidate.membership <= self.membership {
            match self.admitted {
                None => return Err(No::NotAVoter),
                Some(disk) if disk != candidate.disk => return Err(No::DiskNotAdmitted),
                Some(_) => {}
            }
        }
        if !self.blank
            && self.membership == candidate.membership
            && self.voters_digest != candidate.voters_digest
        {
            return Err(No::VotersDiffer);
        }
        if self.leader_alive {
            return Err(No::LeaderAlive);
        }
        if candidate.last_log < self.last_log {
            return Err(No::LogOlder);
        }
        // Two that ask at the same moment must not both be promised: the second election would end
        // the first leadership.
        if self.asking && (candidate.last_log, candidate.node) < (self.last_log, self.node) {
            return Err(No::AskingItself);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "election_tests.rs"]
mod tests;
