//! The managers that membership offers, and the ways to them.
//!
//! Each has a circuit breaker of its own (GATE-69). While it is open, tells and statistics go to
//! the others at once instead of waiting for a manager that does not answer. Renewals are never
//! refused by a breaker: it only makes that manager the last one to be asked. And when no other is
//! left, everything is tried.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use control::breaker::{self, Breakers, Change, Failure, Outcome, Permit};
use control::codec::{Message, Renewals};
use control::message::{FrameBatch, FrameBatchAck, RenewRequest, ReportAck, WorkerReport};
use fence::{BootId, Moment, NodeId};
use membership::State;
use membership::agent::View;
use node::network::Channels;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};
use trust::{Expected, Role};

use super::actor::now;
use super::job::lock;
use crate::verdict;
use crate::wire::proto::Envelope;
use crate::wire::proto::worker_reports_client::WorkerReportsClient;
use crate::wire::{MESSAGE_BYTES_MAX, seal, unseal};

/// For one message and its answer.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    node: NodeId,
    boot: BootId,
    address: SocketAddr,
}

struct Board {
    /// In the order in which this worker tries them.
    known: Vec<Known>,
    /// Those that membership offers and the group does not know: asked for nothing but the group.
    strangers: Vec<Known>,
    breakers: Breakers<(NodeId, BootId)>,
}

impl Board {
    fn find(&self, node: NodeId) -> Option<Known> {
        self.known.iter().find(|known| known.node == node).copied()
    }

    fn is_open(&self, known: &Known, now: Moment) -> bool {
        self.breakers.state((known.node, known.boot), now) == breaker::State::Open
    }

    /// None: its breaker is open, and another manager may do.
    fn permit(&mut self, to: Known, what: What, now: Moment) -> Option<Permit> {
        let target = (to.node, to.boot);
        let mut others = self.known.iter().filter(|known| known.node != to.node);
        let is_last = !others.any(|other| !self.is_open(other, now));
        match self.breakers.ask(target, now) {
            None if is_last || what == What::Renewal => Some(self.breakers.insist(target, now)),
            permit => permit,
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The load stops without it.
    Renewal,
    /// It is said again until it is heard.
    Report,
}

pub(super) struct Managers {
    me: NodeId,
    channels: Channels,
    board: Mutex<Board>,
}

impl Managers {
    pub fn new(me: NodeId, channels: Channels, settings: breaker::Settings) -> Self {
        let (known, strangers) = (Vec::new(), Vec::new());
        let board = Board { known, strangers, breakers: Breakers::new(settings) };
        Self { me, channels, board: Mutex::new(board) }
    }

    /// Takes the view's living managers; says their order if something has changed.
    pub fn update(
        &self,
        view: &View,
        is_stranger: impl Fn(NodeId) -> bool,
        now: Moment,
    ) -> Option<Vec<NodeId>> {
        let mut board = lock(&self.board);
        let mut living: Vec<_> = view
            .entries
            .iter()
            .filter(|entry| entry.peer.role == Role::Manager)
            .filter(|entry| !matches!(entry.state, State::Dead | State::Left))
            .map(|entry| {
                // Every worker has its own favourite, so that renewals spread over the managers.
                let membership::Peer { node, boot, address, .. } = entry.peer;
                let known = Known { node, boot, address };
                let doubtful = board.is_open(&known, now) || entry.state != State::Confirmed;
                ((doubtful, self.preference(node)), known)
            })
            .collect();
        living.sort_unstable_by_key(|(place, known)| (*place, known.node));
        let living = living.into_iter().map(|(_, known)| known);
        let (strangers, living): (Vec<Known>, Vec<Known>) =
            living.partition(|known| is_stranger(known.node));
        board.strangers = strangers;
        let is_there = |(node, boot)| living.iter().any(|k| (k.node, k.boot) == (node, boot));
        board.breakers.retain(is_there);
        let is_news = board.known != living;
        board.known = living;
        is_news.then(|| board.known.iter().map(|known| known.node).collect())
    }

    /// How often a breaker has opened, and how many are not closed.
    pub fn breakers(&self) -> (u64, u64) {
        let board = lock(&self.board);
        (board.breakers.opened(), board.breakers.not_closed() as u64)
    }

    /// Whether there is somebody better to turn to than this one, for now.
    pub fn is_avoided(&self, node: NodeId, now: Moment) -> bool {
        let board = lock(&self.board);
        board.find(node).is_some_and(|known| board.is_open(&known, now))
    }

    fn preference(&self, node: NodeId) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update(self.me.0.to_be_bytes());
        hash.update(node.0.to_be_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        first
    }

    pub fn order(&self) -> Vec<NodeId> {
        lock(&self.board).known.iter().map(|known| known.node).collect()
    }

    /// Everybody, strangers too.
    pub fn all(&self) -> Vec<NodeId> {
        let board = lock(&self.board);
        board.known.iter().chain(&board.strangers).map(|known| known.node).collect()
    }

    pub fn reports(&self, node: NodeId) -> Option<WorkerReportsClient<Channel>> {
        let known = {
            let board = lock(&self.board);
            let mut all = board.known.iter().chain(&board.strangers);
            *all.find(|known| known.node == node)?
        };
        Some(self.reports_of(&known))
    }

    fn reports_of(&self, known: &Known) -> WorkerReportsClient<Channel> {
        let expected = Expected { role: Role::Manager, node: Some(known.node) };
        let channel = self.channels.to(known.address, expected);
        WorkerReportsClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub async fn report(&self, to: NodeId, tell: &WorkerReport) -> Result<ReportAck, Status> {
        self.call(to, What::Report, tell, async |mut reports, sealed| reports.report(sealed).await)
            .await
    }

    pub async fn renew(&self, to: NodeId, renew: &RenewRequest) -> Result<Renewals, Status> {
        let what = What::Renewal;
        self.call(to, what, renew, async |mut reports, sealed| reports.renew(sealed).await).await
    }

    pub async fn frames(&self, to: NodeId, frames: &FrameBatch) -> Result<FrameBatchAck, Status> {
        let what = What::Report;
        self.call(to, what, frames, async |mut reports, sealed| reports.push_frames(sealed).await)
            .await
    }

    async fn call<Q: Message, A: Message>(
        &self,
        to: NodeId,
        what: What,
        question: &Q,
        send: impl AsyncFnOnce(
            WorkerReportsClient<Channel>,
            Envelope,
        ) -> Result<Response<Envelope>, Status>,
    ) -> Result<A, Status> {
        let unknown = || Status::unavailable("membership does not know it");
        let known = lock(&self.board).find(to).ok_or_else(unknown)?;
        let reports = self.reports_of(&known);
        let sealed = seal(question)?;
        let Some(permit) = lock(&self.board).permit(known, what, now()) else {
            return Err(Status::unavailable("it has not answered lately; others are asked first"));
        };
        let answered = timeout(CALL_WITHIN, send(reports, sealed)).await;
        let outcome = match &answered {
            Ok(Ok(_)) => Some(Outcome::Answered),
            Ok(Err(status)) => verdict::of_status(status),
            Err(_) => Some(Outcome::Failed(Failure::NoAnswer)),
        };
        if let Some(outcome) = outcome {
            self.note(known, permit, outcome);
        }
        let answer = answered.map_err(|_| Status::deadline_exceeded("no answer in time"))??;
        unseal(answer.get_ref())
    }

    fn note(&self, known: Known, permit: Permit, outcome: Outcome) {
        let mut board = lock(&self.board);
        let target = (known.node, known.boot);
        let change = board.breakers.note(target, permit, outcome, now());
        let why = board.breakers.tripped(target);
        drop(board);
        let manager = known.node;
        match (change, why) {
            (Some(Change::Opened), Some(why)) => {
                tracing::warn!(%manager, "others are asked first for now: {why}");
            }
            (Some(Change::Closed), _) => tracing::info!(%manager, "answers again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::since_boot(Duration::from_secs(1_000 + seconds))
    }

    fn board(managers: u16) -> (Board, Vec<Known>) {
        let known: Vec<Known> = (1..=managers)
            .map(|n| Known {
                node: NodeId(n.into()),
                boot: BootId(1),
                address: SocketAddr::from(([127, 0, 0, 1], n)),
            })
            .collect();
        let breakers = Breakers::new(breaker::Settings::default());
        (Board { known: known.clone(), strangers: Vec::new(), breakers }, known)
    }

    /// Does not answer until its breaker is open, which is at second 6.
    fn silence(board: &mut Board, of: Known) {
        for second in [0, 2, 4] {
            let permit = board.permit(of, What::Report, at(second)).unwrap();
            let outcome = Outcome::Failed(Failure::NoAnswer);
            let _ = board.breakers.note((of.node, of.boot), permit, outcome, at(second + 2));
        }
        assert!(board.is_open(&of, at(6)));
    }

    /// GATE-69, ARCH-9, ARCH-136: an open breaker sends words to the other managers at once, and
    /// concerns nobody else; after the cool-down one word goes out as the trial.
    #[test]
    fn words_go_past_a_manager_that_does_not_answer() {
        let (mut board, known) = board(3);
        silence(&mut board, known[0]);
        assert!(board.permit(known[0], What::Report, at(7)).is_none());
        for other in &known[1..] {
            assert!(!board.is_open(other, at(7)));
            assert!(board.permit(*other, What::Report, at(7)).is_some());
        }
        let trial = board.permit(known[0], What::Report, at(16)).unwrap();
        assert!(board.permit(known[0], What::Report, at(16)).is_none(), "one trial");
        let target = (known[0].node, known[0].boot);
        let change = board.breakers.note(target, trial, Outcome::Answered, at(17));
        assert_eq!(change, Some(Change::Closed));
        assert!(board.permit(known[0], What::Report, at(17)).is_some());
    }

    /// R4: no renewal waits for a breaker, in whatever state it is.
    #[test]
    fn renewals_are_never_held_back() {
        let (mut board, known) = board(2);
        silence(&mut board, known[0]);
        for second in 6..40 {
            assert!(board.permit(known[0], What::Renewal, at(second)).is_some(), "{second}");
        }
    }

    /// When no other manager is left, everything is tried.
    #[test]
    fn the_last_manager_is_always_tried() {
        let (mut alone, known) = board(1);
        silence(&mut alone, known[0]);
        assert!(alone.permit(known[0], What::Report, at(7)).is_some());

        let (mut two, known) = board(2);
        silence(&mut two, known[0]);
        assert!(two.permit(known[0], What::Report, at(7)).is_none());
        silence(&mut two, known[1]);
        assert!(two.permit(known[0], What::Report, at(7)).is_some());
        assert!(two.permit(known[1], What::Report, at(7)).is_some());
    }
}
