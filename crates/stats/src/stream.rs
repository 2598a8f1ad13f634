//! The statistics stream of one attempt at a shard (R17, BAR-110 to BAR-115).
//!
//! ```text
//!            push            next_frame                      take
//! recorder ───────▶ waiting ───────────▶ sent ── network ──▶ Cursor ──▶ merge ──▶ checkpoint
//!                   (may be joined)      (sealed)    ◀── applied_through, durable_through ──┘
//! ```
//!
//! - A frame covers a stretch `[first, last]` of the stream's sequence. Frames that were never
//!   given out may be joined with their neighbours when room is short; from the first time that a
//!   frame is given out its bounds are fixed for good. So what any receiver ever sees of a stream
//!   is one and the same division into frames: a frame is either wholly applied already, or wholly
//!   new, or does not follow yet. Nothing can be counted twice, whoever receives it, however often.
//! - The sender keeps a frame until a receiver says that it is durable; what an owner had applied
//!   and not stored is sent again to the next one.
//! - Room is bounded in frames and bytes on both sides. At the sender, what waits is joined into
//!   fewer frames, so a stream that nobody listens to costs the size of its plan. Only where even
//!   that does not fit, a gap is sent in place of the content, and the statistics are marked
//!   incomplete. Counters are sums since the start, so the next frame still makes them right.

mod cursor;
mod sender;

#[cfg(test)]
mod properties;

#[cfg(feature = "canary")]
pub use cursor::canary;
pub use cursor::{Cursor, CursorLimits, StreamError, Taken};
pub use sender::{Outgoing, ResumeError, Sender, SenderLimits};
