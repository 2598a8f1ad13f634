//! What is in certificate files, and what is wrong with them: the data behind `volley certs show`
//! and `check`.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::credentials::{Credentials, CredentialsError, certificates};
use crate::files::read_bounded;
use crate::identity::{Identity, IdentityError};

/// A certificate that ends sooner than this is reported.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// One certificate, for people. Nothing here was verified.
#[derive(Clone, Debug)]
pub struct Facts {
    pub subject: String,
    pub issuer: String,
    pub serial: String,
    pub not_before: u64,
    pub not_after: u64,
    pub is_ca: bool,
    /// SHA-256 of the certificate.
    pub fingerprint: [u8; 32],
    /// CAs have none, and say so here.
    pub identity: Result<Identity, IdentityError>,
}

/// Why a file could not be shown.
#[derive(Debug)]
pub enum InspectError {
    Read { path: PathBuf, error: io::Error },
    Content(CredentialsError),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            Self::Content(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InspectError {}

fn facts(der: &CertificateDer<'_>) -> Result<Facts, CredentialsError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| {
        CredentialsError::Identity(IdentityError::Unreadable { why: error.to_string() })
    })?;
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    Ok(Facts {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        serial: certificate.raw_serial_as_string(),
        not_before: seconds(certificate.validity().not_before.timestamp()),
        not_after: seconds(certificate.validity().not_after.timestamp()),
        is_ca: certificate.is_ca(),
        fingerprint: Sha256::digest(der).into(),
        identity: Identity::from_parsed(&certificate),
    })
}

/// Every certificate in a PEM file.
///
/// # Errors
/// If the file cannot be read or holds no certificates.
pub fn show(path: &Path) -> Result<Vec<Facts>, InspectError> {
    let bytes = read_bounded(path)
        .map_err(|error| InspectError::Read { path: path.to_path_buf(), error })?;
    let chain = certificates("certificate", &bytes).map_err(InspectError::Content)?;
    chain.iter().map(|der| facts(der).map_err(InspectError::Content)).collect()
}

/// The files that a node is started with.
#[derive(Clone, Debug)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

/// Something that an operator should know.
#[derive(Debug)]
pub enum Finding {
    /// A node would not start with these files.
    Unusable(CredentialsError),
    /// Others on the machine can read the private key.
    KeyReadable {
        path: PathBuf,
        mode: u32,
    },
    ExpiresSoon {
        not_after: u64,
        left: Duration,
    },
}

impl Finding {
    /// Whether a node can start in spite of it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Unusable(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(error) => error.fmt(f),
            Self::KeyReadable { path, mode } => write!(
                f,
                "{} can be read by others (mode {mode:04o}); run: chmod 600 {}",
                path.display(),
                path.display()
            ),
            Self::ExpiresSoon { not_after, left } => write!(
                f,
                "the certificate ends at {}, in {} days; issue a new one and swap it in",
                crate::admit::Utc(*not_after),
                left.as_secs() / 86_400
            ),
        }
    }
}

/// Looks at the files as a starting node does, and a little further. `now` is in seconds since
/// 1970.
#[must_use]
pub fn check(files: &Files, now: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let read = |path: &Path| {
        read_bounded(path)
            .map_err(|error| CredentialsError::Read { path: path.to_path_buf(), error })
    };
    let loaded = (|| {
        let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
        Credentials::from_pem(&certificate, &key, &read(&files.ca)?, now)
    })();
    match loaded {
        Ok(credentials) => {
            let left = Duration::from_secs(credentials.not_after().saturating_sub(now));
            if left < EXPIRES_SOON {
                findings.push(Finding::ExpiresSoon { not_after: credentials.not_after(), left });
            }
        }
        Err(error) => findings.push(Finding::Unusable(error)),
    }
    if let Ok(metadata) = std::fs::metadata(&files.key) {
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            findings.push(Finding::KeyReadable { path: files.key.clone(), mode });
        }
    }
    findings
}
