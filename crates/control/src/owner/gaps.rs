//! Load that the plan asked for and nobody generated, and what else makes a verdict: durable, so
//! that a takeover loses none of it (R19, R27).
//!
//! ```text
//! lose:  RevokeAttempt { heard_ms }          in the entry that acts on it; no second wait
//! end:   EndAttempt { sent_until_ms }        by the worker's own clock
//! notes: Memory, with every checkpoint       stored when there is time for it; nobody waits
//!            ╰──▶ successor: memory + the ledger's history after it + gaps of the ledger alone
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use fence::{Attempt, Epoch, NodeId, WorkflowNo};
use serde::{Deserialize, Serialize};

use super::{Gap, Mended, Note, Owner, Sid};
use ledger_state::{self, AttemptRecord, AttemptStatus, EventKind, Reply};

/// What a successor has to know beyond the ledger.
#[derive(Serialize, Deserialize)]
struct Memory {
    /// The ledger's events up to here are in the timeline.
    through: Option<Epoch>,
    timeline: Vec<Note>,
    /// The zero of the job's own clock. The ledger knows only about when a setup was started.
    began: Option<Duration>,
}

impl Owner {
    /// What a successor has to know, to be stored with a checkpoint.
    #[must_use]
    pub fn memory(&self) -> Vec<u8> {
        let (through, timeline) = (self.journal.seen(), self.journal.essence());
        let memory = Memory { through, timeline, began: self.time.began() };
        // A type of ours always has a form in postcard.
        postcard::to_allocvec(&memory).unwrap_or_default()
    }

    /// Takes up what the owner before has left, right after [`Owner::adopt`]. What cannot be read
    /// is as good as nothing: the ledger has the most of it.
    pub fn recall(&mut self, memory: &[u8]) {
        let Ok(memory) = postcard::from_bytes::<Memory>(memory) else { return };
        self.time.recall(memory.began);
        let is_later = |epoch: &Epoch| memory.through.is_none_or(|through| *epoch > through);
        let later = self.recovery.history().iter().filter(|(epoch, _)| is_later(epoch));
        let mut timeline = memory.timeline;
        timeline.extend(later.map(|(_, note)| note.clone()));
        let own = self.journal.restore(timeline);
        let since = own.into_iter().skip(self.recovery.history().len());
        for note in self.recovery.take_gaps() {
            self.journal.add_gap(note);
        }
        // What the owner before has seen closed is closed.
        let gaps = self.journal.timeline().iter().filter_map(|note| note.gap.as_ref());
        let closed = gaps.map(|gap| ((gap.workflow, gap.shard), gap.attempt));
        let closed: BTreeSet<_> = closed.collect();
        let is_closed = |sid: Sid, lost| closed.contains(&((sid.0 as usize, sid.1), lost));
        for sid in self.recovery.close_all(is_closed) {
            if let Some(shard) = self.shards.get_mut(&sid) {
                shard.lost_at = None;
            }
        }
        self.journal.append(since.filter(|note| note.gap.is_none()));
    }

    /// The ledger has taken something of this owner's.
    pub(super) fn saw(&mut self, reply: &Reply) {
        let epoch = match reply {
            Reply::Done { epoch }
            | Reply::Superseded { epoch, .. }
            | Reply::Finished { epoch, .. }
            | Reply::Rows { epoch, .. } => *epoch,
            _ => return,
        };
        self.journal.saw(epoch);
    }

    /// The timeline so far, as far as the ledger has it. Its times are wall clocks', for people.
    pub(super) fn read_history(&mut self, job: &ledger_state::Job) {
        let mut created = None;
        let mut notes = Vec::new();
        for event in job.history.events() {
            let wall = event.at.wall_ms;
            let first = *created.get_or_insert(wall);
            let at = Duration::from_millis(wall.saturating_sub(first));
            self.journal.saw(event.epoch);
            let text = match event.kind {
                EventKind::Claimed { owner } => format!("owned by manager {}", owner.node),
                EventKind::AttemptRevoked { workflow, shard, attempt } => {
                    let record = job.shards.get(&(workflow, shard));
                    let record = record.and_then(|shard| shard.attempt(attempt));
                    let why = record.and_then(|record| record.revoked.as_ref());
                    let why = why.map(|revoked| revoked.reason.as_str()).unwrap_or_default();
                    format!("shard {}/{shard} was lost: {why}", workflow.0)
                }
                EventKind::AttemptEnded { workflow, .. } => {
                    self.workflows.ended_by(workflow.0 as usize, at);
                    continue;
                }
                EventKind::LoadBegun { workflows: 1 } => "1 workflow started".to_owned(),
                EventKind::LoadBegun { workflows } => format!("{workflows} workflows started"),
                EventKind::StopRequested { .. } => "stopped".to_owned(),
                EventKind::CancelRequested => "cancelled".to_owned(),
                EventKind::CancelForced => "cancelled again".to_owned(),
                EventKind::Paused => "paused".to_owned(),
                EventKind::Resumed => "resumed".to_owned(),
                EventKind::AttemptStarted { workflow, shard, attempt, .. }
                    if workflow.0 == self.spec.hook_number()
                        && is_repeat(job, (workflow, shard), attempt) =>
                {
                    self.repeat_text(shard)
                }
                _ => continue,
            };
            notes.push((event.epoch, Note { at, text, gap: None }));
        }
        self.journal.restore(notes.iter().map(|(_, note)| note.clone()).collect());
        self.recovery.set_history(notes);
        self.read_gaps(job);
    }

    /// Gaps that were closed before, and those that are still open.
    fn read_gaps(&mut self, job: &ledger_state::Job) {
        let created = job.created_ms;
        for ((WorkflowNo(number), place), known) in &job.shards {
            let sid = (*number, *place);
            if *number == self.spec.hook_number() {
                continue;
            }
            let mut open: Option<(Attempt, Duration, NodeId)> = None;
            for (attempt, record) in (1..).map(Attempt).zip(&known.attempts) {
                let to = Duration::from_millis(record.started_ms.saturating_sub(created));
                if let Some((lost, ..)) = open.filter(|_| record.is_live()) {
                    self.recovery.reopen(sid, lost, to);
                } else if let Some((lost, from, worker)) = open.filter(|_| has_run(record)) {
                    let note = self.gap(sid, lost, worker, (from, to.max(from)), Mended::Elsewhere);
                    self.recovery.add_gap(note);
                    open = None;
                }
                let lost = lost_at(record).map(|from| (attempt, from, record.worker));
                open = open.or(lost);
            }
            if let (Some((_, from, _)), Some(shard)) = (open, self.shards.get_mut(&sid)) {
                shard.lost_at = Some(from);
            }
        }
        for note in self.recovery.gaps() {
            self.journal.add_gap(note);
        }
    }

    fn gap(
        &self,
        sid: Sid,
        attempt: Attempt,
        worker: NodeId,
        (from, to): (Duration, Duration),
        mended: Mended,
    ) -> Note {
        let workflow = sid.0 as usize;
        let of = self.workflows.shards(workflow).unwrap_or(1);
        let name = self.workflows.name(workflow);
        let seconds = to.saturating_sub(from).as_secs_f64();
        let how = match mended {
            Mended::Elsewhere => format!("was missing for {seconds:.1} s, and runs again"),
            Mended::Shared => format!("was missing for {seconds:.1} s, and shares a core now"),
            Mended::Never => "is missing from then on".to_owned(),
        };
        let text = format!("1 of {of} shards of {name} {how}");
        let (shard, shards) = (sid.1, 1);
        let gap = Gap { workflow, shard, attempt, worker, from, to, shards, of, mended };
        Note { at: to, text, gap: Some(gap) }
    }

    pub(super) fn mended(&mut self, sid: Sid) {
        let shared = self.shards.current(&sid).is_some_and(|one| one.shared);
        self.close_gap(sid, if shared { Mended::Shared } else { Mended::Elsewhere });
    }

    /// A shard that was missing runs, as its worker tells a new owner, and has for so long.
    pub(super) fn was_mended(&mut self, sid: Sid, ran: Option<Duration>) {
        let Some(created) = self.recovery.close(sid) else { return };
        let to = ran.map_or(created, |ran| self.time.age().saturating_sub(ran));
        let shared = self.shards.current(&sid).is_some_and(|one| one.shared);
        self.close_gap_at(sid, if shared { Mended::Shared } else { Mended::Elsewhere }, to);
    }

    pub(super) fn never_mended(&mut self, sid: Sid) {
        self.close_gap(sid, Mended::Never);
    }

    fn close_gap(&mut self, sid: Sid, mended: Mended) {
        let waits = if mended == Mended::Never { Duration::ZERO } else { self.waits_for_rate(sid) };
        self.close_gap_at(sid, mended, self.time.age().saturating_add(waits));
    }

    fn close_gap_at(&mut self, sid: Sid, mended: Mended, to: Duration) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let Some(from) = shard.lost_at.take() else { return };
        // The one that was lost, not the one that runs again.
        let attempt = Attempt(shard.attempt().0.saturating_sub(u32::from(mended != Mended::Never)));
        let worker = shard.get(attempt).map(|one| one.worker).unwrap_or_default();
        let note = self.gap(sid, attempt, worker, (from, to.max(from)), mended);
        self.note(note.text, note.gap);
    }
}

/// Whether the attempt before may have run a setup or teardown that this one runs again.
fn is_repeat(job: &ledger_state::Job, shard: (WorkflowNo, u32), attempt: Attempt) -> bool {
    let before = attempt.0.checked_sub(1).map(Attempt);
    let known = job.shards.get(&shard).zip(before);
    let record = known.and_then(|(known, before)| known.attempt(before));
    record.is_some_and(|record| {
        let end = record.end.as_ref().map(|end| end.status);
        record.revoked.is_some() || end == Some(AttemptStatus::Interrupted)
    })
}

/// It was told to start, as far as the ledger shows.
fn has_run(record: &AttemptRecord) -> bool {
    let end = record.end.as_ref();
    let sent = end.is_some_and(|end| end.sent_until_ms.is_some());
    sent || record.revoked.as_ref().is_some_and(|r| r.heard_ms.is_some()) || record.is_live()
}

/// The job's age when its load went missing, if it did.
fn lost_at(record: &AttemptRecord) -> Option<Duration> {
    let end = record.end.as_ref().filter(|end| !end.status.is_final());
    let ended = end.and_then(|end| end.sent_until_ms);
    let heard = record.revoked.as_ref().and_then(|revoked| revoked.heard_ms);
    let is_final = record.end.as_ref().is_some_and(|end| end.status.is_final());
    ended.or(heard).filter(|_| !is_final).map(Duration::from_millis)
}
