//! What is said about a script that runs as k6 would run it, and surely not as its author meant:
//! before the run about its exports and thresholds, after it about what was never measured.

use plan::{Aggregation, Comparison, MetricKind};
use script::vu::Description;
use stats::ScriptResult;
use stats::series::{SeriesThreshold, Target};

use super::ScriptRun;

/// Exports with a meaning of their own.
const FUNCTIONS: [&str; 3] = ["setup", "teardown", "handleSummary"];

/// So many thresholds are spoken of.
const THRESHOLDS_MAX: usize = 10;

/// Before the run.
pub(super) fn before(run: &ScriptRun, description: &Description) -> Vec<String> {
    let mut said = run.layout.warnings();
    said.extend(misspelt_exports(run, description));
    for threshold in run.layout.thresholds().iter().take(THRESHOLDS_MAX) {
        if let Some(text) = useless(run, threshold) {
            let target = Target { metric: threshold.metric, sub: threshold.sub };
            let key = run.layout.key(target);
            let at = run.script.sources.text_place(&threshold.spec.text);
            let at = at.map(|place| format!("{place}: ")).unwrap_or_default();
            said.push(format!("{at}threshold `{}` on `{key}`: {text}", threshold.spec.text));
        }
    }
    said
}

/// Options that are not there, although they are written: what they are made of is missing. Said
/// before the options are judged, because a number that is none is then said to be missing.
pub(super) fn absent(script: &script::program::Script, description: &Description) -> Vec<String> {
    let unset = script.unset_environment();
    let flags: Vec<String> = unset.iter().map(|name| format!("-e {name}=...")).collect();
    let remedy = match flags.is_empty() {
        true => String::new(),
        false => {
            format!("; not set in __ENV: {} (give it with {})", unset.join(", "), flags.join(" "))
        }
    };
    let both = [("undefined", &description.undefined_options), ("NaN", &description.nan_options)];
    let said = both.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let names = names.join("`, `");
        format!("script options: `{names}` is {what} and so has no effect{remedy}")
    });
    said.collect()
}

/// `-e region=us` for a script that reads `__ENV.REGION`. Others may be read in ways that the text
/// does not show.
pub fn unread(sources: &script::source::Sources, given: &[(String, String)]) -> Vec<String> {
    let read = sources.environment_read();
    let is_given = |name: &str| given.iter().any(|(known, _)| known == name);
    let known = || read.iter().map(String::as_str).filter(|name| !is_given(name));
    let mut said = Vec::new();
    for (name, _) in given.iter().filter(|(name, _)| !read.contains(name)) {
        if let Some(near) = base::names::similar(name, known()) {
            said.push(format!(
                "-e {name}: the script does not read `__ENV.{name}`; did you mean `-e {near}=...`?"
            ));
        }
    }
    said
}

/// `export const option`, `export function setUp()`: nobody looks at them.
fn misspelt_exports(run: &ScriptRun, description: &Description) -> Vec<String> {
    let is_run = |name: &str| run.scenarios.iter().any(|scenario| scenario.exec == name);
    let at = |name: &str| {
        let place = run.script.sources.export_place(name);
        place.map(|place| format!("{place}: ")).unwrap_or_default()
    };
    let mut said = Vec::new();
    if description.functions.iter().any(|name| name == "options") {
        let place = at("options");
        said.push(format!(
            "{place}`options` is a function, which nothing calls; write `export const options = {{ ... }}`"
        ));
    } else if description.options.is_none() {
        let like = |name: &&String| is_nearly(name, "options") || *name == "config";
        if let Some(name) = description.values.iter().find(like) {
            said.push(format!(
                "{}the script exports `{name}`, which has no meaning, and no `options`; did you mean \
                 `options`? Without it, 1 virtual user runs 1 iteration, if no flag says otherwise",
                at(name)
            ));
        }
    }
    for wanted in FUNCTIONS {
        if description.functions.iter().any(|name| name == wanted) {
            continue;
        }
        let functions = description.functions.iter();
        let unused = functions.filter(|name| !is_run(name) && *name != "default");
        for name in unused.filter(|name| is_nearly(name, wanted)) {
            said.push(format!(
                "{}the script exports the function `{name}`, which nothing calls; did you mean `{wanted}`?",
                at(name)
            ));
        }
    }
    said
}

/// Another name, which differs in case, or in a letter or two.
fn is_nearly(name: &str, wanted: &str) -> bool {
    let lower = |text: &str| text.to_lowercase().replace('_', "");
    let (name_lower, wanted_lower) = (lower(name), lower(wanted));
    let most = (wanted.len() / 4).max(1);
    name != wanted
        && name.len() < 2 * wanted.len()
        && strsim::damerau_levenshtein(&name_lower, &wanted_lower) <= most
}

/// A threshold on a rate that holds, or fails, whatever happens.
fn useless(run: &ScriptRun, threshold: &SeriesThreshold) -> Option<String> {
    let metric = run.layout.get(threshold.metric);
    let hold = &threshold.hold;
    if metric.kind != MetricKind::Rate || hold.aggregation != Aggregation::Rate {
        return None;
    }
    let value = hold.value;
    let (always, never) = match hold.op {
        Comparison::Less => (value > 1.0, value <= 0.0),
        Comparison::LessOrEqual => (value >= 1.0, value < 0.0),
        Comparison::Greater => (value < 0.0, value >= 1.0),
        Comparison::GreaterOrEqual => (value <= 0.0, value > 1.0),
        Comparison::Equal | Comparison::NotEqual => (false, false),
    };
    let percent = match value {
        value if value > 1.0 && value <= 100.0 => {
            format!("; {value} % is {}", value / 100.0)
        }
        1.0 => "; 1 % is 0.01".to_owned(),
        _ => String::new(),
    };
    match (always, never) {
        (true, _) => Some(format!("it always holds, because a rate is between 0 and 1{percent}")),
        (_, true) => Some(format!("it can never hold, because a rate is between 0 and 1{percent}")),
        _ if metric.name == "http_req_failed" && hold.op == Comparison::Less && value == 1.0 => {
            Some(format!("it holds as long as a single request does not fail{percent}"))
        }
        _ => None,
    }
}

/// `iterations`: as many as there were, if the exceptions of all of them were counted here.
pub fn after(run: &ScriptRun, script: &ScriptResult, iterations: Option<u64>) -> Vec<String> {
    let mut said = Vec::new();
    if let (Some((thrown, first)), Some(iterations @ 1..)) = (run.script.exceptions(), iterations) {
        said.push(match thrown >= iterations {
            true => format!("every iteration ended with an exception: {first}"),
            false => format!(
                "{thrown} of {iterations} iterations ended with an exception; the first: {first}"
            ),
        });
    }
    let mut keys: Vec<&str> = Vec::new();
    for outcome in &script.thresholds {
        let Target { metric, sub } = outcome.target;
        let sink = match sub {
            Some(sub) => script.totals.sub_sink(sub),
            None => script.totals.sink(metric),
        };
        if sink.is_some_and(|sink| sink.samples() > 0) || keys.contains(&outcome.key.as_str()) {
            continue;
        }
        keys.push(&outcome.key);
        if keys.len() <= THRESHOLDS_MAX {
            said.push(format!(
                "nothing was measured for the threshold on `{}`, so it says nothing{}",
                outcome.key,
                why_nothing(run, script, outcome.target, iterations.is_some())
            ));
        }
    }
    said
}

/// What was measured instead.
fn why_nothing(run: &ScriptRun, script: &ScriptResult, target: Target, was_here: bool) -> String {
    let layout = &script.layout;
    let metric = layout.get(target.metric);
    let measured = script.totals.sink(target.metric).map_or(0, |sink| sink.samples());
    let Some(sub) = target.sub.map(|sub| layout.get_sub(sub)) else {
        return match layout.is_custom(target.metric) {
            true => format!(": nothing was added to `{}`", metric.name),
            false => String::new(),
        };
    };
    if measured == 0 {
        return format!(": `{}` has no values at all", metric.name);
    }
    if !was_here {
        return format!(": `{}` has values, and none with these tags", metric.name);
    }
    for (tag, wanted) in sub.tags.iter() {
        let seen = run.script.seen.values(target.metric, tag);
        if seen.iter().any(|value| **value == **wanted) {
            continue;
        }
        if seen.is_empty() {
            let text = match &**tag {
                "group" | "scenario" | "check" => String::new(),
                tag => format!(
                    "; requests are tagged with `{{ tags: {{ {tag}: '{wanted}' }} }}` in their params"
                ),
            };
            return format!(": no value had the tag `{tag}`{text}");
        }
        let shown: Vec<String> = seen.iter().map(|value| format!("`{value}`")).collect();
        let meant = seen.iter().find(|value| is_nearly(wanted, value));
        let meant = match meant {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None if &**tag == "name" => {
                format!(
                    "; a request is named by its URL unless it has `{{ tags: {{ name: '{wanted}' }} }}`"
                )
            }
            None => String::new(),
        };
        return format!(": no `{tag}` was `{wanted}`; seen: {}{meant}", shown.join(", "));
    }
    ": no value had all of these tags".to_owned()
}
