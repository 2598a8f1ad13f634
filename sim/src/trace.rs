//! The trace of a run: everything that can be observed, folded into one number.
//!
//! Every byte that a socket carries, every fault, every answer to a client goes in, with its
//! simulated time and its host. Two runs of a seed that differ anywhere differ in the hash; with
//! `--replay` the events are printed as well, so that a difference is found by comparing two texts.

use std::cell::RefCell;
use std::fmt::Arguments;

/// FNV-1a over eight bytes at a time: the hash has to tell runs apart, nobody attacks it.
#[derive(Clone, Copy)]
struct Fold(u64);

impl Fold {
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.word(u64::from(*byte));
        }
    }
}

struct Trace {
    hash: Fold,
    events: u64,
    now_us: u64,
    verbose: bool,
}

thread_local! {
    static TRACE: RefCell<Trace> = const {
        RefCell::new(Trace { hash: Fold(0xcbf2_9ce4_8422_2325), events: 0, now_us: 0, verbose: false })
    };
}

/// Starts over; `verbose` prints each event to standard error.
pub fn start(verbose: bool) {
    TRACE.with_borrow_mut(|trace| {
        *trace = Trace { hash: Fold(0xcbf2_9ce4_8422_2325), events: 0, now_us: 0, verbose };
    });
}

/// What events are stamped with from now on.
pub fn set_time(microseconds: u64) {
    TRACE.with_borrow_mut(|trace| trace.now_us = microseconds);
}

/// Simulated time in milliseconds, as last set.
#[must_use]
pub fn now_ms() -> u64 {
    TRACE.with_borrow(|trace| trace.now_us / 1_000)
}

/// Something happened that a reader would want to see.
pub fn event(text: Arguments<'_>) {
    let text = text.to_string();
    TRACE.with_borrow_mut(|trace| {
        trace.events += 1;
        let now = trace.now_us;
        trace.hash.word(now);
        trace.hash.bytes(text.as_bytes());
        if trace.verbose {
            eprintln!("{:>9.3} {text}", now as f64 / 1e6);
        }
    });
}

/// Bytes moved over a socket.
pub fn bytes(host: u64, peer: u64, sent: bool, bytes: &[u8]) {
    TRACE.with_borrow_mut(|trace| {
        trace.events += 1;
        let now = trace.now_us;
        trace.hash.word(now);
        trace.hash.word(host << 32 | peer << 1 | u64::from(sent));
        trace.hash.bytes(bytes);
    });
}

/// The hash so far, and over how many events.
#[must_use]
pub fn hash() -> (u64, u64) {
    TRACE.with_borrow(|trace| (trace.hash.0, trace.events))
}

/// `event!("leader {} steps down", node)`.
#[macro_export]
macro_rules! event {
    ($($text:tt)*) => { $crate::trace::event(format_args!($($text)*)) };
}
