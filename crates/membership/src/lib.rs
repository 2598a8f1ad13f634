//! Who is there: SWIM with Lifeguard, discovery, bootstrap.
//!
//! ```text
//! envelope    one sealed datagram: whose, in which life, for whom, counted once
//! member      Swim: step(event, now) -> effects, over foca; Lifeguard on top
//! lifeguard   how healthy am I, how long may a suspicion last
//! table       the one node table; its events can be resumed from a version
//! health      liveness, readiness, progress, and what rides in the heartbeat
//! ```
//!
//! Membership only hints: a death reported here may cause a proposal to the ledger and nothing
//! else.
//!
//! **Invariant:** everything but `agent` is driven by (event, now). It reads no clock, opens no
//! socket and draws its random numbers from a generator that is handed in, so that the simulator
//! runs the very same code.

pub mod agent;
pub mod discovery;
pub mod envelope;
pub mod health;
pub mod heartbeat;
pub mod identity;
pub mod lifeguard;
pub mod member;
pub mod rumours;
pub mod settings;
pub mod table;

pub use identity::{Life, Peer};
pub use member::{Counters, Digest, Effect, Event, FullState, Identity, Notice, Swim};
pub use settings::{Lifeguard, Settings};
pub use table::{Cause, Change, Entry, State, Table};
pub use trust::Role;
