//! How a new owner goes on: everybody is asked what they hold, the machine is told again what
//! happened, and the wave that was under way is joined where it is.

use fence::Moment;

use super::calls::Call;
use super::stages::{Clock, Kind, Stage, Wave, WaveStep};
use super::stop::stop_event;
use super::{Owner, Phase, Sid};
use schedule::job;

impl Owner {
    /// R3: before anything else every worker concerned learns the new epoch, and says what it
    /// holds.
    pub(super) fn install(&mut self) {
        for (worker, boot) in self.recovery.all_asked() {
            self.send(Call::Install(worker, boot));
        }
    }

    /// Nothing is decided before everybody has answered, or has had the time to: what is not known
    /// to run would be started a second time.
    pub(super) fn recover(&mut self, until: Moment) {
        if !self.recovery.is_complete(self.time.now(), until) {
            return;
        }
        self.lifecycle.enter(Phase::Active);
        self.outgoing.changed();
        self.catch_up();
        self.journal.set_replaying(true);
        self.replay();
        self.journal.set_replaying(false);
        if self.stages.have_started() {
            self.note("taken over: what runs goes on", None);
        }
        // What its predecessor was about to say may never have been sent, a resume as well as a
        // pause.
        self.steer_all();
        self.commit_next_steer();
        if self.lifecycle.is_cancelled() {
            self.cancel_again();
        } else if let Some(stop) = self.recovery.take_stop() {
            self.lifecycle.set_detail(&stop.reason);
            if stop.cause == ledger_state::StopCause::Timeout {
                self.lifecycle.end_at_once();
            }
            self.step_workflows(stop_event(stop.cause, stop.reason));
        } else if self.recovery.take_own_stop() {
            self.stop_committed();
        }
        // Those that did not answer and that nobody knows as living. The others are asked on.
        for (worker, boot) in self.recovery.all_asked() {
            if !self.capacity.pool().is_live(worker, boot) {
                self.lose_worker(worker, boot, "does not answer", None);
            }
        }
        self.look_at_workers();
    }

    /// Time in which nobody led the ledger is counted when somebody does again, which may be after
    /// this owner has taken the job up. A schedule that was taken from the ledger's time goes on
    /// with it.
    pub(super) fn ledger_time(&mut self, now_ms: u64) {
        let later = self.time.at_least(self.spec.age_at(now_ms));
        let clock = self.stages.clock_mut();
        if let Some(clock) = clock.filter(|clock| clock.by_ledger) {
            clock.offset += later;
        }
    }

    /// What runs has gone on while nobody led the ledger, so its clocks know better how old the job
    /// is.
    fn catch_up(&mut self) {
        for age in self.recovery.ages(self.time.now()) {
            self.time.at_least(age);
        }
    }

    /// Tells the machine again what happened, up to the wave that was under way.
    fn replay(&mut self) {
        if self.shards.is_empty() && self.context.committed() == 0 {
            return;
        }
        self.stages.start();
        self.step_workflows(job::Event::Started);
        let (setup, teardown) = (self.spec.plan_setup(), self.spec.plan_teardown());
        while self.stages.wave().is_none() && self.lifecycle.outcome().is_none() {
            if self.stages.is_setup_due() && self.shards.contains(&setup) {
                self.stages.take_setup();
                self.rejoin(Kind::Setup, vec![setup]);
            } else if self.stages.is_teardown_due() && self.shards.contains(&teardown) {
                self.stages.take_teardown();
                self.rejoin(Kind::Teardown, vec![teardown]);
            } else if !self.rejoin_batch() {
                break;
            }
        }
    }

    /// Goes on with a wave of setups or teardowns; one that is over is passed at once.
    fn rejoin(&mut self, kind: Kind, members: Vec<Sid>) {
        let over =
            members.iter().all(|s| self.shards.get(s).is_some_and(|s| s.state().is_terminal()));
        self.stages.open(Wave::new(kind, members, WaveStep::Running));
        if over {
            self.wave_over();
        }
    }

    /// The earliest batch of the present layer that was divided; or one whose own setups have
    /// begun.
    fn rejoin_batch(&mut self) -> bool {
        let divided = |w: &usize| self.recovery.place(*w);
        let first = self.stages.waiting().iter().filter_map(divided).min();
        let Some(first) = first else {
            let has_begun = |w: &&usize| self.shards.contains(&self.spec.setup_of(**w));
            let workflows: Vec<usize> =
                self.stages.waiting().iter().filter(has_begun).copied().collect();
            if workflows.is_empty() {
                return false;
            }
            let members = workflows.iter().map(|w| self.spec.setup_of(*w)).collect();
            self.stages.form_batch(|w| workflows.contains(&w), Stage::Setups);
            self.rejoin(Kind::Setups, members);
            // Set up, and to be divided next: that is how the owner goes on anyway.
            return self.stages.wave().is_none() && self.stages.batch().is_none();
        };
        let workflows: Vec<usize> =
            self.stages.waiting().iter().copied().filter(|w| divided(w) == Some(first)).collect();
        workflows.iter().for_each(|w| self.stages.has_set_up(*w));
        let all = self.shards.sids().into_iter();
        let members: Vec<Sid> = all.filter(|sid| workflows.contains(&(sid.0 as usize))).collect();
        self.stages.form_batch(|w| workflows.contains(&w), Stage::Load);
        let over = |sid: &Sid| self.shards.get(sid).is_some_and(|s| s.state().is_terminal());
        if !members.iter().all(over) {
            let clock = self.clock_of(&workflows);
            // A pause goes on, and the clock knows of it up to here.
            if let Some(clock) = clock {
                self.control.pause_not_before(clock.origin);
            }
            let step = if clock.is_some() { WaveStep::Running } else { WaveStep::Dispatching };
            let mut wave = Wave::new(Kind::Load, members, step);
            wave.clock = clock;
            self.stages.open(wave);
            if clock.is_some() {
                for workflow in workflows {
                    self.step_workflows(job::Event::WorkflowReady { workflow });
                }
            }
            return true;
        }
        for workflow in &workflows {
            self.step_workflows(job::Event::WorkflowReady { workflow: *workflow });
        }
        self.set_stage(Stage::Teardowns);
        let torn: Vec<Sid> = workflows
            .iter()
            .filter(|w| self.spec.manifest().workflows[**w].teardown)
            .map(|w| self.spec.teardown_of(*w))
            .filter(|sid| self.shards.contains(sid))
            .collect();
        let due = workflows.iter().any(|w| self.spec.manifest().workflows[*w].teardown);
        match (torn.is_empty(), due) {
            (false, _) => self.rejoin(Kind::Teardowns, torn),
            (true, true) => return false,
            (true, false) => self.end_batch(),
        }
        true
    }

    /// Where the schedule is: by what the workers say, or else by the ledger's time.
    fn clock_of(&self, workflows: &[usize]) -> Option<Clock> {
        let said = workflows.iter().find_map(|w| self.recovery.elapsed(*w));
        if let Some((offset, origin)) = said {
            return Some(Clock { offset, ..Clock::starting(origin) });
        }
        let known = workflows.iter().find_map(|w| {
            let division = self.recovery.division(*w)?;
            Some((division.begun?, division.paused))
        });
        let (begun, paused) = known?;
        let standing = self.control.standing(self.time.now());
        let paused = paused + standing + self.recovery.stood_in_all();
        let offset = self.time.age().saturating_sub(begun).saturating_sub(paused);
        Some(Clock { offset, by_ledger: true, ..Clock::starting(self.time.now()) })
    }
}
