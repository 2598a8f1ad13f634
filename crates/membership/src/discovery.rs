//! Finding the first peer, and finding the others again: seeds, DNS, probing, islands that merge.
//!
//! ```text
//!  seeds ─────────────┐                      ┌─ Probe ──▶ hello ─▶ Join ──▶ membership
//!  DNS ─▶ cache ──────┼─▶ candidates ─▶ Bootstrap (pure: step(event, now) -> effects)
//!  remembered peers ──┘                      └─ again every 30 s: who answers and is no member? merge
//! ```
//!
//! A node serves and gossips from its first moment; discovery runs beside it and holds nothing up.
//! Once joined, gossip owns membership, and discovery only looks now and then whether a configured
//! address answers as somebody whom membership does not know. That is how islands that started
//! apart become one, and how a pod comes back under its old id at a new address.
//!
//! # What keeps one cluster one
//!
//! Discovery and gossip decide nothing (R6): joining and merging member lists is always harmless. A
//! *cluster* in the sense that matters is a Raft group, and [`formation`] holds the rule for it:
//! **only the configured list of founding voters makes a group**. A node forms one only if it is on
//! that list itself, has none in its data folder, has looked around, has found a majority of that
//! list without a group and with the same list, and has met no group at all. Everybody else waits
//! to be admitted by a group that exists. Two groups would need two disjoint majorities of one
//! list. The group's id follows from the list, so all founders make the same one. Two groups or two
//! lists that meet are a conflict: neither side joins the other, both say so, and a person decides.

mod bootstrap;
mod cache;
mod candidates;
mod event;
pub mod formation;
mod name;
mod resolve;
mod service;

#[cfg(test)]
mod tests;

pub use bootstrap::Bootstrap;
pub use cache::DnsCache;
pub use candidates::{Candidates, Source};
pub use event::{Counts, Effect, Event, Notice, Phase, ProbeFailure, ProbeId};
pub use name::{DnsName, NameError, Seed};
pub use resolve::{Answer, LookupError, Question, Resolver, SystemResolver};
pub use service::{Dialer, run};

use base::random::SplitMix64;
use std::net::SocketAddr;
use std::time::Duration;

use fence::{BootId, GroupId, NodeId};
use serde::{Deserialize, Serialize};
use trust::{Identity, Policy, Role};

/// Who this node is, as far as discovery needs to know.
#[derive(Clone, Debug)]
pub struct Me {
    pub identity: Identity,
    pub group: Option<GroupId>,
    /// Addresses at which this node itself can be reached.
    pub addresses: Vec<SocketAddr>,
}

/// What a probed node says of itself. It travels inside mutual TLS or the sealed envelope, never in
/// the clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub identity: Identity,
    pub boot: BootId,
    /// The Raft group in its data folder.
    pub group: Option<GroupId>,
    /// Its configured founding voters, as [`formation::digest`].
    pub voters: Option<u64>,
    /// Where it gossips.
    pub gossip: SocketAddr,
    /// Where it serves.
    pub service: SocketAddr,
}

impl Hello {
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.identity.node
    }
}

/// How to look. The defaults are those of the requirements.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seeds: Vec<Seed>,
    pub names: Vec<DnsName>,
    /// Peers of an earlier life, tried first.
    pub remembered: Vec<SocketAddr>,
    /// The role to find: managers look for managers, workers for managers, gates for gates.
    pub look_for: Role,
    pub policy: Policy,
    pub dns: DnsSettings,
    pub probe_deadline: Duration,
    pub probes_max: usize,
    pub probe_jitter: Duration,
    pub join_deadline: Duration,
    pub backoff: Backoff,
    /// How often a joined node looks again at addresses that are not members.
    pub look_again: Duration,
    pub candidates_max: usize,
    /// After this long without a peer, give up for good. Nodes never do; command lines may.
    pub give_up_after: Option<Duration>,
}

/// Times of the DNS cache (CORE-120). Failures are kept for less long than answers, and nothing is
/// kept for long by a node that has no peer yet.
#[derive(Clone, Copy, Debug)]
pub struct DnsSettings {
    pub lookup_deadline: Duration,
    /// For answers without a time to live.
    pub ttl_default: Duration,
    pub ttl_min: Duration,
    pub ttl_max: Duration,
    /// As long as there is no peer, no answer is kept longer.
    pub ttl_while_alone: Duration,
    /// For names that do not exist.
    pub negative: Duration,
    /// For time-outs and failing servers: the first wait, doubled up to the last.
    pub failure_first: Duration,
    pub failure_last: Duration,
    pub addresses_per_name_max: usize,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            lookup_deadline: Duration::from_secs(2),
            ttl_default: Duration::from_secs(30),
            ttl_min: Duration::from_secs(5),
            ttl_max: Duration::from_secs(300),
            ttl_while_alone: Duration::from_secs(5),
            negative: Duration::from_secs(30),
            failure_first: Duration::from_secs(1),
            failure_last: Duration::from_secs(5),
            addresses_per_name_max: 256,
        }
    }
}

/// Waits between rounds in which nobody was found: `first`, doubled up to `last`, plus up to a
/// quarter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub last: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), last: Duration::from_secs(15) }
    }
}

impl Backoff {
    /// The wait after `failures` rounds (from 1), before jitter.
    #[must_use]
    pub fn base(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.last)
    }

    /// The wait with its jitter; `random` is uniform.
    #[must_use]
    pub fn wait(self, failures: u32, random: &mut SplitMix64) -> Duration {
        let base = self.base(failures);
        base + random.up_to(base / 4)
    }
}

impl Settings {
    #[must_use]
    pub fn new(look_for: Role) -> Self {
        Self {
            seeds: Vec::new(),
            names: Vec::new(),
            remembered: Vec::new(),
            look_for,
            policy: Policy::default(),
            dns: DnsSettings::default(),
            probe_deadline: Duration::from_millis(500),
            probes_max: 10,
            probe_jitter: Duration::from_millis(100),
            join_deadline: Duration::from_secs(2),
            backoff: Backoff::default(),
            look_again: Duration::from_secs(30),
            candidates_max: 1024,
            give_up_after: None,
        }
    }
}
