//! The owner's end of a stream: which frames are applied, and what they add.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::delta::Counters;
use crate::wire::{Body, Frame, GapReason};

/// A bug that a simulation puts back on purpose: a frame that comes again counts again.
#[cfg(feature = "canary")]
pub mod canary {
    use std::cell::Cell;

    thread_local! {
        static COUNTS_REPEATS: Cell<bool> = const { Cell::new(false) };
    }

    /// On this thread.
    pub fn count_repeats() {
        COUNTS_REPEATS.set(true);
    }

    pub(super) fn counts_repeats() -> bool {
        COUNTS_REPEATS.get()
    }
}

/// Gaps that are remembered one by one; more are joined with their neighbours.
const GAPS_MAX: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct CursorLimits {
    /// Frames that came before those they follow.
    pub held_frames: usize,
    pub held_bytes: usize,
}

impl Default for CursorLimits {
    fn default() -> Self {
        CursorLimits { held_frames: 64, held_bytes: 512 << 10 }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Cursor {
    limits: CursorLimits,
    pub(crate) applied: u64,
    pub(crate) durable: u64,
    pub(crate) counters: Counters,
    held: BTreeMap<u64, (Frame, usize)>,
    held_bytes: usize,
    pub(crate) ended: bool,
    /// Nothing after this is counted any more.
    pub(crate) sealed: Option<u64>,
    pub(crate) gaps: Vec<(u64, u64, GapReason)>,
    pub(crate) broken: Option<StreamError>,
    repeats: u64,
    not_held: u64,
}

/// What became of a frame.
#[derive(Debug, Default)]
pub struct Taken {
    /// These follow now, in order; counters are what was counted in each, no longer sums.
    pub frames: Vec<Frame>,
}

/// Why a stream cannot be believed. It is not counted any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamError {
    /// A frame holds something that is applied and something that is not.
    Overlap {
        first: u64,
        last: u64,
        applied: u64,
    },
    CounterWentBack {
        first: u64,
    },
    AfterEnd {
        first: u64,
    },
    /// The attempt was replaced, and this is beyond what it may still report.
    Sealed {
        first: u64,
        through: u64,
    },
}

impl std::error::Error for StreamError {}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Overlap { first, last, applied } => {
                write!(f, "frame {first}-{last} overlaps what is applied already (up to {applied})")
            }
            StreamError::CounterWentBack { first } => {
                write!(f, "a counter of frame {first} is lower than it was before")
            }
            StreamError::AfterEnd { first } => write!(f, "frame {first} follows the last one"),
            StreamError::Sealed { first, through } => write!(
                f,
                "frame {first} of an attempt that was replaced, and counts up to {through} only"
            ),
        }
    }
}

impl Cursor {
    pub fn new(limits: CursorLimits) -> Cursor {
        Cursor { limits, ..Cursor::default() }
    }

    /// `bytes`: the size of the frame as it came.
    pub fn take(&mut self, frame: Frame, bytes: usize) -> Result<Taken, StreamError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let mut taken = Taken::default();
        if frame.last <= self.applied {
            self.repeats += 1;
            #[cfg(feature = "canary")]
            taken.frames.extend(canary::counts_repeats().then_some(frame));
            return Ok(taken);
        }
        if frame.first > self.applied + 1 {
            self.hold(frame, bytes);
            return Ok(taken);
        }
        self.apply(frame, &mut taken)?;
        while let Some(next) = self.held.first_entry() {
            if *next.key() > self.applied + 1 {
                break;
            }
            let (frame, bytes) = next.remove();
            self.held_bytes -= bytes;
            if frame.last <= self.applied {
                self.repeats += 1;
            } else if let Err(error) = self.apply(frame, &mut taken) {
                // What was applied before it stays applied; the error is told at the next frame.
                self.broken = Some(error);
                break;
            }
        }
        Ok(taken)
    }

    fn apply(&mut self, mut frame: Frame, taken: &mut Taken) -> Result<(), StreamError> {
        let (first, last) = (frame.first, frame.last);
        let error = if first != self.applied + 1 {
            Some(StreamError::Overlap { first, last, applied: self.applied })
        } else if self.ended {
            Some(StreamError::AfterEnd { first })
        } else {
            let through = self.sealed.filter(|through| last > *through);
            through.map(|through| StreamError::Sealed { first, through })
        };
        if let Some(error) = error {
            // A late frame of a replaced attempt is no lie.
            if !matches!(error, StreamError::Sealed { .. }) {
                self.broken = Some(error);
            }
            return Err(error);
        }
        match &mut frame.body {
            Body::Content(content) => {
                let sums = Counters::of(&content.counts);
                if content.counts.since(&self.counters).is_none() {
                    let error = StreamError::CounterWentBack { first };
                    self.broken = Some(error);
                    return Err(error);
                }
                self.counters.replace(sums);
            }
            Body::Gap(reason) => self.note_gap(first, last, *reason),
        }
        self.applied = last;
        self.ended = frame.end;
        taken.frames.push(frame);
        Ok(())
    }

    fn note_gap(&mut self, first: u64, last: u64, reason: GapReason) {
        let full = self.gaps.len() >= GAPS_MAX;
        match self.gaps.last_mut() {
            Some(gap) if gap.1 + 1 == first || full => gap.1 = last,
            _ => self.gaps.push((first, last, reason)),
        }
    }

    /// Beyond the limits it is let go: the sender still has it.
    fn hold(&mut self, frame: Frame, bytes: usize) {
        if self.held.contains_key(&frame.first) {
            self.repeats += 1;
        } else if self.held.len() >= self.limits.held_frames
            || self.held_bytes + bytes > self.limits.held_bytes
        {
            self.not_held += 1;
        } else {
            self.held_bytes += bytes;
            self.held.insert(frame.first, (frame, bytes));
        }
    }

    /// The sender goes on from here; what was held is sent again.
    pub fn resume_from(&mut self) -> u64 {
        self.held.clear();
        self.held_bytes = 0;
        self.applied + 1
    }

    /// All frames up to it are applied.
    pub fn applied_through(&self) -> u64 {
        self.applied
    }

    pub fn durable_through(&self) -> u64 {
        self.durable
    }

    /// A checkpoint that holds everything up to here is stored.
    pub fn made_durable(&mut self, through: u64) {
        self.durable = self.durable.max(through.min(self.applied));
    }

    /// The attempt was replaced; what it counted after `through` does not count any more.
    pub fn seal(&mut self, through: u64) {
        self.sealed = Some(self.sealed.map_or(through, |known| known.min(through)));
    }

    /// It was not replaced after all, and says its last word itself.
    pub fn unseal(&mut self) -> bool {
        self.sealed.take().is_some()
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Stretches that were shed by the sender.
    pub fn gaps(&self) -> &[(u64, u64, GapReason)] {
        &self.gaps
    }

    /// Why it is not counted any further.
    pub fn broken(&self) -> Option<StreamError> {
        self.broken
    }

    /// Frames that came again, and frames that came too early to be held.
    pub fn repeats_and_not_held(&self) -> (u64, u64) {
        (self.repeats, self.not_held)
    }
}
