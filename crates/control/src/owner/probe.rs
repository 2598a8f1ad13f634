//! Workers of which nothing is heard for a moment: the owner asks back (R26).
//!
//! ```text
//! last sign ── L/15 ──▶ asked, again and again ── refused, 100 ms, refused ──▶ lost: nobody listens there
//!                            │                 └─ L/4 without a word ────────▶ lost: it renews nowhere, either
//!                            ╰─ any sign: a frame, a renewal at any manager, an answer on whatever way ──▶ all is well
//! ```
//!
//! A worker that runs load is heard ten times a second, and whatever it says counts. The owner has nothing to say to
//! it meanwhile, so it asks, directly and through another manager; silence on every way is evidence where silence on
//! one is none. How long it has to last follows from how long it was when it meant nothing ([`Noise`]); it is never
//! longer than the three quarters of a lease after which a worker is lost in any case ([`super::silence`]).
//!
//! It may cause a revoke, and nothing else. A revoke costs load, so one refusal is not enough: a firewall refuses too.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{BootId, Moment, NodeId};

use super::shard::Try;
use super::{Errand, NoAnswer, Owner};
use crate::message::{Answer, lapse_of};
use base::detector::{Noise, REFUSALS_APART, Refusals};

/// A worker in one of its lives.
type Life = (NodeId, BootId);

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

/// What is known of workers that are not heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    of: BTreeMap<Life, Doubt>,
    noise: Noise,
}

impl Doubts {
    /// A worker was heard.
    pub fn end(&mut self, worker: NodeId, now: Moment) {
        if self.of.is_empty() {
            return;
        }
        let noise = &mut self.noise;
        self.of.retain(|life, doubt| {
            let heard = life.0 == worker;
            if heard && doubt.refused.is_none() {
                noise.note(now.since(doubt.since), now);
            }
            !heard
        });
    }

    /// The owner did not run for so long.
    pub fn stood_still(&mut self, time: Duration) {
        for doubt in self.of.values_mut() {
            (doubt.since, doubt.next) = (doubt.since.after(time), doubt.next.after(time));
            (doubt.refused, doubt.failed) = (None, false);
        }
    }
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

impl Owner {
    /// Those that have an attempt: when they were last heard of, and the length of their lease.
    fn watched(&self) -> BTreeMap<Life, (Moment, Times)> {
        let mut watched: BTreeMap<Life, (Moment, Times)> = BTreeMap::new();
        for one in self.shards.values().filter(|s| s.is_out()).filter_map(|s| s.current()) {
            let (alive, times) = (one.alive, Times(one.lease.length()));
            let known = watched.entry((one.worker, one.boot)).or_insert((alive, times));
            known.0 = known.0.max(alive);
        }
        watched
    }

    pub(super) fn ask_back(&mut self) {
        let now = self.now;
        let watched = self.watched();
        self.doubts.of.retain(|life, _| watched.contains_key(life));
        let mut ask = Vec::new();
        let mut lost = Vec::new();
        for (life, (alive, times)) in watched {
            if now.since(alive) < times.quiet() {
                continue;
            }
            let new = Doubt { since: now, next: now, asking: false, refused: None, failed: false };
            let patience = self.doubts.noise.patience(times.first(), times.most(), now);
            let doubt = self.doubts.of.entry(life).or_insert(new);
            if doubt.refused.is_some_and(|refused| refused.are_enough()) {
                lost.push((life, "refuses connections, and is heard nowhere"));
            } else if doubt.failed && now.since(doubt.since) >= patience {
                lost.push((life, "does not answer, and renews its leases nowhere"));
            } else if !doubt.asking && doubt.next <= now {
                (doubt.asking, doubt.next) = (true, now.after(times.ask_every()));
                ask.push(life);
            }
        }
        for (worker, boot) in ask {
            self.send(Errand::Probe(worker, boot));
        }
        for ((worker, boot), what) in lost {
            self.doubts.of.remove(&(worker, boot));
            self.lose_worker(worker, boot, what, None);
        }
    }

    /// When to look again, if nothing is heard. Too early is harmless.
    pub(super) fn ask_back_due(&self) -> Option<Moment> {
        let out = self.shards.values().filter(|shard| shard.is_out());
        let due = |one: &Try| {
            let times = Times(one.lease.length());
            let Some(doubt) = self.doubts.of.get(&(one.worker, one.boot)) else {
                return Some(one.alive.after(times.quiet()));
            };
            let patience = self.doubts.noise.patience(times.first(), times.most(), self.now);
            let lost = doubt.failed.then(|| doubt.since.after(patience));
            let next = (!doubt.asking).then_some(doubt.next);
            lost.into_iter().chain(next).min()
        };
        out.filter_map(|shard| shard.current().and_then(due)).min()
    }

    pub(super) fn probe_answered(&mut self, worker: NodeId, boot: BootId, answer: &Answer) {
        if let Answer::Holding(holdings) = answer
            && holdings.boot > boot
        {
            let proof = lapse_of(boot, holdings.boot, holdings.since);
            self.lose_worker(worker, boot, "has started again", proof);
        }
    }

    pub(super) fn probe_unanswered(&mut self, worker: NodeId, boot: BootId, why: NoAnswer) {
        let now = self.now;
        let Some(doubt) = self.doubts.of.get_mut(&(worker, boot)) else { return };
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
}
