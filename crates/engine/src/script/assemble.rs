//! From a script and its options to something that can be run.

use std::fmt;
use std::sync::Arc;

use plan::{Plan, Workflow};
use script::log::Logger;
use script::options::{HttpDebug, Resolved, http_settings, nearest};
use script::program::{Rules, Script, USER_AGENT};
use script::tags::SystemTags;
use script::vu::Description;
use stats::series::{SeriesLayout, ThresholdError, ThresholdSpec};

use super::{ScenarioRun, ScriptRun};

/// What the command line decides beyond the options.
pub struct RunOverrides {
    /// For people: the file's name.
    pub name: String,
    pub logger: Logger,
    /// Count by group and scenario as well, for the full summary.
    pub sections: bool,
    pub no_thresholds: bool,
    pub strict: bool,
}

/// Why a script cannot be run with these options.
#[derive(Debug)]
pub enum AssembleError {
    NoFunctions,
    MissingFunction { scenario: String, function: String, known: Vec<String> },
    Threshold(ThresholdError),
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssembleError::NoFunctions => f.write_str(
                "the script exports no function; write `export default function () { ... }`, and `export` before each \
                 function that the `exec` of a scenario names",
            ),
            AssembleError::MissingFunction { scenario, function, known } => {
                write!(f, "scenario `{scenario}`: function `{function}` is not exported")?;
                match known.as_slice() {
                    [] => Ok(()),
                    known => write!(f, "; exported are: {}", known.join(", ")),
                }?;
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                match (function.as_str(), known.first(), nearest(function, &names)) {
                    ("default", Some(only), _) => write!(
                        f,
                        "; write `export default function () {{ ... }}`, or let a scenario run one of them: \
                         scenarios: {{ {scenario}: {{ exec: '{only}', ... }} }}"
                    ),
                    (_, _, Some(near)) => write!(f, "; did you mean `{near}`?"),
                    _ => Ok(()),
                }
            }
            AssembleError::Threshold(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AssembleError {}

impl From<ThresholdError> for AssembleError {
    fn from(error: ThresholdError) -> AssembleError {
        AssembleError::Threshold(error)
    }
}

/// Functions with a meaning of their own; no scenario runs them by default.
const LIFECYCLE: [&str; 3] = ["setup", "teardown", "handleSummary"];

impl ScriptRun {
    pub fn assemble(
        script: Arc<Script>,
        description: &Description,
        resolved: &Resolved,
        wishes: RunOverrides,
    ) -> Result<ScriptRun, AssembleError> {
        let has = |name: &str| description.functions.iter().any(|known| known == name);
        let mut known = description.functions.clone();
        known.retain(|name| !LIFECYCLE.contains(&name.as_str()));
        if description.functions.is_empty() {
            return Err(AssembleError::NoFunctions);
        }
        for scenario in &resolved.scenarios {
            if !has(&scenario.exec) {
                return Err(AssembleError::MissingFunction {
                    scenario: scenario.name.clone(),
                    function: scenario.exec.clone(),
                    known,
                });
            }
        }
        let options = &resolved.options;
        let layout = layout(&script, resolved, &wishes)?;
        let http = http_settings(options);
        let system_tags = options.system_tags.as_ref();
        let rules = Rules {
            system_tags: system_tags
                .map_or(SystemTags::DEFAULT, |names| SystemTags::from_names(names)),
            tags: options.tags.iter().flatten().collect(),
            user_agent: http.user_agent.clone().unwrap_or_else(|| USER_AGENT.to_owned()),
            max_redirects: http.http.redirects,
            max_redirects_chosen: options.max_redirects.is_some(),
            batch: unlimited_if_zero(http.batch),
            batch_per_host: unlimited_if_zero(http.batch_per_host),
            discard_response_bodies: http.discard_response_bodies,
            throw: http.throw,
            no_cookies_reset: http.http.keep_cookies,
            no_vu_connection_reuse: http.close_after_iteration,
            min_iteration_duration: http.min_iteration_duration,
            http_debug: http.http_debug.map(|debug| debug == HttpDebug::Full),
            block_hostnames: http.blocked_hostnames.clone(),
            blacklist_ips: http.blocked_ips.clone(),
            options_json: options.to_json().to_string(),
        };
        script.settle(rules, layout.clone());
        let workflow = |scenario: &script::options::Scenario| {
            Workflow::bare(scenario.name.clone(), scenario.load.clone(), http.http.clone())
        };
        let workflows = resolved.scenarios.iter().map(workflow).collect();
        let plan = Plan::bare(wishes.name, http.http.clone(), workflows);
        let minute = std::time::Duration::from_secs(60);
        Ok(ScriptRun {
            script,
            plan,
            scenarios: resolved.scenarios.iter().map(scenario_run).collect(),
            layout,
            has_setup: has("setup") && !options.no_setup.unwrap_or(false),
            has_teardown: has("teardown") && !options.no_teardown.unwrap_or(false),
            setup_timeout: options.setup_timeout.unwrap_or(minute),
            teardown_timeout: options.teardown_timeout.unwrap_or(minute),
            rps: http.requests_per_second_max.map(u64::from),
            strict: wishes.strict,
            stripes: resolved.stripes.clone(),
            logger: wishes.logger,
            sink: None,
        })
    }
}

fn unlimited_if_zero(limit: u32) -> usize {
    if limit == 0 { usize::MAX } else { limit as usize }
}

fn layout(
    script: &Script,
    resolved: &Resolved,
    wishes: &RunOverrides,
) -> Result<Arc<SeriesLayout>, AssembleError> {
    let mut layout = script.with_declared(|declared| declared.clone());
    layout.set_sections(wishes.sections);
    if !wishes.no_thresholds {
        for (key, thresholds) in resolved.options.thresholds.iter().flatten() {
            let specs: Vec<_> = thresholds
                .iter()
                .map(|one| ThresholdSpec {
                    text: one.threshold.clone(),
                    abort_on_fail: one.abort_on_fail,
                    delay_abort_eval: one.delay_abort_eval.unwrap_or_default(),
                })
                .collect();
            layout.threshold(key, &specs)?;
        }
    }
    Ok(Arc::new(layout))
}

fn scenario_run(scenario: &script::options::Scenario) -> ScenarioRun {
    use plan::Executor;
    let (executor, vus_before) = match &scenario.load.executor {
        _ if scenario.externally_controlled => ("externally-controlled", scenario.vus_max),
        Executor::ConstantVus { vus, .. } => ("constant-vus", *vus),
        Executor::RampingVus { .. } => ("ramping-vus", scenario.vus_max),
        Executor::PerVuIterations { vus, .. } => ("per-vu-iterations", *vus),
        Executor::SharedIterations { vus, .. } => ("shared-iterations", *vus),
        Executor::ConstantArrivalRate { vus, .. } => ("constant-arrival-rate", vus.unwrap_or(1)),
        Executor::RampingArrivalRate { vus, .. } => ("ramping-arrival-rate", vus.unwrap_or(1)),
    };
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    ScenarioRun {
        executor: executor.to_owned(),
        exec: scenario.exec.clone(),
        env: pairs(&scenario.env),
        tags: pairs(&scenario.tags),
        vus_before,
        vus_max: scenario.vus_max,
    }
}
