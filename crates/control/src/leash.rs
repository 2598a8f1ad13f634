//! How far an attempt that counts iterations may go ahead of what is durably known of it (R5a).
//!
//! An iteration must not be begun twice, and nobody can ask a machine that is gone how far it had come. So an attempt
//! says beforehand how far it may go, with every frame of its statistics, and goes there only when a frame that allows
//! it is durable. Whoever takes over then knows a bound from the last frame that arrived, whichever that is.
//!
//! ```text
//! word            1        2        3        4           the end of what may be taken, as each word says it
//!                120      180       90      150
//! durable         └ this one                             what may be taken: 90, the least since then
//! ```
//!
//! Words go down as well as up: an attempt that turns out to be slow gives back what it had taken in advance, so that
//! little is lost with it. A lower word holds from the moment it is said, a higher one when it is durable. So the
//! word of *any* frame from the durable one on is a bound, also of a frame that never arrived: what was taken by then
//! is less than every word since.

use std::collections::VecDeque;

/// What may be taken before anything was heard of an attempt.
pub const FIRST: u64 = 4_096;
/// The pace is that of so many words, which are a tenth of a second apart.
const PACE_WORDS: usize = 10;
/// The way ahead lasts for so many words at that pace. A word is durable within a second and a half.
const AHEAD_WORDS: u64 = 30;

#[derive(Debug, Clone)]
pub struct Leash {
    /// By number: the words that bound, the newest last. Of two the earlier one is lower; a later one that is lower
    /// outlasts it, so the earlier is not kept.
    words: VecDeque<(u64, u64)>,
    said: u64,
    /// What was taken when the last words were said, the oldest first.
    taken: VecDeque<u64>,
    whole: u64,
}

/// What an attempt says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub number: u64,
    /// Units with lower numbers may be taken.
    pub end: u64,
}

impl Leash {
    /// `spent`: by earlier attempts. `whole`: all units there are, those among them.
    #[must_use]
    pub fn new(spent: u64, whole: u64) -> Self {
        let first = spent.saturating_add(FIRST).min(whole);
        Self { words: [(0, first)].into(), said: 0, taken: [spent].into(), whole }
    }

    /// Units with lower numbers may be taken.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.words.front().map_or(self.whole, |(_, end)| *end)
    }

    /// So many units were taken; `users` may each begin another at any moment.
    pub fn say(&mut self, taken: u64, users: u64) -> Word {
        self.said += 1;
        self.taken.push_back(taken);
        while self.taken.len() > PACE_WORDS + 1 {
            self.taken.pop_front();
        }
        let since = taken.saturating_sub(self.taken.front().copied().unwrap_or(taken));
        let words = self.taken.len() as u64 - 1;
        let pace = since.saturating_mul(AHEAD_WORDS) / words.max(1);
        let end = taken.saturating_add(pace.max(users)).min(self.whole.max(taken));
        while self.words.back().is_some_and(|(_, earlier)| *earlier >= end) {
            self.words.pop_back();
        }
        self.words.push_back((self.said, end));
        Word { number: self.said, end }
    }

    /// This word cannot be lost any more. True: more may be taken now.
    pub fn durable(&mut self, number: u64) -> bool {
        let before = self.end();
        // The newest stays: there is no bound without one.
        while self.words.len() > 1 && self.words.front().is_some_and(|(word, _)| *word < number) {
            self.words.pop_front();
        }
        self.end() > before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_stretch_is_short_and_ends_with_the_load() {
        assert_eq!(Leash::new(0, 1_000_000).end(), FIRST);
        assert_eq!(Leash::new(500, 1_000_000).end(), 500 + FIRST);
        assert_eq!(Leash::new(90, 100).end(), 100);
    }

    #[test]
    fn a_slow_attempt_gives_back_what_it_had_in_advance() {
        let mut leash = Leash::new(0, 1_000);
        let word = leash.say(3, 5);
        assert_eq!(word, Word { number: 1, end: 3 + 3 * AHEAD_WORDS });
        assert_eq!(leash.end(), word.end, "at once, before anybody has heard of it");
        for _ in 0..PACE_WORDS {
            leash.say(3, 5);
        }
        assert_eq!(leash.end(), 8, "as many as there are users");
    }

    #[test]
    fn a_fast_attempt_goes_on_when_its_word_is_durable() {
        let mut leash = Leash::new(0, 1_000_000);
        let word = leash.say(2_000, 50);
        assert_eq!((word.end, leash.end()), (62_000, FIRST));
        assert!(leash.durable(word.number));
        assert_eq!(leash.end(), 62_000);
        assert!(!leash.durable(word.number), "once");
    }

    #[test]
    fn a_word_after_the_durable_one_holds_too_if_it_is_lower() {
        let mut leash = Leash::new(0, 1_000_000);
        let first = leash.say(4_000, 1);
        leash.say(4_000, 1);
        let third = leash.say(4_000, 1);
        assert!(third.end < first.end);
        leash.durable(first.number);
        assert_eq!(leash.end(), third.end);
    }

    #[test]
    fn what_waits_to_become_durable_is_bounded() {
        let mut leash = Leash::new(0, u64::MAX);
        for round in 0..100_000 {
            let taken = leash.end().min(round * 50);
            leash.say(taken, 10);
        }
        assert!(leash.words.len() <= PACE_WORDS + 2, "{}", leash.words.len());
    }

    proptest! {
        /// Whichever word is the last that arrived, no earlier than the one that is known to be durable: what is taken
        /// until the end is below it.
        #[test]
        fn every_word_from_the_durable_one_on_is_a_bound(
            whole in 0u64..20_000,
            steps in prop::collection::vec((0u64..3, 0u64..2_000, 1u64..20), 1..200),
        ) {
            let mut leash = Leash::new(0, whole);
            let (mut taken, mut durable) = (0, 0);
            let mut words = vec![Leash::new(0, whole).end()];
            for (what, amount, users) in steps {
                match what {
                    0 => taken = (taken + amount).min(leash.end()).max(taken),
                    1 => words.push(leash.say(taken, users).end),
                    _ => {
                        durable = (durable + amount as usize % 4).min(words.len() - 1);
                        leash.durable(durable as u64);
                    }
                }
                prop_assert!(taken <= whole);
                for word in &words[durable..] {
                    prop_assert!(taken <= *word, "{taken} were taken, {word} were said");
                }
            }
        }

        /// However little is ever told to be durable in the end, all of it is done.
        #[test]
        fn everything_is_taken_in_the_end(whole in 0u64..50_000, users in 1u64..10, eager in 1u64..5_000) {
            let mut leash = Leash::new(0, whole);
            let mut taken = 0;
            for _ in 0..=whole {
                taken = (taken + eager).min(leash.end());
                if taken == whole {
                    break;
                }
                let word = leash.say(taken, users);
                leash.durable(word.number);
            }
            prop_assert_eq!(taken, whole);
        }
    }
}
