//! How a new owner goes on: everybody is asked what they hold, the machine is told again what happened, and the wave
//! that was under way is joined where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, BootId, Epoch, Moment, NodeId};

use super::halt::stop_event;
use super::wave::{Batch, Clock, Kind, Stage, Wave, WaveStep};
use super::{Errand, Note, Owner, Phase, Sid};
use crate::message::Halt;
use schedule::job;

/// What a new owner waits for, and what it knows until then.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// Lives of workers that were asked what they hold.
    pub asked: BTreeSet<(NodeId, BootId)>,
    /// A workflow's time in its schedule, and when that was.
    pub elapsed: BTreeMap<u32, (Duration, Moment)>,
    pub replaying: bool,
    pub fetching: usize,
    /// What the ledger's history says, with its place in the log; and gaps that the ledger's attempts show.
    pub history: Vec<(Epoch, Note)>,
    pub gaps: Vec<Note>,
    /// Shards whose load was missing, with the attempt that was lost. The ledger says when the next one was created,
    /// and only its worker knows whether, and since when, it runs.
    pub reopened: BTreeMap<Sid, (Attempt, Duration)>,
    /// Workflows by the place in the log at which they were divided, and when their load began.
    pub batches: BTreeMap<usize, (u64, Option<Duration>)>,
    pub stop: Option<ledger_state::Stopping>,
    /// A stop of this owner's own was committed meanwhile.
    pub stop_stands: bool,
    /// For how long the job was paused since each workflow began, when it was taken up.
    pub paused: BTreeMap<usize, Duration>,
    /// And how much longer before this owner began to act.
    pub stood: Duration,
    /// How old the present pause was by then.
    pub pause: Duration,
}

impl Owner {
    /// R3: before anything else every worker concerned learns the new epoch, and says what it holds.
    pub(super) fn install(&mut self) {
        for (worker, boot) in self.recovery.asked.clone() {
            self.send(Errand::Install(worker, boot));
        }
    }

    /// ARCH-ISS-28: nothing is decided before everybody has answered, or has had the time to.
    pub(super) fn recover(&mut self, until: Moment) {
        let waits = !self.recovery.asked.is_empty() && self.now < until;
        if self.recovery.fetching > 0 || waits {
            return;
        }
        self.phase = Phase::Active;
        self.changed();
        self.catch_up();
        self.recovery.replaying = true;
        self.replay();
        self.recovery.replaying = false;
        if self.started {
            self.note("taken over: what runs goes on", None);
        }
        // What its predecessor was about to say may never have been sent, a resume as well as a pause.
        self.steer_all();
        self.commit_next_steer();
        if self.is_cancelled() {
            self.cancel_again();
        } else if let Some(stop) = self.recovery.stop.take() {
            self.detail.clone_from(&stop.reason);
            if stop.cause == ledger_state::StopCause::Timeout {
                self.halting = Halt::Now;
            }
            self.tell(stop_event(stop.cause, stop.reason));
        } else if std::mem::take(&mut self.recovery.stop_stands) {
            self.stop_committed();
        }
        // Those that did not answer and that nobody knows as living. The others are asked on.
        for (worker, boot) in self.recovery.asked.clone() {
            if !self.pool.is_live(worker, boot) {
                self.lose_worker(worker, boot, "does not answer", None);
            }
        }
        self.look_at_workers();
    }

    /// Time in which nobody led the ledger is counted when somebody does again, which may be after this owner has taken
    /// the job up. A schedule that was taken from the ledger's time goes on with it.
    pub(super) fn ledger_time(&mut self, now_ms: u64) {
        let (before, age) =
            (self.age(), Duration::from_millis(now_ms.saturating_sub(self.created_ms)));
        self.timeouts.at_least(age, self.now);
        let later = self.age().saturating_sub(before);
        let clock = self.wave.as_mut().and_then(|wave| wave.clock.as_mut());
        if let Some(clock) = clock.filter(|clock| clock.by_ledger) {
            clock.offset += later;
        }
    }

    /// What runs has gone on while nobody led the ledger, so its clocks know better how old the job is.
    fn catch_up(&mut self) {
        for (workflow, (elapsed, at)) in &self.recovery.elapsed {
            let batch = self.recovery.batches.get(&(*workflow as usize));
            if let Some(begun) = batch.and_then(|(_, begun)| *begun) {
                let age = begun.saturating_add(*elapsed).saturating_add(self.now.since(*at));
                self.timeouts.at_least(age, self.now);
            }
        }
    }

    /// Tells the machine again what happened, up to the wave that was under way.
    fn replay(&mut self) {
        if self.shards.is_empty() && self.committed == 0 {
            return;
        }
        self.started = true;
        self.tell(job::Event::Started);
        let asides = self.asides();
        while self.wave.is_none() && self.outcome.is_none() {
            if self.setup_due && self.shards.contains_key(&(asides, 0)) {
                self.setup_due = false;
                self.rejoin(Kind::Setup, vec![(asides, 0)]);
            } else if self.teardown_due && self.shards.contains_key(&(asides, 1)) {
                self.teardown_due = false;
                self.rejoin(Kind::Teardown, vec![(asides, 1)]);
            } else if !self.rejoin_batch() {
                break;
            }
        }
    }

    /// Goes on with a wave of setups or teardowns; one that is over is passed at once.
    fn rejoin(&mut self, kind: Kind, members: Vec<Sid>) {
        let over =
            members.iter().all(|s| self.shards.get(s).is_some_and(|s| s.state.is_terminal()));
        self.wave = Some(Wave::new(kind, members, WaveStep::Running));
        if over {
            self.wave_over();
        }
    }

    /// The earliest batch of the present layer that was divided; or one whose own setups have begun.
    fn rejoin_batch(&mut self) -> bool {
        let asides = self.asides();
        let aside = |w: usize, place: u32| (asides, 2 + 2 * u32::try_from(w).unwrap_or(0) + place);
        let divided = |w: &usize| self.recovery.batches.get(w).map(|(epoch, _)| *epoch);
        let first = self.waiting.iter().filter_map(divided).min();
        let Some(first) = first else {
            let has_begun = |w: &&usize| self.shards.contains_key(&aside(**w, 0));
            let workflows: Vec<usize> = self.waiting.iter().filter(has_begun).copied().collect();
            if workflows.is_empty() {
                return false;
            }
            self.waiting.retain(|w| !workflows.contains(w));
            let members = workflows.iter().map(|w| aside(*w, 0)).collect();
            self.batch = Some(Batch { workflows, stage: Stage::Setups });
            self.rejoin(Kind::Setups, members);
            // Set up, and to be divided next: that is how the owner goes on anyway.
            return self.wave.is_none() && self.batch.is_none();
        };
        let workflows: Vec<usize> =
            self.waiting.iter().copied().filter(|w| divided(w) == Some(first)).collect();
        self.waiting.retain(|w| !workflows.contains(w));
        self.set_up.extend(&workflows);
        let members: Vec<Sid> = self
            .shards
            .keys()
            .filter(|sid| workflows.contains(&(sid.0 as usize)))
            .copied()
            .collect();
        self.batch = Some(Batch { workflows: workflows.clone(), stage: Stage::Load });
        let over = |sid: &Sid| self.shards.get(sid).is_some_and(|s| s.state.is_terminal());
        if !members.iter().all(over) {
            let clock = self.clock_of(&workflows);
            // A pause goes on, and the clock knows of it up to here.
            if let (Some(clock), Some(since)) = (clock, self.paused) {
                self.paused = Some(since.max(clock.origin));
            }
            let step = if clock.is_some() { WaveStep::Running } else { WaveStep::Dispatching };
            let mut wave = Wave::new(Kind::Load, members, step);
            wave.clock = clock;
            self.wave = Some(wave);
            if clock.is_some() {
                for workflow in workflows {
                    self.tell(job::Event::WorkflowReady { workflow });
                }
            }
            return true;
        }
        for workflow in &workflows {
            self.tell(job::Event::WorkflowReady { workflow: *workflow });
        }
        self.set_stage(Stage::Teardowns);
        let torn: Vec<Sid> = workflows
            .iter()
            .filter(|w| self.manifest.workflows[**w].teardown)
            .map(|w| aside(*w, 1))
            .filter(|sid| self.shards.contains_key(sid))
            .collect();
        let due = workflows.iter().any(|w| self.manifest.workflows[*w].teardown);
        match (torn.is_empty(), due) {
            (false, _) => self.rejoin(Kind::Teardowns, torn),
            (true, true) => return false,
            (true, false) => self.end_batch(),
        }
        true
    }

    /// Where the schedule is: by what the workers say, or else by the ledger's time.
    fn clock_of(&self, workflows: &[usize]) -> Option<Clock> {
        let said = workflows.iter().find_map(|w| {
            self.recovery.elapsed.get(&u32::try_from(*w).unwrap_or(u32::MAX)).copied()
        });
        if let Some((offset, origin)) = said {
            return Some(Clock { origin, offset, paused: Duration::ZERO, by_ledger: false });
        }
        let (begun, paused) = workflows.iter().find_map(|w| {
            let paused = self.recovery.paused.get(w).copied().unwrap_or_default();
            Some((self.recovery.batches.get(w)?.1?, paused))
        })?;
        let standing = self.paused.map_or(Duration::ZERO, |since| self.now.since(since));
        let paused = paused + standing + self.recovery.stood;
        let offset = self.age().saturating_sub(begun).saturating_sub(paused);
        Some(Clock { origin: self.now, offset, paused: Duration::ZERO, by_ledger: true })
    }
}
