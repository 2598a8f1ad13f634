//! The figures of failure detection: which are measured, what they have to be.
//!
//! The same seeds run with Lifeguard on and off; the second is the baseline that the first is
//! measured against. Each experiment is a job of its own, so that they can run side by side.

mod show;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::membership::Lifeguard;
use serde::Serialize;

use super::figures::{self, Cost, Detection, Heal, Lossy, Paused, Stalls, percentile};
use super::world::Fault;

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many members are stalled at a time.
    pub stalled: Vec<usize>,
    pub members: usize,
    pub sizes: Vec<usize>,
    pub victims: usize,
    /// How long loss lasts at 0, 5 and 30 %.
    pub lossy: [Duration; 3],
    /// Only this one.
    pub only: Option<Experiment>,
    /// Only experiments with so many members.
    pub only_members: Option<usize>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    Stalls,
    Detection,
    Heal,
    Loss,
    Cost,
    Pause,
}

impl Options {
    /// All that was promised.
    #[must_use]
    pub fn full() -> Self {
        let (stalled, sizes) = (vec![1, 4, 8, 16, 32], vec![16, 128, 1024]);
        let day = Duration::from_secs(86_400);
        let lossy = [day, day, day / 24];
        Self { stalled, members: 128, sizes, victims: 60, lossy, only: None, only_members: None }
    }

    /// How many there are to make for each seed.
    #[must_use]
    pub fn experiments(&self) -> usize {
        jobs(self).len()
    }

    /// A taste of each, in seconds.
    #[must_use]
    pub fn quick() -> Self {
        let time = Duration::from_secs(600);
        let (stalled, sizes, lossy) = (vec![4], vec![16, 64], [time; 3]);
        Self { stalled, members: 32, sizes, victims: 8, lossy, only: None, only_members: None }
    }
}

/// Who has which part of Lifeguard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Switch {
    Off,
    On,
    /// On, with the default patience of alpha 4 against the baseline's 5.
    OnAlpha4,
}

impl Switch {
    fn alpha(self) -> f64 {
        if self == Self::OnAlpha4 { 4.0 } else { 5.0 }
    }

    fn lifeguard(self) -> Lifeguard {
        if self == Self::Off { Lifeguard::OFF } else { Lifeguard::ON }
    }
}

/// One experiment.
#[derive(Clone, Debug)]
enum Job {
    Stalls(Fault, usize, Switch),
    /// Members, tenths of alpha, Lifeguard on.
    Detection(usize, u32, bool),
    Heal(usize),
    Lossy(f64, Duration),
    Cost(usize),
    Pause,
}

impl Job {
    fn experiment(&self) -> Experiment {
        match self {
            Self::Stalls(..) => Experiment::Stalls,
            Self::Detection(..) => Experiment::Detection,
            Self::Heal(_) => Experiment::Heal,
            Self::Lossy(..) => Experiment::Loss,
            Self::Cost(_) => Experiment::Cost,
            Self::Pause => Experiment::Pause,
        }
    }
}

/// What it found.
enum Found {
    Stalls(Stalls),
    Detection(Detection),
    Heal(Heal),
    Lossy(Lossy),
    Cost(Cost),
    Pause(Paused),
}

/// Everything that was found. Stalls and detections add up over the seeds; the rest is listed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub seeds: Vec<u64>,
    pub stalls: Vec<StallRow>,
    pub detections: Vec<Detection>,
    pub heals: Vec<Heal>,
    pub losses: Vec<Lossy>,
    pub costs: Vec<Cost>,
    pub pauses: Vec<Paused>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct StallRow {
    pub fault: Fault,
    pub stalled: usize,
    pub switch: Switch,
    pub found: Stalls,
}

/// So many members are under loss.
const LOSSY_MEMBERS: usize = 16;

fn jobs(options: &Options) -> Vec<Job> {
    let mut jobs = Vec::new();
    for &size in options.sizes.iter().rev() {
        jobs.extend([Job::Cost(size), Job::Detection(size, 40, true)]);
        jobs.push(Job::Detection(size, 50, true));
    }
    let members = options.members;
    jobs.extend([Job::Detection(members, 50, false), Job::Detection(members, 20, true)]);
    jobs.extend([Job::Detection(64, 40, true), Job::Pause]);
    jobs.extend(options.sizes.iter().filter(|size| **size <= 256).map(|size| Job::Heal(*size)));
    let [none, some, much] = options.lossy;
    jobs.extend([Job::Lossy(0.0, none), Job::Lossy(0.05, some), Job::Lossy(0.3, much)]);
    for fault in [Fault::Receive, Fault::Both] {
        for &stalled in &options.stalled {
            let switches = [Switch::Off, Switch::On, Switch::OnAlpha4];
            jobs.extend(switches.map(|switch| Job::Stalls(fault, stalled, switch)));
        }
    }
    jobs.retain(|job| options.only.is_none_or(|only| job.experiment() == only));
    let size = |job: &Job| match *job {
        Job::Detection(size, ..) | Job::Heal(size) | Job::Cost(size) => size,
        Job::Stalls(..) | Job::Pause => members,
        Job::Lossy(..) => LOSSY_MEMBERS,
    };
    jobs.retain(|job| options.only_members.is_none_or(|only| size(job) == only));
    jobs
}

fn perform(job: &Job, seed: u64, options: &Options) -> Found {
    let victims = |size: usize| options.victims.min(if size > 256 { 30 } else { usize::MAX });
    match *job {
        Job::Stalls(fault, stalled, switch) => {
            let (alpha, lifeguard) = (switch.alpha(), switch.lifeguard());
            let stalls = figures::stalls(seed, options.members, stalled, fault, alpha, lifeguard);
            Found::Stalls(stalls)
        }
        Job::Detection(size, alpha, on) => {
            let alpha = f64::from(alpha) / 10.0;
            let lifeguard = if on { Lifeguard::ON } else { Lifeguard::OFF };
            Found::Detection(figures::detection(seed, size, victims(size), alpha, lifeguard))
        }
        Job::Heal(size) => Found::Heal(figures::heal(seed, size)),
        Job::Lossy(loss, time) => Found::Lossy(figures::lossy(seed, LOSSY_MEMBERS, loss, time)),
        Job::Cost(size) => Found::Cost(figures::cost(seed, size)),
        Job::Pause => Found::Pause(figures::pause(seed, options.members)),
    }
}

/// Measures everything for each seed, with so many threads. `progress` hears of each job that is
/// done.
///
/// The same seeds and options give the same report, but for the processor time.
pub fn run(
    seeds: &[u64],
    options: &Options,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Report {
    let jobs = jobs(options);
    let orders: Vec<(u64, &Job)> =
        seeds.iter().flat_map(|seed| jobs.iter().map(move |job| (*seed, job))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((seed, job)) = orders.get(number) else { return };
                    let found = perform(job, *seed, options);
                    let Ok(mut done) = done.lock() else { return };
                    done.insert(number, (*job, found));
                    progress(done.len(), orders.len());
                }
            });
        }
    });
    let mut report = Report { seeds: seeds.to_vec(), ..Report::default() };
    let done = done.into_inner().unwrap_or_default();
    done.into_values().for_each(|(job, found)| report.take(job, found));
    report
}

impl Report {
    fn take(&mut self, job: &Job, found: Found) {
        match (job, found) {
            (Job::Stalls(fault, stalled, switch), Found::Stalls(found)) => {
                let (fault, stalled, switch) = (*fault, *stalled, *switch);
                let is_row = |row: &&mut StallRow| {
                    (row.fault, row.stalled, row.switch) == (fault, stalled, switch)
                };
                match self.stalls.iter_mut().find(is_row) {
                    Some(row) => row.found.add(found),
                    None => self.stalls.push(StallRow { fault, stalled, switch, found }),
                }
            }
            (_, Found::Detection(found)) => {
                let key = |d: &Detection| (d.members, d.alpha.to_bits(), d.lifeguard);
                match self.detections.iter_mut().find(|d| key(d) == key(&found)) {
                    Some(row) => row.add(found),
                    None => self.detections.push(found),
                }
            }
            (_, Found::Heal(found)) => self.heals.push(found),
            (_, Found::Lossy(found)) => self.losses.push(found),
            (_, Found::Cost(found)) => self.costs.push(found),
            (_, Found::Pause(found)) => self.pauses.push(found),
            (_, Found::Stalls(_)) => {}
        }
    }

    /// All rows of a switch that `choose` takes, added up.
    fn total(&self, switch: Switch, choose: impl Fn(&StallRow) -> bool) -> Stalls {
        let mut total = Stalls::default();
        let rows = self.stalls.iter().filter(|row| row.switch == switch && choose(row));
        rows.for_each(|row| total.add(row.found));
        total
    }

    /// Everything that is not as it has to be. Empty is good.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                found.push(what);
            }
        };
        let off = self.total(Switch::Off, |_| true);
        let on = self.total(Switch::On, |_| true);
        let alpha4 = self.total(Switch::OnAlpha4, |_| true);
        for (part, whole, bound, what) in [
            (on.false_deaths, off.false_deaths, 2.0, "false deaths"),
            (on.at_healthy, off.at_healthy, 2.0, "false deaths at healthy members"),
            (alpha4.false_deaths, off.false_deaths, 5.0, "false deaths at alpha 4"),
            (on.datagrams, off.datagrams, 112.0, "messages"),
            (on.bytes, off.bytes, 105.0, "bytes"),
        ] {
            let share = percent(part, whole);
            must(share <= bound, format!("{what}: {share:.2} % of the baseline, not {bound} %"));
        }
        for d in self.detections.iter().filter(|d| d.lifeguard) {
            let (n, alpha) = (d.members, d.alpha);
            // The median of some dozens of victims is off by a few percent.
            let p50_max = d.predicted_p50 * 1.05;
            let p50 = percentile(&d.all, 0.5);
            must(p50 <= p50_max, format!("n {n}, alpha {alpha}: median above the formula's"));
            let p99 = percentile(&d.all, 0.99);
            must(p99 <= d.predicted_p99, format!("n {n}, alpha {alpha}: p99 above the formula's"));
            must(
                d.false_deaths == 0,
                format!("n {n}, alpha {alpha}: false deaths while detecting"),
            );
        }
        for (d, share, bound) in self.against_baseline() {
            must(share <= bound, format!("alpha {}: {share:.0} % of the baseline", d.alpha));
        }
        for heal in &self.heals {
            let is_in = heal.merged.is_some_and(|merged| merged <= heal.bound);
            must(is_in, format!("{} members had not merged in time after the split", heal.members));
        }
        for loss in &self.losses {
            let name = format!("{:.0} % loss", loss.loss * 100.0);
            must(loss.false_deaths == 0, format!("{name}: {} false deaths", loss.false_deaths));
            must(loss.converged.is_some(), format!("{name}: no convergence afterwards"));
            let is_quiet = loss.loss > 0.05 || loss.suspicions <= 1.0;
            must(is_quiet, format!("{name}: {:.2} suspicions per member-hour", loss.suspicions));
        }
        for (what, value) in FLAT {
            let values: Vec<f64> = self.costs.iter().map(value).collect();
            let most = values.iter().copied().fold(0.0, f64::max);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            must(
                most <= least * FLAT_FACTOR,
                format!("{what} is not flat: {least:.1} to {most:.1}"),
            );
        }
        for pause in &self.pauses {
            must(pause.before_drained == 0, "deaths declared before the socket was read".into());
            must(pause.after_drained == 0, "a resumed process declared false deaths".into());
        }
        found
    }

    /// Median full detection against the baseline of alpha 5 without Lifeguard: which, how much of
    /// it, and the bound.
    fn against_baseline(&self) -> Vec<(&Detection, f64, f64)> {
        let Some(baseline) = self.detections.iter().find(|d| !d.lifeguard) else {
            return Vec::new();
        };
        let same = self.detections.iter().filter(|d| d.lifeguard && d.members == baseline.members);
        same.filter_map(|d| {
            let bounds = [(5.0, 105.0), (4.0, 88.0), (2.0, 62.0)];
            let bound = bounds.into_iter().find(|(alpha, _)| *alpha == d.alpha)?.1;
            let median = |d: &Detection| percentile(&d.all, 0.5);
            Some((d, median(d) / median(baseline) * 100.0, bound))
        })
        .collect()
    }
}

type Measure = fn(&Cost) -> f64;

/// What has to be about the same for every size, and by how much it may differ. The processor's
/// time does a little: a digest is a walk over the table, and so is the core's look for a member.
const FLAT: [(&str, Measure); 3] = [
    ("messages", |cost| cost.datagrams),
    ("bytes", |cost| cost.bytes + cost.exchanged_bytes),
    ("processor time", |cost| cost.cpu_us),
];
const FLAT_FACTOR: f64 = 1.5;

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Options {
        let time = Duration::from_secs(60);
        let (stalled, sizes, lossy) = (vec![3], vec![8, 16], [time; 3]);
        Options { stalled, members: 16, sizes, victims: 2, lossy, only: None, only_members: None }
    }

    /// Whatever has to be counted is counted, and the same seed gives the same figures but for the
    /// processor's time.
    #[test]
    fn every_experiment_reports_and_repeats() {
        let mut reports = [1, 2].map(|threads| run(&[7], &tiny(), threads, &|_, _| {}));
        for report in &mut reports {
            assert!(report.costs.iter().all(|cost| cost.cpu_us > 0.0 && cost.datagrams > 1.0));
            report.costs.iter_mut().for_each(|cost| cost.cpu_us = 0.0);
        }
        let [first, second] = reports.map(|report| serde_json::to_string(&report).unwrap());
        assert_eq!(first, second);
    }

    /// A paused process judges nobody before it has read its socket; halves merge in time.
    #[test]
    fn a_pause_and_a_split_do_no_lasting_harm() {
        let pause = figures::pause(3, 12);
        assert_eq!((pause.before_drained, pause.after_drained), (0, 0));
        assert!(pause.converged.is_some());
        let heal = figures::heal(3, 12);
        assert!(heal.buried > 0 && heal.merged.is_some_and(|merged| merged <= heal.bound));
    }

    /// Deaths of several seeds are one sample.
    #[test]
    fn detections_of_all_seeds_are_judged_together() {
        let of = |deaths: usize, time: f64| {
            let (all, predicted_p50, predicted_p99) = (vec![time; deaths], 2.0, 5.0);
            Detection { all, predicted_p50, predicted_p99, lifeguard: true, ..Detection::default() }
        };
        let mut report = Report { detections: vec![of(200, 1.0)], ..Report::default() };
        report.take(&Job::Detection(0, 0, true), Found::Detection(of(1, 9.0)));
        assert_eq!(report.violations(), Vec::<String>::new());
        report.take(&Job::Detection(0, 0, true), Found::Detection(of(4, 9.0)));
        assert_eq!(report.violations(), ["n 0, alpha 0: p99 above the formula's"]);
        assert_eq!(report.detections.len(), 1);
    }

    /// A figure that is missed is named.
    #[test]
    fn what_is_not_met_is_said() {
        let row = |switch, false_deaths| StallRow {
            fault: Fault::Receive,
            stalled: 1,
            switch,
            found: Stalls { false_deaths, ..Stalls::default() },
        };
        let good = Report {
            stalls: vec![row(Switch::Off, 100), row(Switch::On, 2), row(Switch::OnAlpha4, 5)],
            ..Report::default()
        };
        assert_eq!(good.violations(), Vec::<String>::new());
        let bad = Report { stalls: vec![row(Switch::Off, 100), row(Switch::On, 3)], ..good };
        assert_eq!(bad.violations(), ["false deaths: 3.00 % of the baseline, not 2 %"]);
        assert!(bad.to_string().contains("NOT MET"));
    }
}
