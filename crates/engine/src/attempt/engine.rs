//! Who runs attempts: threads of this machine, or a model of them where a whole fleet is simulated.
//!
//! A worker knows attempts only by these traits. So the simulation runs the worker's own tasks, and
//! replaces nothing but the threads that generate load.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fence::Moment;
use plan::Rate;
use stats::Window;
use stats::series::SeriesWindow;

use super::hook_run::{HookRun, HookSpec, HookWiring};
use super::loaded::Loaded;
use super::shard_run::{ShardRun, ShardSpec, Wiring};
use crate::shard::Stop;

pub trait Engine: Send + Sync + 'static {
    /// Makes an attempt of a shard. Then it reports `Ready`, or has `Ended`.
    ///
    /// # Errors
    /// If this machine cannot run it.
    fn prepare(
        &self,
        loaded: &Arc<Loaded>,
        spec: ShardSpec,
        wiring: Wiring,
    ) -> io::Result<Box<dyn ShardControl>>;

    /// Begins a setup or teardown at once.
    ///
    /// # Errors
    /// If this machine cannot run it.
    fn run_hook(
        &self,
        loaded: &Arc<Loaded>,
        spec: HookSpec,
        wiring: HookWiring,
    ) -> io::Result<Box<dyn HookControl>>;
}

/// An attempt of a shard, as its leader steers it. Dropping it kills it: its permit is withdrawn
/// and its thread told to leave, and nobody waits.
pub trait ShardControl: Send {
    /// At `at` the workflow has been going for `elapsed`, whatever the attempt was prepared for
    /// (R5a). Of that the load has missed what lies beyond its `start_after`.
    fn start_from(&self, at: Moment, elapsed: Duration);
    /// Asks for what was counted. What is given takes its place; it must be clear.
    fn swap(&self, empty: Option<Window>, empty_series: Option<Box<SeriesWindow>>);
    /// `at`: one moment for all shards, so that their clocks stop together.
    fn pause(&self, at: Moment);
    fn resume(&self, at: Moment);
    /// Of the whole workflow, not of this shard.
    fn set_vus(&self, vus: u32);
    /// Of the whole workflow, from this time of its schedule on, whenever a shard hears of it.
    fn set_rate(&self, rate: Rate, from: Duration);
    fn stop(&self, how: Stop);
    fn grant_rows(&self, set: usize, rows: Range<u64>);
    fn no_more_rows(&self, set: usize);
    /// Iterations below `end` may be begun.
    fn grant_units(&self, end: u64);
    /// The hard stop: nothing is sent from here on. `Ended` comes within `grace`, whatever its
    /// virtual users are doing.
    fn kill(&self, grace: Duration);
    /// Its thread is gone.
    fn is_finished(&self) -> bool;
}

/// A setup or teardown that runs. Dropping it kills it, as with a shard.
pub trait HookControl: Send {
    /// A setup ends when its grace is over, a teardown only at `Stop::Now`.
    fn stop(&self, how: Stop);
    fn kill(&self, grace: Duration);
    fn is_finished(&self) -> bool;
}

/// The engine of a real worker: every attempt has a thread of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Engine for Threads {
    fn prepare(
        &self,
        loaded: &Arc<Loaded>,
        spec: ShardSpec,
        wiring: Wiring,
    ) -> io::Result<Box<dyn ShardControl>> {
        Ok(Box::new(ShardRun::prepare(loaded, spec, wiring)?))
    }

    fn run_hook(
        &self,
        loaded: &Arc<Loaded>,
        spec: HookSpec,
        wiring: HookWiring,
    ) -> io::Result<Box<dyn HookControl>> {
        Ok(Box::new(HookRun::start(loaded, spec, wiring)?))
    }
}
