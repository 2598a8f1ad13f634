//! Ends: of attempts, of waves, of layers, of the job.
//!
//! ```text
//! report ──store──▶ majority ──EndAttempt──▶ ledger ──Forget──▶ worker's outbox
//!                                              ╰▶ shard ▶ workflow ▶ layer ──CommitContext──▶ next layer
//!                                                                       ╰▶ result ──RecordResult──▶ FinishJob
//! ```

use std::collections::BTreeMap;

use fence::{Attempt, NodeId, ShardKey};
use stats::WorkflowStatus;

use super::context::{self, SETUP, Values};
use super::shard::{State, Step};
use super::wave::{Kind, Stage};
use super::{Conclusion, Conclusive, Effect, Errand, Owner, Parcel, Phase, Purpose, Sid, blob_of};
use crate::fleet::message::{EndReport, RowBlock, Steer};
use crate::job::{self, WorkflowEnd};
use crate::ledger::{self, AttemptStatus, BlobRef, Command, Counters, Lapse, Payload, Reply};

/// Rows given out at a time: few enough that little is lost with a worker, many enough that it seldom asks.
const ROWS_AT_ONCE: u64 = 4_096;

impl Owner {
    // ── one attempt ────────────────────────────────────────────────────────────────────────────

    /// A worker's last word. Not fenced (R3): counted once, whenever it comes (S35, S40).
    pub(super) fn report(&mut self, mut report: EndReport) {
        let sid = (report.shard.workflow.0, report.shard.shard);
        let attempt = report.attempt;
        let ours = self.shards.get_mut(&sid).filter(|shard| shard.key == report.shard);
        let Some(one) = ours.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.counts.late += 1;
            return;
        };
        if (one.worker, one.boot) != (report.worker, report.boot) {
            self.counts.lies += 1;
            return;
        }
        if one.end.is_some() {
            self.counts.repeats += 1;
            let errand = Errand::Forget(report.shard, attempt, report.worker);
            return self.send(errand);
        }
        if one.reporting {
            self.counts.repeats += 1;
            return;
        }
        one.reporting = true;
        let begun = report.counters.begun;
        // The report of a process that was killed has what its file has: less than its frames had told.
        report.counters = report.counters.at_least(&one.counters);
        report.counters.begun = match report.status {
            AttemptStatus::Interrupted => begun.max(one.may_have_begun()),
            // It has come to its end and knows exactly; its frames had said how far it might go.
            AttemptStatus::Completed | AttemptStatus::Failed | AttemptStatus::Stopped => begun,
        };
        // The next attempt may be dispatched before the ledger has this.
        (one.counters.begun, one.unheard) = (report.counters.begun, false);
        self.stop_proven(sid, attempt);
        let current = self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt);
        if current && let Some(shard) = self.shards.get_mut(&sid) {
            if shard.is_out() {
                shard.step = Step::Ending;
                shard.due = None;
                self.leave_hold(sid, true);
            }
            self.check_context(sid, &mut report);
        }
        self.keep(sid, report);
    }

    /// Makes a report durable: first beside the ledger, then in it.
    fn keep(&mut self, sid: Sid, mut report: EndReport) {
        let attempt = report.attempt;
        let mut content = encode_report(&report);
        if content.len() > self.settings.result_bytes {
            report.totals = Vec::new();
            self.cut.push((report.shard, attempt));
            let text = format!("the statistics of shard {} were too large to keep", report.shard);
            self.note(text, None);
            content = encode_report(&report);
        }
        self.reports.insert((sid, attempt), report);
        self.store(Parcel::Report(sid, attempt), content);
    }

    pub(super) fn stored(&mut self, tag: u64) {
        match self.parcels.remove(&tag) {
            Some(Parcel::Report(sid, attempt)) => {
                let Some(report) = self.reports.get(&(sid, attempt)) else { return };
                let command = Command::EndAttempt {
                    under: Some(self.epoch),
                    shard: report.shard,
                    attempt,
                    status: report.status,
                    counters: report.counters,
                    result: Some(blob_of(&encode_report(report))),
                };
                self.commit(Purpose::End(sid, attempt), command);
            }
            Some(Parcel::Context(values)) => {
                let content = context::encode_values(&values);
                self.commit_context(values, Payload::Blob(blob_of(&content)));
            }
            _ => self.counts.repeats += 1,
        }
    }

    pub(super) fn attempt_ended(&mut self, sid: Sid, attempt: Attempt, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger refused the end of an attempt: {refusal}");
            return self.note(text, None);
        }
        let report = self.reports.remove(&(sid, attempt));
        let status = report.as_ref().map_or(AttemptStatus::Stopped, |report| report.status);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let current = shard.attempt() == attempt;
        let Some(one) = shard.attempt_mut(attempt) else { return };
        one.end = Some(status);
        let (worker, own_core) = (one.worker, !one.shared);
        if let Some(report) = &report {
            one.counters = report.counters;
            if own_core {
                // A worker gives a core back before it says that an attempt has ended.
                self.pool.returned(worker, 1);
            }
            let errand = Errand::Forget(report.shard, attempt, report.worker);
            self.send(errand);
        }
        // Replaced, and the answer to the start of the next one is on its way: only the counts were taken (R17).
        if current && !matches!(reply, Reply::Superseded { .. }) {
            self.settle(sid, status, report);
        }
    }

    /// What the end of its last attempt means for a shard.
    fn settle(&mut self, sid: Sid, status: AttemptStatus, report: Option<EndReport>) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let (state, attempt) = (shard.state, shard.attempt());
        if shard.step == Step::Over {
            return;
        }
        let age = self.age();
        if let Some(span) = self.spans.get_mut(&(sid.0 as usize)) {
            span.1 = age;
        }
        if state == State::Pending && self.settle_pending(sid, status, report.as_ref()) {
            return;
        }
        if state == State::Cancelling {
            // X-10: the cancel wins, the counts are kept.
            self.go(sid, State::Cancelled, format!("attempt {attempt} has {status}"));
            return;
        }
        match status {
            AttemptStatus::Completed => {
                if let Some(report) = report {
                    let shards = self.provided.entry(sid.0 as usize).or_default();
                    shards.insert(sid.1, report.provided);
                    if sid.0 == self.asides() {
                        self.aside_provided(sid);
                    }
                }
                self.go(sid, State::Completed, "worker reported success");
            }
            AttemptStatus::Failed => {
                let error = report.and_then(|report| report.error);
                let error = error.unwrap_or_else(|| "it failed without a reason".to_owned());
                self.give_up(sid, error);
            }
            // Nobody here stopped it: its worker is shutting down, or has lost its lease.
            AttemptStatus::Stopped | AttemptStatus::Interrupted => {
                let why = report.and_then(|report| report.error);
                let why = why.unwrap_or_else(|| format!("attempt {attempt} was {status}"));
                if state != State::Failed {
                    let Some(shard) = self.shards.get_mut(&sid) else { return };
                    if let Some((node, boot)) = shard.current().map(|one| (one.worker, one.boot))
                        && status == AttemptStatus::Interrupted
                    {
                        shard.failed_on.push((node, boot));
                        shard.error = Some(format!("worker {node}: {why}"));
                        if state == State::Dispatched {
                            // It could not even begin there: not at once again.
                            shard.refused = shard.refused.saturating_add(1);
                        }
                        self.say_interrupted(sid, node, &why);
                    }
                    if state == State::Running
                        && sid.0 != self.asides()
                        && let Some(shard) = self.shards.get_mut(&sid)
                    {
                        let heard = shard.current().and_then(|one| one.heard).unwrap_or(age);
                        shard.lost_at = shard.lost_at.or(Some(heard));
                    }
                    self.go(sid, State::Failed, why);
                }
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.proof = Lapse::Stopped;
                }
                self.set(sid, Step::Lapsed);
            }
        }
    }

    fn say_interrupted(&mut self, sid: Sid, node: NodeId, why: &str) {
        let of = self.divided.get(&(sid.0 as usize)).copied().unwrap_or(1);
        let what = match sid.0 == self.asides() {
            true => "a setup or teardown".to_owned(),
            false => format!("1 of {of} shards of {}", self.machine.name(sid.0 as usize)),
        };
        self.note(format!("worker {node} gave up {what}: {why}"), None);
    }

    /// The next attempt was about to be started when the end of the one before came: if it is final, there is none.
    ///
    /// One that is proposed already will be refused as settled, which has the same effect (see `attempt_refused`).
    fn settle_pending(
        &mut self,
        sid: Sid,
        status: AttemptStatus,
        report: Option<&EndReport>,
    ) -> bool {
        let Some(shard) = self.shards.get_mut(&sid) else { return true };
        let proposed = shard.step == Step::Proposed;
        match status {
            AttemptStatus::Stopped | AttemptStatus::Interrupted => return true,
            AttemptStatus::Failed => shard.error = report.and_then(|report| report.error.clone()),
            AttemptStatus::Completed => {
                let provided = report.map(|report| report.provided.clone()).unwrap_or_default();
                self.provided.entry(sid.0 as usize).or_default().insert(sid.1, provided);
                if sid.0 == self.asides() {
                    self.aside_provided(sid);
                }
            }
        }
        if !proposed {
            self.set(sid, Step::Idle);
            self.leave_hold(sid, false);
            self.settled(sid, status);
        }
        true
    }

    /// The ledger has the shard's result, although its attempt was taken for lost.
    pub(super) fn settled(&mut self, sid: Sid, status: AttemptStatus) {
        self.go(sid, State::Failed, "its report came before it was started again");
        if status == AttemptStatus::Completed {
            self.go(sid, State::Completed, "worker reported success");
            return self.never_mended(sid);
        }
        let error = self.shards.get(&sid).and_then(|shard| shard.error.clone());
        self.give_up(sid, error.unwrap_or_else(|| "it failed without a reason".to_owned()));
    }

    /// What a setup leaves: the plan's is a stage of its own, a workflow's is for its own shards.
    pub(super) fn aside_provided(&mut self, sid: Sid) {
        let asides = self.asides() as usize;
        let values = self.provided.get_mut(&asides).and_then(|shards| shards.remove(&sid.1));
        let values = values.unwrap_or_default();
        if sid.1 == 0 {
            self.fresh.entry(0).or_default().insert(SETUP.to_owned(), values);
        } else if sid.1.is_multiple_of(2) {
            self.own_setups.insert((sid.1 as usize - 2) / 2, values);
        }
    }

    pub(super) fn own_setup(&self, workflow: usize) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.own_setups.get(&workflow)
    }

    /// X37: a shard that provides more than the job may hand on has failed, and says so.
    fn check_context(&mut self, sid: Sid, report: &mut EndReport) {
        let committed: usize = self.values.values().map(context::size).sum();
        let fresh: usize = self.fresh.values().flat_map(|v| v.values()).map(context::size).sum();
        let lowest = self.provided.values().filter_map(|shards| shards.values().next());
        let present: usize = lowest.map(context::size).sum();
        if let Some(part) = self.manifest.workflows.get(sid.0 as usize) {
            report.provided.retain(|key, _| part.provide.iter().any(|one| one.key == *key));
        }
        let (more, most) = (context::size(&report.provided), self.settings.context_bytes);
        if committed + fresh + present + more > most && report.status == AttemptStatus::Completed {
            report.status = AttemptStatus::Failed;
            report.provided.clear();
            report.error = Some(format!(
                "it provides {more} bytes; with what is provided already that is more than the {most} that a job may \
                 hand on"
            ));
        }
    }

    /// What the owner has of an attempt whose worker is gone.
    pub(super) fn sealed(
        &mut self,
        key: ShardKey,
        attempt: Attempt,
        counters: Counters,
        frames: u64,
        totals: Vec<u8>,
    ) {
        let sid = (key.workflow.0, key.shard);
        let shard = self.shards.get_mut(&sid).filter(|shard| shard.key == key);
        let Some(one) = shard.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.counts.late += 1;
            return;
        };
        if one.end.is_some() || one.reporting {
            self.counts.repeats += 1;
            return;
        }
        one.reporting = true;
        let begun = counters.begun.max(one.may_have_begun());
        (one.counters.begun, one.unheard) = (begun, false);
        let report = EndReport {
            shard: key,
            attempt,
            worker: one.worker,
            boot: one.boot,
            status: AttemptStatus::Interrupted,
            error: Some("its worker was lost; this is what it had reported".to_owned()),
            counters: Counters { begun, ..counters },
            provided: BTreeMap::new(),
            frames,
            totals,
            log: String::new(),
        };
        self.unheard.push((key, attempt));
        self.keep(sid, report);
    }

    // ── a wave, a batch, a layer ───────────────────────────────────────────────────────────────

    pub(super) fn wave_over(&mut self) {
        let Some(wave) = self.wave.take() else { return };
        self.changed();
        let states = |sid: &Sid| self.shards.get(sid).map(|s| (s.state, s.error.clone()));
        match wave.kind {
            Kind::Setup => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), aside_result);
                self.tell(job::Event::SetupEnded(result));
            }
            Kind::Teardown => {
                let result = wave.members.first().and_then(states).map_or(Ok(()), aside_result);
                self.tell(job::Event::TeardownEnded(result));
            }
            Kind::Setups => {
                for sid in wave.members {
                    let workflow = (sid.1 as usize - 2) / 2;
                    let state = self.shards.get(&sid).map(|s| (s.state, s.error.clone()));
                    self.set_up.insert(workflow);
                    if let Some(Err(error)) = state.map(aside_result)
                        && !self.is_stopping()
                    {
                        self.leave_batch(workflow);
                        let result = WorkflowEnd::Error(format!("setup failed: {error}"));
                        self.tell(job::Event::WorkflowEnded { workflow, result });
                    }
                }
                if self.is_stopping() {
                    let batch = self.batch.take();
                    for workflow in batch.into_iter().flat_map(|batch| batch.workflows) {
                        let result = WorkflowEnd::Stopped;
                        self.tell(job::Event::WorkflowEnded { workflow, result });
                    }
                } else if self.batch.as_ref().is_some_and(|batch| batch.workflows.is_empty()) {
                    self.batch = None;
                } else {
                    self.set_stage(Stage::Load);
                }
            }
            Kind::Load => self.set_stage(Stage::Teardowns),
            Kind::Teardowns => {
                for sid in wave.members {
                    let state = self.shards.get(&sid).map(|s| (s.state, s.error.clone()));
                    if let Some(Err(error)) = state.map(aside_result) {
                        let name = self.machine.name((sid.1 as usize - 2) / 2).to_owned();
                        self.note(format!("teardown of {name}: {error}"), None);
                    }
                }
                self.end_batch();
            }
        }
    }

    fn leave_batch(&mut self, workflow: usize) {
        if let Some(batch) = &mut self.batch {
            batch.workflows.retain(|other| *other != workflow);
        }
    }

    /// All of a batch is over: its workflows have ended, and what completed hands on what it provides.
    pub(super) fn end_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        // Values first: the end of the last workflow may start the next layer in the same step.
        let ends: Vec<(usize, WorkflowEnd)> =
            batch.workflows.iter().map(|w| (*w, self.workflow_end(*w))).collect();
        for (workflow, end) in &ends {
            if *end == WorkflowEnd::Ok {
                self.take_provided(*workflow);
            }
            self.provided.remove(workflow);
            let name = self.machine.name(*workflow).to_owned();
            match end {
                WorkflowEnd::Ok => self.note(format!("{name} completed"), None),
                WorkflowEnd::Error(error) => self.note(format!("{name} failed: {error}"), None),
                WorkflowEnd::Stopped => self.note(format!("{name} stopped"), None),
            }
        }
        for (workflow, result) in ends {
            self.tell(job::Event::WorkflowEnded { workflow, result });
        }
        self.changed();
    }

    pub(super) fn take_provided(&mut self, workflow: usize) {
        let part = &self.manifest.workflows[workflow];
        let shards = self.provided.get(&workflow).cloned().unwrap_or_default();
        let merged = context::merge(&part.provide, &shards);
        let (stage, name) = (self.stage_of(part.layer), part.name.clone());
        if !merged.is_empty() && stage >= self.committed {
            self.fresh.entry(stage).or_default().insert(name, merged);
        }
    }

    /// X-71: a workflow's end, from those of its shards. The lowest failed shard speaks for it.
    pub(super) fn workflow_end(&self, workflow: usize) -> WorkflowEnd {
        let mut completed = 0;
        let mut stopped = false;
        for shard in self.shards_of(workflow) {
            match shard.state {
                State::FailedTerminal if !shard.abandoned => {
                    let error = shard.error.clone();
                    return WorkflowEnd::Error(error.unwrap_or_else(|| "failed".to_owned()));
                }
                State::Completed => completed += 1,
                State::Cancelled => stopped = true,
                _ => {}
            }
        }
        match (stopped, completed) {
            (true, _) => WorkflowEnd::Stopped,
            (false, 0) => WorkflowEnd::Error("all its shards were lost".to_owned()),
            (false, _) => WorkflowEnd::Ok,
        }
    }

    // ── context: committed before the next layer (EXEC-175, EXEC-182) ──────────────────────────

    /// The plan's setup is a stage of its own, then comes one for each layer.
    pub(super) fn stage_of(&self, layer: usize) -> u32 {
        u32::try_from(layer).unwrap_or(u32::MAX) + u32::from(self.manifest.setup)
    }

    /// Whether everything before what waits is committed; commits the next stage if not.
    pub(super) fn contexts_are_committed(&mut self) -> bool {
        let layers = self.waiting.iter().map(|w| self.manifest.workflows[*w].layer);
        let needed = layers.min().map_or(0, |layer| self.stage_of(layer));
        if self.committed >= needed {
            return true;
        }
        if !self.committing && !self.stop_proposed {
            self.committing = true;
            let values = self.fresh.remove(&self.committed).unwrap_or_default();
            let content = context::encode_values(&values);
            if content.len() > self.settings.inline_bytes {
                self.store(Parcel::Context(values), content);
            } else {
                self.commit_context(values, Payload::Inline(content));
            }
        }
        false
    }

    fn commit_context(&mut self, values: Values, context: Payload) {
        let (job, epoch, layer) = (self.id, self.epoch, self.committed);
        self.commit(
            Purpose::Context(values),
            Command::CommitContext { job, epoch, layer, context },
        );
    }

    pub(super) fn context_committed(&mut self, values: Values, reply: &Reply) {
        self.committing = false;
        if let Reply::Refused(refusal) = reply {
            return self.fail(format!("what a layer leaves could not be committed: {refusal}"));
        }
        self.committed += 1;
        self.values.extend(values);
    }

    // ── rows and steering ──────────────────────────────────────────────────────────────────────

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
    pub(super) fn steer_worker(&mut self, worker: fence::NodeId, boot: fence::BootId) {
        for steer in self.steered.clone() {
            self.steers += 1;
            let number = self.steers;
            self.send(Errand::Steer { worker, boot, number, steer });
        }
    }

    // ── the job ────────────────────────────────────────────────────────────────────────────────

    /// The load is over. Every attempt gets its last word, then the result is made.
    pub(super) fn close(&mut self) {
        let mut open = false;
        let mut to_seal = Vec::new();
        for (sid, shard) in &self.shards {
            for (place, one) in shard.tries.iter().enumerate() {
                if one.end.is_some() {
                    continue;
                }
                open = true;
                let attempt = Attempt(u32::try_from(place + 1).unwrap_or(u32::MAX));
                if !one.reporting && self.sealing.insert((*sid, attempt)) {
                    to_seal.push((shard.key, attempt));
                }
            }
        }
        for (shard, attempt) in to_seal {
            self.out.push(Effect::Seal { shard, attempt });
        }
        if open || !self.commits.is_empty() {
            return;
        }
        let holds: Vec<u32> = self.holds.keys().copied().collect();
        holds.into_iter().for_each(|hold| self.release(hold));
        self.phase = Phase::Concluding;
        self.changed();
        if self.result.is_some() {
            // A predecessor had made it.
            return self.finish();
        }
        let conclusion = self.conclusion();
        self.out.push(Effect::Conclude(Box::new(conclusion)));
    }

    fn conclusion(&self) -> Conclusion {
        let workflow = |(number, part): (usize, &super::Part)| {
            let (started, ended) = self.spans.get(&number).copied().unwrap_or_default();
            let tries = self.shards_of(number).map(|shard| shard.tries.len().saturating_sub(1));
            Conclusive {
                name: part.name.clone(),
                status: self.machine.status(number).cloned().unwrap_or(WorkflowStatus::Stopped),
                started,
                ended,
                shards: self.divided.get(&number).copied().unwrap_or(0),
                retries: u32::try_from(tries.sum::<usize>()).unwrap_or(u32::MAX),
            }
        };
        Conclusion {
            outcome: self.outcome.unwrap_or(stats::Outcome::Failed),
            stop: self.machine.stop_reason(),
            detail: self.reason(),
            began: self.began,
            ended: self.age(),
            workflows: self.manifest.workflows.iter().enumerate().map(workflow).collect(),
            setup_error: self.machine.setup_error().map(str::to_owned),
            teardown_error: self.machine.teardown_error().map(str::to_owned),
            timeline: self.timeline.clone(),
            unheard: self.unheard.clone(),
            cut: self.cut.clone(),
        }
    }

    pub(super) fn concluded(&mut self, result: Option<BlobRef>) {
        if self.phase != Phase::Concluding {
            self.counts.repeats += 1;
            return;
        }
        let Some(result) = result else { return self.finish() };
        self.result = Some(result);
        self.phase = Phase::Recording;
        let (job, epoch) = (self.id, self.epoch);
        self.commit(Purpose::Result, Command::RecordResult { job, epoch, result });
    }

    pub(super) fn result_recorded(&mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.phase = Phase::Finishing;
        let outcome = match self.outcome.unwrap_or(stats::Outcome::Failed) {
            stats::Outcome::Completed => ledger::Outcome::Completed,
            stats::Outcome::Partial => ledger::Outcome::Partial,
            stats::Outcome::Failed => ledger::Outcome::Failed,
            stats::Outcome::Cancelled => ledger::Outcome::Cancelled,
            stats::Outcome::Timeout => ledger::Outcome::Timeout,
        };
        let (job, epoch, detail) = (self.id, self.epoch, self.short(&self.reason()));
        self.commit(Purpose::Finish, Command::FinishJob { job, epoch, outcome, detail });
    }

    /// Why the job ended as it did, in one line: why it was stopped, or what failed first.
    fn reason(&self) -> String {
        let failed = matches!(self.outcome, Some(stats::Outcome::Failed | stats::Outcome::Partial));
        if !self.detail.is_empty() || !failed {
            return self.detail.clone();
        }
        if let Some(error) = self.machine.setup_error() {
            return format!("setup failed: {error}");
        }
        let parts = self.manifest.workflows.iter().enumerate();
        let mut errors = parts.filter_map(|(number, part)| match self.machine.status(number) {
            Some(WorkflowStatus::Failed { error }) => {
                Some(format!("{} failed: {error}", part.name))
            }
            _ => None,
        });
        errors.next().unwrap_or_default()
    }

    pub(super) fn finished(&mut self, outcome: ledger::Outcome) {
        if self.phase == Phase::Finished {
            return;
        }
        self.phase = Phase::Finished;
        self.later.clear();
        self.out.push(Effect::Finished { outcome });
    }
}

fn aside_result((state, error): (State, Option<String>)) -> Result<(), String> {
    match state {
        State::FailedTerminal => Err(error.unwrap_or_else(|| "it failed".to_owned())),
        _ => Ok(()),
    }
}

pub(super) fn encode_report(report: &EndReport) -> Vec<u8> {
    postcard::to_allocvec(report).expect("a report has a form in postcard")
}

/// # Errors
/// If the bytes are not those of a stored report.
pub fn decode_report(content: &[u8]) -> Result<EndReport, String> {
    postcard::from_bytes(content)
        .map_err(|error| format!("a stored report cannot be read: {error}"))
}
