//! The machine that finds peers: events in, effects out, no clock, no socket.
//!
//! ```text
//! INITIAL ─▶ RESOLVING ─▶ PROBING ──first hello──▶ join ──acknowledged──▶ JOINED ─┐ looks again every 30 s,
//!               ▲            │  ▲                    │                     ▲  │    │ merges with whom it finds
//!               │       all fail └──── next one ◀──refused                 └──┼────┘
//!               └─ BACKOFF ◀─┘                                  last member gone: from the start
//! ```
//!
//! Seeds and remembered peers are probed at once; DNS answers join in as they come and hold nothing
//! up. Names are asked while probes run. A probe that finds a stranger's cluster, our own node or
//! another group is not an answer.

use base::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fence::{GroupId, NodeId};
use trust::{Expected, Policy, Refusal, admit};

use super::cache::Lookup;
use super::event::{Counts, Effect, Event, Notice, Phase, ProbeFailure, ProbeId};
use super::formation::same_group_domain;
use super::{Answer, Candidates, DnsCache, Hello, LookupError, Me, Question, Settings, Source};

/// After the first join, the rest of the candidates is looked at: by then gossip knows most of
/// them.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Hellos kept in case the first join fails.
const RESPONDERS_MAX: usize = 16;

#[derive(Clone, Debug)]
struct Probe {
    address: SocketAddr,
    deadline: Duration,
}

#[derive(Clone, Debug)]
struct Joining {
    node: NodeId,
    deadline: Duration,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    me: Me,
    settings: Settings,
    random: SplitMix64,
    cache: DnsCache,
    candidates: Candidates,
    members: BTreeSet<NodeId>,
    started: Option<Duration>,
    failed: bool,
    joined: bool,
    looked_around: bool,
    /// This round ended before everybody was tried, because a peer was found.
    cut_short: bool,
    /// Rounds without a peer, since the last peer.
    failures: u32,
    /// When the next round begins: after a failed one, or after a while when joined.
    round_at: Option<Duration>,
    queue: VecDeque<(Duration, SocketAddr)>,
    probes: BTreeMap<ProbeId, Probe>,
    next_probe: u64,
    joining: Option<Joining>,
    responders: VecDeque<Hello>,
    /// Cancelled because somebody answered; tried again if that one cannot be joined.
    held: Vec<SocketAddr>,
    counts: Counts,
    effects: Vec<Effect>,
}

impl Bootstrap {
    /// `seed` feeds the jitter.
    #[must_use]
    pub fn new(me: Me, settings: Settings, seed: u64) -> Self {
        let questions = settings.seeds.iter().filter_map(super::Seed::question);
        let names = settings.names.iter().map(|name| name.0.clone());
        let cache = DnsCache::new(settings.dns, questions.chain(names).collect::<BTreeSet<_>>());
        let candidates = Candidates::new(me.addresses.iter().copied(), settings.candidates_max);
        Self {
            me,
            settings,
            random: SplitMix64::new(seed),
            cache,
            candidates,
            members: BTreeSet::new(),
            started: None,
            failed: false,
            joined: false,
            looked_around: false,
            cut_short: false,
            failures: 0,
            round_at: None,
            queue: VecDeque::new(),
            probes: BTreeMap::new(),
            next_probe: 0,
            joining: None,
            responders: VecDeque::new(),
            held: Vec::new(),
            counts: Counts::default(),
            effects: Vec::new(),
        }
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        let nothing_to_look_for = self.settings.seeds.is_empty()
            && self.settings.names.is_empty()
            && self.settings.remembered.is_empty();
        if self.failed {
            Phase::Failed
        } else if self.started.is_none() {
            Phase::Initial
        } else if self.joined {
            Phase::Joined
        } else if nothing_to_look_for {
            Phase::Unconfigured
        } else if self.is_probing() || self.joining.is_some() {
            Phase::Probing
        } else if self.round_at.is_some() {
            Phase::Backoff
        } else {
            Phase::Resolving
        }
    }

    /// Whether every address that could be known has been tried at least once. Before that nobody
    /// forms a group.
    #[must_use]
    pub fn looked_around(&self) -> bool {
        self.looked_around || self.phase() == Phase::Unconfigured
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    #[must_use]
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    #[must_use]
    pub fn probes_in_flight(&self) -> usize {
        self.probes.len()
    }

    /// The group in our data folder has changed: this node was admitted, or has founded one.
    pub fn set_group(&mut self, group: GroupId) {
        self.me.group = Some(group);
    }

    /// How long a lookup and a join may take; the shell ends what takes longer.
    #[must_use]
    pub fn deadlines(&self) -> (Duration, Duration) {
        (self.settings.dns.lookup_deadline, self.settings.join_deadline)
    }

    /// When the machine wants its next [`Event::Tick`], if nothing happens before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        if self.failed {
            return None;
        }
        let started = self.started?;
        let give_up = self.settings.give_up_after.filter(|_| !self.joined).map(|d| started + d);
        let room = self.probes.len() < self.settings.probes_max && !self.is_held();
        let queued = self.queue.iter().map(|(at, _)| *at).min().filter(|_| room);
        let probe = self.probes.values().map(|probe| probe.deadline).min();
        let join = self.joining.as_ref().map(|joining| joining.deadline);
        let lookup = self.cache.next_deadline();
        [give_up, queued, probe, join, lookup, self.round_at].into_iter().flatten().min()
    }

    /// One event at one time. Events may come twice, late, or for something that is long over.
    pub fn step(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        if self.failed {
            return Vec::new();
        }
        match event {
            Event::Start => self.start(now),
            Event::Tick => {}
            Event::Resolved { question, result } => self.resolved(&question, result, now),
            Event::Answered { probe, hello } => self.answered(probe, hello, now),
            Event::ProbeFailed { probe, why } => self.probe_failed(probe, why),
            Event::JoinAcknowledged { node } => self.join_acknowledged(node, now),
            Event::JoinFailed { node, why } => self.join_failed(node, why, now),
            Event::MemberUp { node, address } => self.member_up(node, address, now),
            Event::MemberGone { node } => self.member_gone(node, now),
            Event::Grouped { group } => self.set_group(group),
        }
        if self.started.is_some() {
            self.pass_time(now);
        }
        std::mem::take(&mut self.effects)
    }

    fn start(&mut self, now: Duration) {
        if self.started.is_some() {
            return;
        }
        self.started = Some(now);
        self.begin_round(now);
        if let Some(node) = self.members.first().copied() {
            self.become_joined(node, now);
        }
    }

    fn is_probing(&self) -> bool {
        !self.probes.is_empty() || !self.queue.is_empty()
    }

    /// Whether probing waits for the outcome of a first join.
    fn is_held(&self) -> bool {
        self.joining.is_some() && !self.joined
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.push(Effect::Notice(notice));
    }

    // ---- rounds ----

    fn begin_round(&mut self, now: Duration) {
        self.round_at = None;
        self.cut_short = false;
        self.held.clear();
        self.responders.clear();
        let hurry = (!self.joined).then(|| self.settings.backoff.base(self.failures));
        let questions: Vec<Question> = self.cache.questions().cloned().collect();
        for question in questions {
            match self.cache.state(&question, now, hurry) {
                Lookup::Due => {
                    self.cache.asked(&question, now);
                    self.counts.lookups += 1;
                    self.effects.push(Effect::Resolve(question));
                }
                Lookup::Fresh => self.counts.cache_hits += 1,
                Lookup::Negative => self.counts.negative_cache_hits += 1,
                Lookup::UnderWay => {}
            }
        }
        self.refresh_candidates();
        let rest = self.joined.then_some(self.settings.look_again);
        let due = self.candidates.due(&self.members, rest, now, &mut self.random);
        self.enqueue(due, now);
    }

    fn refresh_candidates(&mut self) -> Vec<SocketAddr> {
        let seeds = self.settings.seeds.iter().flat_map(|seed| match seed {
            super::Seed::Address(address) => vec![*address],
            host => host.question().map_or(vec![], |q| self.cache.addresses(&q).to_vec()),
        });
        let names = self.settings.names.iter().flat_map(|name| self.cache.addresses(&name.0));
        let all: Vec<_> = (self.settings.remembered.iter().map(|a| (Source::Remembered, *a)))
            .chain(seeds.map(|address| (Source::Seed, address)))
            .chain(names.map(|address| (Source::Dns, *address)))
            .collect();
        let (new, left_out) = self.candidates.replace(all);
        if left_out > 0 {
            self.notice(Notice::LeftOut { addresses: left_out });
        }
        new
    }

    fn enqueue(&mut self, addresses: Vec<SocketAddr>, now: Duration) {
        for address in addresses {
            let waiting = self.queue.iter().any(|(_, queued)| *queued == address)
                || self.probes.values().any(|probe| probe.address == address);
            if !waiting {
                let at = now + self.random.up_to(self.settings.probe_jitter);
                self.queue.push_back((at, address));
            }
        }
    }

    /// Everything that happens because time has passed, and because of what this step has changed.
    fn pass_time(&mut self, now: Duration) {
        for question in self.cache.overdue(now) {
            self.counts.lookups_timed_out += 1;
            self.resolved(&question, Err(LookupError::TimedOut), now);
        }
        let late: Vec<_> =
            self.probes.iter().filter(|(_, p)| p.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.probes.remove(&id);
            self.counts.probes_timed_out += 1;
            self.effects.push(Effect::Cancel(id));
        }
        if let Some(joining) = self.joining.clone().filter(|joining| joining.deadline <= now) {
            self.join_failed(joining.node, "no acknowledgement in time".into(), now);
        }
        if self.round_at.is_some_and(|at| at <= now) {
            self.begin_round(now);
        }
        self.start_probes(now);
        self.end_round_if_over(now);
        let begun = self.started.unwrap_or(now);
        let overdue = self.settings.give_up_after.is_some_and(|limit| now >= begun + limit);
        if overdue && !self.joined {
            self.give_up(now - begun);
        }
    }

    fn start_probes(&mut self, now: Duration) {
        if self.is_held() {
            return;
        }
        while self.probes.len() < self.settings.probes_max {
            let Some(at) = self.queue.iter().position(|(at, _)| *at <= now) else { break };
            let Some((_, address)) = self.queue.remove(at) else { break };
            if !self.candidates.contains(address) {
                continue;
            }
            let id = ProbeId(self.next_probe);
            self.next_probe += 1;
            let deadline = now + self.settings.probe_deadline;
            self.probes.insert(id, Probe { address, deadline });
            self.candidates.probed(address, now);
            self.counts.probes += 1;
            self.effects.push(Effect::Probe { probe: id, address });
        }
    }

    fn end_round_if_over(&mut self, now: Duration) {
        if self.is_probing() || self.joining.is_some() || self.round_at.is_some() {
            return;
        }
        if self.joined {
            let wait = self.settings.look_again;
            self.round_at = Some(now + wait + self.random.up_to(wait / 4));
            self.looked_around |= !self.cut_short && !self.cache.is_asking();
            return;
        }
        // Nobody to probe yet, but a name is being asked: its answer or its deadline comes within
        // two seconds.
        if self.cache.is_asking() && self.candidates.is_empty() {
            return;
        }
        self.looked_around |= !self.cache.is_asking();
        self.failures = self.failures.saturating_add(1);
        self.counts.rounds_failed += 1;
        let wait = self.settings.backoff.wait(self.failures, &mut self.random);
        self.round_at = Some(now + wait);
    }

    fn give_up(&mut self, after: Duration) {
        self.cancel_probes();
        self.failed = true;
        self.notice(Notice::GaveUp { after });
    }

    fn cancel_probes(&mut self) {
        for (id, probe) in std::mem::take(&mut self.probes) {
            self.effects.push(Effect::Cancel(id));
            self.held.push(probe.address);
        }
        self.held.extend(self.queue.drain(..).map(|(_, address)| address));
    }

    // ---- events ----

    fn resolved(
        &mut self,
        question: &Question,
        result: Result<Answer, LookupError>,
        now: Duration,
    ) {
        if let Err(why) = &result {
            self.counts.lookups_failed += 1;
            self.notice(Notice::LookupFailed { question: question.clone(), why: why.clone() });
        }
        self.cache.store(question, result, now);
        // Addresses that just appeared do not wait for the next round.
        let new = self.refresh_candidates();
        if self.is_held() {
            self.held.extend(new);
        } else {
            self.enqueue(new, now);
        }
    }

    fn probe_failed(&mut self, id: ProbeId, why: ProbeFailure) {
        let Some(probe) = self.probes.remove(&id) else { return };
        match why {
            ProbeFailure::Unreachable { .. } => self.counts.probes_failed += 1,
            ProbeFailure::Refused(refusal) => self.refuse(probe.address, refusal),
        }
    }

    fn refuse(&mut self, address: SocketAddr, refusal: Refusal) {
        self.counts.refused += 1;
        self.notice(Notice::Refused { address, refusal });
    }

    fn answered(&mut self, id: ProbeId, hello: Hello, now: Duration) {
        let Some(probe) = self.probes.remove(&id) else { return };
        let address = probe.address;
        self.counts.probes_answered += 1;
        if hello.node() == self.me.identity.node {
            self.candidates.is_ours(address, now);
            return;
        }
        let expected = Some(Expected { role: self.settings.look_for, node: None });
        let policy = Policy { expected, ..self.settings.policy };
        if let Err(refusal) = admit(&self.me.identity, &hello.identity, &policy) {
            self.refuse(address, refusal);
            return;
        }
        if let (Some(ours), Some(theirs)) = (self.me.group, hello.group)
            && ours != theirs
            && same_group_domain(&self.me.identity, &hello.identity)
        {
            self.notice(Notice::OtherGroup { address, ours, theirs });
            return;
        }
        if let Some(moved) = self.candidates.found(hello.node(), address) {
            self.notice(Notice::Moved { node: hello.node(), from: moved.from, to: address });
        }
        if self.members.contains(&hello.node()) {
            return;
        }
        if self.joining.is_some() {
            if self.responders.len() < RESPONDERS_MAX {
                self.responders.push_back(hello);
            }
            return;
        }
        if !self.joined {
            self.cancel_probes();
        }
        self.join(hello, now);
    }

    fn join(&mut self, hello: Hello, now: Duration) {
        if !self.joined {
            // The round goes on if this fails, and its wait is counted from then.
            self.round_at = None;
        }
        let deadline = now + self.settings.join_deadline;
        self.joining = Some(Joining { node: hello.node(), deadline });
        self.effects.push(Effect::Join(Box::new(hello)));
    }

    fn join_acknowledged(&mut self, node: NodeId, now: Duration) {
        if self.joining.as_ref().is_none_or(|joining| joining.node != node) {
            return;
        }
        self.joining = None;
        self.counts.joins += 1;
        self.members.insert(node);
        if self.joined {
            self.notice(Notice::Merged { node });
            self.join_next_responder(now);
        } else {
            self.become_joined(node, now);
        }
    }

    fn become_joined(&mut self, node: NodeId, now: Duration) {
        self.cancel_probes();
        // The addresses that were passed over are looked at soon, not never: there may be an
        // island.
        for address in std::mem::take(&mut self.held) {
            self.candidates.not_probed(address);
        }
        self.responders.clear();
        self.joined = true;
        self.cut_short = true;
        self.failures = 0;
        let wait = LOOK_AROUND.min(self.settings.look_again);
        self.round_at = Some(now + wait + self.random.up_to(wait / 4));
        let after = now.saturating_sub(self.started.unwrap_or(now));
        self.notice(Notice::Joined { node, after });
    }

    fn join_failed(&mut self, node: NodeId, why: String, now: Duration) {
        if self.joining.as_ref().is_none_or(|joining| joining.node != node) {
            return;
        }
        self.joining = None;
        self.counts.joins_failed += 1;
        self.notice(Notice::JoinFailed { node, why });
        self.join_next_responder(now);
        if self.joining.is_none() && !self.joined {
            let held = std::mem::take(&mut self.held);
            self.enqueue(held, now);
        }
    }

    fn join_next_responder(&mut self, now: Duration) {
        while let Some(hello) = self.responders.pop_front() {
            if !self.members.contains(&hello.node()) {
                self.join(hello, now);
                return;
            }
        }
    }

    fn member_up(&mut self, node: NodeId, address: SocketAddr, now: Duration) {
        if node == self.me.identity.node {
            return;
        }
        self.members.insert(node);
        if let Some(moved) = self.candidates.found(node, address) {
            self.notice(Notice::Moved { node, from: moved.from, to: address });
        }
        if self.joining.as_ref().is_some_and(|joining| joining.node == node) {
            self.join_acknowledged(node, now);
        } else if !self.joined && self.started.is_some() {
            // Somebody has found us; that counts.
            self.joining = None;
            self.become_joined(node, now);
        }
    }

    fn member_gone(&mut self, node: NodeId, now: Duration) {
        let was_there = self.members.remove(&node);
        if was_there && self.members.is_empty() && self.joined {
            self.joined = false;
            self.failures = 0;
            self.notice(Notice::AloneAgain);
            self.begin_round(now);
        }
    }
}
