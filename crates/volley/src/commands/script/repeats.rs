//! A script that throws the same in each iteration says so thousands of times a second. The first
//! of equal messages are printed, the others counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use script::log::{Level, Line};

/// So many equal messages are printed.
const SHOWN_MAX: u64 = 50;
/// From then on, how many there were is said so often.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// So many different messages are remembered; what comes later is printed.
const KNOWN_MAX: usize = 1_000;

#[derive(Default)]
pub struct Repeats(HashMap<(Level, String), Known>);

struct Known {
    shown: u64,
    /// Since it was last said how many.
    counted: u64,
    told: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Repeat {
    Shown,
    Counted,
    /// It is time to say that there were so many more.
    ShownWith(u64),
}

impl Repeats {
    pub fn judge(&mut self, line: &Line, now: Instant) -> Repeat {
        let key = (line.level, line.message.clone());
        let is_full = self.0.len() >= KNOWN_MAX;
        let known = match self.0.get_mut(&key) {
            Some(known) => known,
            None if is_full => return Repeat::Shown,
            None => self.0.entry(key).or_insert(Known { shown: 0, counted: 0, told: now }),
        };
        if known.shown < SHOWN_MAX {
            known.shown += 1;
            known.told = now;
            return Repeat::Shown;
        }
        known.counted += 1;
        if now.duration_since(known.told) < TOLD_EVERY {
            return Repeat::Counted;
        }
        known.told = now;
        Repeat::ShownWith(std::mem::take(&mut known.counted))
    }

    /// What was counted and not yet said.
    pub fn drain(&mut self) -> Vec<(String, u64)> {
        let known = std::mem::take(&mut self.0).into_iter();
        let mut left: Vec<(String, u64)> = known
            .filter(|(_, known)| known.counted > 0)
            .map(|((_, message), known)| (message, known.counted))
            .collect();
        left.sort();
        left
    }
}

/// In words.
pub fn more(count: u64, message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let cut: String = first.chars().take(200).collect();
    format!("... and {} more like it: {cut}", report::format::count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_messages_are_printed_and_the_others_counted() {
        let mut repeats = Repeats::default();
        let now = Instant::now();
        let line = Line::new(Level::Error, "boom");
        for _ in 0..SHOWN_MAX {
            assert_eq!(repeats.judge(&line, now), Repeat::Shown);
        }
        assert_eq!(repeats.judge(&line, now), Repeat::Counted);
        assert_eq!(repeats.judge(&Line::new(Level::Error, "other"), now), Repeat::Shown);
        let later = now + TOLD_EVERY;
        assert_eq!(repeats.judge(&line, later), Repeat::ShownWith(2));
        assert_eq!(repeats.judge(&line, later), Repeat::Counted);
        assert_eq!(repeats.drain(), [("boom".to_owned(), 1)]);
        assert_eq!(repeats.drain(), []);
    }
}
