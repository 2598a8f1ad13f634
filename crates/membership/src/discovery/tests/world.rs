//! Many machines on one simulated network: simultaneous starts, islands, pods, and one group at
//! most.
//!
//! Gossip is idealised: who has joined shares its member list with everybody it can reach. What is
//! tested is first contact.

use std::collections::{BTreeMap, BTreeSet};

use fence::GroupId;
use proptest::prelude::*;

use super::super::formation::{Formation, Founder, decide, digest};
use super::super::*;
use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(10);
const GOSSIP: Duration = Duration::from_millis(200);

struct Node {
    id: u128,
    host: u8,
    machine: Bootstrap,
    starts: Duration,
    members: BTreeSet<NodeId>,
    group: Option<GroupId>,
    dead: bool,
}

struct World {
    now: Duration,
    nodes: Vec<Node>,
    dns: BTreeMap<Question, Result<Answer, LookupError>>,
    /// Which pairs of hosts hear each other, as of a time.
    reachable: Box<dyn Fn(Duration, u8, u8) -> bool>,
    events: BTreeMap<(Duration, u64), (usize, Event)>,
    sequence: u64,
    voters: BTreeSet<NodeId>,
}

impl World {
    fn new() -> Self {
        Self {
            now: secs(0),
            nodes: vec![],
            dns: BTreeMap::new(),
            reachable: Box::new(|_, _, _| true),
            events: BTreeMap::new(),
            sequence: 0,
            voters: BTreeSet::new(),
        }
    }

    fn add(&mut self, id: u128, host: u8, settings: Settings, starts: Duration, seed: u64) {
        let machine = Bootstrap::new(me(id, host), settings, seed ^ id as u64);
        let index = self.nodes.len();
        self.nodes.push(Node {
            id,
            host,
            machine,
            starts,
            members: BTreeSet::new(),
            group: None,
            dead: false,
        });
        self.schedule(starts, index, Event::Start);
    }

    fn schedule(&mut self, at: Duration, node: usize, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), (node, event));
    }

    fn hears(&self, from: usize, to: usize) -> bool {
        let (a, b) = (self.nodes[from].host, self.nodes[to].host);
        !self.nodes[to].dead
            && self.nodes[to].starts <= self.now
            && (self.reachable)(self.now, a, b)
    }

    fn hello_of(&self, index: usize) -> Hello {
        let node = &self.nodes[index];
        let mut hello = hello(node.id, address(node.host));
        hello.group = node.group;
        hello.voters = digest(&self.voters);
        hello
    }

    fn step(&mut self, index: usize, event: Event) {
        if self.nodes[index].dead {
            return;
        }
        for effect in self.nodes[index].machine.step(event, self.now) {
            match effect {
                Effect::Resolve(question) => {
                    let known = self.dns.get(&question).cloned();
                    let result = known.unwrap_or(Err(LookupError::NoSuchName));
                    self.schedule(
                        self.now + ROUND_TRIP,
                        index,
                        Event::Resolved { question, result },
                    );
                }
                Effect::Probe { probe, address: to } => {
                    let target =
                        self.nodes.iter().position(|node| !node.dead && address(node.host) == to);
                    // Nobody there, or not reachable: silence.
                    if let Some(target) = target.filter(|target| self.hears(index, *target)) {
                        let hello = self.hello_of(target);
                        self.schedule(
                            self.now + ROUND_TRIP,
                            index,
                            Event::Answered { probe, hello },
                        );
                    }
                }
                Effect::Join(hello) => {
                    let target =
                        self.nodes.iter().position(|n| !n.dead && NodeId(n.id) == hello.node());
                    if let Some(target) = target.filter(|target| self.hears(index, *target)) {
                        self.merge(index, target);
                        let node = hello.node();
                        self.schedule(
                            self.now + ROUND_TRIP,
                            index,
                            Event::JoinAcknowledged { node },
                        );
                    }
                }
                Effect::Cancel(_) | Effect::Notice(_) => {}
            }
        }
    }

    fn merge(&mut self, one: usize, other: usize) {
        let mut all: BTreeSet<NodeId> = &self.nodes[one].members | &self.nodes[other].members;
        all.extend([one, other].map(|index| NodeId(self.nodes[index].id)));
        let indexes: Vec<usize> = (0..self.nodes.len())
            .filter(|i| !self.nodes[*i].dead && all.contains(&NodeId(self.nodes[*i].id)))
            .collect();
        for index in &indexes {
            for peer in indexes.iter().filter(|peer| *peer != index) {
                let (node, at) = (NodeId(self.nodes[*peer].id), address(self.nodes[*peer].host));
                if self.nodes[*index].members.insert(node) {
                    self.schedule(self.now + GOSSIP, *index, Event::MemberUp { node, address: at });
                }
            }
        }
    }

    /// Every node applies the rule to what it sees.
    fn form(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].dead || self.nodes[index].starts > self.now {
                continue;
            }
            let around: BTreeMap<NodeId, Hello> = (0..self.nodes.len())
                .filter(|other| *other != index && self.hears(index, *other))
                .filter(|other| self.nodes[index].members.contains(&NodeId(self.nodes[*other].id)))
                .map(|other| (NodeId(self.nodes[other].id), self.hello_of(other)))
                .collect();
            let own = identity(self.nodes[index].id);
            let node = &mut self.nodes[index];
            let looked_around = node.machine.looked_around();
            let me =
                Founder { identity: &own, group: node.group, voters: &self.voters, looked_around };
            match decide(&me, &around) {
                Formation::Found(group) | Formation::AskFor(group) => {
                    node.group = Some(group);
                    node.machine.set_group(group);
                }
                Formation::Conflict(conflict) => panic!("one list, and yet {conflict:?}"),
                Formation::Member(_) | Formation::Wait(_) => {}
            }
        }
    }

    fn run_until(&mut self, end: Duration) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 1_000_000, "the world spins");
            let event = self.events.keys().next().map(|(at, _)| *at);
            let wake = (self.nodes.iter().enumerate())
                .filter(|(_, node)| !node.dead)
                .filter_map(|(index, node)| node.machine.next_wake().map(|at| (at, index)))
                .min();
            match (event, wake) {
                (Some(at), wake) if at <= end && wake.is_none_or(|(tick, _)| at <= tick) => {
                    let (_, (index, event)) = self.events.pop_first().unwrap();
                    self.now = at.max(self.now);
                    self.step(index, event);
                }
                (_, Some((at, index))) if at <= end => {
                    self.now = at.max(self.now);
                    self.step(index, Event::Tick);
                }
                _ => break,
            }
            self.form();
        }
        self.now = end;
    }

    /// Sets of nodes that know each other.
    fn islands(&self) -> usize {
        let mut islands: BTreeSet<BTreeSet<NodeId>> = BTreeSet::new();
        for node in self.nodes.iter().filter(|node| !node.dead) {
            let mut island = node.members.clone();
            island.insert(NodeId(node.id));
            islands.insert(island);
        }
        islands.len()
    }

    fn groups(&self) -> BTreeSet<GroupId> {
        self.nodes.iter().filter_map(|node| node.group).collect()
    }
}

fn service() -> DnsName {
    DnsName::parse("volley.default.svc.cluster.local", 9000).unwrap()
}

fn found(hosts: impl IntoIterator<Item = u8>) -> Result<Answer, LookupError> {
    Ok(Answer { addresses: hosts.into_iter().map(address).collect(), ttl: Some(secs(5)) })
}

/// GATE-109: static seeds, a Kubernetes headless service, and both: joined within a second,
/// unchanged code.
#[test]
fn three_configurations_join_within_a_second() {
    let static_seeds = || with_seeds([1, 2, 3]);
    let kubernetes = || Settings { names: vec![service()], ..Settings::new(Role::Manager) };
    let hybrid = || Settings { names: vec![service()], ..with_seeds([1]) };
    for settings in [static_seeds, kubernetes, hybrid] {
        let mut world = World::new();
        world.voters = [1, 2, 3].map(NodeId).into();
        world.dns.insert(service().0, found([1, 2, 3]));
        for node in 1..=3u8 {
            world.add(node.into(), node, settings(), ms(0), 77);
        }
        world.run_until(secs(1));
        assert!(world.nodes.iter().all(|n| n.machine.phase() == Phase::Joined));
        world.run_until(secs(5));
        assert_eq!((world.islands(), world.groups().len()), (1, 1));
    }
}

/// The first node of a new cluster waits for the others without electing itself, and they find it
/// later.
#[test]
fn a_first_node_waits_for_the_others() {
    let mut world = World::new();
    world.voters = [1, 2, 3].map(NodeId).into();
    world.add(1, 1, with_seeds([1, 2, 3]), ms(0), 1);
    world.add(2, 2, with_seeds([1, 2, 3]), secs(120), 1);
    world.add(3, 3, with_seeds([1, 2, 3]), secs(3600), 1);
    world.run_until(secs(119));
    assert!(world.groups().is_empty(), "one of three founds nothing");
    world.run_until(secs(124));
    assert_eq!(world.groups().len(), 1);
    // A configured peer that was down for an hour is joined at once, and admitted by the group.
    world.run_until(secs(3604));
    assert_eq!((world.islands(), world.groups().len()), (1, 1));
    assert!(world.nodes.iter().all(|node| node.group.is_some()));
}

/// Two halves that start apart become one after the network heals, within one look.
#[test]
fn islands_find_each_other_and_merge() {
    let mut world = World::new();
    world.voters = (1..=5).map(NodeId).collect();
    world.reachable = Box::new(|at, a, b| at >= secs(300) || (a <= 2) == (b <= 2));
    for node in 1..=5u8 {
        world.add(node.into(), node, with_seeds(1..=5), ms(u64::from(node) * 13), 5);
    }
    world.run_until(secs(299));
    assert_eq!(world.islands(), 2);
    assert!(world.nodes[..2].iter().all(|node| node.group.is_none()), "two of five found nothing");
    assert!(world.nodes[2..].iter().all(|node| node.group.is_some()), "three of five do");
    world.run_until(secs(300 + 38 + 1));
    assert_eq!((world.islands(), world.groups().len()), (1, 1));
    assert!(world.nodes.iter().all(|node| node.group.is_some()));
}

/// CORE-121: a headless service whose records change; every pod is replaced, one after the other.
#[test]
fn pods_are_replaced_one_by_one() {
    let settings = || Settings { names: vec![service()], ..Settings::new(Role::Manager) };
    let mut world = World::new();
    // The name exists only once the first pod is ready.
    for node in 1..=3u8 {
        world.add(node.into(), node, settings(), ms(0), 9);
    }
    world.run_until(secs(40));
    assert_eq!(world.islands(), 3);
    world.dns.insert(service().0, found([1, 2, 3]));
    world.run_until(secs(40 + 19 + 1));
    assert_eq!(world.islands(), 1, "found within one backoff");

    // Pod 1 comes back at address 11; DNS lists a dead address beside it.
    for index in 1..3 {
        world.nodes[index].members.remove(&NodeId(1));
        world.schedule(secs(70), index, Event::MemberGone { node: NodeId(1) });
    }
    world.nodes[0].dead = true;
    world.dns.insert(service().0, found([11, 2, 3, 66]));
    world.add(1, 11, settings(), secs(75), 9);
    world.run_until(secs(77));
    let new = &world.nodes[3];
    assert_eq!(new.machine.phase(), Phase::Joined);
    assert_eq!(world.islands(), 1);
    assert_eq!(world.nodes[1].machine.candidates().address_of(NodeId(1)), Some(address(11)));
}

/// R6: nobody in a domain where another group is already there founds a second one, even with a
/// list of its own.
#[test]
fn a_second_cluster_is_never_made_by_accident() {
    let mut world = World::new();
    world.voters = [1].map(NodeId).into();
    world.add(1, 1, with_seeds([1]), ms(0), 1);
    world.run_until(secs(10));
    assert_eq!(world.groups().len(), 1);
    // Somebody copies the configuration of node 1 and changes the list to the new node.
    world.voters = [2].map(NodeId).into();
    world.add(2, 2, with_seeds([1]), secs(10), 1);
    world.run_until(secs(20));
    assert_eq!((world.islands(), world.groups().len()), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any starting times and any outages that end: one island, one group, and never two on the
    /// way.
    #[test]
    fn any_start_ends_in_one_cluster(
        seed: u64,
        starts in prop::collection::vec(0u64..5000, 2..7),
        cuts in prop::collection::vec((1u8..8, 1u8..8, 0u64..60), 0..12),
    ) {
        let count = u8::try_from(starts.len()).unwrap();
        let mut world = World::new();
        world.voters = (1..=u128::from(count)).map(NodeId).collect();
        world.reachable = Box::new(move |at, a, b| {
            !cuts.iter().any(|(x, y, until)| {
                at < secs(*until) && ((a, b) == (*x, *y) || (b, a) == (*x, *y))
            })
        });
        for (node, start) in (1..=count).zip(starts) {
            world.add(node.into(), node, with_seeds(1..=count), ms(start), seed);
        }
        for end in [10, 30, 60, 60 + 40] {
            world.run_until(secs(end));
            prop_assert!(world.groups().len() <= 1);
        }
        prop_assert_eq!(world.islands(), 1);
        prop_assert_eq!(world.groups().len(), 1);
        prop_assert!(world.nodes.iter().all(|node| node.machine.phase() == Phase::Joined));
    }
}
