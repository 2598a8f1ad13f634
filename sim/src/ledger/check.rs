//! The invariants of the group as a whole, checked between two steps of the simulation.
//!
//! Each is a plain question with an id. What one state must fulfil by itself is asked of
//! `ledger_state`; here is what needs more than one node, or more than one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fence::{GroupId, NodeId};
use ledger_state::{BlobRef, Reply, RequestId, State, check_step};
use sha2::{Digest, Sha256};

use super::chaos::SLOWEST_FLUSH_MS;
use super::class::{Class, Mark};
use super::client::counters;
use super::watch::{self, Notice};
use super::world::World;
use crate::event;

pub struct Checks {
    world: Rc<World>,
    /// Who has led, in which term.
    leaders: BTreeSet<(u64, NodeId)>,
    /// The state after each entry, by whoever applied it first.
    digests: BTreeMap<u64, (u64, usize)>,
    /// What was answered to each request: a retry may not get another answer.
    answers: BTreeMap<RequestId, Reply>,
    /// The last state of each host that was looked at, and the life it was in.
    states: Vec<Option<(u64, State)>>,
    /// Hosts that are cut off from everybody.
    isolated: BTreeMap<usize, Isolation>,
}

struct Isolation {
    since_ms: u64,
    /// Its term, once what was on the way has arrived.
    term: Option<u64>,
}

/// A host that is cut off has this long to finish what is on the way.
const ISOLATION_SETTLES_MS: u64 = 2_000;

/// A blob's copies are made within this time, or it is refused.
const PUT_AT_MOST_MS: u64 = 5_000;

impl Checks {
    pub fn new(world: Rc<World>) -> Self {
        let states = world.hosts.iter().map(|_| None).collect();
        Self {
            world,
            leaders: BTreeSet::new(),
            digests: BTreeMap::new(),
            answers: BTreeMap::new(),
            states,
            isolated: BTreeMap::new(),
        }
    }

    /// Takes what the nodes have told since the last step.
    pub fn notices(&mut self) {
        for notice in watch::take() {
            match notice {
                Notice::Applied { host, index, digest } => self.applied(host, index, digest),
                Notice::Leader { host, node, term } => self.leads(host, node, term),
                Notice::Acknowledged { request, reply } => self.acknowledged(request, &reply),
                Notice::Blob { blob } => self.blob(&blob),
            }
        }
    }

    /// P3: applied prefixes are equal; what is committed does not change.
    fn applied(&mut self, host: usize, index: u64, digest: u64) {
        let (first, by) = *self.digests.entry(index).or_insert((digest, host));
        if first != digest {
            let detail = format!(
                "after entry {index} n{} has state {digest:016x}, n{} had {first:016x}",
                host + 1,
                by + 1
            );
            self.world.violate("P3.prefix", detail);
        }
    }

    /// A leader is one (term, node): of two nodes in one term the higher id wins over the lower, as
    /// of two terms the higher one. So two leaders in one term are no violation here; what they
    /// decide is compared by `P3.prefix`.
    fn leads(&mut self, host: usize, node: NodeId, term: u64) {
        event!("n{} leads term {term}", host + 1);
        let first = self.leaders.is_empty();
        if self.leaders.insert((term, node)) && !first {
            self.world.reach(Mark::LeaderChanged);
        }
    }

    /// Exactly-once: whoever asks again about a request gets the first answer.
    fn acknowledged(&mut self, request: RequestId, reply: &Reply) {
        let first = self.answers.entry(request).or_insert_with(|| reply.clone());
        if first != reply {
            let detail = format!("{request}: first {first:?}, then {reply:?}");
            self.world.violate("request.once", detail);
        }
    }

    /// R17a: an acknowledged blob is durable on a majority.
    fn blob(&self, blob: &BlobRef) {
        let name = ledger::blobs::name(blob);
        let holders = self.world.hosts.iter().filter(|host| {
            host.disk.files().iter().any(|path| {
                path.file_name().is_some_and(|file| file == name.as_str())
                    && host.disk.dump_durable(path).is_some_and(|bytes| same_content(bytes, blob))
            })
        });
        let (holders, needed) = (holders.count(), self.world.plan.nodes / 2 + 1);
        // A copy that was there when it was counted may have been lost with its disk before the
        // answer was on its way.
        let lost = self.world.hosts.iter().filter_map(|host| host.forgot_ms.get());
        let lost = lost.filter(|at| at + PUT_AT_MOST_MS > crate::trace::now_ms()).count();
        if holders + lost < needed {
            let detail =
                format!("blob {name} was acknowledged with {holders} durable copies of {needed}");
            self.world.violate("R17a.blob", detail);
        } else {
            self.world.reach(Mark::BlobOnMajority);
        }
    }

    /// Looks at the states of all nodes: what each must fulfil by itself, and against what it was
    /// before.
    pub fn states(&mut self) {
        for (host, slot) in self.world.hosts.iter().enumerate() {
            let Some(state) = slot.state(State::clone) else { continue };
            // Before it belongs to a group a node has no state that could be compared.
            if state.group() == GroupId::default() {
                continue;
            }
            let start = slot.starts.get();
            if let Err(violation) = state.check() {
                self.world.violate(violation.id, format!("n{}: {violation}", host + 1));
            }
            self.totals(host, &state);
            if let Some((life, before)) = &self.states[host]
                && *life == start
            {
                if state.applied() < before.applied() {
                    let detail = format!(
                        "n{} went back from {} to {}",
                        host + 1,
                        before.applied(),
                        state.applied()
                    );
                    self.world.violate("P3.applied-rises", detail);
                } else if let Err(violation) = check_step(before, &state) {
                    self.world.violate(violation.id, format!("n{}: {violation}", host + 1));
                }
            }
            self.states[host] = Some((start, state));
        }
    }

    /// P5: the totals of a job are what its attempts have reported, each once.
    fn totals(&self, host: usize, state: &State) {
        for (id, job) in state.jobs() {
            let mut issued = 0;
            for ((workflow, shard), record) in &job.shards {
                for (number, attempt) in (1..).zip(&record.attempts) {
                    if attempt.end.is_some() {
                        let key = fence::ShardKey { job: id, workflow: *workflow, shard: *shard };
                        issued += counters(key, fence::Attempt(number)).issued;
                    }
                }
            }
            if job.totals.issued != issued {
                let detail = format!(
                    "n{}: job {id} counts {} requests, its attempts have reported {issued}",
                    host + 1,
                    job.totals.issued
                );
                self.world.violate("P5.totals", detail);
            }
        }
    }

    /// Keeps track of who is cut off; told in every step, because a moment of contact is enough to
    /// learn a term.
    pub fn cut_off(&mut self, isolated: &[usize], now_ms: u64) {
        self.isolated.retain(|host, _| isolated.contains(host));
        for host in isolated {
            self.isolated.entry(*host).or_insert(Isolation { since_ms: now_ms, term: None });
        }
    }

    /// Pre-vote: who reaches nobody does not raise its term.
    pub fn isolation(&mut self, now_ms: u64) {
        // What a node says of its term is as old as the flush that holds it up, and one election
        // may wait behind it.
        let slow = self.world.plan.classes.contains(&Class::SlowSync);
        let settles_ms = ISOLATION_SETTLES_MS + if slow { 2 * SLOWEST_FLUSH_MS } else { 0 };
        for (host, isolation) in &mut self.isolated {
            if now_ms < isolation.since_ms + settles_ms {
                continue;
            }
            let Some(node) = self.world.node(*host) else { continue };
            let term = node.status().term;
            let first = *isolation.term.get_or_insert(term);
            if term > first {
                let detail =
                    format!("n{} is cut off and went from term {first} to {term}", host + 1);
                self.world.violate("CORE-20.pre-vote", detail);
                isolation.term = Some(term);
            }
        }
    }
}

/// The disk leaves zeros at the end out of what it shows; the length says how many there were.
fn same_content(mut bytes: Vec<u8>, blob: &BlobRef) -> bool {
    if bytes.len() as u64 > blob.bytes {
        return false;
    }
    bytes.resize(blob.bytes as usize, 0);
    <[u8; 32]>::from(Sha256::digest(&bytes)) == blob.hash
}
