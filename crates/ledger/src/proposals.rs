//! The leader's side of a write: many commands, one log entry.
//!
//! openraft waits for the disk after every entry, so commands that arrive meanwhile share the next
//! one. One task takes what waits, and at most two entries are under way.
//!
//! ```text
//! callers ─▶ bounded queue ─▶ batch ─▶ Raft entry ─▶ one answer per command
//!              │                 │
//!              full: refused     a caller whose deadline has passed before here: not committed; after: unknown
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fence::{Epoch, GroupId, NodeId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ledger_state::Proposal;
use openraft::error::ClientWriteError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Duration, Instant, timeout_at};

use crate::answer::{Answer, NotCommitted, Overload, Redirect};
use crate::config::Limits;
use crate::metrics::Metrics;
use crate::standing::Standing;
use crate::store::Applied;
use crate::timekeeper::LedgerClock;
use crate::types::{Batch, Raft, Vote};

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Decides one question once: was the command taken for an entry, or had its caller given up
/// before?
#[derive(Default)]
struct Ticket(AtomicU8);

impl Ticket {
    fn settle(&self, to: u8) -> bool {
        self.0.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

struct Item {
    proposal: Proposal,
    bytes: usize,
    ticket: Arc<Ticket>,
    answer: oneshot::Sender<Answer>,
    _room: OwnedSemaphorePermit,
}

/// Where proposals are handed in.
pub(crate) struct Queue {
    items: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
    proposal_bytes: usize,
}

impl Queue {
    /// Waits for the answer until the deadline.
    pub(crate) async fn propose(&self, proposal: Proposal, deadline: Instant) -> Answer {
        let bytes = match postcard::experimental::serialized_size(&proposal) {
            Ok(bytes) => bytes,
            Err(error) => return Answer::Not(NotCommitted::Refused(error.to_string())),
        };
        if bytes > self.proposal_bytes {
            let limit = self.proposal_bytes as u64;
            return Answer::Not(NotCommitted::TooLarge { bytes: bytes as u64, limit });
        }
        let overloaded = |what| Answer::Not(NotCommitted::Overloaded { what });
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(bytes as u32) else {
            return overloaded(Overload::QueueBytes);
        };
        let (answer, mut answered) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        let item = Item { proposal, bytes, ticket: Arc::clone(&ticket), answer, _room: room };
        match self.items.try_send(item) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return overloaded(Overload::QueueCount),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                return Answer::Not(NotCommitted::Stopped("shutting down".to_owned()));
            }
        }
        match timeout_at(deadline, &mut answered).await {
            Ok(Ok(answer)) => answer,
            // Nobody will answer any more: the node stops. What was taken may be in the log.
            Ok(Err(_)) if ticket.settle(GIVEN_UP) => {
                Answer::Not(NotCommitted::Stopped("shutting down".to_owned()))
            }
            Err(_) if ticket.settle(GIVEN_UP) => Answer::Not(NotCommitted::Deadline),
            Ok(Err(_)) | Err(_) => answered.try_recv().unwrap_or(Answer::Unknown),
        }
    }
}

/// What a node needs to write entries while it leads.
#[derive(Clone)]
pub(crate) struct Leading {
    pub(crate) me: NodeId,
    pub(crate) raft: Raft,
    /// For so long a majority counts as there after it was heard.
    pub(crate) patience: Duration,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) group: watch::Receiver<Option<GroupId>>,
    pub(crate) applied: Arc<Applied>,
    pub(crate) time: Arc<LedgerClock>,
}

/// The task behind a [`Queue`].
pub(crate) struct Batcher {
    leading: Leading,
    limits: Limits,
    metrics: Arc<Metrics>,
    items: mpsc::Receiver<Item>,
}

/// A queue and what its task needs; [`Batcher::run`] is the task.
pub(crate) fn queue(leading: Leading, limits: Limits, metrics: Arc<Metrics>) -> (Queue, Batcher) {
    let (sender, items) = mpsc::channel(limits.queue_proposals);
    let room = limits.queue_bytes.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
    let queue = Queue {
        items: sender,
        room: Arc::new(Semaphore::new(room)),
        proposal_bytes: limits.proposal_bytes.min(room),
    };
    (queue, Batcher { leading, limits, metrics, items })
}

impl Batcher {
    pub(crate) async fn run(mut self) {
        let mut waiting: VecDeque<Item> = VecDeque::new();
        let mut arrived = Vec::new();
        let mut writes = FuturesUnordered::new();
        loop {
            let room = writes.len() < self.limits.entries_in_flight;
            if room && let Some(batch) = self.next_batch(&mut waiting) {
                writes.push(Write(self.leading.clone()).run(batch));
                continue;
            }
            tokio::select! {
                biased;
                Some(()) = writes.next(), if !writes.is_empty() => {}
                count = self.items.recv_many(&mut arrived, self.limits.batch_proposals),
                    if room && waiting.is_empty() =>
                {
                    if count == 0 {
                        break;
                    }
                    waiting.extend(arrived.drain(..));
                }
            }
        }
        while writes.next().await.is_some() {}
    }

    /// Takes what fits into one entry. If this node must not write at the moment, everything that
    /// waits is answered.
    fn next_batch(&self, waiting: &mut VecDeque<Item>) -> Option<Vec<Item>> {
        if waiting.is_empty() {
            return None;
        }
        if let Err(why) = self.may_write() {
            for item in waiting.drain(..) {
                if item.ticket.settle(GIVEN_UP) {
                    let _ = item.answer.send(Answer::Not(why.clone()));
                }
            }
            return None;
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(item) = waiting.front() {
            if !batch.is_empty() && bytes + item.bytes > self.limits.batch_bytes {
                break;
            }
            bytes += item.bytes;
            let Some(item) = waiting.pop_front() else { break };
            if item.ticket.settle(TAKEN) {
                batch.push(item);
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.metrics.batch_size.record(batch.len() as u64);
        Some(batch)
    }

    fn may_write(&self) -> Result<(), NotCommitted> {
        let standing = self.leading.standing.borrow();
        if let Some(why) = &standing.stopped {
            return Err(NotCommitted::Stopped(why.clone()));
        }
        if !standing.leading {
            return Err(not_leader(&standing));
        }
        if !standing.claims(Instant::now(), self.leading.patience) {
            return Err(NotCommitted::NoQuorum);
        }
        Ok(())
    }
}

/// Where to go instead.
pub(crate) fn not_leader(standing: &Standing) -> NotCommitted {
    let leader = standing.leader.as_ref().filter(|(node, _)| *node != standing.me);
    let leader =
        leader.map(|(node, member)| Redirect { node: *node, address: member.address.clone() });
    NotCommitted::NotLeader { leader }
}

/// One entry on its way.
struct Write(Leading);

impl Write {
    async fn run(mut self, batch: Vec<Item>) {
        let (proposals, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|item| (item.proposal, (item.answer, item._room))).unzip();
        let count = proposals.len();
        let answers = self.write(proposals).await;
        let answers = match answers {
            Ok(answers) if answers.len() == count => answers,
            Ok(answers) => {
                tracing::error!(
                    count,
                    got = answers.len(),
                    "an entry with the wrong number of answers"
                );
                vec![Answer::Unknown; count]
            }
            Err(answer) => vec![answer; count],
        };
        for ((caller, room), answer) in callers.into_iter().zip(answers) {
            drop(room);
            // A caller who has gone away has been told "unknown".
            let _ = caller.send(answer);
        }
    }

    /// Whether it was appended is decided exactly: the vote is read in Raft's own task right before
    /// and right after the entry is handed over, and a node whose vote is the same both times and
    /// not its own has refused it at once. A refusal that comes later, because another leader has
    /// cut the entry off, proves nothing: a third node may still hold it.
    async fn write(&mut self, proposals: Vec<Proposal>) -> Result<Vec<Answer>, Answer> {
        let Leading { me, raft, applied, time, .. } = &self.0;
        let me = *me;
        let Some(group) = *self.0.group.borrow() else {
            return Err(Answer::Not(NotCommitted::NoLeader));
        };
        let stopped = || Answer::Not(NotCommitted::Stopped("Raft has stopped".to_owned()));
        let before = self.probe();
        let time_ms = time.now(applied.read(ledger_state::State::now_ms));
        let batch = Batch { time_ms, proposals };
        let mut written = raft.client_write_ff(batch).await.map_err(|_| stopped())?;
        let after = self.probe();
        let before = before.await.map_err(|_| Answer::Unknown)?;
        let after = after.await.map_err(|_| Answer::Unknown)?;
        let mine = |vote: &Vote| vote.is_committed() && vote.leader_id().voted_for() == Some(me);

        if before == after && !mine(&before) {
            return Err(Answer::Not(not_leader(&self.0.standing.borrow())));
        }
        let result = loop {
            tokio::select! {
                biased;
                result = &mut written => break result,
                changed = self.0.standing.changed() => {
                    // Another vote: this node no longer leads, and may never learn what became of
                    // the entry.
                    let lost = {
                        let standing = self.0.standing.borrow_and_update();
                        standing.stopped.is_some() || standing.vote > after
                    };
                    if lost || changed.is_err() {
                        match written.try_recv() {
                            Ok(result) => break Ok(result),
                            Err(_) => return Err(Answer::Unknown),
                        }
                    }
                }
            }
        };
        match result {
            Ok(Ok(done)) => {
                let index = done.log_id.index;
                let answers = done.data.into_iter().zip(0u32..).map(|(reply, position)| {
                    // At most 65,536 commands are in an entry: the settings are checked at the
                    // start.
                    let epoch = Epoch::at(group, index, position as u16);
                    Answer::Committed { reply, epoch }
                });
                Ok(answers.collect())
            }
            Ok(Err(ClientWriteError::ForwardToLeader(_))) | Err(_) => Err(Answer::Unknown),
            Ok(Err(ClientWriteError::ChangeMembershipError(error))) => {
                Err(Answer::Not(NotCommitted::Refused(error.to_string())))
            }
        }
    }

    fn probe(&self) -> oneshot::Receiver<Vote> {
        let (tell, told) = oneshot::channel();
        self.0.raft.external_request(move |state| {
            let _ = tell.send(*state.vote_ref());
        });
        told
    }
}
