//! One cell that holds the newest snapshot.
//!
//! Not a channel: a reader that falls behind should skip to now, and a writer should never wait or
//! queue.

use std::sync::{Arc, Mutex, PoisonError};

use stats::Snapshot;

/// Cheap to clone; all clones share the cell.
#[derive(Clone, Default)]
pub struct Latest {
    cell: Arc<Mutex<Cell>>,
}

#[derive(Default)]
struct Cell {
    /// How many have been published; 0: none yet.
    sequence: u64,
    snapshot: Option<Arc<Snapshot>>,
}

impl Latest {
    pub fn new() -> Latest {
        Latest::default()
    }

    /// The lock is held for two assignments, never while anything is drawn.
    pub fn publish(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.sequence += 1;
        // Dropped after the lock is released.
        let _old = cell.snapshot.replace(snapshot);
        drop(cell);
    }

    pub fn get(&self) -> Option<Arc<Snapshot>> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner).snapshot.clone()
    }

    /// The newest snapshot if it is newer than the one last seen.
    pub fn newer(&self, seen: &mut u64) -> Option<Arc<Snapshot>> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        if cell.sequence == *seen {
            return None;
        }
        *seen = cell.sequence;
        cell.snapshot.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_skips_to_the_newest_and_sees_each_at_most_once() {
        let latest = Latest::new();
        let mut seen = 0;
        assert!(latest.newer(&mut seen).is_none());
        for plan in ["a", "b", "c"] {
            latest.publish(Snapshot { plan: plan.into(), ..Snapshot::default() });
        }
        assert_eq!(latest.newer(&mut seen).unwrap().plan, "c");
        assert!(latest.newer(&mut seen).is_none());
        assert_eq!(latest.get().unwrap().plan, "c");
    }
}
