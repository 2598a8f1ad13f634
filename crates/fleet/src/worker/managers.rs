//! The managers that membership offers, and the ways to them.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control::fleet::codec::{Message, Renewals};
use control::fleet::message::{Frames, FramesAnswer, Renew, Tell, Told};
use fence::NodeId;
use membership::State;
use membership::agent::View;
use node::network::Channels;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};
use trust::{Expected, Role};

use crate::wire::proto::Sealed;
use crate::wire::proto::office_client::OfficeClient;
use crate::wire::{MESSAGE_BYTES_MAX, seal, unseal};

/// For one message and its answer.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Managers {
    me: NodeId,
    channels: Channels,
    /// In the order in which this worker tries them.
    known: Mutex<Vec<(NodeId, SocketAddr)>>,
}

impl Managers {
    pub fn new(me: NodeId, channels: Channels) -> Self {
        Self { me, channels, known: Mutex::default() }
    }

    /// Takes the view's living managers; says their order if something has changed.
    pub fn update(&self, view: &View) -> Option<Vec<NodeId>> {
        let mut living: Vec<_> = view
            .entries
            .iter()
            .filter(|entry| entry.peer.role == Role::Manager)
            .filter(|entry| !matches!(entry.state, State::Dead | State::Left))
            .map(|entry| {
                // Every worker has its own favourite, so that renewals spread over the managers.
                let doubtful = entry.state != State::Confirmed;
                (doubtful, self.preference(entry.peer.node), entry.peer.node, entry.peer.address)
            })
            .collect();
        living.sort_unstable();
        let living: Vec<_> = living.into_iter().map(|(_, _, node, at)| (node, at)).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == living {
            return None;
        }
        *known = living;
        Some(known.iter().map(|(node, _)| *node).collect())
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
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(node, _)| *node).collect()
    }

    pub fn office(&self, node: NodeId) -> Option<OfficeClient<Channel>> {
        let address = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().find(|(other, _)| *other == node)?.1
        };
        let channel = self.channels.to(address, Expected { role: Role::Manager, node: Some(node) });
        let client = OfficeClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Some(client)
    }

    pub async fn tell(&self, to: NodeId, tell: &Tell) -> Result<Told, Status> {
        self.call(to, tell, async |mut office, sealed| office.tell(sealed).await).await
    }

    pub async fn renew(&self, to: NodeId, renew: &Renew) -> Result<Renewals, Status> {
        self.call(to, renew, async |mut office, sealed| office.renew(sealed).await).await
    }

    pub async fn frames(&self, to: NodeId, frames: &Frames) -> Result<FramesAnswer, Status> {
        self.call(to, frames, async |mut office, sealed| office.frames(sealed).await).await
    }

    async fn call<Q: Message, A: Message>(
        &self,
        to: NodeId,
        question: &Q,
        send: impl AsyncFnOnce(OfficeClient<Channel>, Sealed) -> Result<Response<Sealed>, Status>,
    ) -> Result<A, Status> {
        let office = self.office(to);
        let office = office.ok_or_else(|| Status::unavailable("membership does not know it"))?;
        let sealed = seal(question)?;
        let answered = timeout(CALL_WITHIN, send(office, sealed)).await;
        let answer = answered.map_err(|_| Status::deadline_exceeded("no answer in time"))??;
        unseal(answer.get_ref())
    }
}
