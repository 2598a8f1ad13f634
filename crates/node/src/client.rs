//! The operator's side: ask a member what it knows, follow what changes, rotate the gossip keys.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fence::{BootId, NodeId};
use membership::envelope::KeyId;
use membership::{Cause, Role, State};
use serde::Serialize;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use trust::{CredentialsError, Expected, Gates, Policy};

use crate::config::CredentialFiles;
use crate::network::{ChannelTiming, ConnectError, Limits, Mutual, Network};
use crate::secret::GossipKey;
use crate::wire::{self, Malformed, proto};

/// A snapshot has no more rows than a membership has members.
const ROWS_MAX: usize = 65_536;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    Credentials(CredentialsError),
    Connect(ConnectError),
    /// The node answered, and said no.
    Refused(Box<Status>),
    Malformed(Malformed),
    TimedOut {
        after: Duration,
    },
    /// The answer ended before it was complete.
    CutOff,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Refused(status) => write!(f, "the node answered: {}", status.message()),
            Self::Malformed(error) => {
                write!(f, "the answer cannot be read ({error}); is the node of a newer version?")
            }
            Self::TimedOut { after } => write!(f, "no answer within {after:?}"),
            Self::CutOff => f.write_str("the answer ended before it was complete"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl From<Malformed> for ClientError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// Where a stream of changes stands: to go on after a break, at the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub node: NodeId,
    pub boot: BootId,
    pub version: u64,
}

/// The health of a member, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthRow {
    pub live: bool,
    pub ready: bool,
    pub progress: String,
    pub verdict: String,
    pub stage: String,
    pub overload: String,
}

/// One member as the asked node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    pub node: NodeId,
    pub role: Role,
    /// Empty until it has spoken.
    pub datacenter: String,
    pub address: SocketAddr,
    pub state: State,
    pub boot: BootId,
    pub generation: u32,
    pub incarnation: u32,
    pub known_for: Duration,
    pub in_state_for: Duration,
    pub heard_ago: Option<Duration>,
    pub rtt: Option<Duration>,
    pub two_way: bool,
    pub deaths: u32,
    pub health: Option<HealthRow>,
    pub is_self: bool,
}

/// The node table at one moment. The asked node is in it, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub members: Vec<MemberRow>,
    /// The asked node's own health score, 0 (well) to 8.
    pub local_health: u32,
    pub place: Place,
}

/// One step of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    pub node: NodeId,
    pub role: Role,
    pub boot: BootId,
    pub generation: u32,
    pub incarnation: u32,
    /// `None`: it was unknown.
    pub from: Option<State>,
    /// `None`: it is no longer in the table.
    pub to: Option<State>,
    pub cause: Cause,
    /// As it is now.
    pub member: Option<MemberRow>,
    pub place: Place,
}

/// What a watch brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersEvent {
    /// At the start, and whenever the watch was away for too long: forget what was known.
    Snapshot(Snapshot),
    Change(Box<MemberChange>),
}

/// The keys that open datagrams, and the one that seals them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyList {
    pub keys: Vec<KeyId>,
    pub sealing: KeyId,
}

/// A step of a rotation.
#[derive(Clone, Debug)]
pub enum KeyAction {
    List,
    Install(GossipKey),
    Use(KeyId),
    Remove(KeyId),
}

/// How to reach a member.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub credentials: CredentialFiles,
    /// `ip:port` or `name:port`.
    pub address: String,
    /// Who is expected there: a gate, or a manager where there are no gates.
    pub role: Role,
    /// For connecting, and for every answer. 5 s.
    pub deadline: Duration,
}

/// A connection to one member, for operators.
#[derive(Clone)]
pub struct MembersClient {
    client: proto::membership_client::MembershipClient<Channel>,
    deadline: Duration,
}

impl MembersClient {
    /// Connects with the operator's certificate (role client).
    ///
    /// # Errors
    /// If the credentials cannot be used, nobody answers, or one side refuses the other.
    pub async fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        let gates = if options.role == Role::Manager { Gates::None } else { Gates::Configured };
        let limits = Limits { handshake: options.deadline, ..Limits::default() };
        let policy = Policy { gates, expected: None };
        let network =
            Mutual::load(options.credentials, policy, limits).map_err(ClientError::Credentials)?;
        let network: Arc<dyn Network> = Arc::new(network);
        Self::connect_on(&network, &options.address, options.role, options.deadline).await
    }

    /// The same on a network that is there already.
    ///
    /// # Errors
    /// If nobody answers, or one side refuses the other.
    pub async fn connect_on(
        network: &Arc<dyn Network>,
        address: &str,
        role: Role,
        deadline: Duration,
    ) -> Result<Self, ClientError> {
        let expected = Expected { role, node: None };
        let timing = ChannelTiming { connect: deadline, ..ChannelTiming::paced(1.0) };
        let connecting = async {
            let connection =
                network.connect(address, expected).await.map_err(ClientError::Connect)?;
            crate::network::channel_on(connection, &timing).await.map_err(|error| {
                let error = std::io::Error::other(error);
                ClientError::Connect(ConnectError::Io { address: address.to_owned(), error })
            })
        };
        let connected = timeout(deadline, connecting).await;
        let channel = connected.map_err(|_| ClientError::TimedOut { after: deadline })??;
        Ok(Self { client: proto::membership_client::MembershipClient::new(channel), deadline })
    }

    /// The node table now.
    ///
    /// # Errors
    /// If the node does not answer in time, or says no.
    pub async fn members(&self) -> Result<Snapshot, ClientError> {
        let mut watch = self.open(proto::MembersRequest { watch: false, after: None }).await?;
        let first = timeout(self.deadline, watch.next()).await;
        match first.map_err(|_| ClientError::TimedOut { after: self.deadline })? {
            Some(Ok(MembersEvent::Snapshot(snapshot))) => Ok(snapshot),
            Some(Ok(MembersEvent::Change(_))) | None => Err(ClientError::CutOff),
            Some(Err(error)) => Err(error),
        }
    }

    /// The node table and then every change; from `after` on, if the node still has what came
    /// since.
    ///
    /// # Errors
    /// If the node does not answer in time, or says no.
    pub async fn watch(&self, after: Option<Place>) -> Result<Watch, ClientError> {
        let after = after.map(|place| proto::Place {
            node: wire::node_bytes(place.node),
            boot: place.boot.0,
            version: place.version,
        });
        self.open(proto::MembersRequest { watch: true, after }).await
    }

    async fn open(&self, request: proto::MembersRequest) -> Result<Watch, ClientError> {
        let mut client = self.client.clone();
        let asked = timeout(self.deadline, client.members(request)).await;
        let answer = asked.map_err(|_| ClientError::TimedOut { after: self.deadline })??;
        Ok(Watch { parts: answer.into_inner(), reading: Reading::default() })
    }

    /// One step of a rotation; answers with the ring afterwards.
    ///
    /// # Errors
    /// If the caller may not, or the ring refuses.
    pub async fn keys(&self, action: KeyAction) -> Result<KeyList, ClientError> {
        self.ask_keys(Bytes::new(), action).await
    }

    /// The same at a worker, through the manager that this is connected to: operators cannot reach
    /// workers themselves.
    ///
    /// # Errors
    /// If the caller may not, the manager does not know such a live worker, or the ring refuses.
    pub async fn keys_of_worker(
        &self,
        worker: NodeId,
        action: KeyAction,
    ) -> Result<KeyList, ClientError> {
        self.ask_keys(wire::node_bytes(worker), action).await
    }

    async fn ask_keys(&self, member: Bytes, action: KeyAction) -> Result<KeyList, ClientError> {
        use proto::keys_request::Action;
        let action = match action {
            KeyAction::List => Action::List(proto::List {}),
            KeyAction::Install(key) => Action::Install(Bytes::copy_from_slice(&key.0)),
            KeyAction::Use(id) => Action::Use(id.0),
            KeyAction::Remove(id) => Action::Remove(id.0),
        };
        let mut client = self.client.clone();
        let asked = client.keys(proto::KeysRequest { action: Some(action), member });
        let answered = timeout(self.deadline, asked).await;
        let reply = answered.map_err(|_| ClientError::TimedOut { after: self.deadline })??;
        let proto::KeysReply { keys, sealing } = reply.into_inner();
        Ok(KeyList { keys: keys.into_iter().map(KeyId).collect(), sealing: KeyId(sealing) })
    }
}

/// A running watch.
pub struct Watch {
    parts: Streaming<proto::MembersPart>,
    reading: Reading,
}

/// Puts the parts of an answer together: a snapshot comes in several.
#[derive(Default)]
pub struct Reading {
    rows: Option<Vec<MemberRow>>,
}

impl Watch {
    /// The next event; `None` when the node has ended the stream. Safe to cancel.
    pub async fn next(&mut self) -> Option<Result<MembersEvent, ClientError>> {
        loop {
            let part = match self.parts.message().await {
                Ok(Some(part)) => part,
                Ok(None) => return None,
                Err(status) => return Some(Err(status.into())),
            };
            match self.reading.take(part) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Reading {
    /// Takes the next part; gives an event when one is complete.
    ///
    /// # Errors
    /// With the first field that is wrong.
    pub fn take(&mut self, part: proto::MembersPart) -> Result<Option<MembersEvent>, ClientError> {
        use proto::members_part::Part;
        let place = part.place.as_ref().map(place_in).transpose()?;
        match part.part {
            Some(Part::Snapshot(proto::SnapshotPart { first, members, local_health })) => {
                if first {
                    self.rows = Some(Vec::new());
                }
                let rows = self.rows.as_mut().ok_or(Malformed { what: "snapshot" })?;
                if rows.len() + members.len() > ROWS_MAX {
                    return Err(Malformed { what: "members" }.into());
                }
                for member in members {
                    rows.push(row_in(member)?);
                }
                let Some(place) = place else { return Ok(None) };
                let members = self.rows.take().unwrap_or_default();
                Ok(Some(MembersEvent::Snapshot(Snapshot { members, local_health, place })))
            }
            Some(Part::Change(change)) => {
                let place = place.ok_or(Malformed { what: "place" })?;
                Ok(Some(MembersEvent::Change(Box::new(change_in(change, place)?))))
            }
            // From a newer node; it is for those who know it.
            None => Ok(None),
        }
    }
}

fn place_in(place: &proto::Place) -> Result<Place, Malformed> {
    Ok(Place { node: wire::node(&place.node)?, boot: BootId(place.boot), version: place.version })
}

fn row_in(member: proto::Member) -> Result<MemberRow, Malformed> {
    Ok(MemberRow {
        node: wire::node(&member.node)?,
        role: wire::role_in(member.role)?,
        address: wire::address_in(&member.address)?,
        state: wire::state_in(member.state)?.ok_or(Malformed { what: "state" })?,
        datacenter: member.datacenter,
        boot: BootId(member.boot),
        generation: member.generation,
        incarnation: member.incarnation,
        known_for: Duration::from_millis(member.known_for_ms),
        in_state_for: Duration::from_millis(member.in_state_for_ms),
        heard_ago: member.heard_ago_ms.map(Duration::from_millis),
        rtt: member.rtt_us.map(Duration::from_micros),
        two_way: member.two_way,
        deaths: member.deaths,
        health: member.health.map(|health| HealthRow {
            live: health.live,
            ready: health.ready,
            progress: health.progress,
            verdict: health.verdict,
            stage: health.stage,
            overload: health.overload,
        }),
        is_self: member.is_self,
    })
}

fn change_in(change: proto::Change, place: Place) -> Result<MemberChange, Malformed> {
    Ok(MemberChange {
        node: wire::node(&change.node)?,
        role: wire::role_in(change.role)?,
        boot: BootId(change.boot),
        generation: change.generation,
        incarnation: change.incarnation,
        from: wire::state_in(change.from)?,
        to: wire::state_in(change.to)?,
        cause: wire::cause_in(change.cause)?,
        member: change.member.map(row_in).transpose()?,
        place,
    })
}
