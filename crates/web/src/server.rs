//! The server's own thread, from the first listen to the last viewer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Site;
use crate::access::Access;
use crate::place::{self, Listen};
use crate::routes::{App, router};

/// Connections at once; a browser has six at most.
const CONNECTIONS_MAX: usize = 128;

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: Listen,
    /// Names under which it is reached beside those of loopback: through a tunnel or a proxy.
    pub hosts: Vec<String>,
}

#[derive(Debug)]
pub enum StartError {
    /// Whoever reaches the port could read along: there is no TLS.
    BeyondLoopback(SocketAddr),
    Listen {
        listen: Listen,
        error: io::Error,
    },
    /// No random numbers, or no thread.
    System(String),
}

impl std::error::Error for StartError {}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::BeyondLoopback(address) => write!(
                f,
                "the page is served to this machine only, and {address} is reached by others; from another machine: \
                 `ssh -L {port}:127.0.0.1:{port} HOST`",
                port = address.port()
            ),
            StartError::Listen { listen: Listen::At(address), error }
                if error.kind() == io::ErrorKind::AddrInUse =>
            {
                write!(f, "{address} is in use; without an address the next free port is taken")
            }
            StartError::Listen { listen: Listen::At(address), error } => {
                write!(f, "cannot listen at {address}: {error}")
            }
            StartError::Listen { listen: Listen::Usual, error } => {
                write!(f, "cannot listen at port {} or above: {error}", place::PORT)
            }
            StartError::System(what) => f.write_str(what),
        }
    }
}

/// A running server. Dropping it ends it at once.
pub struct Server {
    address: SocketAddr,
    token: String,
    moved: bool,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Server {
    /// Listens, before it returns; serves from then on.
    pub fn start(options: &Options, site: Arc<dyn Site>) -> Result<Server, StartError> {
        if let Listen::At(address) = options.listen
            && !address.ip().is_loopback()
        {
            return Err(StartError::BeyondLoopback(address));
        }
        let failed = |error| StartError::Listen { listen: options.listen, error };
        let (listener, moved) = place::bind(options.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let system = |error: &dyn fmt::Display| StartError::System(format!("the page: {error}"));
        let access = Access::new(address.port()).map_err(|error| system(&error))?;
        let token = access.token().to_owned();
        let app = Arc::new(App { site, access, hosts: options.hosts.clone() });
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| system(&error))?;
        let body = move || {
            runtime.block_on(serve(listener, app, stopped));
            let _ = end.send(());
        };
        let thread = std::thread::Builder::new().name("volley-web".to_owned()).spawn(body);
        thread.map_err(|error| system(&error))?;
        Ok(Server { address, token, moved, stop, ended })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It is not at the usual port, because that one was taken.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// What to open. The token is in the fragment, which a browser sends to nobody.
    pub fn link(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }

    /// Takes no more connections, and waits for those that are there, but not for long: a viewer
    /// that does not read keeps nobody waiting.
    pub fn close(self, within: Duration) {
        self.stop.send_replace(true);
        let _ = self.ended.recv_timeout(within);
    }
}

async fn serve(listener: std::net::TcpListener, app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let work = tokio::spawn(app.site.clone().work());
    let bounded = Bounded { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
    let until = async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    // It ends by itself only if it is told to.
    let _ = axum::serve(bounded, router(app)).with_graceful_shutdown(until).await;
    work.abort();
}

/// Connections beyond the limit are closed at once.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Held;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                let _ = stream.set_nodelay(true);
                return (Held { stream, _place: place }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with its place.
struct Held {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
