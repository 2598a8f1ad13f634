//! Addresses worth a probe, and who was last seen at them.
//!
//! An address is not an identity: a node is known by its id, wherever it answers. The same address
//! from two sources is one candidate; our own is none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use fence::NodeId;

use base::random::SplitMix64;

/// How long an answer from ourselves keeps an address off the list: it may be another node's
/// tomorrow.
const OURS_FOR: Duration = Duration::from_secs(300);

/// Where an address comes from, most promising first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Remembered,
    Seed,
    Dns,
}

#[derive(Clone, Debug)]
struct Candidate {
    source: Source,
    probed_at: Option<Duration>,
    ours_until: Option<Duration>,
}

/// A node that was found at a new address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: SocketAddr,
}

/// The set of candidates.
#[derive(Clone, Debug)]
pub struct Candidates {
    own: BTreeSet<SocketAddr>,
    max: usize,
    candidates: BTreeMap<SocketAddr, Candidate>,
    seen: BTreeMap<NodeId, SocketAddr>,
}

impl Candidates {
    #[must_use]
    pub fn new(own: impl IntoIterator<Item = SocketAddr>, max: usize) -> Self {
        let own = own.into_iter().collect();
        Self { own, max, candidates: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Makes the set equal to what the sources say now; gives the new addresses. Whoever is on it
    /// already keeps its history. Returns how many were left out for want of room, too.
    pub fn replace(
        &mut self,
        addresses: impl IntoIterator<Item = (Source, SocketAddr)>,
    ) -> (Vec<SocketAddr>, usize) {
        let mut wanted: BTreeMap<SocketAddr, Source> = BTreeMap::new();
        let mut ordered: Vec<_> = addresses.into_iter().collect();
        ordered.sort_unstable();
        let mut left_out = 0;
        for (source, address) in ordered {
            if self.own.contains(&address) || wanted.contains_key(&address) {
                continue;
            }
            if wanted.len() == self.max {
                left_out += 1;
                continue;
            }
            wanted.insert(address, source);
        }
        self.candidates.retain(|address, _| wanted.contains_key(address));
        let mut new = Vec::new();
        for (address, source) in wanted {
            let candidate = self.candidates.entry(address).or_insert_with(|| {
                new.push(address);
                Candidate { source, probed_at: None, ours_until: None }
            });
            candidate.source = source;
        }
        (new, left_out)
    }

    /// Addresses to probe, most promising first, in random order among equals. `rest` is how long
    /// one is left in peace.
    pub fn due(
        &self,
        members: &BTreeSet<NodeId>,
        rest: Option<Duration>,
        now: Duration,
        random: &mut SplitMix64,
    ) -> Vec<SocketAddr> {
        let of_members: BTreeSet<_> =
            members.iter().filter_map(|node| self.seen.get(node)).collect();
        let mut due: Vec<_> = self
            .candidates
            .iter()
            .filter(|(_, c)| c.ours_until.is_none_or(|until| now >= until))
            .filter(|(address, _)| !of_members.contains(address))
            .filter(|(_, c)| match (rest, c.probed_at) {
                (Some(rest), Some(at)) => now >= at + rest,
                _ => true,
            })
            .map(|(address, candidate)| (candidate.source, *address))
            .collect();
        random.shuffle(&mut due);
        due.sort_by_key(|(source, _)| *source);
        due.into_iter().map(|(_, address)| address).collect()
    }

    pub fn probed(&mut self, address: SocketAddr, now: Duration) {
        if let Some(candidate) = self.candidates.get_mut(&address) {
            candidate.probed_at = Some(now);
        }
    }

    /// The probe was cancelled; it does not count.
    pub fn not_probed(&mut self, address: SocketAddr) {
        if let Some(candidate) = self.candidates.get_mut(&address) {
            candidate.probed_at = None;
        }
    }

    /// We answered ourselves there.
    pub fn is_ours(&mut self, address: SocketAddr, now: Duration) {
        if let Some(candidate) = self.candidates.get_mut(&address) {
            candidate.ours_until = Some(now + OURS_FOR);
        }
    }

    /// `node` is at `address`. Whoever was thought to be there before is not.
    pub fn found(&mut self, node: NodeId, address: SocketAddr) -> Option<Moved> {
        self.seen.retain(|other, at| *other == node || *at != address);
        if self.seen.len() >= self.max && !self.seen.contains_key(&node) {
            self.seen.pop_first();
        }
        match self.seen.insert(node, address) {
            Some(from) if from != address => Some(Moved { from }),
            _ => None,
        }
    }

    /// Where the node answered last; it may have left since.
    #[must_use]
    pub fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.seen.get(&node).copied()
    }

    #[must_use]
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.candidates.contains_key(&address)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }
}
