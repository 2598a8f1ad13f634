//! The decision whether two identities may be connected, and the names of all refusals.
//!
//! Order of the checks: cluster, environment, role, receiver. A node of another cluster is refused
//! for that, whatever else may be wrong with it, so that the first line an operator reads is the
//! one that matters.

use std::fmt;

use fence::NodeId;

use crate::identity::{Identity, IdentityError};
use crate::protocol::Protocol;
use crate::role::Role;

/// Whether this cluster has gates in front of its managers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gates {
    #[default]
    Configured,
    /// Clients submit to managers directly.
    None,
}

/// Whom the initiator meant to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub role: Role,
    /// `None` at first contact, when only an address is known.
    pub node: Option<NodeId>,
}

/// What one end of a connection asks of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub gates: Gates,
    /// The initiator's expectation; the target has none.
    pub expected: Option<Expected>,
}

/// Why a peer was refused. [`Refusal::kind`] names it for counters, the text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoCertificate,
    UnknownAuthority,
    /// Seconds since 1970.
    Expired {
        not_after: u64,
    },
    NotYetValid {
        not_before: u64,
    },
    /// The signature on the certificate or on the handshake is false.
    BadSignature,
    /// The certificate is for another use (server or client authentication is not in it).
    WrongPurpose,
    BadCertificate {
        why: String,
    },
    Identity(IdentityError),
    Cluster {
        ours: String,
        theirs: String,
    },
    Environment {
        ours: String,
        theirs: String,
    },
    Role {
        initiator: Role,
        target: Role,
    },
    Datacenter {
        initiator: Role,
        from: String,
        target: Role,
        to: String,
    },
    /// A message says something else of its sender than the sender's certificate.
    Claim {
        what: &'static str,
    },
    /// Somebody else answered at the address.
    Receiver {
        expected: Expected,
        role: Role,
        node: NodeId,
    },
    /// The two have no contract in common.
    Protocol {
        ours: Protocol,
        theirs: Protocol,
    },
}

impl Refusal {
    /// A short name for metrics. The set is fixed; nothing that a peer sent is in it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::UnknownAuthority => "unknown_authority",
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::BadSignature => "bad_signature",
            Self::WrongPurpose => "wrong_purpose",
            Self::BadCertificate { .. } => "bad_certificate",
            Self::Identity(_) => "bad_identity",
            Self::Cluster { .. } => "cluster",
            Self::Environment { .. } => "environment",
            Self::Role { .. } => "role",
            Self::Datacenter { .. } => "datacenter",
            Self::Claim { .. } => "claim",
            Self::Receiver { .. } => "receiver",
            Self::Protocol { ours, theirs } if theirs > ours => "protocol_too_new",
            Self::Protocol { .. } => "protocol_too_old",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str(
                "the peer showed no certificate; every node and client of a cluster needs one",
            ),
            Self::UnknownAuthority => f.write_str(
                "the peer's certificate was not issued by a CA that this node trusts; \
                 issue it from this cluster's CA, or add that CA here",
            ),
            Self::Expired { not_after } => write!(
                f,
                "the peer's certificate expired at {}; issue a new one (is this node's clock right?)",
                Utc(*not_after)
            ),
            Self::NotYetValid { not_before } => write!(
                f,
                "the peer's certificate is valid only from {}; compare the clocks of both machines",
                Utc(*not_before)
            ),
            Self::BadSignature => f.write_str("a signature of the peer is false"),
            Self::WrongPurpose => f.write_str(
                "the peer's certificate is not for this use; it needs both server and client authentication",
            ),
            Self::BadCertificate { why } => write!(f, "the peer's certificate is bad: {why}"),
            Self::Identity(why) => write!(f, "the peer's certificate names nobody: {why}"),
            Self::Cluster { ours, theirs } => {
                write!(f, "the peer belongs to cluster `{theirs}`, this node to `{ours}`")
            }
            Self::Environment { ours, theirs } => {
                write!(f, "the peer belongs to environment `{theirs}`, this node to `{ours}`")
            }
            Self::Role { initiator: Role::Client, target: Role::Manager } => f.write_str(
                "role 'client' cannot connect to 'manager' where gates are configured: connect to a gate",
            ),
            Self::Role { initiator, target } => {
                write!(f, "role '{initiator}' cannot connect to '{target}'")?;
                match (initiator, target) {
                    (Role::Client | Role::Recruit, Role::Worker | Role::Client) => {
                        write!(f, ": a {target} answers at that address; give a manager's")
                    }
                    _ => Ok(()),
                }
            }
            Self::Datacenter { initiator, from, target, to } => write!(
                f,
                "{initiator} of datacenter `{from}` cannot connect to {target} of datacenter `{to}`: \
                 managers and workers stay within theirs"
            ),
            Self::Claim { what } => write!(
                f,
                "the message names another {what} than its sender's certificate; it is not believed"
            ),
            Self::Receiver { expected, role, node } => {
                let Expected { role: wanted, node: wanted_node } = expected;
                match wanted_node {
                    Some(wanted_node) => write!(
                        f,
                        "{role} {node} answered where {wanted} {wanted_node} was expected; \
                         the address belongs to another node now"
                    ),
                    None => write!(f, "{role} {node} answered where a {wanted} was expected"),
                }
            }
            Self::Protocol { ours, theirs } => {
                let late = if theirs > ours { "this node" } else { "the peer" };
                write!(
                    f,
                    "the peer speaks protocol {theirs}, this node {ours}, and the two do not understand each other; \
                     bring {late} up to the other's version"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Whether a message's words about its sender agree with the sender's certificate. To be asked
/// before any other field of the message is looked at.
///
/// # Errors
/// With the first difference, in the order cluster, environment, role, datacenter, node.
pub fn confirm(certified: &Identity, claimed: &Identity) -> Result<(), Refusal> {
    let checks = [
        ("cluster", certified.cluster == claimed.cluster),
        ("environment", certified.environment == claimed.environment),
        ("role", certified.role == claimed.role),
        ("datacenter", certified.datacenter == claimed.datacenter),
        ("node", certified.node == claimed.node),
    ];
    match checks.into_iter().find(|(_, agrees)| !agrees) {
        Some((what, _)) => Err(Refusal::Claim { what }),
        None => Ok(()),
    }
}

/// Whether `initiator` may hold a connection to `target`. Both ends ask this, each of the other.
///
/// # Errors
/// With the first check that fails, in the order cluster, environment, role, receiver.
pub fn admit(initiator: &Identity, target: &Identity, policy: &Policy) -> Result<(), Refusal> {
    check(initiator, target, policy, Side::Target)
}

/// The same, seen from the initiator: only the texts differ in whose name comes first.
pub(crate) fn admit_target(
    initiator: &Identity,
    target: &Identity,
    policy: &Policy,
) -> Result<(), Refusal> {
    check(initiator, target, policy, Side::Initiator)
}

/// Who is asking, and so whose cluster is "ours".
#[derive(Clone, Copy)]
enum Side {
    Initiator,
    Target,
}

fn check(
    initiator: &Identity,
    target: &Identity,
    policy: &Policy,
    side: Side,
) -> Result<(), Refusal> {
    let (us, them) = match side {
        Side::Initiator => (initiator, target),
        Side::Target => (target, initiator),
    };
    if us.cluster != them.cluster {
        return Err(Refusal::Cluster { ours: us.cluster.clone(), theirs: them.cluster.clone() });
    }
    if us.environment != them.environment {
        return Err(Refusal::Environment {
            ours: us.environment.clone(),
            theirs: them.environment.clone(),
        });
    }
    if !initiator.role.may_open(target.role, policy.gates == Gates::Configured) {
        return Err(Refusal::Role { initiator: initiator.role, target: target.role });
    }
    let bound = initiator.role.is_bound_to_datacenter() && target.role.is_bound_to_datacenter();
    if bound && initiator.datacenter != target.datacenter {
        return Err(Refusal::Datacenter {
            initiator: initiator.role,
            from: initiator.datacenter.clone(),
            target: target.role,
            to: target.datacenter.clone(),
        });
    }
    if let Some(expected) = policy.expected {
        let other_node = expected.node.is_some_and(|node| node != target.node);
        if expected.role != target.role || other_node {
            return Err(Refusal::Receiver { expected, role: target.role, node: target.node });
        }
    }
    Ok(())
}

/// Seconds since 1970 as a date, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = *self;
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01, in eras of 400 years; the year begins in March, so the leap day is
        // its last.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
