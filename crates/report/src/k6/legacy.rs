//! The summary on the terminal as it was before sections: `legacy`.

use stats::series::{Sink, Target};

use super::Results;
use super::cells::{BAD, Cells, GOOD, Row, Style, Widths, dotted, width};
use super::sections::by_name;
use super::tree::{Check, Group};
use crate::format::clean;

pub(super) fn text(results: &Results<'_>) -> String {
    let style = Style { colors: results.has_colors(), dots: "2", extra: "36;2" };
    let root = Group::tree(results.layout, results.total, |place| place.entered);
    let mut lines = vec![String::new()];
    group(&root, 5, style, &mut lines);
    metrics(results, style, &mut lines);
    format!("{}\n\n", lines.join("\n"))
}

/// Checks, then groups within, each followed by an empty line.
fn group(group: &Group<'_>, indent: usize, style: Style, lines: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    if indent > 5 {
        let title = format!("{}█ {}", " ".repeat(indent - 2), clean(group.name));
        lines.extend([title, String::new()]);
    }
    lines.extend(group.checks.iter().map(|known| check(known, &pad, style)));
    if !group.checks.is_empty() {
        lines.push(String::new());
    }
    for inner in &group.groups {
        self::group(inner, indent + 2, style, lines);
    }
}

fn check(check: &Check<'_>, pad: &str, style: Style) -> String {
    let name = clean(check.name);
    if check.fails == 0 {
        return style.paint(GOOD, &format!("{pad}✓ {name}"));
    }
    let (passes, fails) = (check.passes, check.fails);
    let percent = (100.0 * passes as f64 / (passes + fails) as f64).floor();
    let counts = format!("{pad} ↳  {percent}% — ✓ {passes} / ✗ {fails}");
    style.paint(BAD, &format!("{pad}✗ {name}\n{counts}"))
}

fn metrics(results: &Results<'_>, style: Style, lines: &mut Vec<String>) {
    let Results { layout, total, .. } = *results;
    let shown = layout.targets().filter(|target| total.is_shown(layout, *target));
    let mut rows: Vec<(Target, Row)> = shown
        .map(|target| {
            let metric = layout.get(target.metric);
            let empty = Sink::new(metric.kind);
            let sink = total.target_sink(target).unwrap_or(&empty);
            let label = match target.sub {
                Some(sub) => format!("{{ {} }}", clean(layout.get_sub(sub).filter())),
                None => metric.name.clone(),
            };
            let cells = Cells::of(sink, metric.contains, results);
            (target, Row { label, key: layout.key(target).to_owned(), cells })
        })
        .collect();
    rows.sort_by(|(_, left), (_, right)| by_name(&left.key, &right.key));
    let widths = Widths::of(rows.iter().map(|(_, row)| row));
    let indent = |target: &Target| if target.sub.is_some() { 2 } else { 0 };
    let wide = rows.iter().map(|(target, row)| indent(target) + width(&row.label)).max();
    let wide = wide.unwrap_or_default() + 3;
    for (target, row) in &rows {
        let outcomes = results.outcomes.iter().filter(|outcome| outcome.target == *target);
        let oks: Vec<bool> = outcomes.map(|outcome| outcome.ok).collect();
        let mark = match oks.iter().all(|ok| *ok) {
            _ if oks.is_empty() => " ".to_owned(),
            true => style.paint(GOOD, "✓"),
            false => style.paint(BAD, "✗"),
        };
        let indent = indent(target);
        let label = dotted(&row.label, wide - indent, style);
        let cells = widths.line(&row.cells, results, style);
        lines.push(format!("{}{mark} {label} {cells}", " ".repeat(3 + indent)));
    }
}
