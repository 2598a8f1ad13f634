//! What comes in: checked, sorted out, and only then shown to the core.
//!
//! The core believes every death, whatever its incarnation, and knows nothing of who has been
//! heard. So each update is judged here first. Most say what is known already and go no further,
//! which also keeps the core's work small.

use std::time::Duration;

use fence::NodeId;
use foca::{Header, Member, Message};

use crate::envelope::{Claim, Intent, Packet, Refusal, Rumour};
use crate::identity::Peer;
use crate::lifeguard::Reported;
use crate::table::{Cause, State};

use super::{Notice, Phase, Swim};

impl Swim {
    pub(super) fn datagram(&mut self, bytes: &[u8]) {
        if self.phase != Phase::Member {
            return;
        }
        self.counters.datagrams_in += 1;
        self.counters.bytes_in += bytes.len() as u64;
        let Ok(packet) = self.checkpoint.open(bytes) else { return };
        if let Err(refusal) = self.take(&packet) {
            self.checkpoint.refuse(refusal);
        }
        self.echo = None;
        self.heard_echo = None;
    }

    fn take(&mut self, packet: &Packet) -> Result<(), Refusal> {
        self.admit(&packet.from)?;
        if packet.intent == Intent::Knock {
            // Not bound to us, so it changes nothing here; it only gets an answer, no longer than
            // itself.
            self.answer(packet.from);
            return Ok(());
        }
        let parsed = if packet.swim.is_empty() { None } else { Some(parse(packet)?) };
        self.echo = packet.ask;
        self.heard_echo = packet.echo;
        self.heard(packet);
        for rumour in packet.rumours.iter().filter(|rumour| rumour.claim == Claim::Left) {
            self.hear_farewell(rumour);
        }
        match parsed {
            Some((header, updates)) => {
                if header.dst.node == self.me.node {
                    self.hear_of_later_life(header.dst);
                }
                self.show_core(&header, updates);
                self.correct_about_us(&header);
            }
            None => self.introduce(packet.from),
        }
        self.heard(packet);
        for rumour in &packet.rumours {
            match rumour.claim {
                Claim::Suspect => self.hear_suspicion(rumour),
                Claim::Held => self.hear_held(rumour),
                Claim::Left => {}
            }
        }
        for nack in &packet.nacks {
            if let Some(probe) = &mut self.probe
                && (probe.target, probe.number) == (nack.target, nack.probe)
            {
                probe.nacks = probe.nacks.saturating_add(1);
                self.counters.nacks_in += 1;
            }
        }
        if packet.intent == Intent::Answer {
            let peer = packet.from;
            self.with_core(|core, out| core.announce(peer, out));
        }
        Ok(())
    }

    /// Whether this peer may speak at all, by what is known of the members.
    fn admit(&self, peer: &Peer) -> Result<(), Refusal> {
        if self.is_address_taken(peer) {
            return Err(Refusal::AddressTaken);
        }
        match self.table.get(peer.node) {
            Some(entry) if peer.life() < entry.peer.life() => Err(Refusal::StaleBoot),
            Some(entry) if peer.boot == entry.peer.boot && peer.role != entry.peer.role => {
                Err(Refusal::WrongRole)
            }
            // The same life at another address: a data folder that was copied while it was in use.
            Some(entry) if peer.life() == entry.peer.life() && *peer != entry.peer => {
                Err(Refusal::StaleBoot)
            }
            None if self.table.is_full() => Err(Refusal::TooMany),
            Some(_) | None => Ok(()),
        }
    }

    fn is_address_taken(&self, peer: &Peer) -> bool {
        peer.address == self.me.address
            || self
                .table
                .at_address(peer.address)
                .is_some_and(|other| other.peer.node != peer.node && other.state.is_live())
    }

    /// It has spoken to us itself. This is recorded before anything else can fail (R13).
    fn heard(&mut self, packet: &Packet) {
        let (now, peer) = (self.now, packet.from);
        let Some(entry) = self.table.edit(peer.node) else { return };
        if entry.peer.life() != peer.life() || matches!(entry.state, State::Dead | State::Left) {
            return;
        }
        entry.last_heard = Some(now);
        if entry.datacenter != packet.datacenter {
            entry.datacenter.clone_from(&packet.datacenter);
        }
        if !packet.heartbeat.is_empty() && packet.sequence > entry.heartbeat_sequence {
            entry.heartbeat_sequence = packet.sequence;
            entry.heartbeat.clone_from(&packet.heartbeat);
        }
        if entry.state == State::Unconfirmed {
            self.table.set(peer.node, State::Confirmed, Cause::Direct, now);
        }
    }

    /// Whoever speaks to an earlier life of ours does not know that we have started again, and we
    /// may not know it: after a restart of all managers the workers would be lost until they give
    /// the old ones up. The core drops such a datagram.
    fn correct_about_us(&mut self, header: &Header<Peer>) {
        if header.dst.node == self.me.node && header.dst.life() < self.me.life() {
            let peer = header.src;
            self.with_core(|core, out| core.announce(peer, out));
        }
    }

    /// A member that spoke without the core's bytes; the core has to know it.
    fn introduce(&mut self, peer: Peer) {
        if self.table.get(peer.node).is_none_or(|entry| entry.peer.life() < peer.life()) {
            self.with_core(|core, out| {
                core.apply_many(std::iter::once(Member::alive(peer)), true, out)
            });
        }
    }

    fn show_core(&mut self, header: &Header<Peer>, updates: Vec<Member<Peer>>) {
        let mut touched = Vec::new();
        let sender = header.src;
        let is_news = self.table.get(sender.node).is_none_or(|entry| {
            entry.peer != sender
                || entry.incarnation != header.src_incarnation
                || entry.state != State::Confirmed
        });
        if is_news {
            touched.push(sender.node);
        }
        let mut doubted = Vec::new();
        let kept: Vec<_> =
            updates.into_iter().filter_map(|update| self.judge(update, &mut doubted)).collect();
        touched.extend(kept.iter().map(|update| update.id().node));
        let Ok(bytes) = encode(header, &kept) else { return };
        self.with_core(|core, out| core.handle_data(&bytes, out));
        self.observe(&touched);
        for node in doubted {
            if let Some(suspicion) = self.suspicions.get_mut(node) {
                suspicion.last_chance = true;
            }
        }
    }

    /// Whether the core is to hear this, and in which form. `doubted` collects deaths that became
    /// suspicions.
    pub(super) fn judge(
        &mut self,
        update: Member<Peer>,
        doubted: &mut Vec<NodeId>,
    ) -> Option<Member<Peer>> {
        let (peer, incarnation) = (*update.id(), update.incarnation());
        if peer.node == self.me.node {
            return self.judge_self(update);
        }
        let is_down = update.state() == foca::State::Down;
        // The core would let a second form of the same life replace the first.
        let is_other_form = |known: &Peer| known.life() == peer.life() && *known != peer;
        let known = self.table.get(peer.node).map(|entry| entry.peer);
        if !self.checkpoint.has_place_for(peer.role) || known.as_ref().is_some_and(is_other_form) {
            self.counters.updates_refused += 1;
            return None;
        }
        let Some(entry) = self.table.get(peer.node) else {
            if is_down {
                // Unknown and already gone: remember that, so that an older report cannot bring it
                // back.
                let until = self.now + self.settings.tombstone_for;
                self.table.bury_life(peer.node, peer.life(), until);
                return None;
            }
            let is_refused = self.table.is_full()
                || self.is_address_taken(&peer)
                || self.table.is_buried(peer.node, peer.life(), self.now);
            self.counters.updates_refused += u64::from(is_refused);
            return (!is_refused).then_some(update);
        };
        if peer.life() != entry.peer.life() {
            let is_later = peer.life() > entry.peer.life();
            return (is_later && (is_down || !self.is_address_taken(&peer))).then_some(update);
        }
        match (entry.state, update.state()) {
            (State::Dead | State::Left, _) => None,
            (_, foca::State::Alive) | (State::Suspect, foca::State::Suspect) => {
                (incarnation > entry.incarnation).then_some(update)
            }
            (_, foca::State::Suspect) => (incarnation >= entry.incarnation).then_some(update),
            (_, foca::State::Down) if incarnation < entry.incarnation => {
                self.counters.deaths_stale += 1;
                None
            }
            (_, foca::State::Down) if self.just_heard(entry.last_heard) => {
                self.counters.deaths_doubted += 1;
                doubted.push(peer.node);
                Some(Member::new(peer, incarnation, foca::State::Suspect))
            }
            (_, foca::State::Down) => Some(update),
        }
    }

    fn judge_self(&mut self, update: Member<Peer>) -> Option<Member<Peer>> {
        let about = *update.id();
        self.hear_of_later_life(about);
        (about == self.me).then_some(update)
    }

    /// A copy of our data folder may have been started elsewhere. Whether that is so is asked
    /// elsewhere, and meanwhile we go on.
    fn hear_of_later_life(&mut self, about: Peer) {
        if about.boot > self.me.boot && self.phase == Phase::Member && self.now >= self.next_doubt {
            self.next_doubt = self.now + self.settings.greet_period;
            self.notice(Notice::LaterLifeTold { peer: about });
        }
    }

    fn just_heard(&self, last_heard: Option<Duration>) -> bool {
        last_heard.is_some_and(|at| self.now.saturating_sub(at) <= self.settings.probe_period)
    }

    /// What the core makes of a message, beside answering it.
    pub(super) fn received(&mut self, from: Peer, message: &Message<Peer>) {
        match message {
            Message::Ack(number) => self.probe_answered(from.node, *number, true),
            Message::ForwardedAck { origin, probe_number } => {
                self.probe_answered(origin.node, *probe_number, false);
            }
            Message::PingReq { target, probe_number } if self.proxied.len() < PROXIED_MAX => {
                let key = (from.node, target.node, *probe_number);
                self.proxied.insert(key, self.now + self.settings.nack_after());
            }
            Message::IndirectAck { target, probe_number } => {
                self.proxied.remove(&(target.node, from.node, *probe_number));
            }
            _ => {}
        }
    }

    fn probe_answered(&mut self, target: NodeId, number: u8, direct: bool) {
        let Some(probe) = &mut self.probe else { return };
        if probe.target != target || probe.number != number || probe.answered {
            return;
        }
        probe.answered = true;
        self.counters.probes_answered += 1;
        self.health.improve();
        // Only a direct answer to this very question tells the time and proves both ways.
        if direct && self.heard_echo == Some(probe.ask) {
            let rtt = self.now.saturating_sub(probe.sent);
            if let Some(entry) = self.table.edit(target) {
                entry.two_way = true;
                entry.rtt = Some(entry.rtt.map_or(rtt, |old| old.mul_f64(0.8) + rtt.mul_f64(0.2)));
            }
        }
    }

    /// The table follows the core.
    pub(super) fn observe(&mut self, touched: &[NodeId]) {
        if touched.is_empty() {
            return;
        }
        let mut wanted = touched.to_vec();
        wanted.sort_unstable();
        let found: Vec<_> = self
            .core
            .iter_membership_state()
            .filter(|member| wanted.binary_search(&member.id().node).is_ok())
            .map(|member| (*member.id(), member.incarnation(), member.state()))
            .collect();
        for (peer, incarnation, state) in found {
            self.observe_one(peer, incarnation, state);
        }
    }

    fn observe_one(&mut self, peer: Peer, incarnation: u16, core: foca::State) {
        let (node, now) = (peer.node, self.now);
        let bury_until = now + self.settings.tombstone_for;
        match self.table.get(node) {
            None if core == foca::State::Down => {
                self.table.bury_life(node, peer.life(), bury_until);
                return;
            }
            None => self.table.insert(peer, State::Unconfirmed, Cause::Gossip, now),
            Some(entry) if peer.life() < entry.peer.life() => return,
            Some(entry) if peer.life() > entry.peer.life() => {
                // The same process under a new generation is known; another process has yet to
                // speak (DET-16).
                let is_known = entry.peer.boot == peer.boot && entry.state != State::Unconfirmed;
                let to = if is_known { State::Confirmed } else { State::Unconfirmed };
                self.settle(node);
                self.table.rebirth(peer, to, now);
            }
            Some(_) => {}
        }
        let Some(entry) = self.table.edit(node) else { return };
        entry.incarnation = entry.incarnation.max(incarnation);
        let life = peer.life();
        match (entry.state, core) {
            (State::Unconfirmed, foca::State::Down) => {
                self.table.bury(node, self.cause, bury_until);
            }
            (State::Confirmed, foca::State::Suspect) => {
                self.table.set(node, State::Suspect, self.cause, now);
                self.counters.suspicions_started += 1;
                self.suspicions.report(node, life, incarnation, None, now);
            }
            (State::Suspect, foca::State::Suspect) => {
                self.suspicions.report(node, life, incarnation, None, now);
            }
            (State::Suspect, foca::State::Alive) => {
                self.counters.suspicions_refuted += 1;
                self.settle(node);
                self.table.set(node, State::Confirmed, self.cause, now);
            }
            (State::Confirmed | State::Suspect, foca::State::Down) => {
                match self.cause {
                    Cause::Direct => self.counters.deaths_direct += 1,
                    _ => self.counters.deaths_gossip += 1,
                }
                self.settle(node);
                self.table.set(node, State::Dead, self.cause, now);
            }
            _ => {}
        }
    }

    /// Nothing about its suspicion matters any more.
    fn settle(&mut self, node: NodeId) {
        if self.suspicions.remove(node).is_some() {
            self.rumours.drop_suspicions_of(node);
        }
    }

    pub(super) fn hear_farewell(&mut self, rumour: &Rumour) {
        if rumour.about == self.me.node {
            if rumour.life == self.me.life() {
                // We have not left. The core answers a report of our death with a new generation.
                let me = self.me;
                self.with_core(|core, out| {
                    core.apply_many(std::iter::once(Member::down(me)), false, out)
                });
            }
            return;
        }
        let Some(entry) = self.table.get(rumour.about) else { return };
        let is_gone = matches!(entry.state, State::Dead | State::Left);
        if is_gone || entry.peer.life() != rumour.life || rumour.incarnation < entry.incarnation {
            return;
        }
        let down = Member::new(entry.peer, rumour.incarnation, foca::State::Down);
        self.settle(rumour.about);
        self.table.set(rumour.about, State::Left, Cause::Leave, self.now);
        self.counters.leaves += 1;
        self.rumours.add(*rumour);
        // The farewell itself is what is passed on; the core's word for it would be "down".
        self.with_core(|core, out| core.apply_many(std::iter::once(down), false, out));
    }

    fn hear_suspicion(&mut self, rumour: &Rumour) {
        let (life, incarnation) = (rumour.life, rumour.incarnation);
        if rumour.about == self.me.node {
            if life == self.me.life() && incarnation >= self.incarnation {
                let suspect = Member::new(self.me, incarnation, foca::State::Suspect);
                self.with_core(|core, out| core.apply_many(std::iter::once(suspect), false, out));
            }
            return;
        }
        if !self.settings.lifeguard.suspicion || rumour.origin == self.me.node {
            return;
        }
        let Some(entry) = self.table.get(rumour.about) else { return };
        if entry.peer.life() != life || !entry.state.is_live() || incarnation < entry.incarnation {
            return;
        }
        if entry.state == State::Confirmed || incarnation > entry.incarnation {
            let suspect = Member::new(entry.peer, incarnation, foca::State::Suspect);
            self.with_core(|core, out| core.apply_many(std::iter::once(suspect), true, out));
            self.observe(&[rumour.about]);
        }
        let is_suspect =
            self.table.get(rumour.about).is_some_and(|entry| entry.state == State::Suspect);
        if !is_suspect {
            return;
        }
        let reported =
            self.suspicions.report(rumour.about, life, incarnation, Some(rumour.origin), self.now);
        if reported != Reported::Known {
            self.counters.suspicions_confirmed += 1;
            // Beyond what shortens the deadline a confirmation is no news.
            let enough = self.patience().confirmations;
            if self.suspicions.get(rumour.about).is_some_and(|s| s.confirmations() <= enough) {
                self.rumours.add(*rumour);
            }
        }
    }

    fn hear_held(&mut self, rumour: &Rumour) {
        if self.agrees(rumour) {
            self.rumours.add(Rumour { origin: self.me.node, ..*rumour });
        }
        if !self.settings.voters.contains(&rumour.origin) {
            return;
        }
        let Some(suspicion) = self.suspicions.get_mut(rumour.about) else { return };
        let is_this = (suspicion.life, suspicion.incarnation) == (rumour.life, rumour.incarnation);
        if is_this && suspicion.held_by.insert(rumour.origin) {
            self.rumours.add(*rumour);
        }
    }

    /// Whether this voter knows of no sign of life, though it does not hold the death back itself:
    /// it has buried it, or came too late to meet it. Without its word whoever was away meanwhile
    /// would wait for ever.
    fn agrees(&self, rumour: &Rumour) -> bool {
        if !self.settings.voters.contains(&self.me.node) || rumour.about == self.me.node {
            return false;
        }
        let Some(entry) = self.table.get(rumour.about) else { return true };
        if entry.peer.life() != rumour.life {
            return entry.peer.life() > rumour.life;
        }
        match entry.state {
            State::Dead | State::Left => true,
            // It is probed like any other, and has not answered.
            State::Unconfirmed => self.now.saturating_sub(entry.first_seen) >= self.patience().min,
            State::Confirmed | State::Suspect => false,
        }
    }

    /// A probe of ours came to nothing. The core has begun a suspicion, unless it knows better by
    /// now.
    pub(super) fn probe_failed(&mut self, peer: Peer) {
        self.counters.probes_failed += 1;
        if let Some(probe) = self.probe.take()
            && probe.target == peer.node
        {
            self.health.worsen(crate::lifeguard::blame(probe.proxies, probe.nacks));
        }
        let Some(entry) = self.table.get(peer.node) else { return };
        if entry.state != State::Suspect || entry.peer.life() != peer.life() {
            return;
        }
        let (life, incarnation, me) = (peer.life(), entry.incarnation, self.me.node);
        let reported = self.suspicions.report(peer.node, life, incarnation, Some(me), self.now);
        if reported != Reported::Known && self.settings.lifeguard.suspicion {
            let claim = Claim::Suspect;
            self.rumours.add(Rumour { claim, about: peer.node, life, incarnation, origin: me });
        }
    }
}

/// How many probes for others are under way at most.
const PROXIED_MAX: usize = 1024;

/// The core's bytes, taken apart. They must come from whom the envelope says.
fn parse(packet: &Packet) -> Result<(Header<Peer>, Vec<Member<Peer>>), Refusal> {
    let malformed = |_| Refusal::Malformed;
    let (header, rest) =
        postcard::take_from_bytes::<Header<Peer>>(&packet.swim).map_err(malformed)?;
    if header.src != packet.from || header.message == Message::Broadcast {
        return Err(Refusal::Malformed);
    }
    let mut updates = Vec::new();
    if let Some((count, mut rest)) = rest.split_first_chunk::<2>() {
        for _ in 0..u16::from_be_bytes(*count) {
            let (update, left) = postcard::take_from_bytes(rest).map_err(malformed)?;
            updates.push(update);
            rest = left;
        }
        if !rest.is_empty() {
            return Err(Refusal::Malformed);
        }
    } else if !rest.is_empty() {
        return Err(Refusal::Malformed);
    }
    Ok((header, updates))
}

fn encode(header: &Header<Peer>, updates: &[Member<Peer>]) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_allocvec(header)?;
    if !updates.is_empty() {
        let count = u16::try_from(updates.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&count.to_be_bytes());
        for update in updates.iter().take(usize::from(count)) {
            bytes = postcard::to_extend(update, bytes)?;
        }
    }
    Ok(bytes)
}
