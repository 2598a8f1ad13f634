//! A join token: a short-lived certificate of a [`Role::Recruit`] with its key and the CA, as one
//! line of text.
//!
//! ```text
//! volley-join-1.BASE64URL        length, CA, certificate, seed of the key, checksum
//! ```
//!
//! It is a credential for the same mutual TLS as every other, so whoever joins knows that a manager
//! of this cluster answers, and the manager knows that the CA has invited. There is no second port
//! and no listener for strangers. Whoever has the token may become a worker until it expires: it is
//! a secret.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};

use crate::admit::{Refusal, Utc};
use crate::credentials::{Credentials, CredentialsError};
use crate::identity::Identity;
use crate::key;
use crate::role::Role;

const NAME: &str = "volley-join-";
const VERSION: u32 = 1;
/// A token has some 1,300 characters.
const CHARACTERS_MAX: usize = 16 * 1024;
/// The checksum is against slips of the hand, not against forgery: the signatures are.
const CHECKSUM_BYTES: usize = 8;

/// What somebody needs to ask for a worker's certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    ca: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    seed: [u8; 32],
    identity: Identity,
    not_after: u64,
}

/// Why a text is no token that can be used.
#[derive(Debug)]
pub enum TokenError {
    NotAToken,
    TooNew { version: u32 },
    CutOff { has: usize, of: Option<usize> },
    Damaged,
    Expired { not_after: u64 },
    NotYetValid { not_before: u64 },
    WrongRole { role: Role },
    Credentials(Box<CredentialsError>),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAToken => write!(
                f,
                "this is not a join token: one begins with `{NAME}{VERSION}.`; `volley certs token` makes one"
            ),
            Self::TooNew { version } => write!(
                f,
                "the join token is of version {version}, this program reads version {VERSION}: start the newer program"
            ),
            Self::CutOff { has, of: Some(of) } => write!(
                f,
                "the join token is cut off: {has} of {of} characters are here; copy all of it, it is one line"
            ),
            Self::CutOff { has, of: None } => write!(
                f,
                "the join token is cut off after {has} characters; copy all of it, it is one line"
            ),
            Self::Damaged => f.write_str(
                "the join token is damaged: something was changed or added in copying; copy it again",
            ),
            Self::Expired { not_after } => write!(
                f,
                "the join token expired at {}; make a new one with `volley certs token`",
                Utc(*not_after)
            ),
            Self::NotYetValid { not_before } => write!(
                f,
                "the join token is valid only from {}; is this machine's clock right?",
                Utc(*not_before)
            ),
            Self::WrongRole { role } => write!(
                f,
                "the join token holds the certificate of a {role}, not of a recruit; `volley certs token` makes one"
            ),
            Self::Credentials(error) => write!(f, "the join token cannot be used: {error}"),
        }
    }
}

impl std::error::Error for TokenError {}

impl JoinToken {
    pub(crate) fn new(
        ca: CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        seed: [u8; 32],
        identity: Identity,
        not_after: u64,
    ) -> Self {
        Self { ca, certificate, seed, identity, not_after }
    }

    /// Which cluster and datacenter it is for.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// When it expires, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> u64 {
        self.not_after
    }

    /// One line without spaces.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut body = Vec::with_capacity(2048);
        let put = |body: &mut Vec<u8>, part: &[u8]| {
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(part);
        };
        body.extend_from_slice(&[0; 2]);
        put(&mut body, &self.ca);
        put(&mut body, &self.certificate);
        body.extend_from_slice(&self.seed);
        let total = u16::try_from(body.len() + CHECKSUM_BYTES).unwrap_or(u16::MAX);
        if let Some(place) = body.first_chunk_mut() {
            *place = total.to_be_bytes();
        }
        let sum = Sha256::digest(&body);
        body.extend(sum.iter().take(CHECKSUM_BYTES));
        format!("{NAME}{VERSION}.{}", URL_SAFE_NO_PAD.encode(body))
    }

    /// Reads what [`JoinToken::to_text`] has made. Spaces and line breaks are overlooked: terminals
    /// add them.
    ///
    /// # Errors
    /// If it is none, not all of it, from a later version, or not valid at `now`.
    pub fn from_text(text: &str, now: u64) -> Result<Self, TokenError> {
        if text.len() > CHARACTERS_MAX {
            return Err(TokenError::NotAToken);
        }
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let rest = text.strip_prefix(NAME).ok_or(TokenError::NotAToken)?;
        let (version, body) = rest.split_once('.').ok_or(TokenError::NotAToken)?;
        match version.parse::<u32>() {
            Ok(VERSION) => {}
            Ok(version) if version > VERSION => return Err(TokenError::TooNew { version }),
            _ => return Err(TokenError::NotAToken),
        }
        let (ca, certificate, seed) = parts(body, text.len())?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key::pkcs8(&seed)));
        let credentials =
            Credentials::from_der(vec![certificate.clone()], key, vec![ca.clone()], now);
        let credentials = credentials.map_err(|error| match error {
            CredentialsError::Own(Refusal::Expired { not_after }) => {
                TokenError::Expired { not_after }
            }
            CredentialsError::Own(Refusal::NotYetValid { not_before }) => {
                TokenError::NotYetValid { not_before }
            }
            error => TokenError::Credentials(Box::new(error)),
        })?;
        let identity = credentials.identity().clone();
        if identity.role != Role::Recruit {
            return Err(TokenError::WrongRole { role: identity.role });
        }
        Ok(Self { ca, certificate, seed, identity, not_after: credentials.not_after() })
    }

    /// What it shows in a handshake, and whom it believes.
    ///
    /// # Errors
    /// If it is not valid at `now`.
    pub fn credentials(&self, now: u64) -> Result<Credentials, CredentialsError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key::pkcs8(&self.seed)));
        Credentials::from_der(vec![self.certificate.clone()], key, vec![self.ca.clone()], now)
    }
}

type Parts = (CertificateDer<'static>, CertificateDer<'static>, [u8; 32]);

/// `characters`: of the whole text, for people.
fn parts(body: &str, characters: usize) -> Result<Parts, TokenError> {
    let alphabet = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !body.chars().all(alphabet) {
        return Err(TokenError::Damaged);
    }
    // A text that ends within a group of four says less than it has characters; the rest is read
    // all the same.
    let whole = body.get(..body.len() - body.len() % 4).unwrap_or_default();
    let total = URL_SAFE_NO_PAD.decode(whole).ok().and_then(|bytes| bytes.first_chunk().copied());
    let Some(total) = total.map(|bytes| usize::from(u16::from_be_bytes(bytes))) else {
        return Err(TokenError::CutOff { has: characters, of: None });
    };
    let full = (total * 4).div_ceil(3);
    if body.len() < full {
        let of = Some(characters - body.len() + full);
        return Err(TokenError::CutOff { has: characters, of });
    }
    let bytes = URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenError::Damaged)?;
    let (content, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .filter(|_| bytes.len() == total)
        .ok_or(TokenError::Damaged)?;
    if Sha256::digest(content).get(..CHECKSUM_BYTES) != Some(&sum[..]) {
        return Err(TokenError::Damaged);
    }
    let mut rest = content.get(2..).ok_or(TokenError::Damaged)?;
    let mut take = || -> Option<CertificateDer<'static>> {
        let (length, after) = rest.split_first_chunk()?;
        let (part, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        rest = after;
        Some(CertificateDer::from(part.to_vec()))
    };
    let (ca, certificate) = take().zip(take()).ok_or(TokenError::Damaged)?;
    let seed = rest.try_into().map_err(|_| TokenError::Damaged)?;
    Ok((ca, certificate, seed))
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("JoinToken")
            .field("identity", &self.identity)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
