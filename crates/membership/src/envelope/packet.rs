//! What a datagram says, as plain data, and its byte form inside the seal.
//!
//! A fixed head (whose, in which life, which number), then sections of (tag, length, body). A
//! reader skips tags that it does not know, so a section can be added without a new version. Lists
//! are as long as their section: nothing is allocated by a length that has not been checked against
//! the bytes that are there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fence::{BootId, NodeId};
use trust::Role;

use crate::identity::{Life, Peer};

use super::Refusal;

/// The longest datacenter name.
pub const DATACENTER_BYTES_MAX: usize = 64;

/// The longest heartbeat. Lists of jobs travel over gRPC; a heartbeat carries counts.
pub const HEARTBEAT_BYTES_MAX: usize = 192;

/// What the sender wants, beside what its SWIM bytes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    #[default]
    None,
    /// "Who are you?" to an address of which no node is known. The only kind that is not bound to a
    /// receiver.
    Knock,
    /// The answer to a knock. The sender is who it is.
    Answer,
}

/// What is said about a life of a node, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// `origin` has itself found it unreachable.
    Suspect,
    /// `origin` holds its death back, because too many seem to be dying at once, and would agree to
    /// it.
    Held,
    /// It has said goodbye. `origin` is the node itself.
    Left,
}

/// A claim on its way through the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rumour {
    pub claim: Claim,
    pub about: NodeId,
    pub life: Life,
    pub incarnation: u16,
    pub origin: NodeId,
}

/// A proxy's "I asked it too and it did not answer me either", which says that the proxy and the
/// way to it are fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    pub target: NodeId,
    pub probe: u8,
}

/// One datagram's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub from: Peer,
    pub datacenter: String,
    pub sequence: u64,
    pub intent: Intent,
    /// The sender's number of the probe that this is; the answer carries it back, which gives the
    /// round-trip time.
    pub ask: Option<u32>,
    pub echo: Option<u32>,
    pub rumours: Vec<Rumour>,
    pub nacks: Vec<Nack>,
    pub heartbeat: Vec<u8>,
    /// Room for network coordinates.
    pub coordinate: Vec<u8>,
    /// The bytes of the protocol core.
    pub swim: Vec<u8>,
}

impl Packet {
    #[must_use]
    pub fn new(from: Peer, datacenter: &str) -> Self {
        Self {
            from,
            datacenter: datacenter.to_owned(),
            sequence: 0,
            intent: Intent::None,
            ask: None,
            echo: None,
            rumours: Vec::new(),
            nacks: Vec::new(),
            heartbeat: Vec::new(),
            coordinate: Vec::new(),
            swim: Vec::new(),
        }
    }
}

const SWIM: u8 = 1;
const RUMOURS: u8 = 2;
const NACKS: u8 = 3;
const HEARTBEAT: u8 = 4;
const COORDINATE: u8 = 5;
const ASK: u8 = 6;
const ECHO: u8 = 7;
const INTENT: u8 = 8;

pub(super) fn encode(packet: &Packet, out: &mut Vec<u8>) {
    let from = &packet.from;
    out.push(role_code(from.role));
    out.extend_from_slice(&from.node.0.to_be_bytes());
    put_varint(out, from.boot.0);
    put_varint(out, u64::from(from.generation));
    put_address(out, from.address);
    let name = &packet.datacenter.as_bytes()[..packet.datacenter.len().min(DATACENTER_BYTES_MAX)];
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    put_varint(out, packet.sequence);
    match packet.intent {
        Intent::None => {}
        Intent::Knock => put_section(out, INTENT, |out| out.push(1)),
        Intent::Answer => put_section(out, INTENT, |out| out.push(2)),
    }
    if let Some(ask) = packet.ask {
        put_section(out, ASK, |out| out.extend_from_slice(&ask.to_be_bytes()));
    }
    if let Some(echo) = packet.echo {
        put_section(out, ECHO, |out| out.extend_from_slice(&echo.to_be_bytes()));
    }
    if !packet.rumours.is_empty() {
        put_section(out, RUMOURS, |out| packet.rumours.iter().for_each(|r| put_rumour(out, r)));
    }
    if !packet.nacks.is_empty() {
        put_section(out, NACKS, |out| {
            for nack in &packet.nacks {
                out.extend_from_slice(&nack.target.0.to_be_bytes());
                out.push(nack.probe);
            }
        });
    }
    for (tag, bytes) in
        [(HEARTBEAT, &packet.heartbeat), (COORDINATE, &packet.coordinate), (SWIM, &packet.swim)]
    {
        if !bytes.is_empty() {
            put_section(out, tag, |out| out.extend_from_slice(bytes));
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Packet, Refusal> {
    let mut input = Input(bytes);
    let role = role_of(input.byte()?)?;
    let node = NodeId(input.wide()?);
    let boot = BootId(input.varint()?);
    let generation = u32::try_from(input.varint()?).map_err(|_| Refusal::Malformed)?;
    let address = input.address()?;
    let length = usize::from(input.byte()?);
    if length > DATACENTER_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    let datacenter =
        std::str::from_utf8(input.take(length)?).map_err(|_| Refusal::Malformed)?.to_owned();
    let mut packet = Packet::new(Peer { node, role, address, boot, generation }, &datacenter);
    packet.sequence = input.varint()?;
    let mut seen = 0u16;
    while !input.0.is_empty() {
        let tag = input.byte()?;
        let length = usize::from(u16::from_be_bytes([input.byte()?, input.byte()?]));
        let body = input.take(length)?;
        if (SWIM..=INTENT).contains(&tag) {
            // A section twice could hide one from a check that looks at the first only.
            if seen & (1 << tag) != 0 {
                return Err(Refusal::Malformed);
            }
            seen |= 1 << tag;
        }
        read_section(&mut packet, tag, body)?;
    }
    Ok(packet)
}

fn read_section(packet: &mut Packet, tag: u8, body: &[u8]) -> Result<(), Refusal> {
    match tag {
        INTENT => {
            packet.intent = match body {
                [1] => Intent::Knock,
                [2] => Intent::Answer,
                _ => return Err(Refusal::Malformed),
            }
        }
        ASK => packet.ask = Some(number(body)?),
        ECHO => packet.echo = Some(number(body)?),
        RUMOURS => {
            let mut input = Input(body);
            while !input.0.is_empty() {
                packet.rumours.push(input.rumour()?);
            }
        }
        NACKS => {
            let mut input = Input(body);
            while !input.0.is_empty() {
                packet.nacks.push(Nack { target: NodeId(input.wide()?), probe: input.byte()? });
            }
        }
        HEARTBEAT if body.len() > HEARTBEAT_BYTES_MAX => return Err(Refusal::Malformed),
        HEARTBEAT => packet.heartbeat = body.to_vec(),
        COORDINATE => packet.coordinate = body.to_vec(),
        SWIM => packet.swim = body.to_vec(),
        // From a newer member; it knows that we cannot read it.
        _ => {}
    }
    Ok(())
}

fn number(body: &[u8]) -> Result<u32, Refusal> {
    body.try_into().map(u32::from_be_bytes).map_err(|_| Refusal::Malformed)
}

fn put_section(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    body(out);
    let length = (out.len() - at - 2) as u16;
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

fn put_rumour(out: &mut Vec<u8>, rumour: &Rumour) {
    out.push(match rumour.claim {
        Claim::Suspect => 1,
        Claim::Held => 2,
        Claim::Left => 3,
    });
    out.extend_from_slice(&rumour.about.0.to_be_bytes());
    put_varint(out, rumour.life.boot.0);
    put_varint(out, u64::from(rumour.life.generation));
    put_varint(out, u64::from(rumour.incarnation));
    out.extend_from_slice(&rumour.origin.0.to_be_bytes());
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn role_code(role: Role) -> u8 {
    match role {
        Role::Gate => 1,
        Role::Manager => 2,
        Role::Worker => 3,
        Role::Client => 4,
        Role::Recruit => 5,
    }
}

fn role_of(code: u8) -> Result<Role, Refusal> {
    match code {
        1 => Ok(Role::Gate),
        2 => Ok(Role::Manager),
        3 => Ok(Role::Worker),
        4 => Ok(Role::Client),
        5 => Ok(Role::Recruit),
        _ => Err(Refusal::WrongRole),
    }
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Refusal::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.take(N)?.try_into().map_err(|_| Refusal::Truncated)
    }

    fn wide(&mut self) -> Result<u128, Refusal> {
        self.array().map(u128::from_be_bytes)
    }

    fn varint(&mut self) -> Result<u64, Refusal> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Refusal::Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Refusal::Malformed)
    }

    fn address(&mut self) -> Result<SocketAddr, Refusal> {
        let ip = match self.byte()? {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
            _ => return Err(Refusal::Malformed),
        };
        Ok(SocketAddr::new(ip, u16::from_be_bytes(self.array()?)))
    }

    fn rumour(&mut self) -> Result<Rumour, Refusal> {
        let claim = match self.byte()? {
            1 => Claim::Suspect,
            2 => Claim::Held,
            3 => Claim::Left,
            _ => return Err(Refusal::Malformed),
        };
        let about = NodeId(self.wide()?);
        let boot = BootId(self.varint()?);
        let generation = u32::try_from(self.varint()?).map_err(|_| Refusal::Malformed)?;
        let incarnation = u16::try_from(self.varint()?).map_err(|_| Refusal::Malformed)?;
        let origin = NodeId(self.wide()?);
        Ok(Rumour { claim, about, life: Life { boot, generation }, incarnation, origin })
    }
}
