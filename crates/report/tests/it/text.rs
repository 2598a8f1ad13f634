//! The summary as people see it.

use crate::common::golden;
use crate::fake;
use report::text::{Look, brief, text};
use stats::{Outcome, StopReason, Verdict, VerdictState, Window, WorkflowStatus};

fn plain() -> Look {
    Look { width: 100, color: false }
}

#[test]
fn a_good_run_reads_as_in_the_golden_file() {
    golden("text_good.txt", &text(&fake::good(), plain()));
}

/// One line for each worker that came back, then what it comes to.
#[test]
fn addenda_have_a_line_each_and_the_corrected_bound() {
    let page = text(&fake::with_addendum(), Look { width: 160, color: false });
    let line = "addenda       2026-11-17T20:00:00.000Z  worker 3f2a0000 is back: shop, shard 0, attempt 1: 9 issued, \
                8 sent, 7 completed more";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("with that: 1,009 issued, "), "{page}");
    assert!(page.contains("at most 1,030: a worker has not said its last word"), "{page}");
    assert!(!text(&fake::good(), plain()).contains("addenda"));
}

#[test]
fn on_80_columns_names_stand_above_their_numbers() {
    golden("text_bad_80.txt", &text(&fake::bad(), Look { width: 80, color: false }));
}

#[test]
fn a_bad_run_shows_what_failed_and_what_to_look_at_next() {
    golden("text_bad.txt", &text(&fake::bad(), plain()));
}

#[test]
fn colours_are_codes_around_the_same_text() {
    let with = text(&fake::bad(), Look { color: true, ..plain() });
    let mut without = String::new();
    let mut in_code = false;
    for c in with.chars() {
        match c {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            c if !in_code => without.push(c),
            _ => {}
        }
    }
    // Cells are padded inside their colour, so blanks at the end of a line may remain.
    let trim = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(&without), trim(&text(&fake::bad(), plain())));
    assert!(with.contains("\x1b[31m✗"), "failed marks are red");
}

#[test]
fn every_line_fits_the_width_that_was_given() {
    for width in [48, 60, 72, 80, 100, 140] {
        for result in [fake::good(), fake::bad(), fake::huge()] {
            for line in text(&result, Look { width, color: false }).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

/// What a wider page says, without a column: each number of the narrow page is one of the wide
/// page.
#[test]
fn on_60_columns_numbers_are_left_out_and_never_cut() {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    for result in [fake::good(), fake::bad(), fake::huge()] {
        let wide = text(&result, Look { width: 200, ..plain() });
        let whole: Vec<&str> = wide.split_whitespace().collect();
        let narrow = text(&result, Look { width: 60, ..plain() });
        for number in narrow.split_whitespace().filter(is_number) {
            // Counts are shortened to millions where columns are narrow.
            assert!(whole.contains(&number) || number.ends_with('M'), "{number} in\n{narrow}");
        }
        assert!(narrow.contains("p95") && narrow.contains("p99"), "{narrow}");
    }
}

#[test]
fn a_long_step_name_is_never_cut() {
    let mut result = fake::good();
    let mut layout = (*result.layout).clone();
    layout.steps[0].name = "POST /api/v2/customers/{id}/orders/{order}/payments/confirm".into();
    result.layout = layout.into();
    let out = text(&result, plain());
    assert!(
        out.contains("  POST /api/v2/customers/{id}/orders/{order}/payments/confirm\n"),
        "{out}"
    );
}

#[test]
fn text_from_a_server_reaches_the_terminal_without_its_control_characters() {
    let out = text(&fake::bad(), plain());
    assert!(out.contains("too many"));
    assert!(!out.contains('\x1b'));
}

#[test]
fn the_last_line_says_pass_or_fail_and_the_exit_code() {
    let last = |result| text(&result, plain()).lines().last().unwrap().to_owned();
    assert_eq!(
        last(fake::good()),
        "✓ PASSED  all 3 thresholds held, every check passed, no request failed (exit code 0)"
    );
    assert!(last(fake::bad()).starts_with("✗ FAILED  2 of 3 thresholds failed"));
}

#[test]
fn a_run_that_made_no_request_says_so_without_tables() {
    let mut result = fake::good();
    result.totals = Window::new(&result.layout);
    result.outcome = Outcome::Failed;
    result.stop = StopReason::Finished;
    result.verdict =
        Verdict { state: VerdictState::Invalid, reasons: vec!["no request was made".into()] };
    result.workflows[0].status = WorkflowStatus::Failed { error: "setup: no token".into() };
    result.workflows[1].status = WorkflowStatus::Skipped { because_of: "shop".into() };
    golden("text_nothing.txt", &text(&result, plain()));
}

#[test]
fn the_brief_result_is_as_short_as_wrks() {
    let good = brief(&fake::quick(), plain());
    assert!(good.lines().count() <= 10, "{good}");
    let out = format!("{good}---\n{}", brief(&fake::quick_refused(), plain()));
    golden("brief.txt", &out);
}
