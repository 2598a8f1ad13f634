//! The identity in a certificate: five SAN URIs, each exactly once.
//!
//! ```text
//! volley://role/worker   volley://cluster/ID   volley://env/ID   volley://dc/ID   volley://node/NODEID
//! ```
//!
//! The parser is strict, because what it accepts decides who may speak: a certificate with two
//! roles, a misspelt claim or one claim too few is refused whole. Names of other schemes (DNS,
//! addresses, SPIFFE) are left alone.

use std::collections::BTreeMap;
use std::fmt;

use fence::{IdError, NodeId};
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::role::{Role, RoleError};

/// The scheme of our URIs.
pub const SCHEME: &str = "volley://";

/// The longest cluster, environment or datacenter name.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest URI of ours: scheme, claim and name with room to spare, so that errors can quote it.
const URI_BYTES_MAX: usize = 160;

/// Alternative names looked at; a certificate of ours has five.
const NAMES_MAX: usize = 32;

/// The claims, in the order in which problems are reported.
const CLAIMS: [&str; 5] = ["cluster", "env", "role", "dc", "node"];

/// Who a peer is, as its CA says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: String,
    pub environment: String,
    pub role: Role,
    pub datacenter: String,
    pub node: NodeId,
}

/// A name that cannot be a cluster, environment or datacenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    Empty,
    Oversized { bytes: usize },
    Character { found: char },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::Oversized { bytes } => {
                write!(f, "the name has {bytes} bytes; at most {NAME_BYTES_MAX} are allowed")
            }
            Self::Character { found } => write!(
                f,
                "{found:?} is not allowed in a name (letters, digits, `.`, `-` and `_` are)"
            ),
        }
    }
}

impl std::error::Error for NameError {}

/// Why a certificate gives no identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The certificate could not be read.
    Unreadable {
        why: String,
    },
    /// More alternative names than a certificate of ours can have.
    TooManyNames {
        found: usize,
    },
    Missing {
        claim: &'static str,
    },
    Doubled {
        claim: &'static str,
    },
    Unknown {
        uri: String,
    },
    Oversized {
        bytes: usize,
    },
    BadName {
        claim: &'static str,
        why: NameError,
    },
    BadRole(RoleError),
    BadNode(IdError),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { why } => write!(f, "the certificate cannot be read: {why}"),
            Self::TooManyNames { found } => write!(
                f,
                "the certificate has {found} alternative names; at most {NAMES_MAX} are read"
            ),
            Self::Missing { claim } => {
                write!(
                    f,
                    "the certificate has no `{SCHEME}{claim}/...` among its alternative names"
                )
            }
            Self::Doubled { claim } => write!(
                f,
                "the certificate has `{SCHEME}{claim}/...` more than once; exactly one is allowed"
            ),
            Self::Unknown { uri } => write!(
                f,
                "`{uri}` in the certificate is unknown; known are {SCHEME}cluster/, env/, role/, dc/ and node/"
            ),
            Self::Oversized { bytes } => write!(
                f,
                "a `{SCHEME}` name in the certificate has {bytes} bytes; at most {URI_BYTES_MAX} are allowed"
            ),
            Self::BadName { claim, why } => {
                write!(f, "`{SCHEME}{claim}/` in the certificate: {why}")
            }
            Self::BadRole(why) => write!(f, "`{SCHEME}role/` in the certificate: {why}"),
            Self::BadNode(why) => write!(f, "`{SCHEME}node/` in the certificate: {why}"),
        }
    }
}

impl std::error::Error for IdentityError {}

/// Whether `name` can name a cluster, an environment or a datacenter.
///
/// # Errors
/// With the first thing that is wrong with it.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::Oversized { bytes: name.len() });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match name.chars().find(|c| !allowed(*c)) {
        Some(found) => Err(NameError::Character { found }),
        None => Ok(()),
    }
}

impl Identity {
    /// Reads the identity from the URIs of a certificate. URIs of other schemes are skipped.
    ///
    /// # Errors
    /// If a claim is missing, doubled, unknown, too long or malformed.
    pub fn from_uris<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Self, IdentityError> {
        let mut claims: BTreeMap<&'static str, &'a str> = BTreeMap::new();
        for uri in uris {
            // Schemes are compared without case, so that `VOLLEY://role/gate` is refused and not
            // overlooked.
            let ours = uri.get(..SCHEME.len()).is_some_and(|s| s.eq_ignore_ascii_case(SCHEME));
            if !ours {
                continue;
            }
            if uri.len() > URI_BYTES_MAX {
                return Err(IdentityError::Oversized { bytes: uri.len() });
            }
            let unknown = || IdentityError::Unknown { uri: uri.to_owned() };
            let rest = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
            let (key, value) = rest.split_once('/').ok_or_else(unknown)?;
            let claim = CLAIMS.into_iter().find(|claim| *claim == key).ok_or_else(unknown)?;
            if claims.insert(claim, value).is_some() {
                return Err(IdentityError::Doubled { claim });
            }
        }
        let get = |claim: &'static str| {
            claims.get(claim).copied().ok_or(IdentityError::Missing { claim })
        };
        let name = |claim: &'static str| {
            let value = get(claim)?;
            check_name(value).map_err(|why| IdentityError::BadName { claim, why })?;
            Ok(value.to_owned())
        };
        Ok(Self {
            cluster: name("cluster")?,
            environment: name("env")?,
            role: get("role")?.parse().map_err(IdentityError::BadRole)?,
            datacenter: name("dc")?,
            node: get("node")?.parse().map_err(IdentityError::BadNode)?,
        })
    }

    /// Reads the identity from a certificate. The caller has verified the certificate, or says so.
    ///
    /// # Errors
    /// If the certificate cannot be read, or [`Identity::from_uris`] refuses what it says.
    pub fn from_certificate(der: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let unreadable = |why: String| IdentityError::Unreadable { why };
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|error| unreadable(error.to_string()))?;
        if !rest.is_empty() {
            return Err(unreadable(format!("{} bytes follow it", rest.len())));
        }
        Self::from_parsed(&certificate)
    }

    pub(crate) fn from_parsed(certificate: &X509Certificate<'_>) -> Result<Self, IdentityError> {
        Self::from_uris(uris(certificate)?)
    }

    /// The URIs that stand for this identity in a certificate.
    #[must_use]
    pub fn uris(&self) -> [String; 5] {
        [
            format!("{SCHEME}cluster/{}", self.cluster),
            format!("{SCHEME}env/{}", self.environment),
            format!("{SCHEME}role/{}", self.role),
            format!("{SCHEME}dc/{}", self.datacenter),
            format!("{SCHEME}node/{}", self.node),
        ]
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, environment, role, datacenter, node } = self;
        write!(f, "{role} {node} of {cluster}/{environment} in {datacenter}")
    }
}

/// The URIs among a certificate's alternative names.
pub(crate) fn uris<'a>(
    certificate: &'a X509Certificate<'_>,
) -> Result<Vec<&'a str>, IdentityError> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| IdentityError::Unreadable { why: error.to_string() })?;
    let Some(names) = names else { return Ok(Vec::new()) };
    let names = &names.value.general_names;
    if names.len() > NAMES_MAX {
        return Err(IdentityError::TooManyNames { found: names.len() });
    }
    Ok(names
        .iter()
        .filter_map(|n| if let GeneralName::URI(uri) = n { Some(*uri) } else { None })
        .collect())
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
