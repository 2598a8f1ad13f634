//! What somebody who watches a job is told, in order and without repeats, whoever owns the job.
//!
//! - Events of one owner are numbered; a watcher that comes back goes on after the last number it
//!   saw. History is bounded: windows that were let go arrive as one, marked `coalesced`.
//! - Another owner numbers anew, and may have made its windows otherwise: what the old one had
//!   shown and not stored was counted again here. So a window carries sums since the start of the
//!   job, and a watcher takes differences ([`Watcher`]). Whatever happened in between, the counts
//!   that it has shown add up to the sums.
//! - The result, the state and the latest view are kept for those who come late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delta::Delta;
use crate::result::TimelineEntry;
use crate::snapshot::{RunState, Snapshot};
use crate::trend::SparseTrend;
use crate::wire::{Reader, WireError, open, read_plain, seal, write_plain};

/// Largest event: a final result.
pub const EVENT_BYTES_MAX: usize = (4 << 20) + 4096;
const KIND: u8 = 5;
/// Notes that a watcher remembers, to know repeats of another owner.
const NOTES_SEEN_MAX: usize = 4096;

/// Sums since the start of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub requests: u64,
    pub failed: u64,
    pub iterations: u64,
    /// Begun, and cut off.
    pub interrupted: u64,
    pub dropped: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, delta: &Delta) {
        for block in delta.blocks.values() {
            self.iterations += block.counters.own[0];
            self.interrupted += block.counters.own[1];
            self.dropped += block.counters.own[3..].iter().sum::<u64>();
            for [passes, fails] in block.counters.checks.values() {
                self.checks_passed += passes;
                self.checks_failed += fails;
            }
            for step in block.steps.values() {
                let own = &step.counters.own;
                self.requests += own[0];
                self.failed += own[3];
                self.bytes_sent += own[6];
                self.bytes_received += own[7];
            }
        }
    }

    /// The sum.
    pub(crate) fn plus(&self, other: &Tally) -> Tally {
        Tally {
            requests: self.requests + other.requests,
            failed: self.failed + other.failed,
            iterations: self.iterations + other.iterations,
            interrupted: self.interrupted + other.interrupted,
            dropped: self.dropped + other.dropped,
            checks_passed: self.checks_passed + other.checks_passed,
            checks_failed: self.checks_failed + other.checks_failed,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
        }
    }

    /// Of a stream since its start.
    pub(crate) fn of(counters: &crate::delta::Counters) -> Tally {
        let mut tally = Tally::default();
        for block in counters.blocks.values() {
            tally.iterations += block.own[0];
            tally.interrupted += block.own[1];
            tally.dropped += block.own[3..].iter().sum::<u64>();
            for [passes, fails] in block.checks.values() {
                tally.checks_passed += passes;
                tally.checks_failed += fails;
            }
        }
        for step in counters.steps.values() {
            tally.requests += step.own[0];
            tally.failed += step.own[3];
            tally.bytes_sent += step.own[6];
            tally.bytes_received += step.own[7];
        }
        tally
    }

    /// The larger of each. A new owner may know less than the one before it had shown, until the
    /// senders have repeated it.
    fn most(&self, other: &Tally) -> Tally {
        Tally {
            requests: self.requests.max(other.requests),
            failed: self.failed.max(other.failed),
            iterations: self.iterations.max(other.iterations),
            interrupted: self.interrupted.max(other.interrupted),
            dropped: self.dropped.max(other.dropped),
            checks_passed: self.checks_passed.max(other.checks_passed),
            checks_failed: self.checks_failed.max(other.checks_failed),
            bytes_sent: self.bytes_sent.max(other.bytes_sent),
            bytes_received: self.bytes_received.max(other.bytes_received),
        }
    }

    /// What came after `before`.
    pub fn since(&self, before: &Tally) -> Tally {
        Tally {
            requests: self.requests.saturating_sub(before.requests),
            failed: self.failed.saturating_sub(before.failed),
            iterations: self.iterations.saturating_sub(before.iterations),
            interrupted: self.interrupted.saturating_sub(before.interrupted),
            dropped: self.dropped.saturating_sub(before.dropped),
            checks_passed: self.checks_passed.saturating_sub(before.checks_passed),
            checks_failed: self.checks_failed.saturating_sub(before.checks_failed),
            bytes_sent: self.bytes_sent.saturating_sub(before.bytes_sent),
            bytes_received: self.bytes_received.saturating_sub(before.bytes_received),
        }
    }
}

/// A stretch of windows of schedule time, most often one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowEvent {
    /// Numbers of windows, both inclusive.
    pub first: u64,
    pub last: u64,
    /// Holds counts of windows that were released before.
    pub late: bool,
    /// Some live stream had not told of it, or has shed a part.
    pub partial: bool,
    /// More than one window's counts.
    pub coalesced: bool,
    /// Streams that told of it, of those that were live.
    pub told: u32,
    pub live: u32,
    pub vus: u64,
    /// At the end of the stretch, since the start of the job.
    pub totals: Tally,
    /// Of all requests in the stretch; of a stretch that was let go, what is still known.
    pub latency: SparseTrend,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// Of the owner that tells it.
    pub epoch: u64,
    pub seq: u64,
    pub what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum What {
    Window(WindowEvent),
    State {
        state: RunState,
        why: String,
    },
    Note(TimelineEntry),
    /// For dashboards; only the latest is kept.
    View(Box<Snapshot>),
    /// The result, as [`encode_result`](crate::wire::encode_result) has written it.
    Final(Vec<u8>),
    /// The whole result as it would be now; only the latest is kept, and only whoever asks for it
    /// gets it.
    Progress {
        state: RunState,
        planned: Option<Duration>,
        /// As of [`What::Final`].
        result: Arc<[u8]>,
    },
}

impl Event {
    pub fn encode(&self) -> Vec<u8> {
        seal(KIND, |writer| write_plain(writer, self))
    }

    pub fn decode(bytes: &[u8]) -> Result<Event, WireError> {
        let mut reader = Reader::new(open(KIND, bytes, EVENT_BYTES_MAX)?, 0);
        let event: Event = read_plain(&mut reader, EVENT_BYTES_MAX)?;
        reader.end()?;
        if let What::Window(window) = &event.what
            && (window.first > window.last || !window.latency.is_sound())
        {
            return Err(WireError::Contradiction { what: "a window" });
        }
        Ok(event)
    }
}

/// How far a watcher has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Of the owner that told the last event; 0: nobody yet.
    pub epoch: u64,
    pub seq: u64,
    /// The first window that it has not seen.
    pub window: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct FeedLimits {
    pub windows: usize,
    /// Of the windows' latencies.
    pub window_bytes: usize,
    pub notes: usize,
    pub states: usize,
}

impl Default for FeedLimits {
    fn default() -> Self {
        FeedLimits { windows: 600, window_bytes: 4 << 20, notes: 1024, states: 64 }
    }
}

/// The owner's side: what was told, as far as it is kept.
#[derive(Debug)]
pub struct Feed {
    epoch: u64,
    limits: FeedLimits,
    next: u64,
    windows: BTreeMap<u64, WindowEvent>,
    window_bytes: usize,
    /// The last window that was let go, with its number.
    let_go: Option<(u64, WindowEvent)>,
    notes: BTreeMap<u64, TimelineEntry>,
    states: BTreeMap<u64, (RunState, String)>,
    view: Option<(u64, Box<Snapshot>)>,
    /// Always a [`What::Progress`].
    progress: Option<(u64, What)>,
    result: Option<(u64, Vec<u8>)>,
    notes_let_go: u64,
}

impl Feed {
    /// `epoch`: the owner's; later owners have larger ones.
    pub fn new(epoch: u64, limits: FeedLimits) -> Feed {
        Feed {
            epoch,
            limits,
            next: 1,
            windows: BTreeMap::new(),
            window_bytes: 0,
            let_go: None,
            notes: BTreeMap::new(),
            states: BTreeMap::new(),
            view: None,
            progress: None,
            result: None,
            notes_let_go: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub fn window(&mut self, event: WindowEvent) {
        let number = self.number();
        self.window_bytes += size(&event);
        self.windows.insert(number, event);
        while self.windows.len() > self.limits.windows
            || (self.window_bytes > self.limits.window_bytes && self.windows.len() > 1)
        {
            let Some((number, event)) = self.windows.pop_first() else { break };
            self.window_bytes -= size(&event);
            self.let_go = Some((number, event));
        }
    }

    pub fn state(&mut self, state: RunState, why: impl Into<String>) {
        let number = self.number();
        self.states.insert(number, (state, why.into()));
        while self.states.len() > self.limits.states {
            self.states.pop_first();
        }
    }

    /// Something for the timeline. `at`: schedule time.
    pub fn note(&mut self, at: Duration, event: impl Into<String>) {
        let number = self.number();
        self.notes.insert(number, TimelineEntry { at, event: event.into() });
        while self.notes.len() > self.limits.notes {
            self.notes.pop_first();
            self.notes_let_go += 1;
        }
    }

    pub fn view(&mut self, snapshot: Snapshot) {
        let number = self.number();
        self.view = Some((number, Box::new(snapshot)));
    }

    /// `result`: what the final one would be now, encoded.
    pub fn progress(&mut self, state: RunState, planned: Option<Duration>, result: Vec<u8>) {
        let number = self.number();
        self.progress = Some((number, What::Progress { state, planned, result: result.into() }));
    }

    /// The last event. The first result stands.
    pub fn finish(&mut self, result: Vec<u8>) {
        if self.result.is_none() {
            let number = self.number();
            self.result = Some((number, result));
        }
    }

    /// The number of the newest event.
    pub fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Notes that nobody can see any more.
    pub fn notes_let_go(&self) -> u64 {
        self.notes_let_go
    }

    /// Everything after a position, in order. `join`: all windows as one, for watchers that need no
    /// better resolution than that of their questions.
    pub fn since(&self, position: &Position, join: bool) -> Vec<Event> {
        let same = position.epoch == self.epoch;
        let after = if same { position.seq } else { 0 };
        let mut windows = self.windows_since(position, after);
        if join && windows.len() > 1 {
            windows = joined(windows).into_iter().collect();
        }
        let later = |number: &u64| *number > after;
        let mut events: BTreeMap<u64, What> =
            windows.into_iter().map(|(number, window)| (number, What::Window(window))).collect();
        let notes = self.notes.iter().filter(|(number, _)| later(number));
        events.extend(notes.map(|(number, note)| (*number, What::Note(note.clone()))));
        // Old states are history; the present one is what a newcomer needs.
        let states = self.states.iter().filter(|(number, _)| later(number));
        let skip = if same { 0 } else { self.states.len().saturating_sub(1) };
        events.extend(states.skip(skip).map(|(number, (state, why))| {
            (*number, What::State { state: *state, why: why.clone() })
        }));
        if let Some((number, view)) = self.view.as_ref().filter(|(number, _)| later(number)) {
            events.insert(*number, What::View(view.clone()));
        }
        if let Some((number, progress)) = self.progress.as_ref().filter(|(number, _)| later(number))
        {
            events.insert(*number, progress.clone());
        }
        if let Some((number, result)) = self.result.as_ref().filter(|(number, _)| later(number)) {
            events.insert(*number, What::Final(result.clone()));
        }
        let epoch = self.epoch;
        events.into_iter().map(|(seq, what)| Event { epoch, seq, what }).collect()
    }

    fn windows_since(&self, position: &Position, after: u64) -> Vec<(u64, WindowEvent)> {
        let let_go = self.let_go.iter().filter(|(number, _)| *number > after);
        let kept = self.windows.range(after + 1..);
        let all = let_go
            .map(|(number, event)| (*number, event))
            .chain(kept.map(|(number, event)| (*number, event)));
        let mut windows = Vec::new();
        for (number, event) in all.filter(|(_, event)| event.last >= position.window) {
            let mut event = event.clone();
            if windows.is_empty() && event.first != position.window {
                // Seen in part from another owner, or its predecessors are gone.
                event.first = position.window;
                event.coalesced |= event.last > event.first;
            }
            windows.push((number, event));
        }
        windows
    }
}

fn size(event: &WindowEvent) -> usize {
    size_of::<WindowEvent>() + event.latency.buckets.len() * size_of::<(u32, u64)>()
}

fn joined(windows: Vec<(u64, WindowEvent)>) -> Option<(u64, WindowEvent)> {
    windows.into_iter().reduce(|(_, sum), (number, next)| {
        let mut latency = sum.latency;
        latency.merge(&next.latency);
        let joined = WindowEvent {
            first: sum.first,
            late: sum.late | next.late,
            partial: sum.partial | next.partial,
            coalesced: true,
            told: sum.told.min(next.told),
            latency,
            ..next
        };
        (number, joined)
    })
}

/// The watcher's side: drops repeats, and takes differences of sums.
#[derive(Debug, Default)]
pub struct Watcher {
    position: Position,
    totals: Tally,
    notes: BTreeSet<(Duration, String)>,
    over: bool,
}

/// What is new.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One at a time, on its way to a reader.
pub enum Shown {
    Window {
        window: WindowEvent,
        /// Since the window that was shown before it.
        counted: Tally,
    },
    State {
        state: RunState,
        why: String,
    },
    Note(TimelineEntry),
    View(Box<Snapshot>),
    Final(Vec<u8>),
    Progress {
        state: RunState,
        planned: Option<Duration>,
        result: Arc<[u8]>,
    },
}

impl Watcher {
    /// What to ask any owner for.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The result has come.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// `None`: known already, or from an owner that was replaced.
    pub fn take(&mut self, event: Event) -> Option<Shown> {
        let known = (self.position.epoch, self.position.seq);
        if self.over || (event.epoch, event.seq) <= known {
            return None;
        }
        (self.position.epoch, self.position.seq) = (event.epoch, event.seq);
        match event.what {
            What::Window(window) => {
                if window.last < self.position.window {
                    return None;
                }
                self.position.window = window.last + 1;
                let counted = window.totals.since(&self.totals);
                self.totals = self.totals.most(&window.totals);
                Some(Shown::Window { window, counted })
            }
            What::Note(note) => {
                if self.notes.len() >= NOTES_SEEN_MAX {
                    self.notes.pop_first();
                }
                let new = self.notes.insert((note.at, note.event.clone()));
                new.then_some(Shown::Note(note))
            }
            What::State { state, why } => Some(Shown::State { state, why }),
            What::View(view) => Some(Shown::View(view)),
            What::Progress { state, planned, result } => {
                Some(Shown::Progress { state, planned, result })
            }
            What::Final(result) => {
                self.over = true;
                Some(Shown::Final(result))
            }
        }
    }
}
