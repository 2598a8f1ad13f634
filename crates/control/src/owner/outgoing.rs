//! Everything that leaves the owner: effects in their order, each request under a tag of its own.

use fence::{Moment, NodeId};

use super::Effect;
use super::blobs::{Blobs, Fetch, Store, blob_of};
use super::calls::{Call, Calls, Returned};
use super::commits::{Commits, Purpose};
use crate::message::WorkerRequest;
use ledger_state::{BlobRef, Command};

#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    effects: Vec<Effect>,
    /// The last one that was given out.
    tag: u64,
    /// Rises with every change, so that driving stops when nothing changes any more.
    changes: u64,
    commits: Commits,
    calls: Calls,
    blobs: Blobs,
}

impl Outgoing {
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Something is other than before, so something more may be due.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn tag(&mut self) -> u64 {
        self.tag += 1;
        self.tag
    }

    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    // ── the ledger ─────────────────────────────────────────────────────────────────────────────

    pub fn commit(&mut self, purpose: Purpose, command: Command) {
        let tag = self.tag();
        self.commits.add(tag, purpose, command);
        self.changed();
    }

    /// Proposes what waits, as far as the limit allows.
    pub fn propose(&mut self, at_once: usize) {
        while let Some((tag, command)) = self.commits.next(at_once) {
            self.effects.push(Effect::Commit { tag, command });
        }
    }

    pub fn committed(&mut self, tag: u64) -> Option<Purpose> {
        self.commits.answered(tag)
    }

    // ── workers ────────────────────────────────────────────────────────────────────────────────

    pub fn call(&mut self, call: Call, retries: u32, worker: NodeId, request: WorkerRequest) {
        let tag = self.tag();
        self.effects.push(match call {
            Call::Probe(..) => Effect::Probe { tag, worker, request },
            _ => Effect::Call { tag, worker, request },
        });
        self.calls.made(tag, call, retries, worker);
    }

    /// A call that had been made `retries` times is made once more at that time.
    pub fn call_later(&mut self, at: Moment, call: Call, retries: u32) {
        let number = self.tag();
        self.calls.make_later(at, number, call, retries.saturating_add(1));
    }

    pub fn next_call(&mut self, now: Moment) -> Option<(Call, u32)> {
        self.calls.next_due(now)
    }

    pub fn returned(&mut self, tag: u64) -> Option<Returned> {
        self.calls.returned(tag)
    }

    pub fn answered(&mut self, tag: u64, took: std::time::Duration) -> Option<Returned> {
        let returned = self.calls.returned(tag)?;
        self.calls.took(returned.worker, took);
        Some(returned)
    }

    // ── blobs ──────────────────────────────────────────────────────────────────────────────────

    pub fn store(&mut self, what: Store, content: Vec<u8>) {
        let tag = self.tag();
        self.blobs.store(tag, what);
        self.effects.push(Effect::Store { tag, blob: blob_of(&content), content });
        self.changed();
    }

    pub fn fetch(&mut self, what: Fetch, blob: BlobRef) {
        let tag = self.tag();
        self.blobs.fetch(tag, what);
        self.effects.push(Effect::Fetch { tag, blob });
    }

    pub fn stored(&mut self, tag: u64) -> Option<Store> {
        self.blobs.stored(tag)
    }

    /// `Err`: there is nothing to fetch under this tag; true if something is being stored under it.
    pub fn fetched(&mut self, tag: u64) -> Result<Fetch, bool> {
        self.blobs.fetched(tag).ok_or_else(|| self.blobs.is_storing(tag))
    }

    // ── the end ────────────────────────────────────────────────────────────────────────────────

    /// No call is made again.
    pub fn drop_retries(&mut self) {
        self.calls.drop_retries();
    }

    /// Nothing that has not left yet ever will.
    pub fn drop_waiting(&mut self) {
        self.commits.drop_backlog();
        self.calls.drop_retries();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fence::BootId;

    use super::*;

    #[test]
    fn every_request_has_a_tag_of_its_own_whatever_kind_it_is() {
        let mut out = Outgoing::default();
        let inspect = || WorkerRequest::Inspect { job: None };
        let worker = NodeId(1);
        out.store(Store::Context(Default::default()), vec![1]);
        out.call(Call::Capacity(worker), 0, worker, inspect());
        out.call(Call::Probe(worker, BootId(1)), 0, worker, inspect());
        let tags: Vec<(u64, bool)> = out
            .take()
            .iter()
            .map(|effect| match effect {
                Effect::Store { tag, .. } | Effect::Call { tag, .. } => (*tag, false),
                Effect::Probe { tag, .. } => (*tag, true),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tags, [(1, false), (2, false), (3, true)]);
        assert!(out.take().is_empty());
    }

    #[test]
    fn a_call_that_is_made_later_counts_one_retry_more() {
        let mut out = Outgoing::default();
        let due = Moment::default().after(Duration::from_millis(5));
        out.call_later(due, Call::Capacity(NodeId(1)), 3);
        assert_eq!(out.next_call(Moment::default()), None);
        assert_eq!(out.next_call(due), Some((Call::Capacity(NodeId(1)), 4)));
    }
}
