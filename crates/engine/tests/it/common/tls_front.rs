//! TLS in front of the built-in target.

use std::net::TcpListener;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;

use super::certificates::Pair;

/// A port that speaks TLS and hands what is inside to the target.
pub fn tls_front(target: &target::RunningTarget, pair: &Pair, alpn: &[&str]) -> u16 {
    let chain = vec![rustls_pki_types::CertificateDer::from_pem_file(&pair.certificate).unwrap()];
    let key = rustls_pki_types::PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let handle = target.handle();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, handle) = (acceptor.clone(), handle.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        handle.serve(stream).await;
                    }
                });
            }
        });
    });
    port
}
