//! What nodes tell about themselves at the moment it happens, for the checks between two steps.
//!
//! Nodes hold their observer across threads in the real world, so it owns nothing: the notes lie
//! with the thread.

use std::cell::RefCell;

use fence::NodeId;
use ledger::Observer;
use ledger_state::{BlobRef, Reply, RequestId};

#[derive(Clone, Debug)]
pub enum Notice {
    Applied { host: usize, index: u64, digest: u64 },
    Leader { host: usize, node: NodeId, term: u64 },
    Acknowledged { request: RequestId, reply: Reply },
    Blob { blob: BlobRef },
}

thread_local! {
    static NOTICES: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) };
}

fn note(notice: Notice) {
    NOTICES.with_borrow_mut(|notices| notices.push(notice));
}

/// What was noted since the last time, in order.
pub fn take() -> Vec<Notice> {
    NOTICES.take()
}

pub struct Watch {
    pub host: usize,
}

impl Observer for Watch {
    fn wants_digests(&self) -> bool {
        true
    }

    fn applied(&self, _: NodeId, index: u64, digest: u64) {
        note(Notice::Applied { host: self.host, index, digest });
    }

    fn became_leader(&self, node: NodeId, term: u64) {
        note(Notice::Leader { host: self.host, node, term });
    }

    fn acknowledged(&self, _: NodeId, request: RequestId, reply: &Reply) {
        note(Notice::Acknowledged { request, reply: reply.clone() });
    }

    fn blob_acknowledged(&self, _: NodeId, blob: &BlobRef) {
        note(Notice::Blob { blob: *blob });
    }
}
