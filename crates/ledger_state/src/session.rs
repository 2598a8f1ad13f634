//! Sessions: which proposals are retries, and what was answered to them.
//!
//! A session is one life of one node. Its requests are numbered; an answer is kept until the node
//! says that it has it. So a proposal that reaches the log twice is executed once. Where the ledger
//! cannot know any more whether a request was executed, it refuses: a lower start, a closed
//! session, a number at or below the settled one.

use std::collections::BTreeMap;

use fence::{BootId, Epoch, NodeId};
use serde::{Deserialize, Serialize};

use super::command::{Command, Proposal, SessionId};
use super::limits::Limits;
use super::reply::{Refusal, Reply};

/// The last known life of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub boot: BootId,
    pub opened: Epoch,
    /// By the ledger's time.
    pub used_ms: u64,
    /// Closed to make room. It stays as a memory of the start, so that nothing of it runs again.
    pub closed: bool,
    pub settled: u64,
    /// Answers above `settled`, by request number.
    pub answers: BTreeMap<u64, Reply>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sessions {
    by_node: BTreeMap<NodeId, Session>,
}

/// What to do with a proposal.
pub(super) enum Admission {
    Execute,
    /// Answered without executing anything.
    Answer(Reply),
}

impl Sessions {
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &Session)> {
        self.by_node.iter().map(|(node, session)| (*node, session))
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Session> {
        self.by_node.get(&node)
    }

    /// Whether this life of the node is the present one.
    pub(super) fn require(&self, id: SessionId) -> Result<&Session, Refusal> {
        let session = self.by_node.get(&id.node).ok_or(Refusal::UnknownSession)?;
        session.require(id.boot)?;
        Ok(session)
    }

    /// Decides whether a proposal is to be executed. Forgets what the proposer says it has.
    pub(super) fn admit(
        &mut self,
        proposal: &Proposal,
        epoch: Epoch,
        now_ms: u64,
        limits: &Limits,
    ) -> Admission {
        let id = proposal.request.session;
        if proposal.command == Command::OpenSession {
            return Admission::Answer(self.open(id, epoch, now_ms, limits));
        }
        let Some(session) = self.by_node.get_mut(&id.node) else {
            return Admission::Answer(Reply::Refused(Refusal::UnknownSession));
        };
        match session.admit(proposal, now_ms, limits) {
            Ok(None) => Admission::Execute,
            Ok(Some(reply)) => Admission::Answer(reply),
            Err(refusal) => Admission::Answer(Reply::Refused(refusal)),
        }
    }

    /// Keeps the answer for retries.
    pub(super) fn keep(&mut self, proposal: &Proposal, reply: &Reply) {
        if let Some(session) = self.by_node.get_mut(&proposal.request.session.node) {
            session.answers.insert(proposal.request.seq, reply.clone());
        }
    }

    fn open(&mut self, id: SessionId, epoch: Epoch, now_ms: u64, limits: &Limits) -> Reply {
        let known = self.by_node.get_mut(&id.node);
        if let Some(session) = known
            && session.boot >= id.boot
        {
            return match session.require(id.boot) {
                Ok(()) => {
                    session.used_ms = now_ms;
                    Reply::SessionOpened { epoch: session.opened }
                }
                Err(refusal) => Reply::Refused(refusal),
            };
        }
        if let Err(refusal) = self.make_room(id.node, now_ms, limits) {
            return Reply::Refused(refusal);
        }
        let session = Session {
            boot: id.boot,
            opened: epoch,
            used_ms: now_ms,
            closed: false,
            settled: 0,
            answers: BTreeMap::new(),
        };
        self.by_node.insert(id.node, session);
        Reply::SessionOpened { epoch }
    }

    /// Closes the session that has been silent for longest, if there is no other way. The search is
    /// over `limits.sessions` at most plus the memories, and only when the table is full.
    fn make_room(&mut self, node: NodeId, now_ms: u64, limits: &Limits) -> Result<(), Refusal> {
        let known = self.by_node.get(&node);
        let open = self.by_node.len();
        if known.is_none() && open >= limits.session_records as usize {
            return Err(Refusal::SessionsFull { limit: limits.session_records });
        }
        if known.is_some_and(|session| !session.closed) || open < limits.sessions as usize {
            return Ok(());
        }
        let open = self.by_node.values().filter(|session| !session.closed).count();
        if open < limits.sessions as usize {
            return Ok(());
        }
        let full = Refusal::SessionsFull { limit: limits.sessions };
        let idlest = self.by_node.iter_mut().filter(|(_, session)| !session.closed);
        let (_, idlest) =
            idlest.min_by_key(|(node, session)| (session.used_ms, **node)).ok_or(full)?;
        if now_ms.saturating_sub(idlest.used_ms) < limits.session_idle_ms {
            return Err(full);
        }
        idlest.closed = true;
        idlest.answers = BTreeMap::new();
        Ok(())
    }
}

impl Session {
    fn require(&self, boot: BootId) -> Result<(), Refusal> {
        if boot < self.boot {
            return Err(Refusal::StaleBoot { current: self.boot });
        }
        if boot > self.boot {
            return Err(Refusal::UnknownSession);
        }
        if self.closed {
            return Err(Refusal::SessionClosed { boot });
        }
        Ok(())
    }

    /// `None`: to be executed.
    fn admit(
        &mut self,
        proposal: &Proposal,
        now_ms: u64,
        limits: &Limits,
    ) -> Result<Option<Reply>, Refusal> {
        self.require(proposal.request.session.boot)?;
        self.used_ms = now_ms;
        if proposal.settled > self.settled {
            self.settled = proposal.settled;
            while self.answers.first_key_value().is_some_and(|(seq, _)| *seq <= self.settled) {
                self.answers.pop_first();
            }
        }
        let (seq, settled) = (proposal.request.seq, self.settled);
        if seq <= settled {
            return Err(Refusal::RequestForgotten { settled });
        }
        if seq - settled > u64::from(limits.window) {
            return Err(Refusal::WindowFull { settled, window: limits.window });
        }
        Ok(self.answers.get(&seq).cloned())
    }
}
