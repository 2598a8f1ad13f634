//! Scripts that are wrong: what is wrong, where, and what to write instead; nothing is sent. And
//! scripts that misbehave: only they suffer.

use crate::common;
use std::time::Duration;

use crate::common::scripts::{Scripts, count_lines};

const DEFAULT: &str = "export default function () {}\n";

/// What is wrong, the file, its text, the exit code, and what must be said.
type Mistake = (&'static str, &'static str, &'static str, i32, &'static [&'static str]);

/// `DEFAULT` stands for a function that does nothing.
const MISTAKES: &[Mistake] = &[
    (
        "syntax",
        "bad.js",
        "import http from 'k6/http';\nexport default function () {\n  let x = ;\n}\n",
        107,
        &["bad.js:3:11", "syntax error", "let x = ;"],
    ),
    (
        "syntax in TypeScript",
        "bad.ts",
        "interface A { b: string }\nexport default function (): void {\n  const a: A = { b: ; };\n}\n",
        107,
        &["bad.ts:3:21", "syntax error", "const a: A"],
    ),
    (
        "syntax in an import",
        "bad.js",
        "import { a } from './broken.js';\nDEFAULT",
        107,
        &["broken.js:2:", "syntax error"],
    ),
    (
        "no such file",
        "bad.js",
        "import { a } from './helpres.js';\nDEFAULT",
        107,
        &["bad.js:1:19", "\"./helpres.js\" does not exist", "did you mean \"./helpers.js\"?"],
    ),
    (
        "no such export",
        "bad.js",
        "import { addd } from './helpers.js';\nexport default function () { addd(); }\n",
        107,
        &["addd", "helpers.js"],
    ),
    (
        "unknown module",
        "bad.js",
        "import http from 'k6/htpt';\nDEFAULT",
        107,
        &["bad.js:1:18", "there is no module \"k6/htpt\"", "did you mean \"k6/http\"?"],
    ),
    (
        "package",
        "bad.js",
        "import _ from 'lodash';\nDEFAULT",
        107,
        &["bad.js:1:15", "there is no module \"lodash\"", "bundle"],
    ),
    (
        "WebSocket",
        "bad.js",
        "import ws from 'k6/ws';\nDEFAULT",
        107,
        &["bad.js:1:16", "module \"k6/ws\" is not available", "WebSocket"],
    ),
    (
        "browser",
        "bad.js",
        "import { browser } from 'k6/browser';\nDEFAULT",
        107,
        &["bad.js:1:25", "module \"k6/browser\" is not available", "browser"],
    ),
    (
        "extension",
        "bad.js",
        "import foo from 'k6/x/foo';\nDEFAULT",
        107,
        &["bad.js:1:17", "module \"k6/x/foo\" is not available", "extension"],
    ),
    (
        "removed module",
        "bad.js",
        "import redis from 'k6/experimental/redis';\nDEFAULT",
        107,
        &["module \"k6/experimental/redis\" is not available", "k6/x/redis"],
    ),
    (
        "gRPC through require",
        "bad.js",
        "const grpc = require('k6/net/grpc');\nexports.default = function () {};\n",
        107,
        &["k6/net/grpc", "not available"],
    ),
    (
        "unknown executor",
        "bad.js",
        "export const options = { scenarios: { a: { executor: 'constant-vuz', vus: 1 } } };\nDEFAULT",
        104,
        &["scenarios.a.executor", "no executor `constant-vuz`", "did you mean `constant-vus`?"],
    ),
    (
        "scenario without its duration",
        "bad.js",
        "export const options = { scenarios: { a: { executor: 'constant-vus', vus: 1 } } };\nDEFAULT",
        104,
        &["a", "duration"],
    ),
    (
        "two loads at once",
        "bad.js",
        "export const options = { duration: '1s', stages: [{ duration: '1s', target: 2 }] };\nDEFAULT",
        104,
        &["`duration`", "`stages`"],
    ),
    (
        "threshold on an unknown metric",
        "bad.js",
        "export const options = { thresholds: { http_req_durations: ['p(95)<200'] } };\nDEFAULT",
        104,
        &["http_req_durations", "did you mean `http_req_duration`?"],
    ),
    (
        "aggregation that does not fit",
        "bad.js",
        "export const options = { thresholds: { http_reqs: ['p(95)<200'] } };\nDEFAULT",
        104,
        &["`p(95)<200`", "`http_reqs`", "`count` and `rate`"],
    ),
    (
        "threshold that is no comparison",
        "bad.js",
        "export const options = { thresholds: { http_reqs: ['count<<200'] } };\nDEFAULT",
        104,
        &["http_reqs", "count<<200"],
    ),
    (
        "option of the wrong kind",
        "bad.js",
        "export const options = { vus: 'many' };\nDEFAULT",
        104,
        &["vus", "many"],
    ),
    (
        "HTTP in init",
        "bad.js",
        "import http from 'k6/http';\n\nhttp.get('http://127.0.0.1:1/');\nDEFAULT",
        107,
        &["Making http requests in the init context is not supported", "bad.js:3:"],
    ),
    (
        "exception in init",
        "bad.js",
        "const users = undefined;\nconst first = users[0];\nDEFAULT",
        107,
        &["TypeError", "bad.js:2:"],
    ),
    (
        "open() of nothing",
        "bad.js",
        "const a = 1;\nconst text = open('./users.cvs');\nDEFAULT",
        107,
        &["users.cvs", "bad.js:2:"],
    ),
    (
        "metric made twice with two types",
        "bad.js",
        "import { Counter, Rate } from 'k6/metrics';\nnew Counter('orders');\nnew Rate('orders');\nDEFAULT",
        107,
        &["orders", "counter", "rate", "bad.js:3:"],
    ),
    ("no function", "bad.js", "export const a = 1;\n", 255, &["exports no function", "default"]),
    ("nothing at all", "bad.js", "", 255, &["exports no function"]),
    ("no default", "bad.js", "export function setup() {}\n", 104, &["`default`", "not exported"]),
    (
        "exec of nothing",
        "bad.js",
        "export const options = { scenarios: { a: { executor: 'shared-iterations', exec: 'shop' } } };\n\
         export function shopping() {}\n",
        104,
        &["scenario `a`", "`shop` is not exported", "shopping"],
    ),
];

#[test]
fn a_mistake_is_named_and_nothing_is_sent() {
    let scripts = Scripts::new();
    scripts.room.write("helpers.js", "export const add = (a, b) => a + b;\n");
    scripts.room.write("broken.js", "export const a = 1;\nexport const = 2;\n");
    for (what, file, text, code, parts) in MISTAKES {
        scripts.room.write(file, &text.replace("DEFAULT", DEFAULT));
        let done = scripts.run([*file]);
        assert_eq!(done.code, *code, "{what}: {}", done.err);
        for part in *parts {
            assert!(done.err.contains(part), "{what}: no `{part}` in\n{}", done.err);
        }
        assert_eq!(done.out, "", "{what}: no summary");
        assert!(done.err.ends_with('\n'), "{what}");
        assert!(!done.err.contains("panicked"), "{what}: {}", done.err);
    }
    assert_eq!(scripts.target.total(), 0);
}

#[test]
fn a_missing_export_is_named_where_it_is_imported() {
    let scripts = Scripts::with(
        "// first\nimport { addd } from './helpers.js';\naddd();\nexport default addd;",
    );
    scripts.room.write("helpers.js", "export const add = (a, b) => a + b;\n");
    scripts.run(["test.js"]).expect(107).says("addd").says("test.js:2:");
}

#[test]
fn stacks_have_no_frames_of_ours() {
    let scripts = Scripts::with("require('./other.js');\nexports.default = function () {};\n");
    scripts.room.write("other.js", "throw new Error('in here');\n");
    let done = scripts.run(["test.js"]).expect(107).says("in here").says("other.js:1:");
    assert!(!done.err.contains("eval_script"), "{}", done.err);
}

#[test]
fn a_file_that_is_no_script_is_named() {
    let scripts = Scripts::new();
    scripts.run(["nowhere.js"]).expect(255).says("nowhere.js").says("no such file");
    std::fs::create_dir(scripts.room.path("folder.js")).unwrap();
    scripts.run(["folder.js"]).expect(255).says("folder.js").says("folder");
    std::fs::write(scripts.room.path("bytes.js"), [0xff, 0xfe, 0x00, 0x01]).unwrap();
    scripts.run(["bytes.js"]).expect(107).says("bytes.js:1").says("UTF-8");
}

#[test]
fn an_option_that_does_not_exist_is_a_warning_with_a_suggestion() {
    let scripts =
        Scripts::with("export const options = { iteratons: 5 };\nexport default function () {}\n");
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(0);
    let done = done.says("iteratons").says("did you mean `iterations`?");
    assert!(done.err.contains("ignored"), "{}", done.err);
    assert_eq!(scripts.room.json("s.json")["iterations"], 1);
}

/// A scenario `bad` whose function is in line 9, beside users that only do their work, for a
/// second.
fn beside_good_ones(bad: &str, load: &str) -> Scripts {
    beside_good_ones_for(1, bad, load)
}

fn beside_good_ones_for(seconds: u32, bad: &str, load: &str) -> Scripts {
    Scripts::with(&format!(
        "import http from 'k6/http';
import {{ sleep }} from 'k6';
export const options = {{ scenarios: {{
  bad: {{ exec: 'bad', {load} }},
  good: {{ exec: 'good', executor: 'constant-vus', vus: 2, duration: '{seconds}s', gracefulStop: '1s' }},
}} }};
export function good() {{ http.get(__ENV.T + '/echo'); sleep(0.02); }}
export function bad() {{
  {bad}
}}
"
    ))
}

#[test]
fn a_script_that_throws_each_time_goes_on_and_others_do_not_notice() {
    let load = "executor: 'per-vu-iterations', vus: 2, iterations: 3";
    let scripts = beside_good_ones("throw new Error('on purpose');", load);
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(0);
    let said = done.err.lines().filter(|line| line.starts_with("Error: on purpose")).count();
    assert_eq!(said, 6, "once for each iteration: {}", done.err);
    assert!(done.err.contains("at bad (file:///"), "{}", done.err);
    assert!(done.err.contains("test.js:9:"), "{}", done.err);
    let summary = scripts.room.json("s.json");
    assert_eq!(summary["workflows"]["bad"]["iterations"], 6, "as k6 counts");
    assert!(scripts.target.total() >= 20, "{}", scripts.target.total());
    assert_eq!(summary["requests"]["sent"], scripts.target.total());
}

#[test]
fn a_rejected_promise_ends_the_iteration_with_its_place() {
    let scripts = Scripts::with(
        "const later = async () => { throw new Error('from a promise'); };\n\
         export const options = { iterations: 2 };\n\
         export default async function () {\n  await later();\n  console.log('not reached');\n}\n",
    );
    let done = scripts.run(["test.js"]).expect(0).says("Error: from a promise").says("test.js:1:");
    // Once for each iteration, and once at the end because there was no other.
    assert_eq!(done.err.matches("from a promise").count(), 3, "{}", done.err);
    assert!(done.err.contains("every iteration ended with an exception"), "{}", done.err);
    assert!(!done.err.contains("not reached"), "{}", done.err);
}

#[test]
fn recursion_without_end_ends_the_iteration() {
    let load = "executor: 'per-vu-iterations', vus: 1, iterations: 2";
    let scripts = beside_good_ones("const deeper = (n) => deeper(n + 1) + 1; deeper(0);", load);
    let done = scripts.run(["test.js", "--cores", "1"]).expect(0);
    assert_eq!(done.err.matches("RangeError: Maximum call stack").count(), 3, "{}", done.err);
    assert!(done.err.contains("test.js:9:"), "{}", done.err);
    assert!(scripts.target.total() >= 20, "{}", scripts.target.total());
}

/// The most memory that a process has had, in kB; `None` once it has ended.
fn peak_kb(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[test]
fn memory_without_end_ends_the_iteration_at_a_bound() {
    let load = "executor: 'per-vu-iterations', vus: 1, iterations: 1, maxDuration: '10s'";
    let bad = "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1));";
    let scripts = beside_good_ones_for(3, bad, load);
    let running = scripts.start(["test.js", "--cores", "1", "--summary", "s.json"]);
    let mut peak = 0;
    common::until("the run has ended", || {
        let now = peak_kb(running.pid());
        peak = peak.max(now.unwrap_or(0) / 1024);
        now.is_none()
    });
    let done = running.wait().expect(0);
    assert_eq!(done.err.matches("out of memory").count(), 2, "{}", done.err);
    assert!(done.err.contains("test.js:9:"), "{}", done.err);
    assert!((100..900).contains(&peak), "{peak} MB, where a virtual user may have 512");
    assert_eq!(scripts.room.json("s.json")["requests"]["sent"], scripts.target.total());
    assert!(scripts.target.total() >= 10, "others go on: {}", scripts.target.total());
}

#[test]
fn a_loop_without_end_is_cut_off_in_time_and_named() {
    let load = "executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '300ms'";
    let bad = "const spin = function spin() { for (;;) { } }; spin();";
    let scripts = beside_good_ones(bad, load);
    let done = scripts.run(["test.js", "--cores", "1", "--summary", "s.json"]).expect(0);
    let done = done.says("cut off while it was computing").says("spin (file:///");
    assert!(done.err.contains("test.js:9:"), "{}", done.err);
    let summary = scripts.room.json("s.json");
    let elapsed = summary["elapsed_s"].as_f64().unwrap();
    assert!((1.3..4.0).contains(&elapsed), "{elapsed}");
    assert!(scripts.target.total() >= 1, "others make progress");
    assert_eq!(summary["requests"]["sent"], scripts.target.total());
}

#[test]
fn a_loop_without_end_leaves_others_their_turn_on_the_same_core() {
    let load = "executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '300ms'";
    let scripts = beside_good_ones("for (;;) { }", load);
    scripts.run(["test.js", "--cores", "1", "--summary-export", "e.json"]).expect(0);
    let median = scripts.room.json("e.json")["metrics"]["http_req_duration"]["med"].clone();
    assert!(median.as_f64().unwrap() < 60.0, "{median} ms, with slices of 5 ms");
    assert!(scripts.target.total() >= 15, "{}", scripts.target.total());
}

#[test]
fn an_exception_cannot_be_kept_from_ending_a_loop() {
    let scripts = Scripts::with(
        "export const options = { scenarios: {
           bad: { executor: 'per-vu-iterations', maxDuration: '1s', gracefulStop: '0s' } } };
         export default function () {
           for (;;) { try { for (;;) { } } catch (error) { } finally { continue; } }
         }",
    );
    let begin = std::time::Instant::now();
    scripts.run(["test.js"]).expect(0);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn what_is_thrown_in_init_by_one_user_only_is_said() {
    let scripts = Scripts::with(
        "if (__VU === 2) throw new Error('not with me');
         export const options = { vus: 2, iterations: 4 };
         export default function () {}",
    );
    let done = scripts.run(["test.js"]).expect(107).says("not with me").says("test.js:1:");
    assert_eq!(count_lines(&done, "panicked"), 0);
}
