//! Trust in one certificate as it is. A certificate that signed itself, as `openssl req -x509`
//! makes it, says that it is an authority, and an authority's certificate is not a server's: the
//! usual check refuses it even where it was named as trusted. Whoever names a file means what is in
//! it, so a server that shows one of those certificates, byte by byte, is believed. Its name and
//! its dates must be right all the same, and it vouches for nobody else by this.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::words::is_authority;

#[derive(Debug)]
pub struct TrustedAsIs {
    usual: Arc<WebPkiServerVerifier>,
    /// Certificates that somebody has named.
    named: Vec<CertificateDer<'static>>,
}

impl TrustedAsIs {
    pub fn new(usual: Arc<WebPkiServerVerifier>, named: Vec<CertificateDer<'static>>) -> Self {
        TrustedAsIs { usual, named }
    }
}

impl ServerCertVerifier for TrustedAsIs {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match usual {
            Err(Error::InvalidCertificate(bad))
                if is_authority(&bad)
                    && self.named.iter().any(|known| known.as_ref() == end_entity.as_ref()) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                verify_dates(end_entity, now)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

fn verify_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if now < validity.not_before.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > validity.not_after.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}
