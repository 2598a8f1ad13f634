//! All shards of a job, by workflow and number.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Attempt, Moment, NodeId, ShardKey};

use super::attempt::{AttemptState, Life};
use super::shard::Shard;
use crate::message::Task;

/// Workflow and shard by number. Setups and teardowns have the number after the last workflow.
pub(super) type Sid = (u32, u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    table: BTreeMap<Sid, Shard>,
}

impl Shards {
    pub fn get(&self, sid: &Sid) -> Option<&Shard> {
        self.table.get(sid)
    }

    pub fn get_mut(&mut self, sid: &Sid) -> Option<&mut Shard> {
        self.table.get_mut(sid)
    }

    /// The shard of that name, if it is one of this job's.
    pub fn find(&self, key: &ShardKey) -> Option<&Shard> {
        self.table.get(&sid_of(key)).filter(|shard| shard.key == *key)
    }

    pub fn find_mut(&mut self, key: &ShardKey) -> Option<&mut Shard> {
        self.table.get_mut(&sid_of(key)).filter(|shard| shard.key == *key)
    }

    pub fn insert(&mut self, sid: Sid, shard: Shard) {
        self.table.insert(sid, shard);
    }

    /// A shard that is new, unless it is known.
    pub fn add(&mut self, key: ShardKey, task: Task) {
        self.table.entry(sid_of(&key)).or_insert_with(|| Shard::new(key, task));
    }

    pub fn contains(&self, sid: &Sid) -> bool {
        self.table.contains_key(sid)
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn sids(&self) -> Vec<Sid> {
        self.table.keys().copied().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Sid, &Shard)> {
        self.table.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Sid, &mut Shard)> {
        self.table.iter_mut()
    }

    pub fn values(&self) -> impl Iterator<Item = &Shard> {
        self.table.values()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.table.values_mut()
    }

    pub fn of(&self, workflow: usize) -> impl Iterator<Item = &Shard> + Clone {
        let number = u32::try_from(workflow).unwrap_or(u32::MAX);
        self.table.range((number, 0)..=(number, u32::MAX)).map(|(_, shard)| shard)
    }

    pub fn sids_of(&self, workflow: u32) -> Vec<Sid> {
        self.table.range((workflow, 0)..=(workflow, u32::MAX)).map(|(sid, _)| *sid).collect()
    }

    // ── attempts ───────────────────────────────────────────────────────────────────────────────

    /// The last attempt at a shard.
    pub fn current(&self, sid: &Sid) -> Option<&AttemptState> {
        self.table.get(sid)?.current()
    }

    pub fn attempt(&self, sid: &Sid, attempt: Attempt) -> Option<&AttemptState> {
        self.table.get(sid)?.get(attempt)
    }

    pub fn attempt_mut(&mut self, sid: &Sid, attempt: Attempt) -> Option<&mut AttemptState> {
        self.table.get_mut(sid)?.attempt_mut(attempt)
    }

    /// Whether this is the last attempt at its shard.
    pub fn is_current(&self, sid: &Sid, attempt: Attempt) -> bool {
        self.table.get(sid).is_some_and(|shard| shard.attempt() == attempt)
    }

    /// Whether this is the last attempt at its shard, and is on its worker as far as is known.
    pub fn is_out(&self, sid: &Sid, attempt: Attempt) -> bool {
        let shard = self.table.get(sid);
        shard.is_some_and(|shard| shard.attempt() == attempt && shard.is_out())
    }

    /// Attempts that are on their workers, as far as is known.
    pub fn out(&self) -> impl Iterator<Item = &AttemptState> {
        self.table.values().filter(|shard| shard.is_out()).filter_map(Shard::current)
    }

    /// Workers that have an attempt.
    pub fn lives_out(&self) -> BTreeSet<Life> {
        self.out().map(AttemptState::life).collect()
    }

    pub fn is_out_on(&self, life: Life) -> bool {
        self.out().any(|one| one.life() == life)
    }

    /// Any attempt was ever started.
    pub fn have_begun(&self) -> bool {
        self.table.values().any(|shard| !shard.attempts.is_empty())
    }

    // ── signs of life ──────────────────────────────────────────────────────────────────────────

    /// The leases of these attempts were renewed for this life of a worker.
    pub fn renewed(&mut self, life: Life, attempts: &[(ShardKey, Attempt)], now: Moment) {
        for (key, attempt) in attempts {
            let one = self.find_mut(key).and_then(|shard| shard.attempt_mut(*attempt));
            if let Some(one) = one.filter(|one| one.life() == life) {
                one.is_alive(now);
            }
        }
    }

    /// A worker has said something, about whatever.
    pub fn heard_from(&mut self, worker: NodeId, now: Moment) {
        let last = self.table.values_mut().filter_map(|shard| shard.attempts.last_mut());
        last.filter(|one| one.worker == worker).for_each(|one| one.is_alive(now));
    }

    /// Nobody could be heard for so long, and nobody is judged by it.
    pub fn stood_still(&mut self, time: Duration) {
        for one in self.table.values_mut().filter_map(|shard| shard.attempts.last_mut()) {
            one.alive = one.alive.after(time);
        }
    }
}

pub(super) fn sid_of(key: &ShardKey) -> Sid {
    (key.workflow.0, key.shard)
}

#[cfg(test)]
mod tests {
    use fence::{BootId, JobId, LeaseTerms, WorkflowNo};

    use super::*;
    use crate::owner::shard::Step;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    fn key(job: u128, workflow: u32, shard: u32) -> ShardKey {
        ShardKey { job: JobId(job), workflow: WorkflowNo(workflow), shard }
    }

    fn attempt(node: u128, boot: u64) -> AttemptState {
        let lease = LeaseTerms::new(Duration::from_secs(12));
        AttemptState::new((NodeId(node), BootId(boot)), lease, Duration::ZERO, at(0))
    }

    /// Two shards of workflow 0: the first at its second attempt, which runs; the second is idle.
    fn shards() -> Shards {
        let mut shards = Shards::default();
        shards.add(key(1, 0, 0), Task::Load);
        shards.add(key(1, 0, 1), Task::Load);
        let first = shards.get_mut(&(0, 0)).unwrap();
        first.attempts = vec![attempt(7, 1), attempt(8, 1)];
        first.step = Step::Running;
        shards
    }

    fn alive(shards: &Shards, number: u32) -> Moment {
        shards.attempt(&(0, 0), Attempt(number)).unwrap().alive
    }

    #[test]
    fn a_shard_of_another_job_is_not_found_by_its_numbers() {
        let shards = shards();
        assert!(shards.find(&key(1, 0, 1)).is_some());
        assert!(shards.find(&key(2, 0, 1)).is_none());
        assert!(shards.find(&key(1, 0, 2)).is_none());
    }

    #[test]
    fn only_the_last_attempt_of_a_shard_that_is_on_its_worker_is_out() {
        let mut shards = shards();
        assert!(shards.is_out(&(0, 0), Attempt(2)) && !shards.is_out(&(0, 0), Attempt(1)));
        assert!(shards.is_current(&(0, 0), Attempt(2)));
        assert!(shards.is_out_on((NodeId(8), BootId(1))));
        assert!(
            !shards.is_out_on((NodeId(8), BootId(2))) && !shards.is_out_on((NodeId(7), BootId(1)))
        );
        shards.get_mut(&(0, 0)).unwrap().step = Step::Ending;
        assert!(shards.lives_out().is_empty());
        assert!(shards.have_begun());
    }

    #[test]
    fn a_renewal_counts_for_that_life_of_the_worker_and_a_word_for_its_last_attempt() {
        let mut shards = shards();
        let both = [1, 2].map(|number| (key(1, 0, 0), Attempt(number)));
        shards.renewed((NodeId(8), BootId(2)), &both, at(5));
        assert_eq!((alive(&shards, 1), alive(&shards, 2)), (at(0), at(0)));
        shards.renewed((NodeId(7), BootId(1)), &both, at(5));
        assert_eq!((alive(&shards, 1), alive(&shards, 2)), (at(5), at(0)));
        shards.heard_from(NodeId(7), at(6));
        shards.heard_from(NodeId(8), at(6));
        assert_eq!((alive(&shards, 1), alive(&shards, 2)), (at(5), at(6)));
    }

    #[test]
    fn a_known_shard_is_not_added_again() {
        let mut shards = shards();
        shards.add(key(1, 0, 0), Task::Load);
        assert_eq!(shards.get(&(0, 0)).unwrap().attempt(), Attempt(2));
        assert_eq!(shards.sids_of(0), [(0, 0), (0, 1)]);
        assert!(shards.sids_of(1).is_empty());
    }
}
