//! A node's certificate, key and trusted CAs, and the place where they can be changed while it
//! runs.
//!
//! Everything is checked when it is loaded: that the key belongs to the certificate, that our own
//! CAs would accept us, that the CA file holds CAs. A node with bad credentials fails at its start
//! with the reason, not at its peers without one.

use base::clock;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::admit::Refusal;
use crate::files::read_bounded;
use crate::identity::{Identity, IdentityError};
use crate::verify::{refusal_of, verify_as_server};

/// Certificates in one file: a chain, or a bundle of CAs during a change of CA.
const CERTIFICATES_MAX: usize = 16;

/// What a node shows, and whom it believes.
pub struct Credentials {
    identity: Identity,
    not_after: u64,
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pub(crate) provider: Arc<CryptoProvider>,
}

/// Why credentials cannot be used.
#[derive(Debug)]
pub enum CredentialsError {
    Read {
        path: PathBuf,
        error: io::Error,
    },
    /// `what` is the certificate, the key or the CA.
    Pem {
        what: &'static str,
        why: String,
    },
    /// A file that should hold CAs holds something else.
    NotACa {
        subject: String,
    },
    CaExpired {
        subject: String,
        not_after: u64,
    },
    KeyMismatch,
    Identity(IdentityError),
    /// Our own CAs refuse our own certificate, with the reason that a peer would give.
    Own(Refusal),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            Self::Pem { what, why } => write!(f, "the {what} cannot be used: {why}"),
            Self::NotACa { subject } => write!(
                f,
                "`{subject}` among the trusted CAs is not a CA certificate; give the CA's own certificate"
            ),
            Self::CaExpired { subject, not_after } => {
                write!(f, "the CA `{subject}` expired at {}", crate::admit::Utc(*not_after))
            }
            Self::KeyMismatch => {
                f.write_str("the private key does not belong to the certificate; give the pair")
            }
            Self::Identity(why) => why.fmt(f),
            Self::Own(refusal) => {
                write!(f, "peers would refuse this certificate ({}): {refusal}", refusal.kind())
            }
        }
    }
}

impl std::error::Error for CredentialsError {}

pub(crate) fn certificates(
    what: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let bad = |why: String| CredentialsError::Pem { what, why };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX + 1).collect();
    let found = found.map_err(|error| bad(error.to_string()))?;
    match found.len() {
        0 => Err(bad("no PEM certificate is in it".into())),
        n if n > CERTIFICATES_MAX => Err(bad(format!("more than {CERTIFICATES_MAX} certificates"))),
        _ => Ok(found),
    }
}

fn check_root(der: &CertificateDer<'_>, now: u64) -> Result<(), CredentialsError> {
    let bad = |why: String| CredentialsError::Pem { what: "CA", why };
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| bad(error.to_string()))?;
    let subject = certificate.subject().to_string();
    // A trust anchor is believed without a look at its dates and its purpose, so we look here.
    if !certificate.is_ca() {
        return Err(CredentialsError::NotACa { subject });
    }
    let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    if not_after < now {
        return Err(CredentialsError::CaExpired { subject, not_after });
    }
    Ok(())
}

impl Credentials {
    /// Reads the three files.
    ///
    /// # Errors
    /// If one cannot be read, or [`Credentials::from_pem`] refuses what is in it.
    pub fn load(certificate: &Path, key: &Path, ca: &Path) -> Result<Self, CredentialsError> {
        let read = |path: &Path| {
            read_bounded(path)
                .map_err(|error| CredentialsError::Read { path: path.to_path_buf(), error })
        };
        Self::from_pem(&read(certificate)?, &read(key)?, &read(ca)?, clock::unix_now().as_secs())
    }

    /// Checks and takes a chain (leaf first), its private key, and the CAs to trust (two during a
    /// change of CA).
    ///
    /// # Errors
    /// If anything would make peers refuse us, or make us believe somebody we should not.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        ca: &[u8],
        now: u64,
    ) -> Result<Self, CredentialsError> {
        let chain = certificates("certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CredentialsError::Pem { what: "key", why: error.to_string() })?;
        Self::from_der(chain, key, certificates("CA", ca)?, now)
    }

    /// The same without PEM around it.
    pub(crate) fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        ca: Vec<CertificateDer<'static>>,
        now: u64,
    ) -> Result<Self, CredentialsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pem = |what, why: String| CredentialsError::Pem { what, why };
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| pem("key", error.to_string()))?;

        let mut roots = RootCertStore::empty();
        for root in ca {
            check_root(&root, now)?;
            roots.add(root).map_err(|error| pem("CA", error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| pem("CA", error.to_string()))?;

        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|_| CredentialsError::KeyMismatch)?;
        let (leaf, intermediates) = certified
            .cert
            .split_first()
            .ok_or_else(|| pem("certificate", "no PEM certificate is in it".into()))?;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let own = |error: rustls::Error| CredentialsError::Own(refusal_of(&error));
        ParsedCertificate::try_from(leaf).map_err(own)?;
        verify_as_server(leaf, intermediates, &roots, &provider, time).map_err(own)?;
        clients.verify_client_cert(leaf, intermediates, time).map_err(own)?;
        let identity = Identity::from_certificate(leaf).map_err(CredentialsError::Identity)?;
        let not_after = not_after_of(leaf);
        Ok(Self { identity, not_after, certified: Arc::new(certified), roots, clients, provider })
    }

    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// When the certificate ends, in seconds since 1970. Rotate well before.
    #[must_use]
    pub fn not_after(&self) -> u64 {
        self.not_after
    }
}

pub(crate) fn not_after_of(der: &CertificateDer<'_>) -> u64 {
    let parsed = X509Certificate::from_der(der);
    parsed.map_or(0, |(_, c)| u64::try_from(c.validity().not_after.timestamp()).unwrap_or(0))
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("Credentials")
            .field("identity", &self.identity)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Why credentials were not swapped. The old ones stay in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapError {
    pub ours: Identity,
    pub offered: Identity,
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, offered } = self;
        write!(
            f,
            "the new certificate is for {offered}, this node is {ours}; rotation keeps the identity, \
             so the old certificate stays in use"
        )
    }
}

impl std::error::Error for SwapError {}

/// Holds the credentials in use. Handshakes take the current ones; connections keep those they
/// began with.
#[derive(Debug)]
pub struct Keeper {
    current: RwLock<Arc<Credentials>>,
}

impl Keeper {
    #[must_use]
    pub fn new(credentials: Credentials) -> Arc<Self> {
        Arc::new(Self { current: RwLock::new(Arc::new(credentials)) })
    }

    #[must_use]
    pub fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses `credentials` from the next handshake on.
    ///
    /// # Errors
    /// If they are for another identity: a node does not become somebody else while it runs.
    pub fn swap(&self, credentials: Credentials) -> Result<(), Box<SwapError>> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.identity != credentials.identity {
            return Err(Box::new(SwapError {
                ours: current.identity.clone(),
                offered: credentials.identity.clone(),
            }));
        }
        *current = Arc::new(credentials);
        Ok(())
    }
}

impl ResolvesServerCert for Keeper {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current().certified))
    }
}

impl ResolvesClientCert for Keeper {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
