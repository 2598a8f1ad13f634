//! The Raft log in memory: the entries since the last purge, encoded, and the vote.
//!
//! The same rules serve the running node and the replay at start, so that both come to the same
//! log. During a replay the entries that were purged already are kept: the newest snapshot may turn
//! out to be damaged, and the one before it then needs them.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::record::{Ballot, Base, Leader, Position, Record, Stored};

#[derive(Clone, Debug)]
struct Slot {
    leader: Leader,
    content: Arc<[u8]>,
    /// Bytes of all entries up to and with this one, counted from the start of the process.
    end: u64,
}

/// Entries without a gap, and what was decided about them.
#[derive(Clone, Debug, Default)]
pub struct LiveLog {
    /// Index of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    /// Value of `end` before the first slot.
    start: u64,
    purged: Option<Position>,
    vote: Option<Ballot>,
    committed: Option<Position>,
}

/// Entries that do not follow on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub expected: u64,
    pub found: u64,
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(f, "entry {found} where entry {expected} should follow: the log has a hole")
    }
}

impl LiveLog {
    /// Takes up one record of the log, in the order of the log. For a replay.
    pub fn replay(&mut self, record: Record) -> Result<(), Hole> {
        match record {
            Record::Entry(stored) => {
                let Position { leader, index } = stored.position;
                if self.purged.is_some_and(|purged| index <= purged.index) {
                    return Ok(());
                }
                self.cut(index);
                // The beginning of the write-ahead log may be gone, so the first entry may have any
                // index. Whether a snapshot reaches up to it is looked at when the replay is over.
                if let Some(last) = self.last_index()
                    && index != last + 1
                {
                    return Err(Hole { expected: last + 1, found: index });
                }
                self.push(leader, index, stored.content);
            }
            Record::Truncate { from } => self.cut(from.max(self.first_open())),
            Record::Base(base) => {
                self.vote = base.vote;
                self.committed = base.committed;
                if let Some(purged) = base.purged {
                    self.set_purged(purged);
                }
            }
            Record::Vote(ballot) => self.vote = Some(ballot),
            Record::Committed(position) => self.committed = Some(position),
        }
        Ok(())
    }

    /// Ends a replay: the entries that the snapshot at `snapshot` covers are dropped, and those
    /// that it lacks must be here.
    pub fn settle(&mut self, snapshot: Option<Position>) -> Result<(), Hole> {
        let covered = snapshot.map_or(0, |position| position.index + 1);
        let needed = match (self.slots.is_empty(), self.purged) {
            (false, _) => self.first,
            (true, Some(purged)) => purged.index + 1,
            (true, None) => 0,
        };
        if covered < needed {
            return Err(Hole { expected: covered, found: needed });
        }
        // The snapshot that the purge was for is not there: an older one is, or none at all.
        if let Some(purged) = self.purged
            && snapshot.is_none_or(|snapshot| snapshot.index < purged.index)
        {
            let next = self.last_index().map_or(self.first, |last| last + 1);
            if next <= purged.index {
                return Err(Hole { expected: next, found: purged.index + 1 });
            }
            self.purged = snapshot;
        }
        if let Some(purged) = self.purged {
            self.forget_through(purged.index);
        }
        if let (Some(committed), Some(last)) = (self.committed, self.last())
            && committed.index > last.index
        {
            self.committed = Some(last);
        }
        Ok(())
    }

    /// Whether these entries may be appended as they are, and from where on old ones have to make
    /// room.
    pub fn check_append(&self, first: u64) -> Result<Option<u64>, Hole> {
        let next = match (self.last_index(), self.purged) {
            (Some(last), _) => last + 1,
            (None, Some(purged)) => purged.index + 1,
            // An empty log takes any beginning: the consensus says where it is.
            (None, None) => first,
        };
        if first > next {
            return Err(Hole { expected: next, found: first });
        }
        Ok((first < next && !self.slots.is_empty()).then_some(first))
    }

    /// Appends what `check_append` has let pass; entries that a snapshot covers already are passed
    /// over.
    pub fn append(&mut self, stored: Stored) {
        let Position { leader, index } = stored.position;
        if self.purged.is_none_or(|purged| index > purged.index) {
            self.cut(index);
            self.push(leader, index, stored.content);
        }
    }

    fn push(&mut self, leader: Leader, index: u64, content: Arc<[u8]>) {
        if self.slots.is_empty() {
            self.first = index;
        }
        let end = self.end() + content.len() as u64;
        self.slots.push_back(Slot { leader, content, end });
    }

    /// The first index that is not in a snapshot for certain.
    fn first_open(&self) -> u64 {
        self.purged.map_or(0, |purged| purged.index + 1)
    }

    /// Drops the entries from `from` on.
    pub fn cut(&mut self, from: u64) {
        let keep = from.saturating_sub(self.first).min(self.slots.len() as u64);
        self.slots.truncate(keep as usize);
    }

    /// Notes that everything up to `purged` is in a snapshot. Entries that do not continue from
    /// there were never part of the committed log, and go. Says whether the entries up to `purged`
    /// lead to it, so that they are of use to an older snapshot.
    pub fn set_purged(&mut self, purged: Position) -> bool {
        if self.purged.is_some_and(|before| before.index > purged.index) {
            return true;
        }
        let conflict = self.leader_at(purged.index).is_some_and(|leader| leader != purged.leader);
        let gap = self.last_index().is_some_and(|last| last < purged.index);
        if conflict || gap {
            self.cut(self.first);
        }
        if self.leader_at(purged.index + 1).is_some_and(|leader| leader < purged.leader) {
            self.cut(purged.index + 1);
        }
        self.purged = Some(purged);
        !conflict && !gap
    }

    /// Frees the memory of entries up to `index`.
    pub fn forget_through(&mut self, index: u64) {
        while !self.slots.is_empty() && self.first <= index {
            if let Some(slot) = self.slots.pop_front() {
                self.start = slot.end;
                self.first += 1;
            }
        }
    }

    pub fn set_vote(&mut self, vote: Ballot) {
        self.vote = Some(vote);
    }

    pub fn set_committed(&mut self, committed: Option<Position>) {
        self.committed = committed;
    }

    /// What a base record has to carry.
    pub fn base(&self, purged: Position) -> Base {
        Base { purged: Some(purged), vote: self.vote, committed: self.committed }
    }

    pub fn vote(&self) -> Option<Ballot> {
        self.vote
    }

    pub fn committed(&self) -> Option<Position> {
        self.committed
    }

    pub fn purged(&self) -> Option<Position> {
        self.purged
    }

    /// The last entry, or the last one purged.
    pub fn last(&self) -> Option<Position> {
        match (self.last_index(), self.slots.back()) {
            (Some(index), Some(slot)) => Some(Position { leader: slot.leader, index }),
            _ => self.purged,
        }
    }

    fn last_index(&self) -> Option<u64> {
        (!self.slots.is_empty()).then(|| self.first + self.slots.len() as u64 - 1)
    }

    fn leader_at(&self, index: u64) -> Option<Leader> {
        let slot = index.checked_sub(self.first)?;
        Some(self.slots.get(usize::try_from(slot).ok()?)?.leader)
    }

    /// The entries of a range, as many as are there; at most `bytes` of content, but at least one.
    pub fn read(&self, range: Range<u64>, bytes: u64) -> Vec<Stored> {
        let mut found = Vec::new();
        let mut sum = 0;
        let from = range.start.max(self.first);
        let to = range.end.min(self.first + self.slots.len() as u64);
        for index in from..to {
            let slot = &self.slots[(index - self.first) as usize];
            sum += slot.content.len() as u64;
            if !found.is_empty() && sum > bytes {
                break;
            }
            let position = Position { leader: slot.leader, index };
            found.push(Stored { position, content: slot.content.clone() });
        }
        found
    }

    pub fn entries(&self) -> u64 {
        self.slots.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.end() - self.start
    }

    fn end(&self) -> u64 {
        self.slots.back().map_or(self.start, |slot| slot.end)
    }

    /// Bytes of the entries behind `index`: what a snapshot made at `index` would have to be
    /// completed with.
    pub fn bytes_after(&self, index: Option<u64>) -> u64 {
        let covered = match index {
            Some(index) if index >= self.first => {
                let slot = usize::try_from(index - self.first).unwrap_or(usize::MAX);
                self.slots.get(slot).map_or(self.end(), |slot| slot.end)
            }
            _ => self.start,
        };
        self.end() - covered
    }
}

#[cfg(test)]
mod tests {
    use fence::NodeId;

    use super::*;

    fn at(index: u64) -> Position {
        Position { leader: Leader { term: 1, node: NodeId(1) }, index }
    }

    /// Ten entries, of which the first seven were purged for a snapshot.
    fn purged() -> LiveLog {
        let mut log = LiveLog::default();
        for index in 0..10 {
            let stored = Stored { position: at(index), content: Arc::new([0]) };
            log.replay(Record::Entry(stored)).unwrap();
        }
        log.replay(Record::Base(Base { purged: Some(at(6)), vote: None, committed: None }))
            .unwrap();
        log
    }

    /// LEDG-82: what was purged for a snapshot that is gone is there again, as far back as it is
    /// needed.
    #[test]
    fn a_purge_whose_snapshot_is_gone_is_taken_back() {
        for (snapshot, first) in [(Some(9), 7), (Some(6), 7), (Some(3), 4), (None, 0)] {
            let mut log = purged();
            log.settle(snapshot.map(at)).unwrap();
            let kept = log.read(0..10, u64::MAX);
            assert_eq!(kept.first().map(|stored| stored.position.index), Some(first));
            assert_eq!(log.purged().map(|purged| purged.index), first.checked_sub(1));
        }
    }

    /// LEDG-82: and where the log does not reach back that far, it is refused.
    #[test]
    fn a_log_that_begins_behind_its_snapshot_is_refused() {
        let mut log = purged();
        log.forget_through(4);
        assert_eq!(log.clone().settle(None), Err(Hole { expected: 0, found: 5 }));
        assert_eq!(log.settle(Some(at(3))), Err(Hole { expected: 4, found: 5 }));
    }
}
