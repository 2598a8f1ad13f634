//! From merged options to what is run: shortcuts become scenarios, scenarios become loads.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::units::Wrong;
use plan::{Executor, Load};

use super::executor::Check;
use super::from_json::SYSTEM_TAGS;
use super::level::Options;
use super::problem::{Findings, OptionsError, Place, Warning, plain};
use super::reader::join;
use super::scenario::{ExecutorKind, ScenarioOptions};
use super::segment::{self, Segment, Stripes};

/// How long a scenario runs that ends only when it is told to: long enough for every clock.
pub const ENDLESS: Duration = Duration::from_secs(1000 * 86_400);

const SYSTEM_TAGS_ON: usize = 14;
const TREND_STATS: [&str; 6] = ["avg", "min", "med", "max", "p(90)", "p(95)"];

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// In the order in which they start; at the same time, in the order of their names. A scenario
    /// without virtual users is left out.
    pub scenarios: Vec<Scenario>,
    /// As scripts see them: shortcuts are replaced by the scenario they stand for.
    pub options: Options,
    /// Which virtual users and iterations of the whole test are this instance's; `None`: all.
    pub stripes: Option<Stripes>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// The exported function; whether it exists is checked by whoever has the script.
    pub exec: String,
    pub env: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    pub load: Load,
    /// The number of virtual users is set from outside while it runs, up to `vus_max`; the load is
    /// what it starts with.
    pub externally_controlled: bool,
    pub vus_max: u32,
}

/// Checks merged options and makes loads of them.
pub fn resolve(options: Options) -> Result<(Resolved, Vec<Warning>), OptionsError> {
    let mut options = options;
    let mut findings = Findings::at(options.load_place.clone().unwrap_or(Place::Merged));
    let shape = shape(&options, &mut findings);
    let stripes = findings.check("executionSegment", stripes(&options));

    let mut scenarios = Vec::new();
    for (written, path) in &shape {
        let before = findings.problems.len();
        let mut check = Check { scenario: written, path, findings: &mut findings };
        let Some(load) = check.load(options.min_iteration_duration) else { continue };
        if findings.problems.len() > before {
            continue;
        }
        let Some(stripes) = &stripes else { continue };
        let part = findings.check(path, part(written, &load, stripes.as_ref())).flatten();
        let scenario = part.map(|load| scenario(written, load, stripes.as_ref()));
        let Some(scenario) = scenario.filter(|scenario| scenario.vus_max > 0) else {
            let message = format!("`{}` has no virtual users here, it is not run", written.name);
            findings.warn(path, plain(message));
            continue;
        };
        scenarios.push(scenario);
    }
    scenarios.sort_by(|a, b| (a.load.start_after, &a.name).cmp(&(b.load.start_after, &b.name)));
    if let Some(place) = &options.scenarios_replaced_by {
        let message = format!("all scenarios of lower levels are replaced by what the {place} set");
        findings.warn("scenarios", plain(message));
    }

    if let (Some(vus), Some(written)) = (options.vus, &options.scenarios) {
        findings.warn("vus", vus_apart(vus, written));
    }

    // Scripts see one form only, with the defaults that they may want to read.
    options.scenarios = Some(shape.into_iter().map(|(scenario, _)| scenario).collect());
    (options.vus, options.duration, options.iterations) = (None, None, None);
    options.stages = None;
    options.system_tags = Some(system_tags(options.system_tags.take()));
    let default_stats = || TREND_STATS.map(str::to_string).to_vec();
    options.summary_trend_stats.get_or_insert_with(default_stats);
    let stripes = stripes.flatten();
    findings.finish(Resolved { scenarios, options, stripes })
}

/// `vus` beside `scenarios`, which nobody reads.
fn vus_apart(vus: u32, scenarios: &[ScenarioOptions]) -> Wrong {
    let lacks = |one: &&ScenarioOptions| {
        let has_key = one.executor.keys().contains(&"vus");
        has_key && one.vus.is_none()
    };
    let message = "it has no effect beside `scenarios`";
    match scenarios.iter().find(lacks) {
        Some(one) => Wrong::new(
            message,
            format!(
                "write `vus: {vus}` into the scenario `{}` ({} takes 1 if it has none)",
                one.name,
                one.executor.name()
            ),
        ),
        None => Wrong::new(message, "each scenario has its own"),
    }
}

/// Known tags only, each once, in the order of their names.
fn system_tags(written: Option<Vec<String>>) -> Vec<String> {
    let defaults = || SYSTEM_TAGS[..SYSTEM_TAGS_ON].iter().map(|tag| tag.to_string()).collect();
    let mut tags: Vec<String> = written.unwrap_or_else(defaults);
    tags.retain(|tag| SYSTEM_TAGS.contains(&tag.as_str()));
    tags.sort();
    tags.dedup();
    tags
}

fn stripes(options: &Options) -> Result<Option<Stripes>, Wrong> {
    let segment = options.execution_segment.unwrap_or(Segment::WHOLE);
    let sequence = options.execution_segment_sequence.as_ref();
    if segment == Segment::WHOLE && sequence.is_none() {
        return Ok(None);
    }
    Stripes::new(segment, sequence).map(Some)
}

/// The scenarios that are asked for, each with the path its messages name.
fn shape(options: &Options, findings: &mut Findings) -> Vec<(ScenarioOptions, String)> {
    let stages = options.stages.as_ref().filter(|stages| !stages.is_empty());
    let set = [
        ("iterations", options.iterations.is_some()),
        ("duration", options.duration.is_some()),
        ("stages", stages.is_some()),
        ("scenarios", options.scenarios.is_some()),
    ];
    let set: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    // A duration beside iterations is their time limit.
    if set.len() > 1 && set != ["iterations", "duration"] {
        let message = format!("`{}` cannot be set together", set.join("`, `"));
        findings.wrong(set[0], Wrong::new(message, "keep one of them"));
        return Vec::new();
    }
    let mut default = ScenarioOptions::new("default", ExecutorKind::PerVuIterations);
    default.vus = options.vus;
    if options.iterations.is_some() {
        default.executor = ExecutorKind::SharedIterations;
        default.iterations = options.iterations;
        default.max_duration = options.duration;
    } else if options.duration.is_some() {
        default.executor = ExecutorKind::ConstantVus;
        default.duration = options.duration;
    } else if stages.is_some() {
        default.executor = ExecutorKind::RampingVus;
        default.start_vus = default.vus.take();
        default.stages = stages.cloned();
    } else {
        match &options.scenarios {
            Some(scenarios) if !scenarios.is_empty() => {
                let with_path = |s: &ScenarioOptions| (s.clone(), join("scenarios", &s.name));
                return scenarios.iter().map(with_path).collect();
            }
            _ => without_load(options, &mut default, findings),
        }
    }
    vec![(default, String::new())]
}

/// `vus` alone: each of them runs one iteration, out of one pile. Nothing at all: one iteration.
fn without_load(options: &Options, default: &mut ScenarioOptions, findings: &mut Findings) {
    let once = "it is empty: one VU runs one iteration";
    if options.stages.is_some() {
        findings.warn("stages", plain(once));
    }
    if options.scenarios.is_some() {
        findings.warn("scenarios", plain(once));
    }
    match options.vus {
        Some(0) => {
            let message = "0 VUs without iterations, duration or stages: one VU runs one iteration";
            findings.warn("vus", plain(message));
            default.vus = None;
        }
        Some(vus) => {
            default.executor = ExecutorKind::SharedIterations;
            default.iterations = Some(u64::from(vus));
        }
        None => {}
    }
}

/// This instance's part of a load.
fn part(
    written: &ScenarioOptions,
    load: &Load,
    stripes: Option<&Stripes>,
) -> Result<Option<Load>, Wrong> {
    match (stripes, &load.executor) {
        (None, _) => Ok(Some(load.clone())),
        // It may begin without a virtual user, and get some later.
        (Some(stripes), Executor::ConstantVus { vus, duration })
            if written.executor == ExecutorKind::ExternallyControlled =>
        {
            let vus = stripes.share(u64::from(*vus)) as u32;
            let executor = Executor::ConstantVus { vus, duration: *duration };
            Ok(Some(Load { executor, ..load.clone() }))
        }
        (Some(stripes), _) => segment::cut(load, stripes),
    }
}

fn scenario(written: &ScenarioOptions, load: Load, stripes: Option<&Stripes>) -> Scenario {
    let externally_controlled = written.executor == ExecutorKind::ExternallyControlled;
    let vus_max = if externally_controlled {
        let all = written.max_vus.or(written.vus).unwrap_or(0);
        stripes.map_or(all, |stripes| stripes.share(u64::from(all)) as u32)
    } else {
        schedule::vus_max(&load)
    };
    Scenario {
        name: written.name.clone(),
        exec: written.exec.clone().unwrap_or_else(|| "default".to_string()),
        env: written.env.clone().unwrap_or_default(),
        tags: written.tags.clone().unwrap_or_default(),
        load,
        externally_controlled,
        vus_max,
    }
}
