//! A member of the cluster, as a pure machine: `step(event, now) -> effects`.
//!
//! ```text
//!             ┌──────────── Swim ─────────────┐
//! datagram ──▶│ envelope ─▶ ingest ─▶ foca    │──▶ send
//! tick     ──▶│ upkeep: suspicions, knocking  │──▶ changed (read the table from a version)
//! join ... ──▶│ table, lifeguard, rumours     │──▶ notice
//!             └───────────────────────────────┘
//! ```
//!
//! foca carries probes, gossip, and who is up. We decide what it is told (stale and second-hand
//! reports are sorted out before it sees them), when a suspicion becomes a death, and what the rest
//! of the product gets to see: one [`Table`].
//!
//! The caller delivers datagrams before ticks, and calls again at [`Swim::next_wake`] at the
//! latest. After a stall it reads its socket empty and says [`Event::Drained`]; until then nobody
//! is judged.

mod core;
mod exchange;
mod ingest;
mod outgoing;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fence::NodeId;
use foca::{Timer, TimerToken};
use rand010::rngs::StdRng;
use rand010::{Rng, SeedableRng};
use trust::Role;

use crate::envelope::{Checkpoint, Domain, HEARTBEAT_BYTES_MAX, KeyRing, Refusals};
use crate::identity::Peer;
use crate::lifeguard::{LocalHealth, Patience, Suspicions};
use crate::rumours::{Rumours, times_told};
use crate::settings::Settings;
use crate::table::{Cause, Table};

use self::core::{Collected, Core, Note, config};
pub use exchange::{Digest, FullState, Record, Standing};
pub use upkeep::passive_wait;

/// Who this member is and in which membership.
#[derive(Clone, Debug)]
pub struct Identity {
    pub peer: Peer,
    pub datacenter: String,
    pub domain: Domain,
}

/// What happens to a member.
#[derive(Clone, Debug)]
pub enum Event {
    Datagram(Vec<u8>),
    /// The wake-up that was asked for. Datagrams that have arrived come first.
    Tick,
    /// The socket has been read empty.
    Drained,
    /// The addresses to knock at. They replace those given before.
    Join(Vec<SocketAddr>),
    Leave,
    /// What to tell the others of ourselves from now on; at most [`HEARTBEAT_BYTES_MAX`] bytes.
    Heartbeat(Vec<u8>),
    /// Another member's view, from an authenticated exchange with it.
    PushPull(Box<FullState>),
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Send {
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The table has changed; its version is now this.
    Changed {
        version: u64,
    },
    Notice(Notice),
}

/// Something that an operator should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The cluster believed that we were dead; we have come back under a new generation.
    DeathRefuted { generation: u32 },
    /// Somebody tells of a later boot of ourselves. A copy of our data folder may run elsewhere, or
    /// somebody who has the gossip key lies: gossip proves nothing (R26). Whoever hears this asks
    /// over a channel that does.
    LaterLifeTold { peer: Peer },
    /// Our farewell has been sent.
    Left,
    /// So many seem to die at once that it may be we who are cut off. Verdicts wait for a quorum.
    MassDeath { suspects: usize, tier: usize },
    /// A peer that was never reached. Is its address right? (DET-18)
    Unconfirmed { peer: Peer, since: Duration },
    /// A peer was never confirmed and has been dropped (LIFE-105).
    UnconfirmedPeerRemoved { peer: Peer },
    /// This process did not run for so long.
    Stalled { by: Duration },
    /// The heartbeat was not taken: it is longer than a datagram has room for.
    HeartbeatTooLong { bytes: usize },
}

/// What has happened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub datagrams_in: u64,
    pub datagrams_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub probes_sent: u64,
    /// Probes that were answered, directly or through a proxy.
    pub probes_answered: u64,
    pub probes_failed: u64,
    pub nacks_in: u64,
    pub nacks_out: u64,
    pub suspicions_started: u64,
    pub suspicions_confirmed: u64,
    pub suspicions_refuted: u64,
    pub deaths_direct: u64,
    /// `gossip_informed_deaths` (DET-84).
    pub deaths_gossip: u64,
    pub leaves: u64,
    /// Deaths reported for an incarnation that has been refuted (DET-81).
    pub deaths_stale: u64,
    /// Deaths reported of somebody whom we had just heard.
    pub deaths_doubted: u64,
    pub deaths_held: u64,
    /// Reports about ourselves that we have answered.
    pub self_refuted: u64,
    pub stalls: u64,
    pub unconfirmed_removed: [u64; Role::ALL.len()],
    pub confirm_attempts: [u64; Role::ALL.len()],
    pub updates_refused: u64,
    pub core_errors: u64,
}

/// A probe of ours that is under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    target: NodeId,
    number: u8,
    ask: u32,
    sent: Duration,
    proxies: u8,
    nacks: u8,
    answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Member,
    /// Saying goodbye, this many more times.
    Leaving(u8),
    Gone,
}

pub struct Swim {
    settings: Settings,
    me: Peer,
    datacenter: String,
    incarnation: u16,
    phase: Phase,
    /// When to mention again that others tell of a later life of ours.
    next_doubt: Duration,
    checkpoint: Checkpoint,
    core: Core,
    /// The core's timers carry this; a timer of an earlier token is void.
    token: TimerToken,
    /// The core has members to probe.
    connected: bool,
    timers: BTreeMap<(Duration, u64), Timer<Peer>>,
    timer_no: u64,
    rng: StdRng,
    table: Table,
    health: LocalHealth,
    suspicions: Suspicions,
    rumours: Rumours,
    times_told: u32,
    probe: Option<Probe>,
    ask: u32,
    /// The probe that is being answered right now.
    echo: Option<u32>,
    /// The probe of ours that the packet at hand answers.
    heard_echo: Option<u32>,
    /// (who asked, whom about, its number) -> when we say that we got no answer either.
    proxied: BTreeMap<(NodeId, NodeId, u8), Duration>,
    seeds: Vec<SocketAddr>,
    heartbeat: Vec<u8>,
    /// Why the table is about to change.
    cause: Cause,
    now: Duration,
    next_tick: Duration,
    next_gossip: Duration,
    next_knock: Duration,
    next_upkeep: Duration,
    /// When the unconfirmed are looked after.
    next_look: Duration,
    /// After a stall: the socket has to be read empty, or this moment to come.
    draining: Option<Duration>,
    mass_death: bool,
    counters: Counters,
    effects: Vec<Effect>,
    announced_version: u64,
}

impl Swim {
    /// `rng` draws nonces and makes choices; the same generator and the same events give the same
    /// effects.
    #[must_use]
    pub fn new(identity: Identity, ring: KeyRing, settings: Settings, mut rng: StdRng) -> Self {
        let Identity { peer, datacenter, domain } = identity;
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let core_rng = StdRng::from_seed(seed);
        let core = Core::new(peer, config(&settings, 1), core_rng, foca::PostcardCodec);
        let checkpoint = Checkpoint::new(peer.node, domain, ring, settings.nodes_max);
        let table = Table::new(settings.nodes_max);
        Self {
            me: peer,
            datacenter,
            incarnation: 0,
            phase: Phase::Member,
            next_doubt: Duration::ZERO,
            checkpoint,
            core,
            token: 0,
            connected: false,
            timers: BTreeMap::new(),
            timer_no: 0,
            rng,
            table,
            health: LocalHealth::default(),
            suspicions: Suspicions::default(),
            rumours: Rumours::default(),
            times_told: times_told(1),
            probe: None,
            ask: 0,
            echo: None,
            heard_echo: None,
            proxied: BTreeMap::new(),
            seeds: Vec::new(),
            heartbeat: Vec::new(),
            cause: Cause::Gossip,
            now: Duration::ZERO,
            next_tick: Duration::ZERO,
            next_gossip: Duration::ZERO,
            next_knock: Duration::ZERO,
            next_upkeep: Duration::ZERO,
            next_look: Duration::ZERO,
            draining: None,
            mass_death: false,
            counters: Counters::default(),
            effects: Vec::new(),
            announced_version: 0,
            settings,
        }
    }

    /// `now` counts from the start of this process and never goes back.
    pub fn step(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.notice_stall();
        match event {
            Event::Datagram(bytes) => self.datagram(&bytes),
            Event::Tick => self.tick(),
            Event::Drained => self.drained(),
            Event::Join(seeds) => {
                self.seeds = seeds;
                self.seeds.truncate(SEEDS_MAX);
                self.next_knock = self.now;
            }
            Event::Leave => self.leave(),
            Event::Heartbeat(bytes) if bytes.len() > HEARTBEAT_BYTES_MAX => {
                self.notice(Notice::HeartbeatTooLong { bytes: bytes.len() });
            }
            Event::Heartbeat(bytes) => self.heartbeat = bytes,
            Event::PushPull(state) => self.merge(*state),
        }
        let version = self.table.version();
        if version != self.announced_version {
            self.announced_version = version;
            self.effects.push(Effect::Changed { version });
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due. Later than this by more than half a probe period counts as a
    /// stall.
    #[must_use]
    pub fn next_wake(&self) -> Duration {
        match self.timers.first_key_value() {
            // Timers that are due wait until the socket is empty.
            Some(((at, _), _)) if self.draining.is_none() => self.next_tick.min(*at),
            _ => self.next_tick,
        }
    }

    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    #[must_use]
    pub fn me(&self) -> Peer {
        self.me
    }

    #[must_use]
    pub fn incarnation(&self) -> u16 {
        self.incarnation
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        self.checkpoint.refusals()
    }

    #[must_use]
    pub fn health(&self) -> LocalHealth {
        self.health
    }

    #[must_use]
    pub fn suspicions(&self) -> &Suspicions {
        &self.suspicions
    }

    /// After a stall, until the socket has been read empty.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// For the rotation of keys.
    pub fn keys(&mut self) -> &mut KeyRing {
        self.checkpoint.keys()
    }

    /// How long suspicions last now.
    #[must_use]
    pub fn patience(&self) -> Patience {
        Patience::of(&self.settings, self.table.live() + 1)
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.push(Effect::Notice(notice));
    }

    fn leave(&mut self) {
        if self.phase != Phase::Member {
            return;
        }
        self.phase = Phase::Leaving(FAREWELLS);
        self.next_gossip = self.now;
        self.timers.clear();
        self.tick();
    }

    /// Lets the core do something and takes what it wants.
    fn with_core(
        &mut self,
        act: impl FnOnce(&mut Core, &mut Collected) -> Result<(), foca::Error>,
    ) {
        let mut collected = Collected::default();
        if act(&mut self.core, &mut collected).is_err() {
            self.counters.core_errors += 1;
        }
        self.absorb(collected);
    }

    fn absorb(&mut self, collected: Collected) {
        let mut touched = Vec::new();
        let mut failed = None;
        let mut rejoined = None;
        for note in collected.notes {
            match note {
                Note::Touched(peer) => touched.push(peer.node),
                Note::ProbeFailed(peer) => {
                    touched.push(peer.node);
                    failed = Some(peer);
                }
                Note::Received(from, message) => self.received(from, &message),
                Note::Incarnation(incarnation) if incarnation > self.incarnation => {
                    // We had to contradict a suspicion: perhaps we are slow.
                    self.incarnation = incarnation;
                    self.counters.self_refuted += 1;
                    self.health.worsen(1);
                }
                Note::Incarnation(_) => {}
                Note::Idle | Note::Defunct => self.connected = false,
                Note::Rejoined(peer) => rejoined = Some(peer),
            }
        }
        for (timer, after) in collected.timers {
            self.schedule(timer, after);
        }
        if let Some(peer) = rejoined {
            self.reborn(peer);
        }
        self.observe(&touched);
        if let Some(peer) = failed {
            self.probe_failed(peer);
        }
        for outgoing in collected.sends {
            self.send_core(outgoing);
        }
        if rejoined.is_some() {
            // The core waits for a datagram before it probes again; it need not.
            self.with_core(|core, out| core.apply_many(std::iter::empty(), false, out));
        }
    }

    fn reborn(&mut self, peer: Peer) {
        self.me = peer;
        self.incarnation = 0;
        self.connected = false;
        self.counters.self_refuted += 1;
        self.health.worsen(1);
        self.notice(Notice::DeathRefuted { generation: peer.generation });
    }

    fn schedule(&mut self, timer: Timer<Peer>, after: Duration) {
        let after = match &timer {
            // Every member that learns of a suspicion sets a deadline of its own; the core's would
            // come on top.
            Timer::ChangeSuspectToDown { .. } => return,
            Timer::ProbeRandomMember(token) => {
                self.token = *token;
                self.connected = true;
                self.probe_scaled(after)
            }
            Timer::SendIndirectProbe { .. } => self.probe_scaled(after),
            Timer::PeriodicAnnounce(_) | Timer::PeriodicAnnounceDown(_) => {
                // Spread, so that a cluster that started together does not greet together.
                after.mul_f64(0.75 + 0.5 * self.random_share())
            }
            Timer::PeriodicGossip(_) | Timer::RemoveDown(_) => after,
        };
        self.timer_no += 1;
        self.timers.insert((self.now + after, self.timer_no), timer);
    }

    fn probe_scaled(&self, after: Duration) -> Duration {
        let scale = if self.settings.lifeguard.probe { self.health.probe_scale() } else { 1 };
        after * scale
    }

    fn random_share(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX)
    }
}

/// How many addresses are knocked at, at most.
const SEEDS_MAX: usize = 64;

/// How often a farewell is gossiped before we are gone.
const FAREWELLS: u8 = 6;

/// The place of a role in counters.
#[must_use]
pub fn role_index(role: Role) -> usize {
    match role {
        Role::Client => 0,
        Role::Gate => 1,
        Role::Manager => 2,
        Role::Worker => 3,
        Role::Recruit => 4,
    }
}
