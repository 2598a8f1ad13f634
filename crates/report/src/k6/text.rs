//! The summary on the terminal: `compact` and `full`.
//!
//! ```text
//!   █ THRESHOLDS        what was promised, and what came of it
//!   █ TOTAL RESULTS     checks, then metrics under their headings
//!   █ GROUP: name       full: each group, those within it indented
//!   █ SCENARIO: name    full: each scenario, its groups indented
//! ```
//!
//! A section is a list of blocks with an empty line between them; sections have two.

use stats::series::{MetricId, Place, Sink, Target, ThresholdOutcome, builtin};

use super::cells::{BAD, Cells, GOOD, Row, Style, VALUE, Widths, dotted, width};
use super::sections::{HEADINGS, by_name, heading};
use super::tree::{Check, Group, all_checks};
use super::{Results, SummaryMode, numbers};
use crate::format::clean;

/// The scenario of scripts that name none: its groups stand for themselves.
const DEFAULT_SCENARIO: &str = "default";
const BOLD: &str = "1";
const WORD: &str = "37";

struct Writer<'a> {
    results: &'a Results<'a>,
    style: Style,
    is_compact: bool,
}

pub(super) fn text(results: &Results<'_>, mode: SummaryMode) -> String {
    let style = Style { colors: results.has_colors(), dots: "2;37", extra: "2;36" };
    let writer = Writer { results, style, is_compact: mode == SummaryMode::Compact };
    let mut sections = Vec::new();
    sections.extend(writer.thresholds());
    sections.push(writer.total());
    if !writer.is_compact {
        sections.extend(writer.groups_of_no_scenario());
        sections.extend(writer.scenarios());
    }
    let sections: Vec<String> = sections.iter().map(|blocks| blocks.join("\n\n")).collect();
    format!("\n\n{}\n\n\n\n", sections.join("\n\n\n"))
}

/// Blocks of lines, an empty line between them.
type Blocks = Vec<String>;

impl Writer<'_> {
    fn title(&self, indent: usize, sign: &str, title: &str) -> String {
        let title = self.style.paint(BOLD, &clean(title));
        format!("{}{sign} {title} ", " ".repeat(indent))
    }

    fn thresholds(&self) -> Option<Blocks> {
        let mut outcomes: Vec<&ThresholdOutcome> = self.results.outcomes.iter().collect();
        if outcomes.is_empty() {
            return None;
        }
        outcomes.sort_by(|left, right| by_name(&left.key, &right.key));
        let mut blocks = vec![self.title(2, "█", "THRESHOLDS")];
        // A metric's sub-metrics stand under it, if it has thresholds itself.
        let mut under: Option<MetricId> = None;
        for together in outcomes.chunk_by(|left, right| left.target == right.target) {
            let target = together[0].target;
            let layout = self.results.layout;
            let nested = target.sub.filter(|_| under == Some(target.metric));
            let (indent, name) = match nested {
                Some(sub) => (6, format!("{{{}}}", layout.get_sub(sub).filter())),
                None => (4, together[0].key.clone()),
            };
            if target.sub.is_none() {
                under = Some(target.metric);
            }
            let pad = " ".repeat(indent);
            let mut lines = vec![format!("{pad}{}", clean(&name))];
            lines.extend(together.iter().map(|outcome| format!("{pad}{}", self.outcome(outcome))));
            blocks.push(lines.join("\n"));
        }
        Some(blocks)
    }

    /// `✓ 'p(95)<200' p(95)=12.3ms`
    fn outcome(&self, outcome: &ThresholdOutcome) -> String {
        let metric = self.results.layout.get(outcome.target.metric);
        let (color, mark) = mark(outcome.ok);
        let operator = outcome.text.find(['<', '>', '=', '!']).unwrap_or(outcome.text.len());
        let source = outcome.text[..operator].trim();
        let value = outcome.value.unwrap_or_default();
        let unit = self.results.options.time_unit;
        let value = match (metric.kind, source) {
            (plan::MetricKind::Rate, _) => numbers::percent(value),
            (plan::MetricKind::Counter, "rate") => {
                format!("{}/s", numbers::value(value, metric.contains, unit))
            }
            _ => numbers::value(value, metric.contains, unit),
        };
        format!(
            "{} {} {}={}",
            self.style.paint(color, mark),
            self.style.paint(WORD, &format!("'{}'", outcome.text.trim())),
            self.style.paint(WORD, source),
            self.style.paint(VALUE, &value),
        )
    }

    fn total(&self) -> Blocks {
        let Results { layout, total, .. } = *self.results;
        let mut blocks = vec![self.title(2, "█", "TOTAL RESULTS")];
        let is_shown = total.is_shown(layout, builtin::CHECKS.into());
        let sink = total.sink(builtin::CHECKS).filter(|_| is_shown);
        blocks.extend(self.checks(4, sink, &all_checks(total, |_| true)));
        let shown: Vec<Target> =
            layout.targets().filter(|target| total.is_shown(layout, *target)).collect();
        let rows = shown.into_iter().filter_map(|target| {
            let empty;
            let sink = match total.target_sink(target) {
                Some(sink) => sink,
                None => {
                    empty = Sink::new(layout.get(target.metric).kind);
                    &empty
                }
            };
            self.row(target, sink)
        });
        blocks.extend(self.metrics(4, rows.collect()));
        blocks
    }

    /// Groups of scripts that name no scenario, and groups of setup and teardown.
    fn groups_of_no_scenario(&self) -> Vec<Blocks> {
        let is_free = |place: &Place| ["", DEFAULT_SCENARIO].contains(&&*place.scenario);
        let root = self.tree(is_free);
        let section = |group: &Group<'_>| {
            let mut blocks = vec![self.title(2, "█", &format!("GROUP: {}", group.name))];
            blocks.extend(self.group(4, group));
            blocks
        };
        root.groups.iter().map(section).collect()
    }

    fn scenarios(&self) -> Vec<Blocks> {
        let places = self.results.total.places();
        let mut names: Vec<&str> = places.iter().map(|place| &*place.scenario).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !["", DEFAULT_SCENARIO].contains(name));
        let section = |name: &str| {
            let is_its = |place: &Place| *place.scenario == *name;
            let mut blocks = vec![self.title(2, "█", &format!("SCENARIO: {name}"))];
            let root = self.tree(is_its);
            let checks = all_checks(self.results.total, is_its);
            blocks.extend(self.counted(4, &root.all_sinks(), &checks));
            for group in &root.groups {
                blocks.extend(self.nested(4, group));
            }
            blocks
        };
        names.into_iter().map(section).collect()
    }

    fn tree(&self, wanted: impl Fn(&Place) -> bool) -> Group<'_> {
        // What setup and teardown count outside of groups of their own is in the total only.
        let is_lifecycle = |place: &Place| ["::setup", "::teardown"].contains(&&*place.group);
        let Results { layout, total, .. } = *self.results;
        Group::tree(layout, total, |place| wanted(place) && !is_lifecycle(place))
    }

    fn nested(&self, indent: usize, group: &Group<'_>) -> Blocks {
        let mut blocks = vec![self.title(indent, "↳", &format!("GROUP: {}", group.name))];
        blocks.extend(self.group(indent + 2, group));
        blocks
    }

    /// What is in a group, and the groups within.
    fn group(&self, indent: usize, group: &Group<'_>) -> Blocks {
        let mut blocks = self.counted(indent, &group.sinks, &group.checks);
        for inner in &group.groups {
            blocks.extend(self.nested(indent, inner));
        }
        blocks
    }

    fn counted(&self, indent: usize, sinks: &[(MetricId, Sink)], checks: &[Check<'_>]) -> Blocks {
        let of_checks = sinks.iter().find(|(metric, _)| *metric == builtin::CHECKS);
        let mut blocks = self.checks(indent, of_checks.map(|(_, sink)| sink), checks);
        let rows = sinks.iter().filter_map(|(metric, sink)| self.row((*metric).into(), sink));
        blocks.extend(self.metrics(indent, rows.collect()));
        blocks
    }

    /// Three lines about all checks, then each.
    fn checks(&self, indent: usize, sink: Option<&Sink>, checks: &[Check<'_>]) -> Blocks {
        let Some(Sink::Rate { trues, total }) = sink else {
            return Vec::new();
        };
        let pad = " ".repeat(indent);
        let rate = numbers::plain(self.results.per_second(*total as f64));
        let all = Cells::Other { value: total.to_string(), extras: vec![format!("{rate}/s")] };
        let row = |key: &str, cells| Row { label: key.to_owned(), key: key.to_owned(), cells };
        let rows = [
            row("checks_total", all),
            row("checks_succeeded", Cells::share(*trues, *total)),
            row("checks_failed", Cells::share(total - trues, *total)),
        ];
        let mut blocks = vec![self.table(indent, &rows, &rows)];
        let lines: Vec<String> = checks.iter().map(|check| self.check(&pad, check)).collect();
        if !lines.is_empty() {
            blocks.push(lines.join("\n"));
        }
        blocks
    }

    fn check(&self, pad: &str, check: &Check<'_>) -> String {
        let (color, mark) = mark(check.fails == 0);
        let name = clean(check.name);
        let line = format!("{pad}{}", self.style.paint(color, &format!("{mark} {name}")));
        if check.fails == 0 {
            return line;
        }
        let (passes, fails) = (check.passes, check.fails);
        let percent = (100.0 * passes as f64 / (passes + fails) as f64).floor();
        let counts = format!("↳  {percent}% — ✓ {passes} / ✗ {fails}");
        // Twice the indentation, as the reference has it.
        let pad = " ".repeat((2 * pad.len()).saturating_sub(2));
        format!("{line}\n{pad}{}", self.style.paint(color, &counts))
    }

    fn row(&self, target: Target, sink: &Sink) -> Option<(&'static str, Row)> {
        let layout = self.results.layout;
        let metric = layout.get(target.metric);
        let heading = heading(&metric.name, self.is_compact)?;
        let label = match target.sub {
            Some(sub) => format!("  {{ {} }}", clean(layout.get_sub(sub).filter())),
            None => metric.name.clone(),
        };
        let cells = Cells::of(sink, metric.contains, self.results);
        Some((heading, Row { label, key: layout.key(target).to_owned(), cells }))
    }

    /// A block for each heading; columns are the same in all.
    fn metrics(&self, indent: usize, rows: Vec<(&'static str, Row)>) -> Blocks {
        let mut blocks = Vec::new();
        let (headings, rows): (Vec<&str>, Vec<Row>) = rows.into_iter().unzip();
        for heading in HEADINGS {
            let of_heading = headings.iter().zip(&rows).filter(|(known, _)| **known == heading);
            let mut under: Vec<&Row> = of_heading.map(|(_, row)| row).collect();
            if under.is_empty() {
                continue;
            }
            under.sort_by(|left, right| by_name(&left.key, &right.key));
            let title = self.style.paint(BOLD, heading);
            let table = self.table(indent, &rows, under);
            blocks.push(format!("{}{title}\n{table}", " ".repeat(indent)));
        }
        blocks
    }

    /// `rows`, aligned with all of `among`.
    fn table<'a>(
        &self,
        indent: usize,
        among: &[Row],
        rows: impl IntoIterator<Item = &'a Row>,
    ) -> String {
        // The reference counts a name twice here, which makes for long dots.
        let wide = among.iter().map(|row| width(&row.label) + width(&row.key) + 3).max();
        let widths = Widths::of(among);
        let line = |row: &Row| {
            let dotted = dotted(&row.label, wide.unwrap_or_default(), self.style);
            let cells = widths.line(&row.cells, self.results, self.style);
            format!("{}{dotted} {cells}", " ".repeat(indent))
        };
        rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn mark(ok: bool) -> (&'static str, &'static str) {
    if ok { (GOOD, "✓") } else { (BAD, "✗") }
}
