//! How members come and go, break down and recover.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ::membership::envelope::{Domain, KeyRing};
use ::membership::{Event, Identity, Peer, Role, Swim};
use fence::BootId;
use rand010::rngs::StdRng;
use rand010::{Rng, SeedableRng};

use super::parts::Clock;
use super::{Fault, Node, SEEDS, What, World, address, node_id};

impl World {
    /// One more member, which has not yet joined.
    pub(super) fn add(&mut self) {
        let (index, period) = (self.nodes.len(), self.settings.probe_period);
        let address = address(index);
        let start = self.now + self.spread(period);
        self.nodes.push(Node {
            swim: None,
            boot: 1,
            rng_seed: 0,
            address,
            clock: Clock::started(self.now),
            fault: None,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            wake_at: start,
            seen: 0,
            side: u8::from(index % 2 == 1),
            undrained: false,
            leaving: false,
        });
        self.by_address.insert(address, index);
        self.nodes[index].rng_seed = self.rng.next_u64();
        self.nodes[index].swim = Some(self.twin(index));
        self.push(start, What::Wake(index));
        // The second exchange of a joiner with a seed already knows everybody.
        let first = self.now + period * 3 + self.spread(period * 2);
        self.push(first, What::Exchange(index));
    }

    pub(super) fn seeds(&self) -> Vec<SocketAddr> {
        (0..self.nodes.len().min(SEEDS)).map(address).collect()
    }

    /// The member as it was at its start: with the same events it does the same.
    pub fn twin(&self, index: usize) -> Swim {
        let role = if index < SEEDS { Role::Manager } else { Role::Worker };
        let Node { address, boot, rng_seed, .. } = self.nodes[index];
        let peer = Peer { node: node_id(index), role, address, boot: BootId(boot), generation: 0 };
        let domain = Domain {
            cluster: "sim".into(),
            environment: "sim".into(),
            roles: vec![Role::Manager, Role::Worker],
        };
        let key = std::array::from_fn(|i| (i as u8).wrapping_mul(73));
        let Ok(ring) = KeyRing::new(key) else { unreachable!("the key has 32 different bytes") };
        let identity = Identity { peer, datacenter: "sim1".into(), domain };
        Swim::new(identity, ring, self.settings.clone(), StdRng::seed_from_u64(rng_seed))
    }

    /// A newcomer that knows the seeds.
    pub fn join(&mut self) -> usize {
        let index = self.nodes.len();
        self.add();
        self.step(index, Event::Join(self.seeds()));
        index
    }

    /// The process starts anew, in the next life; at another address if `moved`.
    pub fn restart(&mut self, index: usize, moved: bool) {
        let now = self.now;
        let node = &mut self.nodes[index];
        node.boot += 1;
        if moved {
            let [_, b, c, d] = (index as u32 + 1).to_be_bytes();
            let port = 7946 + (node.boot % 50_000) as u16;
            self.by_address.remove(&node.address);
            node.address = SocketAddr::from(([10, b, c, d], port));
            self.by_address.insert(node.address, index);
        }
        node.clock = Clock::started(now);
        node.fault = None;
        node.inbox.clear();
        node.outbox.clear();
        node.seen = 0;
        node.undrained = false;
        node.leaving = false;
        node.wake_at = now;
        self.nodes[index].rng_seed = self.rng.next_u64();
        self.nodes[index].swim = Some(self.twin(index));
        self.push(now, What::Wake(index));
        self.step(index, Event::Join(self.seeds()));
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn get(&self, index: usize) -> Option<&Swim> {
        self.nodes[index].swim.as_ref()
    }

    pub fn boot(&self, index: usize) -> u64 {
        self.nodes[index].boot
    }

    pub fn fault(&self, index: usize) -> Option<Fault> {
        self.nodes[index].fault
    }

    /// Which half it is in when the network is split.
    pub fn set_side(&mut self, index: usize, side: u8) {
        self.nodes[index].side = side;
    }

    pub fn set_clock_rate(&mut self, index: usize, rate: f64) {
        let now = self.now;
        let node = &mut self.nodes[index];
        node.clock.set_rate(now, rate);
        if let Some(swim) = &node.swim {
            node.wake_at = node.clock.when(swim.next_wake()).max(now);
            let at = node.wake_at;
            self.push(at, What::Wake(index));
        }
    }

    pub fn is_leaving(&self, index: usize) -> bool {
        self.nodes[index].leaving
    }

    /// What its clock shows.
    pub fn local(&self, index: usize) -> Duration {
        self.nodes[index].clock.read(self.now)
    }

    pub fn leave(&mut self, index: usize) {
        self.nodes[index].leaving = true;
        self.step(index, Event::Leave);
    }

    pub fn beat(&mut self, index: usize, bytes: Vec<u8>) {
        if self.nodes[index].fault != Some(Fault::Pause) {
            self.step(index, Event::Heartbeat(bytes));
        }
    }

    pub fn crash(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.swim = None;
        node.fault = None;
        node.inbox.clear();
        node.outbox.clear();
    }

    pub fn break_down(&mut self, index: usize, fault: Fault) {
        self.nodes[index].fault = Some(fault);
    }

    /// Everything that waited gets through, in its order.
    pub fn recover(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let fault = node.fault.take();
        let inbox = std::mem::take(&mut node.inbox);
        for (to, bytes) in std::mem::take(&mut node.outbox) {
            self.transmit(index, to, bytes);
        }
        if fault == Some(Fault::Pause) {
            self.nodes[index].undrained = true;
            // The clock runs before the socket is read: the worse of the two orders.
            self.step(index, Event::Tick);
        }
        for bytes in inbox {
            self.step(index, Event::Datagram(bytes));
        }
        self.nodes[index].undrained = false;
        self.step(index, Event::Drained);
    }

    /// As [`World::recover`] from a pause, stopping short of reading the socket.
    pub fn resume_clock_only(&mut self, index: usize) {
        for _ in 0..3 {
            self.step(index, Event::Tick);
        }
    }
}
