//! Datagrams to a member: any bytes, any bytes inside a good seal, and good packets with any
//! protocol bytes.
//!
//! Whatever is refused must have changed nothing and must not be answered. What is taken must leave
//! a member that goes on: the table stays within its bounds and time passes without a panic.

#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use fence::{BootId, NodeId};
use libfuzzer_sys::fuzz_target;
use membership::envelope::{Checkpoint, Domain, KeyRing, Packet};
use membership::{Effect, Event, Identity, Peer, Role, Settings, Swim};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ME: NodeId = NodeId(1 << 100);
const OTHER: NodeId = NodeId(2 << 100);
const NODES_MAX: usize = 16;

fn key() -> [u8; 32] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(5))
}

fn domain() -> Domain {
    let roles = vec![Role::Manager, Role::Worker];
    Domain { cluster: "fuzz".into(), environment: "ci".into(), roles }
}

fn peer(node: NodeId, port: u16) -> Peer {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Peer { node, role: Role::Worker, address, boot: BootId(3), generation: 0 }
}

fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The envelope, written a second time from its description: magic, version, flags, key id, nonce,
/// sealed.
fn seal(plain: &[u8], to_anyone: bool) -> Vec<u8> {
    let ring = KeyRing::new(key()).expect("a good key");
    let mut head = b"Vm".to_vec();
    head.extend_from_slice(&[1, u8::from(to_anyone)]);
    head.extend_from_slice(&ring.sealing().0.to_be_bytes());
    let mut bound = head.clone();
    let to = if to_anyone { 0 } else { ME.0 };
    bound.extend_from_slice(&to.to_be_bytes());
    let mut message = fingerprint("fuzz").to_be_bytes().to_vec();
    message.extend_from_slice(&fingerprint("ci").to_be_bytes());
    message.extend_from_slice(plain);
    let nonce = XNonce::from([9; 24]);
    let payload = Payload { msg: &message, aad: &bound };
    let sealed = XChaCha20Poly1305::new((&key()).into()).encrypt(&nonce, payload).expect("seals");
    head.extend_from_slice(&nonce);
    head.extend_from_slice(&sealed);
    head
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let identity = Identity { peer: peer(ME, 1), datacenter: "fra".into(), domain: domain() };
    let ring = KeyRing::new(key()).expect("a good key");
    let settings = Settings { nodes_max: NODES_MAX, ..Settings::default() };
    let mut swim = Swim::new(identity, ring, settings, StdRng::seed_from_u64(7));
    let start = Duration::from_millis(1);
    swim.step(Event::Tick, start);

    // A known member first, so that reports about somebody can be told.
    let mut other =
        Checkpoint::new(OTHER, domain(), KeyRing::new(key()).expect("a good key"), NODES_MAX);
    let mut rng = StdRng::seed_from_u64(8);
    let mut packet = Packet::new(peer(OTHER, 2), "fra");
    let greeting = other.seal(&mut packet, Some(ME), &mut rng);
    swim.step(Event::Datagram(greeting), start);
    assert_eq!(swim.refusals().total(), 0, "the greeting is good");

    let datagram = match choice % 4 {
        0 => bytes.to_vec(),
        1 => seal(bytes, false),
        2 => seal(bytes, true),
        _ => {
            let mut packet = Packet::new(peer(OTHER, 2), "fra");
            packet.swim = bytes.to_vec();
            other.seal(&mut packet, Some(ME), &mut rng)
        }
    };
    let (refused, version, length) =
        (swim.refusals().total(), swim.table().version(), datagram.len());
    let effects = swim.step(Event::Datagram(datagram), start);
    let sent: usize = effects
        .iter()
        .map(|effect| if let Effect::Send { bytes, .. } = effect { bytes.len() } else { 0 })
        .sum();
    if swim.refusals().total() > refused {
        assert_eq!(swim.table().version(), version, "a refused datagram changes nothing");
        assert_eq!(sent, 0, "a refused datagram is not answered");
    } else if choice % 4 == 2 {
        assert!(sent <= length, "a knock is not answered with more than it brought");
    }
    assert!(swim.table().len() <= NODES_MAX);
    for second in 1..4 {
        swim.step(Event::Tick, Duration::from_secs(second));
    }
});
