//! What workers have said since a result was made, in words and as a part of the summary.

use serde::Serialize;
use stats::{Addendum, Corrected, Issued, RunResult};

use crate::format;

/// What a setup or teardown of the plan stands under.
const ASIDE: &str = "setup and teardown";

/// The name of the workflow that an addendum is about.
fn workflow<'result>(result: &'result RunResult, addendum: &Addendum) -> &'result str {
    let known = result.layout.workflows.get(addendum.of.workflow as usize);
    known.map_or(ASIDE, |workflow| &workflow.name)
}

/// One line per addendum, then what they come to; nothing if there is none.
#[must_use]
pub fn lines(result: &RunResult) -> Vec<String> {
    let Some(corrected) = result.corrected() else { return Vec::new() };
    let line = |addendum: &Addendum| {
        let at = stats::time::rfc3339_ms(addendum.at_unix_ms);
        let worker = addendum.worker.split('-').next().unwrap_or_default();
        let workflow = format::clean(workflow(result, addendum));
        let (shard, attempt) = (addendum.of.shard, addendum.of.attempt);
        let [issued, sent, completed] =
            [addendum.added.issued, addendum.added.sent, addendum.added.completed]
                .map(format::count);
        let rest = if addendum.certain { "" } else { " at least" };
        format!(
            "{at}  worker {worker} is back: {workflow}, shard {shard}, attempt {attempt}: {issued} issued, \
             {sent} sent, {completed} completed more{rest}"
        )
    };
    let mut lines: Vec<String> = result.last_words.addenda.iter().map(line).collect();
    lines.push(in_all(&corrected));
    lines
}

fn in_all(corrected: &Corrected) -> String {
    let issued = match corrected.issued {
        Issued::Exact(count) => format!("{} issued", format::count(count)),
        Issued::Bound(count) => format!("at most {} issued", format::count(count)),
        Issued::Unknown => "an unknown number issued".to_owned(),
    };
    let [sent, completed] = [corrected.sent, corrected.completed].map(format::count);
    format!("with that: {issued}, {sent} sent, {completed} completed")
}

#[derive(Debug, Serialize)]
pub struct AddendumPart {
    /// RFC 3339, UTC: when it was taken.
    pub at: String,
    pub worker: String,
    pub workflow: String,
    pub shard: u32,
    pub attempt: u32,
    pub added: AddedPart,
    /// It is all that the worker did; `false`: its machine was restarted under it.
    pub certain: bool,
}

/// What the worker did beyond what the result counts.
#[derive(Debug, Serialize)]
pub struct AddedPart {
    pub issued: u64,
    pub sent: u64,
    pub completed: u64,
    pub failed: u64,
    pub iterations: u64,
}

/// Totals with all addenda.
#[derive(Debug, Serialize)]
pub struct CorrectedPart {
    pub requests: CorrectedRequestsPart,
}

#[derive(Debug, Serialize)]
pub struct CorrectedRequestsPart {
    /// `null` if nothing bounds it.
    pub issued: Option<u64>,
    /// `exact`, `bound` or `unknown`.
    pub issued_is: &'static str,
    pub sent: u64,
    pub completed: u64,
}

pub(crate) fn parts(result: &RunResult) -> (Vec<AddendumPart>, Option<CorrectedPart>) {
    let part = |addendum: &Addendum| {
        let stats::Added { issued, sent, completed, failed, iterations } = addendum.added;
        AddendumPart {
            at: stats::time::rfc3339_ms(addendum.at_unix_ms),
            worker: addendum.worker.clone(),
            workflow: workflow(result, addendum).to_owned(),
            shard: addendum.of.shard,
            attempt: addendum.of.attempt,
            added: AddedPart { issued, sent, completed, failed, iterations },
            certain: addendum.certain,
        }
    };
    let corrected = result.corrected().map(|Corrected { issued, sent, completed }| {
        let (issued, issued_is) = (issued.count(), issued.name());
        CorrectedPart { requests: CorrectedRequestsPart { issued, issued_is, sent, completed } }
    });
    (result.last_words.addenda.iter().map(part).collect(), corrected)
}
