//! What this machine as a whole is doing, for scripts that ask (`exec.instance`). Each core writes
//! its own line; whoever asks adds up.

use base::clock;
use fence::Moment;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use script::host::InstanceFacts;

/// One core's counts, on a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct CoreLine {
    iterations: AtomicU64,
    interrupted: AtomicU64,
    active: AtomicU64,
    initialized: AtomicU64,
}

pub struct Instance {
    cores: Vec<CoreLine>,
    /// When the load began, in nanoseconds of [`Moment`]; zero: not yet.
    started: AtomicU64,
    stopped: AtomicBool,
    without_user: AtomicBool,
}

impl Instance {
    pub fn new(cores: usize) -> Instance {
        Instance {
            cores: (0..cores).map(|_| CoreLine::default()).collect(),
            started: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            without_user: AtomicBool::new(false),
        }
    }

    pub fn begin(&self, now: Moment) {
        // Whoever is first.
        let _ =
            self.started.compare_exchange(0, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
    }

    // Only the core itself writes its line, so a load and a store are enough.
    fn add(&self, line: &AtomicU64, change: i64) {
        line.store(line.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }

    pub fn iteration(&self, core: usize) {
        self.add(&self.cores[core].iterations, 1);
    }

    pub fn interrupted(&self, core: usize) {
        self.add(&self.cores[core].interrupted, 1);
    }

    pub fn active(&self, core: usize, change: i64) {
        self.add(&self.cores[core].active, change);
    }

    /// One more; they stay for the rest of the run.
    pub fn initialized(&self, core: usize) {
        self.add(&self.cores[core].initialized, 1);
    }

    /// No new iterations, on any core.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// True for the first arrival that finds no user.
    pub fn first_without_user(&self) -> bool {
        !self.without_user.swap(true, Ordering::Relaxed)
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub fn vus_initialized(&self) -> u64 {
        self.sum(|line| &line.initialized)
    }

    fn sum(&self, of: impl Fn(&CoreLine) -> &AtomicU64) -> u64 {
        self.cores.iter().map(|line| of(line).load(Ordering::Relaxed)).sum()
    }

    pub fn facts(&self) -> InstanceFacts {
        let started = self.started.load(Ordering::Relaxed);
        let run_ns = if started == 0 { 0 } else { clock::now().as_nanos().saturating_sub(started) };
        InstanceFacts {
            iterations_completed: self.sum(|line| &line.iterations),
            iterations_interrupted: self.sum(|line| &line.interrupted),
            vus_active: self.sum(|line| &line.active),
            vus_initialized: self.vus_initialized(),
            run_duration_ms: run_ns as f64 / 1e6,
        }
    }
}
