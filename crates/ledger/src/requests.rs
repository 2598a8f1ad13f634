//! The requests of this life of this node: numbered once, settled in order, kept while their
//! outcome is unknown.
//!
//! The ledger keeps the answer to a request until the node says that it has it (`settled`). An
//! outcome that stays unknown holds that line back, so there is a bound: when the window is full,
//! the oldest unknown one is forgotten, and its caller will never learn the outcome. It is never
//! run a second time either way.

use std::collections::BTreeMap;

use ledger_state::{Proposal, RequestId, SessionId};

#[derive(Debug)]
enum Open {
    /// Somebody waits for it.
    Running,
    /// Nobody waits, and nobody knows; kept for a retry.
    Unknown(Box<Proposal>),
}

#[derive(Debug)]
pub(crate) struct Requests {
    session: SessionId,
    window: u64,
    next: u64,
    open: BTreeMap<u64, Open>,
}

impl Requests {
    pub(crate) fn new(session: SessionId, window: usize) -> Self {
        Self { session, window: window as u64, next: 1, open: BTreeMap::new() }
    }

    /// Every answer up to here was received.
    pub(crate) fn settled(&self) -> u64 {
        self.open.first_key_value().map_or(self.next, |(first, _)| *first) - 1
    }

    /// A new request, with what is settled at the moment; none if too many are open.
    pub(crate) fn begin(&mut self) -> Option<(RequestId, u64)> {
        while self.next - self.settled() > self.window {
            let oldest = self.open.first_entry()?;
            if matches!(oldest.get(), Open::Running) {
                return None;
            }
            oldest.remove();
        }
        let seq = self.next;
        let settled = self.settled();
        self.next += 1;
        self.open.insert(seq, Open::Running);
        Some((RequestId { session: self.session, seq }, settled))
    }

    /// The outcome is known, or it is known that nothing was ever sent.
    pub(crate) fn close(&mut self, seq: u64) {
        self.open.remove(&seq);
    }

    pub(crate) fn unknown(&mut self, proposal: Proposal) {
        if let Some(open) = self.open.get_mut(&proposal.request.seq) {
            *open = Open::Unknown(Box::new(proposal));
        }
    }

    /// Takes an unknown request up again. None if it is not unknown, or was forgotten.
    pub(crate) fn retry(&mut self, request: RequestId) -> Option<Proposal> {
        if request.session != self.session {
            return None;
        }
        let open = self.open.get_mut(&request.seq)?;
        match std::mem::replace(open, Open::Running) {
            Open::Unknown(proposal) => Some(*proposal),
            Open::Running => None,
        }
    }

    /// How many have no answer yet, and how many of them nobody waits for.
    pub(crate) fn count(&self) -> (usize, usize) {
        let unknown = self.open.values().filter(|open| matches!(open, Open::Unknown(_))).count();
        (self.open.len(), unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fence::{BootId, Hlc, NodeId};
    use ledger_state::Command;

    fn requests(window: usize) -> Requests {
        Requests::new(SessionId { node: NodeId(1), boot: BootId(1) }, window)
    }

    fn proposal(request: RequestId) -> Proposal {
        Proposal { request, settled: 0, at: Hlc::default(), command: Command::OpenSession }
    }

    /// IDEM-32: numbers rise by one, and the line of the settled stops at the first open one.
    #[test]
    fn what_is_settled_stops_at_the_first_open_request() {
        let mut requests = requests(10);
        let seqs: Vec<u64> = (0..4).map(|_| requests.begin().unwrap().0.seq).collect();
        assert_eq!(seqs, [1, 2, 3, 4]);
        requests.close(2);
        requests.close(3);
        assert_eq!(requests.settled(), 0);
        requests.close(1);
        assert_eq!(requests.settled(), 3);
        let (five, settled) = requests.begin().unwrap();
        assert_eq!((five.seq, settled), (5, 3));
    }

    #[test]
    fn a_full_window_refuses_and_forgets_only_what_nobody_waits_for() {
        let mut requests = requests(2);
        let (one, _) = requests.begin().unwrap();
        let (two, _) = requests.begin().unwrap();
        assert!(requests.begin().is_none(), "somebody waits for the first");
        requests.unknown(proposal(one));
        assert_eq!(requests.count(), (2, 1));
        let (three, settled) = requests.begin().unwrap();
        assert_eq!((three.seq, settled), (3, 1));
        assert!(requests.retry(one).is_none(), "forgotten");
        requests.close(two.seq);
    }

    /// LEDG-69: a retry keeps its number, and only one retry runs at a time.
    #[test]
    fn an_unknown_request_is_taken_up_again_under_its_number() {
        let mut requests = requests(2);
        let (one, _) = requests.begin().unwrap();
        assert!(requests.retry(one).is_none(), "still running");
        requests.unknown(proposal(one));
        assert_eq!(requests.retry(one).unwrap().request, one);
        assert!(requests.retry(one).is_none(), "already taken up");
        let mut other = one;
        other.session.boot = BootId(2);
        assert!(requests.retry(other).is_none(), "of another life");
    }
}
