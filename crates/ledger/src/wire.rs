//! What members say to each other: sealed bytes, headers, and refusals that have a name.
//!
//! A message is taken only if it is for this group, this node and this disk. A disk that was lost
//! has forgotten votes and entries that it once promised to keep; whoever still means the old disk
//! must not get an answer from the new one, or a majority would no longer overlap with the one
//! before it (LEDG-117).

use std::fmt;

use bytes::Bytes;
use fence::{GroupId, NodeId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Code, Status};

use crate::types::DiskId;

/// What the generator makes of `proto/`.
#[allow(clippy::all, clippy::pedantic, unused_qualifications)]
pub mod proto {
    tonic::include_proto!("volley.ledger.v1");
}

/// The version that stands before sealed bytes.
pub const WIRE_VERSION: u8 = 3;

/// The metadata key under which a refusal's name travels.
const REFUSAL: &str = "volley-refusal";

/// The name of [`not_sent`].
pub(crate) const NOT_SENT: &str = "not_sent";

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sealed bytes have a version that this program does not know.
    FutureVersion {
        got: u8,
    },
    /// The bytes are no message of that kind.
    Malformed(String),
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    ForeignGroup {
        got: GroupId,
        mine: GroupId,
    },
    /// This node belongs to no group yet, and the message does not bring it one.
    NoGroup,
    WrongReceiver {
        got: NodeId,
        mine: NodeId,
    },
    /// The sender means a disk that this node no longer has, or does not have yet.
    WrongDisk {
        got: DiskId,
        mine: DiskId,
    },
    /// The message names another sender than the certificate of its connection.
    ForeignSender {
        claimed: NodeId,
        certified: NodeId,
    },
    /// The sender is no member, as far as this node knows.
    NotAMember(NodeId),
    /// The sender has another disk than the one that was admitted.
    DiskNotAdmitted {
        node: NodeId,
        got: DiskId,
        admitted: DiskId,
    },
    /// This node has stopped serving.
    Stopped(String),
}

impl Refusal {
    /// The name that travels and that is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FutureVersion { .. } => "future_version",
            Self::Malformed(_) => "malformed",
            Self::TooLarge { .. } => "too_large",
            Self::ForeignGroup { .. } => "foreign_group",
            Self::NoGroup => "no_group",
            Self::WrongReceiver { .. } => "wrong_receiver",
            Self::WrongDisk { .. } => "wrong_disk",
            Self::ForeignSender { .. } => "foreign_sender",
            Self::NotAMember(_) => "not_a_member",
            Self::DiskNotAdmitted { .. } => "disk_not_admitted",
            Self::Stopped(_) => "stopped",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FutureVersion { got } => {
                write!(
                    f,
                    "message version {got} is not known here (up to {WIRE_VERSION}): update this node"
                )
            }
            Self::Malformed(why) => write!(f, "the message cannot be read: {why}"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "the message has {bytes} bytes; at most {limit} are taken")
            }
            Self::ForeignGroup { got, mine } => {
                write!(f, "the message is for group {got}; this node belongs to {mine}")
            }
            Self::NoGroup => f.write_str("this node has joined no group yet"),
            Self::WrongReceiver { got, mine } => {
                write!(f, "the message is for node {got}; this is {mine}")
            }
            Self::WrongDisk { got, mine } => write!(
                f,
                "the message is for disk {got}; this node has disk {mine}. If its data was lost, admit the node again"
            ),
            Self::ForeignSender { claimed, certified } => write!(
                f,
                "the message says that node {claimed} sends it; the certificate says {certified}"
            ),
            Self::NotAMember(node) => write!(f, "node {node} is not a member of this group"),
            Self::DiskNotAdmitted { node, got, admitted } => write!(
                f,
                "node {node} comes with disk {got}, admitted was {admitted}: admit the node again"
            ),
            Self::Stopped(why) => write!(f, "this node has stopped: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Malformed(_) => Code::InvalidArgument,
            Refusal::TooLarge { .. } => Code::OutOfRange,
            Refusal::Stopped(_) => Code::Unavailable,
            _ => Code::FailedPrecondition,
        };
        named(Status::new(code, refusal.to_string()), refusal.name())
    }
}

/// The same with the name of the refusal beside its words, for a program at the other end.
pub fn named(mut status: Status, name: &'static str) -> Status {
    if let Ok(name) = name.parse() {
        status.metadata_mut().insert(REFUSAL, name);
    }
    status
}

/// The name of the refusal in an answer, if it is one.
pub fn refusal_name(status: &Status) -> Option<&str> {
    status.metadata().get(REFUSAL).and_then(|value| value.to_str().ok())
}

/// An error that was made on this side: nothing has left this node.
pub(crate) fn not_sent(why: String) -> Status {
    named(Status::unavailable(why), NOT_SENT)
}

/// Version byte and postcard.
pub fn seal<T: Serialize>(value: &T) -> Result<Bytes, Refusal> {
    let start = vec![WIRE_VERSION];
    postcard::to_extend(value, start)
        .map(Bytes::from)
        .map_err(|error| Refusal::Malformed(error.to_string()))
}

/// Reads what [`seal`] wrote; trailing bytes are an error.
pub fn unseal<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let Some((version, rest)) = bytes.split_first() else {
        return Err(Refusal::Malformed("no bytes at all".to_owned()));
    };
    if *version != WIRE_VERSION {
        return Err(Refusal::FutureVersion { got: *version });
    }
    let (value, left) =
        postcard::take_from_bytes(rest).map_err(|error| Refusal::Malformed(error.to_string()))?;
    if !left.is_empty() {
        return Err(Refusal::Malformed(format!("{} bytes too many", left.len())));
    }
    Ok(value)
}

pub fn node_bytes(node: NodeId) -> Bytes {
    Bytes::copy_from_slice(&node.0.to_be_bytes())
}

pub fn node_from(bytes: &[u8]) -> Result<NodeId, Refusal> {
    let bytes: [u8; 16] = bytes
        .try_into()
        .map_err(|_| Refusal::Malformed(format!("a node id of {} bytes", bytes.len())))?;
    Ok(NodeId(u128::from_be_bytes(bytes)))
}

/// One end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub node: NodeId,
    pub disk: DiskId,
}

/// Who says something to whom, read from the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub group: GroupId,
    pub sender: End,
    pub receiver: End,
}

impl Header {
    pub fn to_wire(self) -> proto::Header {
        proto::Header {
            cluster: self.group.cluster,
            generation: self.group.generation,
            sender: node_bytes(self.sender.node),
            sender_disk: self.sender.disk.0,
            receiver: node_bytes(self.receiver.node),
            receiver_disk: self.receiver.disk.0,
        }
    }

    pub fn from_wire(header: Option<proto::Header>) -> Result<Self, Refusal> {
        let header = header.ok_or_else(|| Refusal::Malformed("no header".to_owned()))?;
        Ok(Self {
            group: GroupId { cluster: header.cluster, generation: header.generation },
            sender: End { node: node_from(&header.sender)?, disk: DiskId(header.sender_disk) },
            receiver: End {
                node: node_from(&header.receiver)?,
                disk: DiskId(header.receiver_disk),
            },
        })
    }

    /// Whether this node is meant. `group` is `None` while the node belongs to none.
    pub fn check(&self, me: End, group: Option<GroupId>) -> Result<(), Refusal> {
        if self.receiver.node != me.node {
            return Err(Refusal::WrongReceiver { got: self.receiver.node, mine: me.node });
        }
        if self.receiver.disk != me.disk {
            return Err(Refusal::WrongDisk { got: self.receiver.disk, mine: me.disk });
        }
        match group {
            None => Err(Refusal::NoGroup),
            Some(mine) if mine != self.group => {
                Err(Refusal::ForeignGroup { got: self.group, mine })
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };
    const ME: End = End { node: NodeId(2), disk: DiskId(20) };

    fn header() -> Header {
        Header { group: GROUP, sender: End { node: NodeId(1), disk: DiskId(10) }, receiver: ME }
    }

    /// LEDG-117: only what is meant for this group, node and disk is taken.
    #[test]
    fn a_message_is_taken_only_by_whom_it_is_meant_for() {
        assert_eq!(header().check(ME, Some(GROUP)), Ok(()));
        assert_eq!(header().check(ME, None), Err(Refusal::NoGroup));

        let mut other = header();
        other.group.cluster = 8;
        assert_eq!(other.check(ME, Some(GROUP)).unwrap_err().name(), "foreign_group");
        let mut rebuilt = header();
        rebuilt.group.generation = 2;
        assert_eq!(rebuilt.check(ME, Some(GROUP)).unwrap_err().name(), "foreign_group");
        let mut receiver = header();
        receiver.receiver.node = NodeId(3);
        assert_eq!(receiver.check(ME, Some(GROUP)).unwrap_err().name(), "wrong_receiver");
        let mut disk = header();
        disk.receiver.disk = DiskId(21);
        assert_eq!(disk.check(ME, Some(GROUP)).unwrap_err().name(), "wrong_disk");
    }

    #[test]
    fn a_header_survives_the_wire_and_a_short_id_does_not() {
        assert_eq!(Header::from_wire(Some(header().to_wire())), Ok(header()));
        assert_eq!(Header::from_wire(None).unwrap_err().name(), "malformed");
        let mut short = header().to_wire();
        short.sender = Bytes::from_static(b"x");
        assert_eq!(Header::from_wire(Some(short)).unwrap_err().name(), "malformed");
    }

    #[test]
    fn sealed_bytes_of_another_version_or_with_a_tail_are_refused_by_name() {
        let sealed = seal(&(7u64, "text".to_owned())).unwrap();
        assert_eq!(unseal::<(u64, String)>(&sealed), Ok((7, "text".to_owned())));

        let mut future = sealed.to_vec();
        future[0] = WIRE_VERSION + 1;
        assert_eq!(unseal::<(u64, String)>(&future).unwrap_err().name(), "future_version");
        let mut long = sealed.to_vec();
        long.push(0);
        assert_eq!(unseal::<(u64, String)>(&long).unwrap_err().name(), "malformed");
        for cut in 0..sealed.len() {
            assert_eq!(
                unseal::<(u64, String)>(&sealed[..cut]).unwrap_err().name(),
                "malformed",
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_refusal_keeps_its_name_across_the_wire() {
        let status = Status::from(Refusal::NoGroup);
        assert_eq!(refusal_name(&status), Some("no_group"));
        assert_eq!(refusal_name(&Status::internal("x")), None);
    }
}
