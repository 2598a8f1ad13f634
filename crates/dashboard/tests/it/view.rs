//! What the live view shows, compared with files: `UPDATE_GOLDEN=1 cargo test -p dashboard` writes
//! them anew.

#[path = "../../examples/fake/mod.rs"]
mod fake;

use std::path::PathBuf;

use dashboard::{Runs, ascii, plain_line, screen};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stats::{RunState, Snapshot, WorkflowState};

fn golden(name: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{name}");
}

/// As a terminal of this size would show it.
fn shown(snapshot: &Snapshot, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let picture = screen(snapshot, Runs::Here, width, height);
    terminal.draw(|frame| frame.buffer_mut().merge(&picture)).unwrap();
    let rows = terminal.backend().to_string();
    let rows = rows.lines().map(|row| row.trim_matches('"').trim_end());
    let rows: Vec<&str> = rows.take(usize::from(picture.area.height)).collect();
    rows.join("\n") + "\n"
}

#[test]
fn a_running_plan_looks_as_in_the_golden_file() {
    golden("running.txt", &shown(&fake::snapshot(12_300), 100, 40));
}

#[test]
fn a_narrow_and_low_terminal_keeps_header_totals_and_keys() {
    let small = shown(&fake::snapshot(12_300), 80, 12);
    golden("small.txt", &small);
    assert_eq!(small.lines().count(), 12);
    let tiny = shown(&fake::snapshot(12_300), 40, 4);
    assert!(tiny.lines().count() <= 4);
    assert!(tiny.contains("checkout"));
}

#[test]
fn many_steps_are_shortened_with_a_count() {
    let mut snapshot = fake::snapshot(12_300);
    for number in 0..50 {
        let mut step = snapshot.steps[0].clone();
        step.name = format!("step {number}");
        snapshot.steps.push(step);
    }
    let out = shown(&snapshot, 100, 24);
    assert_eq!(out.lines().count(), 24);
    assert!(out.contains(" more\n"), "{out}");
    assert!(out.contains("✗ checks rate > 99%"), "short lists are left alone: {out}");
}

#[test]
fn any_size_is_drawn_without_a_panic() {
    let snapshots = [Snapshot::default(), fake::snapshot(0), fake::snapshot(500_000)];
    for snapshot in &snapshots {
        for width in [1, 7, 20, 60, 200] {
            for height in [1, 2, 5, 60] {
                let picture = screen(snapshot, Runs::Here, width, height);
                assert!(picture.area.width <= width && picture.area.height <= height.max(3));
            }
        }
    }
}

#[test]
fn states_are_named_and_the_keys_follow_them() {
    let mut snapshot = fake::snapshot(12_300);
    snapshot.state = RunState::Paused;
    assert!(shown(&snapshot, 100, 40).contains("p resume"));
    snapshot.state = RunState::Stopping;
    snapshot.workflows[0].state = WorkflowState::Failed;
    let out = shown(&snapshot, 100, 40);
    assert!(out.contains("stopping") && out.contains("Ctrl-C: end at once"), "{out}");
    assert!(out.contains("failed"), "{out}");
}

/// A job on a fleet does not end with its view, and cannot be scaled by keys.
#[test]
fn the_keys_of_a_job_elsewhere_say_what_they_do() {
    let mut snapshot = fake::snapshot(12_300);
    for state in [RunState::Preparing, RunState::Running, RunState::Paused, RunState::Stopping] {
        snapshot.state = state;
        let picture = screen(&snapshot, Runs::Elsewhere, 100, 40);
        let shown: String = picture.content().iter().map(|cell| cell.symbol()).collect();
        assert!(shown.contains("Ctrl-C: leave, the job goes on"), "{shown}");
        assert!(!shown.contains("end at once") && !shown.contains("load by"), "{shown}");
    }
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut snapshot = fake::snapshot(12_300);
    snapshot.plan = "a\x1b[2Jb".into();
    snapshot.errors = vec![("x\x1b]0;".into(), 1)];
    assert!(!shown(&snapshot, 100, 40).contains('\x1b'));
}

#[test]
fn the_plain_line_reads_as_promised() {
    let mut snapshot = fake::snapshot(12_300);
    snapshot.total.failed = 0;
    snapshot.total.checks_failed = 0;
    snapshot.thresholds.clear();
    assert_eq!(
        plain_line(&snapshot),
        "12s  running  shop 41%  50 VUs  2,460 req (198.7/s)  p95 12.3ms  0 failed"
    );
    let trouble = plain_line(&fake::snapshot(75_000));
    assert!(trouble.starts_with("1m15s  running"), "{trouble}");
    assert!(trouble.ends_with("12 failed  12 checks failed  ✗ checks"), "{trouble}");
}

/// Each number of a narrow view is one that a wide view shows.
#[test]
fn a_narrow_view_leaves_numbers_out_and_never_cuts_them() {
    let mut snapshot = fake::snapshot(12_300);
    snapshot.steps[0].p99_ms = 20.8;
    snapshot.steps[0].name = "a step with a rather long name".into();
    let wide = shown(&snapshot, 120, 60);
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().map(|word| word.trim_end_matches(',').to_owned()).collect()
    };
    let whole = words(&wide);
    for width in 24..100 {
        let narrow = shown(&snapshot, width, 60);
        for word in words(&narrow) {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            assert!(!is_number || whole.contains(&word), "{width}: {word} in\n{narrow}");
        }
    }
    let narrow = shown(&snapshot, 60, 60);
    assert!(narrow.contains("20.8ms") && narrow.contains("p95"), "{narrow}");
}

#[test]
fn the_view_of_an_ascii_terminal_has_nothing_but_ascii() {
    let mut snapshot = fake::snapshot(12_300);
    snapshot.plan = "Bücher 書店".into();
    for state in [RunState::Running, RunState::Paused, RunState::Stopping, RunState::Done] {
        snapshot.state = state;
        let picture = ascii(screen(&snapshot, Runs::Here, 100, 40));
        assert!(picture.content().iter().all(|cell| cell.symbol().is_ascii()), "{state:?}");
    }
}

#[test]
fn requests_under_way_are_shown_while_nothing_has_come_back() {
    let mut snapshot = Snapshot { state: RunState::Running, ..Snapshot::default() };
    snapshot.total.under_way = 12;
    let sentence = "12 requests under way, nothing has come back yet";
    assert!(shown(&snapshot, 60, 20).contains(sentence));
    assert!(plain_line(&snapshot).contains(sentence));
    snapshot.total.requests = 1;
    assert!(!shown(&snapshot, 60, 20).contains("under way"));
}
