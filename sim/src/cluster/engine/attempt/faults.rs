//! What goes wrong with attempts themselves, whatever the network does.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::attempt::{Ending, Report, ScriptEnd};
use fastrand::Rng;
use fence::Moment;
use permit::PermitState;
use stats::DropCause;

use super::Attempt;
use crate::cluster::plan::Class;
use crate::cluster::target::Target;
use crate::event;

/// At most one of these befalls an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine has no thread for it.
    CannotBePrepared,
    /// It finds that it cannot run before it is ready.
    NotReady,
    /// After this much of its load it cannot go on.
    Fails(Duration),
    /// Its thread is gone, and with it what was not handed over yet.
    Crashes(Duration),
    /// Its script ends the whole job.
    Aborts(Duration),
    /// It hears neither a stop nor a kill, and leaves this much after its grace.
    IgnoresKill(Duration),
}

/// A bug that is put into the engine on purpose; see `canary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// It sends whatever its permit says.
    IgnoresLease,
    /// It begins iterations that were not granted.
    RunsAhead,
    /// A thread that does not hear a kill sends without asking its permit.
    SendsAfterKill,
}

impl Bug {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ignores-lease" => Some(Self::IgnoresLease),
            "runs-ahead" => Some(Self::RunsAhead),
            "sends-after-kill" => Some(Self::SendsAfterKill),
            _ => None,
        }
    }
}

/// What befalls the attempt of this number in a run with these classes.
pub fn draw(classes: &BTreeSet<Class>, seed: u64, sender: u64) -> Option<Fault> {
    let mut rng = Rng::with_seed(seed ^ sender.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let after = Duration::from_millis(rng.u64(0..6_000));
    let kinds = [
        (Class::EngineUnprepared, 8, Fault::CannotBePrepared),
        (Class::EngineUnprepared, 8, Fault::NotReady),
        (Class::EngineFails, 4, Fault::Fails(after)),
        (Class::EngineCrashes, 4, Fault::Crashes(after)),
        (Class::ScriptAborts, 4, Fault::Aborts(after)),
        (Class::IgnoresKill, 2, Fault::IgnoresKill(after)),
    ];
    let chosen = kinds.into_iter().filter(|(class, _, _)| classes.contains(class));
    chosen.into_iter().find(|(_, one_in, _)| rng.u8(..*one_in) == 0).map(|(_, _, fault)| fault)
}

impl Fault {
    pub fn class(self) -> Class {
        match self {
            Self::CannotBePrepared | Self::NotReady => Class::EngineUnprepared,
            Self::Fails(_) => Class::EngineFails,
            Self::Crashes(_) => Class::EngineCrashes,
            Self::Aborts(_) => Class::ScriptAborts,
            Self::IgnoresKill(_) => Class::IgnoresKill,
        }
    }
}

impl Attempt {
    /// What its permit says; a bug takes every lease for one without an end.
    pub(super) fn standing(&self, now: Moment) -> PermitState {
        let standing = self.permit.standing(now);
        match self.bug {
            Some(Bug::IgnoresLease) if standing.is_final() => PermitState::Open { until: now },
            _ => standing,
        }
    }

    pub fn say_started(&self, elapsed: Duration) {
        let (place, sender, taken) = (&self.place, self.sender, self.taken);
        event!("{place:?}: attempt {sender} starts at {elapsed:?} behind unit {taken}");
    }

    /// Its first word.
    pub fn begin(&mut self, target: &mut Target, sound: bool) -> Report {
        target.prepare(&self.place, sound);
        if self.fault == Some(Fault::NotReady) {
            target.befell(Class::EngineUnprepared);
            target.fail(&self.place);
            return self.end(Ending::Error("the model has no addresses for it".to_owned()));
        }
        Report::Ready
    }

    /// The permit is withdrawn before anything else, so that nothing depends on the thread.
    pub fn kill(&mut self, now: Moment, grace: Duration) {
        self.permit.close();
        self.killed.get_or_insert(now.after(grace));
    }

    /// It was told to end at once. A thread that does not hear it is abandoned when its grace is
    /// over, tries to send all the same, and leaves later.
    pub(super) fn look_killed(
        &mut self,
        now: Moment,
        until: Moment,
        target: &mut Target,
    ) -> Vec<Report> {
        let Some(Fault::IgnoresKill(longer)) = self.fault else {
            self.settle(false);
            return vec![self.end(Ending::Killed)];
        };
        if self.permit.may_send(now) || self.bug == Some(Bug::SendsAfterKill) {
            target.take(&self.place, self.sender, 1);
        }
        self.gone = now >= until.after(longer);
        if now < until || self.over {
            return Vec::new();
        }
        target.befell(Class::IgnoresKill);
        vec![self.end_with(Ending::Abandoned, None)]
    }

    /// What was drawn for this attempt, when its time has come; with a last word, it is over.
    pub(super) fn befall(
        &mut self,
        elapsed: Duration,
        target: &mut Target,
        reports: &mut Vec<Report>,
    ) -> Option<Report> {
        let fault = self.fault?;
        let (Fault::Fails(after) | Fault::Crashes(after) | Fault::Aborts(after)) = fault else {
            return None;
        };
        if elapsed < after {
            return None;
        }
        self.fault = None;
        target.befell(fault.class());
        match fault {
            Fault::Fails(_) => {
                self.leave_rest(DropCause::Stopped);
                target.fail(&self.place);
                Some(self.end(Ending::Error("the model was drawn to fail".to_owned())))
            }
            Fault::Crashes(_) => {
                self.gone = true;
                Some(self.end_with(Ending::Crashed, None))
            }
            _ => {
                target.abort(&self.place.0);
                reports.push(Report::Wish(ScriptEnd::Abort("enough was seen".to_owned())));
                None
            }
        }
    }
}
