//! What a new owner waits for before it decides anything, and what it knows of the time before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, Moment};

use super::attempt::Life;
use super::{Note, Sid};
use ledger_state;

/// A workflow that was divided under an owner before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// The place in the log: those of one batch have the same.
    pub place: u64,
    /// The job's age when its load began.
    pub begun: Option<Duration>,
    /// For how long the job was paused since then, when it was taken up.
    pub paused: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// Lives of workers that were asked what they hold.
    asked: BTreeSet<Life>,
    /// Blobs that are being fetched.
    fetching: usize,
    /// Where a workflow's schedule stands as its workers say, and when that was.
    elapsed: BTreeMap<u32, (Duration, Moment)>,
    divisions: BTreeMap<usize, Division>,
    /// How many notes of the timeline are the ledger's history, with their places in the log.
    history: Vec<(fence::Epoch, Note)>,
    /// Gaps that the ledger's attempts show.
    gaps: Vec<Note>,
    /// Shards whose load was missing: the attempt that was lost, and when the ledger took the next
    /// one. Only its worker knows whether, and since when, that one runs.
    reopened: BTreeMap<Sid, (Attempt, Duration)>,
    stop: Option<ledger_state::Stopping>,
    /// A stop of this owner's own was committed meanwhile.
    stop_stands: bool,
    /// How old the present pause was when the job was taken up.
    pause: Duration,
    /// For how long the job was paused after that and before this owner began to act.
    stood: Duration,
}

impl Recovery {
    /// As the ledger has the job.
    pub fn of(job: &ledger_state::Job, now_ms: u64) -> Self {
        let age = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(job.created_ms));
        let divisions = job.provisioned.iter().map(|(number, division)| {
            let paused_ms = job.paused_by_ms(now_ms).saturating_sub(division.paused_ms);
            let known = Division {
                place: division.epoch.number,
                begun: division.begun_ms.map(age),
                paused: Duration::from_millis(paused_ms),
            };
            (number.0 as usize, known)
        });
        let divisions: BTreeMap<usize, Division> = divisions.collect();
        let since_ms = job.paused_since_ms.filter(|_| !divisions.is_empty());
        let pause_ms = since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        let pause = Duration::from_millis(pause_ms);
        Self { divisions, pause, stop: job.stop.clone(), ..Self::default() }
    }

    // ── what is waited for ─────────────────────────────────────────────────────────────────────

    /// A worker is to be asked what it holds.
    pub fn ask(&mut self, life: Life) {
        self.asked.insert(life);
    }

    /// A worker has said what it holds, or is lost.
    pub fn answered(&mut self, life: Life) {
        self.asked.remove(&life);
    }

    pub fn is_asked(&self, life: Life) -> bool {
        self.asked.contains(&life)
    }

    pub fn all_asked(&self) -> Vec<Life> {
        self.asked.iter().copied().collect()
    }

    pub fn fetch(&mut self) {
        self.fetching += 1;
    }

    pub fn fetched(&mut self) {
        self.fetching = self.fetching.saturating_sub(1);
    }

    /// Everything is fetched, and everybody has answered or has had the time to.
    pub fn is_complete(&self, now: Moment, until: Moment) -> bool {
        self.fetching == 0 && (self.asked.is_empty() || now >= until)
    }

    // ── divisions and schedules ────────────────────────────────────────────────────────────────

    pub fn division(&self, workflow: usize) -> Option<Division> {
        self.divisions.get(&workflow).copied()
    }

    /// The place in the log at which a workflow was divided.
    pub fn place(&self, workflow: usize) -> Option<u64> {
        self.division(workflow).map(|division| division.place)
    }

    pub fn begun(&self, workflow: usize) -> Option<Duration> {
        self.division(workflow)?.begun
    }

    /// Whether a batch was divided after that place in the log.
    pub fn has_later(&self, place: Option<u64>) -> bool {
        self.divisions.values().any(|division| Some(division.place) > place)
    }

    /// The longest that a schedule had stood still when the job was taken up.
    pub fn paused_most(&self) -> Duration {
        self.divisions.values().map(|division| division.paused).max().unwrap_or_default()
    }

    /// Where a running shard is in its schedule. The furthest one counts: what may have been issued
    /// is spent, so the schedule never goes back.
    pub fn heard_elapsed(&mut self, workflow: u32, elapsed: Duration, now: Moment) {
        let known = self.elapsed.entry(workflow).or_insert((elapsed, now));
        if known.0.saturating_add(now.since(known.1)) < elapsed {
            *known = (elapsed, now);
        }
    }

    pub fn elapsed(&self, workflow: usize) -> Option<(Duration, Moment)> {
        self.elapsed.get(&u32::try_from(workflow).unwrap_or(u32::MAX)).copied()
    }

    /// How old the job must be by now, by each schedule that workers tell of.
    pub fn ages(&self, now: Moment) -> Vec<Duration> {
        let age = |(workflow, (elapsed, at)): (&u32, &(Duration, Moment))| {
            let begun = self.begun(*workflow as usize)?;
            Some(begun.saturating_add(*elapsed).saturating_add(now.since(*at)))
        };
        self.elapsed.iter().filter_map(age).collect()
    }

    // ── the timeline ───────────────────────────────────────────────────────────────────────────

    pub fn set_history(&mut self, history: Vec<(fence::Epoch, Note)>) {
        self.history = history;
    }

    pub fn history(&self) -> &[(fence::Epoch, Note)] {
        &self.history
    }

    pub fn add_gap(&mut self, note: Note) {
        self.gaps.push(note);
    }

    pub fn gaps(&self) -> Vec<Note> {
        self.gaps.clone()
    }

    pub fn take_gaps(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.gaps)
    }

    /// The load of a shard was missing when `lost` was lost, until the next attempt runs.
    pub fn reopen(&mut self, sid: Sid, lost: Attempt, next_started: Duration) {
        self.reopened.insert(sid, (lost, next_started));
    }

    /// When the ledger took the attempt after the one that was lost, if that is open.
    pub fn close(&mut self, sid: Sid) -> Option<Duration> {
        self.reopened.remove(&sid).map(|(_, started)| started)
    }

    /// Closes what an owner before has seen closed, and says what that is.
    pub fn close_all(&mut self, is_closed: impl Fn(Sid, Attempt) -> bool) -> Vec<Sid> {
        let reopened = self.reopened.iter();
        let closed = reopened.filter(|(sid, (lost, _))| is_closed(**sid, *lost));
        let closed: Vec<Sid> = closed.map(|(sid, _)| *sid).collect();
        closed.iter().for_each(|sid| {
            self.reopened.remove(sid);
        });
        closed
    }

    // ── stops and pauses ───────────────────────────────────────────────────────────────────────

    /// The stop that an owner before has committed.
    pub fn take_stop(&mut self) -> Option<ledger_state::Stopping> {
        self.stop.take()
    }

    pub fn own_stop_stands(&mut self) {
        self.stop_stands = true;
    }

    pub fn take_own_stop(&mut self) -> bool {
        std::mem::take(&mut self.stop_stands)
    }

    /// A pause has ended before there was a schedule that could stand still.
    pub fn stood(&mut self, time: Duration) {
        self.stood += time;
    }

    pub fn stood_in_all(&self) -> Duration {
        self.stood
    }

    /// How long the present pause had lasted when the job was taken up; asked once.
    pub fn take_pause(&mut self) -> Duration {
        std::mem::take(&mut self.pause)
    }
}

#[cfg(test)]
mod tests {
    use fence::{BootId, NodeId};

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn nothing_is_decided_before_blobs_are_here_and_workers_have_answered_or_had_their_time() {
        let life = (NodeId(1), BootId(1));
        let rows = [
            // Fetches, workers asked, and whether it is complete before and after the deadline.
            (0, false, [true, true]),
            (0, true, [false, true]),
            (1, false, [false, false]),
            (1, true, [false, false]),
        ];
        for (fetches, asks, expected) in rows {
            let mut recovery = Recovery::default();
            (0..fetches).for_each(|_| recovery.fetch());
            if asks {
                recovery.ask(life);
            }
            let complete = [at(4), at(5)].map(|now| recovery.is_complete(now, at(5)));
            assert_eq!(complete, expected, "{fetches} {asks}");
            recovery.answered(life);
            recovery.fetched();
            assert!(recovery.is_complete(at(0), at(5)));
        }
    }

    #[test]
    fn a_schedule_stands_where_its_furthest_shard_is_and_never_goes_back() {
        let seconds = Duration::from_secs;
        let mut recovery = Recovery::default();
        recovery.heard_elapsed(0, seconds(10), at(100));
        // Five seconds later the known one is at 15: one at 14 says nothing new, one at 17 does.
        recovery.heard_elapsed(0, seconds(14), at(105));
        assert_eq!(recovery.elapsed(0), Some((seconds(10), at(100))));
        recovery.heard_elapsed(0, seconds(17), at(105));
        assert_eq!(recovery.elapsed(0), Some((seconds(17), at(105))));
        assert_eq!(recovery.elapsed(1), None);
    }

    #[test]
    fn gaps_that_an_owner_before_has_seen_closed_are_closed_and_others_stay_open() {
        let seconds = Duration::from_secs;
        let mut recovery = Recovery::default();
        recovery.reopen((0, 0), Attempt(1), seconds(5));
        recovery.reopen((0, 1), Attempt(2), seconds(6));
        let closed = recovery.close_all(|sid, lost| (sid, lost) == ((0, 0), Attempt(1)));
        assert_eq!(closed, [(0, 0)]);
        assert_eq!(recovery.close((0, 0)), None);
        assert_eq!(recovery.close((0, 1)), Some(seconds(6)));
        assert_eq!(recovery.close((0, 1)), None);
    }
}
