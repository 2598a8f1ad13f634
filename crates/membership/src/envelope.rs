//! One membership datagram: sealed, bound to its receiver, counted once.
//!
//! ```text
//! magic 2 | version 1 | flags 1 | key id 4 | nonce 24 | XChaCha20-Poly1305(cluster 8, environment 8, packet), tag 16
//! ```
//!
//! The seal also covers the head and the receiver's node id, which is not sent: a datagram recorded
//! on its way to one node means nothing to another. The order of the checks is the order of
//! [`Refusal`]; whatever fails one is counted under its name, changes nothing, and is not answered,
//! so that nobody without a key can make a member send at all.

mod keys;
mod packet;
mod refusal;
mod replay;
#[cfg(test)]
mod tests;

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{Tag, XNonce};
use fence::NodeId;
use rand010::Rng;
use rand010::rngs::StdRng;
use trust::Role;

pub use keys::{KeyError, KeyId, KeyRing};
pub use packet::{Claim, DATACENTER_BYTES_MAX, HEARTBEAT_BYTES_MAX, Intent, Nack, Packet, Rumour};
pub use refusal::{Refusal, Refusals};
use replay::ReplayGuard;

/// The largest datagram: fits an Ethernet frame with room for tunnels.
pub const DATAGRAM_BYTES_MAX: usize = 1400;

const MAGIC: [u8; 2] = *b"Vm";
const VERSION: u8 = 1;
const HEAD: usize = 8;
const NONCE: usize = 24;
const TAG: usize = 16;
const SCOPE: usize = 16;

/// The flag of a datagram for whoever has the address.
const TO_ANYONE: u8 = 1;

/// Which membership this is. Datagrams of any other are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub cluster: String,
    pub environment: String,
    /// The roles that are members: gates among themselves, or managers with their workers (R11).
    pub roles: Vec<Role>,
}

impl Domain {
    fn scope(&self) -> [u8; SCOPE] {
        let mut scope = [0; SCOPE];
        scope[..8].copy_from_slice(&fingerprint(&self.cluster).to_be_bytes());
        scope[8..].copy_from_slice(&fingerprint(&self.environment).to_be_bytes());
        scope
    }
}

/// FNV-1a. It tells two names apart that were mixed up; the key keeps out those who mean harm.
fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Seals what goes out and checks what comes in.
#[derive(Debug)]
pub struct Checkpoint {
    me: NodeId,
    domain: Domain,
    scope: [u8; SCOPE],
    ring: KeyRing,
    guard: ReplayGuard,
    refusals: Refusals,
    sequence: u64,
}

impl Checkpoint {
    /// `nodes_max` bounds how many senders are remembered.
    #[must_use]
    pub fn new(me: NodeId, domain: Domain, ring: KeyRing, nodes_max: usize) -> Self {
        let scope = domain.scope();
        let guard = ReplayGuard::new(nodes_max);
        Self { me, domain, scope, ring, guard, refusals: Refusals::default(), sequence: 0 }
    }

    pub fn keys(&mut self) -> &mut KeyRing {
        &mut self.ring
    }

    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Counts a refusal that was found later, by somebody who knows the members.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refusals.count(refusal);
    }

    /// Whether members of this role belong here.
    #[must_use]
    pub fn has_place_for(&self, role: Role) -> bool {
        self.domain.roles.contains(&role)
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.guard.forget(node);
    }

    /// Seals a packet for `to`; `None` is whoever has the address, which only a knock may say.
    pub fn seal(&mut self, packet: &mut Packet, to: Option<NodeId>, rng: &mut StdRng) -> Vec<u8> {
        self.sequence += 1;
        packet.sequence = self.sequence;
        let key = self.ring.sealing();
        let mut out = Vec::with_capacity(DATAGRAM_BYTES_MAX);
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.push(if to.is_none() { TO_ANYONE } else { 0 });
        out.extend_from_slice(&key.0.to_be_bytes());
        let bound = bound_head(&out, to);
        let mut nonce = [0; NONCE];
        rng.fill_bytes(&mut nonce);
        out.extend_from_slice(&nonce);
        let inside = out.len();
        out.extend_from_slice(&self.scope);
        packet::encode(packet, &mut out);
        // The cipher fails only on messages of gigabytes and on a key that is not there, and the
        // sealing key always is.
        let tag = self.ring.cipher(key).and_then(|cipher| {
            let nonce = XNonce::from(nonce);
            cipher.encrypt_in_place_detached(&nonce, &bound, &mut out[inside..]).ok()
        });
        match tag {
            Some(tag) => out.extend_from_slice(&tag),
            // Not a readable byte of it leaves this node.
            None => out.truncate(inside),
        }
        out
    }

    /// Opens a datagram; a refusal has been counted when this returns.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Packet, Refusal> {
        let opened = self.check(bytes);
        if let Err(refusal) = opened {
            self.refusals.count(refusal);
        }
        opened
    }

    fn check(&mut self, bytes: &[u8]) -> Result<Packet, Refusal> {
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(Refusal::Oversized);
        }
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Refusal::Truncated)?;
        if head[..2] != MAGIC {
            return Err(Refusal::Alien);
        }
        match head[2] {
            VERSION => {}
            0 => return Err(Refusal::Alien),
            _ => return Err(Refusal::FutureVersion),
        }
        if rest.len() < NONCE + SCOPE + TAG {
            return Err(Refusal::Truncated);
        }
        let to_anyone = head[3] == TO_ANYONE;
        if head[3] > TO_ANYONE {
            return Err(Refusal::Alien);
        }
        let key = KeyId(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
        let cipher = self.ring.cipher(key).ok_or(Refusal::UnknownKey)?;
        let (nonce, sealed) = rest.split_at(NONCE);
        let bound = bound_head(head, (!to_anyone).then_some(self.me));
        let (body, tag) = sealed.split_at(sealed.len() - TAG);
        let mut plain = body.to_vec();
        let (nonce, tag) = (XNonce::from_slice(nonce), Tag::from_slice(tag));
        cipher
            .decrypt_in_place_detached(nonce, &bound, &mut plain, tag)
            .map_err(|_| Refusal::Forged)?;
        let (scope, inside) = plain.split_at_checked(SCOPE).ok_or(Refusal::Truncated)?;
        if scope[..8] != self.scope[..8] {
            return Err(Refusal::ForeignCluster);
        }
        if scope[8..] != self.scope[8..] {
            return Err(Refusal::ForeignEnvironment);
        }
        let packet = packet::decode(inside)?;
        if !self.has_place_for(packet.from.role) {
            return Err(Refusal::WrongRole);
        }
        // Only a question may be for anyone: everything that changes something is bound to its
        // receiver.
        if to_anyone != (packet.intent == Intent::Knock) {
            return Err(Refusal::Malformed);
        }
        if packet.from.node == self.me {
            return Err(Refusal::FromSelf);
        }
        self.guard.accept(packet.from.node, packet.from.boot, packet.sequence)?;
        Ok(packet)
    }
}

/// What the seal covers beside the contents.
fn bound_head(head: &[u8], to: Option<NodeId>) -> [u8; HEAD + 16] {
    let mut bound = [0; HEAD + 16];
    bound[..HEAD].copy_from_slice(head);
    bound[HEAD..].copy_from_slice(&to.map_or(0, |node| node.0).to_be_bytes());
    bound
}
