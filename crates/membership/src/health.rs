//! Three signals about a node: is it alive, would it take work, does its work go forward.
//!
//! They are independent. A node that takes no work is not dead, one that answers may still be
//! stuck, and only a death that membership has found, or a stuck node whose time is over, leads to
//! eviction.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fence::{BootId, NodeId};

use crate::heartbeat::{Beat, Heartbeat};

#[cfg(test)]
mod tests;

const LIVENESS_TIMEOUT: Duration = Duration::from_secs(30);
const LIVENESS_FAILURES: u32 = 3;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
const STUCK_AFTER: Duration = Duration::from_secs(120);
/// How long a node may be unreachable or stuck before it is evicted.
const EVICT_AFTER: Duration = Duration::from_secs(60);
/// How long eviction is held back at most when most nodes fail together.
const HOLD_MAX: Duration = Duration::from_secs(60);
const HISTORY_MAX: usize = 16;
/// Memory in use, in percent: from here on a node is short of it, until there is clearly more
/// again.
const MEMORY_SHORT: u8 = 95;
const MEMORY_ENOUGH: u8 = 85;

/// Whether work goes forward, against the node's own past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// There is nothing to do.
    Idle,
    Normal,
    Slow,
    Degraded,
    /// There is work and room for it, and for two minutes nothing has moved.
    Stuck,
}

/// The state of a node, by the matrix of CORE-74.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Healthy,
    Busy,
    Slow,
    Degraded,
    Stuck,
    Suspect,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Route,
    /// No new work; what it has, it finishes.
    Drain,
    Investigate,
    /// Drain, and if it stays like this, evict.
    DrainAndWatch,
    /// It no longer answers: membership decides.
    Await,
}

impl Verdict {
    /// CORE-74, row by row.
    #[must_use]
    pub fn of(live: bool, ready: bool, progress: Progress) -> Self {
        match (live, ready, progress) {
            (false, _, _) => Self::Suspect,
            (true, _, Progress::Stuck) => Self::Stuck,
            (true, true, Progress::Idle | Progress::Normal) => Self::Healthy,
            (true, false, Progress::Idle | Progress::Normal) => Self::Busy,
            (true, true, Progress::Slow | Progress::Degraded) => Self::Slow,
            (true, false, Progress::Slow | Progress::Degraded) => Self::Degraded,
        }
    }

    #[must_use]
    pub fn action(self) -> Action {
        match self {
            Self::Healthy => Action::Route,
            Self::Busy | Self::Degraded => Action::Drain,
            Self::Slow => Action::Investigate,
            Self::Stuck => Action::DrainAndWatch,
            Self::Suspect => Action::Await,
        }
    }
}

/// The three signals and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assessment {
    pub live: bool,
    pub ready: bool,
    pub progress: Progress,
    pub verdict: Verdict,
    /// Its machine's memory is nearly used up.
    pub short_of_memory: bool,
    /// It is to be evicted: membership has found it dead, or it was stuck for its time (CORE-79).
    pub evict: bool,
}

/// Whether a node is to be evicted, and why or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    Unknown,
    /// No reason to, or not for long enough.
    No(Verdict),
    /// Most nodes fail together: more likely the network than they. An operator should look.
    Held {
        failing: usize,
        of: usize,
    },
    Evict,
}

#[derive(Clone, Debug)]
struct Node {
    last_answer: Duration,
    failures: u32,
    /// Membership has declared it dead.
    dead: bool,
    boot: BootId,
    heartbeat: Option<Heartbeat>,
    /// When the heartbeat came. What happened since then is not known.
    beaten: Duration,
    /// When measuring began, what was done by then, and how much there was to work on.
    sampled: (Duration, u64, u32),
    /// When the counter last moved, or there was nothing to move it.
    moved: Duration,
    /// Work per second and piece of work: in the last interval, and on the whole.
    rate: Option<f64>,
    usual: Option<f64>,
    short_of_memory: bool,
    failing_since: Option<Duration>,
    history: VecDeque<(Duration, Verdict)>,
}

/// The health of all nodes of one tier. One owner; readers get copies.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    nodes: BTreeMap<NodeId, Node>,
    held_since: Option<Duration>,
}

impl Tracker {
    /// It has answered a probe or sent anything else.
    pub fn answered(&mut self, node: NodeId, now: Duration) {
        let node = self.node(node, now);
        node.last_answer = now;
        node.failures = 0;
        node.dead = false;
    }

    /// A probe of it failed.
    pub fn missed(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.failures = node.failures.saturating_add(1);
        }
    }

    /// Membership has declared it dead. That always evicts.
    pub fn died(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.dead = true;
        }
    }

    /// It has left, or was evicted: it must not distort the picture of the others.
    pub fn remove(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Takes a heartbeat, unless a later one is known; says whether it did.
    pub fn beat(&mut self, id: NodeId, boot: BootId, beat: Heartbeat, now: Duration) -> bool {
        let node = self.node(id, now);
        if let Some(known) = &node.heartbeat {
            if (boot, beat.sequence) <= (node.boot, known.sequence) {
                return false;
            }
            if boot > node.boot {
                (node.sampled, node.moved) = ((now, beat.work.done, beat.work.runnable), now);
                (node.rate, node.usual) = (None, None);
            }
        } else {
            (node.sampled, node.moved) = ((now, beat.work.done, beat.work.runnable), now);
        }
        node.boot = boot;
        node.sample(&beat, now);
        (node.heartbeat, node.beaten) = (Some(beat), now);
        self.answered(id, now);
        true
    }

    /// The signals of one node now. The verdict goes into its history when it changes.
    pub fn assess(&mut self, id: NodeId, now: Duration) -> Option<Assessment> {
        let node = self.nodes.get_mut(&id)?;
        let assessment = node.assess(now);
        let is_failing = matches!(assessment.verdict, Verdict::Suspect | Verdict::Stuck);
        node.failing_since = if is_failing { node.failing_since.or(Some(now)) } else { None };
        if node.history.back().is_none_or(|(_, last)| *last != assessment.verdict) {
            if node.history.len() >= HISTORY_MAX {
                node.history.pop_front();
            }
            node.history.push_back((now, assessment.verdict));
        }
        Some(assessment)
    }

    /// The same, with the word on eviction. The others have to be assessed before: it depends on
    /// how many of them fail.
    pub fn judge(&mut self, id: NodeId, now: Duration) -> Option<Assessment> {
        let evict = self.eviction(id, now) == Eviction::Evict;
        self.assess(id, now).map(|assessment| Assessment { evict, ..assessment })
    }

    /// The last verdicts and when they began, oldest first.
    pub fn history(&self, id: NodeId) -> impl Iterator<Item = (Duration, Verdict)> + '_ {
        self.nodes.get(&id).into_iter().flat_map(|node| node.history.iter().copied())
    }

    /// Nodes that work may be sent to: alive, ready, and neither slow nor stuck.
    pub fn healthy(&mut self, now: Duration) -> Vec<NodeId> {
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        let is_healthy = |tracker: &mut Self, id| {
            tracker.assess(id, now).is_some_and(|a| a.verdict == Verdict::Healthy)
        };
        ids.into_iter().filter(|id| is_healthy(self, *id)).collect()
    }

    /// CORE-79: a node is evicted when it is dead, or has failed for its time; the latter is held
    /// back for a while when most nodes fail together.
    pub fn eviction(&mut self, id: NodeId, now: Duration) -> Eviction {
        let Some(assessment) = self.assess(id, now) else { return Eviction::Unknown };
        let is_over = |node: &Node| {
            node.failing_since.is_some_and(|since| now.saturating_sub(since) >= EVICT_AFTER)
        };
        let Some(node) = self.nodes.get(&id) else { return Eviction::Unknown };
        if node.dead {
            return Eviction::Evict;
        }
        if !is_over(node) {
            return Eviction::No(assessment.verdict);
        }
        let of = self.nodes.len();
        let failing = self.nodes.values().filter(|node| node.failing_since.is_some()).count();
        if of < 3 || failing * 2 <= of {
            self.held_since = None;
            return Eviction::Evict;
        }
        let since = *self.held_since.get_or_insert(now);
        if now.saturating_sub(since) >= HOLD_MAX {
            return Eviction::Evict;
        }
        Eviction::Held { failing, of }
    }

    fn node(&mut self, id: NodeId, now: Duration) -> &mut Node {
        self.nodes.entry(id).or_insert_with(|| Node {
            last_answer: now,
            failures: 0,
            dead: false,
            boot: BootId(0),
            heartbeat: None,
            beaten: now,
            sampled: (now, 0, 0),
            moved: now,
            rate: None,
            usual: None,
            short_of_memory: false,
            failing_since: None,
            history: VecDeque::new(),
        })
    }
}

impl Node {
    fn sample(&mut self, beat: &Heartbeat, now: Duration) {
        if let Beat::Worker(beat) = beat.beat {
            let limit = if self.short_of_memory { MEMORY_ENOUGH } else { MEMORY_SHORT };
            self.short_of_memory = beat.memory_percent >= limit;
        }
        let before = self.heartbeat.map_or(0, |before| before.work.done);
        if beat.work.done > before || beat.work.runnable == 0 || !beat.has_capacity() {
            self.moved = now;
        }
        let (at, done, runnable) = self.sampled;
        // Intervals can be compared only if there was as much to work on all the time.
        if beat.work.runnable != runnable {
            self.sampled = (now, beat.work.done, beat.work.runnable);
            self.rate = None;
            return;
        }
        let time = now.saturating_sub(at);
        if time < PROGRESS_INTERVAL {
            return;
        }
        let pieces = f64::from(runnable.max(1));
        let rate = beat.work.done.saturating_sub(done) as f64 / time.as_secs_f64() / pieces;
        self.sampled = (now, beat.work.done, runnable);
        self.rate = Some(rate);
        // Standing still is not usual, however long it lasts.
        if rate > 0.0 {
            self.usual = Some(self.usual.map_or(rate, |usual| 0.9 * usual + 0.1 * rate));
        }
    }

    fn assess(&self, now: Duration) -> Assessment {
        let is_answering = now.saturating_sub(self.last_answer) < LIVENESS_TIMEOUT;
        let live = !self.dead && is_answering && self.failures < LIVENESS_FAILURES;
        let ready = self.heartbeat.as_ref().is_some_and(Heartbeat::is_ready);
        let progress = self.progress();
        let verdict = Verdict::of(live, ready, progress);
        let short_of_memory = self.short_of_memory;
        Assessment { live, ready, progress, verdict, short_of_memory, evict: false }
    }

    fn progress(&self) -> Progress {
        let Some(beat) = &self.heartbeat else { return Progress::Idle };
        if beat.work.runnable == 0 {
            return Progress::Idle;
        }
        // Seen by a heartbeat, not guessed from their absence: in a large cluster they are far
        // apart.
        if beat.has_capacity() && self.beaten.saturating_sub(self.moved) >= STUCK_AFTER {
            return Progress::Stuck;
        }
        match (self.rate, self.usual) {
            (Some(rate), Some(usual)) if rate < 0.3 * usual => {
                if rate > 0.0 {
                    Progress::Degraded
                } else {
                    Progress::Slow
                }
            }
            (Some(rate), Some(usual)) if rate < 0.8 * usual => Progress::Slow,
            _ => Progress::Normal,
        }
    }
}
