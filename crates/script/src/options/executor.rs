//! One scenario's keys, checked, become the load of its executor.
//!
//! All problems of a scenario are noted before it is given up, each with the key that is wrong.

use std::time::Duration;

use plan::units::Wrong;
use plan::{Executor, Load, Rate, Span, Stage};

use super::level::StageOptions;
use super::problem::{Findings, plain};
use super::reader::join;
use super::resolve::ENDLESS;
use super::scenario::{ExecutorKind, ScenarioOptions};
use super::values::duration_text;

const GRACEFUL_STOP: Duration = Duration::from_secs(30);
const GRACEFUL_RAMP_DOWN: Duration = Duration::from_secs(30);
const MAX_DURATION: Duration = Duration::from_secs(600);
const TIME_UNIT: Duration = Duration::from_secs(1);

/// Shorter runs measure nothing but their own start; k6 refuses them too.
const DURATION_MIN: Duration = Duration::from_secs(1);

/// Checks one scenario on the way to its load; all problems are noted.
pub(super) struct Check<'a> {
    pub scenario: &'a ScenarioOptions,
    pub path: &'a str,
    pub findings: &'a mut Findings,
}

impl Check<'_> {
    pub fn load(&mut self, min_iteration_duration: Option<Duration>) -> Option<Load> {
        let scenario = self.scenario;
        let external = scenario.executor == ExecutorKind::ExternallyControlled;
        if external && scenario.graceful_stop.is_some() {
            self.wrong("gracefulStop", plain("externally-controlled does not have it"));
        }
        let graceful_stop = if external { Duration::ZERO } else { GRACEFUL_STOP };
        let executor = self.executor()?;
        // Where arrivals decide when iterations start, there is nothing to pace.
        let open = matches!(
            executor,
            Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. }
        );
        let pacing = min_iteration_duration.filter(|time| !open && !time.is_zero());
        Some(Load {
            executor,
            start_after: scenario.start_time.unwrap_or_default(),
            graceful_stop: scenario.graceful_stop.unwrap_or(graceful_stop),
            warmup: None,
            pacing: pacing.map(|time| Span { min: time, max: time }),
        })
    }

    fn executor(&mut self) -> Option<Executor> {
        let scenario = self.scenario;
        match scenario.executor {
            ExecutorKind::SharedIterations => {
                let (vus, iterations) = (self.vus()?, scenario.iterations.unwrap_or(1));
                if iterations < u64::from(vus) {
                    let message = format!("{iterations} iterations are less than the {vus} VUs");
                    let help = "every VU needs at least one: raise iterations or lower vus";
                    self.wrong("iterations", Wrong::new(message, help));
                }
                let max_duration = self.max_duration();
                Some(Executor::SharedIterations { vus, iterations, max_duration })
            }
            ExecutorKind::PerVuIterations => {
                let (vus, iterations) = (self.vus()?, scenario.iterations.unwrap_or(1));
                if iterations == 0 {
                    self.wrong("iterations", plain("the number must be more than 0"));
                }
                let max_duration = self.max_duration();
                Some(Executor::PerVuIterations { vus, iterations, max_duration })
            }
            ExecutorKind::ConstantVus => {
                let (vus, duration) = (self.vus(), self.duration());
                Some(Executor::ConstantVus { vus: vus?, duration: duration? })
            }
            ExecutorKind::RampingVus => self.ramping_vus(),
            ExecutorKind::ConstantArrivalRate => self.constant_arrival_rate(),
            ExecutorKind::RampingArrivalRate => self.ramping_arrival_rate(),
            ExecutorKind::ExternallyControlled => self.externally_controlled(),
        }
    }

    fn ramping_vus(&mut self) -> Option<Executor> {
        let start = self.scenario.start_vus.unwrap_or(1);
        let stages = self.stages()?;
        if start == 0 && stages.iter().all(|(_, target)| *target == 0) {
            let help = "set startVUs or a stage's target above 0";
            self.wrong("stages", Wrong::new("there is never a virtual user", help));
            return None;
        }
        let mut steps = Vec::with_capacity(stages.len());
        for (index, (over, target)) in stages.into_iter().enumerate() {
            match u32::try_from(target) {
                Ok(to) => steps.push(Stage { name: None, to, over }),
                Err(_) => {
                    let message = format!("{target} virtual users are too many");
                    self.wrong(&format!("stages[{index}].target"), plain(message));
                }
            }
        }
        let graceful_ramp_down = self.scenario.graceful_ramp_down.unwrap_or(GRACEFUL_RAMP_DOWN);
        Some(Executor::RampingVus { start, stages: steps, graceful_ramp_down })
    }

    fn constant_arrival_rate(&mut self) -> Option<Executor> {
        let per = self.time_unit();
        match self.scenario.rate {
            Some(0) => self.wrong("rate", plain("the rate must be more than 0")),
            Some(_) => {}
            None => self.missing("rate", "add the iterations to start per timeUnit: rate: 100"),
        }
        let (duration, users) = (self.duration(), self.arrival_vus());
        let (events, (vus, max_vus)) = (self.scenario.rate?, users?);
        let (vus, max_vus) = (Some(vus), Some(max_vus));
        let rate = Rate { events, per: per? };
        Some(Executor::ConstantArrivalRate { rate, duration: duration?, vus, max_vus })
    }

    fn ramping_arrival_rate(&mut self) -> Option<Executor> {
        let (per, stages, users) = (self.time_unit(), self.stages(), self.arrival_vus());
        let (per, (vus, max_vus)) = (per?, users?);
        let rate = |events: u64| Rate { events, per };
        let stage = |(over, target): (Duration, u64)| Stage { name: None, to: rate(target), over };
        Some(Executor::RampingArrivalRate {
            start: rate(self.scenario.start_rate.unwrap_or(0)),
            stages: stages?.into_iter().map(stage).collect(),
            vus: Some(vus),
            max_vus: Some(max_vus),
        })
    }

    fn externally_controlled(&mut self) -> Option<Executor> {
        let vus = self.scenario.vus.unwrap_or(0);
        if let Some(max_vus) = self.scenario.max_vus
            && vus > max_vus
        {
            let message = format!("{vus} VUs are more than the {max_vus} of maxVUs");
            self.wrong("vus", Wrong::new(message, "raise maxVUs"));
        }
        let Some(duration) = self.scenario.duration else {
            self.missing("duration", "add duration: '10m', or '0' for a run without an end");
            return None;
        };
        let duration = if duration.is_zero() { ENDLESS } else { duration };
        Some(Executor::ConstantVus { vus, duration })
    }

    fn vus(&mut self) -> Option<u32> {
        let vus = self.scenario.vus.unwrap_or(1);
        if vus == 0 {
            self.wrong("vus", plain("the number of virtual users must be more than 0"));
        }
        Some(vus)
    }

    fn duration(&mut self) -> Option<Duration> {
        let Some(duration) = self.scenario.duration else {
            self.missing("duration", "add how long it runs: duration: '30s'");
            return None;
        };
        self.long_enough("duration", duration);
        Some(duration)
    }

    fn max_duration(&mut self) -> Duration {
        let max_duration = self.scenario.max_duration.unwrap_or(MAX_DURATION);
        // The shortcut's time limit is written as `duration`.
        let key = if self.path.is_empty() { "duration" } else { "maxDuration" };
        self.long_enough(key, max_duration);
        max_duration
    }

    fn long_enough(&mut self, key: &str, duration: Duration) {
        if duration < DURATION_MIN {
            let message = format!("{} is too short", duration_text(duration));
            self.wrong(key, Wrong::new(message, "write at least 1s"));
        }
    }

    fn time_unit(&mut self) -> Option<Duration> {
        let per = self.scenario.time_unit.unwrap_or(TIME_UNIT);
        if per.is_zero() {
            self.wrong("timeUnit", Wrong::new("the time must be more than 0", "write '1s'"));
            return None;
        }
        Some(per)
    }

    fn arrival_vus(&mut self) -> Option<(u32, u32)> {
        let Some(vus) = self.scenario.pre_allocated_vus else {
            self.missing("preAllocatedVUs", "add how many VUs to prepare: preAllocatedVUs: 10");
            return None;
        };
        let max_vus = self.scenario.max_vus.unwrap_or(vus);
        if max_vus < vus {
            let message = format!("{max_vus} is less than the {vus} of preAllocatedVUs");
            self.wrong("maxVUs", Wrong::new(message, "raise maxVUs, or leave it out"));
        }
        Some((vus, max_vus))
    }

    fn stages(&mut self) -> Option<Vec<(Duration, u64)>> {
        let written: &[StageOptions] = self.scenario.stages.as_deref().unwrap_or_default();
        if written.is_empty() {
            self.missing("stages", "add at least one: stages: [{ duration: '30s', target: 10 }]");
            return None;
        }
        let mut stages = Vec::with_capacity(written.len());
        for (index, stage) in written.iter().enumerate() {
            if stage.duration.is_none() {
                self.missing(&format!("stages[{index}].duration"), "add duration: '30s'");
            }
            if stage.target.is_none() {
                self.missing(&format!("stages[{index}].target"), "add target: 10");
            }
            stages.push((stage.duration.unwrap_or_default(), stage.target.unwrap_or_default()));
        }
        Some(stages)
    }

    fn missing(&mut self, key: &str, help: &str) {
        self.wrong(key, Wrong::new("it is missing", help));
    }

    fn wrong(&mut self, key: &str, wrong: Wrong) {
        // Shortcuts have another name for one key.
        let key = if self.path.is_empty() && key == "startVUs" { "vus" } else { key };
        self.findings.wrong(join(self.path, key), wrong);
    }
}
