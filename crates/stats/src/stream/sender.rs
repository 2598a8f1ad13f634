//! The shard's end of a stream: counts become frames, and frames are kept until they are durable.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::delta::Counters;
use crate::wire::{Body, Content, FRAME_BYTES_MAX, Frame, GapReason, Schema, StreamKey};

#[derive(Debug, Clone, Copy)]
pub struct SenderLimits {
    /// Frames that were given out and are not durable yet. At ten a second this must outlast the
    /// time between two checkpoints of the owner, or frames arrive joined.
    pub sent_frames: usize,
    pub sent_bytes: usize,
    /// Frames that wait to be given out for the first time.
    pub waiting_frames: usize,
    pub waiting_bytes: usize,
}

impl Default for SenderLimits {
    fn default() -> Self {
        SenderLimits {
            sent_frames: 128,
            sent_bytes: 4 << 20,
            waiting_frames: 64,
            waiting_bytes: 4 << 20,
        }
    }
}

/// A frame on its way to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub first: u64,
    pub last: u64,
    pub bytes: Arc<[u8]>,
}

#[derive(Debug)]
pub struct Sender {
    key: StreamKey,
    schema: Schema,
    limits: SenderLimits,
    /// The next sequence number.
    next: u64,
    counters: Counters,
    /// Tag values of each step that are counted by themselves.
    tags: BTreeMap<(u32, u32), Vec<Box<str>>>,
    /// Given out at least once: their bounds are fixed.
    sent: VecDeque<Outgoing>,
    waiting: VecDeque<Outgoing>,
    sent_bytes: usize,
    waiting_bytes: usize,
    /// How many of `sent` the present receiver has, or was given.
    given: usize,
    /// `None`: no receiver.
    attached: bool,
    applied: u64,
    durable: u64,
    /// The last durable frame that has content.
    heard: u64,
    /// The last window that was told of.
    window: Option<u64>,
    /// The next frame speaks of every counter, because some stretch is missing.
    repair: bool,
    ended: bool,
    joined: u64,
    gaps: u64,
}

/// Why a receiver cannot go on from where it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeError {
    /// It claims frames that were never sent: it speaks of another stream.
    Ahead { asked: u64, sent: u64 },
    /// It claims a part of a frame, and frames are applied whole.
    Inside { asked: u64, first: u64, last: u64 },
}

impl std::error::Error for ResumeError {}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResumeError::Ahead { asked, sent } => write!(
                f,
                "the receiver wants statistics from frame {asked} on, and only {sent} were sent: it \
                 means another stream"
            ),
            ResumeError::Inside { asked, first, last } => write!(
                f,
                "the receiver wants statistics from frame {asked} on, within the frame {first}-{last}"
            ),
        }
    }
}

impl Sender {
    pub fn new(key: StreamKey, schema: Schema, limits: SenderLimits) -> Sender {
        Sender {
            key,
            schema,
            limits,
            next: 1,
            counters: Counters::default(),
            tags: BTreeMap::new(),
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            sent_bytes: 0,
            waiting_bytes: 0,
            given: 0,
            attached: false,
            applied: 0,
            durable: 0,
            heard: 0,
            window: None,
            repair: false,
            ended: false,
            joined: 0,
            gaps: 0,
        }
    }

    pub fn key(&self) -> StreamKey {
        self.key
    }

    /// Takes what was counted up to the end of `window` of the schedule, even if it is nothing: a
    /// receiver waits for word of each window. After the end it is ignored.
    pub fn push(&mut self, window: u64, content: Content) {
        self.add(window, content, false);
    }

    /// The last of it: repeats every counter, so that the sums are right whatever was lost before.
    pub fn finish(&mut self, window: u64, content: Content) {
        self.repair = true;
        self.add(window, content, true);
    }

    /// What was counted since the last time is gone with the thread that counted it. The receiver
    /// hears that something is missing, or the sums would pass for everything.
    pub fn lose(&mut self, window: u64) {
        if self.ended {
            debug_assert!(false, "counts are lost after the end of a stream");
            return;
        }
        let windows = self.windows_up_to(window);
        let (key, first, last) = (self.key, self.next, self.next);
        self.next += 1;
        let reason = GapReason::NotHandedOver;
        let mut frame = Frame { key, first, last, windows, end: false, body: Body::Gap(reason) };
        let bytes = self.gap(&mut frame, reason);
        self.wait_with(first, last, bytes);
    }

    /// The windows that nobody was told of yet, up to this one.
    fn windows_up_to(&mut self, window: u64) -> (u64, u64) {
        let after = self.window.map_or(window, |last| last + 1);
        self.window = Some(self.window.map_or(window, |last| last.max(window)));
        (after.min(window), window)
    }

    fn wait_with(&mut self, first: u64, last: u64, bytes: Vec<u8>) {
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(Outgoing { first, last, bytes: bytes.into() });
        self.make_room();
    }

    fn add(&mut self, window: u64, mut content: Content, end: bool) {
        if self.ended {
            debug_assert!(false, "counts after the end of a stream");
            return;
        }
        self.ended = end;
        content.counts.fold_tags(&mut self.tags);
        content.counts.accumulate(&mut self.counters);
        if std::mem::take(&mut self.repair) {
            content.counts.complete(&self.counters);
        }
        let windows = self.windows_up_to(window);
        let (key, first, last) = (self.key, self.next, self.next);
        self.next += 1;
        let body = Body::Content(Box::new(content));
        let mut frame = Frame { key, first, last, windows, end, body };
        let mut bytes = frame.encode(&self.schema);
        if bytes.len() > FRAME_BYTES_MAX {
            // The messages are for people, and their counts are told all the same.
            if let Body::Content(content) = &mut frame.body {
                content.messages.clear();
                bytes = frame.encode(&self.schema);
            }
        }
        if bytes.len() > FRAME_BYTES_MAX {
            bytes = self.gap(&mut frame, GapReason::TooLarge);
        }
        self.wait_with(first, last, bytes);
    }

    /// A receiver is there, and has everything before `from`.
    pub fn resume(&mut self, from: u64) -> Result<(), ResumeError> {
        self.count_as_sent(from.saturating_sub(1));
        let sent = self.sent.back().map_or(self.durable, |frame| frame.last);
        if from > sent + 1 {
            return Err(ResumeError::Ahead { asked: from, sent });
        }
        if from <= self.durable {
            // A receiver said that these are safe, and now they are not: say so, and heal the sums.
            let (key, first, last) = (self.key, from.max(1), self.durable);
            let body = Body::Gap(GapReason::Forgotten);
            let mut frame = Frame { key, first, last, windows: (0, 0), end: false, body };
            let bytes = self.gap(&mut frame, GapReason::Forgotten);
            self.sent_bytes += bytes.len();
            self.sent.push_front(Outgoing { first, last, bytes: bytes.into() });
            self.durable = from.max(1) - 1;
            self.given = 0;
        } else {
            let at = self.sent.iter().position(|frame| frame.last >= from);
            let at = at.unwrap_or(self.sent.len());
            if let Some(frame) = self.sent.get(at).filter(|frame| frame.first != from).cloned() {
                let (first, last) = (frame.first, frame.last);
                let inside = ResumeError::Inside { asked: from, first, last };
                // Nothing is counted in a gap, so any part of it will do.
                let mut gap = self.decode(&frame).ok_or(inside)?;
                if matches!(gap.body, Body::Content(_)) {
                    return Err(inside);
                }
                gap.first = from;
                let bytes = gap.encode(&self.schema);
                self.sent_bytes = self.sent_bytes + bytes.len() - frame.bytes.len();
                self.sent[at] = Outgoing { first: from, last, bytes: bytes.into() };
            }
            self.given = at;
        }
        self.applied = from.max(1) - 1;
        self.attached = true;
        Ok(())
    }

    /// The receiver is gone; counts go on.
    pub fn detach(&mut self) {
        self.attached = false;
    }

    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// The next frame for the receiver. `None`: no receiver, nothing new, or as much under way as
    /// is allowed.
    pub fn next_frame(&mut self) -> Option<Outgoing> {
        if !self.attached {
            return None;
        }
        if self.given == self.sent.len() {
            let next = self.waiting.front()?;
            let bytes = self.sent_bytes + next.bytes.len();
            let full = self.sent.len() >= self.limits.sent_frames || bytes > self.limits.sent_bytes;
            if full && !self.sent.is_empty() {
                return None;
            }
            let next = self.waiting.pop_front()?;
            self.waiting_bytes -= next.bytes.len();
            self.sent_bytes = bytes;
            self.sent.push_back(next);
        }
        let frame = self.sent.get(self.given).cloned();
        self.given += 1;
        frame
    }

    /// What the receiver has applied, and what is durable there. Old news is ignored, and so are
    /// claims of frames that were never sent.
    pub fn acknowledge(&mut self, applied_through: u64, durable_through: u64) {
        self.count_as_sent(applied_through);
        let sent = self.sent.back().map_or(self.durable, |frame| frame.last);
        self.applied = self.applied.max(applied_through.min(sent));
        let durable = durable_through.min(sent);
        while self.sent.front().is_some_and(|frame| frame.last <= durable) {
            if let Some(frame) = self.sent.pop_front() {
                self.durable = frame.last;
                if self.gaps == 0 || !self.is_gap(&frame) {
                    self.heard = frame.last;
                }
                self.sent_bytes -= frame.bytes.len();
                self.given = self.given.saturating_sub(1);
            }
        }
    }

    /// Once the stream has ended, a receiver may have frames that were not given out here: by way
    /// of the [`Self::tail`].
    fn count_as_sent(&mut self, through: u64) {
        while self.ended && self.waiting.front().is_some_and(|frame| frame.last <= through) {
            if let Some(frame) = self.waiting.pop_front() {
                self.waiting_bytes -= frame.bytes.len();
                self.sent_bytes += frame.bytes.len();
                self.sent.push_back(frame);
            }
        }
    }

    fn gap(&mut self, frame: &mut Frame, reason: GapReason) -> Vec<u8> {
        self.gaps += 1;
        self.repair = true;
        frame.body = Body::Gap(reason);
        frame.encode(&self.schema)
    }

    /// Joins what waits into fewer frames until it fits; sheds the oldest only if it cannot.
    fn make_room(&mut self) {
        while self.is_over() {
            if self.join_neighbours() {
                continue;
            }
            let Some(at) = self.waiting.iter().position(|frame| !self.is_gap(frame)) else {
                return;
            };
            // Nothing comes after the last frame that could make its loss good.
            if self.ended && at + 1 == self.waiting.len() {
                return;
            }
            let Ok(mut frame) = Frame::decode(&self.waiting[at].bytes, &self.schema) else {
                return;
            };
            let (first, last) = (frame.first, frame.last);
            let bytes = self.gap(&mut frame, GapReason::NoRoom);
            self.waiting_bytes = self.waiting_bytes + bytes.len() - self.waiting[at].bytes.len();
            self.waiting[at] = Outgoing { first, last, bytes: bytes.into() };
        }
    }

    fn is_over(&self) -> bool {
        self.waiting.len() > self.limits.waiting_frames
            || self.waiting_bytes > self.limits.waiting_bytes
    }

    fn is_gap(&self, frame: &Outgoing) -> bool {
        let decoded = Frame::decode(&frame.bytes, &self.schema);
        decoded.is_ok_and(|frame| matches!(frame.body, Body::Gap(_)))
    }

    /// Each frame with the one after it. False: no two could be joined.
    fn join_neighbours(&mut self) -> bool {
        let mut any = false;
        let mut frames = std::mem::take(&mut self.waiting).into_iter().peekable();
        let mut kept = VecDeque::new();
        while let Some(frame) = frames.next() {
            let joined = frames.peek().and_then(|next| self.join(&frame, next));
            match joined {
                Some(joined) => {
                    frames.next();
                    any = true;
                    self.joined += 1;
                    kept.push_back(joined);
                }
                None => kept.push_back(frame),
            }
        }
        self.waiting_bytes = kept.iter().map(|frame| frame.bytes.len()).sum();
        self.waiting = kept;
        any
    }

    fn join(&self, one: &Outgoing, next: &Outgoing) -> Option<Outgoing> {
        let (mut frame, later) = (self.decode(one)?, self.decode(next)?);
        match (&mut frame.body, later.body) {
            (Body::Content(content), Body::Content(later)) => content.join(*later),
            (Body::Gap(_), Body::Gap(_)) => {}
            _ => return None,
        }
        frame.last = later.last;
        frame.windows.1 = frame.windows.1.max(later.windows.1);
        frame.end = later.end;
        let bytes = frame.encode(&self.schema);
        (bytes.len() <= FRAME_BYTES_MAX).then(|| Outgoing {
            first: frame.first,
            last: frame.last,
            bytes: bytes.into(),
        })
    }

    /// Our own bytes.
    fn decode(&self, frame: &Outgoing) -> Option<Frame> {
        let decoded = Frame::decode(&frame.bytes, &self.schema);
        debug_assert!(decoded.is_ok(), "{decoded:?}");
        decoded.ok()
    }

    /// The highest sequence number so far: what a barrier's manifest calls the cut (BAR-110).
    pub fn cut(&self) -> u64 {
        self.next - 1
    }

    /// After the end: every frame that is not durable yet, as they are. Together with what is
    /// durable it is the whole stream, and it can be received as often as one likes.
    pub fn tail(&self) -> Vec<Vec<u8>> {
        debug_assert!(self.ended, "frames could still be joined");
        self.sent.iter().chain(&self.waiting).map(|frame| frame.bytes.to_vec()).collect()
    }

    /// By the word of the present receiver.
    pub fn applied_through(&self) -> u64 {
        self.applied
    }

    pub fn durable_through(&self) -> u64 {
        self.durable
    }

    /// What was told up to this frame is known, and cannot be lost: it is durable, and no gap.
    pub fn heard_through(&self) -> u64 {
        self.heard
    }

    /// Ended, and nothing is left to be kept.
    pub fn is_done(&self) -> bool {
        self.ended && self.sent.is_empty() && self.waiting.is_empty()
    }

    /// Bytes of all frames that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.sent_bytes + self.waiting_bytes
    }

    pub fn kept_frames(&self) -> usize {
        self.sent.len() + self.waiting.len()
    }

    /// How often two frames were joined, and how often one was shed.
    pub fn joined_and_shed(&self) -> (u64, u64) {
        (self.joined, self.gaps)
    }
}
