//! Bad datagrams by table, and properties of the codec.

use std::net::SocketAddr;

use fence::BootId;
use proptest::prelude::*;
use rand010::SeedableRng;

use super::*;
use crate::identity::{Life, Peer};

const ALICE: NodeId = NodeId(0xa11ce << 64);
const BOB: NodeId = NodeId(0xb0b << 64);

fn key(seed: u8) -> [u8; 32] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(seed))
}

fn domain() -> Domain {
    Domain {
        cluster: "prod".into(),
        environment: "eu".into(),
        roles: vec![Role::Manager, Role::Worker],
    }
}

fn checkpoint(node: NodeId, domain: Domain, seed: u8) -> Checkpoint {
    Checkpoint::new(node, domain, KeyRing::new(key(seed)).unwrap(), 64)
}

fn packet(node: NodeId) -> Packet {
    let address: SocketAddr = "10.0.0.1:7946".parse().unwrap();
    let peer = Peer { node, role: Role::Worker, address, boot: BootId(3), generation: 1 };
    let mut packet = Packet::new(peer, "fra1");
    packet.swim = vec![1, 2, 3];
    packet
}

fn rng() -> StdRng {
    StdRng::seed_from_u64(1)
}

#[test]
fn what_was_sealed_is_opened_once() {
    let mut alice = checkpoint(ALICE, domain(), 1);
    let mut bob = checkpoint(BOB, domain(), 1);
    let mut sent = packet(ALICE);
    let bytes = alice.seal(&mut sent, Some(BOB), &mut rng());
    assert_eq!(bob.open(&bytes), Ok(sent));
    assert_eq!(bob.open(&bytes), Err(Refusal::Replayed));
    assert_eq!(bob.refusals().of(Refusal::Replayed), 1);
}

/// ARCH-20: install, use, remove; datagrams are understood at every step.
#[test]
fn keys_rotate_without_downtime() {
    let mut alice = checkpoint(ALICE, domain(), 1);
    let mut bob = checkpoint(BOB, domain(), 1);
    let mut rng = rng();
    let old = alice.keys().sealing();
    let mut talk = |alice: &mut Checkpoint, bob: &mut Checkpoint| {
        let there = alice.seal(&mut packet(ALICE), Some(BOB), &mut rng);
        assert!(bob.open(&there).is_ok());
        let back = bob.seal(&mut packet(BOB), Some(ALICE), &mut rng);
        assert!(alice.open(&back).is_ok());
    };
    let new = alice.keys().install(key(2)).unwrap();
    talk(&mut alice, &mut bob);
    bob.keys().install(key(2)).unwrap();
    talk(&mut alice, &mut bob);
    alice.keys().use_key(new).unwrap();
    talk(&mut alice, &mut bob);
    bob.keys().use_key(new).unwrap();
    talk(&mut alice, &mut bob);
    alice.keys().remove(old).unwrap();
    talk(&mut alice, &mut bob);
    bob.keys().remove(old).unwrap();
    talk(&mut alice, &mut bob);
    assert_eq!(alice.refusals().total() + bob.refusals().total(), 0);
    assert_eq!(alice.keys().remove(new), Err(KeyError::InUse(new)));
    assert_eq!(alice.keys().use_key(old), Err(KeyError::Unknown(old)));
}

/// ARCH-19: a key that can be guessed is refused.
#[test]
fn weak_keys_are_refused() {
    assert_eq!(KeyRing::new([0; 32]).unwrap_err(), KeyError::Weak);
    assert_eq!(KeyRing::new(*b"passwordpasswordpasswordpassword").unwrap_err(), KeyError::Weak);
}

/// CORE-122: each bad datagram is refused under its own name, in the order cluster, environment,
/// role.
#[test]
fn bad_datagrams_are_counted_by_kind() {
    let mut rng = rng();
    let foreign_cluster = Domain { cluster: "test".into(), environment: "us".into(), ..domain() };
    let foreign_environment = Domain { environment: "us".into(), ..domain() };
    let seal = |domain: Domain, seed: u8, packet: &mut Packet, to, rng: &mut StdRng| {
        checkpoint(packet.from.node, domain, seed).seal(packet, to, rng)
    };
    let good = seal(domain(), 1, &mut packet(ALICE), Some(BOB), &mut rng);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let with_role = |role| {
        let mut packet = packet(ALICE);
        packet.from.role = role;
        packet
    };
    let mut twice = packet(ALICE);
    twice.heartbeat = vec![0; HEARTBEAT_BYTES_MAX + 1];
    let cases = [
        (vec![0; DATAGRAM_BYTES_MAX + 1], Refusal::Oversized),
        (Vec::new(), Refusal::Truncated),
        (good[..HEAD + NONCE + TAG].to_vec(), Refusal::Truncated),
        (changed(0, b'X'), Refusal::Alien),
        (changed(2, 0), Refusal::Alien),
        (changed(3, 2), Refusal::Alien),
        (changed(2, VERSION + 1), Refusal::FutureVersion),
        (seal(domain(), 2, &mut packet(ALICE), Some(BOB), &mut rng), Refusal::UnknownKey),
        (changed(good.len() - 1, good[good.len() - 1] ^ 1), Refusal::Forged),
        (changed(3, TO_ANYONE), Refusal::Forged),
        (good[..good.len() - 1].to_vec(), Refusal::Forged),
        (seal(domain(), 1, &mut packet(ALICE), Some(NodeId(9)), &mut rng), Refusal::Forged),
        (
            seal(foreign_cluster, 1, &mut with_role(Role::Gate), Some(BOB), &mut rng),
            Refusal::ForeignCluster,
        ),
        (
            seal(foreign_environment, 1, &mut with_role(Role::Gate), Some(BOB), &mut rng),
            Refusal::ForeignEnvironment,
        ),
        (seal(domain(), 1, &mut with_role(Role::Gate), Some(BOB), &mut rng), Refusal::WrongRole),
        (seal(domain(), 1, &mut twice, Some(BOB), &mut rng), Refusal::Malformed),
        (seal(domain(), 1, &mut packet(ALICE), None, &mut rng), Refusal::Malformed),
        (seal(domain(), 1, &mut packet(BOB), Some(BOB), &mut rng), Refusal::FromSelf),
    ];
    let mut bob = checkpoint(BOB, domain(), 1);
    for (bytes, expected) in &cases {
        let before = bob.refusals().of(*expected);
        assert_eq!(bob.open(bytes), Err(*expected), "{bytes:02x?}");
        assert_eq!(bob.refusals().of(*expected), before + 1);
    }
    assert_eq!(bob.refusals().total(), cases.len() as u64);
    assert!(bob.open(&good).is_ok(), "none of them used up the good one's place");
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let rumour =
        (0usize..3, any::<u128>(), any::<u64>(), any::<u32>(), any::<u16>(), any::<u128>());
    let rumours = prop::collection::vec(rumour, 0..8);
    let head = (any::<u64>(), any::<u32>(), any::<bool>(), any::<u16>(), "[a-z0-9]{0,64}");
    let parts = (any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>());
    let bytes = || prop::collection::vec(any::<u8>(), 0..HEARTBEAT_BYTES_MAX);
    let nacks = prop::collection::vec((any::<u128>(), any::<u8>()), 0..4);
    (head, parts, rumours, nacks, bytes(), bytes(), bytes()).prop_map(
        |(head, parts, rumours, nacks, heartbeat, coordinate, swim)| {
            let (boot, generation, six, port, datacenter) = head;
            let ip = if six { "fe80::1".parse().unwrap() } else { "10.1.2.3".parse().unwrap() };
            let address = SocketAddr::new(ip, port);
            let role = Role::Manager;
            let from = Peer { node: ALICE, role, address, boot: BootId(boot), generation };
            let mut packet = Packet::new(from, &datacenter);
            (packet.ask, packet.echo) = (parts.0, parts.1);
            packet.intent = if parts.2 { Intent::Answer } else { Intent::None };
            packet.rumours = rumours
                .into_iter()
                .map(|(claim, about, boot, generation, incarnation, origin)| Rumour {
                    claim: [Claim::Suspect, Claim::Held, Claim::Left][claim],
                    about: NodeId(about),
                    life: Life { boot: BootId(boot), generation },
                    incarnation,
                    origin: NodeId(origin),
                })
                .collect();
            packet.nacks =
                nacks.into_iter().map(|(n, probe)| Nack { target: NodeId(n), probe }).collect();
            (packet.heartbeat, packet.coordinate, packet.swim) = (heartbeat, coordinate, swim);
            packet
        },
    )
}

proptest! {
    #[test]
    fn every_packet_survives_the_journey(sent in any_packet(), seed in any::<u64>()) {
        let mut alice = checkpoint(ALICE, domain(), 1);
        let mut bob = checkpoint(BOB, domain(), 1);
        let mut sent = sent;
        let bytes = alice.seal(&mut sent, Some(BOB), &mut StdRng::seed_from_u64(seed));
        prop_assert_eq!(bob.open(&bytes), Ok(sent));
    }

    /// Any change of any byte, any cut and any noise is refused and leaves the window untouched.
    #[test]
    fn nothing_but_the_original_is_opened(
        sent in any_packet(), at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<prop::sample::Index>()
    ) {
        let mut alice = checkpoint(ALICE, domain(), 1);
        let mut bob = checkpoint(BOB, domain(), 1);
        let mut sent = sent;
        let good = alice.seal(&mut sent, Some(BOB), &mut rng());
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= flip;
        prop_assert!(bob.open(&bad).is_err());
        prop_assert!(bob.open(&good[..cut.index(good.len())]).is_err());
        prop_assert!(bob.open(&good).is_ok());
    }

    /// What a member with a key, but with a broken encoder, sends never panics and never counts as
    /// something else.
    #[test]
    fn noise_inside_the_seal_is_harmless(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = packet::decode(&noise);
    }
}
