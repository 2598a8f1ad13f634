//! The end of one attempt: a worker's last word, or what is known of one that will never speak.
//!
//! ```text
//! report ──store──▶ majority ──EndAttempt──▶ ledger ──Forget──▶ worker's outbox
//!                                              ╰▶ its shard is settled: over, or free for the next attempt
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Attempt, NodeId, ShardKey};

use super::context::{self, SETUP};
use super::shard::{State, Step};
use super::tools::millis;
use super::{Errand, Owner, Parcel, Purpose, Sid, blob_of};
use crate::message::EndReport;
use ledger_state::{AttemptStatus, Command, Counters, Lapse, Payload, Reply};

/// Load that was missing for less than this before a stop is not worth a word.
const MISSING_FROM: Duration = Duration::from_millis(500);

impl Owner {
    /// A worker's last word. Not fenced (R3): counted once, whenever it comes (S35, S40).
    pub(super) fn report(&mut self, mut report: EndReport) {
        let sid = (report.shard.workflow.0, report.shard.shard);
        let attempt = report.attempt;
        let may_have_begun = self.may_have_begun(sid, attempt);
        let ours = self.shards.get_mut(&sid).filter(|shard| shard.key == report.shard);
        let Some(one) = ours.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.counts.late += 1;
            return;
        };
        if (one.worker, one.boot) != (report.worker, report.boot) {
            self.counts.lies += 1;
            return;
        }
        if self.sealing.contains(&(sid, attempt)) || one.by_owner {
            return self.amend(sid, report);
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
        // The report of a process that was killed has what its file has: less than its frames had told.
        report.counters = report.counters.at_least(&one.counters);
        if !report.certain {
            // Its machine was restarted under it, and its file may be older than its death.
            report.counters.begun = report.counters.begun.max(may_have_begun);
            self.unheard.push((report.shard, attempt));
        }
        // The next attempt may be dispatched before the ledger has this.
        (one.counters, one.known) = (report.counters, true);
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

    /// The job's age when an attempt has last sent, as far as is known: its worker says until when it could, and the
    /// counts when they last moved. A process that was stopped could, and did not; one that was killed cannot say.
    /// None: it sent nothing.
    fn sent_until(&self, report: &EndReport) -> Option<Duration> {
        let sid = (report.shard.workflow.0, report.shard.shard);
        let place = (report.attempt.0 as usize).checked_sub(1)?;
        let one = self.shards.get(&sid)?.tries.get(place)?;
        let moved = one.heard.filter(|_| report.status != AttemptStatus::Completed);
        let could = self.began.zip(report.sent_until).map(|(began, clock)| began + clock);
        match could {
            Some(could) => Some(moved.map_or(could, |moved| moved.min(could)).min(self.age())),
            None => moved.or_else(|| (one.counters.issued > 0).then_some(one.since)),
        }
    }

    /// Makes a report durable: first beside the ledger, then in it.
    pub(super) fn keep(&mut self, sid: Sid, mut report: EndReport) {
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
                    sent_until_ms: self.sent_until(report).map(millis),
                    word: self.word_of(sid, report),
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
        if one.end.is_some() && one.by_owner {
            if let Some(report) = report {
                self.amended(sid, &report);
            }
            return;
        }
        one.end = Some(status);
        let by_owner = one.by_owner;
        let (worker, own_core) = (one.worker, !one.shared);
        if let Some(report) = &report {
            one.counters = report.counters;
            if own_core {
                // A worker gives a core back before it says that an attempt has ended.
                self.pool.returned(worker, 1);
            }
            // Of what the owner has written itself its worker must not let go.
            if !by_owner {
                self.send(Errand::Forget(report.shard, attempt, report.worker));
            }
        }
        self.count_lost(sid);
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
            self.note_lost_before_stop(sid, status, report.as_ref());
            // A setup that had come to its end all the same has left what the teardown needs.
            if sid.0 == self.asides()
                && status == AttemptStatus::Completed
                && let Some(report) = report
            {
                self.provided.entry(sid.0 as usize).or_default().insert(sid.1, report.provided);
                self.aside_provided(sid);
            }
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
                let sent_until = report.as_ref().and_then(|report| self.sent_until(report));
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
                    let ran = self.shards.get(&sid).and_then(|shard| shard.current());
                    let ran = state == State::Running || ran.is_some_and(|one| one.may_run);
                    if ran
                        && sid.0 != self.asides()
                        && let Some(shard) = self.shards.get_mut(&sid)
                    {
                        shard.lost_at = shard.lost_at.or(sent_until).or(Some(age));
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

    /// A shard that is being stopped may have come to grief before: its lease had lapsed, and its word came after the
    /// stop. From then until the stop its load was missing.
    fn note_lost_before_stop(
        &mut self,
        sid: Sid,
        status: AttemptStatus,
        report: Option<&EndReport>,
    ) {
        if status != AttemptStatus::Interrupted || sid.0 == self.asides() {
            return;
        }
        let sent_until = report.and_then(|report| self.sent_until(report));
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let stopped = shard.stop.as_ref().map(|stop| stop.since);
        if let (Some(sent), Some(stopped)) = (sent_until, stopped)
            && sent.saturating_add(MISSING_FROM) < stopped
        {
            shard.lost_at.get_or_insert(sent);
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
        let may_have_begun = self.may_have_begun(sid, attempt);
        let shard = self.shards.get_mut(&sid).filter(|shard| shard.key == key);
        let Some(one) = shard.and_then(|shard| shard.attempt_mut(attempt)) else {
            self.counts.late += 1;
            return;
        };
        if one.end.is_some() || one.reporting {
            self.counts.repeats += 1;
            return;
        }
        (one.reporting, one.by_owner) = (true, true);
        let begun = counters.begun.max(may_have_begun);
        (one.counters.begun, one.known) = (begun, true);
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
        self.unheard.push((key, attempt));
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
