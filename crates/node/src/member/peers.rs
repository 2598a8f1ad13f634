//! Who was there, kept for the next start: where to look first, and whose data folder had which
//! number.
//!
//! These are hints. A file that cannot be read is reported and replaced; nothing depends on it but
//! the first second.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fence::{BootId, NodeId};
use ledger::store::files;
use membership::Role;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;
use wal::Disk;

use super::{Inner, Known, lock, look_for};

pub const FILE: &str = "peers";
const MAGIC: [u8; 8] = *b"VLLYPEER";
const VERSION: u8 = 1;
const BYTES_MAX: u64 = 4 << 20;
const PEERS_MAX: usize = 16_384;
/// Addresses that are tried first at the next start.
const REMEMBERED_MAX: usize = 64;
const EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    pub(crate) node: NodeId,
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    pub(crate) boot: BootId,
    pub(crate) folder: u64,
    /// It was alive when this was written.
    pub(crate) live: bool,
}

pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Vec<Remembered> {
    let path = folder.join(FILE);
    let bytes = match files::read_all(disk, &path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "remembered peers cannot be read");
            }
            return Vec::new();
        }
    };
    decode(&bytes).unwrap_or_else(|| {
        tracing::warn!(path = %path.display(), "remembered peers cannot be read and are forgotten");
        Vec::new()
    })
}

fn decode(bytes: &[u8]) -> Option<Vec<Remembered>> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (content, sum) = bytes.split_last_chunk::<4>()?;
    if *rest.first()? != VERSION || crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return None;
    }
    match postcard::take_from_bytes(content.get(MAGIC.len() + 1..)?) {
        Ok((peers, [])) => Some(peers),
        _ => None,
    }
}

fn encode(peers: &[Remembered]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    let mut bytes = postcard::to_extend(peers, bytes).unwrap_or_default();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The addresses to try first: of the role that is looked for, those that were alive.
pub(crate) fn addresses(peers: &[Remembered], role: Role) -> Vec<SocketAddr> {
    let wanted = peers.iter().filter(|peer| peer.live && peer.role == look_for(role));
    wanted.map(|peer| peer.address).take(REMEMBERED_MAX).collect()
}

fn collect(inner: &Inner) -> Vec<Remembered> {
    let view = inner.agent.view();
    let known = lock(&inner.known);
    let of = |entry: &membership::Entry| {
        let peer = entry.peer;
        // Not the boot that gossip tells: what is remembered contradicts nodes that come back.
        let Known { boot, folder, .. } = known.get(peer.node).unwrap_or_default();
        let live = entry.state.is_live();
        Remembered { node: peer.node, role: peer.role, address: peer.address, boot, folder, live }
    };
    view.entries.iter().take(PEERS_MAX).map(of).collect()
}

/// Writes now what is known.
pub(crate) fn save(inner: &Inner) {
    write(inner, &collect(inner));
}

fn write(inner: &Inner, peers: &[Remembered]) {
    if let Err(error) =
        files::replace(inner.disk.as_ref(), &inner.config.data, FILE, &encode(peers))
    {
        inner.numbers.peers_not_saved.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "peers cannot be remembered for the next start");
    }
}

/// Keeps the file up to date until told to stop. An empty table does not wipe it: a node that has
/// not yet found anybody would forget where to look.
pub(crate) async fn run(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let mut written = Vec::new();
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(inner.scaled(EVERY)) => {}
        }
        let peers = collect(&inner);
        if !peers.is_empty() && peers != written {
            write(&inner, &peers);
            written = peers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(node: u128, role: Role, live: bool) -> Remembered {
        let address = SocketAddr::from(([10, 0, 0, node as u8], 7500));
        Remembered { node: NodeId(node), role, address, boot: BootId(3), folder: 9, live }
    }

    #[test]
    fn peers_survive_a_restart_and_a_bad_file_is_forgotten() {
        let temp = tempfile::TempDir::new().unwrap();
        let peers = vec![peer(1, Role::Manager, true), peer(2, Role::Worker, true)];
        let bytes = encode(&peers);
        let path = temp.path().join(FILE);
        assert_eq!(load(&wal::RealDisk, temp.path()), []);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(load(&wal::RealDisk, temp.path()), peers);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(load(&wal::RealDisk, temp.path()), [], "byte {at}");
        }
    }

    #[test]
    fn only_live_peers_of_the_wanted_role_are_tried_first() {
        let peers = [
            peer(1, Role::Manager, true),
            peer(2, Role::Manager, false),
            peer(3, Role::Worker, true),
        ];
        assert_eq!(addresses(&peers, Role::Worker), [peers[0].address]);
    }
}
