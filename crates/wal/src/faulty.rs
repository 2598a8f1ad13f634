//! A disk in memory that fails as real ones do, from a seed.
//!
//! ```text
//! write ──▶ pending (visible to reads) ──sync_data──▶ durable
//! create, rename, remove ──▶ pending names ──sync_folder──▶ durable
//!                 crash: some of what is pending is kept, possibly torn, the rest is gone
//! ```
//!
//! It has a power switch, because a simulated crash runs destructors, and a destructor that could
//! still write would turn every crash into a clean shutdown. With the power off every call fails
//! and changes nothing, and handles from before a crash stay dead after it.
//!
//! It reads no clock and draws from its own generator only, so a run is a function of its seed.

mod device;
mod faults;
mod file;
mod state;

pub use faults::{Call, CrashMode, Fault, FaultCounts, Faults, Injection, Operation};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use state::State;

/// Handle of a disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

impl FaultyDisk {
    /// An empty disk without faults and without a limit of space.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another holder leaves plain data behind; a test that panics must still be able
        // to look.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the probabilities of faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Lets one later call fail, by script.
    pub fn inject(&self, injection: Injection) {
        self.state().script.push(injection);
    }

    /// How much fits on the disk. What is there already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// How long a flush takes: drawn between the two for each flush.
    pub fn set_flush_delay(&self, shortest: Duration, longest: Duration) {
        self.state().flush_delay = (shortest, longest.max(shortest));
    }

    /// From now on every call fails and has no effect.
    pub fn power_off(&self) {
        self.state().powered = false;
    }

    /// After `calls` further calls that change the disk the power fails by itself.
    pub fn fail_power_after(&self, calls: u64) {
        self.state().fuse = Some(calls);
    }

    /// Whether the power is on. A fuse may have turned it off.
    #[must_use]
    pub fn powered(&self) -> bool {
        self.state().powered
    }

    /// The power fails: what was not durable is kept or lost as `mode` says. Handles from before
    /// stay dead.
    pub fn crash(&self, mode: CrashMode) {
        self.state().crash(mode);
    }

    /// The process dies, the computer does not: what was written stays visible and is still not
    /// durable.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// The power is back. Says nothing about faults: those that are set stay set.
    pub fn power_on(&self) {
        let mut state = self.state();
        state.powered = true;
        state.fuse = None;
    }

    /// Number of writes and length changes that a crash could lose, over all files, in the order of
    /// `CrashMode::Chosen`; then of names in `pending_names`.
    #[must_use]
    pub fn pending_writes(&self) -> usize {
        self.state().pending_writes()
    }

    /// Number of creations, renames and removals that a crash could lose.
    #[must_use]
    pub fn pending_names(&self) -> usize {
        self.state().names.len()
    }

    /// Turns one bit of a file over, as rot does: in what is durable and in what is visible.
    /// Returns false when the file is shorter.
    pub fn flip(&self, path: &Path, bit: u64) -> bool {
        self.state().flip(path, bit)
    }

    /// What a file holds as the next reader sees it, zeros at the end left out.
    #[must_use]
    pub fn dump(&self, path: &Path) -> Option<Vec<u8>> {
        self.state().dump(path)
    }

    /// What a file would hold after a crash that keeps nothing.
    #[must_use]
    pub fn dump_durable(&self, path: &Path) -> Option<Vec<u8>> {
        self.state().dump_durable(path)
    }

    /// Puts a file there, durably, as an operator's copy would.
    pub fn plant(&self, path: &Path, bytes: &[u8], len: u64) {
        self.state().plant(path, bytes, len);
    }

    /// Takes a file away, durably, as an operator would.
    pub fn erase(&self, path: &Path) -> bool {
        self.state().erase(path)
    }

    /// All visible files.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().visible.keys().cloned().collect()
    }

    /// A second disk with the same content and generator, independent from here on. Open handles
    /// stay with this one.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.state().clone())) }
    }

    /// How many faults of each class have happened.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        self.state().counts.clone()
    }

    /// Number of calls that change the disk, so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Begins (or ends) to note calls for `calls`. Off at first: a long simulation makes millions.
    pub fn note_calls(&self, on: bool) {
        self.state().noting = on;
    }

    /// The calls noted since the last time this was asked.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }
}
