//! What people have changed while the job runs: what is in force, who has heard of it, what waits.
//!
//! Changes are numbered as the ledger counts them. Whoever has heard of a number knows everything
//! up to it, because a worker is always told the whole of what is in force.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fence::Moment;

use super::attempt::Life;
use crate::message::{Steer, Steering};
use ledger_state;

/// Wishes that wait for the one before them to be committed.
const WAITING_MAX: usize = 64;

/// By how much the ledger's time may be behind where a schedule stands: it moves on with the next
/// entry only.
const LEDGER_TIME_BEHIND: Duration = Duration::from_secs(2);

/// Something that is in force.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    pub steer: Steer,
    /// Whoever has heard of this change, or a later one, knows it.
    pub number: u64,
    /// Where the schedule stood when it was committed, at the latest.
    pub committed: Duration,
}

/// A client who waits until everybody has heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub asked: u64,
    pub number: u64,
    pub until: Moment,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LiveControl {
    in_force: Vec<InForce>,
    /// The number of changes so far, as the ledger counts them.
    number: u64,
    /// Which of them is the last pause.
    pause_number: u64,
    /// Which number each worker has acknowledged.
    heard: BTreeMap<Life, u64>,
    /// Changes that wait to be written.
    queue: VecDeque<(u64, Steer)>,
    /// Clients that wait until everybody has heard.
    asked: Vec<Asked>,
    /// Since when the job is paused.
    paused: Option<Moment>,
}

impl LiveControl {
    /// What the owners before have committed.
    pub fn of(job: &ledger_state::Job, now_ms: u64, now: Moment) -> Self {
        let in_force = job.steered.iter().map(|one| InForce {
            steer: one.steer.clone(),
            number: job.steers,
            committed: Duration::from_millis(one.schedule_ms) + LEDGER_TIME_BEHIND,
        });
        // If there was a pause at all: who has heard of the last change knows it.
        let was_paused = job.paused_by_ms(now_ms) > 0 || job.is_paused();
        Self {
            in_force: in_force.collect(),
            number: job.steers,
            pause_number: if was_paused { job.steers } else { 0 },
            paused: job.is_paused().then_some(now),
            ..Self::default()
        }
    }

    // ── wishes ─────────────────────────────────────────────────────────────────────────────────

    /// False: too many wait already.
    pub fn wish(&mut self, asked: u64, steer: Steer) -> bool {
        let has_room = self.queue.len() < WAITING_MAX;
        if has_room {
            self.queue.push_back((asked, steer));
        }
        has_room
    }

    pub fn next_is_a_rate(&self) -> bool {
        matches!(self.queue.front(), Some((_, Steer::Rate { .. })))
    }

    pub fn next_wish(&mut self) -> Option<(u64, Steer)> {
        self.queue.pop_front()
    }

    // ── what is in force ───────────────────────────────────────────────────────────────────────

    /// A change is committed, when the schedule stands at `committed`. Says its number.
    pub fn add(&mut self, steer: &Steer, committed: Duration) -> u64 {
        self.in_force.retain(|other| !steer.replaces(&other.steer));
        let steer = steer.clone().following(self.in_force.iter().map(|one| &one.steer));
        self.number += 1;
        if steer == Steer::Pause {
            self.pause_number = self.number;
        }
        self.in_force.push(InForce { steer, number: self.number, committed });
        self.number
    }

    /// The number of the last change; zero if there was none.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn in_force(&self) -> &[InForce] {
        &self.in_force
    }

    /// All of it, as workers are told.
    pub fn steering(&self) -> Steering {
        let steers = self.in_force.iter().map(|one| one.steer.clone()).collect();
        Steering { number: self.number, steers }
    }

    // ── who has heard ──────────────────────────────────────────────────────────────────────────

    /// A worker follows this change, and those before it.
    pub fn has_heard(&mut self, life: Life, number: u64) {
        let heard = self.heard.entry(life).or_default();
        *heard = number.max(*heard);
    }

    /// Up to which number a worker is known to have heard; zero if nothing is known.
    pub fn heard_by(&self, life: Life) -> u64 {
        self.heard.get(&life).copied().unwrap_or(0)
    }

    /// Whether a worker may not know the last pause.
    pub fn may_miss_a_pause(&self, life: Life) -> bool {
        self.pause_number > self.heard_by(life)
    }

    /// A client waits until everybody has heard of this change.
    pub fn wait(&mut self, one: Asked) {
        self.asked.push(one);
    }

    pub fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    pub fn asked_until(&self) -> impl Iterator<Item = Moment> {
        self.asked.iter().map(|one| one.until)
    }

    // ── pauses ─────────────────────────────────────────────────────────────────────────────────

    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// False: it is paused already.
    pub fn pause(&mut self, now: Moment) -> bool {
        let begins = self.paused.is_none();
        self.paused.get_or_insert(now);
        begins
    }

    /// Says since when it was paused, if it was.
    pub fn resume(&mut self) -> Option<Moment> {
        self.paused.take()
    }

    /// A schedule begins, or is joined, at that moment: no pause before is any of its time.
    pub fn pause_not_before(&mut self, moment: Moment) {
        self.paused = self.paused.map(|since| since.max(moment));
    }

    /// For how long it has been paused at that moment.
    pub fn standing(&self, moment: Moment) -> Duration {
        self.paused.map_or(Duration::ZERO, |since| moment.since(since))
    }
}

#[cfg(test)]
mod tests {
    use fence::{BootId, NodeId, WorkflowNo};

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    fn vus(workflow: u32, vus: u32) -> Steer {
        Steer::Vus { workflow: WorkflowNo(workflow), vus }
    }

    #[test]
    fn the_last_wish_for_a_workflow_is_in_force_and_those_for_others_stay() {
        let mut control = LiveControl::default();
        for (place, steer) in [vus(0, 5), vus(1, 6), vus(0, 7)].iter().enumerate() {
            assert_eq!(control.add(steer, Duration::ZERO), place as u64 + 1);
        }
        let told = control.steering();
        assert_eq!((told.number, told.steers), (3, vec![vus(1, 6), vus(0, 7)]));
    }

    #[test]
    fn a_worker_that_has_heard_of_a_number_has_heard_of_all_before_it() {
        let mut control = LiveControl::default();
        let life = (NodeId(1), BootId(1));
        control.add(&Steer::Pause, Duration::ZERO);
        control.add(&vus(0, 5), Duration::ZERO);
        assert!(control.may_miss_a_pause(life));
        control.has_heard(life, 2);
        control.has_heard(life, 1);
        assert_eq!(control.heard_by(life), 2, "an older answer takes nothing back");
        assert!(!control.may_miss_a_pause(life));
        assert!(control.may_miss_a_pause((NodeId(1), BootId(2))), "another life has heard nothing");
    }

    #[test]
    fn wishes_are_written_in_their_order_and_only_so_many_wait() {
        let mut control = LiveControl::default();
        for number in 0..WAITING_MAX as u64 {
            assert!(control.wish(number, Steer::Resume));
        }
        assert!(!control.wish(99, Steer::Pause));
        assert_eq!(control.next_wish(), Some((0, Steer::Resume)));
        assert!(control.wish(99, Steer::Pause));
    }

    #[test]
    fn a_pause_counts_from_its_beginning_or_from_that_of_the_schedule() {
        let mut control = LiveControl::default();
        assert_eq!(control.standing(at(9)), Duration::ZERO);
        control.pause_not_before(at(1));
        assert!(!control.is_paused(), "nothing is paused by that");
        assert!(control.pause(at(2)) && !control.pause(at(5)));
        assert_eq!(control.standing(at(9)), Duration::from_secs(7));
        control.pause_not_before(at(6));
        control.pause_not_before(at(4));
        assert_eq!(control.standing(at(9)), Duration::from_secs(3));
        assert_eq!((control.resume(), control.resume()), (Some(at(6)), None));
    }
}
