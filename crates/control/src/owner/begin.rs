//! How a wave begins: its shards are written down and dispatched, and when all are ready they start at one instant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, BootId, Moment, NodeId, ShardKey, WorkflowNo};

use super::shard::{Place, Shard, Step};
use super::wave::{Clock, Kind, WaveStep};
use super::{Errand, Owner, Purpose, Sid};
use crate::message::Task;
use ledger_state::{Command, Lapse, Reply};
use schedule::job;

impl Owner {
    /// Every hold of the wave was granted.
    pub(super) fn provision(&mut self) {
        let Some(wave) = &mut self.wave else { return };
        let WaveStep::Seating(Some(seating)) = &wave.step else { return };
        let seating = seating.clone();
        let number = |w: usize| WorkflowNo(u32::try_from(w).unwrap_or(u32::MAX));
        let shards = seating.plan.iter().map(|(w, count)| (number(*w), *count)).collect();
        wave.step = WaveStep::Provisioning(seating);
        let (job, epoch) = (self.id, self.epoch);
        self.commit(Purpose::Provision, Command::Provision { job, epoch, shards });
    }

    pub(super) fn provisioned(&mut self, reply: &Reply) {
        let step = self.wave.as_ref().map(|wave| wave.step.clone());
        let Some(WaveStep::Provisioning(seating)) = step else {
            self.counts.late += 1;
            return;
        };
        if let Reply::Refused(refusal) = reply {
            seating.holds.iter().for_each(|hold| self.release(*hold));
            let text = format!("the ledger does not take its shards: {refusal}");
            self.wave = None;
            return self.fail(text);
        }
        for (workflow, count) in &seating.plan {
            self.divided.insert(*workflow, *count);
        }
        for (sid, number) in &seating.seats {
            let mut shard = Shard::new(self.key(*sid), Task::Load);
            // Without its hold, which may have been lost meanwhile, it is seated by itself.
            if let Some(hold) = self.holds.get(number) {
                let (worker, boot) = (hold.worker, hold.boot);
                shard.place = Some(Place { worker, boot, hold: Some(*number) });
                shard.step = Step::Seated;
            }
            self.shards.insert(*sid, shard);
        }
        if let Some(wave) = &mut self.wave {
            wave.members = seating.seats.iter().map(|(sid, _)| *sid).collect();
            wave.step = WaveStep::Dispatching;
            wave.tries = 0;
        }
        self.say_not_queued();
        self.changed();
    }

    /// Commits an attempt for each shard that has a core. This is the plan that a successor follows (X45).
    pub(super) fn propose_seated(&mut self) {
        let Some(wave) = &self.wave else { return };
        for sid in wave.members.clone() {
            let Some(shard) = self.shards.get(&sid) else { continue };
            let (Step::Seated, Some(place)) = (&shard.step, shard.place) else { continue };
            let after = if shard.tries.is_empty() { Lapse::First } else { shard.proof };
            let terms = self.next_terms(sid);
            let command = Command::StartAttempt {
                shard: shard.key,
                epoch: self.epoch,
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
            self.commit(Purpose::Start(sid), command);
        }
    }

    // ── ready, and the common start ────────────────────────────────────────────────────────────

    pub(super) fn ready(&mut self, key: ShardKey, attempt: Attempt) {
        let sid = (key.workflow.0, key.shard);
        match self.shards.get_mut(&sid) {
            Some(shard)
                if key.job == self.id
                    && shard.attempt() == attempt
                    && matches!(shard.step, Step::Sent | Step::Preparing) =>
            {
                shard.step = Step::Ready;
                shard.unsure = false;
                shard.due = None;
                self.leave_hold(sid, true);
                self.timeouts.progressed(self.now);
                self.changed();
            }
            Some(shard) if shard.attempt() == attempt && shard.step == Step::Begun => {
                // It has not heard the start yet, or says it again.
                self.counts.repeats += 1;
            }
            _ => self.counts.late += 1,
        }
    }

    pub(super) fn start_ready(&mut self) {
        let Some(wave) = &self.wave else { return };
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
                    self.began.get_or_insert(self.timeouts.age(self.now));
                    self.start_those_ready(&members);
                }
            }
            _ => {}
        }
    }

    pub(super) fn set_wave(&mut self, step: WaveStep) {
        if let Some(wave) = &mut self.wave {
            wave.step = step;
            self.changed();
        }
    }

    /// The zero of the schedule is committed before anybody is told to start.
    pub(super) fn begin_load(&mut self, members: &[Sid]) {
        let numbers: BTreeSet<u32> = members.iter().map(|sid| sid.0).collect();
        let workflows = numbers.into_iter().map(WorkflowNo).collect();
        self.set_wave(WaveStep::Beginning);
        let (job, epoch) = (self.id, self.epoch);
        self.commit(Purpose::Begin, Command::BeginLoad { job, epoch, workflows });
    }

    pub(super) fn load_begun(&mut self, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger does not take the start: {refusal}");
            return self.fail(text);
        }
        let at = self.now.after(self.settings.start_ahead);
        let Some(wave) = self.wave.as_mut().filter(|wave| wave.step == WaveStep::Beginning) else {
            self.counts.late += 1;
            return;
        };
        wave.step = WaveStep::Running;
        let (offset, paused, by_ledger) = (Duration::ZERO, Duration::ZERO, false);
        wave.clock = Some(Clock { origin: at, offset, paused, by_ledger });
        let members = wave.members.clone();
        // A pause that began before the load is none of its schedule's time.
        self.paused = self.paused.map(|_| at);
        let age = self.age();
        self.began.get_or_insert(age);
        let numbers: BTreeSet<u32> = members.iter().map(|sid| sid.0).collect();
        for workflow in numbers.into_iter().map(|number| number as usize) {
            self.spans.insert(workflow, (age, age));
            let shards = self.divided.get(&workflow).copied().unwrap_or(0);
            let name = self.machine.name(workflow).to_owned();
            let cores = if shards == 1 { "core" } else { "cores" };
            self.note(format!("{name} started on {shards} {cores}"), None);
            self.tell(job::Event::WorkflowReady { workflow });
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
            let Some(one) = shard.tries.last_mut() else { continue };
            one.may_run = true;
            shard.step = Step::Begun;
            shard.due = Some(overdue);
            let entry = by_worker.entry(one.worker).or_insert((one.boot, Vec::new()));
            entry.1.push((*sid, attempt));
            self.changes += 1;
        }
        for (worker, (boot, attempts)) in by_worker {
            let asides = self.asides();
            for (sid, _) in attempts.iter().filter(|(sid, _)| sid.0 == asides) {
                self.note_repeat(sid.1);
            }
            self.send(Errand::Start { worker, boot, attempts });
        }
    }

    /// When an attempt that starts now should have ended at the latest (X22).
    pub(super) fn overdue_at(&self, sid: Sid) -> Moment {
        self.now.after(self.run_at_most(sid) + self.settings.overdue)
    }

    pub(super) fn run_at_most(&self, sid: Sid) -> Duration {
        let Some(part) = self.manifest.workflows.get(sid.0 as usize) else {
            return self.settings.aside_at_most;
        };
        let left = part.length.saturating_sub(self.schedule_time());
        left + part.graceful_stop + self.settings.overdue
    }

    /// Where the running wave is in its schedule; zero before its start.
    pub(super) fn schedule_time(&self) -> Duration {
        self.schedule_at(self.now)
    }

    pub(super) fn schedule_at(&self, moment: Moment) -> Duration {
        let Some(clock) = self.wave.as_ref().and_then(|wave| wave.clock) else {
            return Duration::ZERO;
        };
        let standing = self.paused.map_or(Duration::ZERO, |since| moment.since(since));
        clock.at(moment).saturating_sub(standing)
    }
}
