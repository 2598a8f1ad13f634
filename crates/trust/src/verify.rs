//! The verifiers that rustls calls inside a handshake.
//!
//! Nothing of the usual verification is left out but the host name: webpki checks the chain up to
//! our CAs, the dates, the key usage and all signatures, as it does for everybody. In the place of
//! the host name comes the identity in the certificate, checked by [`crate::admit`]. Both ends do
//! it, so a connection exists only if both agree.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::admit::{Policy, Refusal, admit, admit_target};
use crate::credentials::Keeper;
use crate::identity::Identity;

/// Chain, dates, purpose. What is missing against the usual is only the host name.
pub(crate) fn verify_as_server(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    provider: &CryptoProvider,
    now: UnixTime,
) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(leaf)?;
    let algorithms = provider.signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)
}

/// Carries our refusal through rustls, which sends the alert.
fn refuse(refusal: Refusal) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
}

/// The name of the refusal in an error of rustls.
pub(crate) fn refusal_of(error: &Error) -> Refusal {
    let other = |why: String| Refusal::BadCertificate { why };
    match error {
        Error::NoCertificatesPresented => Refusal::NoCertificate,
        Error::InvalidCertificate(why) => match why {
            CertificateError::ExpiredContext { not_after, .. } => {
                Refusal::Expired { not_after: not_after.as_secs() }
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                Refusal::NotYetValid { not_before: not_before.as_secs() }
            }
            CertificateError::UnknownIssuer => Refusal::UnknownAuthority,
            CertificateError::BadSignature => Refusal::BadSignature,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Refusal::WrongPurpose
            }
            CertificateError::Other(OtherError(inner)) => {
                inner.downcast_ref::<Refusal>().cloned().unwrap_or_else(|| other(inner.to_string()))
            }
            _ => other(why.to_string()),
        },
        _ => other(error.to_string()),
    }
}

/// Verifies whoever connects to us.
#[derive(Debug)]
pub(crate) struct VerifyInitiator {
    pub keeper: Arc<Keeper>,
    pub policy: Policy,
}

impl ClientCertVerifier for VerifyInitiator {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    /// No hints: a stranger does not learn the names of our CAs.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let ours = self.keeper.current();
        let verified = ours.clients.verify_client_cert(leaf, intermediates, now)?;
        let initiator =
            Identity::from_certificate(leaf).map_err(|why| refuse(Refusal::Identity(why)))?;
        admit(&initiator, ours.identity(), &self.policy).map_err(refuse)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.keeper.current().clients.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.keeper.current().clients.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.keeper.current().clients.supported_verify_schemes()
    }
}

/// Verifies whomever we connect to.
#[derive(Debug)]
pub(crate) struct VerifyTarget {
    pub keeper: Arc<Keeper>,
    pub policy: Policy,
}

impl ServerCertVerifier for VerifyTarget {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ours = self.keeper.current();
        verify_as_server(leaf, intermediates, &ours.roots, &ours.provider, now)?;
        let target =
            Identity::from_certificate(leaf).map_err(|why| refuse(Refusal::Identity(why)))?;
        admit_target(ours.identity(), &target, &self.policy).map_err(refuse)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = self.keeper.current().provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = self.keeper.current().provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.keeper.current().provider.signature_verification_algorithms.supported_schemes()
    }
}
