//! A scenario as written: which executor, and the keys that this executor has.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::units::Wrong;
use serde_json::Value;

use super::level::StageOptions;
use super::problem::{Findings, suggestion};
use super::reader::{self, Object};
use super::values;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorKind {
    SharedIterations,
    PerVuIterations,
    ConstantVus,
    RampingVus,
    ConstantArrivalRate,
    RampingArrivalRate,
    ExternallyControlled,
}

/// Keys that every executor has.
const COMMON_KEYS: [&str; 7] =
    ["executor", "startTime", "gracefulStop", "env", "exec", "tags", "options"];

impl ExecutorKind {
    pub(super) const NAMES: [(&'static str, ExecutorKind); 7] = [
        ("shared-iterations", ExecutorKind::SharedIterations),
        ("per-vu-iterations", ExecutorKind::PerVuIterations),
        ("constant-vus", ExecutorKind::ConstantVus),
        ("ramping-vus", ExecutorKind::RampingVus),
        ("constant-arrival-rate", ExecutorKind::ConstantArrivalRate),
        ("ramping-arrival-rate", ExecutorKind::RampingArrivalRate),
        ("externally-controlled", ExecutorKind::ExternallyControlled),
    ];

    pub fn parse(text: &str) -> Result<ExecutorKind, Wrong> {
        let found = ExecutorKind::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let known = ExecutorKind::NAMES.map(|(name, _)| name);
            let message = format!("there is no executor `{}`", values::shorten(text));
            Wrong::new(message, suggestion(text, &known))
        })
    }

    pub fn name(self) -> &'static str {
        let found = ExecutorKind::NAMES.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }

    /// The keys of this executor beside the common ones, in the order in which scripts see them.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            ExecutorKind::SharedIterations | ExecutorKind::PerVuIterations => {
                &["vus", "iterations", "maxDuration"]
            }
            ExecutorKind::ConstantVus => &["vus", "duration"],
            ExecutorKind::RampingVus => &["startVUs", "stages", "gracefulRampDown"],
            ExecutorKind::ConstantArrivalRate => {
                &["rate", "timeUnit", "duration", "preAllocatedVUs", "maxVUs"]
            }
            ExecutorKind::RampingArrivalRate => {
                &["startRate", "timeUnit", "stages", "preAllocatedVUs", "maxVUs"]
            }
            ExecutorKind::ExternallyControlled => &["vus", "duration", "maxVUs"],
        }
    }
}

/// Whether some executor has this key.
pub(super) fn is_key(name: &str) -> bool {
    let own = |(_, kind): &(&str, ExecutorKind)| kind.keys().contains(&name);
    COMMON_KEYS.contains(&name) || ExecutorKind::NAMES.iter().any(own)
}

/// One entry of `scenarios`; only the keys that its executor has can be set.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOptions {
    pub name: String,
    pub executor: ExecutorKind,
    pub start_time: Option<Duration>,
    pub graceful_stop: Option<Duration>,
    pub env: Option<BTreeMap<String, String>>,
    pub exec: Option<String>,
    pub tags: Option<BTreeMap<String, String>>,
    /// `options.browser`, kept for scripts that read it.
    pub browser: Option<Value>,
    pub vus: Option<u32>,
    pub iterations: Option<u64>,
    pub duration: Option<Duration>,
    pub max_duration: Option<Duration>,
    pub start_vus: Option<u32>,
    pub start_rate: Option<u64>,
    pub rate: Option<u64>,
    pub time_unit: Option<Duration>,
    pub stages: Option<Vec<StageOptions>>,
    pub graceful_ramp_down: Option<Duration>,
    pub pre_allocated_vus: Option<u32>,
    pub max_vus: Option<u32>,
}

impl ScenarioOptions {
    pub fn new(name: &str, executor: ExecutorKind) -> ScenarioOptions {
        ScenarioOptions {
            name: name.to_string(),
            executor,
            start_time: None,
            graceful_stop: None,
            env: None,
            exec: None,
            tags: None,
            browser: None,
            vus: None,
            iterations: None,
            duration: None,
            max_duration: None,
            start_vus: None,
            start_rate: None,
            rate: None,
            time_unit: None,
            stages: None,
            graceful_ramp_down: None,
            pre_allocated_vus: None,
            max_vus: None,
        }
    }
}

/// All entries of `scenarios`.
pub(super) fn scenarios(
    value: &Value,
    path: &str,
    findings: &mut Findings,
) -> Option<Vec<ScenarioOptions>> {
    let object = Object::read(value, path, findings)?;
    let entries = object.entries();
    Some(
        entries
            .filter_map(|(name, value)| scenario(name, value, &object.path_of(name), findings))
            .collect(),
    )
}

fn scenario(
    name: &str,
    value: &Value,
    path: &str,
    findings: &mut Findings,
) -> Option<ScenarioOptions> {
    check_name(name, path, findings);
    let no_executor = || {
        let names: Vec<&str> = ExecutorKind::NAMES.iter().map(|(name, _)| *name).collect();
        Wrong::new("the scenario has no executor", format!("add one of {}", names.join(", ")))
    };
    if value.is_null() {
        findings.wrong(reader::join(path, "executor"), no_executor());
        return None;
    }
    let object = Object::read(value, path, findings)?;
    if object.get("executor").is_none() {
        findings.wrong(object.path_of("executor"), no_executor());
        return None;
    }
    let read_kind = |value: &Value| ExecutorKind::parse(&reader::text(value)?);
    let kind = object.field("executor", findings, read_kind)?;
    let known: Vec<&str> = COMMON_KEYS.iter().chain(kind.keys()).copied().collect();
    for (path, wrong) in object.unknown(&known) {
        let message = format!("the executor {} has no such option", kind.name());
        findings.wrong(path, Wrong { message, ..wrong });
    }
    Some(read_keys(ScenarioOptions::new(name, kind), &object, findings))
}

fn read_keys(
    mut scenario: ScenarioOptions,
    object: &Object<'_>,
    findings: &mut Findings,
) -> ScenarioOptions {
    let nested = |key: &str| object.get(key).map(|value| (value, object.path_of(key)));
    scenario.start_time = object.field("startTime", findings, reader::duration);
    scenario.graceful_stop = object.field("gracefulStop", findings, reader::duration);
    scenario.exec = object.field("exec", findings, exec);
    if let Some((value, path)) = nested("env") {
        scenario.env = reader::text_map(value, &path, findings);
    }
    if let Some((value, path)) = nested("tags") {
        scenario.tags = reader::text_map(value, &path, findings);
    }
    if let Some((value, path)) = nested("options")
        && let Some(inner) = Object::read(value, &path, findings)
    {
        for (path, wrong) in inner.unknown(&["browser"]) {
            findings.wrong(path, wrong);
        }
        scenario.browser = inner.get("browser").cloned();
    }
    for key in scenario.executor.keys() {
        match *key {
            "vus" => scenario.vus = object.field_unless_empty(key, findings, reader::count32),
            "iterations" => {
                scenario.iterations = object.field_unless_empty(key, findings, reader::count);
            }
            "duration" => scenario.duration = object.field(key, findings, reader::duration),
            "maxDuration" => scenario.max_duration = object.field(key, findings, reader::duration),
            "startVUs" => {
                scenario.start_vus = object.field_unless_empty(key, findings, reader::count32);
            }
            "startRate" => {
                scenario.start_rate = object.field_unless_empty(key, findings, reader::count);
            }
            "rate" => scenario.rate = object.field_unless_empty(key, findings, reader::count),
            "timeUnit" => scenario.time_unit = object.field(key, findings, reader::duration),
            "gracefulRampDown" => {
                scenario.graceful_ramp_down = object.field(key, findings, reader::duration);
            }
            "preAllocatedVUs" => {
                scenario.pre_allocated_vus =
                    object.field_unless_empty(key, findings, reader::count32);
            }
            "maxVUs" => {
                scenario.max_vus = object.field_unless_empty(key, findings, reader::count32);
            }
            _ => {
                if let Some((value, path)) = nested("stages") {
                    scenario.stages = stages(value, &path, findings, true);
                }
            }
        }
    }
    scenario
}

fn check_name(name: &str, path: &str, findings: &mut Findings) {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(legal) {
        let message = format!("`{}` is not a name for a scenario", values::shorten(name));
        let help = "use only letters from a to z, digits, `_` and `-`";
        findings.wrong(path, Wrong::new(message, help));
    }
}

fn exec(value: &Value) -> Result<String, Wrong> {
    let name = reader::text(value)?;
    if name.is_empty() {
        return Err(Wrong::new("the function's name is empty", "name an exported function"));
    }
    Ok(name)
}

/// A list of `{ duration, target }`. `strict`: an unknown key is an error, as in scenarios; in the
/// top-level shortcut k6 ignores it, and we say so.
pub(super) fn stages(
    value: &Value,
    path: &str,
    findings: &mut Findings,
    strict: bool,
) -> Option<Vec<StageOptions>> {
    let items = reader::list(value, path, findings)?;
    let mut stages = Vec::with_capacity(items.len());
    for (path, item) in items {
        if item.is_null() {
            stages.push(StageOptions::default());
            continue;
        }
        let Some(object) = Object::read(item, &path, findings) else { continue };
        for (path, wrong) in object.unknown(&["duration", "target"]) {
            if strict { findings.wrong(path, wrong) } else { findings.warn(path, wrong) }
        }
        stages.push(StageOptions {
            duration: object.field("duration", findings, reader::duration),
            target: object.field_unless_empty("target", findings, reader::count),
        });
    }
    Some(stages)
}
