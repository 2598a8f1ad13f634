//! The shell around [`Swim`]: a socket and a thread of its own (R13).
//!
//! Nothing else runs on that thread, so a busy generator or a slow handler cannot make this member
//! look dead. The rest of the product sees a [`View`], which is replaced as a whole when something
//! changes, and asks for changes by version.
//!
//! **Invariant:** datagrams that have arrived are handled before the clock is looked at.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand010::rngs::StdRng;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::envelope::{DATAGRAM_BYTES_MAX, KeyError, KeyId, KeyRing, Refusals};
use crate::identity::Peer;
use crate::member::{Counters, Digest, Effect, Event, FullState, Identity, Notice, Record, Swim};
use crate::settings::Settings;
use crate::table::{Change, Entry, Missed, State};

/// How many requests wait for the thread at most; senders then wait for room.
const COMMANDS_MAX: usize = 64;

/// How many datagrams are read before the clock gets its turn, so that a flood cannot stop it.
const READS_MAX: usize = 4096;

/// How old counters in the view may be.
const REFRESH: Duration = Duration::from_secs(1);

pub struct AgentConfig {
    pub identity: Identity,
    /// Where to listen; the address in the identity is what others are told.
    pub bind: SocketAddr,
    pub ring: KeyRing,
    pub settings: Settings,
    pub seeds: Vec<SocketAddr>,
    pub rng: StdRng,
}

/// What this member knows, at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Of the table; the place to go on from.
    pub version: u64,
    pub me: Peer,
    pub datacenter: String,
    pub incarnation: u16,
    /// The local health score, 0 to 8.
    pub health: u8,
    pub suspicions: usize,
    pub entries: Vec<Entry>,
    pub counters: Counters,
    pub refusals: Refusals,
    /// Datagrams that the system would not take from us.
    pub unsent: u64,
    /// Since this member started; the clock of all times in the view.
    pub age: Duration,
    /// What an operator should hear of, newest last; the last few.
    pub notices: Vec<(Duration, Notice)>,
}

impl View {
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.entries.iter().filter(|entry| entry.state == state).count()
    }
}

/// A step of the rotation of keys.
#[derive(Clone, Copy)]
pub enum KeyChange {
    Install([u8; 32]),
    Use(KeyId),
    Remove(KeyId),
}

/// The ring as it is, for whoever keeps it on disk.
#[derive(Clone)]
pub struct Keys {
    pub sealing: KeyId,
    pub keys: Vec<(KeyId, [u8; 32])>,
}

/// A socket for datagrams. The one of the system has it all; a simulated one brings its own.
pub trait Datagrams: Send + Sync + 'static {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize>;
}

impl Datagrams for UdpSocket {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        Self::readable(self)
    }

    fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Self::try_recv_from(self, buffer)
    }

    fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        Self::try_send_to(self, bytes, to)
    }
}

enum Command {
    Event(Event),
    Changes(u64, oneshot::Sender<Result<Vec<Change>, Missed>>),
    FullState(oneshot::Sender<FullState>),
    Digest(oneshot::Sender<(Record, Digest)>),
    Keys(KeyChange, oneshot::Sender<Result<KeyId, KeyError>>),
    Ring(oneshot::Sender<Keys>),
    Leave(oneshot::Sender<()>),
    Stop,
}

/// The thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the membership thread has ended")
    }
}

impl std::error::Error for Stopped {}

/// A running member.
pub struct Agent {
    commands: mpsc::Sender<Command>,
    view: watch::Receiver<Arc<View>>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Binds the socket and starts the thread. A port that is taken is an error here, not later.
    pub fn start(config: AgentConfig) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(config.bind)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let seeds = config.seeds.clone();
        let shell = Shell::new(config);
        let (publish, view) = watch::channel(Arc::new(shell.view(Duration::ZERO)));
        let thread = thread::Builder::new().name("membership".into()).spawn(move || {
            runtime.block_on(async move {
                match UdpSocket::from_std(socket) {
                    Ok(socket) => shell.run(socket, seeds, inbox, publish).await,
                    Err(error) => tracing::error!(%error, "membership has no socket and ends"),
                }
            });
        })?;
        Ok(Self { commands, view, address, thread: Some(thread) })
    }

    /// The same as a task of the runtime at hand, on a socket that is there already: for
    /// simulations, which have neither threads nor sockets of the system.
    pub fn start_task(config: AgentConfig, socket: impl Datagrams) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (seeds, address) = (config.seeds.clone(), config.bind);
        let shell = Shell::new(config);
        let (publish, view) = watch::channel(Arc::new(shell.view(Duration::ZERO)));
        tokio::spawn(shell.run(socket, seeds, inbox, publish));
        Self { commands, view, address, thread: None }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.view.borrow().clone()
    }

    /// Wakes up when the view has been replaced.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Every change after `version`; if they are no longer kept, read the view and go on from its
    /// version.
    pub async fn changes(&self, version: u64) -> Result<Result<Vec<Change>, Missed>, Stopped> {
        self.ask(|reply| Command::Changes(version, reply)).await
    }

    /// The addresses to knock at from now on.
    pub async fn join(&self, seeds: Vec<SocketAddr>) -> Result<(), Stopped> {
        self.tell(Command::Event(Event::Join(seeds))).await
    }

    /// What to tell the others of ourselves.
    pub async fn heartbeat(&self, bytes: Vec<u8>) -> Result<(), Stopped> {
        self.tell(Command::Event(Event::Heartbeat(bytes))).await
    }

    /// What to show in an exchange.
    pub async fn full_state(&self) -> Result<FullState, Stopped> {
        self.ask(Command::FullState).await
    }

    /// Who we are and what our knowledge comes to, to be compared before an exchange.
    pub async fn digest(&self) -> Result<(Record, Digest), Stopped> {
        self.ask(Command::Digest).await
    }

    /// What another member has shown, over an authenticated connection.
    pub async fn merge(&self, state: FullState) -> Result<(), Stopped> {
        self.tell(Command::Event(Event::PushPull(Box::new(state)))).await
    }

    pub async fn keys(&self, change: KeyChange) -> Result<Result<KeyId, KeyError>, Stopped> {
        self.ask(|reply| Command::Keys(change, reply)).await
    }

    pub async fn ring(&self) -> Result<Keys, Stopped> {
        self.ask(Command::Ring).await
    }

    /// Waits until the thread has ended, for whatever reason.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }

    /// Says goodbye and returns when that has been sent.
    pub async fn leave(&self) -> Result<(), Stopped> {
        self.ask(Command::Leave).await
    }

    /// Ends at once, without a farewell, and without waiting for the end.
    pub fn stop(&self) {
        let mut command = Command::Stop;
        while let Err(mpsc::error::TrySendError::Full(back)) = self.commands.try_send(command) {
            if self.thread.is_none() {
                // Its task cannot run while we wait for it here; it ends with its last sender.
                return;
            }
            // The queue is read soon; an ended thread has closed it.
            command = back;
            thread::yield_now();
        }
    }

    async fn tell(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply)).await?;
        answer.await.map_err(|_| Stopped)
    }
}

impl Drop for Agent {
    /// Ends at once, without a farewell: the others will see a crash.
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Shell {
    swim: Swim,
    datacenter: String,
    unsent: u64,
    notices: Vec<(Duration, Notice)>,
    leaving: Option<oneshot::Sender<()>>,
    changed: bool,
}

/// How many notices the view shows.
const NOTICES_MAX: usize = 32;

impl Shell {
    fn new(config: AgentConfig) -> Self {
        let datacenter = config.identity.datacenter.clone();
        let swim = Swim::new(config.identity, config.ring, config.settings, config.rng);
        Self { swim, datacenter, unsent: 0, notices: Vec::new(), leaving: None, changed: false }
    }

    async fn run(
        mut self,
        socket: impl Datagrams,
        seeds: Vec<SocketAddr>,
        mut inbox: mpsc::Receiver<Command>,
        publish: watch::Sender<Arc<View>>,
    ) {
        let start = Instant::now();
        let mut refresh_at = start + REFRESH;
        self.step(Event::Join(seeds), start.elapsed(), &socket);
        self.step(Event::Tick, start.elapsed(), &socket);
        loop {
            let wake = start + self.swim.next_wake().min(start.elapsed() + REFRESH);
            let command = tokio::select! {
                biased;
                ready = socket.readable() => {
                    if let Err(error) = ready {
                        tracing::error!(%error, "the membership socket is broken, membership ends");
                        return;
                    }
                    None
                }
                command = inbox.recv() => match command {
                    None | Some(Command::Stop) => return,
                    command => command,
                },
                () = tokio::time::sleep_until(wake.min(refresh_at)) => None,
            };
            // Also before a command or a tick: what has arrived comes first.
            self.read(&socket, start);
            if let Some(command) = command {
                self.command(command, start.elapsed(), &socket);
            }
            if start.elapsed() >= self.swim.next_wake() {
                self.step(Event::Tick, start.elapsed(), &socket);
            }
            let now = Instant::now();
            if self.changed || now >= refresh_at {
                self.changed = false;
                refresh_at = now + REFRESH;
                publish.send_replace(Arc::new(self.view(start.elapsed())));
            }
        }
    }

    /// Reads the socket empty.
    fn read(&mut self, socket: &impl Datagrams, start: Instant) {
        // One byte more than is allowed, so that what is too long is seen to be.
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        for _ in 0..READS_MAX {
            match socket.try_recv_from(&mut buffer) {
                Ok((length, _)) => {
                    let event = Event::Datagram(buffer[..length].to_vec());
                    self.step(event, start.elapsed(), socket);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.swim.is_draining() {
                        self.step(Event::Drained, start.elapsed(), socket);
                    }
                    return;
                }
                // A peer's port was closed when we last wrote to it; its own datagrams still come.
                Err(_) => {}
            }
        }
    }

    fn command(&mut self, command: Command, now: Duration, socket: &impl Datagrams) {
        // Whoever asked may have gone away; then nobody needs the answer.
        match command {
            Command::Event(event) => self.step(event, now, socket),
            Command::Changes(version, reply) => {
                let changes = self.swim.table().since(version);
                let _ = reply.send(changes.map(|changes| changes.copied().collect()));
            }
            Command::Digest(reply) => {
                let _ = reply.send((self.swim.own_record(), self.swim.digest()));
            }
            Command::FullState(reply) => {
                let _ = reply.send(self.swim.full_state());
            }
            Command::Keys(change, reply) => {
                let keys = self.swim.keys();
                let changed = match change {
                    KeyChange::Install(key) => keys.install(key),
                    KeyChange::Use(id) => keys.use_key(id).map(|()| id),
                    KeyChange::Remove(id) => keys.remove(id).map(|()| id),
                };
                let _ = reply.send(changed);
            }
            Command::Ring(reply) => {
                let ring = self.swim.keys();
                let _ = reply.send(Keys { sealing: ring.sealing(), keys: ring.keys() });
            }
            Command::Leave(reply) => {
                self.leaving = Some(reply);
                self.step(Event::Leave, now, socket);
            }
            Command::Stop => {}
        }
    }

    fn step(&mut self, event: Event, now: Duration, socket: &impl Datagrams) {
        for effect in self.swim.step(event, now) {
            match effect {
                Effect::Send { to, bytes } => {
                    self.unsent += u64::from(socket.try_send_to(&bytes, to).is_err());
                }
                Effect::Changed { .. } => self.changed = true,
                Effect::Notice(notice) => {
                    tracing::info!(?notice, "membership");
                    if notice == Notice::Left
                        && let Some(reply) = self.leaving.take()
                    {
                        let _ = reply.send(());
                    }
                    if self.notices.len() >= NOTICES_MAX {
                        self.notices.remove(0);
                    }
                    self.notices.push((now, notice));
                    self.changed = true;
                }
            }
        }
    }

    fn view(&self, age: Duration) -> View {
        View {
            version: self.swim.table().version(),
            me: self.swim.me(),
            datacenter: self.datacenter.clone(),
            incarnation: self.swim.incarnation(),
            health: self.swim.health().score(),
            suspicions: self.swim.suspicions().len(),
            entries: self.swim.table().iter().cloned().collect(),
            counters: self.swim.counters().clone(),
            refusals: self.swim.refusals().clone(),
            unsent: self.unsent,
            age,
            notices: self.notices.clone(),
        }
    }
}
