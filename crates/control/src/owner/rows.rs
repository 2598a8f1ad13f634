//! Rows of data sets that running shards are given.

use fence::{Attempt, ShardKey};

use super::{Errand, Owner, Purpose, Sid};
use crate::message::RowBlock;
use ledger_state::{Command, Reply};

/// Rows given out at a time: few enough that little is lost with a worker, many enough that it seldom asks.
const ROWS_AT_ONCE: u64 = 4_096;

impl Owner {
    pub(super) fn rows_wanted(&mut self, key: ShardKey, attempt: Attempt, set: u32, least: u64) {
        let sid = (key.workflow.0, key.shard);
        let shard = self.shards.get(&sid).filter(|shard| shard.key == key);
        let current = shard.is_some_and(|shard| shard.attempt() == attempt && shard.is_out());
        let Some(data) = self.manifest.data.get(set as usize).filter(|_| current) else {
            self.counts.late += 1;
            return;
        };
        if let Some(again) = self.rows.get_mut(&(sid, set)) {
            // They may have arrived: then this wish has overtaken the answer, and must not be lost.
            *again = Some(least);
            self.counts.repeats += 1;
            return;
        }
        self.rows.insert((sid, set), None);
        let of = if data.recycle { u64::MAX } else { data.rows };
        let shards = self.divided.values().sum::<u32>().max(1);
        let share = data.rows / (8 * u64::from(shards));
        let count = least.max(share.min(ROWS_AT_ONCE)).max(1);
        let epoch = self.epoch;
        let command = Command::GrantRows { shard: key, epoch, attempt, set, count, of };
        self.commit(Purpose::Rows { sid, attempt, set }, command);
    }

    pub(super) fn rows_granted(&mut self, sid: Sid, attempt: Attempt, set: u32, reply: &Reply) {
        let &Reply::Rows { first, end, .. } = reply else {
            self.rows.remove(&(sid, set));
            return;
        };
        let rows = RowBlock { set, first, end };
        // What was wanted before they were sent was wanted for the same reason.
        self.rows.insert((sid, set), None);
        if self.shards.get(&sid).is_some_and(|shard| shard.attempt() == attempt && shard.is_out()) {
            self.send(Errand::Rows { sid, attempt, rows });
        } else {
            self.rows.remove(&(sid, set));
        }
    }
}
