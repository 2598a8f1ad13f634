//! A server that misbehaves on purpose, one way per listening port.
//!
//! A load generator meets every kind of broken server, often thousands of times a second. It must
//! count each failure as what it is, keep its memory bounded and end on time. [`Behaviour`] says,
//! for each way to be bad, what a good client does; this module makes the sockets and keeps the
//! counts.
//!
//! ```text
//! accept ─► head of a request ─► script (bytes, then keep | close | reset | hang) ─► next request
//!                             └► flow   (no end of bytes, until the client goes away)
//! ```

mod behaviour;
mod script;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

pub use behaviour::Behaviour;
use script::{Next, Script};

const BACKLOG: u32 = 1024;
/// A longer head of a request is not for us.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A hostile server at work; dropping it stops it.
pub struct Hostile {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Bound but not listening: the port stays closed and nobody else can open it.
    _closed: Option<TcpSocket>,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    connections: AtomicU64,
    bytes_sent: AtomicU64,
    last_head: Mutex<String>,
}

impl Hostile {
    /// Takes a free port on loopback and behaves badly there.
    pub fn start(behaviour: Behaviour) -> io::Result<Hostile> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let addr = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let mut hostile = Hostile { addr, shared, stop: None, thread: None, _closed: None };
        if behaviour == Behaviour::Refuse {
            hostile._closed = Some(socket);
            return Ok(hostile);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            socket.listen(BACKLOG)?
        };
        let (stop, mut stopped) = watch::channel(());
        let shared = hostile.shared.clone();
        let thread = std::thread::Builder::new().name("hostile".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, behaviour, addr, shared) => {}
                    _ = stopped.changed() => {}
                }
            });
        })?;
        hostile.stop = Some(stop);
        hostile.thread = Some(thread);
        Ok(hostile)
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Heads of requests received in full, whatever became of them.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Relaxed)
    }

    /// Bytes that the kernel took; tells how much of an endless answer was read.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes_sent.load(Relaxed)
    }

    /// The head of the newest request, for example to see what followed a redirect.
    pub fn last_head(&self) -> String {
        self.shared.last_head.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // a panic there has been printed already
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: TcpListener,
    behaviour: Behaviour,
    addr: SocketAddr,
    shared: Arc<Shared>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.connections.fetch_add(1, Relaxed);
        let _ = stream.set_nodelay(true);
        let connection = Connection { stream, addr, shared: shared.clone(), pending: Vec::new() };
        tokio::spawn(connection.serve(behaviour));
    }
}

struct Connection {
    stream: TcpStream,
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Received and not yet understood: the beginning of the next request.
    pending: Vec<u8>,
}

impl Connection {
    async fn serve(mut self, behaviour: Behaviour) {
        if behaviour == Behaviour::CloseAtOnce {
            return;
        }
        let mut served = 0;
        while let Some(head) = self.next_head().await {
            self.shared.requests.fetch_add(1, Relaxed);
            self.shared.last_head.lock().expect("nobody panics with it").clone_from(&head);
            let script = Script::of(behaviour, &head, served, self.addr);
            served += 1;
            match self.play(script).await {
                Ok(Next::KeepAlive) => {}
                Ok(Next::Close) | Err(_) => return,
                Ok(Next::Reset) => {
                    let _ = self.stream.set_zero_linger();
                    return;
                }
                Ok(Next::Hang) => return self.until_client_closes().await,
            }
        }
    }

    async fn play(&mut self, script: Script) -> io::Result<Next> {
        match script {
            Script::Say(bytes, next) => {
                self.send(&bytes).await?;
                Ok(next)
            }
            Script::Drip { first, then, every } => {
                self.send(&first).await?;
                for byte in then.chunks(1) {
                    tokio::time::sleep(every).await;
                    self.send(byte).await?;
                }
                Ok(Next::KeepAlive)
            }
            Script::Flow { first, again } => {
                self.send(&first).await?;
                loop {
                    self.send(&again).await?;
                    // a client that reads as fast as we write must not starve the others
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.stream.write(bytes).await?;
            self.shared.bytes_sent.fetch_add(sent as u64, Relaxed);
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// The next request up to its empty line; a body by content-length is skipped.
    async fn next_head(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.pending.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.pending.len() > HEAD_BYTES_MAX || !self.receive().await {
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        let end = end.saturating_add(content_length(&head));
        while self.pending.len() < end {
            if !self.receive().await {
                break;
            }
        }
        self.pending.drain(..end.min(self.pending.len()));
        Some(head)
    }

    async fn receive(&mut self) -> bool {
        let received = self.stream.read_buf(&mut self.pending).await;
        received.is_ok_and(|length| length > 0)
    }

    async fn until_client_closes(mut self) {
        while self.receive().await {
            self.pending.clear();
        }
    }
}

fn content_length(head: &str) -> usize {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}
