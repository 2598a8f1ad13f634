//! The end of one attempt: its worker's final report, or what is known where there will be none.
//!
//! ```text
//! report ──store──▶ majority ──EndAttempt──▶ ledger ──Forget──▶ worker's outbox
//!                                              ╰▶ its shard is settled: over, or free again
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Attempt, ShardKey};

use super::blobs::Store;
use super::calls::Call;
use super::commits::Purpose;
use super::context;
use super::shard::Step;
use super::spec::hook_task;
use super::time::millis;
use super::{Owner, Sid, blob_of};
use crate::message::{EndReport, Task};
use ledger_state::{AttemptStatus, Command, Counters, Payload, Reply};

impl Owner {
    /// A worker's final report. It is not fenced (R3): it counts once, whenever it comes.
    pub(super) fn report(&mut self, mut report: EndReport) {
        let sid = (report.shard.workflow.0, report.shard.shard);
        let attempt = report.attempt;
        let may_have_begun = self.may_have_begun(sid, attempt);
        let ours = self.shards.get_mut(&sid).filter(|shard| shard.key == report.shard);
        let Some(one) = ours.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.journal.count_late();
            return;
        };
        if one.life() != (report.worker, report.boot) {
            self.journal.count_mismatch();
            return;
        }
        if self.reports.is_sealed(sid, attempt) || one.by_owner {
            return self.add_to_end(sid, report);
        }
        if one.end.is_some() {
            self.journal.count_repeat();
            let call = Call::Forget(report.shard, attempt, report.worker);
            return self.send(call);
        }
        if one.reporting {
            self.journal.count_repeat();
            return;
        }
        one.reporting = true;
        // The report of a process that was killed has what its file has: less than its frames had
        // told.
        report.counters = report.counters.at_least(&one.units.counters);
        if !report.certain {
            // Its machine was restarted under it, and its file may be older than its death.
            report.counters.begun = report.counters.begun.max(may_have_begun);
            self.reports.is_unheard(report.shard, attempt);
        }
        // The next attempt may be dispatched before the ledger has this.
        (one.units.counters, one.known) = (report.counters, true);
        self.stop_proven(sid, attempt);
        let current = self.shards.is_current(&sid, attempt);
        if current && let Some(shard) = self.shards.get_mut(&sid) {
            if shard.is_out() {
                shard.step = Step::Ending;
                shard.due = None;
                self.leave_reservation(sid, true);
            }
            self.check_context(sid, &mut report);
        }
        self.keep(sid, report);
    }

    /// The job's age when an attempt has last sent, as far as is known: its worker says until when
    /// it could, and the counts when they last moved. A process that was stopped could, and did
    /// not; one that was killed cannot say. None: it sent nothing.
    pub(super) fn sent_until(&self, report: &EndReport) -> Option<Duration> {
        let sid = (report.shard.workflow.0, report.shard.shard);
        let one = self.shards.attempt(&sid, report.attempt)?;
        let moved = one.heard.filter(|_| report.status != AttemptStatus::Completed);
        let could = self.time.began().zip(report.sent_until).map(|(began, clock)| began + clock);
        match could {
            Some(could) => Some(moved.map_or(could, |moved| moved.min(could)).min(self.time.age())),
            None => moved.or_else(|| (one.units.counters.issued > 0).then_some(one.since)),
        }
    }

    /// Makes a report durable: first beside the ledger, then in it.
    pub(super) fn keep(&mut self, sid: Sid, mut report: EndReport) {
        let attempt = report.attempt;
        let mut content = encode_report(&report);
        if content.len() > self.spec.settings().result_bytes {
            report.totals = Vec::new();
            self.reports.cut(report.shard, attempt);
            let text = format!("the statistics of shard {} were too large to keep", report.shard);
            self.note(text, None);
            content = encode_report(&report);
        }
        self.reports.add(sid, report);
        self.outgoing.store(Store::Report(sid, attempt), content);
    }

    pub(super) fn stored(&mut self, tag: u64) {
        match self.outgoing.stored(tag) {
            Some(Store::Report(sid, attempt)) => {
                let Some(report) = self.reports.get(sid, attempt) else { return };
                let command = Command::EndAttempt {
                    under: Some(self.spec.epoch()),
                    shard: report.shard,
                    attempt,
                    status: report.status,
                    counters: report.counters,
                    result: Some(blob_of(&encode_report(report))),
                    sent_until_ms: self.sent_until(report).map(millis),
                    word: self.word_of(sid, report),
                };
                self.outgoing.commit(Purpose::End(sid, attempt), command);
            }
            Some(Store::Context(values)) => {
                let content = context::encode_values(&values);
                self.commit_context(values, Payload::Blob(blob_of(&content)));
            }
            None => self.journal.count_repeat(),
        }
    }

    pub(super) fn attempt_ended(&mut self, sid: Sid, attempt: Attempt, reply: &Reply) {
        if let Reply::Refused(refusal) = reply {
            let text = format!("the ledger refused the end of an attempt: {refusal}");
            return self.note(text, None);
        }
        let report = self.reports.take(sid, attempt);
        let status = report.as_ref().map_or(AttemptStatus::Stopped, |report| report.status);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let current = shard.attempt() == attempt;
        let Some(one) = shard.attempt_mut(attempt) else { return };
        if one.end.is_some() && one.by_owner {
            if let Some(report) = report {
                self.addendum_committed(sid, &report);
            }
            return;
        }
        one.end = Some(status);
        let by_owner = one.by_owner;
        let (worker, own_core) = (one.worker, !one.shared);
        if let Some(report) = &report {
            one.units.counters = report.counters;
            if own_core {
                // A worker gives a core back before it says that an attempt has ended.
                self.capacity.returned(worker);
            }
            // Of what the owner has written itself its worker must not let go.
            if !by_owner {
                self.send(Call::Forget(report.shard, attempt, report.worker));
            }
        }
        self.count_lost(sid);
        // Replaced, and the answer to the start of the next one is on its way: only the counts were
        // taken (R17).
        if current && !matches!(reply, Reply::Superseded { .. }) {
            self.settle(sid, status, report);
        }
    }

    /// What a shard leaves: that of the plan's setup is a stage of its own, that of a workflow's
    /// own setup is for the workflow's shards, and teardowns leave nothing.
    pub(super) fn provide(&mut self, sid: Sid, values: BTreeMap<String, Vec<u8>>) {
        if !self.spec.is_hook(sid) {
            return self.context.provide(sid.0 as usize, sid.1, values);
        }
        match hook_task(sid.1) {
            Task::Setup { of: None } => self.context.set_up(values),
            Task::Setup { of: Some(number) } => {
                self.context.set_up_workflow(number.0 as usize, values);
            }
            Task::Teardown { .. } | Task::Load => {}
        }
    }

    /// A shard that provides more than the job may hand on has failed, and says so: every later
    /// dispatch would carry it.
    fn check_context(&mut self, sid: Sid, report: &mut EndReport) {
        let present = self.context.bytes();
        if let Some(part) = self.spec.part(sid.0 as usize) {
            report.provided.retain(|key, _| part.provide.iter().any(|one| one.key == *key));
        }
        let (more, most) = (context::size(&report.provided), self.spec.settings().context_bytes);
        if present + more > most && report.status == AttemptStatus::Completed {
            report.status = AttemptStatus::Failed;
            report.provided.clear();
            report.error = Some(format!(
                "it provides {more} bytes; with what is provided already that is more than the \
                 {most} that a job may hand on"
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
        let may_have_begun = self.may_have_begun(sid, attempt);
        let shard = self.shards.get_mut(&sid).filter(|shard| shard.key == key);
        let Some(one) = shard.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.journal.count_late();
            return;
        };
        if one.end.is_some() || one.reporting {
            self.journal.count_repeat();
            return;
        }
        (one.reporting, one.by_owner) = (true, true);
        let begun = counters.begun.max(may_have_begun);
        (one.units.counters.begun, one.known) = (begun, true);
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
            certain: false,
            sent_until: None,
        };
        self.reports.is_unheard(key, attempt);
        self.keep(sid, report);
    }
}

pub fn encode_report(report: &EndReport) -> Vec<u8> {
    postcard::to_allocvec(report).expect("a report has a form in postcard")
}

/// # Errors
/// If the bytes are not those of a stored report.
pub fn decode_report(content: &[u8]) -> Result<EndReport, String> {
    postcard::from_bytes(content)
        .map_err(|error| format!("a stored report cannot be read: {error}"))
}
