//! What is kept for people and for a successor: transitions, the timeline, and counts.

use fence::Epoch;

use super::{Note, Transition};

/// Lines of history and of the timeline kept for one job.
const HISTORY_MAX: usize = 200_000;
const TIMELINE_MAX: usize = 20_000;

/// Notes that travel with a checkpoint: the first ones, the last ones, and all gaps.
const FIRST_MAX: usize = 100;
const LAST_MAX: usize = 400;

/// How often something happened that should not, or that did nothing (LIFE-2, R10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transitions that the table does not have.
    pub illegal: u64,
    /// Events for what is over, or unknown.
    pub late: u64,
    pub repeats: u64,
    pub retries: u64,
    pub lost_workers: u64,
    /// Reports and answers that do not fit what was asked of that worker.
    pub mismatched: u64,
    /// Lines of the history and of the timeline that there was no space for.
    pub dropped: u64,
    pub unknown_commits: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    history: Vec<Transition>,
    timeline: Vec<Note>,
    counts: Counts,
    /// The highest place in the log at which something of this job is known to be.
    seen: Option<Epoch>,
    /// The machine of workflows is told what happened under an owner before, so nothing is news.
    replaying: bool,
}

impl Journal {
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    pub fn timeline(&self) -> &[Note] {
        &self.timeline
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn set_replaying(&mut self, replaying: bool) {
        self.replaying = replaying;
    }

    pub fn moved(&mut self, transition: Transition) {
        if self.history.len() < HISTORY_MAX {
            self.history.push(transition);
        } else {
            self.counts.dropped += 1;
        }
    }

    /// False: it happened under an owner before, and the ledger's history says when.
    pub fn note(&mut self, note: &Note) -> bool {
        if self.replaying {
            return false;
        }
        if self.timeline.len() < TIMELINE_MAX {
            self.timeline.push(note.clone());
        } else {
            self.counts.dropped += 1;
        }
        true
    }

    // ── counts ─────────────────────────────────────────────────────────────────────────────────

    /// Something that the table of transitions, or the machine of workflows, does not have.
    pub fn count_illegal(&mut self) {
        self.counts.illegal += 1;
    }

    /// For what is over, or unknown.
    pub fn count_late(&mut self) {
        self.counts.late += 1;
    }

    /// For what was done already.
    pub fn count_repeat(&mut self) {
        self.counts.repeats += 1;
    }

    pub fn count_retry(&mut self) {
        self.counts.retries += 1;
    }

    pub fn count_lost_worker(&mut self) {
        self.counts.lost_workers += 1;
    }

    /// It does not fit what was asked of that worker.
    pub fn count_mismatch(&mut self) {
        self.counts.mismatched += 1;
    }

    pub fn count_unknown_commit(&mut self) {
        self.counts.unknown_commits += 1;
    }

    // ── what a successor has to know ───────────────────────────────────────────────────────────

    /// Something of this job is known to be at that place in the log.
    pub fn saw(&mut self, epoch: Epoch) {
        if self.seen.is_none_or(|seen| epoch > seen) {
            self.seen = Some(epoch);
        }
    }

    pub fn seen(&self) -> Option<Epoch> {
        self.seen
    }

    /// Those notes that travel with a checkpoint.
    pub fn essence(&self) -> Vec<Note> {
        let last = self.timeline.len().saturating_sub(LAST_MAX);
        let is_kept =
            |place: usize, note: &Note| place < FIRST_MAX || place >= last || note.gap.is_some();
        let kept = self.timeline.iter().enumerate().filter(|(place, note)| is_kept(*place, note));
        kept.map(|(_, note)| note.clone()).collect()
    }

    /// Replaces the timeline by what is known of the time before.
    pub fn restore(&mut self, timeline: Vec<Note>) -> Vec<Note> {
        std::mem::replace(&mut self.timeline, timeline)
    }

    /// A gap that the ledger tells of, unless it is known already.
    pub fn add_gap(&mut self, note: Note) {
        let of = |note: &Note| note.gap.as_ref().map(|g| (g.workflow, g.shard, g.attempt));
        if !self.timeline.iter().any(|known| of(known) == of(&note)) {
            self.timeline.push(note);
        }
    }

    /// Adds notes of this owner's own behind those from before, in the order of their times.
    pub fn append(&mut self, notes: impl IntoIterator<Item = Note>) {
        self.timeline.extend(notes);
        self.timeline.sort_by_key(|note| note.at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fence::{Attempt, NodeId};

    use super::*;
    use crate::owner::{Gap, Mended};

    fn note(at: u64) -> Note {
        Note { at: Duration::from_secs(at), text: format!("at {at}"), gap: None }
    }

    fn gap(at: u64, shard: u32) -> Note {
        let (from, to) = (Duration::ZERO, Duration::from_secs(at));
        let (attempt, worker, mended) = (Attempt(1), NodeId(1), Mended::Elsewhere);
        let gap = Gap { workflow: 0, shard, attempt, worker, from, to, shards: 1, of: 9, mended };
        Note { gap: Some(gap), ..note(at) }
    }

    #[test]
    fn what_is_replayed_is_no_news() {
        let mut journal = Journal::default();
        journal.set_replaying(true);
        assert!(!journal.note(&note(1)));
        journal.set_replaying(false);
        assert!(journal.note(&note(2)));
        assert_eq!(journal.timeline(), [note(2)]);
    }

    #[test]
    fn a_full_timeline_drops_what_comes_and_counts_it() {
        let mut journal = Journal::default();
        for _ in 0..TIMELINE_MAX + 3 {
            assert!(journal.note(&note(1)));
        }
        assert_eq!(journal.timeline().len(), TIMELINE_MAX);
        assert_eq!(journal.counts().dropped, 3);
    }

    #[test]
    fn a_checkpoint_takes_the_first_notes_the_last_ones_and_every_gap() {
        let mut journal = Journal::default();
        for at in 0..1_000 {
            journal.note(&if at == 300 { gap(at, 7) } else { note(at) });
        }
        let times: Vec<u64> = journal.essence().iter().map(|note| note.at.as_secs()).collect();
        let expected: Vec<u64> = (0..100).chain([300]).chain(600..1_000).collect();
        assert_eq!(times, expected);
    }

    #[test]
    fn a_gap_is_known_by_its_shard_and_attempt_and_stands_once() {
        let mut journal = Journal::default();
        journal.note(&gap(5, 1));
        journal.add_gap(gap(9, 1));
        journal.add_gap(gap(3, 2));
        let shards = journal.timeline().iter().map(|note| note.gap.as_ref().unwrap().shard);
        assert_eq!(shards.collect::<Vec<_>>(), [1, 2]);
        journal.append([note(4)]);
        let times: Vec<u64> = journal.timeline().iter().map(|note| note.at.as_secs()).collect();
        assert_eq!(times, [3, 4, 5]);
    }
}
