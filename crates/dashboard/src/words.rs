//! What is said while a live view has the terminal: shown above it, as many lines as a person can
//! follow, and the number of the others.
//!
//! ```text
//! log ──offer──▶ Words (bounded) ──take, once a frame──▶ above the picture
//!                   └─ close, after the view ──▶ what is left, printed plainly
//! ```
//!
//! Whoever offers never waits for the terminal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// As many messages of one second are shown.
pub const MESSAGES_PER_SECOND_MAX: u32 = 50;
/// So many wait for a terminal that does not drain.
const WAITING_MAX: usize = 500;

#[derive(Clone, Default)]
pub struct Words(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// A live view takes them.
    open: bool,
    waiting: VecDeque<String>,
    /// When the second began that is being counted, and how many messages it had.
    second: Option<(Instant, u32)>,
    left_out: u64,
}

impl Words {
    /// Takes a message to be shown; `Err`: there is no live view, and it can be printed.
    pub fn offer(&self, text: String) -> Result<(), String> {
        self.offer_at(text, Instant::now())
    }

    fn offer_at(&self, text: String, now: Instant) -> Result<(), String> {
        let mut inner = self.lock();
        if !inner.open {
            return Err(text);
        }
        let begun = inner.second.filter(|(at, _)| now - *at < Duration::from_secs(1));
        let (at, count) = begun.unwrap_or((now, 0));
        if count >= MESSAGES_PER_SECOND_MAX || inner.waiting.len() >= WAITING_MAX {
            inner.left_out += 1;
            return Ok(());
        }
        inner.second = Some((at, count + 1));
        inner.tell_left_out();
        inner.waiting.push_back(text);
        Ok(())
    }

    /// What has come since the last time.
    pub fn take(&self) -> Vec<String> {
        let mut inner = self.lock();
        let over = |(at, _): (Instant, u32)| at.elapsed() >= Duration::from_secs(1);
        if inner.second.is_some_and(over) {
            inner.tell_left_out();
        }
        inner.waiting.drain(..).collect()
    }

    pub(crate) fn open(&self) {
        self.lock().open = true;
    }

    /// The view has ended: what it has not shown.
    pub fn close(&self) -> Vec<String> {
        let mut inner = self.lock();
        inner.open = false;
        inner.tell_left_out();
        inner.waiting.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            self.waiting.push_back(format!(
                "... {count} more messages were left out (at most {MESSAGES_PER_SECOND_MAX} a second are \
                 shown); `--log-output file=PATH` keeps all\n"
            ));
        }
    }
}

/// A row that can do nothing to the picture below: colours stay, everything else that steers a
/// terminal goes.
pub(crate) fn harmless(row: &str) -> String {
    let mut out = String::with_capacity(row.len());
    let mut rest = row;
    while let Some(c) = rest.chars().next() {
        let colour = rest.strip_prefix("\x1b[").and_then(|inner| {
            let end = inner.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            inner[end..].starts_with('m').then_some(end + 3)
        });
        let taken = colour.unwrap_or(c.len_utf8());
        match colour {
            Some(_) => out.push_str(&rest[..taken]),
            None if c == '\t' => out.push_str("    "),
            None if c.is_control() => {}
            None => out.push(c),
        }
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_person_can_follow_is_counted_and_said() {
        let words = Words::default();
        assert_eq!(words.offer("a".into()), Err("a".to_owned()), "nobody shows it");
        words.open();
        let now = Instant::now();
        for number in 0..MESSAGES_PER_SECOND_MAX + 7 {
            words.offer_at(number.to_string(), now).unwrap();
        }
        let shown = words.take();
        assert_eq!(shown.len(), MESSAGES_PER_SECOND_MAX as usize, "{shown:?}");
        words.offer_at("later".into(), now + Duration::from_secs(1)).unwrap();
        let shown = words.take();
        assert!(shown[0].starts_with("... 7 more"), "{shown:?}");
        assert_eq!(shown[1..], ["later"]);
        words.offer_at("last".into(), now + Duration::from_secs(1)).unwrap();
        assert_eq!(words.close(), ["last"]);
        assert!(words.offer("after".into()).is_err());
    }

    #[test]
    fn a_terminal_that_does_not_drain_costs_lines_and_no_memory() {
        let words = Words::default();
        words.open();
        let begun = Instant::now();
        for second in 0..1000 {
            for _ in 0..MESSAGES_PER_SECOND_MAX {
                words.offer_at("x".into(), begun + Duration::from_secs(second)).unwrap();
            }
        }
        let left = words.close();
        assert!(left.len() <= WAITING_MAX + 1, "{}", left.len());
        let lost = 1000 * MESSAGES_PER_SECOND_MAX as usize - WAITING_MAX;
        assert!(left.last().unwrap().starts_with(&format!("... {lost} more")), "{:?}", left.last());
    }

    #[test]
    fn a_message_may_be_coloured_and_nothing_else() {
        assert_eq!(harmless("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
        assert_eq!(harmless("a\x1b[2Jb\x1b[1;1Hc\td\re\x1b"), "a[2Jb[1;1Hc    de");
    }
}
