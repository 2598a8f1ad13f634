//! The permit that every request needs before it is written: it holds for as long as a lease runs
//! (R4).
//!
//! ```text
//! asking ──first grant──▶ open until T ──renewal──▶ open until T'     lapsed, closed: for good
//!                              └──── the clock reaches T: lapsed
//! ```
//!
//! A permit is one word that all sending threads look at: a relaxed load and a comparison with a
//! clock reading that is taken anyway. Whoever finds that the time has come writes it down, so that
//! no late renewal revives the permit: by then somebody may have been told that this attempt has
//! stopped.
//!
//! **Invariant:** a request is not begun, and no further piece of one is written, once its thread
//! has read a time at or after the lease's end. What was checked a moment before is the last.

use fence::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No reading of a clock is as low as these.
const LAPSED: u64 = 0;
const ASKING: u64 = 1;
const CLOSED: u64 = 2;
const ALWAYS: u64 = u64::MAX;

#[derive(Debug)]
pub struct SendPermit {
    /// Nanoseconds of [`Moment`], or one of the above.
    until: AtomicU64,
}

/// The state of a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitState {
    /// Nothing was granted yet.
    Asking,
    Open {
        until: Moment,
    },
    /// Of a run that needs no lease.
    AlwaysOpen,
    /// The lease has run out. Final.
    Lapsed,
    /// By order. Final.
    Closed,
}

impl PermitState {
    /// Nothing can open it again.
    pub fn is_final(self) -> bool {
        matches!(self, PermitState::Lapsed | PermitState::Closed)
    }
}

impl SendPermit {
    /// For runs on this machine alone, which nobody else could continue.
    pub fn always_open() -> Arc<SendPermit> {
        Arc::new(SendPermit { until: AtomicU64::new(ALWAYS) })
    }

    /// Shut until the first grant.
    pub fn leased() -> Arc<SendPermit> {
        Arc::new(SendPermit { until: AtomicU64::new(ASKING) })
    }

    /// To be asked before every send. `now`: a reading since which this thread has waited for
    /// nothing.
    #[inline]
    pub fn may_send(&self, now: Moment) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        // The second comparison is for a thread that has never read the clock.
        now.as_nanos() < until && until > CLOSED || self.refused(now)
    }

    /// Whether it is of a kind that can lapse or be closed.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.until.load(Ordering::Relaxed) != ALWAYS
    }

    #[cold]
    fn refused(&self, now: Moment) -> bool {
        matches!(self.standing(now), PermitState::Open { .. } | PermitState::AlwaysOpen)
    }

    /// A renewal was granted: open until then. Never shortens, and never opens what is shut for
    /// good.
    pub fn extend(&self, until: Moment, now: Moment) -> PermitState {
        let until = until.as_nanos().clamp(CLOSED + 1, ALWAYS - 1);
        loop {
            let standing = self.standing(now);
            let known = match standing {
                PermitState::Asking if until > now.as_nanos() => ASKING,
                PermitState::Open { until: known } if until > known.as_nanos() => known.as_nanos(),
                _ => return standing,
            };
            let swapped =
                self.until.compare_exchange(known, until, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return PermitState::Open { until: Moment::from_nanos(until) };
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
    pub fn standing(&self, now: Moment) -> PermitState {
        loop {
            let known = self.until.load(Ordering::Relaxed);
            match known {
                LAPSED => return PermitState::Lapsed,
                ASKING => return PermitState::Asking,
                CLOSED => return PermitState::Closed,
                ALWAYS => return PermitState::AlwaysOpen,
                until if now.as_nanos() < until => {
                    return PermitState::Open { until: Moment::from_nanos(until) };
                }
                _ => {}
            }
            // A renewal that comes between is as good as one that came before.
            let swapped =
                self.until.compare_exchange(known, LAPSED, Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                return PermitState::Lapsed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlimited_permit_asks_no_clock() {
        let permit = SendPermit::always_open();
        assert!(
            permit.may_send(Moment::from_nanos(0))
                && permit.may_send(Moment::from_nanos(u64::MAX - 1))
        );
        assert_eq!(
            permit.extend(Moment::from_nanos(5), Moment::from_nanos(10)),
            PermitState::AlwaysOpen
        );
        assert!(!permit.is_leased());
        permit.close();
        assert!(!permit.may_send(Moment::from_nanos(0)), "even that one can be shut, by order");
    }

    #[test]
    fn nothing_passes_before_the_first_grant() {
        let permit = SendPermit::leased();
        assert!(!permit.may_send(Moment::from_nanos(100)));
        assert_eq!(
            permit.standing(Moment::from_nanos(100)),
            PermitState::Asking,
            "asking too early ends nothing"
        );
        assert_eq!(
            permit.extend(Moment::from_nanos(90), Moment::from_nanos(100)),
            PermitState::Asking,
            "a grant that came too late"
        );
        assert_eq!(
            permit.extend(Moment::from_nanos(200), Moment::from_nanos(100)),
            PermitState::Open { until: Moment::from_nanos(200) }
        );
        assert!(permit.may_send(Moment::from_nanos(199)));
    }

    #[test]
    fn a_lapse_is_final() {
        let permit = SendPermit::leased();
        permit.extend(Moment::from_nanos(200), Moment::from_nanos(100));
        assert!(!permit.may_send(Moment::from_nanos(200)), "the end itself is not within");
        assert_eq!(
            permit.extend(Moment::from_nanos(900), Moment::from_nanos(150)),
            PermitState::Lapsed
        );
        assert!(!permit.may_send(Moment::from_nanos(150)), "not even for a clock that went back");
        permit.close();
        assert_eq!(
            permit.standing(Moment::from_nanos(0)),
            PermitState::Lapsed,
            "the first reason stays"
        );
    }

    #[test]
    fn a_grant_that_arrives_after_the_end_finds_it_shut() {
        let permit = SendPermit::leased();
        permit.extend(Moment::from_nanos(200), Moment::from_nanos(100));
        assert_eq!(
            permit.extend(Moment::from_nanos(900), Moment::from_nanos(200)),
            PermitState::Lapsed
        );
    }

    #[test]
    fn an_older_grant_does_not_shorten() {
        let permit = SendPermit::leased();
        permit.extend(Moment::from_nanos(300), Moment::from_nanos(100));
        assert_eq!(
            permit.extend(Moment::from_nanos(200), Moment::from_nanos(100)),
            PermitState::Open { until: Moment::from_nanos(300) }
        );
        assert!(permit.may_send(Moment::from_nanos(250)));
    }

    #[test]
    fn a_withdrawn_permit_stays_withdrawn() {
        let permit = SendPermit::leased();
        permit.extend(Moment::from_nanos(300), Moment::from_nanos(100));
        permit.close();
        assert_eq!(
            permit.extend(Moment::from_nanos(900), Moment::from_nanos(100)),
            PermitState::Closed
        );
        assert!(
            !permit.may_send(Moment::from_nanos(100))
                && permit.standing(Moment::from_nanos(100)).is_final()
        );
    }

    /// One thread renews, others look: whoever has seen it shut never sees it open again.
    #[test]
    fn nobody_sees_it_open_after_somebody_saw_it_shut() {
        for round in 0..200u64 {
            let permit = SendPermit::leased();
            permit.extend(Moment::from_nanos(1_000), Moment::from_nanos(10));
            let renewing = permit.clone();
            let renewer = std::thread::spawn(move || {
                (1_000..1_100).for_each(|t| {
                    _ = renewing
                        .extend(Moment::from_nanos(t + 50), Moment::from_nanos(t + round % 60));
                });
            });
            let mut shut = false;
            for t in 900..1_400 {
                let open = permit.may_send(Moment::from_nanos(t));
                assert!(!(shut && open), "opened again at {t}");
                shut |= !open;
            }
            renewer.join().unwrap();
            assert!(permit.standing(Moment::from_nanos(5_000)).is_final());
        }
    }
}
