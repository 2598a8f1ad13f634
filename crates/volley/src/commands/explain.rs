//! `volley plan PLAN`: what would run, without running it.

use std::time::Duration;

use plan::{Action, Plan, Step, WorkflowClass};
use report::ExitCode;
use report::format;
use schedule::allocation::{self, arrange, candidates};
use serde_json::{Value, json};

use super::run::{change, overrides, read};
use crate::cli::PlanArgs;
use crate::failure::Failure;
use crate::print;

pub fn explain(args: &PlanArgs) -> ExitCode {
    let is_script = match super::stdin::is_meant(&args.plan) {
        true => super::stdin::is_script(),
        false => Ok(super::script::is_script(&args.plan)),
    };
    match is_script {
        Ok(true) if args.load.is_given() || args.rate.is_some() => {
            let help = "what a script would do is in its `options`; `volley run FILE --vus N` changes them";
            let what = "--vus, --duration, --rate and --target of `volley plan` are for plans";
            return Failure::usage(what).help(help).tell();
        }
        Ok(true) => return super::script::explain(&args.plan, &args.env),
        Ok(false) => {}
        Err(failure) => return failure.tell(),
    }
    let mut plan = match read(&args.plan, &args.env, args.load.target.as_deref()) {
        Ok(plan) => plan,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::InvalidPlan;
        }
    };
    if let Err(failure) = change(&mut plan, &overrides(&args.load, args.rate)) {
        return failure.tell();
    }
    let cores = args.cores.map_or_else(engine::machine::cores, usize::from);
    if args.json {
        print::line(&format!("{:#}", describe_json(&plan, cores)));
    } else {
        print::page(&describe(&plan, cores));
    }
    plan.warnings.iter().for_each(|word| eprintln!("volley: {}", word.in_a_line()));
    super::rows::short_of_rows(&plan).iter().for_each(|word| eprintln!("volley: {word}"));
    ExitCode::Passed
}

/// One workflow and where it would run.
struct Seat<'p> {
    workflow: &'p plan::Workflow,
    class: WorkflowClass,
    cores: Vec<usize>,
}

/// Layers, their waves, their workflows.
fn seats(plan: &Plan, cores: usize) -> Vec<Vec<Vec<Seat<'_>>>> {
    let seat = |(index, cores): (usize, Vec<usize>)| {
        let workflow = &plan.workflows[index];
        Seat { workflow, class: plan::classify(workflow), cores }
    };
    arrange(&plan::layers(plan), &candidates(plan), cores)
        .into_iter()
        .map(|layer| layer.into_iter().map(|wave| wave.into_iter().map(seat).collect()).collect())
        .collect()
}

fn describe(plan: &Plan, cores: usize) -> String {
    let mut lines = vec![format!(
        "{}: {} on {}",
        plan.name,
        format::plural(plan.workflows.len() as u64, "workflow"),
        format::plural(cores as u64, "core")
    )];
    if !plan.setup.is_empty() {
        lines.push(format!("\n  setup: {}", names(&plan.setup)));
    }
    for (number, layer) in seats(plan, cores).iter().enumerate() {
        lines.push(format!("\nlayer {}", number + 1));
        for (wave_number, wave) in layer.iter().enumerate() {
            if layer.len() > 1 {
                lines.push(format!("  wave {} (runs alone)", wave_number + 1));
            }
            lines.extend(wave.iter().flat_map(describe_seat));
        }
    }
    if !plan.teardown.is_empty() {
        lines.push(format!("\n  teardown: {}", names(&plan.teardown)));
    }
    for (index, threshold) in plan.thresholds.iter().enumerate() {
        let lead = if index == 0 { "\nmust hold: " } else { "           " };
        let over = threshold.over.map(|over| format!(" over every {over:?}")).unwrap_or_default();
        let abort = if threshold.abort { ", else stop" } else { "" };
        lines.push(format!(
            "{lead}{}{} {}{over}{abort}",
            threshold.metric,
            selector(&threshold.select),
            threshold.text
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// `{step:cart}`, as the summary writes it.
fn selector(select: &plan::Selector) -> String {
    let named = [("workflow", &select.workflow), ("step", &select.step), ("stage", &select.stage)];
    let named = named.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let tags = select.tags.iter().map(|(key, value)| (key.as_str(), value));
    let parts: Vec<_> = named.chain(tags).map(|(key, value)| format!("{key}:{value}")).collect();
    if parts.is_empty() { String::new() } else { format!("{{{}}}", parts.join(",")) }
}

fn describe_seat(seat: &Seat<'_>) -> Vec<String> {
    let workflow = seat.workflow;
    let mut lines = vec![format!("  {}", workflow.name)];
    let mut say = |label: &str, text: String| lines.push(format!("    {label:<12}{text}"));
    say("load", schedule::describe(&workflow.load));
    if !workflow.depends_on.is_empty() {
        say("after", workflow.depends_on.join(", "));
    }
    let vus = schedule::spread(u64::from(schedule::vus_max(&workflow.load)), seat.cores.len());
    let list: Vec<_> = seat.cores.iter().map(usize::to_string).collect();
    let kind = if seat.class == WorkflowClass::Test { "" } else { " (no requests: one core)" };
    say("cores", format!("{}{kind}", list.join(", ")));
    if seat.class == WorkflowClass::Test && workflow.priority == plan::Priority::Auto {
        say("on a fleet", allocation::need(workflow).to_string());
    }
    let per_core: Vec<_> = vus.iter().map(|count| format::count(*count)).collect();
    say("VUs", format!("at most {} per core", per_core.join(" / ")));
    say("steps", names(&workflow.steps));
    let each = allocation::requests(&workflow.steps);
    say(
        "requests",
        match schedule::expected_iterations(&workflow.load) {
            Some(iterations) => format!(
                "up to {} ({} iterations, {each} each)",
                format::count(iterations.saturating_mul(each)),
                format::count(iterations)
            ),
            None => format!("{each} per iteration, as many iterations as there is time for"),
        },
    );
    lines
}

fn names(steps: &[Step]) -> String {
    let shown = steps.iter().map(|step| match &step.action {
        Action::Think(span) if span.min == span.max => format!("think {:?}", span.min),
        Action::Think(span) => format!("think {:?}..{:?}", span.min, span.max),
        _ => step.name.clone(),
    });
    shown.collect::<Vec<_>>().join(" → ")
}

pub fn describe_json(plan: &Plan, cores: usize) -> Value {
    let seat = |seat: &Seat<'_>| {
        let load = &seat.workflow.load;
        json!({
            "name": seat.workflow.name, "cores": seat.cores, "load": schedule::describe(load),
            "test": seat.class == WorkflowClass::Test,
            "fleet_cores": allocation::need(seat.workflow).cores,
            "vus": schedule::spread(u64::from(schedule::vus_max(load)), seat.cores.len()),
            "iterations": schedule::expected_iterations(load),
            "requests_per_iteration": allocation::requests(&seat.workflow.steps),
            "duration_s": schedule::duration(load).map(|length| length.as_secs_f64()),
        })
    };
    let layers: Vec<Value> = seats(plan, cores)
        .iter()
        .map(|layer| {
            let waves = layer.iter().map(|wave| wave.iter().map(seat).collect::<Vec<_>>());
            json!({ "waves": waves.collect::<Vec<_>>() })
        })
        .collect();
    json!({ "name": plan.name, "cores": cores, "layers": layers })
}

/// The stages of each workflow, with times since its load began and values as they are planned.
pub fn schedule_json(plan: &Plan) -> Value {
    let workflows = plan.workflows.iter().map(|workflow| {
        let load = &workflow.load;
        let open = schedule::Arrivals::new(&load.executor);
        let at = |t: Duration| match &open {
            Some(arrivals) => arrivals.rate_at(t),
            None => f64::from(schedule::vus_at(load, t)),
        };
        let stages = schedule::stage_spans(load).into_iter().map(|(name, from, to)| {
            // The end of a stage belongs to the next one.
            let last = to.saturating_sub(Duration::from_nanos(1));
            json!({
                "name": name, "from_s": from.as_secs_f64(), "to_s": to.as_secs_f64(),
                "from": at(from), "to": at(last),
            })
        });
        let stages: Vec<Value> = stages.collect();
        json!({
            "workflow": workflow.name, "open": open.is_some(),
            "start_after_s": load.start_after.as_secs_f64(),
            "requests_per_iteration": allocation::requests(&workflow.steps), "stages": stages,
        })
    });
    workflows.collect::<Vec<_>>().into()
}
