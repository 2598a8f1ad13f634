//! The whole disk in memory: names, files, faults, and what a crash makes of them.

use base::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::faults::{Call, CrashMode, Fault, FaultCounts, Faults, Injection, Operation};
use super::file::{Change, Content, File};

/// Writes are torn at a byte or at borders of this size.
const SECTOR: usize = 512;

/// A change of names that is not durable yet.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Link { path: PathBuf, file: u64 },
    Unlink { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, file: u64 },
}

impl Name {
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Link { path, .. } | Self::Unlink { path } => path.parent(),
            Self::Rename { to, .. } => to.parent(),
        }
    }

    pub fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link { path, file } => {
                names.insert(path.clone(), *file);
            }
            Self::Unlink { path } => {
                names.remove(path);
            }
            Self::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct State {
    pub generator: SplitMix64,
    pub powered: bool,
    /// Calls that still change something before the power fails.
    pub fuse: Option<u64>,
    /// Rises with each crash; handles of an earlier one are dead.
    pub generation: u64,
    pub files: BTreeMap<u64, File>,
    pub next_file: u64,
    pub visible: BTreeMap<PathBuf, u64>,
    pub durable: BTreeMap<PathBuf, u64>,
    pub names: Vec<Name>,
    pub folders: BTreeSet<PathBuf>,
    pub locks: BTreeSet<PathBuf>,
    pub capacity: u64,
    pub flush_delay: (Duration, Duration),
    pub faults: Faults,
    pub script: Vec<Injection>,
    pub counts: FaultCounts,
    pub changes: u64,
    pub noting: bool,
    pub calls: Vec<Call>,
}

pub(super) fn no_power() -> io::Error {
    io::Error::other("simulated power failure")
}

pub(super) fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

pub(super) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

impl State {
    pub fn new(seed: u64) -> Self {
        Self {
            generator: SplitMix64::new(seed),
            powered: true,
            fuse: None,
            generation: 0,
            files: BTreeMap::new(),
            next_file: 1,
            visible: BTreeMap::new(),
            durable: BTreeMap::new(),
            names: Vec::new(),
            folders: BTreeSet::new(),
            locks: BTreeSet::new(),
            capacity: u64::MAX,
            flush_delay: (Duration::ZERO, Duration::ZERO),
            faults: Faults::default(),
            script: Vec::new(),
            counts: FaultCounts::default(),
            changes: 0,
            noting: false,
            calls: Vec::new(),
        }
    }

    /// Every call begins here: is there power, and for how much longer?
    pub fn enter(&mut self, operation: Operation) -> io::Result<()> {
        if !self.powered {
            return Err(no_power());
        }
        if operation.changes() {
            match &mut self.fuse {
                Some(0) => {
                    self.powered = false;
                    self.counts.add(Fault::PowerFailure);
                    return Err(no_power());
                }
                Some(left) => *left -= 1,
                None => {}
            }
            self.changes += 1;
        }
        Ok(())
    }

    pub fn note(&mut self, operation: Operation, path: &Path, offset: u64, len: u64, ok: bool) {
        if self.noting {
            self.calls.push(Call { operation, path: path.to_path_buf(), offset, len, ok });
        }
    }

    /// Whether this fault happens now: by script first, then by chance.
    pub fn strikes(&mut self, fault: Fault, path: &Path) -> bool {
        let name = path.to_string_lossy();
        let mut hit = None;
        for (i, injection) in self.script.iter_mut().enumerate() {
            if injection.fault != fault || !name.contains(&injection.path) {
                continue;
            }
            if injection.skip == 0 {
                hit = Some(i);
                break;
            }
            injection.skip -= 1;
        }
        let struck = if let Some(i) = hit {
            self.script.remove(i);
            true
        } else {
            let chance = match fault {
                Fault::ReadError => self.faults.read_error,
                Fault::WriteError => self.faults.write_error,
                Fault::ShortWrite => self.faults.short_write,
                Fault::SyncError => self.faults.sync_error,
                Fault::SyncLie => self.faults.sync_lie,
                Fault::MisdirectedRead => self.faults.misdirected_read,
                _ => 0,
            };
            self.generator.chance(chance)
        };
        if struck {
            self.counts.add(fault);
        }
        struck
    }

    pub fn used(&self) -> u64 {
        self.visible.values().filter_map(|id| self.files.get(id)).map(|file| file.visible.len).sum()
    }

    pub fn pending_writes(&self) -> usize {
        self.files.values().map(|file| file.pending.len()).sum()
    }

    pub fn flip(&mut self, path: &Path, bit: u64) -> bool {
        let Some(file) = self.visible.get(path).and_then(|id| self.files.get_mut(id)) else {
            return false;
        };
        let flipped = file.visible.flip(bit);
        file.durable.flip(bit);
        if flipped {
            self.counts.add(Fault::BitFlip);
        }
        flipped
    }

    pub fn dump(&self, path: &Path) -> Option<Vec<u8>> {
        Some(self.files.get(self.visible.get(path)?)?.visible.trimmed())
    }

    pub fn dump_durable(&self, path: &Path) -> Option<Vec<u8>> {
        Some(self.files.get(self.durable.get(path)?)?.durable.trimmed())
    }

    pub fn plant(&mut self, path: &Path, bytes: &[u8], len: u64) {
        let mut content = Content::default();
        content.write(0, bytes);
        content.set_len(len.max(bytes.len() as u64));
        for folder in path.ancestors().skip(1) {
            self.folders.insert(folder.to_path_buf());
        }
        let id = self.next_file;
        self.next_file += 1;
        let file = File { visible: content.clone(), durable: content, pending: Vec::new() };
        self.files.insert(id, file);
        self.visible.insert(path.to_path_buf(), id);
        self.durable.insert(path.to_path_buf(), id);
    }

    pub fn erase(&mut self, path: &Path) -> bool {
        self.durable.remove(path);
        self.visible.remove(path).is_some()
    }

    /// The process is gone: its handles and locks are, what it wrote is not.
    pub fn kill(&mut self) {
        self.generation += 1;
        self.locks.clear();
    }

    pub fn crash(&mut self, mode: CrashMode) {
        self.kill();
        self.powered = false;
        self.fuse = None;
        let mut index = 0;
        let torn =
            self.files.iter().filter(|(_, f)| !f.pending.is_empty()).map(|(id, _)| *id).max();
        for (id, file) in &mut self.files {
            let pending = std::mem::take(&mut file.pending);
            let last = pending.len();
            for (i, change) in pending.into_iter().enumerate() {
                let kept = keep(mode, index, &mut self.generator);
                index += 1;
                let cut = match mode {
                    CrashMode::Torn { bytes, .. } if Some(*id) == torn && i + 1 == last => {
                        Some(bytes)
                    }
                    _ => None,
                };
                if !kept {
                    self.counts.add(Fault::LostWrite);
                } else if let Change::Write { offset, bytes } = &change {
                    let random = mode == CrashMode::Random;
                    tear(&mut file.durable, *offset, bytes, cut, random, &mut self.generator)
                        .then(|| self.counts.add(Fault::TornWrite));
                } else {
                    change.apply(&mut file.durable);
                }
            }
            file.visible = file.durable.clone();
        }
        for name in std::mem::take(&mut self.names) {
            if keep(mode, index, &mut self.generator) {
                name.apply(&mut self.durable);
            } else {
                self.counts.add(Fault::LostWrite);
            }
            index += 1;
        }
        self.visible = self.durable.clone();
        let linked: BTreeSet<u64> = self.durable.values().copied().collect();
        self.files.retain(|id, _| linked.contains(id));
    }
}

fn keep(mode: CrashMode, index: u32, generator: &mut SplitMix64) -> bool {
    match mode {
        CrashMode::LoseAll => false,
        CrashMode::KeepAll => true,
        CrashMode::Random => generator.below(2) == 0,
        CrashMode::Chosen(bits) | CrashMode::Torn { kept: bits, .. } => {
            index < 64 && bits >> index & 1 == 1
        }
    }
}

/// Writes what a crash left of a write. Says whether that was less than all.
fn tear(
    content: &mut Content,
    offset: u64,
    bytes: &[u8],
    cut: Option<usize>,
    random: bool,
    generator: &mut SplitMix64,
) -> bool {
    if let Some(cut) = cut {
        content.write(offset, &bytes[..cut.min(bytes.len())]);
        return cut < bytes.len();
    }
    match if random { generator.below(3) } else { 0 } {
        // A prefix, cut at any byte.
        1 => {
            let cut = generator.below(bytes.len() as u64 + 1) as usize;
            content.write(offset, &bytes[..cut]);
            cut < bytes.len()
        }
        // Any of its sectors, in no order.
        2 => {
            let mut torn = false;
            let mut from = 0;
            while from < bytes.len() {
                let border = SECTOR - (offset as usize + from) % SECTOR;
                let to = bytes.len().min(from + border);
                if generator.below(2) == 0 {
                    content.write(offset + from as u64, &bytes[from..to]);
                } else {
                    torn = true;
                }
                from = to;
            }
            torn
        }
        _ => {
            content.write(offset, bytes);
            false
        }
    }
}
