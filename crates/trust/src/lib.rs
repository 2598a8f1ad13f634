//! Who may talk to whom: roles, identities in certificates, mutual TLS.
//!
//! ```text
//!   certificate ──SAN URIs──▶ Identity ──admit(initiator, target, policy)──▶ yes, or a named Refusal
//!        ▲                        ▲
//!   DevCa (development, tokens)   │ read inside the handshake, handed out with the stream
//!                                 │
//!   Keeper (swappable) ──▶ Acceptor / Connector ──▶ Secured stream   Incoming: bounded handshakes beside accept
//! ```
//!
//! A node proves three things before a byte of it is read: that a CA of this cluster signed its
//! certificate, that the certificate is valid now, and that its role may open (or answer) this
//! connection. Host names prove nothing here: nodes are verified by CA and by the identity in their
//! certificate, because addresses change and identities do not.
//!
//! **Invariant:** every refusal happens inside the handshake, on the side that refuses, with a
//! reason that has a name. The other side sees only a TLS alert, so a stranger learns nothing about
//! the cluster.

mod admit;
mod ca;
mod credentials;
mod files;
mod handshake;
mod identity;
mod incoming;
mod inspect;
mod key;
mod protocol;
mod role;
mod token;
mod verify;

pub use admit::{Expected, Gates, Policy, Refusal, Utc, admit, confirm};
pub use ca::{CaError, DevCa, Issued, IssuedFiles, Validity};
pub use credentials::{Credentials, CredentialsError, Keeper, SwapError};
pub use files::create_private;
pub use handshake::{Acceptor, Connector, HandshakeError, Peer, Secured, refused_by_peer};
pub use identity::{Identity, IdentityError, NAME_BYTES_MAX, NameError, SCHEME, check_name};
pub use incoming::{Arrival, Incoming, IncomingLimits};
pub use inspect::{Facts, Files, Finding, InspectError, check, show};
pub use key::{FreshKey, KeyError};
pub use protocol::{PROTOCOL, Protocol, ProtocolError};
pub use role::{Role, RoleError};
pub use token::{JoinToken, TokenError};
