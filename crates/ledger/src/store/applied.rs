//! The state machine as everybody in this process may look at it.
//!
//! The lock is held for one look or one entry, never across an `await`. Whoever waits for an entry
//! to be applied watches the index.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fence::GroupId;
use ledger_state::{Limits, Reply, State};
use tokio::sync::watch;

use super::record::{MembersAt, Position};
use crate::types::Batch;

/// The state, and the place in the log that it stands for. Taken together, so that a snapshot says
/// neither more nor less.
#[derive(Clone, Debug)]
pub struct Instant {
    pub state: State,
    /// Unknown until the node has founded or joined a group; no command can be applied before.
    pub group: Option<GroupId>,
    pub last: Option<Position>,
    pub members: MembersAt,
}

impl Instant {
    pub fn empty(group: Option<GroupId>, limits: Limits) -> Self {
        let state = State::new(group.unwrap_or_default(), limits);
        Self { state, group, last: None, members: MembersAt::default() }
    }
}

/// Read access to what was applied.
pub struct Applied {
    now: RwLock<Instant>,
    index: watch::Sender<Option<u64>>,
}

impl Applied {
    pub(super) fn new(now: Instant) -> Self {
        let index = watch::Sender::new(now.last.map(|last| last.index));
        Self { now: RwLock::new(now), index }
    }

    fn now(&self) -> RwLockReadGuard<'_, Instant> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_mut(&self) -> RwLockWriteGuard<'_, Instant> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state. Applying waits meanwhile, so look briefly.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.now().state)
    }

    /// The index of the last entry that was applied; none yet at the very beginning.
    pub fn index(&self) -> Option<u64> {
        *self.index.borrow()
    }

    /// Changes with every entry that is applied.
    pub fn watch(&self) -> watch::Receiver<Option<u64>> {
        self.index.subscribe()
    }

    pub fn last(&self) -> Option<Position> {
        self.now().last
    }

    pub fn members(&self) -> MembersAt {
        self.now().members.clone()
    }

    pub fn group(&self) -> Option<GroupId> {
        self.now().group
    }

    /// Everything at one instant.
    pub fn copy(&self) -> Instant {
        self.now().clone()
    }

    /// Gives an empty state its group. Before that no command is applied, so nothing is lost.
    pub(super) fn set_group(&self, group: GroupId, limits: Limits) {
        let mut now = self.now_mut();
        if now.group != Some(group) {
            now.state = State::new(group, limits);
            now.group = Some(group);
        }
    }

    /// Applies the commands of one entry. `None`: the group is not known, nothing was applied.
    pub(super) fn commands(&self, at: Position, batch: &Batch) -> Option<Vec<Reply>> {
        let replies = {
            let mut now = self.now_mut();
            now.group?;
            now.last = Some(at);
            now.state.pass(at.index, batch.time_ms);
            now.state.apply(at.index, &batch.proposals)
        };
        self.index.send_replace(Some(at.index));
        Some(replies)
    }

    /// Passes over an entry without commands.
    pub(super) fn pass(&self, at: Position, members: Option<MembersAt>) {
        {
            let mut now = self.now_mut();
            now.last = Some(at);
            if let Some(members) = members {
                now.members = members;
            }
        }
        self.index.send_replace(Some(at.index));
    }

    /// Takes over a snapshot as a whole.
    pub(super) fn replace(&self, instant: Instant) {
        let index = instant.last.map(|last| last.index);
        *self.now_mut() = instant;
        self.index.send_replace(index);
    }
}
