//! What attempts are given while they run, rows of data sets and units of their schedule, and what
//! was lost of it.

use std::collections::BTreeMap;

use fence::Attempt;

use super::Sid;

#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    /// Rows that are on their way, by shard and data set, and how many were wanted again meanwhile.
    rows: BTreeMap<(Sid, u32), Option<u64>>,
    /// Grants of units are on their way into the ledger.
    granting: bool,
    /// Units that were begun, or may have been, and that nobody has counted.
    lost: BTreeMap<(Sid, Attempt), u64>,
}

impl Grants {
    // ── rows ───────────────────────────────────────────────────────────────────────────────────

    /// A shard wants rows. False: some are on their way. They may have arrived, and then this wish
    /// has overtaken the answer; so it is remembered.
    pub fn want_rows(&mut self, sid: Sid, set: u32, least: u64) -> bool {
        if let Some(again) = self.rows.get_mut(&(sid, set)) {
            *again = Some(least);
            return false;
        }
        self.rows.insert((sid, set), None);
        true
    }

    /// Rows are sent to the shard. What was wanted before was wanted for the same reason.
    pub fn send_rows(&mut self, sid: Sid, set: u32) {
        self.rows.insert((sid, set), None);
    }

    /// Rows have arrived, or never will. Says how many were wanted again meanwhile.
    pub fn end_rows(&mut self, sid: Sid, set: u32) -> Option<u64> {
        self.rows.remove(&(sid, set)).flatten()
    }

    /// A shard's attempt is over, and waits for no rows.
    pub fn forget_rows(&mut self, sid: Sid) {
        self.rows.retain(|(other, _), _| *other != sid);
    }

    // ── units ──────────────────────────────────────────────────────────────────────────────────

    pub fn is_granting(&self) -> bool {
        self.granting
    }

    /// One entry at a time holds what is due to everybody.
    pub fn set_granting(&mut self, granting: bool) {
        self.granting = granting;
    }

    /// So many units were lost with an attempt, by what is known now.
    pub fn lose(&mut self, sid: Sid, attempt: Attempt, count: u64) {
        self.lost.insert((sid, attempt), count);
    }

    /// What was lost with this attempt at a shard and with those after it.
    pub fn lost_since(&self, sid: Sid, attempt: Attempt) -> u64 {
        let since = self.lost.range((sid, attempt)..=(sid, Attempt(u32::MAX)));
        since.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }

    /// What was lost with all attempts at a shard.
    pub fn lost_of(&self, sid: Sid) -> u64 {
        self.lost_since(sid, Attempt(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_for_rows_that_are_on_their_way_is_remembered_until_they_are_sent() {
        let mut grants = Grants::default();
        assert!(grants.want_rows((0, 1), 3, 10));
        assert!(!grants.want_rows((0, 1), 3, 20));
        assert!(grants.want_rows((0, 1), 4, 10), "another data set");
        assert!(grants.want_rows((0, 2), 3, 10), "another shard");
        grants.send_rows((0, 1), 3);
        assert_eq!(grants.end_rows((0, 1), 3), None, "wanted before they were sent");
        assert!(grants.want_rows((0, 1), 3, 10));
        grants.send_rows((0, 1), 3);
        grants.want_rows((0, 1), 3, 30);
        assert_eq!(grants.end_rows((0, 1), 3), Some(30), "wanted after they were sent");
    }

    #[test]
    fn an_attempt_that_is_over_waits_for_no_rows_of_any_set() {
        let mut grants = Grants::default();
        for (sid, set) in [((0, 1), 3), ((0, 1), 4), ((0, 2), 3)] {
            grants.want_rows(sid, set, 1);
        }
        grants.forget_rows((0, 1));
        assert!(grants.want_rows((0, 1), 3, 1) && grants.want_rows((0, 1), 4, 1));
        assert!(!grants.want_rows((0, 2), 3, 1));
    }

    #[test]
    fn losses_are_summed_over_attempts_and_the_last_word_on_each_counts() {
        let mut grants = Grants::default();
        grants.lose((0, 1), Attempt(1), 5);
        grants.lose((0, 1), Attempt(2), 7);
        grants.lose((0, 1), Attempt(2), 8);
        grants.lose((0, 2), Attempt(1), 100);
        assert_eq!(grants.lost_of((0, 1)), 13);
        assert_eq!(grants.lost_since((0, 1), Attempt(2)), 8);
        assert_eq!(grants.lost_since((0, 1), Attempt(3)), 0);
    }
}
