//! Sums of the whole run: requests, data, iterations, workflows, custom metrics.

use std::fmt::Write;

use stats::{CustomValue, DropCause, Issued, RunResult, WorkflowStatus};

use super::table::{Cell, Row, Table, Tone};
use super::{Page, line, wrap};
use crate::rollup::per_second;
use crate::{addenda, format};

impl Page<'_> {
    pub(super) fn metrics(&mut self) {
        let metrics = &self.result.layout.metrics;
        if metrics.is_empty() {
            return;
        }
        self.section("CUSTOM METRICS", "");
        let width = metrics.iter().map(|m| m.name.chars().count()).max().unwrap_or(0).max(12);
        let width = width.min(self.look.width / 2);
        for (metric, value) in metrics.iter().zip(&self.rollup.all.metrics) {
            let text = metric_text(value, metric.time, self.result);
            let room = self.look.width - (width + 4);
            for (i, part) in wrap(&text, room).iter().enumerate() {
                let name = if i == 0 { &*metric.name } else { "" };
                let name = format::fit(name, width);
                line!(self, "  {name:<width$}  {part}");
            }
        }
    }

    pub(super) fn totals(&mut self) {
        let (total, all) = (&self.rollup.total, &self.rollup.all);
        let elapsed = self.result.elapsed;
        self.section("TOTALS", "");
        let mut requests = format!(
            "{} ({}/s), {} failed",
            format::count(total.requests),
            format::rate(self.rollup.rate),
            format::count(total.failed),
        );
        if total.failed > 0 {
            let _ = write!(requests, " ({})", format::share(total.failed, total.requests));
        }
        if total.interrupted > 0 {
            let _ = write!(requests, ", {} cut off by the end", format::count(total.interrupted));
        }
        if total.retried > 0 {
            let n = format::count(total.retried);
            let _ = write!(requests, ", {n} sent again on a new connection");
        }
        self.labelled("requests", &requests);
        match self.result.issued {
            Issued::Exact(_) => {}
            Issued::Bound(most) => {
                let most = format::count(most);
                let text = format!("at most {most}: a worker has not said its last word");
                self.labelled("issued", &text);
            }
            Issued::Unknown => {
                let text = "unknown: a worker has not said its last word";
                self.labelled("issued", text);
            }
        }
        for (number, text) in addenda::lines(self.result).iter().enumerate() {
            self.labelled(if number == 0 { "addenda" } else { "" }, text);
        }
        self.statuses();
        let transfer = |n: u64| {
            let per_second = format::bytes(per_second(n, elapsed));
            format!("{} ({per_second}/s)", format::bytes(n as f64))
        };
        let (sent, received) = (transfer(total.bytes_sent), transfer(total.bytes_received));
        self.labelled("data", &format!("{sent} sent, {received} received"));
        let mut iterations = format!(
            "{} ({}/s)",
            format::count(all.iterations),
            format::rate(per_second(all.iterations, elapsed)),
        );
        if !all.iteration_duration.is_empty() {
            let mean = format::time_ms(all.iteration_duration.mean_ms());
            let p95 = format::time_ms(all.iteration_duration.percentile_ms(95.0));
            let _ = write!(iterations, ", mean {mean}, p95 {p95}");
        }
        if all.iterations_interrupted > 0 {
            let n = format::count(all.iterations_interrupted);
            let _ = write!(iterations, ", {n} cut off by the end");
        }
        self.labelled("iterations", &iterations);
        if self.rollup.dropped() > 0 {
            let text = dropped_text(&all.dropped);
            self.labelled("dropped", &self.paint(Tone::Yellow, &text));
        }
        if all.late_starts > 0 {
            let n = format::plural(all.late_starts, "iteration");
            let max = format::time_ms(all.start_lag.max_ms());
            self.labelled("late", &format!("{n} started late, up to {max} after schedule"));
        }
    }

    fn statuses(&mut self) {
        let mut statuses: Vec<(u16, u64)> = self.rollup.total.status.iter().collect();
        statuses.sort_unstable();
        let text = statuses.iter().map(|(status, n)| format!("{status}: {}", format::count(*n)));
        let text: Vec<String> = text.collect();
        if !text.is_empty() {
            self.labelled("answers", &text.join(", "));
        }
    }

    pub(super) fn workflows(&mut self) {
        let result = self.result;
        if result.workflows.is_empty() {
            return;
        }
        let head = ["workflow", "status", "from", "to", "iterations", "dropped", "VUs", "cores"];
        let mut table = Table::new(head);
        for workflow in &result.workflows {
            let index = result.layout.workflows.iter().position(|w| w.name == workflow.name);
            let block = index.map(|index| &self.rollup.workflows[index]);
            let dropped = block.map_or(0, |block| block.dropped.iter().sum());
            let (status, tone) = match &workflow.status {
                WorkflowStatus::Completed => ("completed", Tone::Plain),
                WorkflowStatus::Failed { .. } => ("failed", Tone::Red),
                WorkflowStatus::Skipped { .. } => ("skipped", Tone::Yellow),
                WorkflowStatus::Stopped => ("stopped", Tone::Yellow),
            };
            table.push(Row::new(
                &workflow.name,
                vec![
                    Cell::toned(status, tone),
                    Cell::new(format::moment(workflow.started)),
                    Cell::new(format::moment(workflow.ended)),
                    Cell::new(format::count(block.map_or(0, |block| block.iterations))),
                    Cell::bad_count(dropped),
                    Cell::new(format::count(workflow.vus_max)),
                    Cell::new(workflow.cores.to_string()),
                ],
            ));
        }
        self.section("WORKFLOWS", "");
        self.out += &table.render(self.look);
        for workflow in &result.workflows {
            let why = match &workflow.status {
                WorkflowStatus::Failed { error } => format!("failed: {}", format::clean(error)),
                WorkflowStatus::Skipped { because_of } => {
                    format!("skipped, because {because_of} failed")
                }
                WorkflowStatus::Completed | WorkflowStatus::Stopped => continue,
            };
            for part in wrap(&format!("{} {why}", workflow.name), self.look.width - 4) {
                line!(self, "    {part}");
            }
        }
    }
}

pub(super) fn dropped_text(dropped: &[u64; DropCause::ALL.len()]) -> String {
    let causes = DropCause::ALL.into_iter().zip(dropped).filter(|(_, n)| **n > 0);
    let causes: Vec<String> = causes
        .map(|(cause, n)| {
            let why = match cause {
                DropCause::NoFreeVu => "no free VU",
                DropCause::TimeOver => "time was over",
                DropCause::DataExhausted => "data exhausted",
                DropCause::WorkerLost => "worker lost",
                DropCause::RowsLate => "no data row in time",
                DropCause::Stopped => "stopped before their turn",
            };
            format!("{} {why}", format::count(*n))
        })
        .collect();
    let all = format::plural(dropped.iter().sum(), "iteration");
    format!("{all} not started: {}", causes.join(", "))
}

fn metric_text(value: &CustomValue, time: bool, result: &RunResult) -> String {
    match value {
        CustomValue::Counter { sum, .. } => {
            let seconds = result.elapsed.as_secs_f64();
            let rate = if seconds > 0.0 { sum / seconds } else { 0.0 };
            format!("{} ({}/s)", format::plain(*sum), format::rate(rate))
        }
        CustomValue::Gauge { min, max, .. } if min > max => "no value".to_owned(),
        CustomValue::Gauge { value, min, max, .. } => {
            let [value, min, max] = [value, min, max].map(|v| format::plain(*v));
            format!("{value} (min {min}, max {max})")
        }
        CustomValue::Rate { trues, total } => {
            let share = format::share(*trues, *total);
            format!("{share} ({} of {})", format::count(*trues), format::count(*total))
        }
        CustomValue::Trend(trend) if trend.is_empty() => "no value".to_owned(),
        CustomValue::Trend(trend) => {
            let show = |v: f64| {
                if time { format::time_ms(v) } else { format::rounded(v) }
            };
            let values = [
                ("min", trend.min_ms()),
                ("mean", trend.mean_ms()),
                ("p50", trend.percentile_ms(50.0)),
                ("p95", trend.percentile_ms(95.0)),
                ("p99", trend.percentile_ms(99.0)),
                ("max", trend.max_ms()),
            ];
            let parts: Vec<String> =
                values.iter().map(|(name, v)| format!("{name} {}", show(*v))).collect();
            format!("{} ({})", parts.join(", "), format::plural(trend.count(), "value"))
        }
    }
}
