//! A CA of one's own for development clusters: one folder, two files, Ed25519 throughout.
//!
//! The CA's certificate carries its cluster and environment, so it cannot issue for another by
//! mistake, and its subject carries a piece of its key's hash, so two CAs of the same cluster have
//! two names.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fence::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::pem::parse_x509_pem;
use x509_parser::time::ASN1Time;

use crate::files::{create_folder, create_pair, read_bounded};
use crate::identity::{Identity, NameError, SCHEME, check_name, uris};
use crate::key;
use crate::role::Role;
use crate::token::JoinToken;

const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca-key.pem";

/// Certificates begin a little in the past, because the clocks of two machines never agree.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// From when until when, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: u64,
    pub not_after: u64,
}

impl Validity {
    /// From `now` (less an hour, for clocks that differ) for `length`.
    #[must_use]
    pub fn starting(now: u64, length: Duration) -> Self {
        Self {
            not_before: now.saturating_sub(CLOCK_SKEW.as_secs()),
            not_after: now.saturating_add(length.as_secs()),
        }
    }
}

/// Why the CA did not do it.
#[derive(Debug)]
pub enum CaError {
    /// Nothing is ever written over.
    Exists {
        path: PathBuf,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
    Name {
        what: &'static str,
        why: NameError,
    },
    Validity {
        why: String,
    },
    /// The folder holds something that is not a CA of ours.
    NotOurs {
        path: PathBuf,
        why: String,
    },
    /// The cryptography failed.
    Issue {
        why: String,
    },
}

impl fmt::Display for CaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => write!(
                f,
                "{} exists and is not written over; move it away or choose another folder",
                path.display()
            ),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Name { what, why } => write!(f, "the {what} cannot be used: {why}"),
            Self::Validity { why } => write!(f, "the time of validity cannot be used: {why}"),
            Self::NotOurs { path, why } => {
                write!(f, "{} is not a development CA: {why}", path.display())
            }
            Self::Issue { why } => write!(f, "the certificate could not be made: {why}"),
        }
    }
}

impl std::error::Error for CaError {}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CaError + '_ {
    move |error| match error.kind() {
        io::ErrorKind::AlreadyExists => CaError::Exists { path: path.to_path_buf() },
        _ => CaError::Io { path: path.to_path_buf(), error },
    }
}

fn issue_error(error: impl fmt::Display) -> CaError {
    CaError::Issue { why: error.to_string() }
}

/// A new certificate with its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    pub identity: Identity,
    pub certificate: String,
    pub key: String,
    pub validity: Validity,
}

/// Where an issued certificate was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The CA of a development cluster.
pub struct DevCa {
    cluster: String,
    environment: String,
    validity: Validity,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl DevCa {
    /// Makes a CA and its two files (`ca.pem`, `ca-key.pem`, both 0600) in `folder`.
    ///
    /// # Errors
    /// If the folder holds a CA already, cannot be written, or a name is not allowed.
    pub fn create(
        folder: &Path,
        cluster: &str,
        environment: &str,
        validity: Validity,
    ) -> Result<Self, CaError> {
        check_name(cluster).map_err(|why| CaError::Name { what: "cluster", why })?;
        check_name(environment).map_err(|why| CaError::Name { what: "environment", why })?;
        let key = key::draw().map_err(issue_error)?;
        let mut params = dated(validity)?;
        let hash = Sha256::digest(key.subject_public_key_info());
        let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("Volley development CA {cluster}/{environment} {short}");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.subject_alt_names = vec![
            uri(&format!("{SCHEME}cluster/{cluster}"))?,
            uri(&format!("{SCHEME}env/{environment}"))?,
        ];
        let certificate = params.self_signed(&key).map_err(issue_error)?.pem();
        create_folder(folder).map_err(io_error(folder))?;
        let key_path = folder.join(KEY_FILE);
        let path = folder.join(CERTIFICATE_FILE);
        create_pair(
            (&key_path, key::private_pem(&key).map_err(issue_error)?.as_bytes()),
            (&path, certificate.as_bytes()),
        )
        .map_err(io_error(&path))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(issue_error)?;
        let (cluster, environment) = (cluster.to_owned(), environment.to_owned());
        Ok(Self { cluster, environment, validity, certificate, issuer })
    }

    /// Opens the CA in `folder`.
    ///
    /// # Errors
    /// If there is none, or it is not one that [`DevCa::create`] made.
    pub fn open(folder: &Path) -> Result<Self, CaError> {
        let path = folder.join(CERTIFICATE_FILE);
        let bad = |why: String| CaError::NotOurs { path: path.clone(), why };
        let text = |path: &Path| {
            let bytes = read_bounded(path).map_err(io_error(path))?;
            String::from_utf8(bytes).map_err(|_| bad("it is not text".into()))
        };
        let certificate = text(&path)?;
        let key = text(&folder.join(KEY_FILE))?;
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).map_err(|e| bad(e.to_string()))?;
        let parsed = pem.parse_x509().map_err(|error| bad(error.to_string()))?;
        if !parsed.is_ca() {
            return Err(bad("its certificate is not that of a CA".into()));
        }
        let names = uris(&parsed).map_err(|error| bad(error.to_string()))?;
        let claim = |claim: &str| {
            let prefix = format!("{SCHEME}{claim}/");
            let mut found = names.iter().filter_map(|name| name.strip_prefix(prefix.as_str()));
            match (found.next(), found.next()) {
                (Some(value), None) if check_name(value).is_ok() => Ok(value.to_owned()),
                _ => Err(bad(format!("its certificate does not have one `{prefix}...`"))),
            }
        };
        let (cluster, environment) = (claim("cluster")?, claim("env")?);
        let seconds = |time: ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
        let validity = Validity {
            not_before: seconds(parsed.validity().not_before),
            not_after: seconds(parsed.validity().not_after),
        };
        let key = KeyPair::from_pem(&key).map_err(|error| bad(error.to_string()))?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            return Err(bad("its key does not belong to its certificate".into()));
        }
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(issue_error)?;
        Ok(Self { cluster, environment, validity, certificate, issuer })
    }

    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    #[must_use]
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// The CA's certificate in PEM: what every node is given to trust.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    /// If the datacenter's name is not allowed, or the certificate would outlive the CA.
    pub fn issue(
        &self,
        role: Role,
        datacenter: &str,
        node: NodeId,
        validity: Validity,
    ) -> Result<Issued, CaError> {
        let identity = self.identity(role, datacenter, node)?;
        let key = key::draw().map_err(issue_error)?;
        let certificate = self.sign(&identity, validity, &key)?.pem();
        let key = key::private_pem(&key).map_err(issue_error)?;
        Ok(Issued { identity, certificate, key, validity })
    }

    /// A certificate in PEM for a key that stays where it was made. Only its public half comes
    /// here, as Ed25519 `SubjectPublicKeyInfo` in DER.
    ///
    /// # Errors
    /// If the key or the datacenter's name cannot be used, or the certificate would outlive the CA.
    pub fn issue_for(
        &self,
        role: Role,
        datacenter: &str,
        node: NodeId,
        validity: Validity,
        public_key: &[u8],
    ) -> Result<String, CaError> {
        if !key::is_public(public_key) {
            return Err(CaError::Issue { why: "the public key is not an Ed25519 key".into() });
        }
        let identity = self.identity(role, datacenter, node)?;
        let public_key = SubjectPublicKeyInfo::from_der(public_key).map_err(issue_error)?;
        Ok(self.sign(&identity, validity, &public_key)?.pem())
    }

    /// What somebody needs to become a worker of this datacenter: see [`JoinToken`].
    ///
    /// # Errors
    /// If the datacenter's name is not allowed, or the token would outlive the CA.
    pub fn token(&self, datacenter: &str, validity: Validity) -> Result<JoinToken, CaError> {
        let key = key::draw().map_err(issue_error)?;
        let hash: [u8; 32] = Sha256::digest(key.subject_public_key_info()).into();
        let (id, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        // Its own, so that logs tell which token was used.
        let node = NodeId(u128::from_be_bytes(*id));
        let identity = self.identity(Role::Recruit, datacenter, node)?;
        let certificate = self.sign(&identity, validity, &key)?.der().clone();
        let seed = key::seed(&key).map_err(issue_error)?;
        let ca = self.certificate_der()?;
        Ok(JoinToken::new(ca, certificate, seed, identity, validity.not_after))
    }

    /// From when until when it can sign.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether whoever trusts the CAs in this PEM text trusts this one.
    #[must_use]
    pub fn is_among(&self, trusted: &[u8]) -> bool {
        let trusted = crate::credentials::certificates("CA", trusted).unwrap_or_default();
        self.certificate_der().is_ok_and(|own| trusted.contains(&own))
    }

    fn certificate_der(&self) -> Result<CertificateDer<'static>, CaError> {
        let found = crate::credentials::certificates("CA", self.certificate.as_bytes());
        found
            .map_err(issue_error)?
            .into_iter()
            .next()
            .ok_or_else(|| CaError::Issue { why: "the CA has no certificate".into() })
    }

    fn identity(&self, role: Role, datacenter: &str, node: NodeId) -> Result<Identity, CaError> {
        check_name(datacenter).map_err(|why| CaError::Name { what: "datacenter", why })?;
        Ok(Identity {
            cluster: self.cluster.clone(),
            environment: self.environment.clone(),
            role,
            datacenter: datacenter.to_owned(),
            node,
        })
    }

    fn sign(
        &self,
        identity: &Identity,
        validity: Validity,
        key: &impl PublicKeyData,
    ) -> Result<rcgen::Certificate, CaError> {
        if validity.not_after > self.validity.not_after {
            let why = "it would outlive its CA; choose a shorter time, or make a new CA".into();
            return Err(CaError::Validity { why });
        }
        let Identity { role, node, .. } = identity;
        let mut params = dated(validity)?;
        params.distinguished_name.push(DnType::CommonName, format!("{role} {node}"));
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names =
            identity.uris().iter().map(|name| uri(name)).collect::<Result<_, _>>()?;
        params.signed_by(key, &self.issuer).map_err(issue_error)
    }
}

impl Issued {
    /// Writes `ROLE-NODE.pem` and `ROLE-NODE-key.pem` (both 0600) into `folder`.
    ///
    /// # Errors
    /// If one exists already or the folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<IssuedFiles, CaError> {
        self.write_as(folder, &format!("{}-{}", self.identity.role, self.identity.node))
    }

    /// The same as `STEM.pem` and `STEM-key.pem`.
    ///
    /// # Errors
    /// If one exists already, the folder cannot be written, or the stem is no plain name.
    pub fn write_as(&self, folder: &Path, stem: &str) -> Result<IssuedFiles, CaError> {
        check_name(stem).map_err(|why| CaError::Name { what: "file name", why })?;
        create_folder(folder).map_err(io_error(folder))?;
        let certificate = folder.join(format!("{stem}.pem"));
        let key = folder.join(format!("{stem}-key.pem"));
        create_pair((&key, self.key.as_bytes()), (&certificate, self.certificate.as_bytes()))
            .map_err(io_error(&certificate))?;
        Ok(IssuedFiles { certificate, key })
    }
}

fn uri(text: &str) -> Result<SanType, CaError> {
    text.try_into().map(SanType::URI).map_err(issue_error)
}

fn dated(validity: Validity) -> Result<CertificateParams, CaError> {
    if validity.not_before >= validity.not_after {
        return Err(CaError::Validity { why: "it ends before it begins".into() });
    }
    let date = |seconds: u64| {
        i64::try_from(seconds)
            .ok()
            .and_then(|seconds| ASN1Time::from_timestamp(seconds).ok())
            .map(|time| time.to_datetime())
            .ok_or_else(|| CaError::Validity { why: "the date is too far away".into() })
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    Ok(params)
}

#[cfg(test)]
#[path = "ca_tests.rs"]
mod tests;
