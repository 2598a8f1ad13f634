//! Thousands of members on one simulated network: a discrete-event driver over the product's own
//! pure code.
//!
//! Nothing runs between events, so a thousand members cost little more than their datagrams.
//! Everything follows from the seed: latency, loss, who stalls, and each member's own generator.

mod life;
mod parts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use ::membership::{Cause, Effect, Event, FullState, Notice, Settings, State, Swim};
use fence::NodeId;
use rand010::rngs::StdRng;
use rand010::{Rng, SeedableRng};

use crate::trace;
use parts::Clock;
pub use parts::{Death, Fault, Seen, Traffic, Weather};

/// How many datagrams a socket holds for a process that does not read.
const SOCKET_DATAGRAMS: usize = 2048;

/// What a record, and a comparison with its reply, take on the wire, with the frames of gRPC,
/// HTTP/2 and TLS.
const RECORD_BYTES: u64 = 80;
const COMPARE_BYTES: u64 = 600;

struct Node {
    swim: Option<Swim>,
    boot: u64,
    /// Where its generator starts.
    rng_seed: u64,
    address: SocketAddr,
    clock: Clock,
    fault: Option<Fault>,
    inbox: VecDeque<Vec<u8>>,
    outbox: VecDeque<(SocketAddr, Vec<u8>)>,
    wake_at: Duration,
    seen: u64,
    side: u8,
    /// Resumed after a pause, its socket not yet read.
    undrained: bool,
    leaving: bool,
}

enum What {
    Deliver { to: usize, bytes: Vec<u8> },
    Wake(usize),
    Exchange(usize),
}

pub struct World {
    pub now: Duration,
    pub deaths: Vec<Death>,
    pub traffic: Traffic,
    pub weather: Weather,
    pub split: bool,
    /// Datagrams from the first do not reach the second.
    pub cuts: BTreeSet<(usize, usize)>,
    pub events: u64,
    /// Every change of every table and every notice, for those who check them.
    pub log: Option<Vec<Seen>>,
    pub notices: Vec<(usize, Notice)>,
    /// Everything that has happened to one member, from its start.
    pub record: Option<(usize, Vec<(Duration, Event)>)>,
    /// Folds every datagram into the trace.
    pub traced: bool,
    nodes: Vec<Node>,
    by_address: BTreeMap<SocketAddr, usize>,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    pending: BTreeMap<u64, What>,
    number: u64,
    rng: StdRng,
    settings: Settings,
}

fn address(index: usize) -> SocketAddr {
    let [_, b, c, d] = (index as u32 + 1).to_be_bytes();
    SocketAddr::from(([10, b, c, d], 7946))
}

/// So many members are seeds, and managers.
pub const SEEDS: usize = 4;

pub fn node_id(index: usize) -> NodeId {
    // Ids are random in life; here they only have to be far apart and in no order.
    NodeId(u128::from((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | index as u128)
}

/// The inverse of [`node_id`].
pub fn index_of(node: NodeId) -> usize {
    node.0 as u64 as usize
}

impl World {
    /// `count` members that start within one period and know four seeds.
    pub fn new(seed: u64, count: usize, settings: &Settings) -> Self {
        Self::recording(seed, count, settings, None)
    }

    /// As [`World::new`], and everything that happens to one member is written down.
    pub fn recording(
        seed: u64,
        count: usize,
        settings: &Settings,
        recorded: Option<usize>,
    ) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            deaths: Vec::new(),
            traffic: Traffic::default(),
            weather: Weather::FINE,
            split: false,
            cuts: BTreeSet::new(),
            events: 0,
            log: None,
            notices: Vec::new(),
            record: recorded.map(|index| (index, Vec::new())),
            traced: false,
            nodes: Vec::new(),
            by_address: BTreeMap::new(),
            queue: BinaryHeap::new(),
            pending: BTreeMap::new(),
            number: 0,
            rng: StdRng::seed_from_u64(seed),
            settings: settings.clone(),
        };
        (0..count).for_each(|_| world.add());
        let seeds = world.seeds();
        for index in 0..count {
            world.step(index, Event::Join(seeds.clone()));
        }
        world
    }

    pub fn members(&self) -> impl Iterator<Item = &Swim> {
        self.nodes.iter().filter_map(|node| node.swim.as_ref())
    }

    /// Whether every member that runs has confirmed every other.
    pub fn is_converged(&self) -> bool {
        let running = self.members().count();
        self.members().all(|swim| swim.table().count(State::Confirmed) == running - 1)
    }

    /// Runs until everybody knows everybody, or `limit` has passed.
    pub fn converge(&mut self, limit: Duration) -> Option<Duration> {
        let start = self.now;
        while self.now - start < limit {
            if self.is_converged() {
                return Some(self.now - start);
            }
            self.run(self.settings.probe_period / 4);
        }
        None
    }

    /// A number below `bound`.
    pub fn draw(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound.max(1) as u64) as usize
    }

    fn share(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX)
    }

    fn spread(&mut self, time: Duration) -> Duration {
        let share = self.share();
        time.mul_f64(share)
    }

    fn push(&mut self, at: Duration, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number)));
        self.pending.insert(self.number, what);
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(Reverse((at, number))) = self.queue.peek().copied() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = at;
            self.events += 1;
            match self.pending.remove(&number) {
                Some(What::Deliver { to, bytes }) => self.deliver(to, bytes),
                Some(What::Wake(index)) => self.wake(index, at),
                Some(What::Exchange(index)) => self.exchange(index),
                None => {}
            }
        }
        self.now = until;
    }

    fn deliver(&mut self, to: usize, bytes: Vec<u8>) {
        let node = &mut self.nodes[to];
        if node.fault.is_none() {
            self.step(to, Event::Datagram(bytes));
        } else if node.inbox.len() < SOCKET_DATAGRAMS {
            node.inbox.push_back(bytes);
        }
    }

    fn wake(&mut self, index: usize, at: Duration) {
        let node = &self.nodes[index];
        // Another wake-up has taken its place, or nobody is there to be woken.
        if node.wake_at == at && node.fault != Some(Fault::Pause) {
            self.step(index, Event::Tick);
        }
    }

    fn step(&mut self, index: usize, event: Event) {
        let now = self.now;
        let node = &mut self.nodes[index];
        let Some(swim) = &mut node.swim else { return };
        if let Some((recorded, events)) = &mut self.record
            && *recorded == index
        {
            events.push((node.clock.read(now), event.clone()));
        }
        let effects = swim.step(event, node.clock.read(now));
        let next = node.clock.when(swim.next_wake());
        let is_new = next != node.wake_at || next <= now;
        if is_new {
            node.wake_at = next.max(now);
        }
        let (wake_at, is_cut) = (node.wake_at, node.fault == Some(Fault::Both));
        for effect in effects {
            match effect {
                Effect::Send { to, bytes } if is_cut => {
                    self.nodes[index].outbox.push_back((to, bytes));
                }
                Effect::Send { to, bytes } => self.transmit(index, to, bytes),
                Effect::Changed { .. } => self.take_changes(index),
                Effect::Notice(notice) => self.take_notice(index, notice),
            }
        }
        if is_new && wake_at != Duration::MAX {
            self.push(wake_at, What::Wake(index));
        }
    }

    fn take_notice(&mut self, index: usize, notice: Notice) {
        if notice == Notice::Left {
            // The process ends with its farewell.
            self.crash(index);
        }
        if self.log.is_some() {
            self.notices.push((index, notice));
        }
    }

    fn transmit(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) {
        self.traffic.datagrams += 1;
        self.traffic.bytes += bytes.len() as u64;
        if self.traced {
            trace::set_time(self.now.as_micros() as u64);
            trace::bytes(from as u64, u64::from(to.port()), true, &bytes);
        }
        let Some(to) = self.by_address.get(&to).copied() else { return };
        let weather = self.weather;
        if self.is_cut(from, to) || (weather.loss > 0.0 && self.share() < weather.loss) {
            return;
        }
        if weather.duplicate > 0.0 && self.share() < weather.duplicate {
            let latency = self.latency() * 3;
            self.push(self.now + latency, What::Deliver { to, bytes: bytes.clone() });
        }
        let latency = self.latency();
        self.push(self.now + latency, What::Deliver { to, bytes });
    }

    fn latency(&mut self) -> Duration {
        let Weather { reorder, late, latency: (least, most), .. } = self.weather;
        let held = if reorder > 0.0 && self.share() < reorder {
            self.spread(late)
        } else {
            Duration::ZERO
        };
        least + self.spread(most - least) + held
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        (self.split && self.nodes[from].side != self.nodes[to].side)
            || (!self.cuts.is_empty() && self.cuts.contains(&(from, to)))
    }

    fn take_changes(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(swim) = &node.swim else { return };
        let table = swim.table();
        let since = table.since(node.seen);
        node.seen = table.version();
        let Ok(changes) = since else { return };
        let (at, local, undrained) = (self.now, node.clock.read(self.now), node.undrained);
        for change in changes {
            if let Some(log) = &mut self.log {
                let change = *change;
                log.push(Seen { at, local, observer: index, change, undrained });
            }
            // A member that it had never met itself is dropped on the word of others.
            let is_dropped = change.to.is_none() && change.cause == Cause::Gossip;
            if change.to != Some(State::Dead) && !is_dropped {
                continue;
            }
            let subject = index_of(change.peer.node);
            self.deaths.push(Death { at: self.now, observer: index, subject });
        }
    }

    fn exchange(&mut self, index: usize) {
        let period = self.settings.exchange_period();
        let again = period.mul_f64(0.75) + self.spread(period / 2);
        self.push(self.now + again, What::Exchange(index));
        let count = self.nodes.len();
        let Some(swim) = &self.nodes[index].swim else { return };
        if self.nodes[index].fault.is_some() {
            return;
        }
        // A member that it knows, or a seed while it knows nobody.
        let known: Vec<_> = swim
            .table()
            .iter()
            .filter(|entry| entry.state.is_live())
            .map(|entry| index_of(entry.peer.node))
            .collect();
        let partner = if known.len() < 8 {
            self.draw(count.min(SEEDS))
        } else {
            known[self.draw(known.len())]
        };
        let is_there = self.nodes[partner].swim.is_some() && self.nodes[partner].fault.is_none();
        let is_cut = self.is_cut(index, partner) || self.is_cut(partner, index);
        if partner == index || !is_there || is_cut {
            return;
        }
        let pair = [(index, partner), (partner, index)];
        self.traffic.exchanges += 1;
        self.traffic.exchanged_bytes += COMPARE_BYTES;
        let get = |at: usize| self.nodes[at].swim.as_ref();
        let (Some(mine), Some(theirs)) = (get(index), get(partner)) else { return };
        let states = if mine.digest() == theirs.digest() {
            pair.map(|(_, of)| {
                get(of).map(|swim| FullState { from: swim.own_record(), members: Vec::new() })
            })
        } else {
            pair.map(|(_, of)| get(of).map(Swim::full_state))
        };
        for ((to, _), state) in pair.into_iter().zip(states) {
            let Some(state) = state else { continue };
            self.traffic.exchanged_bytes += state.members.len() as u64 * RECORD_BYTES;
            self.step(to, Event::PushPull(Box::new(state)));
        }
    }
}
