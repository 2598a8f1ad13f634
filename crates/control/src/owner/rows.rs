//! Rows of data sets that running shards are given.

use fence::canary::{self, Canary};
use fence::{Attempt, ShardKey};

use super::calls::Call;
use super::commits::Purpose;
use super::{Owner, Sid};
use crate::message::RowBlock;
use ledger_state::{Command, Reply};

/// Rows given out at a time: few enough that little is lost with a worker, many enough that it
/// seldom asks.
const ROWS_AT_ONCE: u64 = 4_096;

impl Owner {
    pub(super) fn rows_wanted(&mut self, key: ShardKey, attempt: Attempt, set: u32, least: u64) {
        let sid = (key.workflow.0, key.shard);
        let shard = self.shards.get(&sid).filter(|shard| shard.key == key);
        let current = shard.is_some_and(|shard| shard.attempt() == attempt && shard.is_out());
        let Some(data) = self.spec.manifest().data.get(set as usize).filter(|_| current) else {
            self.journal.count_late();
            return;
        };
        if !self.grants.want_rows(sid, set, least) {
            return self.journal.count_repeat();
        }
        let of = if data.recycle { u64::MAX } else { data.rows };
        let shards = self.workflows.shards_in_all().max(1);
        let share = data.rows / (8 * u64::from(shards));
        let count = least.max(share.min(ROWS_AT_ONCE)).max(1);
        let epoch = self.spec.epoch();
        let command = Command::GrantRows { shard: key, epoch, attempt, set, count, of };
        self.outgoing.commit(Purpose::Rows { sid, attempt, set }, command);
    }

    pub(super) fn rows_granted(&mut self, sid: Sid, attempt: Attempt, set: u32, reply: &Reply) {
        let &Reply::Rows { first, end, .. } = reply else {
            self.grants.end_rows(sid, set);
            return;
        };
        let overlap = u64::from(canary::active(Canary::RowsOverlap));
        let rows = RowBlock { set, first: first.saturating_sub(overlap), end };
        if self.shards.is_out(&sid, attempt) {
            self.grants.send_rows(sid, set);
            self.send(Call::Rows { sid, attempt, rows });
        } else {
            self.grants.end_rows(sid, set);
        }
    }
}
