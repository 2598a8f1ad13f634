//! The gate that every request passes before it is written: open for as long as a lease runs (R4).
//!
//! ```text
//! asking ──first grant──▶ open until T ──renewal──▶ open until T'     lapsed, closed: for good
//!                              └──── the clock reaches T: lapsed
//! ```
//!
//! A gate is one word that all who send look at: a relaxed load and a comparison with a clock reading
//! that is taken anyway. Whoever finds that the time has come writes it down, so that no late renewal
//! opens the gate again: by then somebody may have been told that this attempt has stopped.
//!
//! **Invariant:** a request is not begun, and no further piece of one is written, once its thread has
//! read a time at or after the lease's end. What was checked a moment before is the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Mono;

/// No reading of a clock is as low as these.
const LAPSED: u64 = 0;
const ASKING: u64 = 1;
const CLOSED: u64 = 2;
const ALWAYS: u64 = u64::MAX;

#[derive(Debug)]
pub struct SendGate {
    /// Nanoseconds of [`Mono`], or one of the above.
    until: AtomicU64,
}

/// How a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was granted yet.
    Asking,
    Open {
        until: Mono,
    },
    /// Of a run that needs no lease.
    AlwaysOpen,
    /// The lease has run out. Final.
    Lapsed,
    /// By order. Final.
    Closed,
}

impl Standing {
    /// Nothing can open it again.
    pub fn is_final(self) -> bool {
        matches!(self, Standing::Lapsed | Standing::Closed)
    }
}

impl SendGate {
    /// For runs on this machine alone, which nobody else could continue.
    pub fn always_open() -> Arc<SendGate> {
        Arc::new(SendGate { until: AtomicU64::new(ALWAYS) })
    }

    /// Shut until the first grant.
    pub fn leased() -> Arc<SendGate> {
        Arc::new(SendGate { until: AtomicU64::new(ASKING) })
    }

    /// To be asked before every send. `now`: a reading since which this thread has waited for nothing.
    #[inline]
    pub fn may_send(&self, now: Mono) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        // The second comparison is for a thread that has never read the clock.
        now.0 < until && until > CLOSED || self.refused(now)
    }

    /// Whether it is of a kind that can lapse or be closed.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.until.load(Ordering::Relaxed) != ALWAYS
    }

    #[cold]
    fn refused(&self, now: Mono) -> bool {
        matches!(self.standing(now), Standing::Open { .. } | Standing::AlwaysOpen)
    }

    /// A renewal was granted: open until then. Never shortens, and never opens what is shut for good.
    pub fn extend(&self, until: Mono, now: Mono) -> Standing {
        let until = until.0.clamp(CLOSED + 1, ALWAYS - 1);
        loop {
            let standing = self.standing(now);
            let known = match standing {
                Standing::Asking if until > now.0 => ASKING,
                Standing::Open { until: known } if until > known.0 => known.0,
                _ => return standing,
            };
            let swapped =
                self.until.compare_exchange(known, until, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return Standing::Open { until: Mono(until) };
            }
        }
    }

    /// Shuts it for good: by order, or because nobody waits for its users any more.
    pub fn close(&self) {
        // One that has lapsed stays so: the first reason is the true one.
        let _ = self.until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| {
            (known != LAPSED).then_some(CLOSED)
        });
    }

    /// Looks at the clock first: what has run out is shut for good from here on.
    pub fn standing(&self, now: Mono) -> Standing {
        loop {
            let known = self.until.load(Ordering::Relaxed);
            match known {
                LAPSED => return Standing::Lapsed,
                ASKING => return Standing::Asking,
                CLOSED => return Standing::Closed,
                ALWAYS => return Standing::AlwaysOpen,
                until if now.0 < until => return Standing::Open { until: Mono(until) },
                _ => {}
            }
            // A renewal that comes between is as good as one that came before.
            let swapped =
                self.until.compare_exchange(known, LAPSED, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return Standing::Lapsed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_gate_asks_no_clock() {
        let gate = SendGate::always_open();
        assert!(gate.may_send(Mono(0)) && gate.may_send(Mono(u64::MAX - 1)));
        assert_eq!(gate.extend(Mono(5), Mono(10)), Standing::AlwaysOpen);
        assert!(!gate.is_leased());
        gate.close();
        assert!(!gate.may_send(Mono(0)), "even that one can be shut, by order");
    }

    #[test]
    fn nothing_passes_before_the_first_grant() {
        let gate = SendGate::leased();
        assert!(!gate.may_send(Mono(100)));
        assert_eq!(gate.standing(Mono(100)), Standing::Asking, "asking too early ends nothing");
        assert_eq!(
            gate.extend(Mono(90), Mono(100)),
            Standing::Asking,
            "a grant that came too late"
        );
        assert_eq!(gate.extend(Mono(200), Mono(100)), Standing::Open { until: Mono(200) });
        assert!(gate.may_send(Mono(199)));
    }

    #[test]
    fn a_lapse_is_final() {
        let gate = SendGate::leased();
        gate.extend(Mono(200), Mono(100));
        assert!(!gate.may_send(Mono(200)), "the end itself is not within");
        assert_eq!(gate.extend(Mono(900), Mono(150)), Standing::Lapsed);
        assert!(!gate.may_send(Mono(150)), "not even for a clock that went back");
        gate.close();
        assert_eq!(gate.standing(Mono(0)), Standing::Lapsed, "the first reason stays");
    }

    #[test]
    fn a_grant_that_arrives_after_the_end_finds_it_shut() {
        let gate = SendGate::leased();
        gate.extend(Mono(200), Mono(100));
        assert_eq!(gate.extend(Mono(900), Mono(200)), Standing::Lapsed);
    }

    #[test]
    fn an_older_grant_does_not_shorten() {
        let gate = SendGate::leased();
        gate.extend(Mono(300), Mono(100));
        assert_eq!(gate.extend(Mono(200), Mono(100)), Standing::Open { until: Mono(300) });
        assert!(gate.may_send(Mono(250)));
    }

    #[test]
    fn a_closed_gate_stays_closed() {
        let gate = SendGate::leased();
        gate.extend(Mono(300), Mono(100));
        gate.close();
        assert_eq!(gate.extend(Mono(900), Mono(100)), Standing::Closed);
        assert!(!gate.may_send(Mono(100)) && gate.standing(Mono(100)).is_final());
    }

    /// One thread renews, others look: whoever has seen it shut never sees it open again.
    #[test]
    fn nobody_sees_it_open_after_somebody_saw_it_shut() {
        for round in 0..200u64 {
            let gate = SendGate::leased();
            gate.extend(Mono(1_000), Mono(10));
            let renewing = gate.clone();
            let renewer = std::thread::spawn(move || {
                (1_000..1_100)
                    .for_each(|t| _ = renewing.extend(Mono(t + 50), Mono(t + round % 60)));
            });
            let mut shut = false;
            for t in 900..1_400 {
                let open = gate.may_send(Mono(t));
                assert!(!(shut && open), "opened again at {t}");
                shut |= !open;
            }
            renewer.join().unwrap();
            assert!(gate.standing(Mono(5_000)).is_final());
        }
    }
}
