//! Whether workers and their attempts are still there: who is asked back, who is lost, and which
//! attempts a worker does not know.
//!
//! ```text
//! last sign ── L/15 ──▶ asked, again and again ── refused, 100 ms, refused ──▶ lost
//!                            │                 └─ L/4 without an answer ─────▶ lost
//!                            ╰─ any sign, from whichever way ──▶ all is well
//! ```
//!
//! How long a silence has to last follows from how long it was when it meant nothing ([`Noise`]).
//! A loss may cause a revoke, and nothing else. A revoke costs load, so one refusal is not enough:
//! a firewall refuses too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, Moment, NodeId};

use super::attempt::{AttemptState, Life};
use super::{NoAnswer, Sid};
use base::detector::{Noise, REFUSALS_APART, Refusals};

/// A worker that was asked back and has not been heard since.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    since: Moment,
    /// The next question, unless one is under way.
    next: Moment,
    asking: bool,
    refused: Option<Refusals>,
    /// A question went unanswered.
    failed: bool,
}

/// The times of asking back, as parts of a lease L.
#[derive(Clone, Copy, Debug)]
struct Times(Duration);

impl Times {
    /// Four frames in a row are missing by then.
    fn quiet(self) -> Duration {
        self.0 / 15
    }

    fn ask_every(self) -> Duration {
        self.0 / 12
    }

    /// As long as between two renewals; beyond a pause of one second, for the usual lease.
    fn first(self) -> Duration {
        self.0 / 4
    }

    fn most(self) -> Duration {
        self.0 * 3 / 4
    }
}

/// What is to be done about workers that are not heard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Silent {
    pub probe: Vec<Life>,
    /// With the reason.
    pub lost: Vec<(Life, &'static str)>,
}

#[derive(Clone, Debug)]
pub(super) struct Liveness {
    doubts: BTreeMap<Life, Doubt>,
    noise: Noise,
    /// Attempts that their worker did not know when it was last asked.
    absent: BTreeSet<(Sid, Attempt)>,
    /// When workers are asked next what they hold.
    scan_at: Moment,
}

impl Liveness {
    pub fn new(scan_at: Moment) -> Self {
        Self { doubts: BTreeMap::new(), noise: Noise::default(), absent: BTreeSet::new(), scan_at }
    }

    // ── doubts ─────────────────────────────────────────────────────────────────────────────────

    /// A worker was heard.
    pub fn heard(&mut self, worker: NodeId, now: Moment) {
        if self.doubts.is_empty() {
            return;
        }
        let noise = &mut self.noise;
        self.doubts.retain(|life, doubt| {
            let heard = life.0 == worker;
            if heard && doubt.refused.is_none() {
                noise.note(now.since(doubt.since), now);
            }
            !heard
        });
    }

    /// The owner did not run for so long.
    pub fn stood_still(&mut self, time: Duration) {
        for doubt in self.doubts.values_mut() {
            (doubt.since, doubt.next) = (doubt.since.after(time), doubt.next.after(time));
            (doubt.refused, doubt.failed) = (None, false);
        }
    }

    /// Looks at those that have an attempt. Nobody else is in doubt.
    pub fn look<'a>(&mut self, out: impl Iterator<Item = &'a AttemptState>, now: Moment) -> Silent {
        let mut watched: BTreeMap<Life, (Moment, Times)> = BTreeMap::new();
        for one in out {
            let (alive, times) = (one.alive, Times(one.lease.length()));
            let known = watched.entry(one.life()).or_insert((alive, times));
            known.0 = known.0.max(alive);
        }
        self.doubts.retain(|life, _| watched.contains_key(life));
        let mut silent = Silent::default();
        for (life, (alive, times)) in watched {
            if now.since(alive) < times.quiet() {
                continue;
            }
            let new = Doubt { since: now, next: now, asking: false, refused: None, failed: false };
            let patience = self.noise.patience(times.first(), times.most(), now);
            let doubt = self.doubts.entry(life).or_insert(new);
            if doubt.refused.is_some_and(|refused| refused.are_enough()) {
                silent.lost.push((life, "refuses connections, and is heard nowhere"));
            } else if doubt.failed && now.since(doubt.since) >= patience {
                silent.lost.push((life, "does not answer, and renews its leases nowhere"));
            } else if !doubt.asking && doubt.next <= now {
                (doubt.asking, doubt.next) = (true, now.after(times.ask_every()));
                silent.probe.push(life);
            }
        }
        for (life, _) in &silent.lost {
            self.doubts.remove(life);
        }
        silent
    }

    /// When to look again, if nothing is heard. Too early is harmless.
    pub fn look_at<'a>(
        &self,
        out: impl Iterator<Item = &'a AttemptState>,
        now: Moment,
    ) -> Option<Moment> {
        let due = |one: &AttemptState| {
            let times = Times(one.lease.length());
            let Some(doubt) = self.doubts.get(&one.life()) else {
                return Some(one.alive.after(times.quiet()));
            };
            let patience = self.noise.patience(times.first(), times.most(), now);
            let lost = doubt.failed.then(|| doubt.since.after(patience));
            let next = (!doubt.asking).then_some(doubt.next);
            lost.into_iter().chain(next).min()
        };
        out.filter_map(due).min()
    }

    /// A question went unanswered.
    pub fn unanswered(&mut self, life: Life, why: NoAnswer, now: Moment) {
        let Some(doubt) = self.doubts.get_mut(&life) else { return };
        doubt.asking = false;
        match why {
            NoAnswer::Refused => {
                Refusals::note(&mut doubt.refused, now);
                doubt.failed = true;
                doubt.next = now.after(REFUSALS_APART);
            }
            NoAnswer::Silent => doubt.failed = true,
            NoAnswer::NotAsked => {}
        }
    }

    // ── scans ──────────────────────────────────────────────────────────────────────────────────

    pub fn scan_at(&self) -> Moment {
        self.scan_at
    }

    /// Whether workers are to be asked now what they hold; then the next time is `next`.
    pub fn is_scan_due(&mut self, now: Moment, next: Moment) -> bool {
        let is_due = now >= self.scan_at;
        if is_due {
            self.scan_at = next;
        }
        is_due
    }

    /// A worker knows its attempt, or it is not expected to any more.
    pub fn is_present(&mut self, sid: Sid, attempt: Attempt) {
        self.absent.remove(&(sid, attempt));
    }

    /// A worker does not know its attempt. True: for the second time in a row, so it is an orphan.
    pub fn is_absent(&mut self, sid: Sid, attempt: Attempt) -> bool {
        !self.absent.insert((sid, attempt))
    }
}

#[cfg(test)]
mod tests {
    use fence::{BootId, LeaseTerms};

    use super::*;

    const LIFE: Life = (NodeId(1), BootId(1));

    fn at(ms: u64) -> Moment {
        Moment::default().after(Duration::from_millis(ms))
    }

    /// An attempt with a lease of 12 s, last heard at that time. It is quiet after 800 ms.
    fn heard(ms: u64) -> AttemptState {
        let lease = LeaseTerms::new(Duration::from_secs(12));
        AttemptState::new(LIFE, lease, Duration::ZERO, at(ms))
    }

    fn asks() -> Silent {
        Silent { probe: vec![LIFE], lost: Vec::new() }
    }

    #[test]
    fn whoever_is_quiet_is_asked_once_at_a_time() {
        let (one, mut liveness) = (heard(0), Liveness::new(at(0)));
        assert_eq!(liveness.look([&one].into_iter(), at(799)), Silent::default());
        assert_eq!(liveness.look_at([&one].into_iter(), at(799)), Some(at(800)));
        assert_eq!(liveness.look([&one].into_iter(), at(800)), asks());
        assert_eq!(liveness.look([&one].into_iter(), at(2_500)), Silent::default());
        liveness.unanswered(LIFE, NoAnswer::NotAsked, at(2_500));
        assert_eq!(liveness.look([&one].into_iter(), at(2_500)), asks());
    }

    #[test]
    fn two_refusals_apart_are_a_loss_and_one_is_none() {
        let (one, mut liveness) = (heard(0), Liveness::new(at(0)));
        liveness.look([&one].into_iter(), at(800));
        liveness.unanswered(LIFE, NoAnswer::Refused, at(800));
        assert_eq!(liveness.look([&one].into_iter(), at(850)), Silent::default());
        assert_eq!(liveness.look([&one].into_iter(), at(900)), asks());
        liveness.unanswered(LIFE, NoAnswer::Refused, at(900));
        let lost = liveness.look([&one].into_iter(), at(900)).lost;
        assert_eq!(lost, [(LIFE, "refuses connections, and is heard nowhere")]);
    }

    #[test]
    fn a_quarter_of_a_lease_without_an_answer_is_a_loss_unless_such_silences_are_usual() {
        for (usual_ms, lost_after_ms) in [(0, 3_000), (2_000, 6_000), (9_000, 9_000)] {
            let (one, mut liveness) = (heard(0), Liveness::new(at(0)));
            if usual_ms > 0 {
                liveness.look([&one].into_iter(), at(800));
                liveness.heard(LIFE.0, at(800 + usual_ms));
            }
            let begin = 20_000;
            let one = heard(begin);
            liveness.look([&one].into_iter(), at(begin + 800));
            liveness.unanswered(LIFE, NoAnswer::Silent, at(begin + 900));
            let lost_at = begin + 800 + lost_after_ms;
            let before = liveness.look([&one].into_iter(), at(lost_at - 1));
            assert!(before.lost.is_empty(), "{usual_ms}");
            let lost = liveness.look([&one].into_iter(), at(lost_at)).lost;
            let why = "does not answer, and renews its leases nowhere";
            assert_eq!(lost, [(LIFE, why)], "{usual_ms}");
        }
    }

    #[test]
    fn a_time_in_which_the_owner_did_not_run_is_held_against_nobody() {
        let (mut one, mut liveness) = (heard(0), Liveness::new(at(0)));
        liveness.look([&one].into_iter(), at(800));
        liveness.unanswered(LIFE, NoAnswer::Silent, at(900));
        liveness.stood_still(Duration::from_secs(60));
        one.alive = one.alive.after(Duration::from_secs(60));
        assert!(liveness.look([&one].into_iter(), at(61_000)).lost.is_empty());
    }

    #[test]
    fn an_attempt_is_an_orphan_when_it_is_absent_twice_in_a_row() {
        let mut liveness = Liveness::new(at(0));
        let (sid, attempt) = ((0, 0), Attempt(1));
        assert!(!liveness.is_absent(sid, attempt));
        liveness.is_present(sid, attempt);
        assert!(!liveness.is_absent(sid, attempt));
        assert!(liveness.is_absent(sid, attempt));
    }

    #[test]
    fn a_scan_is_due_once_per_period() {
        let mut liveness = Liveness::new(at(100));
        assert!(!liveness.is_scan_due(at(99), at(199)));
        assert!(liveness.is_scan_due(at(100), at(200)));
        assert!(!liveness.is_scan_due(at(100), at(200)));
        assert_eq!(liveness.scan_at(), at(200));
    }
}
