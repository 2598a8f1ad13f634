//! Result files: complete, readable by other programs, and never a reason to lose the summary.

use std::process::{Command, Stdio};

use crate::common::{Room, Target, plan};
use serde_json::Value;

const LOAD: &str = "vus: 2, duration: 300ms";

/// A target, and a plan with a check and a threshold for it.
fn setting() -> (Room, Target) {
    let (room, target) = (Room::new(), Target::start());
    let text = plan(&target.url(), LOAD).replace("get: / }", "get: /, check: { status: 200 } }");
    let threshold = "thresholds: [ { metric: http_req_duration, step: home, hold: p(95) < 5s } ]\n";
    room.write("plan.yaml", &format!("{text}{threshold}"));
    (room, target)
}

const NUMBERS: [&str; 8] = ["min", "mean", "p50", "p90", "p95", "p99", "p999", "max"];

fn assert_times(part: &Value) {
    let values =
        NUMBERS.map(|name| part[name].as_f64().unwrap_or_else(|| panic!("no {name}: {part}")));
    assert!(values[2..].is_sorted(), "percentiles rise: {part}");
    assert!(values[0] <= values[1] && values[1] <= values[7], "{part}");
}

#[test]
fn the_summary_file_has_every_promised_field() {
    let (room, target) = setting();
    room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(0);
    let summary = room.json("s.json");
    assert_eq!(summary["schema"], "volley.summary/1");
    assert_eq!(summary["outcome"], "COMPLETED");
    assert!(summary["verdict"]["state"].is_string());
    assert!(summary["verdict"]["reasons"].is_array());
    assert_eq!(summary["exit_code"], 0);
    assert!(summary["elapsed_s"].as_f64().unwrap() >= 0.3);
    let count = summary["requests"]["count"].as_u64().unwrap();
    assert_eq!(count, target.total());
    assert_eq!(summary["requests"]["failed"], 0);
    assert!(summary["requests"]["rate"].as_f64().unwrap() > 0.0);
    let home = &summary["steps"]["home"];
    assert_eq!(home["requests"]["count"], count);
    for times in [&summary["latency_ms"], &summary["service_ms"], &home["latency_ms"]] {
        assert_times(times);
    }
    let check = &summary["checks"]["status is 200"];
    assert_eq!((&check["passes"], &check["fails"]), (&count.into(), &0.into()));
    let threshold = &summary["thresholds"][0];
    assert_eq!(threshold["metric"], "http_req_duration");
    assert_eq!(threshold["hold"], "p(95) < 5s");
    assert_eq!(threshold["ok"], true);
    assert!(threshold["value"].is_number());
    assert!(summary["errors"].as_object().unwrap().is_empty());
    assert_eq!(summary["dropped_iterations"], 0);
}

#[test]
fn all_four_outputs_are_written_beside_each_other() {
    let (room, target) = setting();
    let outputs = "json=a.json,csv=a.csv,junit=a.xml,hdr=a.hdr";
    room.volley(["run", "plan.yaml", "--output", outputs, "--summary", "s.json"]).expect(0);
    let read = |name| std::fs::read_to_string(room.path(name)).unwrap();

    let points: Vec<Value> =
        read("a.json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requests = |point: &&Value| point["metric"] == "http_reqs" && point["type"] == "Point";
    assert_eq!(points.iter().filter(requests).count() as u64, target.total());
    let point = points.iter().find(requests).unwrap();
    assert_eq!(point["data"]["tags"]["name"], "home");
    assert_eq!(point["data"]["tags"]["scenario"], "main");

    let csv = read("a.csv");
    assert!(csv.starts_with("metric_name,timestamp,metric_value,"), "{csv}");
    let rows = csv.lines().filter(|line| line.starts_with("http_reqs,")).count();
    assert_eq!(rows as u64, target.total());

    let xml = read("a.xml");
    assert!(xml.starts_with("<?xml"), "{xml}");
    assert!(xml.contains("failures=\"0\"") && xml.contains("p(95) &lt; 5s"), "{xml}");

    let hdr = read("a.hdr");
    assert!(hdr.contains("#[Step = home") && hdr.contains("1/(1-Percentile)"), "{hdr}");
}

#[test]
fn junit_tells_what_failed() {
    let (room, target) = (Room::new(), Target::with(&["--error-rate", "100%"]));
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, iterations: 5"));
    room.volley(["run", "plan.yaml", "-o", "junit=a.xml"]).expect(99);
    let xml = std::fs::read_to_string(room.path("a.xml")).unwrap();
    assert!(xml.contains("<failure"), "{xml}");
}

#[test]
fn samples_on_standard_output_are_clean_and_words_go_to_standard_error() {
    let (room, target) = setting();
    let done = room.volley(["run", "plan.yaml", "--output", "json=-"]).expect(0);
    let mut requests = 0;
    for line in done.out.lines() {
        let point: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        requests += u64::from(point["metric"] == "http_reqs" && point["type"] == "Point");
    }
    assert_eq!(requests, target.total());
    assert!(done.err.contains("PASSED"), "{}", done.err);
}

#[test]
fn the_summary_on_standard_output_is_one_document() {
    let (room, target) = setting();
    let done = room.volley(["run", "plan.yaml", "--summary", "-"]).expect(0);
    let summary: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(summary["requests"]["count"], target.total());
    assert!(done.err.contains("PASSED"), "{}", done.err);
    let done = room.volley(["demo", "--summary", "-", "--view", "none"]).expect(0);
    assert!(serde_json::from_str::<Value>(&done.out).is_ok(), "{}", done.out);
}

#[test]
fn a_full_disk_is_said_and_the_summary_is_printed_all_the_same() {
    let (room, _target) = setting();
    for format in ["json", "csv", "junit", "hdr"] {
        let output = format!("{format}=/dev/full");
        let done = room.volley(["run", "plan.yaml", "--output", &output]).expect(0);
        let words = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("output {format}=/dev/full: No space left")), "{words}");
        assert!(words.contains("PASSED"), "{words}");
    }
    let done = room.volley(["run", "plan.yaml", "--summary", "/dev/full"]).expect(0);
    assert!(done.err.contains("could not write the summary /dev/full"), "{}", done.err);
    assert!(done.out.contains("PASSED"), "{}", done.out);
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_the_run() {
    let (room, target) = setting();
    let done = room.volley(["run", "plan.yaml", "--summary", "no/s.json", "-o", "csv=no/a.csv"]);
    let done = done.expect(104);
    assert!(done.err.contains("summary no/s.json: there is no folder no"), "{}", done.err);
    assert!(
        done.err.contains("output csv=no/a.csv: there is no folder no"),
        "all at once: {}",
        done.err
    );
    assert_eq!(target.total(), 0);
}

#[test]
fn two_results_cannot_be_written_to_one_place() {
    let (room, target) = setting();
    for (one, other) in [("a.json", "json=a.json"), ("-", "csv=-")] {
        let done = room.volley(["run", "plan.yaml", "--summary", one, "--output", other]);
        done.expect(104).says("are the same file; give one of them another name");
    }
    room.volley(["run", "plan.yaml", "-o", "json=-", "-o", "csv=-"]).expect(104);
    assert_eq!(target.total(), 0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (room, _target) = setting();
    let commands = [
        "schema",
        "schema --markdown",
        "--help",
        "plan plan.yaml",
        "run plan.yaml",
        "run plan.yaml --debug",
    ];
    for command in commands {
        let mut volley = room.command(command.split(' '));
        let mut child = volley.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pipe = child.stdout.take().unwrap();
        let head = Command::new("head").arg("-c1").stdin(pipe).output().unwrap();
        assert_eq!(head.stdout.len(), 1, "{command}");
        let done = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(!err.contains("panicked"), "{command}: {err}");
        assert_eq!(done.status.code(), Some(0), "{command}: {err}");
    }
}
