//! The picture: one snapshot, one buffer. Pure, so that tests see what people see.
//!
//! Sections from top to bottom: header, workflows, totals, steps, checks and errors, thresholds,
//! warnings, keys. Where the terminal is too low for all of them, lists are shortened and say so;
//! header, totals and keys stay.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use report::format;
use stats::{HistoryPoint, RunState, Snapshot, StepSnapshot, WorkflowSnapshot, WorkflowState};

use crate::keys::{self, Runs};
use crate::narrow;
use crate::plain::{state_name, waiting};

/// Wider than this only makes eyes travel.
const WIDTH_MAX: u16 = 120;

/// Draws `snapshot` into at most `width` × `height` cells; the buffer is as high as it needs to be.
pub fn screen(snapshot: &Snapshot, runs: Runs, width: u16, height: u16) -> Buffer {
    let width = width.min(WIDTH_MAX);
    let lines = lines(snapshot, runs, usize::from(width), usize::from(height.max(3)));
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, lines.len() as u16));
    for (y, line) in lines.into_iter().enumerate() {
        let line = narrow::whole_parts(line, usize::from(width));
        buffer.set_line(0, y as u16, &line, width);
    }
    buffer
}

/// The same picture for a terminal that shows nothing but ASCII.
pub fn ascii(mut picture: Buffer) -> Buffer {
    for cell in picture.content.iter_mut().filter(|cell| !cell.symbol().is_ascii()) {
        let c = cell.symbol().chars().next().unwrap_or(' ');
        cell.set_char(format::ascii_char(c));
    }
    picture
}

fn lines(snapshot: &Snapshot, runs: Runs, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lists = [
        workflow_lines(snapshot, width),
        step_lines(snapshot, width),
        outcome_lines(snapshot),
        threshold_lines(snapshot, width),
        warning_lines(snapshot, width),
    ];
    let head = vec![header(snapshot, width)];
    let totals = total_lines(snapshot, width);
    let foot = Line::from(narrow::whole_words(keys::help(snapshot.state, runs), width)).dim();
    let fixed = head.len() + totals.len() + 1;
    shorten(&mut lists, height.saturating_sub(fixed));
    let [workflows, steps, outcomes, thresholds, warnings] = lists;
    let mut rest = outcomes;
    rest.extend(thresholds);
    rest.extend(warnings);
    let mut sections = vec![head, workflows, totals, steps, rest, vec![foot]];
    sections.retain(|section| !section.is_empty());
    // Air between the sections, if there is room for all of it.
    let used: usize = sections.iter().map(Vec::len).sum();
    let airy = used + sections.len() <= height;
    let mut all = Vec::new();
    for (number, section) in sections.into_iter().enumerate() {
        if airy && number > 1 {
            all.push(Line::default());
        }
        all.extend(section);
    }
    all.truncate(height);
    all
}

/// Takes lines from the longest list until all fit, and marks each list that lost some.
fn shorten(lists: &mut [Vec<Line<'static>>], room: usize) {
    let total = |lists: &[Vec<Line<'static>>]| lists.iter().map(Vec::len).sum::<usize>();
    let mut cut = vec![0; lists.len()];
    while total(lists) > room {
        let Some(longest) = (0..lists.len()).max_by_key(|i| lists[*i].len()) else {
            return;
        };
        if lists[longest].pop().is_none() {
            return;
        }
        cut[longest] += 1;
    }
    for (list, cut) in lists.iter_mut().zip(cut) {
        // The mark takes the place of a line, which is then missing too.
        if cut > 0
            && let Some(last) = list.last_mut()
        {
            *last = Line::from(format!("  … {} more", cut + 1)).dim();
        }
    }
}

fn header(snapshot: &Snapshot, width: usize) -> Line<'static> {
    const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇", "⠏", "⠛"];
    let (mark, style) = match snapshot.state {
        RunState::Preparing | RunState::Running => {
            let frame = (snapshot.elapsed.as_millis() / 125) as usize % SPINNER.len();
            (SPINNER[frame], Style::new().fg(Color::Cyan))
        }
        RunState::Paused => ("‖", Style::new().fg(Color::Yellow)),
        RunState::Stopping => ("■", Style::new().fg(Color::Yellow)),
        RunState::Done => ("✓", Style::new().fg(Color::Green)),
    };
    let clock = |time: std::time::Duration| {
        let seconds = time.as_secs();
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
            (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
        }
    };
    let time = match snapshot.planned {
        Some(planned) => format!("{} of {}", clock(snapshot.elapsed), clock(planned)),
        None => clock(snapshot.elapsed),
    };
    let state = state_name(snapshot.state);
    // Marks and blanks take six.
    let room = width.saturating_sub(6 + state.len() + time.len()).max(4);
    let plan = format::fit(&format::clean(&snapshot.plan), room);
    Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::from(plan).bold(),
        Span::styled(format!("  {state}  "), style),
        Span::from(time),
    ])
}

fn workflow_lines(snapshot: &Snapshot, width: usize) -> Vec<Line<'static>> {
    let names = snapshot.workflows.iter().map(|workflow| workflow.name.chars().count());
    let name_width = names.max().unwrap_or(0).clamp(6, 20).min((width / 4).max(6));
    snapshot.workflows.iter().map(|workflow| workflow_line(workflow, name_width, width)).collect()
}

fn workflow_line(workflow: &WorkflowSnapshot, name_width: usize, width: usize) -> Line<'static> {
    let (word, style) = match workflow.state {
        WorkflowState::Waiting => ("waiting", Style::new().dim()),
        WorkflowState::Running => ("", Style::new().fg(Color::Cyan)),
        WorkflowState::Completed => ("done", Style::new().fg(Color::Green)),
        WorkflowState::Failed => ("failed", Style::new().fg(Color::Red)),
        WorkflowState::Skipped => ("skipped", Style::new().fg(Color::Yellow)),
        WorkflowState::Stopped => ("stopped", Style::new().fg(Color::Yellow)),
    };
    let name = format::fit(&format::clean(&workflow.name), name_width);
    let bar_width = (width.saturating_sub(name_width + 60)).clamp(8, 30);
    let progress = workflow.progress.clamp(0.0, 1.0);
    let mut spans = vec![
        Span::from(format!("  {name:<name_width$} ")),
        Span::styled(bar(progress, bar_width), style),
        Span::from(format!(" {:>3.0}%  ", (progress * 100.0).floor())),
    ];
    if workflow.dropped > 0 {
        let dropped = format!("{} dropped  ", format::count(workflow.dropped));
        spans.push(Span::from(dropped).fg(Color::Yellow));
    }
    match workflow.state {
        WorkflowState::Waiting => {
            spans.push(Span::from(format!("waiting  {}", workflow.load)).dim());
        }
        WorkflowState::Running => {
            spans.push(Span::from(format::plural(workflow.vus, "VU")));
            spans.push(Span::from(format!(
                "  {}",
                format::plural(workflow.iterations, "iteration")
            )));
            if !workflow.stage.is_empty() {
                spans.push(Span::from(format!("  {}", workflow.stage)).dim());
            }
        }
        _ => {
            spans.push(Span::styled(word, style));
            spans.push(Span::from(format!(
                "  {}",
                format::plural(workflow.iterations, "iteration")
            )));
        }
    }
    Line::from(spans)
}

/// Eighths of a cell, so that a long run is seen to move.
fn bar(progress: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (progress * width as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar += PARTS[eighths % 8];
    let used = bar.chars().count();
    bar + &"░".repeat(width.saturating_sub(used))
}

fn total_lines(snapshot: &Snapshot, width: usize) -> Vec<Line<'static>> {
    let total = &snapshot.total;
    if let Some(waiting) = waiting(snapshot) {
        return vec![Line::from(format!("  {waiting}")).fg(Color::Yellow)];
    }
    let mut spans = vec![
        Span::from("  requests ").dim(),
        Span::from(format::count(total.requests)).bold(),
        Span::from(format!("  {}/s", format::rate(total.rate))),
    ];
    let failed = format!("  {} failed", format::count(total.failed));
    spans.push(match total.failed {
        0 => Span::from(failed),
        _ => Span::from(failed).fg(Color::Red),
    });
    for (name, ms) in [("p50", total.p50_ms), ("p95", total.p95_ms), ("p99", total.p99_ms)] {
        spans.push(Span::from(format!("  {name} {}", format::time_ms(ms))));
    }
    // Where not all of them fit, the first to go is the one that says least.
    if spans.iter().map(Span::width).sum::<usize>() > width {
        spans.remove(spans.len() - 3);
    }
    let mut lines = vec![Line::from(spans)];
    if snapshot.history.len() > 1 {
        // Two pictures side by side: label, picture, largest value.
        let each = (width / 2).saturating_sub(24).clamp(8, 60);
        let rates = |point: &HistoryPoint| match point.over_s {
            over if over > 0.0 => point.requests as f64 / over,
            _ => 0.0,
        };
        let (rate, rate_max) = sparkline(&snapshot.history, each, rates);
        let (p99, p99_max) = sparkline(&snapshot.history, each, |point| point.p99_ms);
        let mean =
            format!(" max {}, mean {}", format::rate(rate_max), format::rate(total.rate_mean));
        let mut pictures = vec![
            Span::from("  rate     ").dim(),
            Span::from(rate).fg(Color::Cyan),
            Span::from(mean).dim(),
        ];
        let second = [
            Span::from("    p99 ").dim(),
            Span::from(p99).fg(Color::Yellow),
            Span::from(format!(" max {}", format::time_ms(p99_max))).dim(),
        ];
        // A picture without its scale says nothing.
        if pictures.iter().chain(&second).map(Span::width).sum::<usize>() <= width {
            pictures.extend(second);
        }
        lines.push(Line::from(pictures));
    }
    lines
}

/// The newest `width` points, scaled to the largest of them.
fn sparkline(
    history: &[HistoryPoint],
    width: usize,
    value: impl Fn(&HistoryPoint) -> f64,
) -> (String, f64) {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let newest = &history[history.len().saturating_sub(width)..];
    let max = newest.iter().map(&value).fold(0.0, f64::max);
    let levels = newest.iter().map(|point| {
        let share = if max > 0.0 { value(point) / max } else { 0.0 };
        LEVELS[((share * 7.0).round() as usize).min(7)]
    });
    (levels.collect(), max)
}

fn step_lines(snapshot: &Snapshot, width: usize) -> Vec<Line<'static>> {
    if snapshot.steps.is_empty() {
        return Vec::new();
    }
    let name = |step: &StepSnapshot| {
        let twice = snapshot.steps.iter().filter(|other| other.name == step.name).count() > 1;
        let name = match twice {
            true => format!("{}/{}", step.workflow, step.name),
            false => step.name.clone(),
        };
        format::clean(&name)
    };
    let longest = snapshot.steps.iter().map(|step| name(step).chars().count()).max().unwrap_or(0);
    const WIDTHS: [usize; 6] = [11, 9, 9, 8, 8, 8];
    // Beside a name of eight: p50 says least, then how fast it goes, which the totals say too.
    let shown = narrow::columns(&WIDTHS, &[3, 2, 5, 1, 4], width.saturating_sub(10));
    let taken = |shown: &[bool]| -> usize {
        WIDTHS.iter().zip(shown).filter(|(_, shown)| **shown).map(|(width, _)| width + 1).sum()
    };
    let name_width = longest.max(4).min(width.saturating_sub(taken(&shown) + 2)).max(8);
    let row = |label: &str, cells: [String; 6], failed: u64| -> Line<'static> {
        let mut spans = vec![Span::from(format!("  {label:<name_width$}"))];
        for (column, text) in cells.into_iter().enumerate().filter(|(column, _)| shown[*column]) {
            let cell = Span::from(format!(" {text:>0$}", WIDTHS[column]));
            spans.push(if column == 1 && failed > 0 { cell.fg(Color::Red) } else { cell });
        }
        Line::from(spans)
    };
    let head = ["count", "failed", "rate/s", "p50", "p95", "p99"].map(str::to_owned);
    let mut lines = vec![row("step", head, 0).dim()];
    for step in &snapshot.steps {
        let cells = [
            format::count_short(step.requests),
            format::count_short(step.failed),
            format::rate(step.rate),
            format::time_ms(step.p50_ms),
            format::time_ms(step.p95_ms),
            format::time_ms(step.p99_ms),
        ];
        lines.push(row(&format::fit(&name(step), name_width), cells, step.failed));
    }
    lines
}

/// Checks and errors share a line.
fn outcome_lines(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let total = &snapshot.total;
    let mut spans = Vec::new();
    if total.checks_passed + total.checks_failed > 0 {
        spans.push(Span::from("  checks ").dim());
        spans
            .push(Span::from(format!("✓ {}", format::count(total.checks_passed))).fg(Color::Green));
        if total.checks_failed > 0 {
            let failed = format!("  ✗ {}", format::count(total.checks_failed));
            spans.push(Span::from(failed).fg(Color::Red));
        }
    }
    if !snapshot.errors.is_empty() {
        spans.push(Span::from("  errors ").dim());
        for (number, (kind, count)) in snapshot.errors.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            let text = format!("{comma}{} {}", format::clean(kind), format::count(*count));
            spans.push(Span::from(text).fg(Color::Red));
        }
    }
    if spans.is_empty() { Vec::new() } else { vec![Line::from(spans)] }
}

/// Broken ones first: they must not be the ones that are cut.
fn threshold_lines(snapshot: &Snapshot, width: usize) -> Vec<Line<'static>> {
    let mut thresholds: Vec<_> = snapshot.thresholds.iter().collect();
    thresholds.sort_by_key(|threshold| threshold.ok);
    thresholds
        .into_iter()
        .map(|threshold| {
            let (mark, color) = match threshold.ok {
                _ if threshold.value.is_none() => ("·", Color::Reset),
                true => ("✓", Color::Green),
                false => ("✗", Color::Red),
            };
            let what = format!("{} {}", threshold.label, threshold.hold);
            let value = match threshold.value {
                Some(value) => format!("  {}", format::value(value, threshold.unit)),
                None => "  not measured yet".to_owned(),
            };
            let room = width.saturating_sub(4 + value.chars().count());
            let what = narrow::whole_words(&format::clean(&what), room);
            Line::from(vec![
                Span::from(format!("  {mark} ")).fg(color),
                Span::from(what),
                Span::from(value).fg(color),
            ])
        })
        .collect()
}

fn warning_lines(snapshot: &Snapshot, width: usize) -> Vec<Line<'static>> {
    let warnings = snapshot.warnings.iter();
    warnings
        .map(|warning| {
            let text = narrow::whole_words(&format::clean(warning), width.saturating_sub(4));
            Line::from(format!("  ! {text}")).fg(Color::Yellow)
        })
        .collect()
}
