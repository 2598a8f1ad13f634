//! What is given to running shards: rows of data sets, and what people change.

use fence::{Attempt, BootId, NodeId, ShardKey};

use super::shard::Step;
use super::{Effect, Errand, Owner, Purpose, Sid};
use crate::fleet::message::{RowBlock, Steer};
use crate::ledger::{Command, Reply};

/// Rows given out at a time: few enough that little is lost with a worker, many enough that it seldom asks.
const ROWS_AT_ONCE: u64 = 4_096;

impl Owner {
    pub(super) fn rows_wanted(&mut self, key: ShardKey, attempt: Attempt, set: u32, least: u64) {
        let sid = (key.workflow.0, key.shard);
        let shard = self.shards.get(&sid).filter(|shard| shard.key == key);
        let current = shard.is_some_and(|shard| shard.attempt() == attempt && shard.is_out());
        let Some(data) = self.manifest.data.get(set as usize).filter(|_| current) else {
            self.counts.late += 1;
            return;
        };
        if let Some(again) = self.rows.get_mut(&(sid, set)) {
            // They may have arrived: then this wish has overtaken the answer, and must not be lost.
            *again = Some(least);
            self.counts.repeats += 1;
            return;
        }
        self.rows.insert((sid, set), None);
        let of = if data.recycle { u64::MAX } else { data.rows };
        let shards = self.divided.values().sum::<u32>().max(1);
        let share = data.rows / (8 * u64::from(shards));
        let count = least.max(share.min(ROWS_AT_ONCE)).max(1);
        let epoch = self.epoch;
        let command = Command::GrantRows { shard: key, epoch, attempt, set, count, of };
        self.commit(Purpose::Rows { sid, attempt, set }, command);
    }

    pub(super) fn rows_granted(&mut self, sid: Sid, attempt: Attempt, set: u32, reply: &Reply) {
        let &Reply::Rows { first, end, .. } = reply else {
            self.rows.remove(&(sid, set));
            return;
        };
        let rows = RowBlock { set, first, end };
        // What was wanted before they were sent was wanted for the same reason.
        self.rows.insert((sid, set), None);
        if self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt && shard.is_out()) {
            self.send(Errand::Rows { sid, attempt, rows });
        } else {
            self.rows.remove(&(sid, set));
        }
    }

    pub(super) fn steer(&mut self, asked: u64, steer: Steer) {
        if self.is_stopping() || self.outcome.is_some() {
            let result = Err("the job is ending".to_owned());
            return self.out.push(Effect::Steered { asked, result });
        }
        let (job, epoch) = (self.id, self.epoch);
        let command = Command::SteerJob { job, epoch, steer: steer.clone() };
        self.commit(Purpose::Steer { asked, steer }, command);
    }

    pub(super) fn steer_committed(&mut self, asked: u64, steer: &Steer, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let result = Err(refusal.to_string());
            return self.out.push(Effect::Steered { asked, result });
        }
        self.out.push(Effect::Steered { asked, result: Ok(()) });
        match steer {
            Steer::Pause => {
                self.paused.get_or_insert(self.now);
                self.note("paused", None);
            }
            Steer::Resume => self.resume(),
            Steer::Vus { workflow, vus } => {
                let name = self.machine.name(workflow.0 as usize).to_owned();
                self.note(format!("{name} set to {vus} VUs"), None);
            }
            Steer::Rate { workflow, per_second, .. } => {
                let name = self.machine.name(workflow.0 as usize).to_owned();
                self.note(format!("{name} set to {per_second} per second"), None);
            }
        }
        self.steered.retain(|other| !steer.replaces(other));
        self.steered.push(steer.clone());
        let mut workers: Vec<_> = self
            .shards
            .values()
            .filter(|shard| shard.is_out())
            .filter_map(|shard| shard.current().map(|one| (one.worker, one.boot)))
            .collect();
        workers.sort_unstable();
        workers.dedup();
        for (worker, boot) in workers {
            self.steers += 1;
            let number = self.steers;
            self.send(Errand::Steer { worker, boot, number, steer: steer.clone() });
        }
    }

    /// The schedule goes on where it stood, and so do the limits on how long things may take.
    fn resume(&mut self) {
        let Some(since) = self.paused.take() else { return };
        let stood = self.now.since(since);
        if let Some(clock) = self.wave.as_mut().and_then(|wave| wave.clock.as_mut()) {
            clock.paused += stood;
        }
        for shard in self.shards.values_mut().filter(|shard| shard.step == Step::Running) {
            shard.due = shard.due.map(|due| due.after(stood));
        }
        self.note(format!("resumed after {:.1} s", stood.as_secs_f64()), None);
    }

    /// A worker that gets its first attempt of the job has to know what is in force.
    pub(super) fn steer_worker(&mut self, worker: NodeId, boot: BootId) {
        for steer in self.steered.clone() {
            self.steers += 1;
            let number = self.steers;
            self.send(Errand::Steer { worker, boot, number, steer });
        }
    }
}
