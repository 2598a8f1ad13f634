//! The I/O shells around the pure parts: who this process is, how it reaches others, what it runs,
//! what it shows.
//!
//! ```text
//!              Member (one node of a membership; manager, worker and gate embed it)
//!   identity ─▶  │  who am I, in which life                     http      /metrics, /livez, /readyz, /debug/...
//!   network  ─▶  │  mutual TLS, or a simulated network          service   Hello, Exchange, Members, Keys (gRPC)
//!   supervise ▶  │  every background task                       client    the operator's side of the same
//!                └▶ membership::Agent (its own thread), discovery, anti-entropy, heartbeat, health
//! ```
//!
//! **Invariant:** nothing here decides. Pure machines below decide, this crate carries out and
//! reports.

pub mod client;
pub mod config;
pub mod http;
pub mod identity;
pub mod member;
pub mod network;
mod numbers;
pub mod platform;
pub mod secret;
pub mod service;
pub mod supervise;
pub mod vitals;
pub mod wire;

pub use client::{ClientError, KeyList, MemberRow, MembersClient, MembersEvent, Place};
pub use config::{Config, CredentialFiles, Entropy};
pub use member::{End, Member, StartError};
pub use platform::{Host, Platform};
