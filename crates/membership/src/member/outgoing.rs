//! What goes out: the core's bytes in our envelope, with what rides along.

use std::net::SocketAddr;

use fence::NodeId;
use foca::Message;

use crate::envelope::{Claim, DATAGRAM_BYTES_MAX, Intent, Nack, Packet, Rumour};
use crate::identity::Peer;
use crate::rumours::RUMOURS_PER_PACKET;

use super::core::Outgoing;
use super::{Effect, Phase, Probe, Swim};

/// The most that the envelope and the fixed part of a packet take.
const ENVELOPE_BYTES: usize = 64 + 140;

/// The most that one claim takes.
const RUMOUR_BYTES: usize = 51;

impl Swim {
    pub(super) fn send_core(&mut self, outgoing: Outgoing) {
        let Outgoing { to, bytes, message } = outgoing;
        let mut packet = Packet::new(self.me, &self.datacenter);
        let mut room = DATAGRAM_BYTES_MAX.saturating_sub(ENVELOPE_BYTES + bytes.len());
        packet.swim = bytes;
        let is_probe = match message {
            Some(Message::Ping(number)) => {
                self.ask = self.ask.wrapping_add(1);
                self.counters.probes_sent += 1;
                packet.ask = Some(self.ask);
                self.probe = Some(Probe {
                    target: to.node,
                    number,
                    ask: self.ask,
                    sent: self.now,
                    proxies: 0,
                    nacks: 0,
                    answered: false,
                });
                true
            }
            Some(Message::PingReq { target, .. }) => {
                if let Some(probe) = self.probe.as_mut().filter(|p| p.target == target.node) {
                    probe.proxies = probe.proxies.saturating_add(1);
                }
                false
            }
            Some(Message::Ack(_)) => {
                packet.echo = self.echo;
                true
            }
            _ => false,
        };
        if is_probe && self.heartbeat.len() <= room {
            packet.heartbeat.clone_from(&self.heartbeat);
            room -= self.heartbeat.len();
        }
        self.attach_rumours(&mut packet, to.node, room / RUMOUR_BYTES);
        self.send(packet, to);
    }

    /// The suspect hears first of its own suspicion (the buddy rule), then whatever is due.
    fn attach_rumours(&mut self, packet: &mut Packet, to: NodeId, room: usize) {
        let mut room = room.min(RUMOURS_PER_PACKET);
        if self.settings.lifeguard.buddy
            && room > 0
            && let Some(suspicion) = self.suspicions.get(to)
        {
            packet.rumours.push(Rumour {
                claim: Claim::Suspect,
                about: to,
                life: suspicion.life,
                incarnation: suspicion.incarnation,
                origin: suspicion.origins.first().copied().unwrap_or(self.me.node),
            });
            room -= 1;
        }
        let first = packet.rumours.first().copied();
        let due = self.rumours.take(self.times_told, room);
        packet.rumours.extend(due.into_iter().filter(|rumour| Some(*rumour) != first));
    }

    fn send(&mut self, mut packet: Packet, to: Peer) {
        let bytes = self.checkpoint.seal(&mut packet, Some(to.node), &mut self.rng);
        self.emit(to.address, bytes);
    }

    fn emit(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        if self.phase == Phase::Gone {
            return;
        }
        self.counters.datagrams_out += 1;
        self.counters.bytes_out += bytes.len() as u64;
        self.effects.push(Effect::Send { to, bytes });
    }

    /// "Who are you?" to an address.
    pub(super) fn knock(&mut self, address: SocketAddr) {
        if address == self.me.address {
            return;
        }
        let mut packet = Packet::new(self.me, &self.datacenter);
        packet.intent = Intent::Knock;
        let bytes = self.checkpoint.seal(&mut packet, None, &mut self.rng);
        self.emit(address, bytes);
    }

    pub(super) fn answer(&mut self, to: Peer) {
        let mut packet = Packet::new(self.me, &self.datacenter);
        packet.intent = Intent::Answer;
        self.send(packet, to);
    }

    /// "It did not answer me either."
    pub(super) fn nack(&mut self, to: NodeId, target: NodeId, probe: u8) {
        let Some(peer) = self.table.get(to).map(|entry| entry.peer) else { return };
        let mut packet = Packet::new(self.me, &self.datacenter);
        packet.nacks.push(Nack { target, probe });
        self.counters.nacks_out += 1;
        self.send(packet, peer);
    }
}
