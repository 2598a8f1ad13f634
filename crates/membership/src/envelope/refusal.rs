//! Why a datagram was refused, and how often. A refused datagram changes nothing and is never
//! answered.

use std::fmt;

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a datagram was refused. The order is the order of the checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Refusal {
            $($(#[$doc])* $variant,)*
        }

        impl Refusal {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word under which it is counted.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

refusals! {
    /// Longer than any member sends.
    Oversized = "oversized",
    /// Shorter than its own headers and lengths say.
    Truncated = "truncated",
    /// Not one of ours at all: another protocol on our port.
    Alien = "alien",
    /// From a later format. Upgrade this node.
    FutureVersion = "future_version",
    /// Sealed with a key that is not in the ring: an interrupted rotation, or another cluster.
    UnknownKey = "unknown_key",
    /// The seal does not fit: changed on the way, made without the key, or meant for another node.
    Forged = "forged",
    ForeignCluster = "foreign_cluster",
    ForeignEnvironment = "foreign_environment",
    /// A role that has no place in this membership, or another role than this node had before.
    WrongRole = "wrong_role",
    /// Sealed by a member, but not well formed inside.
    Malformed = "malformed",
    /// It claims to come from this very node.
    FromSelf = "from_self",
    /// An earlier life of a node whose later life is known: a copied or lost data folder.
    StaleBoot = "stale_boot",
    /// Seen before, or too old to tell.
    Replayed = "replayed",
    /// The address belongs to another member that is alive.
    AddressTaken = "address_taken",
    /// More nodes than this membership is sized for.
    TooMany = "too_many",
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Refusal {}

/// Refused datagrams by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    counts: [u64; Refusal::ALL.len()],
}

impl Refusals {
    pub fn count(&mut self, refusal: Refusal) {
        self.counts[refusal as usize] += 1;
    }

    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize]
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every reason with its count, in the order of the checks.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.iter().map(|refusal| (*refusal, self.of(*refusal)))
    }
}
