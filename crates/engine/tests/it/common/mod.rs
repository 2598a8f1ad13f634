//! Runs plans through the engine's public door, and reads the books afterwards.

pub mod certificates;
pub mod frames;
pub mod process;
pub mod recording;
pub mod servers;
pub mod tls_front;

use std::path::Path;
use std::time::{Duration, Instant};

use engine::{Conductor, Controller, RunOptions};
use plan::{Format, Plan, ReadOptions};
use stats::{
    CheckCount, ErrorKind, RunResult, Sample, StepStats, WorkflowStatus, totals,
    totals::IterationTotal,
};
use target::{Counts, RunningTarget, Target, TargetConfig};

/// A plan as text, in YAML; `TARGET` stands for the server's address.
pub fn read(text: &str, target: &str, folder: &Path) -> Plan {
    let text = text.replace("TARGET", target);
    let options = ReadOptions::new(&|_| None);
    plan::read_str(&text, Format::Yaml, folder, &options)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// How a test runs its plan.
pub struct Runner<'a> {
    pub target: String,
    pub cores: usize,
    pub folder: &'a Path,
}

impl Runner<'_> {
    pub fn to(target: impl Into<String>) -> Runner<'static> {
        Runner { target: target.into(), cores: 1, folder: Path::new(".") }
    }

    pub fn cores(self, cores: usize) -> Self {
        Runner { cores, ..self }
    }

    pub fn start(&self, plan: &str) -> (Conductor, Controller) {
        let plan = read(plan, &self.target, self.folder);
        let options = RunOptions { cores: Some(self.cores), ..RunOptions::default() };
        Conductor::new(plan, options).expect("the plan compiles")
    }

    pub fn run(&self, plan: &str) -> Run {
        let (conductor, _controller) = self.start(plan);
        Run(conductor.run(&mut |_| {}).expect("the run starts"))
    }

    /// As `run`, and every request, iteration and check one by one.
    pub fn run_sampled(&self, plan: &str) -> (Run, Vec<Sample>) {
        let (mut conductor, _controller) = self.start(plan);
        let samples = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let sink = samples.clone();
        conductor.set_sample_sink(std::sync::Arc::new(move |batch| {
            sink.lock().unwrap().extend(batch);
            true
        }));
        let run = Run(conductor.run(&mut |_| {}).expect("the run starts"));
        let samples = std::mem::take(&mut *samples.lock().unwrap());
        (run, samples)
    }
}

/// The built-in server on a free port; stopped when dropped.
pub fn target() -> RunningTarget {
    Target::start(TargetConfig::default()).expect("a free port")
}

pub fn url(target: &RunningTarget) -> String {
    format!("http://{}", target.addr())
}

/// A plan with one workflow `w` of this load and these steps, against `TARGET`.
pub fn plan(load: &str, steps: &str) -> String {
    plan_with("", load, steps)
}

/// The same with settings: `timeout: 1s, version: 2`.
pub fn plan_with(defaults: &str, load: &str, steps: &str) -> String {
    format!(
        "target: TARGET\n\
         defaults: {{ {defaults} }}\n\
         workflows: [ {{ name: w, load: {{ {load} }}, steps: [ {steps} ] }} ]\n"
    )
}

/// A result, with short ways to its numbers.
pub struct Run(pub RunResult);

impl Run {
    pub fn total(&self) -> StepStats {
        let total = totals::grand_total(&self.0.totals, &self.0.layout);
        let broken = broken(&total);
        assert_eq!(
            total.requests,
            total.completed + broken + total.interrupted + total.retried,
            "each request counts once: {}",
            describe(&total)
        );
        total
    }

    pub fn step(&self, name: &str) -> StepStats {
        let steps = &self.0.layout.steps;
        let step = steps.iter().position(|step| step.name == name);
        let step = step.unwrap_or_else(|| panic!("no step {name} in {steps:?}"));
        totals::step_total(&self.0.totals, &self.0.layout, step)
    }

    pub fn iterations(&self) -> IterationTotal {
        totals::iterations(&self.0.totals, &self.0.layout, None)
    }

    /// Passes and fails of the check with this name, over all steps.
    pub fn check(&self, name: &str) -> CheckCount {
        let counts = totals::checks(&self.0.totals, &self.0.layout);
        let named = self.0.layout.checks.iter().zip(counts).filter(|(check, _)| check.name == name);
        let sum = named
            .map(|(_, count)| count)
            .reduce(|a, b| CheckCount { passes: a.passes + b.passes, fails: a.fails + b.fails });
        sum.unwrap_or_else(|| panic!("no check {name} in {:?}", self.0.layout.checks))
    }

    /// All checks passed, each at least once.
    pub fn assert_checks(&self) {
        let counts = totals::checks(&self.0.totals, &self.0.layout);
        assert!(!counts.is_empty(), "the plan has no checks");
        for (check, count) in self.0.layout.checks.iter().zip(counts) {
            let CheckCount { passes, fails } = count;
            assert!(passes > 0 && fails == 0, "{}: {passes} passed, {fails} failed", check.name);
        }
    }

    pub fn errors(&self, kind: ErrorKind) -> u64 {
        self.total().errors[kind as usize]
    }

    pub fn status(&self, workflow: &str) -> &WorkflowStatus {
        let found = self.0.workflows.iter().find(|known| known.name == workflow);
        &found.expect("such a workflow").status
    }

    pub fn message(&self, kind: ErrorKind) -> String {
        let found = self.0.error_samples.iter().find(|sample| sample.kind == kind);
        found.map(|sample| sample.message.clone()).unwrap_or_default()
    }

    pub fn says(&self, event: &str) -> bool {
        self.0.timeline.iter().any(|entry| entry.event.contains(event))
    }

    /// Nothing failed, and something was done.
    pub fn assert_clean(&self) -> &Run {
        let total = self.total();
        assert!(total.requests > 0, "no request was made; {:?}", self.0.timeline);
        let samples = &self.0.error_samples;
        assert_eq!(total.failed, 0, "{} {samples:?}", describe(&total));
        self
    }

    /// The generator's counts and the target's say the same.
    pub fn assert_seen_by(&self, target: &RunningTarget) {
        let total = self.total();
        // The last requests of an interrupted run may still be on their way into the server.
        let seen = eventually(|| target.counts(), |counts: &Counts| counts.total >= total.sent);
        assert_eq!(total.sent, seen.total, "{} against {seen:?}", describe(&total));
        assert!(total.sent > 0, "nothing was sent");
    }
}

/// Exchanges that ended without a complete answer. A wrong status has one, and so have a redirect
/// too many and an answer that lacks what is wanted.
pub fn broken(total: &StepStats) -> u64 {
    let answered = [ErrorKind::Status, ErrorKind::Redirect, ErrorKind::Extract];
    let broken = ErrorKind::ALL.iter().filter(|kind| !answered.contains(kind));
    broken.map(|kind| total.errors[*kind as usize]).sum()
}

pub fn describe(total: &StepStats) -> String {
    let errors: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| (kind.name(), total.errors[*kind as usize]))
        .filter(|(_, count)| *count > 0)
        .collect();
    format!(
        "requests {} sent {} completed {} failed {} interrupted {} retried {} status {:?} errors {errors:?}",
        total.requests,
        total.sent,
        total.completed,
        total.failed,
        total.interrupted,
        total.retried,
        total.status.iter().collect::<Vec<_>>(),
    )
}

/// Asks until the answer is good, or for a few seconds; the last answer.
pub fn eventually<T>(mut ask: impl FnMut() -> T, good: impl Fn(&T) -> bool) -> T {
    let until = Instant::now() + Duration::from_secs(3);
    loop {
        let answer = ask();
        if good(&answer) || Instant::now() > until {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
