//! From an origin to a byte stream: TCP or Unix socket, proxy, TLS.

use base::clock;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustls_pki_types::ServerName;
use stats::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::io::Stream;
use crate::origin::Origin;
use crate::pool::Settings;
use crate::proxy::Proxy;
use crate::tls::client_config;
use crate::words::{io_words, is_authority};
use crate::{Cause, Failure};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectTimes {
    pub connecting: u64,
    pub tls_handshaking: u64,
}

pub struct Connected {
    pub stream: Stream,
    pub http2: bool,
    pub times: ConnectTimes,
}

/// Opens a connection; `limit` bounds the whole of it.
pub async fn connect(
    origin: &Origin,
    settings: &Settings,
    local: Option<IpAddr>,
    limit: Duration,
) -> Result<Connected, Failure> {
    let attempt = async {
        match &origin.unix {
            Some(path) => {
                let begun = clock::now();
                let unix = UnixStream::connect(path).await.map_err(|error| {
                    let failure = connect_failure(&error, &path.display().to_string());
                    // A socket file that is not there is what a closed port is elsewhere.
                    match error.kind() {
                        std::io::ErrorKind::NotFound => {
                            Failure { kind: ErrorKind::Refused, ..failure }
                        }
                        _ => failure,
                    }
                })?;
                let connecting = clock::now().nanos_since(begun);
                secure(unix, origin, settings, connecting, Stream::Unix, Stream::TlsUnix).await
            }
            None => {
                let (tcp, connecting) = connect_tcp(origin, settings, local).await?;
                secure(tcp, origin, settings, connecting, Stream::Tcp, Stream::Tls).await
            }
        }
    };
    match tokio::time::timeout(limit, attempt).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let message = format!("no connection to {} within {limit:?}", origin.authority);
            Err(Failure::new(ErrorKind::Timeout, message).because(Cause::ConnectTimeout))
        }
    }
}

async fn connect_tcp(
    origin: &Origin,
    settings: &Settings,
    local: Option<IpAddr>,
) -> Result<(TcpStream, u64), Failure> {
    let address = match &origin.proxy {
        Some(proxy) => proxy.address,
        None => match origin.address() {
            Some(address) => address,
            None => {
                settings.origins.resolve(origin).await?;
                origin.address().ok_or_else(|| {
                    Failure::new(ErrorKind::Dns, format!("no address for {}", origin.host))
                })?
            }
        },
    };
    let begun = clock::now();
    let mut tcp =
        open(address, local).await.map_err(|e| connect_failure(&e, &address.to_string()))?;
    let connecting = clock::now().nanos_since(begun);
    if let Some(proxy) = &origin.proxy
        && origin.tls
    {
        tunnel(&mut tcp, proxy, origin).await?;
    }
    Ok((tcp, connecting))
}

async fn open(address: SocketAddr, local: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(ip) = local {
        // The port is chosen at connect time, so that one source address serves many targets.
        #[cfg(target_os = "linux")]
        defer_port(&socket)?;
        socket.bind(SocketAddr::new(ip, 0))?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(target_os = "linux")]
fn defer_port(socket: &TcpSocket) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int, given with its size.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed != 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn connect_failure(error: &std::io::Error, address: &str) -> Failure {
    let kind = match (error.kind(), error.raw_os_error()) {
        (std::io::ErrorKind::ConnectionRefused, _) => ErrorKind::Refused,
        (std::io::ErrorKind::ConnectionReset, _) => ErrorKind::Reset,
        (std::io::ErrorKind::TimedOut, _) => ErrorKind::Timeout,
        (_, Some(libc::EMFILE | libc::ENFILE)) => {
            let message =
                format!("no file descriptor left for a connection to {address}; raise `ulimit -n`");
            return Failure::new(ErrorKind::Local, message);
        }
        (_, Some(libc::EADDRNOTAVAIL)) => {
            let message = format!(
                "no local port left for a connection to {address}; keep connections alive, \
                 or give more `local_addresses`"
            );
            return Failure::new(ErrorKind::Local, message);
        }
        _ => ErrorKind::Connect,
    };
    let cause = error.raw_os_error().map_or(Cause::Unsaid, Cause::System);
    Failure::new(kind, format!("cannot connect to {address}: {error}")).because(cause)
}

/// Why a handshake failed, as far as that says whose fault it is.
fn handshake_cause(error: &std::io::Error) -> Cause {
    use rustls::{CertificateError as Bad, Error as Tls};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>());
    match tls {
        Some(Tls::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature)) => {
            Cause::UnknownAuthority
        }
        Some(Tls::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        )) => Cause::WrongName,
        // A certificate that signed itself: as an authority it is unknown.
        Some(Tls::InvalidCertificate(bad)) if is_authority(bad) => Cause::UnknownAuthority,
        Some(Tls::InvalidCertificate(_)) => Cause::CertificateInvalid,
        Some(Tls::InvalidMessage(_)) => Cause::NotTls,
        Some(_) => Cause::Unsaid,
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => Cause::Closed(false),
        None => error.raw_os_error().map_or(Cause::Unsaid, Cause::System),
    }
}

async fn tunnel(tcp: &mut TcpStream, proxy: &Proxy, origin: &Origin) -> Result<(), Failure> {
    let place = format!("proxy {}:{}", proxy.host, proxy.port);
    let failed = |message: String| Failure::new(ErrorKind::Connect, message);
    let authority = format!("{}:{}", origin.host, origin.port);
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n");
    if let Some(authorization) = &proxy.authorization {
        request.push_str(&format!("proxy-authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    let io = |error: std::io::Error| Failure::new(ErrorKind::Connect, format!("{place}: {error}"));
    tcp.write_all(request.as_bytes()).await.map_err(io)?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to TLS.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > 16 << 10 {
            return Err(failed(format!("{place}: answer to CONNECT has no end")));
        }
        answer.push(tcp.read_u8().await.map_err(io)?);
    }
    let first = String::from_utf8_lossy(&answer);
    let line = first.lines().next().unwrap_or_default().to_owned();
    match line.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(()),
        _ => Err(failed(format!("{place} refused the tunnel to {authority}: {line}"))),
    }
}

async fn secure<S>(
    raw: S,
    origin: &Origin,
    settings: &Settings,
    connecting: u64,
    plain: impl FnOnce(S) -> Stream,
    tls: impl FnOnce(Box<tokio_rustls::client::TlsStream<S>>) -> Stream,
) -> Result<Connected, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    if !origin.tls {
        let http2 = settings.http.version == plan::HttpVersion::Http2;
        let times = ConnectTimes { connecting, tls_handshaking: 0 };
        return Ok(Connected { stream: plain(raw), http2, times });
    }
    let failed = |message: String| Failure::new(ErrorKind::Tls, message);
    let name = settings.http.tls.server_name.as_deref().unwrap_or(&origin.host);
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| failed(format!("`{name}` cannot be checked against a certificate")))?;
    let http = &settings.http;
    let config = match settings.tls.get_or_init(|| client_config(&http.tls, http.version)) {
        Ok(config) => config.clone(),
        Err(error) => return Err(failed(error.clone())),
    };
    settings.send_control.before_connect().await;
    let begun = clock::now();
    let stream = TlsConnector::from(config).connect(name, raw).await.map_err(|error| {
        failed(format!("TLS handshake with {}: {}", origin.authority, io_words(&error)))
            .because(handshake_cause(&error))
    })?;
    let tls_handshaking = clock::now().nanos_since(begun);
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let times = ConnectTimes { connecting, tls_handshaking };
    Ok(Connected { stream: tls(Box::new(stream)), http2, times })
}
