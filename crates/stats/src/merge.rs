//! The owner's side of a job's statistics: the streams of all shards become one run.
//!
//! ```text
//! frame ──▶ Cursor of its stream ──▶ pending window ──all live streams told, or too late──▶ Aggregate
//!           (each frame once)        (100 ms of schedule time)      │                   ──▶ thresholds
//!                                                                   └──▶ WindowEvent ──▶ feed
//!                    checkpoint = cursors + sums + what is pending   (makes `durable_through` true)
//! ```
//!
//! - **Sums are exact**: every frame that was applied is in them once, of whichever attempt (R17).
//!   Windows only decide when it is shown. What comes after its window was released goes into the
//!   next one, marked `late`.
//! - **A window is released** when every live stream has told of it, or a bound after its end, then
//!   marked `partial`. A stream that is joined at its sender tells of several windows at once; its
//!   counts stand in the last of them, marked `coalesced`.
//! - **After a change of owner** the new one takes up the last checkpoint; senders repeat what came
//!   after it. Everything up to the moment of the change is released as one window marked
//!   `coalesced`.
//! - **Thresholds wait** while a live stream is behind, so that nothing is aborted on half of the
//!   truth; a stream that is silent for too long is judged without, and that is said.
//! - Time is the job's schedule time, handed in. Windows are numbered by it, so clocks of workers
//!   do not matter beyond the agreed start; a window from the future counts as the present one.
//!
//! **Memory** depends on the plan and the number of streams: late data never reopens a window, and
//! at most [`BACKLOG_MAX`] windows are pending.

mod checkpoint;
mod outcome;
mod windows;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use plan::Threshold;
use serde::{Deserialize, Serialize};

use crate::aggregate::Aggregate;
use crate::delta::Delta;
use crate::feed::{Tally, WindowEvent};
use crate::series::Thresholds;
use crate::stream::{Cursor, CursorLimits, StreamError};
use crate::threshold::Evaluator;
use crate::verdict::{LostWorker, Stall, StallCause};
use crate::window::DropCause;
use crate::wire::{Body, Frame, Generator, Schema, StreamKey, WireError};

pub use checkpoint::{CHECKPOINT_BYTES_MAX, Checkpoint};
pub use outcome::{Finished, Head, ScriptHead};
use windows::Pending;

/// Windows that wait at the same time; beyond it the oldest are released as one.
pub const BACKLOG_MAX: u64 = 64;
/// Checkpoints under way at the same time.
const CHECKPOINTS_MAX: usize = 8;
/// A shard that opens more streams than this is not well.
const STREAMS_PER_ATTEMPT_MAX: usize = 16;
/// An event loop that is this late was stopped, with its process or its machine.
const STOPPED_FROM: Duration = Duration::from_millis(900);
/// Stretches without load that are remembered.
const STALLS_MAX: usize = 256;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub window: Duration,
    /// How long after its end a window waits for streams.
    pub lateness: Duration,
    /// How often thresholds are looked at and the curve gets a point, as in a local run.
    pub tick: Duration,
    /// Thresholds, and the first window after a change of owner, wait this long for a stream.
    pub silence: Duration,
    pub streams_max: usize,
    pub cursor: CursorLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            window: Duration::from_millis(100),
            lateness: Duration::from_millis(500),
            tick: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            streams_max: 20_000,
            cursor: CursorLimits::default(),
        }
    }
}

#[derive(Debug)]
pub struct Merge {
    schema: Schema,
    settings: Settings,
    streams: BTreeMap<StreamKey, Stream>,
    /// Windows below this are released.
    next: u64,
    pending: BTreeMap<u64, Pending>,
    /// After a change of owner: everything up to this window is released as one.
    catch_up: Option<CatchUp>,
    aggregate: Aggregate,
    tally: Tally,
    evaluator: Evaluator,
    series_thresholds: Option<Thresholds>,
    ticked: Duration,
    judged_without: usize,
    lost: Vec<LostWorker>,
    stalls: Vec<Stall>,
    incomplete: Vec<String>,
    /// Counted by the owner itself.
    unrun: Vec<Unrun>,
    checkpoints: VecDeque<(u64, Vec<(StreamKey, u64)>)>,
    checkpoint_number: u64,
    /// What the owner before has left in its checkpoint.
    last_owner: Vec<u8>,
    refused: u64,
    late_windows: u64,
    partial_windows: u64,
}

#[derive(Debug)]
struct Stream {
    /// For sums by source; never used twice.
    number: usize,
    cursor: Cursor,
    /// Its sender has asked this owner where to go on. A stream that comes from a checkpoint has
    /// not, and its sender may be far ahead of it.
    opened: bool,
    /// Windows wait for it.
    live: bool,
    /// The first window that it has not told of.
    next: u64,
    heard: Duration,
    generator: Generator,
}

#[derive(Debug, Clone, Copy)]
struct CatchUp {
    through: u64,
    since: Duration,
}

/// What a sender is told about its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub key: StreamKey,
    pub applied_through: u64,
    pub durable_through: u64,
}

/// What happened since the step before.
#[derive(Debug, Default)]
pub struct Step {
    pub windows: Vec<WindowEvent>,
    /// A second is complete: there is something new to show.
    pub ticked: bool,
    /// A threshold with `abort` is broken, by its number.
    pub broken: Option<usize>,
    /// Thresholds were not looked at, because this many live streams are behind.
    pub waiting: usize,
}

/// Iterations that were begun under an attempt, or may have been, or were due while nobody ran the
/// shard, and that nobody has counted (R5a): dropped, `worker_lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrun {
    pub workflow: u32,
    pub shard: u32,
    /// The attempt that was lost with them, or began too late for them.
    pub attempt: u32,
    /// Number of the stage in the layout.
    pub stage: u32,
    /// A [`DropCause`], by its number.
    pub cause: u32,
    pub count: u64,
}

/// Why a stream was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    TooManyStreams { limit: usize },
    TooManyOfAttempt { limit: usize },
    NoSuchWorkflow { workflow: u32 },
    Broken(StreamError),
}

/// Why a frame was refused. Nothing of it was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveError {
    Wire(WireError),
    /// It was never opened here.
    UnknownStream(StreamKey),
    Stream(StreamKey, StreamError),
}

impl std::error::Error for OpenError {}
impl std::error::Error for ReceiveError {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::TooManyStreams { limit } => {
                write!(f, "the job has {limit} statistics streams already, and takes no more")
            }
            OpenError::TooManyOfAttempt { limit } => {
                write!(f, "this attempt has opened {limit} statistics streams already")
            }
            OpenError::NoSuchWorkflow { workflow } => {
                write!(f, "the plan has no workflow {workflow}")
            }
            OpenError::Broken(error) => write!(f, "the stream is not counted any more: {error}"),
        }
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Wire(error) => error.fmt(f),
            ReceiveError::UnknownStream(key) => {
                write!(f, "{key} is not open here: resume it first")
            }
            ReceiveError::Stream(key, error) => write!(f, "{key}: {error}"),
        }
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamKey { workflow, shard, attempt, id } = self;
        write!(f, "statistics of workflow {workflow}, shard {shard}, attempt {attempt} ({id:032x})")
    }
}

/// What was applied of one attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfAttempt {
    pub tally: Tally,
    /// Requests that were written to a connection, and those that were answered.
    pub sent: u64,
    pub completed: u64,
    /// Requests that it had begun.
    pub issued: u64,
    /// Units of its schedule that it had begun or dropped.
    pub begun: u64,
    pub frames: u64,
}

impl Merge {
    pub fn new(schema: Schema, thresholds: &[Threshold], settings: Settings) -> Merge {
        let layout = schema.layout.clone();
        Merge {
            aggregate: Aggregate::new(layout.clone(), schema.series.as_deref()),
            evaluator: Evaluator::new(thresholds, layout),
            series_thresholds: schema.series.as_deref().map(Thresholds::new),
            schema,
            settings,
            streams: BTreeMap::new(),
            next: 0,
            pending: BTreeMap::new(),
            catch_up: None,
            tally: Tally::default(),
            ticked: Duration::ZERO,
            judged_without: 0,
            lost: Vec::new(),
            stalls: Vec::new(),
            incomplete: Vec::new(),
            unrun: Vec::new(),
            checkpoints: VecDeque::new(),
            checkpoint_number: 0,
            last_owner: Vec::new(),
            refused: 0,
            late_windows: 0,
            partial_windows: 0,
        }
    }

    /// A sender is there: from which frame it shall go on. Windows wait for it from now on.
    pub fn open(&mut self, key: StreamKey, now: Duration) -> Result<u64, OpenError> {
        if let Some(stream) = self.streams.get_mut(&key) {
            if let Some(error) = stream.cursor.broken() {
                return Err(OpenError::Broken(error));
            }
            stream.heard = now;
            stream.opened = true;
            return Ok(stream.cursor.resume_from());
        }
        let workflows = self.schema.layout.workflows.len();
        if key.workflow as usize >= workflows {
            return Err(OpenError::NoSuchWorkflow { workflow: key.workflow });
        }
        if self.streams.len() >= self.settings.streams_max {
            return Err(OpenError::TooManyStreams { limit: self.settings.streams_max });
        }
        let of_attempt: Vec<StreamKey> = self.of_attempt(key).collect();
        if of_attempt.len() >= STREAMS_PER_ATTEMPT_MAX {
            return Err(OpenError::TooManyOfAttempt { limit: STREAMS_PER_ATTEMPT_MAX });
        }
        // The attempt's process began anew: what the one before had not sent is gone (BAR-112).
        for old in of_attempt {
            self.give_up(old, "its process began anew");
        }
        let first = self.window_at(now).max(self.next);
        let stream = Stream {
            number: self.streams.len(),
            cursor: Cursor::new(self.settings.cursor),
            opened: true,
            live: true,
            next: first,
            heard: now,
            generator: Generator::default(),
        };
        self.streams.insert(key, stream);
        Ok(1)
    }

    fn of_attempt(&self, key: StreamKey) -> impl Iterator<Item = StreamKey> {
        let (from, to) = (StreamKey { id: 0, ..key }, StreamKey { id: u128::MAX, ..key });
        self.streams.range(from..=to).map(|(key, _)| *key)
    }

    /// One frame as it came. Repeats are answered like the first time, and counted once.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Result<Ack, ReceiveError> {
        let received = self.take(bytes, now);
        // A sender that has only heard of a new owner asks it where to go on, and sends the same
        // again.
        let is_news = !matches!(received, Ok(_) | Err(ReceiveError::UnknownStream(_)));
        self.refused += u64::from(is_news);
        received
    }

    fn take(&mut self, bytes: &[u8], now: Duration) -> Result<Ack, ReceiveError> {
        let frame = Frame::decode(bytes, &self.schema).map_err(ReceiveError::Wire)?;
        let key = frame.key;
        let stream = self.streams.get_mut(&key).filter(|stream| stream.opened);
        let stream = stream.ok_or(ReceiveError::UnknownStream(key))?;
        stream.heard = now;
        match stream.cursor.take(frame, bytes.len()) {
            Ok(taken) => {
                taken.frames.into_iter().for_each(|frame| self.apply(frame, now));
                Ok(self.ack(key))
            }
            Err(error) => {
                if !matches!(error, StreamError::Sealed { .. }) {
                    self.give_up(key, &error.to_string());
                }
                Err(ReceiveError::Stream(key, error))
            }
        }
    }

    /// A frame whose turn it is, its counters as differences.
    fn apply(&mut self, frame: Frame, now: Duration) {
        let current = self.window_at(now);
        let Some(stream) = self.streams.get_mut(&frame.key) else { return };
        let told = frame.windows.1.min(current);
        stream.next = stream.next.max(told + 1);
        let number = stream.number;
        let content = match frame.body {
            Body::Gap(reason) => {
                let (key, first, last) = (frame.key, frame.first, frame.last);
                let why = reason.name();
                let (name, count) = (self.named(key), last - first + 1);
                self.note_incomplete(format!("{count} parts of {name}, are missing: {why}"));
                self.window_for(told, false, now).partial = true;
                return;
            }
            Body::Content(content) => *content,
        };
        let held = content.generator.held.saturating_sub(stream.generator.held);
        let stopped = Duration::from_nanos(content.loop_lag.max_ns);
        stream.generator = content.generator;
        let ended = frame.end;
        if stream.live {
            let vus = stream.generator.vus.iter().map(|(workflow, n)| (*workflow as usize, *n));
            self.aggregate.set_vus(number, vus);
        }
        let generator = &stream.generator;
        self.aggregate.set_cpu(number, (generator.cpu_user, generator.cpu_system));
        if ended {
            self.retire(frame.key);
        }
        for message in content.messages {
            let step = message.step as usize;
            self.aggregate.note(step, message.kind, message.text, message.exchange);
        }
        self.aggregate.add_loop_lag(&content.loop_lag);
        if let Some(series) = &content.series {
            self.aggregate.add_series(series);
        }
        if !held.is_zero() {
            self.note_stall(frame.key, told, held, StallCause::NotGranted);
        }
        if stopped >= STOPPED_FROM {
            self.note_stall(frame.key, told, stopped, StallCause::Stopped);
        }
        let several = frame.windows.1 > frame.windows.0;
        let window = self.window_for(told, several, now);
        window.told.insert(number);
        window.delta.merge(&content.counts);
    }

    /// The attempt was replaced, or its end is known: windows do not wait for it any more. What it
    /// still reports counts (R17).
    pub fn supersede(&mut self, key: StreamKey) {
        self.retire(key);
    }

    /// The same, and nothing that it reports beyond `through` counts.
    pub fn seal(&mut self, key: StreamKey, through: u64) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.cursor.seal(through);
        }
        self.retire(key);
    }

    /// What was sealed is told by its sender after all, before anybody relied on the seal: all of
    /// it counts.
    pub fn unseal(&mut self, key: StreamKey) {
        let told = self.cut_short(key);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        if stream.cursor.unseal() {
            self.incomplete.retain(|note| !note.starts_with(&told));
            stream.live = true;
        }
    }

    /// A stream as people know it.
    fn named(&self, key: StreamKey) -> String {
        let StreamKey { workflow, shard, attempt, .. } = key;
        let known = self.schema.layout.workflows.get(workflow as usize);
        let name = known.map_or("setup and teardown", |known| &known.name);
        format!("{name}, shard {shard}, attempt {attempt}")
    }

    fn cut_short(&self, key: StreamKey) -> String {
        let told = self.streams.get(&key).and_then(|stream| stream.next.checked_sub(1));
        let told = told.map_or(Duration::ZERO, |last| self.end_of(last)).as_secs_f64();
        format!("the counts of {}, end at {told:.1} s", self.named(key))
    }

    /// A stream that will say no more, though it has not ended: its tail is lost.
    pub fn give_up(&mut self, key: StreamKey, why: &str) {
        let Some(stream) = self.streams.get(&key) else { return };
        if stream.live && !stream.cursor.has_ended() {
            self.note_incomplete(format!("{}: {why}", self.cut_short(key)));
        }
        self.retire(key);
    }

    fn retire(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.live = false;
        self.aggregate.set_vus(stream.number, []);
    }

    /// Users of a shard have waited for so long, up to the end of this window.
    fn note_stall(&mut self, key: StreamKey, window: u64, held: Duration, why: StallCause) {
        let until = self.end_of(window);
        let from = until.saturating_sub(held);
        let (workflow, shard) = (key.workflow, key.shard);
        let mut own = self.stalls.iter_mut().rev();
        let of = |stall: &Stall| (stall.workflow, stall.shard, stall.why);
        let last = own.find(|stall| of(stall) == (workflow, shard, why));
        match last.filter(|stall| stall.until + 2 * self.settings.window >= from) {
            Some(stall) => stall.until = stall.until.max(until),
            None => {
                // Those that nobody will hear of make room for others.
                if self.stalls.len() >= STALLS_MAX {
                    self.stalls.retain(Stall::is_told);
                }
                if self.stalls.len() < STALLS_MAX {
                    self.stalls.push(Stall { workflow, shard, from, until, why });
                }
            }
        }
    }

    /// Stretches in which load stood still although its workers lived.
    pub fn stalls(&self) -> impl Iterator<Item = &Stall> {
        self.stalls.iter().filter(|stall| stall.is_told())
    }

    /// Something is missing from the counts, and the result has to say so.
    pub fn note_incomplete(&mut self, what: String) {
        const NOTES_MAX: usize = 32;
        if self.incomplete.len() < NOTES_MAX {
            self.incomplete.push(what);
        } else if self.incomplete.len() == NOTES_MAX {
            self.incomplete.push("more of the kind are not listed".to_owned());
        }
    }

    /// It has turned out that nothing is missing there.
    pub fn withdraw_note(&mut self, what: &str) {
        self.incomplete.retain(|note| note != what);
    }

    /// Iterations that the owner knows of and no shard has counted. Saying it again changes
    /// nothing, so a new owner may say all that it knows.
    pub fn count_unrun(&mut self, unrun: Unrun, now: Duration) {
        let cause = unrun.cause as usize;
        if unrun.stage as usize >= self.schema.layout.stages.len() || cause >= DropCause::ALL.len()
        {
            return;
        }
        let is_it = |known: &&mut Unrun| Unrun { count: unrun.count, ..**known } == unrun;
        let new = match self.unrun.iter_mut().find(is_it) {
            Some(known) => {
                let before = known.count;
                known.count = before.max(unrun.count);
                known.count - before
            }
            None => {
                self.unrun.push(unrun);
                unrun.count
            }
        };
        if new == 0 {
            return;
        }
        let mut delta = Delta::default();
        delta.blocks.entry(unrun.stage).or_default().counters.own[3 + cause] = new;
        let told = self.window_at(now);
        self.window_for(told, false, now).delta.merge(&delta);
    }

    /// Of a workflow, by its number in the layout.
    pub fn first_stage(&self, workflow: u32) -> Option<u32> {
        let workflow = self.schema.layout.workflows.get(workflow as usize)?;
        u32::try_from(workflow.stages.start).ok()
    }

    /// Everything that [`count_unrun`](Self::count_unrun) was told.
    pub fn lost_units(&self) -> u64 {
        self.unrun.iter().map(|unrun| unrun.count).sum()
    }

    /// The schedule time up to which an attempt has told what it counted.
    pub fn told_through(&self, workflow: u32, shard: u32, attempt: u32) -> Option<Duration> {
        let key = StreamKey { workflow, shard, attempt, id: 0 };
        let told = self.of_attempt(key).filter_map(|key| self.streams.get(&key)).map(|s| s.next);
        let next = told.max()?;
        Some(next.checked_sub(1).map_or(Duration::ZERO, |last| self.end_of(last)))
    }

    /// The same of what is left of a shard that nobody will run: in the last stage of its workflow.
    pub fn count_never_run(
        &mut self,
        workflow: u32,
        shard: u32,
        count: u64,
        cause: DropCause,
        now: Duration,
    ) {
        let stages = self.schema.layout.workflows.get(workflow as usize).map(|one| &one.stages);
        let last = stages.and_then(|stages| stages.clone().next_back());
        let Some(stage) = last.and_then(|stage| u32::try_from(stage).ok()) else { return };
        // No attempt has this number: what was lost with one is counted apart.
        let (attempt, cause) = (0, cause as u32);
        self.count_unrun(Unrun { workflow, shard, attempt, stage, cause, count }, now);
    }

    /// A worker was lost; the verdict will say so (R19).
    pub fn lose(&mut self, lost: LostWorker) {
        match self.lost.iter_mut().find(|known| known.name == lost.name && known.from == lost.from)
        {
            Some(known) => *known = lost,
            None => self.lost.push(lost),
        }
    }

    pub fn ack(&self, key: StreamKey) -> Ack {
        let cursor = self.streams.get(&key).map(|stream| &stream.cursor);
        Ack {
            key,
            applied_through: cursor.map_or(0, Cursor::applied_through),
            durable_through: cursor.map_or(0, Cursor::durable_through),
        }
    }

    /// Every stream, and the frame that it would go on with.
    pub fn resume_points(&self) -> impl Iterator<Item = (StreamKey, u64)> {
        self.streams.iter().map(|(key, stream)| (*key, stream.cursor.applied_through() + 1))
    }

    pub fn has_stream(&self, key: StreamKey) -> bool {
        self.streams.contains_key(&key)
    }

    pub fn cursor(&self, key: StreamKey) -> Option<&Cursor> {
        self.streams.get(&key).map(|stream| &stream.cursor)
    }

    /// What was applied of one attempt, over all its streams. `None`: it has sent nothing.
    pub fn of_one_attempt(&self, workflow: u32, shard: u32, attempt: u32) -> Option<OfAttempt> {
        let key = StreamKey { workflow, shard, attempt, id: 0 };
        let keys: Vec<StreamKey> = self.of_attempt(key).collect();
        if keys.is_empty() {
            return None;
        }
        let streams = keys.iter().filter_map(|key| self.streams.get(key));
        Some(streams.fold(OfAttempt::default(), |sum, stream| OfAttempt {
            tally: sum.tally.plus(&Tally::of(&stream.cursor.counters)),
            sent: sum.sent + stream.cursor.counters.sent_and_completed().0,
            completed: sum.completed + stream.cursor.counters.sent_and_completed().1,
            issued: sum.issued + stream.generator.issued,
            begun: sum.begun + stream.generator.begun,
            frames: sum.frames + stream.cursor.applied_through(),
        }))
    }

    /// What the owner before has left in the checkpoint that this one began with.
    pub fn of_last_owner(&self) -> &[u8] {
        &self.last_owner
    }

    /// The streams of one attempt.
    pub fn streams_of(&self, workflow: u32, shard: u32, attempt: u32) -> Vec<StreamKey> {
        self.of_attempt(StreamKey { workflow, shard, attempt, id: 0 }).collect()
    }

    /// The first window that was not released.
    pub fn next_window(&self) -> u64 {
        self.next
    }

    /// Streams that windows wait for.
    pub fn live_streams(&self) -> usize {
        self.streams.values().filter(|stream| stream.live).count()
    }

    /// What keeps the sums from being everything that was counted.
    pub fn incomplete(&self) -> &[String] {
        &self.incomplete
    }

    /// Refused frames, windows with late counts, windows released without some stream.
    pub fn refused_late_partial(&self) -> (u64, u64, u64) {
        (self.refused, self.late_windows, self.partial_windows)
    }

    fn window_at(&self, now: Duration) -> u64 {
        let window = self.settings.window.as_nanos().max(1);
        u64::try_from(now.as_nanos() / window).unwrap_or(u64::MAX >> 8)
    }

    fn end_of(&self, window: u64) -> Duration {
        let nanos = self.settings.window.as_nanos().saturating_mul(u128::from(window) + 1);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
