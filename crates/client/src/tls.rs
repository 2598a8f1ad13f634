//! TLS settings, made once per workflow before anything is measured.

use std::path::Path;
use std::sync::Arc;

use plan::{HttpVersion, TlsOptions};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::trusted::TrustedAsIs;

/// What went wrong, and with which file.
pub type TlsError = String;

pub fn client_config(
    options: &TlsOptions,
    version: HttpVersion,
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !options.cipher_suites.is_empty() {
        provider.cipher_suites.retain(|suite| is_wanted(suite.suite(), &options.cipher_suites));
        if provider.cipher_suites.is_empty() {
            let names = options.cipher_suites.join(", ");
            return Err(format!("none of these cipher suites can be used: {names}"));
        }
    }
    let provider = Arc::new(provider);
    let versions: &[&SupportedProtocolVersion] = match options.versions {
        (true, true) => &[&rustls::version::TLS12, &rustls::version::TLS13],
        (true, false) => &[&rustls::version::TLS12],
        (false, true) => &[&rustls::version::TLS13],
        (false, false) => return Err("TLS 1.2 and 1.3 are all there is".to_owned()),
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnything(provider)))
    } else {
        let (roots, named) = roots(options)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|error| {
            format!("no trusted certificates: {error}; set `tls.ca`, or `insecure: true`")
        })?;
        let verifier = Arc::new(TrustedAsIs::new(verifier, named));
        builder.dangerous().with_custom_certificate_verifier(verifier)
    };
    let mut config = match (&options.certificate, &options.key, &options.identity) {
        (_, _, Some((chain, key))) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| format!("client certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| format!("key of the client certificate: {error}"))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| format!("client certificate and its key: {error}"))?
        }
        (Some(certificate), Some(key), None) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("cannot read key {}: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!("client certificate {} and its key: {error}", certificate.display())
            })?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match version {
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    // Virtual users stand for separate clients: none may profit from another's session.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Whether a key is the one of a client certificate, both in PEM; what is wrong otherwise.
pub fn key_fits(certificate: &Path, key: &Path) -> Result<(), TlsError> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let chain = certificates(certificate)?;
    let read = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("{} holds no key: {error}", name(key)))?;
    let provider = rustls::crypto::ring::default_provider();
    match rustls::sign::CertifiedKey::from_der(chain, read, &provider) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(format!("{} is not the key of {}", name(key), name(certificate)))
        }
        Err(error) => Err(format!("{} and {}: {error}", name(certificate), name(key))),
    }
}

/// Whether a file of certificates can be trusted as the plan's `ca`; what is wrong otherwise.
pub fn ca_reads(path: &Path) -> Result<(), TlsError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// k6 names suites as Go does, which leaves out the hash of two of them.
fn is_wanted(suite: rustls::CipherSuite, names: &[String]) -> bool {
    let known = suite.as_str().unwrap_or_default().replace("TLS13_", "TLS_");
    names.iter().any(|name| known == *name || known == format!("{name}_SHA256"))
}

/// Whom to trust, and those of them whom somebody has named.
fn roots(options: &TlsOptions) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    if let Some(path) = &options.ca {
        for certificate in certificates(path)? {
            named.push(certificate.clone());
            roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    // An unreadable system store matters only if it leaves nothing to trust; the verifier says so
    // then. A place that the environment names is another matter.
    let store = rustls_native_certs::load_native_certs();
    let variable = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
        .into_iter()
        .find_map(|name| std::env::var_os(name).map(|value| (name, value)));
    if let Some((name, value)) = variable {
        if store.certs.is_empty() {
            let why = store.errors.first().map_or_else(
                || "there is no certificate in it".to_owned(),
                |error| error.to_string(),
            );
            let place = value.to_string_lossy();
            return Err(format!("{name}={place}: {why}; correct it, or unset the variable"));
        }
        named.extend(store.certs.iter().cloned());
    }
    roots.add_parsable_certificates(store.certs);
    Ok((roots, named))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(format!("{} holds no certificate", path.display())),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("cannot read certificates {}: {error}", path.display())),
    }
}

/// `insecure: true`: any certificate will do, but signatures must still be sound.
#[derive(Debug)]
struct AcceptAnything(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
