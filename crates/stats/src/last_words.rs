//! What workers had not said when a result was made, and what they have said since (R27).
//!
//! A result is made when every attempt has an end. Where a worker is not heard of, that end is the
//! owner's word: what the worker did beyond it is bounded at best. When it comes back, its own word
//! is taken as an addendum, with a date. The result, its outcome and its exit code stay as they
//! were (R5); the corrected numbers stand beside them.

use serde::{Deserialize, Serialize};

use crate::result::{Issued, RunResult};

/// An attempt, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptKey {
    pub workflow: u32,
    pub shard: u32,
    pub attempt: u32,
}

/// An attempt whose worker had not said its last word when the result was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unheard {
    pub of: AttemptKey,
    /// It cannot have begun more requests than this beyond those that it had told of. `None`:
    /// nothing bounds it.
    pub more_at_most: Option<u64>,
}

/// What a worker did beyond what the result counts for its attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub issued: u64,
    pub sent: u64,
    pub completed: u64,
    pub failed: u64,
    /// Begun and brought to their end. The result counts them as dropped: nobody had heard of them.
    pub iterations: u64,
}

/// A worker's own word on an attempt, later than the end that its owner had written for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addendum {
    pub of: AttemptKey,
    /// Wall-clock time when it was taken, for people.
    pub at_unix_ms: u64,
    pub worker: String,
    pub added: Added,
    /// It is all that the worker did. Not so if its machine was restarted under it.
    pub certain: bool,
}

/// What is known of the requests of a job, and by whose word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// Requests that were begun, as far as workers had told when the result was made.
    pub told: u64,
    pub unheard: Vec<Unheard>,
    /// In the order in which they were taken.
    pub addenda: Vec<Addendum>,
}

/// Totals with what addenda say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrected {
    pub issued: Issued,
    pub sent: u64,
    pub completed: u64,
}

impl LastWords {
    /// How many requests were begun, as it stood when the result was made.
    #[must_use]
    pub fn issued(&self) -> Issued {
        self.issued_with(&[])
    }

    fn issued_with(&self, addenda: &[Addendum]) -> Issued {
        let mut most = Some(self.told);
        let mut exact = true;
        for unheard in &self.unheard {
            let addendum = addenda.iter().find(|addendum| addendum.of == unheard.of);
            let added = addendum.map_or(0, |addendum| addendum.added.issued);
            let more = match addendum.is_some_and(|addendum| addendum.certain) {
                true => Some(added),
                false => {
                    exact = false;
                    unheard.more_at_most.map(|more| more.max(added))
                }
            };
            most = most.zip(more).map(|(most, more)| most.saturating_add(more));
        }
        match most {
            Some(count) if exact => Issued::Exact(count),
            Some(count) => Issued::Bound(count),
            None => Issued::Unknown,
        }
    }
}

impl RunResult {
    /// The totals with what workers have said since the result was made; `None`: nobody has said
    /// anything.
    #[must_use]
    pub fn corrected(&self) -> Option<Corrected> {
        let addenda = &self.last_words.addenda;
        if addenda.is_empty() {
            return None;
        }
        let blocks = self.totals.blocks.iter().flatten();
        let steps = || blocks.clone().flat_map(|block| &block.steps);
        let sum = |own: u64, added: fn(&Added) -> u64| {
            addenda.iter().map(|addendum| added(&addendum.added)).fold(own, u64::saturating_add)
        };
        Some(Corrected {
            issued: self.last_words.issued_with(addenda),
            sent: sum(steps().map(|step| step.sent).sum(), |added| added.sent),
            completed: sum(steps().map(|step| step.completed).sum(), |added| added.completed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: AttemptKey = AttemptKey { workflow: 0, shard: 0, attempt: 1 };
    const OTHER: AttemptKey = AttemptKey { workflow: 0, shard: 1, attempt: 2 };

    fn unheard(of: AttemptKey, more_at_most: Option<u64>) -> Unheard {
        Unheard { of, more_at_most }
    }

    fn addendum(of: AttemptKey, issued: u64, certain: bool) -> Addendum {
        let added = Added { issued, ..Added::default() };
        Addendum { of, at_unix_ms: 1, worker: "w".to_owned(), added, certain }
    }

    #[test]
    fn requests_are_exact_once_every_worker_has_said_its_last_word() {
        let cases = [
            (vec![], vec![], Issued::Exact(100)),
            // Told while the job ran: in what was told already.
            (vec![], vec![addendum(FIRST, 9, true)], Issued::Exact(100)),
            (vec![unheard(FIRST, Some(30))], vec![], Issued::Bound(130)),
            (vec![unheard(FIRST, None)], vec![], Issued::Unknown),
            (vec![unheard(FIRST, Some(30))], vec![addendum(FIRST, 9, true)], Issued::Exact(109)),
            (vec![unheard(FIRST, None)], vec![addendum(FIRST, 9, true)], Issued::Exact(109)),
            // Its files may be older than its death: the bound stays.
            (vec![unheard(FIRST, Some(30))], vec![addendum(FIRST, 9, false)], Issued::Bound(130)),
            (vec![unheard(FIRST, None)], vec![addendum(FIRST, 9, false)], Issued::Unknown),
            (
                vec![unheard(FIRST, Some(30)), unheard(OTHER, Some(5))],
                vec![addendum(FIRST, 9, true)],
                Issued::Bound(114),
            ),
            (
                vec![unheard(FIRST, Some(30)), unheard(OTHER, None)],
                vec![addendum(FIRST, 9, true)],
                Issued::Unknown,
            ),
            (
                vec![unheard(FIRST, Some(30)), unheard(OTHER, None)],
                vec![addendum(OTHER, 1, true), addendum(FIRST, 9, true)],
                Issued::Exact(110),
            ),
        ];
        for (unheard, addenda, expected) in cases {
            let words = LastWords { told: 100, unheard, addenda: addenda.clone() };
            assert_eq!(words.issued_with(&addenda), expected, "{words:?}");
        }
    }
}
