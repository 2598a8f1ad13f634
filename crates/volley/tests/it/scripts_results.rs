//! Results of a script's run, in k6's shapes: summaries, files of samples, `handleSummary`, the
//! log.

use crate::common::Done;
use crate::common::scripts::{Scripts, count_lines};
use serde_json::Value;

/// Four iterations: one request, two checks outside a group and one in it, two own metrics.
const CHECKED: &str = "import http from 'k6/http';
import { check, group } from 'k6';
import { Counter, Trend } from 'k6/metrics';
const orders = new Counter('orders');
const wait = new Trend('wait', true);
export const options = { iterations: 4, thresholds: { http_req_failed: ['rate<0.01'], wait: ['max<10'] } };
export default function () {
  const answer = http.get(__ENV.T + '/');
  check(answer, { 'is up': (r) => r.status === 200, 'is third': () => __ITER === 2 });
  group('inner', () => { check(1, { nested: () => true }); orders.add(2); wait.add(12.5); });
}
";

#[test]
fn the_export_is_in_the_older_shape_and_a_failed_threshold_is_true_there() {
    let scripts = Scripts::with(CHECKED);
    scripts.run(["test.js", "--summary-export", "e.json"]).expect(99).says("wait");
    let export = scripts.room.json("e.json");
    let metrics = &export["metrics"];
    assert_eq!(metrics["http_reqs"]["count"], scripts.target.total());
    assert_eq!(metrics["orders"]["count"], 8);
    assert_eq!(metrics["wait"]["max"], 12.5);
    assert_eq!(metrics["wait"]["thresholds"]["max<10"], true);
    assert_eq!(metrics["http_req_failed"]["thresholds"]["rate<0.01"], false);
    let checks = &metrics["checks"];
    assert_eq!((&checks["value"], &checks["passes"]), (&0.75.into(), &9.into()));
    let root = &export["root_group"];
    assert_eq!(root["checks"]["is third"]["fails"], 3);
    assert_eq!(root["checks"]["is third"]["path"], "::is third");
    assert_eq!(root["groups"]["inner"]["checks"]["nested"]["passes"], 4);
}

#[test]
fn the_summary_is_compact_full_or_missing() {
    let scripts = Scripts::with(CHECKED);
    let compact = scripts.run(["test.js"]).expect(99).out;
    for part in [
        "█ THRESHOLDS",
        "✗ 'max<10' max=12.5ms",
        "✓ 'rate<0.01' rate=0.00%",
        "█ TOTAL RESULTS",
        "checks_succeeded...................: 75.00% 9 out of 12",
        "↳  25% — ✓ 1 / ✗ 3",
        "CUSTOM",
        "HTTP",
        "EXECUTION",
        "NETWORK",
    ] {
        assert!(compact.contains(part), "no `{part}` in\n{compact}");
    }
    assert!(!compact.contains("http_req_waiting") && !compact.contains("GROUP"), "{compact}");
    let full = scripts.run(["test.js", "--summary-mode", "full"]).expect(99).out;
    for part in ["http_req_waiting...", "http_req_connecting...", "█ GROUP: inner"] {
        assert!(full.contains(part), "no `{part}` in\n{full}");
    }
    for none in [&["--no-summary"][..], &["--summary-mode", "disabled"]] {
        let done = scripts.run(["test.js"].iter().chain(none)).expect(99);
        assert_eq!(done.out, "", "{none:?}");
    }
    scripts.run(["test.js", "--summary-mode", "silly"]).expect(104).says("silly").says("compact");
}

#[test]
fn the_statistics_and_the_unit_of_times_can_be_chosen() {
    let scripts = Scripts::with(CHECKED);
    let done = scripts.run([
        "test.js",
        "--summary-trend-stats",
        "min,p(99.5),count",
        "--summary-time-unit",
        "us",
    ]);
    let line = done.out.lines().find(|line| line.contains("wait...")).unwrap();
    assert!(line.ends_with("min=12500.00µs p(99.5)=12500.00µs count=4"), "{line}");
    scripts.run(["test.js", "--summary-trend-stats", "mean"]).expect(2).says("mean");
}

fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).collect()
}

#[test]
fn samples_are_written_in_the_forms_of_k6() {
    let scripts = Scripts::with(CHECKED);
    scripts
        .run(["test.js", "--out", "json=a.json", "-o", "csv=a.csv", "--tag", "run=7"])
        .expect(99);
    let lines = json_lines(&scripts.read("a.json"));
    assert_eq!(lines[0]["type"], "Metric");
    let of = |kind: &str, metric: &str| -> Vec<Value> {
        let wanted = |line: &&Value| line["type"] == kind && line["metric"] == metric;
        lines.iter().filter(wanted).cloned().collect()
    };
    let metric = &of("Metric", "http_reqs")[0]["data"];
    assert_eq!((&metric["type"], &metric["contains"]), (&"counter".into(), &"default".into()));
    assert_eq!(of("Metric", "wait")[0]["data"]["thresholds"], serde_json::json!(["max<10"]));
    let requests = of("Point", "http_reqs");
    assert_eq!(requests.len() as u64, scripts.target.total());
    let tags = &requests[0]["data"]["tags"];
    let url = format!("{}/", scripts.target.url());
    for (name, value) in [
        ("method", "GET"),
        ("name", &url),
        ("url", &url),
        ("status", "200"),
        ("scenario", "default"),
        ("expected_response", "true"),
        ("proto", "HTTP/1.1"),
        ("group", ""),
        ("run", "7"),
    ] {
        assert_eq!(tags[name], value, "{name}: {tags}");
    }
    let nested = |line: &&Value| line["data"]["tags"]["check"] == "nested";
    let checks = of("Point", "checks");
    assert_eq!(checks.len(), 12);
    assert_eq!(checks.iter().find(nested).unwrap()["data"]["tags"]["group"], "::inner");
    assert_eq!(of("Point", "iterations").len(), 4);

    let csv = scripts.read("a.csv");
    let header = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,\
                  method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata";
    assert_eq!(csv.lines().next(), Some(header));
    let row = csv.lines().find(|line| line.starts_with("http_reqs,")).unwrap();
    assert!(row.contains(",1.000000,,,,true,,GET,"), "{row}");
    assert!(row.ends_with(&format!(",200,,,{url},run=7,")), "{row}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("http_reqs,")).count(), requests.len());
}

#[test]
fn samples_on_standard_output_are_clean() {
    let scripts = Scripts::with(CHECKED);
    let done = scripts.run(["test.js", "--out", "json=-"]).expect(99);
    assert!(json_lines(&done.out).len() > 40);
    assert!(done.err.contains("TOTAL RESULTS"), "words go elsewhere: {}", done.err);
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_the_run() {
    let scripts = Scripts::with(CHECKED);
    let done = scripts.run(["test.js", "--out", "json=no/a.json", "--summary", "no/s.json"]);
    done.expect(104).says("json=no/a.json").says("no/s.json");
    assert_eq!(scripts.target.total(), 0);
}

#[test]
fn handle_summary_replaces_the_summary() {
    let scripts = Scripts::with(&format!(
        "{CHECKED}export function handleSummary(data) {{
           return {{
             stdout: `${{data.metrics.http_reqs.values.count}} requests\\n`,
             stderr: 'aside\\n',
             'own.json': JSON.stringify(data),
             'bytes.bin': new Uint8Array([1, 2, 3]).buffer,
           }};
         }}"
    ));
    let done = scripts.run(["test.js"]).expect(99);
    assert_eq!(done.out, "4 requests\n");
    assert_eq!(count_lines(&done, "aside"), 1, "{}", done.err);
    assert_eq!(std::fs::read(scripts.room.path("bytes.bin")).unwrap(), [1, 2, 3]);
    let data = scripts.room.json("own.json");
    let wait = &data["metrics"]["wait"];
    assert_eq!((&wait["type"], &wait["contains"]), (&"trend".into(), &"time".into()));
    assert_eq!(wait["thresholds"]["max<10"]["ok"], false);
    assert_eq!(wait["values"]["med"], 12.5);
    assert_eq!(data["metrics"]["checks"]["values"]["passes"], 9);
    assert_eq!(data["root_group"]["groups"][0]["checks"][0]["name"], "nested");
    assert!(data["state"]["testRunDurationMs"].as_f64() > Some(0.0), "{}", data["state"]);
    assert_eq!(data["state"]["isStdOutTTY"], false);
    let done = scripts.run(["test.js", "--no-summary"]).expect(99);
    assert_eq!(done.out, "", "not called");
}

#[test]
fn without_a_result_of_handle_summary_the_summary_is_printed() {
    let bodies = ["throw new Error('cannot sum');", "console.log('called');", "for (;;) { }"];
    let parts = ["Error: cannot sum", "called", "handleSummary"];
    for (body, part) in bodies.into_iter().zip(parts) {
        let scripts = Scripts::with(&format!(
            "export const options = {{ handleSummaryTimeout: '300ms' }};
export default function () {{}}
export function handleSummary(data) {{ {body} }}"
        ));
        let done = scripts.run(["test.js"]).says(part);
        assert!(done.out.contains("iterations..."), "{body}: {}", done.out);
        assert!(!body.starts_with("throw") || done.err.contains("test.js:3:"), "{}", done.err);
        assert!(body.starts_with("for") || done.code == 0, "{body}: {}", done.code);
    }
}

/// One check fails, one request of two.
const FAILING: &str = "import http from 'k6/http';
import { check } from 'k6';
export default function () {
  http.get(__ENV.T + '/');
  if (__ENV.REQUEST) http.get(__ENV.T + '/status/500');
  if (__ENV.CHECK) check(1, { 'is two': (n) => n === 2 });
}
";

#[test]
fn strict_makes_failed_checks_and_requests_count() {
    let scripts = Scripts::with(FAILING);
    let run = |args: &[&str]| -> Done { scripts.run(["test.js"].iter().chain(args)) };
    run(&["-e", "CHECK=1", "-e", "REQUEST=1"]).expect(0);
    run(&["--strict"]).expect(0);
    run(&["--strict", "-e", "CHECK=1"]).expect(99).says("1 check failed");
    run(&["--strict", "-e", "REQUEST=1"]).expect(99).says("1 request failed");
    let options = "export const options = { thresholds: { checks: ['rate>=0'] } };\n";
    scripts.room.write("test.js", &format!("{options}{FAILING}"));
    run(&["--strict", "-e", "CHECK=1"]).expect(0);
}

const TALKING: &str = "export default function () {
  console.log('plain words');
  console.warn('a \"quoted\" warning');
  console.error({ a: 1 });
  console.debug('hidden');
  throw new Error('thrown');
}
";

#[test]
fn the_log_has_the_forms_of_k6() {
    let scripts = Scripts::with(TALKING);
    let run = |args: &[&str]| {
        let fixed = ["run", "-q", "--no-summary", "test.js"];
        scripts.room.volley(fixed.iter().chain(args)).expect(0)
    };
    let done = run(&[]);
    assert!(done.err.contains(" level=info msg=\"plain words\" source=console\n"), "{}", done.err);
    let warning = " level=warning msg=\"a \\\"quoted\\\" warning\" source=console\n";
    assert!(done.err.contains(warning), "{}", done.err);
    let thrown = " executor=per-vu-iterations scenario=default source=stacktrace\n";
    assert!(done.err.contains(thrown), "{}", done.err);
    assert!(!done.err.contains("hidden"), "{}", done.err);
    assert!(run(&["--verbose"]).err.contains(" level=debug msg=hidden source=console\n"));

    let lines = json_lines(&run(&["--log-format", "json"]).err);
    // The last says that every iteration threw.
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1]["level"], "warning");
    assert_eq!(lines[1]["msg"], "a \"quoted\" warning");
    assert_eq!(lines[2]["msg"], "{\"a\":1}");
    assert_eq!(lines[3]["scenario"], "default");
    assert!(lines[3]["msg"].as_str().unwrap().starts_with("Error: thrown\n"), "{}", lines[3]);

    let raw = run(&["--log-format", "raw"]).err;
    let start = "plain words\na \"quoted\" warning\n{\"a\":1}\nError: thrown\n";
    assert!(raw.starts_with(start), "{raw}");
}

#[test]
fn the_log_goes_where_it_is_sent() {
    let scripts = Scripts::with(TALKING);
    let run = |args: &[&str]| scripts.run(["test.js", "--no-summary"].iter().chain(args));
    let done = run(&["--log-output", "file=log.txt"]).expect(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
    assert!(scripts.read("log.txt").starts_with("plain words\n"));
    let done = run(&["--log-output", "stdout"]).expect(0);
    assert!(done.out.starts_with("plain words\n") && done.err.is_empty(), "{}", done.err);
    let done = run(&["--log-output", "none"]).expect(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
    let done = run(&["--console-output", "console.txt"]).expect(0);
    assert!(done.err.starts_with("Error: thrown\n"), "the rest stays: {}", done.err);
    let console = scripts.read("console.txt");
    assert!(console.contains("plain words") && !console.contains("thrown"), "{console}");
    run(&["--log-output", "nowhere"]).expect(104).says("nowhere").says("file=PATH");
    run(&["--log-output", "file=no/log.txt"]).expect(104).says("no/log.txt");
}
