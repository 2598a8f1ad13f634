//! How a wave begins: its shards are written down and dispatched, and when all are ready they start
//! at one instant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, BootId, Moment, NodeId, ShardKey, WorkflowNo};

use super::calls::Call;
use super::commits::Purpose;
use super::shard::{Assignment, Shard, Step};
use super::stages::{Clock, Kind, WaveStep};
use super::{Owner, Sid};
use crate::message::Task;
use ledger_state::{Command, LapseProof, Reply};
use schedule::job;

impl Owner {
    /// Every reservation of the wave was granted.
    pub(super) fn provision(&mut self) {
        let Some(wave) = self.stages.wave_mut() else { return };
        let WaveStep::Reserving(Some(placement)) = &wave.step else { return };
        let placement = placement.clone();
        let number = |w: usize| WorkflowNo(u32::try_from(w).unwrap_or(u32::MAX));
        let shards = placement.plan.iter().map(|(w, count)| (number(*w), *count)).collect();
        wave.step = WaveStep::Provisioning(placement);
        let (job, epoch) = (self.spec.id(), self.spec.epoch());
        self.outgoing.commit(Purpose::Provision, Command::Provision { job, epoch, shards });
    }

    pub(super) fn provisioned(&mut self, reply: &Reply) {
        let step = self.stages.wave().map(|wave| wave.step.clone());
        let Some(WaveStep::Provisioning(placement)) = step else {
            self.journal.count_late();
            return;
        };
        if let Reply::Refused(refusal) = reply {
            placement.reservations.iter().for_each(|number| self.release(*number));
            let text = format!("the ledger does not take its shards: {refusal}");
            self.stages.take_wave();
            return self.fail(text);
        }
        for (workflow, count) in &placement.plan {
            self.workflows.divide(*workflow, *count);
        }
        for (sid, number) in &placement.cores {
            let mut shard = Shard::new(self.spec.key(*sid), Task::Load);
            // A shard whose reservation was lost meanwhile is placed by itself.
            if let Some(reservation) = self.capacity.reservations().get(*number) {
                let (worker, boot) = (reservation.worker, reservation.boot);
                shard.placing.assignment =
                    Some(Assignment { worker, boot, reservation: Some(*number) });
                shard.step = Step::Placed;
            }
            self.shards.insert(*sid, shard);
        }
        if let Some(wave) = self.stages.wave_mut() {
            wave.members = placement.cores.iter().map(|(sid, _)| *sid).collect();
            wave.step = WaveStep::Dispatching;
            wave.tries = 0;
        }
        self.say_not_queued();
        self.outgoing.changed();
    }

    /// Commits an attempt for each shard that has a core, before anything is dispatched: a
    /// successor goes by it.
    pub(super) fn propose_placed(&mut self) {
        let Some(wave) = self.stages.wave() else { return };
        for sid in wave.members.clone() {
            let Some(shard) = self.shards.get(&sid) else { continue };
            let (Step::Placed, Some(place)) = (&shard.step, shard.placing.assignment) else {
                continue;
            };
            let after = if shard.attempts.is_empty() { LapseProof::First } else { shard.proof };
            let terms = self.next_terms(sid);
            let command = Command::StartAttempt {
                shard: shard.key,
                epoch: self.spec.epoch(),
                attempt: shard.attempt().next(),
                worker: place.worker,
                boot: place.boot,
                after,
                terms,
            };
            if let Some(shard) = self.shards.get_mut(&sid) {
                shard.proposed = Some(terms);
            }
            self.set(sid, Step::Proposed);
            self.outgoing.commit(Purpose::Start(sid), command);
        }
    }

    // ── ready, and the common start ────────────────────────────────────────────────────────────

    pub(super) fn ready(&mut self, key: ShardKey, attempt: Attempt) {
        let sid = (key.workflow.0, key.shard);
        match self.shards.get_mut(&sid) {
            Some(shard)
                if key.job == self.spec.id()
                    && shard.attempt() == attempt
                    && matches!(shard.step, Step::Sent | Step::Preparing) =>
            {
                shard.step = Step::Ready;
                shard.unsure = false;
                shard.due = None;
                self.leave_reservation(sid, true);
                self.time.progressed();
                self.outgoing.changed();
            }
            Some(shard) if shard.attempt() == attempt && shard.step == Step::Begun => {
                // It has not heard the start yet, or says it again.
                self.journal.count_repeat();
            }
            _ => self.journal.count_late(),
        }
    }

    pub(super) fn start_ready(&mut self) {
        let Some(wave) = self.stages.wave() else { return };
        let (kind, members) = (wave.kind, wave.members.clone());
        let is = |sid: &Sid, step: &Step| self.shards.get(sid).is_some_and(|s| s.step == *step);
        match wave.step {
            WaveStep::Running => self.start_those_ready(&members),
            WaveStep::Dispatching => {
                let settled = |sid: &Sid| is(sid, &Step::Over) || is(sid, &Step::Ready);
                let any = members.iter().any(|sid| is(sid, &Step::Ready));
                if !any || !members.iter().all(settled) {
                    return;
                }
                if kind == Kind::Load {
                    self.begin_load(&members);
                } else {
                    self.set_wave(WaveStep::Running);
                    self.time.begin();
                    self.start_those_ready(&members);
                }
            }
            _ => {}
        }
    }

    pub(super) fn set_wave(&mut self, step: WaveStep) {
        if self.stages.set_step(step) {
            self.outgoing.changed();
        }
    }

    /// The zero of the schedule is committed before anybody is told to start.
    pub(super) fn begin_load(&mut self, members: &[Sid]) {
        let numbers: BTreeSet<u32> = members.iter().map(|sid| sid.0).collect();
        let workflows = numbers.into_iter().map(WorkflowNo).collect();
        self.set_wave(WaveStep::Beginning);
        let (job, epoch) = (self.spec.id(), self.spec.epoch());
        self.outgoing.commit(Purpose::Begin, Command::BeginLoad { job, epoch, workflows });
    }

    pub(super) fn load_begun(&mut self, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger does not take the start: {refusal}");
            return self.fail(text);
        }
        let at = self.time.after(self.spec.settings().start_ahead);
        let Some(wave) = self.stages.wave_mut().filter(|wave| wave.step == WaveStep::Beginning)
        else {
            self.journal.count_late();
            return;
        };
        wave.step = WaveStep::Running;
        wave.clock = Some(Clock::starting(at));
        let members = wave.members.clone();
        // A pause that began before the load is none of its schedule's time.
        self.control.pause_not_before(at);
        let age = self.time.age();
        self.time.begin();
        let numbers: BTreeSet<u32> = members.iter().map(|sid| sid.0).collect();
        for workflow in numbers.into_iter().map(|number| number as usize) {
            self.workflows.begin(workflow, age);
            let shards = self.workflows.shards(workflow).unwrap_or(0);
            let name = self.workflows.name(workflow).to_owned();
            let cores = if shards == 1 { "core" } else { "cores" };
            self.note(format!("{name} started on {shards} {cores}"), None);
            self.step_workflows(job::Event::WorkflowReady { workflow });
        }
        self.start_those_ready(&members);
    }

    pub(super) fn start_those_ready(&mut self, members: &[Sid]) {
        let mut by_worker: BTreeMap<NodeId, (BootId, Vec<(Sid, Attempt)>)> = BTreeMap::new();
        for sid in members {
            let overdue = self.overdue_at(*sid);
            let Some(shard) = self.shards.get_mut(sid) else { continue };
            if shard.step != Step::Ready || shard.stop.is_some() {
                continue;
            }
            let attempt = shard.attempt();
            let Some(one) = shard.attempts.last_mut() else { continue };
            one.may_run = true;
            shard.step = Step::Begun;
            shard.due = Some(overdue);
            let entry = by_worker.entry(one.worker).or_insert((one.boot, Vec::new()));
            entry.1.push((*sid, attempt));
            self.outgoing.changed();
        }
        for (worker, (boot, attempts)) in by_worker {
            let hooks = self.spec.hook_number();
            for (sid, _) in attempts.iter().filter(|(sid, _)| sid.0 == hooks) {
                self.note_repeat(sid.1);
            }
            self.send(Call::Start { worker, boot, attempts });
        }
    }

    /// When an attempt that starts now should have ended at the latest.
    pub(super) fn overdue_at(&self, sid: Sid) -> Moment {
        self.time.after(self.run_at_most(sid) + self.spec.settings().overdue)
    }

    pub(super) fn run_at_most(&self, sid: Sid) -> Duration {
        let Some(part) = self.spec.part(sid.0 as usize) else {
            return self.spec.settings().hook_at_most;
        };
        let left = part.length.saturating_sub(self.schedule_time());
        left + part.graceful_stop + self.spec.settings().overdue
    }

    /// Where the running wave is in its schedule; zero before its start.
    pub(super) fn schedule_time(&self) -> Duration {
        self.schedule_at(self.time.now())
    }

    pub(super) fn schedule_at(&self, moment: Moment) -> Duration {
        let Some(clock) = self.stages.clock() else {
            return Duration::ZERO;
        };
        let standing = self.control.standing(moment);
        clock.at(moment).saturating_sub(standing)
    }
}
