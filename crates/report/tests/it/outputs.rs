//! Result files: whole outputs, and what happens when a disk is full.

use crate::fake;
use std::sync::Arc;

use crate::common::golden;
use report::exit_code;
use report::outputs::{Format, SampleWriter, Target, hdr, junit, write_results};
use stats::{ErrorKind, Outcome, RequestSample, RunResult, Sample, StopReason, VerdictState};

const AT: u64 = 1_794_788_563_120_531_499;

fn samples() -> Vec<Sample> {
    let good = RequestSample {
        at_unix_ns: AT,
        step: 1,
        stage: 1,
        status: 200,
        duration_ns: 4_598_600,
        sending_ns: 8_000,
        waiting_ns: 4_500_000,
        receiving_ns: 90_600,
        latency_ns: 5_000_000,
        bytes_sent: 180,
        bytes_received: 1450,
        proto: 1,
        ..RequestSample::default()
    };
    let bad = RequestSample {
        status: 503,
        error: Some(ErrorKind::Status),
        failed: true,
        proto: 2,
        ..good
    };
    let lost = RequestSample { status: 0, error: Some(ErrorKind::Timeout), failed: true, ..good };
    vec![
        Sample::Request(good),
        Sample::Request(bad),
        Sample::Request(lost),
        Sample::Check { at_unix_ns: AT, check: 3, ok: false },
        Sample::Iteration { at_unix_ns: AT, workflow: 0, duration_ns: 205_000_000 },
        Sample::Custom { at_unix_ns: AT, metric: 3, value: 12.5 },
        Sample::Vus { at_unix_ns: AT, value: 50 },
        Sample::Dropped { at_unix_ns: AT, workflow: 1, count: 2 },
    ]
}

fn streamed(format: Format) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let target = Target { format, path: path.clone() };
    let mut layout = fake::layout();
    layout.steps[1].tags.push(("note".into(), "a, \"b\"".into()));
    let writer = SampleWriter::start(&[target], Arc::new(layout)).unwrap().unwrap();
    assert!(writer.sink()(samples()));
    let written = writer.finish();
    assert!(written.notes.is_empty(), "{written:?}");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn json_lines_are_k6s_with_each_metric_defined_before_its_first_point() {
    let out = streamed(Format::Json);
    let mut defined = Vec::new();
    for line in out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let metric = object["metric"].as_str().unwrap().to_owned();
        match object["type"].as_str() {
            Some("Metric") => defined.push(metric),
            Some("Point") => assert!(defined.contains(&metric), "{metric} before its definition"),
            other => panic!("{other:?}"),
        }
    }
    golden("samples.json", &out);
}

#[test]
fn csv_has_k6s_columns_in_every_row() {
    let out = streamed(Format::Csv);
    let mut reader = csv::Reader::from_reader(out.as_bytes());
    let head = reader.headers().unwrap().clone();
    assert_eq!(
        head.iter().take(3).collect::<Vec<_>>(),
        ["metric_name", "timestamp", "metric_value"]
    );
    // The reader refuses rows of another length.
    assert_eq!(reader.records().filter(Result::is_ok).count(), out.lines().count() - 1);
    golden("samples.csv", &out);
}

#[test]
fn a_full_disk_is_said_once_and_the_other_file_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let good = Target { format: Format::Csv, path: folder.path().join("good.csv") };
    let full = Target { format: Format::Json, path: "/dev/full".into() };
    let targets = [full, good.clone()];
    let writer = SampleWriter::start(&targets, Arc::new(fake::layout())).unwrap().unwrap();
    let sink = writer.sink();
    let batches = 300;
    for _ in 0..batches {
        assert!(sink(samples()));
    }
    let written = writer.finish();
    assert_eq!(written.notes.len(), 1, "{written:?}");
    assert!(written.notes[0].starts_with("output json=/dev/full: No space left"), "{written:?}");
    let lines = std::fs::read_to_string(good.path).unwrap().lines().count();
    assert_eq!(lines, 1 + batches * (3 * 12 + 6));
}

#[test]
fn a_file_that_cannot_be_opened_stops_the_writer_before_the_run() {
    let target = Target { format: Format::Csv, path: "/no/such/folder/x.csv".into() };
    let problems = SampleWriter::start(&[target], Arc::new(fake::layout())).err().unwrap();
    assert!(problems[0].contains("/no/such/folder/x.csv"), "{problems:?}");
}

#[test]
fn a_result_file_that_fails_at_the_end_becomes_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let good = Target { format: Format::Junit, path: folder.path().join("good.xml") };
    let full = Target { format: Format::Hdr, path: "/dev/full".into() };
    let written = write_results(&[full, good.clone()], &fake::good());
    let notes = written.notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(written.lost_on_stdout, None);
    assert!(notes[0].starts_with("output hdr=/dev/full: No space left"));
    assert!(std::fs::read_to_string(good.path).unwrap().ends_with("</testsuites>\n"));
}

#[test]
fn junit_lists_thresholds_and_checks() {
    golden("junit_bad.xml", &junit(&fake::bad()));
}

#[test]
fn junit_has_a_failure_exactly_if_the_exit_code_is_not_0() {
    type Change = fn(&mut RunResult);
    let changes: [Change; 9] = [
        |_| {},
        |r| r.stop = StopReason::Interrupted,
        |r| r.stop = StopReason::Threshold(0),
        |r| r.outcome = Outcome::Partial,
        |r| r.verdict.state = VerdictState::Invalid,
        |r| r.verdict.state = VerdictState::Degraded,
        |r| r.thresholds[0].ok = false,
        |r| *r = fake::bad(),
        |r| {
            *r = fake::bad();
            r.thresholds.clear();
            r.stop = StopReason::Finished;
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut result = fake::good();
        change(&mut result);
        let failed = junit(&result).contains("<failure");
        assert_eq!(failed, !exit_code(&result).passed(), "case {number}");
    }
}

#[test]
fn percentile_plots_end_at_the_maximum_with_every_value_counted() {
    let out = hdr(&fake::good());
    let blocks: Vec<&str> = out.split("#[Step = ").skip(1).collect();
    assert_eq!(blocks.len(), 5, "all steps, then each");
    for block in &blocks {
        let rows: Vec<Vec<f64>> = block
            .lines()
            .skip(2)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|cell| cell.parse().unwrap()).collect())
            .collect();
        let columns_rise = |column: usize| rows.windows(2).all(|w| w[0][column] <= w[1][column]);
        assert!((0..3).all(columns_rise), "{block}");
        assert_eq!(rows.last().unwrap()[1], 1.0);
        assert!(block.contains(&format!("Total count    = {:12}]", rows.last().unwrap()[2])));
    }
    let one = hdr(&fake::quick());
    golden("quick.hdr", &one);
    assert_eq!(one.matches("#[Step").count(), 1);
}
