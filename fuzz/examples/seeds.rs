//! Good datagrams to begin with: what a few members really send to the one that
//! `membership_datagram` attacks, opened.
//!
//! From nothing the fuzzer would take days to find a packet that is taken; from these it goes
//! straight to what a packet may say. Run it in this folder before the fuzzer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use fence::{BootId, NodeId};
use membership::envelope::{Domain, KeyRing};
use membership::{Effect, Event, Identity, Peer, Role, Settings, Swim};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// As in the target: the first is attacked, the second is known to it.
const MEMBERS: u128 = 4;
const SEEDS_MAX: usize = 400;

fn key() -> [u8; 32] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(5))
}

fn address(number: u128) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], number as u16))
}

fn member(number: u128) -> Swim {
    let node = NodeId(number << 100);
    let (role, address) = (Role::Worker, address(number));
    let peer = Peer { node, role, address, boot: BootId(3), generation: 0 };
    let roles = vec![Role::Manager, Role::Worker];
    let domain = Domain { cluster: "fuzz".into(), environment: "ci".into(), roles };
    let identity = Identity { peer, datacenter: "fra".into(), domain };
    let ring = KeyRing::new(key()).expect("a good key");
    Swim::new(identity, ring, Settings::default(), StdRng::seed_from_u64(number as u64))
}

/// What is inside: magic, version, flags, key id, nonce, then sealed two fingerprints and the
/// packet.
fn open(datagram: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = datagram.split_at_checked(8)?;
    let (nonce, sealed) = rest.split_first_chunk::<24>()?;
    let is_to_anyone = head[3] & 1 == 1;
    let to: u128 = if is_to_anyone { 0 } else { 1 << 100 };
    let bound = [head, &to.to_be_bytes()].concat();
    let payload = Payload { msg: sealed, aad: &bound };
    let plain =
        XChaCha20Poly1305::new((&key()).into()).decrypt(&XNonce::from(*nonce), payload).ok()?;
    let choice = if is_to_anyone { 2 } else { 1 };
    Some([&[choice], plain.get(16..)?].concat())
}

fn main() -> std::io::Result<()> {
    let mut members: BTreeMap<SocketAddr, Swim> =
        (1..=MEMBERS).map(|number| (address(number), member(number))).collect();
    let mut waiting: Vec<(SocketAddr, Event)> = Vec::new();
    for number in 1..=MEMBERS {
        waiting.push((address(number), Event::Join((1..=MEMBERS).map(address).collect())));
        waiting.push((address(number), Event::Heartbeat(vec![number as u8; 40])));
    }
    let mut seeds = Vec::new();
    for tick in 1..1200u64 {
        let now = Duration::from_millis(tick * 50);
        match tick {
            // One dies and is suspected, and comes back to contradict; another leaves.
            200 => drop(members.remove(&address(4))),
            500 => drop(members.insert(address(4), member(4))),
            800 => waiting.push((address(3), Event::Leave)),
            _ => {}
        }
        waiting.extend(members.keys().map(|at| (*at, Event::Tick)));
        for (at, event) in std::mem::take(&mut waiting) {
            let Some(member) = members.get_mut(&at) else { continue };
            for effect in member.step(event, now) {
                let Effect::Send { to, bytes } = effect else { continue };
                if to == address(1) {
                    seeds.extend(open(&bytes));
                }
                waiting.push((to, Event::Datagram(bytes)));
            }
        }
    }
    let folder = std::path::Path::new("corpus/membership_datagram");
    std::fs::create_dir_all(folder)?;
    seeds.sort();
    seeds.dedup();
    let every = seeds.len().div_ceil(SEEDS_MAX).max(1);
    let chosen: Vec<_> = seeds.iter().step_by(every).collect();
    for (number, seed) in chosen.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:03}")), seed)?;
    }
    println!("{} seeds in {}", chosen.len(), folder.display());
    Ok(())
}
