//! Execution lease: for how long a worker may generate load without hearing from anybody, and when
//! the next may begin.
//!
//! ```text
//! worker   send s ─────────────── may act until s + L (own clock) ──┤ lapsed, for good
//!               \                ▲
//! manager        arrives, read ──┘ granted: the attempt is current
//!                           │
//! ledger                    └── revoke committed c
//! owner                                   └ seen r ────────── 1.25 L (own clock) ──────────├ next attempt may start
//! ```
//!
//! **Why no two hold at once.** A grant needs a linearizable read that begins after the request has
//! arrived and shows the attempt as current. A read that begins after the revoke was committed
//! would show the revoke. So for every grant, however late it arrives: sent s < read < committed c
//! <= seen r, and the lease that it gives ends at s + L, before r + L. The owner waits 1.25 L from
//! r. Neither reading leaves its host; both clocks only have to run at nearly the same rate
//! ([`DRIFT_PERCENT`]): [`LeaseTerms::margin`] is what is left when one runs fast and the other
//! slow.
//!
//! **Why the lease counts from the sending.** The worker cannot know when the read was made, only
//! that it was not before the request was sent. Counting from the arrival of the grant would add
//! the way back, which has no bound.
//!
//! **Why a lapse is final.** By the argument above a late grant would still be within its bound, so
//! its time alone does not forbid a revival. But a worker whose lease has lapsed may have said so,
//! and the owner takes that for a stop acknowledgement and starts the next attempt at once. One
//! that comes back after having stopped is a second holder. There are also the promise that load
//! stops by itself, and a schedule that has gone on without this attempt. So the attempt is over
//! for its holder, and whoever wants to go on needs a new attempt from the ledger.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::canary::{self, Canary};
use crate::{Attempt, BootId, NodeId, ShardKey};

/// How much faster or slower than true time a host's clock may run, in percent. More than this is a
/// broken machine.
pub const DRIFT_PERCENT: u32 = 5;

/// A reading of CLOCK_BOOTTIME, which goes on while the machine sleeps. It means nothing on another
/// host or after a reboot, so it cannot be serialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// After every reading of a clock.
    pub const MAX: Self = Self(u64::MAX);

    /// The reading itself: how long the machine has been up.
    #[must_use]
    pub const fn since_boot(uptime: Duration) -> Self {
        Self(nanos(uptime))
    }

    /// The same in nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn uptime(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// This much later. The end of time is the end: nothing wraps.
    #[must_use]
    pub const fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }

    /// How long ago `earlier` was; zero if it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, for threads that take several readings per request.
    #[must_use]
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

const fn nanos(time: Duration) -> u64 {
    let nanos = time.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

/// The times of a lease. All follow from its length, so they scale together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTerms {
    length: Duration,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self::new(Duration::from_secs(6))
    }
}

impl LeaseTerms {
    /// A lease of this length, L.
    #[must_use]
    pub const fn new(length: Duration) -> Self {
        Self { length }
    }

    #[must_use]
    pub const fn length(self) -> Duration {
        self.length
    }

    /// How often a holder renews: L/4, so three renewals may be lost in a row.
    #[must_use]
    pub fn renew_every(self) -> Duration {
        self.length / 4
    }

    /// How long the issuer waits when nothing else proves that the holder has stopped: 1.25 L.
    #[must_use]
    pub fn wait(self) -> Duration {
        if canary::active(Canary::NoWaitForLease) {
            return Duration::ZERO;
        }
        self.length.saturating_add(self.length / 4)
    }

    /// What is left, in true time, between the end of a lease on the slowest clock and the end of
    /// the wait on the fastest. It also covers the moment between a check and the send that follows
    /// it.
    #[must_use]
    pub fn margin(self) -> Duration {
        let longest_lease = self.length.saturating_mul(100) / (100 - DRIFT_PERCENT);
        let shortest_wait = self.wait().saturating_mul(100) / (100 + DRIFT_PERCENT);
        shortest_wait.saturating_sub(longest_lease)
    }
}

/// Remembers when a renewal was asked for, and for what. The holder keeps it until the grant
/// arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    shard: ShardKey,
    attempt: Attempt,
    sent: Moment,
}

/// What a grant has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The lease now runs until then.
    Until(Moment),
    /// Nothing: it is older than another grant, or the same again, or has run out on its way.
    NoLonger,
    /// Nothing: it is for another attempt.
    NotMine,
    /// Nothing: this attempt is over for its holder.
    Over(Ended),
}

/// Why an attempt is over for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// No renewal was granted in time.
    Lapsed,
    /// The holder was told to stop, or has finished.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// Nothing was granted yet; there is nothing that could lapse.
    Asking,
    Held {
        until: Moment,
    },
    Over(Ended),
}

/// The holder's side: one attempt at one shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExecutionLease {
    shard: ShardKey,
    attempt: Attempt,
    terms: LeaseTerms,
    standing: Standing,
    asked: Option<Moment>,
}

impl ExecutionLease {
    /// An attempt that was let in. It may not act before its first grant.
    #[must_use]
    pub fn new(shard: ShardKey, attempt: Attempt, terms: LeaseTerms) -> Self {
        Self { shard, attempt, terms, standing: Standing::Asking, asked: None }
    }

    #[must_use]
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// To be asked before every send: may I still act? A `false` after a `true` is for good.
    pub fn may_act(&mut self, now: Moment) -> bool {
        self.look_at(now);
        matches!(self.standing, Standing::Held { .. })
    }

    /// A renewal request goes out now. Call this before the bytes leave, never after. None if the
    /// attempt is over.
    pub fn renewal_sent(&mut self, now: Moment) -> Option<Ticket> {
        self.look_at(now);
        if let Standing::Over(_) = self.standing {
            return None;
        }
        self.asked = Some(now);
        Some(Ticket { shard: self.shard, attempt: self.attempt, sent: now })
    }

    /// A grant has arrived. It is worth the time of its own request plus L, whenever and how often
    /// it comes.
    pub fn renewal_granted(&mut self, ticket: &Ticket, now: Moment) -> Granted {
        // The clock comes first: a lease that ran out while the process stood still is over,
        // whatever lies in its inbox.
        self.look_at(now);
        if (ticket.shard, ticket.attempt) != (self.shard, self.attempt) {
            return Granted::NotMine;
        }
        let until = ticket.sent.after(self.terms.length);
        match self.standing {
            Standing::Over(ended) => Granted::Over(ended),
            Standing::Held { until: held } if until <= held => Granted::NoLonger,
            Standing::Asking if until <= now => Granted::NoLonger,
            Standing::Held { .. } | Standing::Asking => {
                self.standing = Standing::Held { until };
                Granted::Until(until)
            }
        }
    }

    /// The attempt ends here. A stop may be acknowledged only after this call.
    pub fn stop(&mut self, now: Moment) -> Ended {
        self.look_at(now);
        match self.standing {
            Standing::Over(ended) => ended,
            Standing::Asking | Standing::Held { .. } => {
                self.standing = Standing::Over(Ended::Stopped);
                Ended::Stopped
            }
        }
    }

    /// When the next request is due: at once, or L/4 after the last. None if the attempt is over.
    #[must_use]
    pub fn renewal_due(&self) -> Option<Moment> {
        match (self.standing, self.asked) {
            (Standing::Over(_), _) => None,
            (_, None) => Some(Moment::default()),
            (_, Some(asked)) => Some(asked.after(self.terms.renew_every())),
        }
    }

    /// Until when the holder may act if nothing else is granted. For a timer; the check is
    /// [`may_act`](Self::may_act).
    #[must_use]
    pub fn until(&self) -> Option<Moment> {
        match self.standing {
            Standing::Held { until } => Some(until),
            Standing::Asking | Standing::Over(_) => None,
        }
    }

    /// Why the attempt is over, if it is known to be.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match self.standing {
            Standing::Over(ended) => Some(ended),
            Standing::Asking | Standing::Held { .. } => None,
        }
    }

    fn look_at(&mut self, now: Moment) {
        if let Standing::Held { until } = self.standing
            && now >= until
        {
            self.standing = Standing::Over(Ended::Lapsed);
        }
    }
}

/// What proves that the former holder acts no more. There is no fourth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lapse {
    /// It said so.
    Stopped,
    /// Its process is gone: the worker has started again since, and this is its present start.
    HigherBoot(BootId),
    /// 1.25 L have passed since the revoke was seen committed.
    LeaseLapsed,
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the holder acknowledged the stop"),
            Self::HigherBoot(boot) => write!(f, "the holder's worker is at boot {boot} by now"),
            Self::LeaseLapsed => f.write_str("the holder's lease has run out"),
        }
    }
}

/// Who held the attempt that was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    pub shard: ShardKey,
    pub attempt: Attempt,
    pub worker: NodeId,
    pub boot: BootId,
}

/// The issuer's side: from the committed revoke of one attempt to the start of the next.
///
/// It is not kept when the owner dies. The next owner makes its own from the revoke that it reads,
/// at its own later time; that only makes the wait longer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handover {
    from: Holding,
    next_at: Moment,
    proof: Option<Lapse>,
}

impl Handover {
    /// The revoke was seen committed, now. To have proposed it is not enough: until it is
    /// committed, leases are renewed.
    #[must_use]
    pub fn revoke_seen_committed(from: Holding, terms: LeaseTerms, now: Moment) -> Self {
        Self { from, next_at: now.after(terms.wait()), proof: None }
    }

    /// A stop acknowledgement. It counts only from the very life that held the very attempt.
    pub fn stop_acknowledged(&mut self, by: &Holding) {
        if *by == self.from {
            self.proof.get_or_insert(Lapse::Stopped);
        }
    }

    /// A worker was seen in this life, in a message of its own. Hearsay about its death proves
    /// nothing.
    pub fn boot_seen(&mut self, worker: NodeId, boot: BootId) {
        if worker == self.from.worker && boot > self.from.boot {
            self.proof.get_or_insert(Lapse::HigherBoot(boot));
        }
    }

    /// Whether the next attempt may start, and by what proof.
    #[must_use]
    pub fn may_start(&self, now: Moment) -> Option<Lapse> {
        self.proof.or((now >= self.next_at).then_some(Lapse::LeaseLapsed))
    }

    /// When the wait ends if nothing is heard. For a timer.
    #[must_use]
    pub fn next_at(&self) -> Moment {
        self.next_at
    }

    #[must_use]
    pub fn from(&self) -> &Holding {
        &self.from
    }
}
