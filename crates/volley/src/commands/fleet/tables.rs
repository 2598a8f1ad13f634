//! Jobs and nodes as tables for people and as JSON for programs.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::time::Duration;

use ::fleet::wire::proto::{JobState, NodeRole, NodeState, Outcome, Routing};
use ::fleet::wire::{job_from, proto};
use report::format;
use serde_json::{Value, json};

use crate::commands::members::brief_age;

/// Lines of a job's history that its status shows; `volley results --timeline` has them all.
const NOTES_SHOWN_MAX: usize = 12;
const SHARDS_SHOWN_MAX: usize = 64;

pub fn age(ms: u64) -> String {
    brief_age(Duration::from_millis(ms))
}

pub fn id(job: &[u8]) -> String {
    job_from(job).map_or_else(|_| "?".to_owned(), |job| job.to_string())
}

pub fn start(text: &str) -> String {
    text.chars().take(8).collect()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Columns as wide as they need to be. The last one is free.
pub fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = headings.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> =
            cells.zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    };
    line(&mut headings.into_iter());
    rows.iter().for_each(|row| line(&mut row.iter().map(String::as_str)));
    text
}

/// Digits of an id that tell all of these apart.
fn digits(jobs: &[proto::JobStatus]) -> usize {
    let ids: Vec<String> = jobs.iter().map(|job| id(&job.job)).collect();
    let distinct = |digits: usize| {
        let short: std::collections::BTreeSet<String> =
            ids.iter().map(|id| id.chars().take(digits).collect()).collect();
        short.len() == ids.len()
    };
    (8..36).find(|digits| distinct(*digits)).unwrap_or(36)
}

fn state_of(job: &proto::JobStatus) -> String {
    match job.outcome() {
        Outcome::Unspecified => job.state().word(),
        outcome => outcome.word().to_ascii_lowercase(),
    }
}

/// Empty as long as there is none.
pub fn outcome_of(job: &proto::JobStatus) -> String {
    if has_ended(job) { state_of(job) } else { String::new() }
}

fn has_ended(job: &proto::JobStatus) -> bool {
    job.outcome() != Outcome::Unspecified
}

/// Whether it runs, and its numbers are those of the ledger, which knows only of attempts that have
/// ended.
fn is_behind(job: &proto::JobStatus) -> bool {
    !job.live && matches!(job.state(), JobState::Running | JobState::Cancelling)
}

pub fn jobs(list: &proto::ListReply, ended: bool) -> String {
    if list.jobs.is_empty() {
        return match ended {
            true => "no jobs\n".to_owned(),
            false => "no job waits or runs (--ended shows those that have ended)\n".to_owned(),
        };
    }
    let digits = digits(&list.jobs);
    let rows: Vec<[String; 7]> = list
        .jobs
        .iter()
        .map(|job| {
            let counters = job.counters.unwrap_or_default();
            [
                id(&job.job).chars().take(digits).collect(),
                state_of(job),
                age(job.age_ms),
                if job.ran_ms > 0 { age(job.ran_ms) } else { "-".to_owned() },
                format::count(counters.completed) + if is_behind(job) { "+" } else { "" },
                format::clean(&job.name),
                format::clean(&job.detail),
            ]
        })
        .collect();
    let mut text = table(["job", "state", "age", "took", "requests", "name", "detail"], &rows);
    if list.more > 0 {
        let _ = writeln!(text, "... and {} more (--limit)", list.more);
    }
    if list.jobs.iter().any(is_behind) {
        text += "+ what has ended of it; its owner was not reached\n";
    }
    text
}

pub fn jobs_json(list: &proto::ListReply) -> Value {
    let jobs: Vec<Value> = list.jobs.iter().map(job_json).collect();
    json!({ "jobs": jobs, "more": list.more })
}

pub fn job_json(job: &proto::JobStatus) -> Value {
    let workflows: Vec<Value> = job
        .workflows
        .iter()
        .map(|workflow| {
            let shards: Vec<Value> = workflow
                .shards
                .iter()
                .map(|shard| {
                    json!({
                        "shard": shard.shard, "attempt": shard.attempt, "state": shard.state().word(),
                        "worker": shard.worker,
                    })
                })
                .collect();
            json!({
                "name": workflow.name, "state": workflow.state().word(), "need": workflow.need,
                "vus_now": workflow.vus_now, "per_second_now": workflow.per_second_now,
                "shards": shards,
            })
        })
        .collect();
    let timeline: Vec<Value> = job
        .timeline
        .iter()
        .map(|note| json!({ "at_s": note.at_ms as f64 / 1e3, "event": note.text }))
        .collect();
    let counters = job.counters.unwrap_or_default();
    json!({
        "job": id(&job.job), "name": job.name, "state": job.state().word(),
        "outcome": has_ended(job).then(|| job.outcome().word()), "detail": job.detail,
        "owner": (!job.owner.is_empty()).then_some(&job.owner),
        "submitted_by": job.submitted_by,
        "cancelled_by": (!job.cancelled_by.is_empty()).then_some(&job.cancelled_by),
        "age_s": job.age_ms as f64 / 1e3, "ran_s": job.ran_ms as f64 / 1e3,
        "has_result": job.has_result,
        "counters": {
            "issued": counters.issued, "completed": counters.completed, "failed": counters.failed,
            "iterations": counters.iterations, "dropped": counters.dropped, "live": job.live,
        },
        "workflows": workflows, "timeline": timeline,
    })
}

/// One job alone: with what its workers have said late, or not at all.
pub fn whole_job_json(job: &proto::JobStatus) -> Value {
    let mut json = job_json(job);
    json["unheard"] = json!(job.unheard);
    json["addenda"] = job.addenda.iter().map(addendum_json).collect();
    json["addenda_more"] = json!(job.addenda_more);
    json
}

fn addendum_json(addendum: &proto::Addendum) -> Value {
    let added = addendum.added.unwrap_or_default();
    json!({
        "at": stats::time::rfc3339_ms(addendum.at_unix_ms), "worker": addendum.worker,
        "workflow_number": addendum.workflow, "shard": addendum.shard,
        "attempt": addendum.attempt, "certain": addendum.certain,
        "added": {
            "issued": added.issued, "sent": addendum.sent, "completed": added.completed,
            "failed": added.failed, "iterations": added.iterations,
        },
    })
}

/// What workers have said after their attempts were ended for them, and how many have not been
/// heard.
fn last_words(job: &proto::JobStatus) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if job.addenda_more > 0 {
        lines.push(("addendum", format!("{} earlier ones (volley results JOB)", job.addenda_more)));
    }
    for addendum in &job.addenda {
        let added = addendum.added.unwrap_or_default();
        let at = stats::time::rfc3339_ms(addendum.at_unix_ms);
        let [issued, sent, completed] =
            [added.issued, addendum.sent, added.completed].map(format::count);
        let proto::Addendum { workflow, shard, attempt, .. } = addendum;
        lines.push((
            "addendum",
            format!(
                "{at}  worker {}, shard {workflow}/{shard}, attempt {attempt}: {issued} issued, {sent} sent, \
                 {completed} completed more",
                start(&addendum.worker)
            ),
        ));
    }
    if job.unheard > 0 {
        let attempts = format::plural(u64::from(job.unheard), "attempt");
        lines.push(("unheard", format!("{attempts} without a last word of their workers")));
    }
    lines
}

/// By whom; nothing if it is its own client, as it mostly is.
fn cancelled_by(job: &proto::JobStatus) -> String {
    let by = &job.cancelled_by;
    match by.is_empty() || by.contains(&job.submitted_by) {
        true => String::new(),
        false => format!("by {}", format::clean(by)),
    }
}

pub fn job(job: &proto::JobStatus) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:10} {value}");
        }
    };
    line("job", &id(&job.job));
    line("name", &format::clean(&job.name));
    line("state", &state_of(job));
    line("detail", &format::clean(&job.detail));
    let owner = if job.owner.is_empty() { "nobody yet" } else { &job.owner };
    line("owner", if has_ended(job) { "" } else { owner });
    line("client", &job.submitted_by);
    line("cancelled", &cancelled_by(job));
    let took = if job.ran_ms > 0 { format!(", took {}", age(job.ran_ms)) } else { String::new() };
    line("created", &format!("{} ago{took}", age(job.age_ms)));
    if let Some(counters) = &job.counters {
        let of_ledger =
            if is_behind(job) { " (what has ended; its owner was not reached)" } else { "" };
        let counts = format!(
            "{} issued, {} completed, {} failed; {} iterations, {} dropped{of_ledger}",
            format::count(counters.issued),
            format::count(counters.completed),
            format::count(counters.failed),
            format::count(counters.iterations),
            format::count(counters.dropped)
        );
        line("requests", &counts);
    }
    last_words(job).iter().for_each(|(name, text)| line(name, text));
    for workflow in job.workflows.iter().filter(|one| !one.need.is_empty()) {
        line("cores", &format!("{}: {}", format::clean(&workflow.name), workflow.need));
    }
    let mut rows = Vec::new();
    for workflow in &job.workflows {
        if workflow.shards.is_empty() {
            rows.push(
                [&*workflow.name, "-", "-", &*workflow.state().word(), "-"].map(format::clean),
            );
        }
        for shard in &workflow.shards {
            rows.push([
                format::clean(&workflow.name),
                shard.shard.to_string(),
                shard.attempt.to_string(),
                shard.state().word(),
                or_dash(&start(&shard.worker)),
            ]);
        }
    }
    if !rows.is_empty() {
        let left_out = rows.len().saturating_sub(SHARDS_SHOWN_MAX);
        rows.truncate(SHARDS_SHOWN_MAX);
        text.push('\n');
        text += &table(["workflow", "shard", "attempt", "state", "worker"], &rows);
        if left_out > 0 {
            let _ = writeln!(text, "... and {left_out} more (--json)");
        }
    }
    if !job.timeline.is_empty() {
        text.push('\n');
        let left_out = job.timeline.len().saturating_sub(NOTES_SHOWN_MAX);
        if left_out > 0 {
            let _ = writeln!(text, "{left_out} earlier events (volley results JOB --timeline)");
        }
        for note in &job.timeline[left_out..] {
            let at = format::moment(Duration::from_millis(note.at_ms));
            let _ = writeln!(text, "{at:>8}  {}", format::clean(&note.text));
        }
    }
    text
}

/// Node, role, address, state, cores and work.
pub fn node_rows(fleet: &proto::FleetReply) -> Vec<[String; 6]> {
    fleet
        .nodes
        .iter()
        .map(|node| {
            // What somebody said who is gone by now is no help.
            let gone = matches!(node.state(), NodeState::Dead | NodeState::Left);
            let cores = match node.role() {
                NodeRole::Worker if !gone => format!("{} of {} free", node.cores_free, node.cores),
                _ => "-".to_owned(),
            };
            let work = match node.role() {
                NodeRole::Worker if gone => "-".to_owned(),
                NodeRole::Worker => format::plural(u64::from(node.shards), "shard"),
                _ => format::plural(u64::from(node.jobs), "job"),
            };
            let mut state = match (node.draining, gone) {
                (true, false) => "draining".to_owned(),
                _ => node.state().word(),
            };
            if node.leads {
                state += ", leads";
            }
            if !node.why.is_empty() {
                let what = match node.routing() {
                    Routing::Investigate => "last choice",
                    Routing::Evict => "given up on",
                    _ => "nothing new",
                };
                state += &format!(", {what} ({})", format::clean(&node.why));
            }
            [start(&node.node), node.role().word(), node.address.clone(), state, cores, work]
        })
        .collect()
}

pub fn fleet(fleet: &proto::FleetReply, running: &proto::ListReply) -> String {
    let rows = node_rows(fleet);
    let mut text = table(["node", "role", "address", "state", "cores", "work"], &rows);
    let _ = writeln!(text, "\n{} of {} cores are free", fleet.cores_free, fleet.cores);
    if !running.jobs.is_empty() {
        text.push('\n');
        text += &jobs(running, false);
    }
    text
}

pub fn fleet_json(fleet: &proto::FleetReply, running: &proto::ListReply) -> Value {
    let nodes: Vec<Value> = fleet
        .nodes
        .iter()
        .map(|node| {
            json!({
                "node": node.node, "role": node.role().word(), "address": node.address,
                "state": node.state().word(),
                "cores": node.cores, "cores_free": node.cores_free, "shards": node.shards,
                "draining": node.draining, "jobs": node.jobs, "leads": node.leads,
                "routing": node.routing().word(), "why": node.why,
            })
        })
        .collect();
    let list = jobs_json(running);
    json!({
        "nodes": nodes, "cores": fleet.cores, "cores_free": fleet.cores_free, "jobs": list["jobs"],
        "more": running.more,
    })
}
