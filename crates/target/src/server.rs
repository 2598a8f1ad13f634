//! Threads and sockets.
//!
//! Each thread runs its own single-threaded runtime; the first also accepts, and deals
//! connections to all of them in turn, so that the load is even however few connections there are.

use std::net::{SocketAddr, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::config::TargetConfig;
use crate::counts::Counts;
use crate::error::Error;
use crate::service::{Handle, Shared};

/// Ten thousand virtual users may connect in one instant; the kernel caps this at its own limit.
const BACKLOG: u32 = 65_535;
/// After a failed accept, usually for want of descriptors: time for some to be closed.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// The built-in server.
pub struct Target;

impl Target {
    /// Listens when this returns; [`RunningTarget::addr`] says where.
    pub fn start(config: TargetConfig) -> Result<RunningTarget, Error> {
        config.check()?;
        let listen = config.listen;
        let threads = config.threads;
        let shared = Arc::new(Shared::new(config));
        let (stop, stopped) = watch::channel(());

        let mut runtimes = Vec::with_capacity(threads);
        let mut dealers = Vec::with_capacity(threads);
        for thread in 0..threads {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (dealer, dealt) = unbounded_channel();
            let handle = Handle::new(shared.clone(), thread);
            runtimes.push((runtime.map_err(Error::Start)?, handle, dealt));
            dealers.push(dealer);
        }
        let listener = {
            let _inside = runtimes[0].0.enter();
            bind(listen).map_err(|source| Error::Listen { address: listen, source })?
        };
        let addr = listener.local_addr().map_err(Error::Start)?;

        let mut running = RunningTarget { addr, shared, stop: Some(stop), threads: Vec::new() };
        let mut accept = Some((listener, dealers));
        for (runtime, handle, dealt) in runtimes {
            let (accept, stopped) = (accept.take(), stopped.clone());
            let thread = std::thread::Builder::new()
                .name(format!("target-{}", running.threads.len()))
                .spawn(move || run_thread(&runtime, handle, dealt, accept, stopped));
            running.threads.push(thread.map_err(Error::Start)?);
        }
        Ok(running)
    }
}

/// A target at work; dropping it stops it.
pub struct RunningTarget {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningTarget {
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Starts counting again from zero, and the stalls' clock with the next request.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Serves connections that somebody else accepted, and counts them here.
    pub fn handle(&self) -> Handle {
        Handle::new(self.shared.clone(), 0)
    }

    /// Closes all connections, finished or not, and says what was seen.
    pub fn stop(mut self) -> Counts {
        self.stop_threads();
        self.counts()
    }

    fn stop_threads(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // a panic there has been printed already
            let _ = thread.join();
        }
    }
}

impl Drop for RunningTarget {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

type Dealers = Vec<UnboundedSender<StdTcpStream>>;

fn run_thread(
    runtime: &Runtime,
    handle: Handle,
    mut dealt: UnboundedReceiver<StdTcpStream>,
    accept: Option<(TcpListener, Dealers)>,
    mut stopped: watch::Receiver<()>,
) {
    runtime.block_on(async move {
        if let Some((listener, dealers)) = accept {
            tokio::spawn(deal(listener, dealers));
        }
        let serve = async {
            while let Some(stream) = dealt.recv().await {
                let Ok(stream) = TcpStream::from_std(stream) else {
                    continue;
                };
                let handle = handle.clone();
                tokio::spawn(async move { handle.serve(stream).await });
            }
        };
        tokio::select! {
            () = serve => {}
            // fails when the sender is gone, which is what stopping means
            _ = stopped.changed() => {}
        }
    });
    // what is still running ends with the runtime
}

async fn deal(listener: TcpListener, dealers: Dealers) {
    for dealer in dealers.iter().cycle() {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            }
        };
        let _ = stream.set_nodelay(true);
        // a connection that died in between, or a thread that is stopping
        if let Ok(stream) = stream.into_std() {
            let _ = dealer.send(stream);
        }
    }
}
