//! FencingTable: the one check that every receiver of commands makes.
//!
//! ```text
//! present(key, token)   token > held   Enter      remembered at once; the caller acts, then answers
//!                       token = held   Repeat     the first answer again (Busy while there is none yet)
//!                       token < held   Refused    Stale: somebody with a higher token was here
//!                       neither        Refused    Foreign: another authority issued it
//! ```
//!
//! The token is remembered before the caller acts, not after: between the two a second copy of the
//! command may arrive, and it must find the first.
//!
//! The memory is bounded. A new key that finds no room is refused; no key is ever forgotten to make
//! room, since the forgotten one could then be commanded by a former owner. A key leaves only by
//! [`FencingTable::retire`], when its job is over, and its floor stays behind in a queue of
//! tombstones: what arrives late and is not higher is refused as before. The queue is bounded too.
//! When a tombstone falls out at its end, the key is unknown again and a command that is still
//! under way after all that time would enter; `forgotten` counts these. The queue must therefore
//! outlast the longest life of a message. The fencing_table is not the last line there: the command
//! names a boot id, and a worker generates load only with a lease, which is refused for a job that
//! is over.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::RangeBounds;

use serde::{Deserialize, Serialize};

/// How much a fencing_table remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// Keys in use. Each holds one token and one answer, so answers should be small.
    pub keys: usize,
    /// Keys that were retired, with their floors.
    pub tombstones: usize,
}

/// What the fencing_table says to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Passage<T, A> {
    /// The highest so far. Act, then say the answer to the fencing_table.
    Enter,
    /// The same command again: this was the answer. Do not act.
    Repeat(A),
    /// The same command again, and the first is still under way. Do not act; the sender asks again.
    Busy,
    /// Not let in. Nothing was changed but a counter.
    Refused(Refusal<T>),
}

impl<T, A> Passage<T, A> {
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// Why a command was not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal<T> {
    /// A higher token was here before.
    Stale { held: T, offered: T },
    /// The key is retired, and the token is not higher than its last.
    Over { held: T, offered: T },
    /// The tokens cannot be compared: another authority issued this one.
    Foreign { held: T, offered: T },
    /// A new key, and no room.
    Full { keys: usize },
}

impl<T: fmt::Display> fmt::Display for Refusal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { held, offered } => {
                write!(f, "stale: offered {offered}, but {held} is held; the sender was replaced")
            }
            Self::Over { held, offered } => {
                write!(f, "over: offered {offered}, but this ended at {held}")
            }
            Self::Foreign { held, offered } => write!(
                f,
                "foreign: offered {offered}, but {held} is held, and another group issued that; \
                 check which cluster the sender belongs to"
            ),
            Self::Full { keys } => {
                write!(f, "full: {keys} keys are in use; retire what is over, or raise the limit")
            }
        }
    }
}

impl<T: fmt::Debug + fmt::Display> std::error::Error for Refusal<T> {}

/// How often each thing was said. Every command that was presented is in exactly one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub entered: u64,
    pub repeated: u64,
    pub busy: u64,
    /// Lower than what was held, or not above what was retired: `stale_refused`.
    pub stale: u64,
    pub foreign: u64,
    pub full: u64,
}

impl Counts {
    /// How many commands were presented.
    #[must_use]
    pub fn presented(&self) -> u64 {
        self.entered + self.repeated + self.busy + self.refused()
    }

    #[must_use]
    pub fn refused(&self) -> u64 {
        self.stale + self.foreign + self.full
    }

    pub(crate) fn count<T, A>(&mut self, passage: &Passage<T, A>) {
        let counter = match passage {
            Passage::Enter => &mut self.entered,
            Passage::Repeat(_) => &mut self.repeated,
            Passage::Busy => &mut self.busy,
            Passage::Refused(Refusal::Stale { .. } | Refusal::Over { .. }) => &mut self.stale,
            Passage::Refused(Refusal::Foreign { .. }) => &mut self.foreign,
            Passage::Refused(Refusal::Full { .. }) => &mut self.full,
        };
        *counter += 1;
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It will be repeated to whoever presents the same token.
    Recorded,
    /// There was an answer already, and the first one stays.
    AlreadyAnswered,
    /// A higher token came in meanwhile, or the key was retired: nobody will ask for this answer.
    Superseded,
}

#[derive(Clone, Debug)]
struct Held<T, A> {
    token: T,
    answer: Option<A>,
}

/// Remembers the highest token per key and lets only higher ones in.
#[derive(Clone, Debug)]
pub struct FencingTable<K, T, A> {
    capacity: Capacity,
    held: BTreeMap<K, Held<T, A>>,
    floors: BTreeMap<K, T>,
    /// The keys of `floors`, oldest first.
    order: VecDeque<K>,
    counts: Counts,
    forgotten: u64,
}

impl<K: Ord + Clone, T: PartialOrd + Clone, A: Clone> FencingTable<K, T, A> {
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            held: BTreeMap::new(),
            floors: BTreeMap::new(),
            order: VecDeque::new(),
            counts: Counts::default(),
            forgotten: 0,
        }
    }

    /// Lets a command in, or says why not.
    pub fn present(&mut self, key: &K, token: &T) -> Passage<T, A> {
        let passage = self.judge(key, token);
        self.counts.count(&passage);
        if matches!(passage, Passage::Enter) {
            debug_assert!(self.held(key).is_none_or(|held| token > held), "P4: the floor rises");
            self.unbury(key);
            self.held.insert(key.clone(), Held { token: token.clone(), answer: None });
        }
        passage
    }

    /// What [`present`](Self::present) would say, without changing anything.
    pub fn judge(&self, key: &K, token: &T) -> Passage<T, A> {
        let refusal = |held: &T, why: fn(T, T) -> Refusal<T>| {
            Passage::Refused(why(held.clone(), token.clone()))
        };
        let foreign = |held, offered| Refusal::Foreign { held, offered };
        if let Some(Held { token: held, answer }) = self.held.get(key) {
            return match token.partial_cmp(held) {
                Some(Ordering::Greater) => Passage::Enter,
                Some(Ordering::Equal) => answer.clone().map_or(Passage::Busy, Passage::Repeat),
                Some(Ordering::Less) => {
                    refusal(held, |held, offered| Refusal::Stale { held, offered })
                }
                None => refusal(held, foreign),
            };
        }
        if let Some(floor) = self.floors.get(key) {
            match token.partial_cmp(floor) {
                Some(Ordering::Greater) => {}
                Some(_) => return refusal(floor, |held, offered| Refusal::Over { held, offered }),
                None => return refusal(floor, foreign),
            }
        }
        if self.held.len() >= self.capacity.keys {
            return Passage::Refused(Refusal::Full { keys: self.capacity.keys });
        }
        Passage::Enter
    }

    /// Records the answer of the command that entered with this token. The first answer stays.
    pub fn answer(&mut self, key: &K, token: &T, answer: A) -> Answered {
        match self.held.get_mut(key) {
            Some(held) if held.token == *token => {
                if held.answer.is_some() {
                    return Answered::AlreadyAnswered;
                }
                held.answer = Some(answer);
                Answered::Recorded
            }
            _ => Answered::Superseded,
        }
    }

    /// Forgets a key whose job is over; only its floor stays. False if the key was not in use.
    pub fn retire(&mut self, key: &K) -> bool {
        let Some(held) = self.held.remove(key) else { return false };
        if self.capacity.tombstones == 0 {
            self.forgotten += 1;
            return true;
        }
        if self.floors.len() >= self.capacity.tombstones
            && let Some(oldest) = self.order.pop_front()
        {
            self.floors.remove(&oldest);
            self.forgotten += 1;
        }
        self.floors.insert(key.clone(), held.token);
        self.order.push_back(key.clone());
        true
    }

    /// Forgets every key of a range, as [`retire`](Self::retire) does. Says how many there were.
    pub fn retire_range(&mut self, range: impl RangeBounds<K>) -> usize {
        let keys: Vec<K> = self.held.range(range).map(|(key, _)| key.clone()).collect();
        keys.iter().filter(|key| self.retire(key)).count()
    }

    /// The highest token that is known of a key, retired or not.
    #[must_use]
    pub fn held(&self, key: &K) -> Option<&T> {
        self.held.get(key).map(|held| &held.token).or_else(|| self.floors.get(key))
    }

    /// Every key in use, with its token and whether it was answered.
    pub fn in_use(&self) -> impl Iterator<Item = (&K, &T, bool)> {
        self.held.iter().map(|(key, held)| (key, &held.token, held.answer.is_some()))
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many floors have fallen out of the queue of tombstones.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// A retired key that is in use again has no tombstone. This walks the queue, but such a key is
    /// rare.
    fn unbury(&mut self, key: &K) {
        if self.floors.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}
