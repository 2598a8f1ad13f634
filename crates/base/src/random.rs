//! Deterministic random numbers: SplitMix64. They spread load and make runs repeatable; they guard
//! no secret.

use std::time::Duration;

/// The finaliser of SplitMix64: every bit of the input changes about half of the bits of the
/// output.
#[must_use]
pub fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A generator whose whole state is one number, which the caller hands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The state, from which another generator goes on.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.0
    }

    pub fn draw(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        drawn
    }

    /// One of `0..end`; 0 if there is none. The bias of the remainder is below one in 2^32 for any
    /// `end` below 2^32.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.draw() % end }
    }

    /// A place in something of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// From zero to `limit`, in steps of a microsecond.
    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.draw() % (micros + 1))
    }

    /// True so many times in a million.
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        parts_per_million > 0 && self.below(1_000_000) < u64::from(parts_per_million)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are part of contracts between nodes of different versions, so they never change.
    #[test]
    fn the_first_numbers_of_a_seed_are_those_of_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| random.draw());
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, reference);
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_differs_by_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            SplitMix64::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(1);
        assert_ne!(sorted, shuffled(2));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_drawn_beyond_its_limit() {
        let mut random = SplitMix64::new(7);
        assert_eq!((random.below(0), random.index(0)), (0, 0));
        let limit = Duration::from_millis(3);
        assert!((0..1_000).all(|_| random.below(10) < 10 && random.up_to(limit) <= limit));
        assert!(
            !(0..1_000).any(|_| random.chance(0)) && (0..1_000).all(|_| random.chance(1_000_000))
        );
    }
}
