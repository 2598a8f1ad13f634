//! What time brings: probes, gossip, verdicts, knocking, and tidying up.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::NodeId;
use foca::{Header, Member, Message, Timer};
use rand010::Rng;
use trust::Role;

use crate::envelope::{Claim, Rumour};
use crate::identity::Peer;
use crate::rumours::times_told;
use crate::table::{Cause, State};

use super::core::{Collected, config};
use super::{Notice, Phase, Swim, role_index};

/// How a peer that was only heard of is treated, by its role (LIFE-102).
struct ConfirmPolicy {
    passive: Duration,
    attempts: u32,
    load_max: f64,
}

fn policy(role: Role) -> ConfirmPolicy {
    let (passive, attempts, load_max) = match role {
        Role::Gate => (120, 5, 3.0),
        Role::Manager => (90, 3, 5.0),
        Role::Worker | Role::Client | Role::Recruit => (180, 0, 10.0),
    };
    ConfirmPolicy { passive: Duration::from_secs(passive), attempts, load_max }
}

/// How long a peer of this role may stay unconfirmed before it is knocked at or given up, on a
/// healthy node.
#[must_use]
pub fn passive_wait(role: Role) -> Duration {
    policy(role).passive
}

/// How often they are asked, and looked after at all: that takes a walk over the whole table, and
/// it is minutes until any of them is due.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(5);
pub(crate) const WARN_AFTER: Duration = Duration::from_secs(60);

/// A configured peer that does not answer is asked no more often than this.
const SEED_BACKOFF: Duration = Duration::from_secs(30);

/// How many seeds a lonely node knocks at in one round.
const KNOCKS: usize = 4;

impl Swim {
    /// This process did not run, so it cannot have heard what it missed.
    pub(super) fn notice_stall(&mut self) {
        let late = self.now.saturating_sub(self.next_wake());
        if self.next_tick.is_zero() || self.phase == Phase::Gone || late <= self.settings.stall() {
            return;
        }
        self.counters.stalls += 1;
        self.health.worsen(1);
        self.suspicions.postpone(late);
        let timers = std::mem::take(&mut self.timers);
        self.timers = timers.into_iter().map(|((at, no), t)| ((at + late, no), t)).collect();
        self.next_tick = self.now;
        self.draining = Some(self.now + self.settings.probe_period);
        self.notice(Notice::Stalled { by: late });
    }

    pub(super) fn drained(&mut self) {
        if self.draining.take().is_some() {
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        self.next_tick = self.now + self.settings.tick();
        match self.phase {
            Phase::Gone => {
                self.next_tick = Duration::MAX;
                return;
            }
            Phase::Leaving(left) => return self.say_goodbye(left),
            Phase::Member => {}
        }
        if self.draining.is_some_and(|until| self.now < until) {
            return;
        }
        self.draining = None;
        self.run_timers();
        self.send_nacks();
        self.judge_suspects();
        if self.now >= self.next_gossip {
            self.next_gossip = self.now + self.settings.gossip_period;
            self.gossip();
        }
        if self.now >= self.next_knock {
            self.knock_around();
        }
        if self.now >= self.next_upkeep {
            self.next_upkeep = self.now + self.settings.probe_period;
            self.reap();
            self.resize();
        }
        if self.now >= self.next_look {
            self.next_look = self.now + CONFIRM_INTERVAL;
            self.look_after_unconfirmed();
        }
    }

    fn say_goodbye(&mut self, left: u8) {
        if self.now < self.next_gossip {
            return;
        }
        self.next_gossip = self.now + self.settings.gossip_period;
        // In every packet of every round: nobody can ask us about it later, and if many leave at
        // once most of those who hear it are leaving themselves.
        self.rumours.renew(Rumour {
            claim: Claim::Left,
            about: self.me.node,
            life: self.me.life(),
            incarnation: self.incarnation,
            origin: self.me.node,
        });
        self.with_core(|core, out| core.gossip(out));
        self.phase = if left > 1 { Phase::Leaving(left - 1) } else { Phase::Gone };
        if self.phase == Phase::Gone {
            self.notice(Notice::Left);
        }
    }

    fn run_timers(&mut self) {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            let timer = first.remove();
            if matches!(timer, Timer::ProbeRandomMember(token) if token == self.token) {
                self.close_probe_of_unconfirmed();
            }
            self.with_core(|core, out| core.handle_timer(timer, out));
        }
    }

    /// The core would suspect whoever did not answer. One that has never spoken cannot be
    /// suspected, so its probe is closed before the core draws a conclusion (DET-10).
    fn close_probe_of_unconfirmed(&mut self) {
        let Some(probe) = self.probe.filter(|probe| !probe.answered) else { return };
        let Some(entry) = self.table.get(probe.target) else { return };
        if entry.state != State::Unconfirmed {
            return;
        }
        let header = Header {
            src: entry.peer,
            src_incarnation: entry.incarnation,
            dst: self.me,
            message: Message::Ack(probe.number),
        };
        self.probe = None;
        if let Ok(bytes) = postcard::to_allocvec(&header) {
            // Whatever it makes the core notice did not happen.
            let _ = self.core.handle_data(&bytes, &mut Collected::default());
        }
    }

    fn send_nacks(&mut self) {
        if self.proxied.is_empty() {
            return;
        }
        let now = self.now;
        let due: Vec<_> =
            self.proxied.iter().filter(|(_, at)| **at <= now).map(|(key, _)| *key).collect();
        for (asker, target, number) in due {
            self.proxied.remove(&(asker, target, number));
            self.nack(asker, target, number);
        }
    }

    fn gossip(&mut self) {
        if self.core.updates_backlog() > 0 || !self.rumours.is_empty() {
            self.with_core(|core, out| core.gossip(out));
        }
    }

    /// Delivers the verdicts whose time has come, unless it is likelier that we are the one who is
    /// cut off.
    fn judge_suspects(&mut self) {
        // Without members to probe the core judges nobody, and neither do we.
        if !self.connected || self.suspicions.is_empty() {
            self.mass_death = false;
            return;
        }
        let patience = self.patience();
        let scale =
            if self.settings.lifeguard.suspicion { self.health.suspicion_scale() } else { 1.0 };
        let due = self.suspicions.due(&patience, scale, self.now);
        if due.is_empty() {
            return;
        }
        let tiers = self.tally_tiers(patience.min);
        let has_quorum = self.has_quorum();
        for node in due {
            let Some(entry) = self.table.get(node) else { continue };
            let peer = entry.peer;
            let (suspects, tier) = tiers.get(&peer.role).copied().unwrap_or_default();
            let is_mass = tier >= 3 && suspects * 2 > tier;
            if (is_mass || !has_quorum) && !self.is_corroborated(node) {
                self.hold(peer, suspects, tier);
            } else {
                self.declare_dead(peer);
            }
        }
        self.mass_death = self.suspicions.iter().any(|(_, suspicion)| suspicion.held);
    }

    fn declare_dead(&mut self, peer: Peer) {
        let Some(suspicion) = self.suspicions.get(peer.node) else { return };
        let timer = Timer::ChangeSuspectToDown {
            member_id: peer,
            incarnation: suspicion.incarnation,
            token: self.token,
        };
        self.cause = Cause::Direct;
        self.with_core(|core, out| core.handle_timer(timer, out));
        self.observe(&[peer.node]);
        self.cause = Cause::Gossip;
    }

    /// Per role: (suspects and fresh dead, all of them), this node included.
    fn tally_tiers(&self, window: Duration) -> BTreeMap<Role, (usize, usize)> {
        let mut tiers = BTreeMap::from([(self.me.role, (0, 1))]);
        for entry in self.table.iter() {
            let is_fresh = self.now.saturating_sub(entry.since) <= window;
            let (suspect, counts) = match entry.state {
                State::Confirmed => (false, true),
                State::Suspect => (true, true),
                State::Dead => (is_fresh, is_fresh),
                State::Unconfirmed | State::Left => (false, false),
            };
            let tier: &mut (usize, usize) = tiers.entry(entry.peer.role).or_default();
            tier.0 += usize::from(suspect);
            tier.1 += usize::from(counts);
        }
        tiers
    }

    fn quorum(&self) -> usize {
        self.settings.voters.len() / 2 + 1
    }

    /// Whether a majority of the configured voters can be reached. Without voters there is none to
    /// miss.
    fn has_quorum(&self) -> bool {
        let voters = &self.settings.voters;
        let is_there = |voter: &NodeId| {
            *voter == self.me.node
                || self.table.get(*voter).is_some_and(|entry| entry.state == State::Confirmed)
        };
        voters.is_empty() || voters.iter().filter(|voter| is_there(voter)).count() >= self.quorum()
    }

    fn is_corroborated(&self, node: NodeId) -> bool {
        let Some(suspicion) = self.suspicions.get(node) else { return false };
        let agrees = |voter: &NodeId| {
            *voter == self.me.node
                || suspicion.held_by.contains(voter)
                || suspicion.origins.contains(voter)
        };
        let voters = &self.settings.voters;
        !voters.is_empty() && voters.iter().filter(|voter| agrees(voter)).count() >= self.quorum()
    }

    fn hold(&mut self, peer: Peer, suspects: usize, tier: usize) {
        let Some(suspicion) = self.suspicions.get_mut(peer.node) else { return };
        let (life, incarnation) = (suspicion.life, suspicion.incarnation);
        if !suspicion.held {
            suspicion.held = true;
            self.counters.deaths_held += 1;
        }
        let origin = self.me.node;
        // Said again for as long as it is held: an agreement that is lost would hold it for ever.
        // From one that has no vote it is a question, and voters that know better answer it.
        let say_again = self.now >= self.next_upkeep;
        if say_again && !self.settings.voters.is_empty() {
            let claim = Claim::Held;
            self.rumours.add(Rumour { claim, about: peer.node, life, incarnation, origin });
        }
        if !self.mass_death {
            self.mass_death = true;
            self.notice(Notice::MassDeath { suspects, tier });
        }
    }

    /// A lonely node goes on knocking; one among others greets seeds that are missing, now and
    /// then.
    fn knock_around(&mut self) {
        let is_alone = self.core.num_members() == 0;
        let period = if is_alone { self.settings.knock_period } else { self.settings.greet_period };
        self.next_knock = self.now + period.mul_f64(0.75 + 0.5 * self.random_share());
        let is_missing =
            |address| self.table.at_address(address).is_none_or(|entry| !entry.state.is_live());
        let mut missing: Vec<_> =
            self.seeds.iter().copied().filter(|address| is_missing(*address)).collect();
        for _ in 0..if is_alone { KNOCKS } else { 1 } {
            if missing.is_empty() {
                break;
            }
            let pick = self.rng.next_u32() as usize % missing.len();
            let address = missing.swap_remove(pick);
            self.knock(address);
        }
    }

    fn look_after_unconfirmed(&mut self) {
        if self.table.count(State::Unconfirmed) == 0 {
            return;
        }
        let unconfirmed: Vec<_> = self
            .table
            .iter()
            .filter(|entry| entry.state == State::Unconfirmed)
            .map(|entry| entry.peer)
            .collect();
        // Everybody is probed once in a round of as many periods as there are members. Two rounds
        // must have passed before silence means anything, or a large cluster would drop members
        // that nobody has talked to yet.
        let rounds = self.settings.probe_period * 2 * self.table.len() as u32;
        let load = self.health.suspicion_scale();
        for peer in unconfirmed {
            let ConfirmPolicy { passive, attempts, load_max } = policy(peer.role);
            let passive = passive.mul_f64(load.min(load_max)).max(rounds);
            self.look_after(peer, passive, attempts);
        }
    }

    fn look_after(&mut self, peer: Peer, passive: Duration, attempts: u32) {
        let now = self.now;
        let is_seed = self.seeds.contains(&peer.address);
        let Some(entry) = self.table.edit(peer.node) else { return };
        let age = now.saturating_sub(entry.first_seen);
        if age >= WARN_AFTER && now >= entry.warn_at {
            entry.warn_at = now + age;
            self.effects.push(super::Effect::Notice(Notice::Unconfirmed { peer, since: age }));
        }
        if age < passive || now < entry.next_attempt {
            return;
        }
        if entry.confirm_attempts < attempts {
            entry.confirm_attempts += 1;
            entry.next_attempt = now + CONFIRM_INTERVAL;
            self.counters.confirm_attempts[role_index(peer.role)] += 1;
            self.knock(peer.address);
        } else if is_seed {
            entry.next_attempt = now + SEED_BACKOFF;
            self.knock(peer.address);
        } else {
            let incarnation = entry.incarnation;
            self.table.bury(peer.node, Cause::NeverConfirmed, now + passive * 10);
            self.counters.unconfirmed_removed[role_index(peer.role)] += 1;
            self.notice(Notice::UnconfirmedPeerRemoved { peer });
            let down = Member::new(peer, incarnation, foca::State::Down);
            self.with_core(|core, out| core.apply_many(std::iter::once(down), false, out));
        }
    }

    fn reap(&mut self) {
        if self.table.count(State::Dead) + self.table.count(State::Left) > 0 {
            let (now, dead_for) = (self.now, self.settings.dead_for);
            let gone: Vec<_> = self
                .table
                .iter()
                .filter(|entry| matches!(entry.state, State::Dead | State::Left))
                .filter(|entry| now.saturating_sub(entry.since) >= dead_for)
                .map(|entry| entry.peer.node)
                .collect();
            for node in gone {
                self.table.bury(node, Cause::Reaped, now + self.settings.tombstone_for);
                self.checkpoint.forget(node);
            }
        }
        self.table.drop_old_tombstones(self.now);
    }

    /// How often things are told follows the size of the cluster.
    fn resize(&mut self) {
        let members = self.core.num_members() + 1;
        let times = times_told(members);
        if times != self.times_told {
            self.times_told = times;
            if self.core.set_config(config(&self.settings, members)).is_err() {
                self.counters.core_errors += 1;
            }
        }
    }
}
