//! What the shell of a member counts. Gossip and discovery have counters of their own.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use membership::heartbeat::Heartbeat;

/// Counts by a name from a fixed set.
#[derive(Debug, Default)]
pub(crate) struct ByName(Mutex<BTreeMap<&'static str, u64>>);

impl ByName {
    pub(crate) fn add(&self, name: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(name).or_default() += 1;
    }

    pub(crate) fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Calls that were refused, by reason.
    pub(crate) calls_refused: ByName,
    pub(crate) hellos_in: AtomicU64,
    pub(crate) exchanges_in: AtomicU64,
    pub(crate) exchanges_out: AtomicU64,
    /// Exchanges that were not needed, because both sides knew the same.
    pub(crate) exchanges_spared: AtomicU64,
    pub(crate) exchange_failures: ByName,
    pub(crate) key_changes: AtomicU64,
    /// Later starts of this node that the gossip has told of and nobody has confirmed.
    pub(crate) unproven_lives: AtomicU64,
    /// Connections to the endpoints that found no place.
    pub(crate) http_refused: Arc<AtomicU64>,
    /// Workers whose certificates were made here, for a join token.
    pub(crate) enlisted: AtomicU64,
    /// By whom they protect from: how often a circuit breaker has opened, and how many are not
    /// closed.
    pub(crate) breakers: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    /// Peers that could not be remembered because the disk refused.
    pub(crate) peers_not_saved: AtomicU64,
    /// What this node last said of itself.
    pub(crate) heartbeat: Mutex<Option<Heartbeat>>,
}
