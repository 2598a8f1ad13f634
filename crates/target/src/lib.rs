//! The server that load is shot at: known answers, known faults, and an exact count of what it saw.
//!
//! A load test is only as trustworthy as the comparison of two books: what the generator says it
//! sent and what the server says it received. This crate is the second book. [`Target`] answers
//! quickly and can be told to be slow, to fail or to stall; [`hostile`] breaks the protocol on
//! purpose.
//!
//! ```text
//! head received ─► counted ─► stall over? ─► latency ─► route ─► stall over? ─► error or answer
//! ```
//!
//! A request is counted first, so that nothing that happens to it afterwards (a stall, a client
//! that goes away, a reset) can make the books differ. `/volley/*` is outside of all this: it is
//! neither counted nor delayed nor failed.
//!
//! What it does not do: TLS (put it in front with [`Handle::serve`]), files, or configuration by
//! anything but [`TargetConfig`].

mod answer;
mod config;
mod counts;
mod error;
pub mod hostile;
mod payload;
mod route;
mod server;
mod service;
mod stall;

pub use config::{Latency, Stall, TargetConfig};
pub use counts::Counts;
pub use error::Error;
pub use server::{RunningTarget, Target};
pub use service::Handle;
