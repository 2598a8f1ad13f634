//! Blob transfers: what is being stored beside the ledger or fetched from there, and what for.

use std::collections::BTreeMap;

use fence::Attempt;
use sha2::{Digest, Sha256};

use super::Sid;
use super::context::Values;
use ledger_state::BlobRef;

/// A blob that is being stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Store {
    /// A report on its way to the ledger.
    Report(Sid, Attempt),
    /// A stage's values.
    Context(Values),
}

/// A blob that a new owner needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fetch {
    /// A committed stage's values.
    Context,
    /// A shard's report.
    Report(Sid),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Blobs {
    storing: BTreeMap<u64, Store>,
    fetching: BTreeMap<u64, Fetch>,
}

impl Blobs {
    pub fn store(&mut self, tag: u64, what: Store) {
        self.storing.insert(tag, what);
    }

    pub fn fetch(&mut self, tag: u64, what: Fetch) {
        self.fetching.insert(tag, what);
    }

    /// `None`: it was stored before, or nobody asked for it.
    pub fn stored(&mut self, tag: u64) -> Option<Store> {
        self.storing.remove(&tag)
    }

    /// `None`: it was fetched before, or nobody asked for it.
    pub fn fetched(&mut self, tag: u64) -> Option<Fetch> {
        self.fetching.remove(&tag)
    }

    /// Whether a blob is being stored under this tag.
    pub fn is_storing(&self, tag: u64) -> bool {
        self.storing.contains_key(&tag)
    }
}

/// The name of a content: its hash and its length.
#[must_use]
pub fn blob_of(content: &[u8]) -> BlobRef {
    BlobRef { hash: Sha256::digest(content).into(), bytes: content.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_ends_once_and_only_by_its_own_kind_of_answer() {
        let mut blobs = Blobs::default();
        blobs.store(1, Store::Report((0, 3), Attempt(2)));
        blobs.fetch(2, Fetch::Report((0, 4)));
        assert_eq!(blobs.fetched(1), None);
        assert!(blobs.is_storing(1));
        assert_eq!(blobs.stored(1), Some(Store::Report((0, 3), Attempt(2))));
        assert_eq!(blobs.stored(1), None);
        assert_eq!(blobs.fetched(2), Some(Fetch::Report((0, 4))));
        assert_eq!(blobs.fetched(2), None);
    }

    #[test]
    fn a_blob_is_named_by_its_hash_and_length() {
        let name = blob_of(b"abc");
        assert_eq!(name.bytes, 3);
        assert_eq!(name.hash[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_ne!(name, blob_of(b"abd"));
    }
}
