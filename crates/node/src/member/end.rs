//! Why a member did not start, or has to stop. Each says what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use fence::{BootId, NodeId};
use trust::{CredentialsError, Role};

use crate::identity::IdentityError;
use crate::secret::SecretError;
use crate::supervise::Fatal;

/// Why a member did not start.
#[derive(Debug)]
pub enum StartError {
    Credentials(CredentialsError),
    Identity(IdentityError),
    Secret(SecretError),
    /// A client certificate belongs to a person, a recruit's to a token; neither is a member.
    NotAMember {
        role: Role,
    },
    /// The life that was handed in is not the certificate's.
    OtherNode {
        given: NodeId,
        certificate: NodeId,
    },
    /// Listening on every address, without saying which one others shall use.
    NoAddress {
        bind: SocketAddr,
    },
    /// The pace is no positive number.
    Pace {
        pace: f64,
    },
    Listen {
        address: SocketAddr,
        what: &'static str,
        error: io::Error,
    },
    /// The endpoints would be readable by everybody.
    HttpBeyondLoopback {
        address: SocketAddr,
    },
    Resolver {
        why: String,
    },
    Random,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(error) => error.fmt(f),
            Self::Identity(error) => error.fmt(f),
            Self::Secret(error) => error.fmt(f),
            Self::NotAMember { role } => write!(
                f,
                "the certificate is a {role}'s; a member needs one for a gate, a manager or a worker"
            ),
            Self::OtherNode { given, certificate } => write!(
                f,
                "the ledger's data folder belongs to node {given}, the certificate to node {certificate}"
            ),
            Self::NoAddress { bind } => write!(
                f,
                "{bind} listens on every address; say with `advertise` which one the others shall use"
            ),
            Self::Pace { pace } => write!(f, "the pace is {pace}; it must be a number above 0"),
            Self::Listen { address, what, error } => {
                write!(f, "cannot listen on {address} ({what}): {error}")
            }
            Self::HttpBeyondLoopback { address } => write!(
                f,
                "the metrics and debug endpoints would be readable by everybody who reaches {address}: use a \
                 loopback address, or allow it explicitly (they only read)"
            ),
            Self::Resolver { why } => write!(f, "the DNS settings of this machine: {why}"),
            Self::Random => f.write_str("the operating system gave no random bytes"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<CredentialsError> for StartError {
    fn from(error: CredentialsError) -> Self {
        Self::Credentials(error)
    }
}

impl From<IdentityError> for StartError {
    fn from(error: IdentityError) -> Self {
        Self::Identity(error)
    }
}

impl From<SecretError> for StartError {
    fn from(error: SecretError) -> Self {
        Self::Secret(error)
    }
}

/// Why a member has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Others know a later life of this node, or the same node with another data folder.
    DataLost { node: NodeId, boot: BootId, known: BootId, other_folder: bool, said_by: NodeId },
    /// Another process runs as this node, started later.
    Superseded { node: NodeId, boot: BootId, by: BootId },
    /// A task that the node cannot do without has ended.
    Task(Fatal),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataLost { node, boot, known, other_folder, said_by } => {
                let what = if *other_folder { "another data folder" } else { "a later start" };
                write!(
                    f,
                    "{said_by} knows node {node} with {what} (start {known}, this one is start {boot}): another \
                     process runs with a copy of this certificate, or the data folder was lost, or an old copy of it \
                     is in use. Put the right data folder back, or issue a certificate with a new node id (`volley \
                     certs issue`). A manager that is new joins the group with --join-group and --seed, without \
                     --peers; then `volley managers add` lets it in, and `volley managers remove {node}` takes this \
                     one out"
                )
            }
            Self::Superseded { node, boot, by } => write!(
                f,
                "another process runs as node {node} with a later start ({by}, this one is {boot}): its data folder \
                 was copied. One of the two has to go; a copy needs a certificate with a new node id"
            ),
            Self::Task(fatal) => fatal.fmt(f),
        }
    }
}

impl std::error::Error for End {}
