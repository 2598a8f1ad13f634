//! The tables of numbers: per step, per stage, per tag.
//!
//! Latency is measured from the intended start (R16): it is what a user of the target would have
//! waited. Service time is what the target took. In an open model under overload the two part, and
//! showing both is how one sees that; where they agree, one line is enough.

use stats::{RELATIVE_ERROR, StepStats, Trend};

use super::table::{Cell, Row, Table};
use super::{Page, line};
use crate::format;
use crate::rollup::blocks;
use crate::unrun::unrun_steps;

impl Page<'_> {
    pub(super) fn steps(&mut self) {
        let rollup = self.rollup;
        if rollup.total.requests == 0 {
            line!(self);
            line!(self, "No request was made.");
            return;
        }
        let head = [
            "step", "count", "failed", "rate/s", "min", "mean", "p50", "p90", "p95", "p99",
            "p99.9", "max",
        ];
        let mut table = Table::new(head);
        // Eleven columns of numbers leave little of an 80-column terminal.
        let count_width = if self.look.width < 96 { 7 } else { 9 };
        let mut any_service = false;
        // A step that never ran is a row of zeros: what is missing must be seen.
        let unrun = unrun_steps(self.result, rollup);
        let shown =
            |number: &usize| rollup.steps[*number].stats.requests > 0 || unrun.contains(number);
        let used: Vec<_> =
            (0..rollup.steps.len()).filter(shown).map(|number| &rollup.steps[number]).collect();
        for step in &used {
            table.push(Row::new(&step.key, step_cells(&step.stats, step.rate, count_width)));
            if differs(&step.stats) {
                any_service = true;
                table.push(Row::new("  service", service_cells(&step.stats.duration)).dim());
            }
        }
        if used.len() > 1 {
            table.push(
                Row::new("all steps", step_cells(&rollup.total, rollup.rate, count_width)).bold(),
            );
        }
        let remark = match any_service {
            true => "latency from the intended start (service: from sending), within 0.1%",
            false => "latency from the intended start, within 0.1%",
        };
        // The 0.1 % of the remark.
        const { assert!(RELATIVE_ERROR == 0.001) };
        self.section("STEPS", remark);
        self.out += &table.render(self.look);
    }

    /// Only for workflows that have stages: elsewhere the table above says it all.
    pub(super) fn stages(&mut self) {
        let layout = &*self.result.layout;
        // One stage only would repeat the table above.
        let seen = |workflow: &stats::WorkflowLayout| {
            blocks(self.result).filter(|(stage, _)| workflow.stages.contains(stage)).count()
        };
        let head = ["stage", "count", "failed", "iterations", "p50", "p90", "p95", "p99", "max"];
        let mut table = Table::new(head);
        for (stage, block) in blocks(self.result) {
            let workflow = layout.workflow_of_stage(stage);
            if seen(workflow) <= 1 {
                continue;
            }
            let stats = stats::totals::stage_total(&self.result.totals, layout, stage);
            let trend = &stats.latency;
            let mut cells = vec![
                Cell::new(format::count_short(stats.requests)),
                Cell::bad_count(stats.failed),
                Cell::new(format::count_short(block.iterations)),
            ];
            let percentiles = [50.0, 90.0, 95.0, 99.0].map(|p| trend.percentile_ms(p));
            cells.extend(percentiles.map(|ms| Cell::new(format::time_ms(ms))));
            cells.push(Cell::new(format::time_ms(trend.max_ms())));
            let name = format!("{}/{}", workflow.name, layout.stages[stage].name);
            table.push(Row::new(&name, cells));
        }
        if table.is_empty() {
            return;
        }
        self.section("STAGES", "latency of all steps");
        self.out += &table.render(self.look);
    }

    /// Values of tags that were not known before the run.
    pub(super) fn tags(&mut self) {
        const SHOWN_MAX: usize = 10;
        let mut table = Table::new(["tags", "count", "failed", "p50", "p95", "p99", "max"]);
        let mut hidden = 0;
        for step in &self.rollup.steps {
            let mut tagged: Vec<_> = step.stats.tagged.iter().collect();
            tagged.sort_by(|a, b| b.1.requests.cmp(&a.1.requests).then_with(|| a.0.cmp(&b.0)));
            hidden += tagged.len().saturating_sub(SHOWN_MAX);
            for (tags, stats) in tagged.into_iter().take(SHOWN_MAX) {
                let mut cells = vec![
                    Cell::new(format::count_short(stats.requests)),
                    Cell::bad_count(stats.failed),
                ];
                let percentiles = [50.0, 95.0, 99.0].map(|p| stats.latency.percentile_ms(p));
                cells.extend(percentiles.map(|ms| Cell::new(format::time_ms(ms))));
                cells.push(Cell::new(format::time_ms(stats.latency.max_ms())));
                table.push(Row::new(&format!("{}{{{tags}}}", step.key), cells));
            }
        }
        if table.is_empty() {
            return;
        }
        self.section("TAGS", "");
        self.out += &table.render(self.look);
        if hidden > 0 {
            line!(self, "  and {hidden} more, in the file of --summary");
        }
    }
}

fn step_cells(stats: &StepStats, rate: f64, count_width: usize) -> Vec<Cell> {
    let mut cells = vec![
        Cell::new(format::count_within(stats.requests, count_width)),
        Cell::bad_count_within(stats.failed, count_width),
        Cell::new(format::rate(rate)),
    ];
    cells.extend(trend_cells(&stats.latency));
    cells
}

fn service_cells(trend: &Trend) -> Vec<Cell> {
    let mut cells = vec![Cell::new(""), Cell::new(""), Cell::new("")];
    cells.extend(trend_cells(trend));
    cells
}

fn trend_cells(trend: &Trend) -> Vec<Cell> {
    if trend.is_empty() {
        return (0..8).map(|_| Cell::new("-")).collect();
    }
    let percentile = |percent| trend.percentile_ms(percent);
    let [p50, p90, p95, p99, p999] = [50.0, 90.0, 95.0, 99.0, 99.9].map(percentile);
    [trend.min_ms(), trend.mean_ms(), p50, p90, p95, p99, p999, trend.max_ms()]
        .map(|ms| Cell::new(format::time_ms(ms)))
        .into()
}

/// Whether a second line would tell a reader anything: a tenth and a tenth of a millisecond.
fn differs(stats: &StepStats) -> bool {
    [50.0, 95.0, 99.0].into_iter().any(|percent| {
        let latency = stats.latency.percentile_ms(percent);
        let service = stats.duration.percentile_ms(percent);
        (latency - service).abs() > (0.1 * latency).max(0.1)
    })
}
