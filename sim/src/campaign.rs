//! Many seeds: children side by side, results in the order of the seeds, totals that survive an
//! interruption.

// The parent lives in the real world: it needs real clocks and threads.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::child::Order;
use crate::outcome::{Outcome, Totals};

pub struct Campaign<'a> {
    pub order: Order,
    pub seeds: u64,
    pub jobs: usize,
    /// Each seed divisible by this is run twice, and the traces compared; 0: none.
    pub replay_every: u64,
    /// Ends with the first failed seed: what a canary needs.
    pub stop_at_failure: bool,
    pub state: Option<&'a Path>,
}

struct Result {
    outcome: Outcome,
    /// Of a second run.
    second_hash: Option<String>,
}

/// The state file is written at most this often.
const SAVE_EVERY: Duration = Duration::from_secs(5);

impl Campaign<'_> {
    /// Runs seeds from `totals.next_seed` on and adds them up. `progress` is called after each.
    ///
    /// # Errors
    /// The state file cannot be written.
    pub fn run(&self, totals: &mut Totals, mut progress: impl FnMut(&Totals)) -> io::Result<()> {
        let first = totals.next_seed;
        let end = first.saturating_add(self.seeds);
        let next = AtomicU64::new(first);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (send, results) = mpsc::channel::<Result>();
            for _ in 0..self.jobs.max(1) {
                let (send, next, stop) = (send.clone(), &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end || send.send(self.run_seed(seed)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let saved = self.collect(&results, totals, &mut progress, &stop);
            // Whatever happened: the threads end with the seed they are at.
            stop.store(true, Ordering::Relaxed);
            saved
        })
    }

    /// Results come in any order; they are added in the order of the seeds, so that `next_seed` is
    /// always the truth.
    fn collect(
        &self,
        results: &mpsc::Receiver<Result>,
        totals: &mut Totals,
        progress: &mut impl FnMut(&Totals),
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut waiting = BTreeMap::new();
        let mut saved = Instant::now();
        for result in results {
            waiting.insert(result.outcome.seed, result);
            while let Some(result) = waiting.remove(&totals.next_seed) {
                totals.next_seed += 1;
                add(totals, result);
                progress(totals);
                if self.stop_at_failure && totals.failed > 0 {
                    stop.store(true, Ordering::Relaxed);
                    return Ok(());
                }
            }
            if saved.elapsed() > SAVE_EVERY {
                self.save(totals)?;
                saved = Instant::now();
            }
        }
        self.save(totals)
    }

    fn run_seed(&self, seed: u64) -> Result {
        let outcome = self.order.run(seed);
        let again = self.replay_every > 0
            && seed.is_multiple_of(self.replay_every)
            && !outcome.trace_hash.is_empty();
        let second_hash = again.then(|| self.order.run(seed).trace_hash);
        Result { outcome, second_hash }
    }

    fn save(&self, totals: &Totals) -> io::Result<()> {
        self.state.map_or(Ok(()), |path| save(path, totals))
    }
}

fn add(totals: &mut Totals, result: Result) {
    let Result { mut outcome, second_hash } = result;
    if let Some(second) = second_hash {
        totals.replayed += 1;
        if second == outcome.trace_hash {
            totals.replayed_equal += 1;
        } else {
            let detail =
                format!("trace {} the first time, {second} the second", outcome.trace_hash);
            let unequal = Outcome::failed(outcome.seed, "harness.determinism", detail);
            outcome.violations.extend(unequal.violations);
        }
    }
    totals.add(&outcome);
}

/// Replaces the file as a whole, or not at all.
fn save(path: &Path, totals: &Totals) -> io::Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, serde_json::to_vec_pretty(totals)?)?;
    fs::rename(&part, path)
}

/// The totals of earlier calls; a fresh start if there is no such file.
///
/// # Errors
/// The file cannot be read, is not a state file, or belongs to another scenario.
pub fn load(path: &Path, scenario: &str) -> io::Result<Totals> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Totals { scenario: scenario.to_owned(), ..Totals::default() });
        }
        Err(error) => return Err(error),
    };
    let totals: Totals = serde_json::from_slice(&bytes)?;
    if totals.scenario != scenario {
        let other = format!("the state file is of scenario `{}`", totals.scenario);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, other));
    }
    Ok(totals)
}
