//! What a person sees while a run goes on, and the keys with which they steer it.
//!
//! ```text
//! engine ──publish──▶ Latest (one cell) ◀──polls── view thread ──▶ terminal, or plain lines
//!    ▲                                                 │
//!    └───────────────── Command ◀── keys ──────────────┘
//! ```
//!
//! **Invariant:** the view can never hold up the run. The engine overwrites one cell and goes on; a
//! view that is slow, or a terminal that does not drain, only misses snapshots.
//!
//! **Invariant:** however the view ends (normally, by an error, by a panic, by `restore_terminal`
//! from a signal handler's thread) the terminal is as it was: cooked, with a cursor.

mod canvas;
mod keys;
mod latest;
mod mode;
mod narrow;
mod plain;
mod screen;
mod terminal;
mod view;
mod words;

pub use keys::Runs;
pub use latest::Latest;
pub use mode::{Environment, Mode, wants_ascii, wants_color};
pub use plain::plain_line;
pub use screen::{ascii, screen};
pub use terminal::restore_terminal;
pub use view::{Options, Stream, View};
pub use words::{MESSAGES_PER_SECOND_MAX, Words};

/// What a key asks of the run. The engine decides; nothing here assumes that it obeys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Command {
    Pause,
    Resume,
    /// Multiply virtual users or rate by this.
    Scale(f64),
    /// No new iterations; running ones may finish.
    Stop,
    /// Ctrl-C: the first asks for a graceful end, the second for an immediate one; the receiver
    /// counts.
    Interrupt,
}
