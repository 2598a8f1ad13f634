//! A small group on loopback, whose members can be stopped, started again, cut off and robbed of
//! their disks.

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use fence::{Epoch, Hlc, JobId, NodeId};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use ledger::blobs::BlobLimits;
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger::{
    Bootstrap, BoxedIo, Incoming, Io, Nobody, Node, NodeConfig, Observer, ReadLevel, TcpTransport,
    Transport, Written,
};
use ledger_state::{Command, CreateJob, IdempotencyKey, Reply, Submission};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

/// Longer than anything here should take, on a machine that is busy with other things.
pub const LONG: Duration = Duration::from_secs(20);

/// TCP with a switch: while it is off, nothing comes through in either direction.
#[derive(Clone, Default)]
pub struct Switch {
    off: Arc<AtomicBool>,
    names: Names,
    /// Whose certificate all that come have, as a network with certificates would say.
    certified: Arc<Mutex<Option<NodeId>>>,
}

/// What is behind an address now, where that is not the address itself: a name server.
type Names = Arc<Mutex<BTreeMap<String, String>>>;

impl Switch {
    pub fn cut(&self, off: bool) {
        self.off.store(off, Ordering::SeqCst);
    }

    pub fn certify(&self, node: Option<NodeId>) {
        *self.certified.lock().unwrap() = node;
    }

    fn is_cut(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }
}

struct Cable {
    io: BoxedIo,
    switch: Switch,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut")
}

impl AsyncRead for Cable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.switch.is_cut() {
            return Poll::Ready(Err(broken()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Cable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.switch.is_cut() {
            return Poll::Ready(Err(broken()));
        }
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl Transport for Switch {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let switch = self.clone();
        let found = self.names.lock().unwrap().get(address).cloned();
        let connecting = TcpTransport.connect(found.as_deref().unwrap_or(address));
        Box::pin(async move {
            if switch.is_cut() {
                return Err(broken());
            }
            Ok(wrap(connecting.await?, switch))
        })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let switch = self.clone();
        let listening = TcpTransport.listen(address);
        Box::pin(async move {
            let incoming = listening.await?;
            let wrapped = incoming.map(move |io| {
                let peer = *switch.certified.lock().unwrap();
                Ok(wrap(io?, switch.clone()).from_peer(peer))
            });
            Ok(Box::pin(wrapped) as Incoming)
        })
    }
}

fn wrap(io: impl Io, switch: Switch) -> BoxedIo {
    BoxedIo::new(Cable { io: BoxedIo::new(io), switch })
}

/// One place in the group: an address, a folder, and perhaps a running node.
pub struct Place {
    pub address: String,
    /// Where it listens, after it has moved.
    moved_to: Option<String>,
    pub switch: Switch,
    folder: PathBuf,
    /// The file system, unless a test puts another one in.
    pub disk: Arc<dyn wal::Disk>,
    pub node: Option<Node>,
    id: Option<NodeId>,
}

pub struct Group {
    _root: TempDir,
    pub places: Vec<Place>,
    config: NodeConfig,
    pub wal: wal::Options,
    pub observer: Arc<dyn Observer>,
}

fn free_addresses(count: usize) -> Vec<String> {
    // All at once, so that no port is handed out twice.
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

fn store_options(node: Option<NodeId>, wal: wal::Options) -> StoreOptions {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let draw = || {
        let count = DRAWN.fetch_add(1, Ordering::SeqCst);
        let process = u64::from(std::process::id());
        (process << 32 | count).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    StoreOptions {
        node,
        draw: Arc::new(draw),
        clock: Arc::new(Hlc::default),
        wal,
        blobs: BlobLimits::default(),
        snapshot_bytes: 64 << 20,
    }
}

impl Group {
    /// Places without nodes. `peers`: how many of them are in the list of peers.
    pub fn prepare(count: usize, peers: usize, change: impl FnOnce(&mut NodeConfig)) -> Self {
        let root = TempDir::new().unwrap();
        let mut addresses = free_addresses(count);
        addresses.sort();
        let mut config = NodeConfig::default();
        // Many groups share the machine in a test run; at the usual pace a leader would now and
        // then be late.
        config.timing.pace = 2.0;
        config.timing.housekeeping = Duration::from_millis(500);
        config.bootstrap = match peers {
            0 => Bootstrap::Alone,
            peers => Bootstrap::Peers(addresses[..peers].to_vec()),
        };
        change(&mut config);
        let names = Names::default();
        let places = addresses.into_iter().enumerate();
        let places = places.map(|(index, address)| Place {
            address,
            moved_to: None,
            switch: Switch { names: Arc::clone(&names), ..Switch::default() },
            folder: root.path().join(index.to_string()),
            disk: Arc::new(wal::RealDisk),
            node: None,
            id: None,
        });
        let places = places.collect();
        let wal =
            wal::Options { segment_bytes: 16 << 20, reserve_bytes: 0, ..wal::Options::default() };
        Self { _root: root, places, config, wal, observer: Arc::new(Nobody) }
    }

    /// A running group of `count` voters.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, |_| ()).await
    }

    pub async fn start_with(count: usize, change: impl FnOnce(&mut NodeConfig)) -> Self {
        let mut group = Self::prepare(count, count, change);
        for index in 0..count {
            group.up(index).await;
        }
        group.leader().await;
        group
    }

    pub async fn up(&mut self, index: usize) {
        let bootstrap = self.config.bootstrap.clone();
        self.up_as(index, bootstrap).await;
    }

    /// Starts a node; its former life may need a moment to let go of folder and port.
    pub async fn up_as(&mut self, index: usize, bootstrap: Bootstrap) {
        let place = &mut self.places[index];
        let deadline = Instant::now() + LONG;
        loop {
            let opened = Storage::open(
                Arc::clone(&place.disk),
                place.folder.clone(),
                store_options(place.id, self.wal.clone()),
                WalOwner::Thread,
            );
            let problem = match opened {
                Ok(storage) => {
                    let config = NodeConfig {
                        address: place.address.clone(),
                        listen: place.moved_to.clone(),
                        bootstrap: bootstrap.clone(),
                        ..self.config.clone()
                    };
                    let transport = Arc::new(place.switch.clone());
                    let observer = Arc::clone(&self.observer);
                    match Node::start_observed(config, storage, transport, observer).await {
                        Ok(node) => {
                            place.id = Some(node.id());
                            place.node = Some(node);
                            return;
                        }
                        Err(error) => error.to_string(),
                    }
                }
                Err(error) => error.to_string(),
            };
            assert!(Instant::now() < deadline, "node {index} does not start: {problem}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops a node as a crash would.
    pub fn kill(&mut self, index: usize) {
        self.places[index].node = None;
    }

    /// A stopped node will be found somewhere else, under the address by which the group knows it.
    pub fn relocate(&mut self, index: usize) {
        let place = &mut self.places[index];
        assert!(place.node.is_none());
        let there = free_addresses(1).remove(0);
        place.switch.names.lock().unwrap().insert(place.address.clone(), there.clone());
        place.moved_to = Some(there);
    }

    /// Takes a stopped node's disk away. It keeps its id.
    pub fn lose_disk(&mut self, index: usize) {
        let place = &mut self.places[index];
        assert!(place.node.is_none());
        let aside = place.folder.with_extension("lost");
        std::fs::rename(&place.folder, aside).unwrap();
    }

    pub fn folder(&self, index: usize) -> &PathBuf {
        &self.places[index].folder
    }

    pub fn node(&self, index: usize) -> &Node {
        self.places[index].node.as_ref().unwrap()
    }

    pub fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, place)| Some((index, place.node.as_ref()?)))
    }

    /// Waits until one of the nodes leads with a majority, and returns its place.
    pub async fn leader(&self) -> usize {
        let mut found = None;
        until("a leader", async || {
            found = self.running().find(|(_, node)| node.status().leads).map(|(index, _)| index);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// The leader, and a running node that does not lead.
    pub async fn pair(&self) -> (usize, usize) {
        let leader = self.leader().await;
        let follower = self.running().map(|(index, _)| index).find(|index| *index != leader);
        (leader, follower.unwrap())
    }

    /// Waits until every running node has the same state.
    pub async fn converge(&self) {
        until("equal states", async || {
            let mut states = Vec::new();
            for (_, node) in self.running() {
                let look = |state: &ledger_state::State| (state.applied(), state.digest());
                let read = node.read(ReadLevel::Eventual, LONG, look).await;
                states.push(read.unwrap().value);
            }
            states.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
    }
}

/// Waits for something; fails loudly if it does not come.
pub async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !check().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub fn job(number: u64) -> CreateJob {
    let key = IdempotencyKey { client: "test".to_owned(), sequence: number, nonce: [0; 16] };
    let plan = ledger::blobs::reference(b"plan");
    CreateJob {
        tenant: "tenant".to_owned(),
        key,
        fingerprint: [number as u8; 32],
        name: format!("job {number}"),
        plan,
        age_ms: 0,
        rehearsal: false,
    }
}

pub fn job_id(number: u64) -> JobId {
    let job = job(number);
    job.key.job_id(&job.tenant)
}

/// Submits until the answer is final.
pub async fn create(node: &Node, number: u64) -> JobId {
    let deadline = Instant::now() + LONG;
    loop {
        match node.submit(job(number), LONG).await {
            Submission::Accepted { job, .. } => return job,
            answer @ (Submission::Pending { .. } | Submission::RetryLater { .. }) => {
                assert!(Instant::now() < deadline, "job {number}: {answer:?}");
                sleep(Duration::from_millis(10)).await;
            }
            rejected => panic!("{rejected:?}"),
        }
    }
}

/// Claims a job that nobody has claimed. A second execution would be answered "claim lost".
pub fn claim(node: &Node, job: JobId) -> Command {
    Command::ClaimJob { job, claimant: node.session(), seen: None }
}

pub fn claimed(written: &Written) -> Epoch {
    match written {
        Written::Committed { reply: Reply::Claimed { epoch }, .. } => *epoch,
        other => panic!("{other:?}"),
    }
}

/// The epoch under which a job is owned, by a strong read at this node.
pub async fn owner_epoch(node: &Node, job: JobId) -> Option<Epoch> {
    let look = |state: &ledger_state::State| state.job(job).and_then(|job| job.epoch);
    node.read(ReadLevel::Strong, LONG, look).await.unwrap().value
}
