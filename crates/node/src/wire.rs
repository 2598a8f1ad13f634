//! Between the wire contract (`proto/volley/membership/v1`) and the types of membership. Everything
//! that comes in is checked here: lengths, ranges, and that words about a sender agree with its
//! certificate.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use fence::{BootId, GroupId, NodeId};
use membership::discovery::Hello;
use membership::health::{Assessment, Progress, Verdict};
use membership::heartbeat::{Heartbeat, Overload, Stage};
use membership::member::{Record, Standing};
use membership::{Cause, Digest, Entry, Peer, Role, State};
use tonic::Status;
use trust::{Identity, PROTOCOL, Protocol, Refusal, check_name};

use crate::member::Known;

pub mod proto {
    //! As generated.
    #![allow(clippy::all, clippy::pedantic, missing_docs, rust_2018_idioms)]
    tonic::include_proto!("volley.membership.v1");
}

/// Why a message was not taken. [`Malformed::what`] names the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message's `{}` is missing or wrong", self.what)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for Status {
    fn from(error: Malformed) -> Self {
        Self::invalid_argument(error.to_string())
    }
}

fn bad(what: &'static str) -> Malformed {
    Malformed { what }
}

#[must_use]
pub fn node_bytes(node: NodeId) -> Bytes {
    Bytes::copy_from_slice(&node.0.to_be_bytes())
}

/// Sixteen bytes.
///
/// # Errors
/// If they are more or fewer.
pub fn node(bytes: &[u8]) -> Result<NodeId, Malformed> {
    bytes.try_into().map(|bytes| NodeId(u128::from_be_bytes(bytes))).map_err(|_| bad("node"))
}

#[must_use]
pub fn role_code(role: Role) -> proto::Role {
    match role {
        Role::Client => proto::Role::Client,
        Role::Gate => proto::Role::Gate,
        Role::Manager => proto::Role::Manager,
        Role::Worker => proto::Role::Worker,
        Role::Recruit => proto::Role::Recruit,
    }
}

fn role(code: i32) -> Result<Role, Malformed> {
    match proto::Role::try_from(code) {
        Ok(proto::Role::Client) => Ok(Role::Client),
        Ok(proto::Role::Gate) => Ok(Role::Gate),
        Ok(proto::Role::Manager) => Ok(Role::Manager),
        Ok(proto::Role::Worker) => Ok(Role::Worker),
        Ok(proto::Role::Recruit) => Ok(Role::Recruit),
        Ok(proto::Role::Unspecified) | Err(_) => Err(bad("role")),
    }
}

fn address(text: &str, what: &'static str) -> Result<SocketAddr, Malformed> {
    // The longest address with scope and port is far shorter than this.
    if text.len() > 80 {
        return Err(bad(what));
    }
    text.parse().map_err(|_| bad(what))
}

#[must_use]
pub fn identity_out(identity: &Identity) -> proto::Identity {
    proto::Identity {
        cluster: identity.cluster.clone(),
        environment: identity.environment.clone(),
        role: role_code(identity.role).into(),
        datacenter: identity.datacenter.clone(),
        node: node_bytes(identity.node),
    }
}

fn identity_in(identity: Option<proto::Identity>) -> Result<Identity, Malformed> {
    let identity = identity.ok_or(bad("identity"))?;
    let name = |text: String, what| match check_name(&text) {
        Ok(()) => Ok(text),
        Err(_) => Err(bad(what)),
    };
    Ok(Identity {
        cluster: name(identity.cluster, "cluster")?,
        environment: name(identity.environment, "environment")?,
        role: role(identity.role)?,
        datacenter: name(identity.datacenter, "datacenter")?,
        node: node(&identity.node)?,
    })
}

/// A [`Hello`] with the number of the data folder, or of a manager's disk, and what is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    pub hello: Hello,
    pub folder: u64,
    pub disk: u64,
    pub protocol: Protocol,
    /// The version of the program, for people; perhaps empty.
    pub program: String,
    /// How fast its times run, in thousandths; 0: not said.
    pub pace_milli: u32,
}

impl Introduction {
    /// Whether we can talk to whoever says this.
    ///
    /// # Errors
    /// If the two have no contract in common.
    pub fn understand(&self) -> Result<(), Refusal> {
        PROTOCOL.accept(self.protocol)
    }
}

/// The longest name of a program's version.
const PROGRAM_BYTES_MAX: usize = 64;
/// The metadata key under which a node that does not understand us says what it speaks.
const SPEAKS: &str = "volley-protocol";

/// What a node is told whose protocol is not ours: the name of the refusal, and what is spoken
/// here.
#[must_use]
pub fn not_understood(refusal: &Refusal) -> Status {
    let mut status =
        ledger::wire::named(Status::failed_precondition(refusal.to_string()), refusal.kind());
    if let Ok(ours) = PROTOCOL.to_string().parse() {
        status.metadata_mut().insert(SPEAKS, ours);
    }
    status
}

/// The same on the side that was told.
#[must_use]
pub fn not_understood_by(status: &Status) -> Option<Refusal> {
    let name = ledger::wire::refusal_name(status)?;
    if !matches!(name, "protocol_too_new" | "protocol_too_old") {
        return None;
    }
    let theirs = status.metadata().get(SPEAKS)?.to_str().ok()?.parse().ok()?;
    Some(Refusal::Protocol { ours: PROTOCOL, theirs })
}

#[must_use]
pub fn introduction_out(introduction: &Introduction) -> proto::Introduction {
    let Introduction { hello, folder, disk, protocol, program, pace_milli } = introduction;
    let group = hello
        .group
        .map(|group| proto::Group { cluster: group.cluster, generation: group.generation.into() });
    proto::Introduction {
        identity: Some(identity_out(&hello.identity)),
        boot: hello.boot.0,
        folder: *folder,
        group,
        voters: hello.voters,
        gossip: hello.gossip.to_string(),
        service: hello.service.to_string(),
        disk: *disk,
        protocol: Some(proto::Protocol {
            major: protocol.major.into(),
            minor: protocol.minor.into(),
            program: program.clone(),
        }),
        pace_milli: *pace_milli,
    }
}

fn protocol_in(said: Option<proto::Protocol>) -> Result<(Protocol, String), Malformed> {
    let Some(proto::Protocol { major, minor, program }) = said else {
        return Ok((Protocol::UNSAID, String::new()));
    };
    let number = |number: u32| number.try_into().map_err(|_| bad("protocol"));
    let is_plain = program.bytes().all(|byte| byte.is_ascii_graphic());
    if program.len() > PROGRAM_BYTES_MAX || !is_plain {
        return Err(bad("program"));
    }
    Ok((Protocol { major: number(major)?, minor: number(minor)? }, program))
}

/// # Errors
/// With the first field that is wrong.
pub fn introduction_in(
    introduction: Option<proto::Introduction>,
) -> Result<Introduction, Malformed> {
    let introduction = introduction.ok_or(bad("introduction"))?;
    let group = match introduction.group {
        Some(group) => Some(GroupId {
            cluster: group.cluster,
            generation: group.generation.try_into().map_err(|_| bad("group"))?,
        }),
        None => None,
    };
    let hello = Hello {
        identity: identity_in(introduction.identity)?,
        boot: BootId(introduction.boot),
        group,
        voters: introduction.voters,
        gossip: address(&introduction.gossip, "gossip")?,
        service: address(&introduction.service, "service")?,
    };
    let (protocol, program) = protocol_in(introduction.protocol)?;
    let (folder, disk) = (introduction.folder, introduction.disk);
    let pace_milli = introduction.pace_milli;
    Ok(Introduction { hello, folder, disk, protocol, program, pace_milli })
}

pub(crate) fn known_out(known: Known) -> proto::Known {
    proto::Known { boot: known.boot.0, folder: known.folder, disk: known.disk }
}

#[must_use]
pub fn record_out(record: &Record) -> proto::Record {
    let standing = match record.standing {
        Standing::Alive => proto::Standing::Alive,
        Standing::Suspect => proto::Standing::Suspect,
        Standing::Dead => proto::Standing::Dead,
        Standing::Left => proto::Standing::Left,
    };
    proto::Record {
        node: node_bytes(record.peer.node),
        role: role_code(record.peer.role).into(),
        address: record.peer.address.to_string(),
        boot: record.peer.boot.0,
        generation: record.peer.generation,
        datacenter: record.datacenter.clone(),
        incarnation: record.incarnation.into(),
        standing: standing.into(),
    }
}

/// # Errors
/// With the first field that is wrong.
pub fn record_in(record: proto::Record) -> Result<Record, Malformed> {
    let standing = match proto::Standing::try_from(record.standing) {
        Ok(proto::Standing::Alive) => Standing::Alive,
        Ok(proto::Standing::Suspect) => Standing::Suspect,
        Ok(proto::Standing::Dead) => Standing::Dead,
        Ok(proto::Standing::Left) => Standing::Left,
        Ok(proto::Standing::Unspecified) | Err(_) => return Err(bad("standing")),
    };
    // A member that was never heard has none.
    if !record.datacenter.is_empty() && check_name(&record.datacenter).is_err() {
        return Err(bad("datacenter"));
    }
    let peer = Peer {
        node: node(&record.node)?,
        role: role(record.role)?,
        address: address(&record.address, "address")?,
        boot: BootId(record.boot),
        generation: record.generation,
    };
    let incarnation = record.incarnation.try_into().map_err(|_| bad("incarnation"))?;
    Ok(Record { peer, datacenter: record.datacenter, incarnation, standing })
}

#[must_use]
pub fn digest_out(digest: Digest) -> proto::Digest {
    proto::Digest { members: digest.members, sum: digest.sum }
}

/// # Errors
/// If there is none.
pub fn digest_in(digest: Option<proto::Digest>) -> Result<Digest, Malformed> {
    let proto::Digest { members, sum } = digest.ok_or(bad("digest"))?;
    Ok(Digest { members, sum })
}

#[must_use]
pub fn state_code(state: State) -> proto::State {
    match state {
        State::Unconfirmed => proto::State::Unconfirmed,
        State::Confirmed => proto::State::Confirmed,
        State::Suspect => proto::State::Suspect,
        State::Dead => proto::State::Dead,
        State::Left => proto::State::Left,
    }
}

/// `None` for "not in the table".
///
/// # Errors
/// If it is a number from a newer contract.
pub fn state_in(code: i32) -> Result<Option<State>, Malformed> {
    match proto::State::try_from(code) {
        Ok(proto::State::Unspecified) => Ok(None),
        Ok(proto::State::Unconfirmed) => Ok(Some(State::Unconfirmed)),
        Ok(proto::State::Confirmed) => Ok(Some(State::Confirmed)),
        Ok(proto::State::Suspect) => Ok(Some(State::Suspect)),
        Ok(proto::State::Dead) => Ok(Some(State::Dead)),
        Ok(proto::State::Left) => Ok(Some(State::Left)),
        Err(_) => Err(bad("state")),
    }
}

#[must_use]
pub fn cause_code(cause: Cause) -> proto::Cause {
    match cause {
        Cause::Direct => proto::Cause::Direct,
        Cause::Gossip => proto::Cause::Gossip,
        Cause::Leave => proto::Cause::Leave,
        Cause::NewLife => proto::Cause::NewLife,
        Cause::NeverConfirmed => proto::Cause::NeverConfirmed,
        Cause::Reaped => proto::Cause::Reaped,
    }
}

/// # Errors
/// If it is a number from a newer contract.
pub fn cause_in(code: i32) -> Result<Cause, Malformed> {
    match proto::Cause::try_from(code) {
        Ok(proto::Cause::Direct) => Ok(Cause::Direct),
        Ok(proto::Cause::Gossip) => Ok(Cause::Gossip),
        Ok(proto::Cause::Leave) => Ok(Cause::Leave),
        Ok(proto::Cause::NewLife) => Ok(Cause::NewLife),
        Ok(proto::Cause::NeverConfirmed) => Ok(Cause::NeverConfirmed),
        Ok(proto::Cause::Reaped) => Ok(Cause::Reaped),
        Ok(proto::Cause::Unspecified) | Err(_) => Err(bad("cause")),
    }
}

/// The role in a message about a member.
///
/// # Errors
/// If it is none.
pub fn role_in(code: i32) -> Result<Role, Malformed> {
    role(code)
}

/// The address in a message about a member.
///
/// # Errors
/// If it is none.
pub fn address_in(text: &str) -> Result<SocketAddr, Malformed> {
    address(text, "address")
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One row of the node table. `now` is the view's age, on whose clock the entry's times are.
#[must_use]
pub fn member_out(entry: &Entry, health: Option<Assessment>, now: Duration) -> proto::Member {
    proto::Member {
        node: node_bytes(entry.peer.node),
        role: role_code(entry.peer.role).into(),
        datacenter: entry.datacenter.clone(),
        address: entry.peer.address.to_string(),
        state: state_code(entry.state).into(),
        boot: entry.peer.boot.0,
        generation: entry.peer.generation,
        incarnation: entry.incarnation.into(),
        known_for_ms: ms(now.saturating_sub(entry.first_seen)),
        in_state_for_ms: ms(now.saturating_sub(entry.since)),
        heard_ago_ms: entry.last_heard.map(|at| ms(now.saturating_sub(at))),
        rtt_us: entry.rtt.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
        two_way: entry.two_way,
        deaths: entry.deaths,
        health: health.map(|health| health_out(health, Heartbeat::decode(&entry.heartbeat))),
        is_self: false,
    }
}

/// The three signals as words.
#[must_use]
pub fn health_out(health: Assessment, heartbeat: Option<Heartbeat>) -> proto::Health {
    proto::Health {
        live: health.live,
        ready: health.ready,
        progress: progress_name(health.progress).to_owned(),
        verdict: verdict_name(health.verdict).to_owned(),
        stage: heartbeat.map_or("unknown", |beat| stage_name(beat.stage)).to_owned(),
        overload: heartbeat.map_or("unknown", |beat| overload_name(beat.overload)).to_owned(),
    }
}

#[must_use]
pub fn progress_name(progress: Progress) -> &'static str {
    match progress {
        Progress::Idle => "idle",
        Progress::Normal => "normal",
        Progress::Slow => "slow",
        Progress::Degraded => "degraded",
        Progress::Stuck => "stuck",
    }
}

#[must_use]
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "healthy",
        Verdict::Busy => "busy",
        Verdict::Slow => "slow",
        Verdict::Degraded => "degraded",
        Verdict::Stuck => "stuck",
        Verdict::Suspect => "suspect",
    }
}

#[must_use]
pub fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Syncing => "syncing",
        Stage::Active => "active",
        Stage::Draining => "draining",
    }
}

#[must_use]
pub fn overload_name(overload: Overload) -> &'static str {
    match overload {
        Overload::Healthy => "healthy",
        Overload::Busy => "busy",
        Overload::Stressed => "stressed",
        Overload::Overloaded => "overloaded",
    }
}
