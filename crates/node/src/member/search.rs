//! Finding peers on the real network: the dialer of discovery, and what it reports.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};

use fence::{BootId, NodeId};
use membership::agent::View;
use membership::discovery::{Bootstrap, Counts, Dialer, Hello, Notice, Phase, ProbeFailure};
use membership::{Peer, Role};
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;
use trust::{Expected, HandshakeError};

use super::{End, Inner, Known, exchange, lock, look_for};
use crate::identity::Life;
use crate::network::{ChannelTiming, ConnectError, channel_on};
use crate::wire::{self, Introduction, Malformed, proto};

/// As many as the gossip knocks at.
const KNOCKS_MAX: usize = 64;
/// How many notices are kept for the debug page.
const NOTICES_MAX: usize = 32;

/// Where the search stands.
#[derive(Clone, Debug)]
pub struct Search {
    pub phase: Phase,
    pub looked_around: bool,
    pub candidates: usize,
    pub counts: Counts,
    /// Who was refused last, or has refused us, and why.
    pub refused: Option<(SocketAddr, trust::Refusal)>,
    /// What an operator should hear of, newest last; the last few.
    pub notices: VecDeque<String>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            phase: Phase::Initial,
            looked_around: false,
            candidates: 0,
            counts: Counts::default(),
            refused: None,
            notices: VecDeque::new(),
        }
    }
}

impl Search {
    pub(crate) fn note(to: &watch::Sender<Self>, notice: &Notice) {
        match notice {
            Notice::Refused { address, refusal } => {
                tracing::warn!(%address, kind = refusal.kind(), "a probed node is refused: {refusal}");
            }
            Notice::OtherGroup { address, ours, theirs } => tracing::error!(
                %address, %ours, %theirs,
                "another group under the name of this cluster; neither joins the other, a person decides"
            ),
            notice => tracing::info!(?notice, "discovery"),
        }
        to.send_modify(|search| {
            if let Notice::Refused { address, refusal } = notice {
                search.refused = Some((*address, refusal.clone()));
            }
            if search.notices.len() >= NOTICES_MAX {
                search.notices.pop_front();
            }
            search.notices.push_back(format!("{notice:?}"));
        });
    }

    pub(crate) fn observe(to: &watch::Sender<Self>, machine: &Bootstrap) {
        to.send_if_modified(|search| {
            let (phase, around) = (machine.phase(), machine.looked_around());
            let (candidates, counts) = (machine.candidates().len(), machine.counts());
            let is_new = (search.phase, search.looked_around, search.candidates, search.counts)
                != (phase, around, candidates, counts);
            search.phase = phase;
            search.looked_around = around;
            search.candidates = candidates;
            search.counts = counts;
            is_new
        });
    }
}

/// The dialer of a member. It must not keep the member alive.
pub(crate) struct NodeDialer {
    inner: Weak<Inner>,
    /// Where we have knocked, newest last.
    knocked: Arc<Mutex<VecDeque<SocketAddr>>>,
}

impl NodeDialer {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::downgrade(inner), knocked: Arc::default() }
    }
}

type Dialed<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

fn unreachable(why: &(impl ToString + ?Sized)) -> ProbeFailure {
    ProbeFailure::Unreachable { why: why.to_string() }
}

impl Dialer for NodeDialer {
    fn probe(&self, address: SocketAddr) -> Dialed<Result<Hello, ProbeFailure>> {
        let inner = self.inner.upgrade();
        Box::pin(async move {
            let inner = inner.ok_or_else(|| unreachable("the node is stopping"))?;
            probe(&inner, address).await
        })
    }

    fn join(&self, hello: Hello) -> Dialed<Result<(), String>> {
        let (inner, knocked) = (self.inner.upgrade(), Arc::clone(&self.knocked));
        Box::pin(async move {
            let inner = inner.ok_or("the node is stopping")?;
            join(&inner, &knocked, &hello).await
        })
    }
}

async fn probe(inner: &Inner, address: SocketAddr) -> Result<Hello, ProbeFailure> {
    let expected = Expected { role: look_for(inner.identity.role), node: None };
    let connection = match inner.network.connect(&address.to_string(), expected).await {
        Ok(connection) => connection,
        Err(ConnectError::Handshake { error: HandshakeError::Refused(refusal), .. }) => {
            return Err(ProbeFailure::Refused(refusal));
        }
        Err(error) => return Err(unreachable(&error)),
    };
    let certified = connection.caller().peer.clone();
    let timing = ChannelTiming::paced(inner.config.pace);
    let channel = channel_on(connection, &timing).await.map_err(|error| unreachable(&error))?;
    let mut client = proto::membership_client::MembershipClient::new(channel);
    let greeted = greet(inner, &mut client, certified.as_deref()).await;
    greeted.map_err(|error| match error {
        GreetError::Refused(refusal) => ProbeFailure::Refused(refusal),
        // The peer's refusal of our certificate often shows only here.
        error => unreachable(&format!("{address}: {error}")),
    })
}

/// Why a greeting brought nobody to talk to.
#[derive(Debug)]
pub(crate) enum GreetError {
    Call(Box<Status>),
    Malformed(Malformed),
    Refused(trust::Refusal),
    /// It is not who it was; it has been told.
    Lost {
        node: NodeId,
        known: BootId,
        says: BootId,
    },
}

impl std::fmt::Display for GreetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(status) => f.write_str(status.message()),
            Self::Malformed(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Lost { node, known, says } => write!(
                f,
                "{node} is known here with start {known} and says {says}: its data folder was lost or is a copy"
            ),
        }
    }
}

/// Says who we are and hears who they are. Each side tells the other if it knows better.
pub(crate) async fn greet(
    inner: &Inner,
    client: &mut proto::membership_client::MembershipClient<Channel>,
    certified: Option<&trust::Peer>,
) -> Result<Hello, GreetError> {
    let us = Some(wire::introduction_out(&inner.introduction()));
    let asked = client.hello(proto::HelloRequest { from: us.clone(), you: None }).await;
    let reply = asked.map_err(|status| match wire::not_understood_by(&status) {
        Some(refusal) => GreetError::Refused(refusal),
        None => GreetError::Call(Box::new(status)),
    })?;
    let proto::HelloReply { from, you } = reply.into_inner();
    let introduction = wire::introduction_in(from).map_err(GreetError::Malformed)?;
    if let Some(peer) = certified {
        trust::confirm(&peer.identity, &introduction.hello.identity)
            .map_err(GreetError::Refused)?;
    }
    introduction.understand().map_err(GreetError::Refused)?;
    let node = introduction.hello.identity.node;
    if node == inner.life.node {
        // Without a certificate to compare with it is mere words.
        if certified.is_some() {
            inner.met_self(introduction.hello.boot);
        }
        return Ok(introduction.hello);
    }
    if let Some(known) = you {
        inner.told_of_self(node, &known);
    }
    if let Some(known) = inner.contradiction(&introduction) {
        // It does not know that it has lost its data folder. Tell it, and leave it alone.
        let you = wire::known_out(known);
        let _ = client.hello(proto::HelloRequest { from: us, you: Some(you) }).await;
        let says = introduction.hello.boot;
        tracing::warn!(%node, known = %known.boot, %says, "a node has lost its data folder, or runs on a copy");
        return Err(GreetError::Lost { node, known: known.boot, says });
    }
    inner.take_note(&introduction);
    Ok(introduction.hello)
}

/// Knocks by datagram, waits for an answer by datagram, and then pulls everything.
async fn join(
    inner: &Inner,
    knocked: &Mutex<VecDeque<SocketAddr>>,
    hello: &Hello,
) -> Result<(), String> {
    let seeds: Vec<SocketAddr> = {
        let mut knocked = lock(knocked);
        knocked.retain(|address| *address != hello.gossip);
        knocked.push_back(hello.gossip);
        if knocked.len() > KNOCKS_MAX {
            knocked.pop_front();
        }
        knocked.iter().copied().collect()
    };
    let mut views = inner.agent.watch();
    inner.agent.join(seeds).await.map_err(|stopped| stopped.to_string())?;
    let peer = {
        let heard = views.wait_for(|view| live(view, hello.node()).is_some()).await;
        let view = heard.map_err(|_| "membership has ended")?;
        live(&view, hello.node()).ok_or("it was gone at once")?
    };
    // The gossip works both ways; now the whole state. The service may be elsewhere than the
    // gossip.
    let with = Peer { address: hello.service, ..peer };
    exchange::exchange(inner, &with).await.map_err(|error| error.to_string())
}

fn live(view: &View, node: NodeId) -> Option<Peer> {
    let at = view.entries.binary_search_by_key(&node, |entry| entry.peer.node).ok()?;
    view.entries.get(at).filter(|entry| entry.state.is_live()).map(|entry| entry.peer)
}

impl Inner {
    /// What we know of a node that it should know better.
    pub(crate) fn contradiction(&self, introduction: &Introduction) -> Option<Known> {
        let hello = &introduction.hello;
        lock(&self.known).contradicts(hello.node(), Known::of(introduction))
    }

    /// A node of our domain has said who it is, and nothing contradicts it.
    pub(crate) fn take_note(&self, introduction: &Introduction) {
        let hello = &introduction.hello;
        if !self.is_of_domain(&hello.identity) || hello.node() == self.life.node {
            return;
        }
        self.compare_pace(introduction);
        let said = Known::of(introduction);
        lock(&self.known).note(hello.node(), said);
        let mut hellos = lock(&self.hellos);
        if hellos.len() < self.nodes_max || hellos.contains_key(&hello.node()) {
            hellos.insert(hello.node(), hello.clone());
        }
    }

    /// Who waits shorter than the others takes them for dead; who waits longer is taken for dead.
    fn compare_pace(&self, introduction: &Introduction) {
        let (ours, theirs) = (super::pace_milli(self.config.pace), introduction.pace_milli);
        let mut paces = lock(&self.paces);
        let (node, role) = (introduction.hello.node(), introduction.hello.identity.role);
        if theirs != 0 && theirs != ours && paces.len() < self.nodes_max && paces.insert(node) {
            let shown = |milli: u32| f64::from(milli) / 1_000.0;
            tracing::warn!(
                "this node's --pace is {}, that of {role} {node} is {}: it has to be the same on all nodes, or some \
                 are taken for dead; start one of them again with the other's",
                shown(ours),
                shown(theirs)
            );
        }
    }

    /// A process with our certificate has said, over mutual TLS, in which life it is.
    pub(crate) fn met_self(&self, by: BootId) {
        let Life { node, boot, .. } = self.life;
        if by > boot {
            self.end_with(&End::Superseded { node, boot, by });
        }
    }

    /// Another node says what it knows of us. If that is later than we are, our data folder is not
    /// the right one.
    pub(crate) fn told_of_self(&self, said_by: NodeId, known: &proto::Known) {
        let boot = BootId(known.boot);
        let (folder, disk) = self.numbers_of_data();
        let said = Known { boot: self.life.boot, folder, disk };
        let other_folder =
            said.is_elsewhere(&Known { boot, folder: known.folder, disk: known.disk });
        if boot > self.life.boot || other_folder {
            let node = self.life.node;
            let (ours, known) = (self.life.boot, boot);
            self.end_with(&End::DataLost { node, boot: ours, known, other_folder, said_by });
        }
    }

    /// Whose word about ourselves we take: our own tier's, and a manager's. A worker must not be
    /// able to stop a manager.
    pub(crate) fn believes(&self, role: Role) -> bool {
        role == self.identity.role || role == look_for(self.identity.role)
    }
}
