//! `volley run script.js`, the first minutes: it runs, counts what the target counted, and speaks
//! the languages that k6 scripts are written in.

use crate::common;
use std::fs::File;

use crate::common::scripts::{Scripts, count_lines};
use serde_json::Value;

#[test]
fn the_first_script_runs_and_counts_what_the_target_counted() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         import { check } from 'k6';
         export const options = { vus: 3, iterations: 30 };
         export default function () {
           check(http.get(__ENV.T + '/'), { 'is up': (r) => r.status === 200 });
         }",
    );
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(0);
    let words: Vec<&str> = done.out.split_whitespace().collect();
    let after = |start: &str| {
        let at = words.iter().position(|word| word.starts_with(start));
        words[at.unwrap_or_else(|| panic!("no `{start}` in\n{}", done.out)) + 1]
    };
    assert_eq!(scripts.target.total(), 30);
    assert_eq!(after("http_reqs..."), "30");
    assert_eq!(after("iterations..."), "30");
    assert_eq!(after("checks_total..."), "30");
    assert!(done.out.contains("✓ is up"), "{}", done.out);
    let summary = scripts.room.json("s.json");
    assert_eq!(summary["requests"]["sent"], 30);
    assert_eq!(summary["iterations"], 30);
    assert_eq!(summary["exit_code"], 0);
    assert_eq!(summary["outcome"], "COMPLETED");
}

#[test]
fn what_is_planned_is_said_before_it_begins() {
    let scripts = Scripts::with(
        "export const options = { vus: 2, iterations: 4 };
         export default function () {}",
    );
    let done = scripts.room.volley(["run", "test.js"]).expect(0);
    for part in ["1 scenario, 2 max VUs, 10m30s max duration", "4 iterations shared among 2 VUs"] {
        assert!(done.err.contains(part), "no `{part}` in\n{}", done.err);
    }
}

/// Each way to send a request, and how many of them reach the target in one iteration.
const WAYS: &[(&str, &str, u64)] = &[
    ("redirects", "http.get(__ENV.T + '/redirect/3');", 4),
    ("redirects that are not followed", "http.get(__ENV.T + '/redirect/3', { redirects: 0 });", 1),
    ("too many redirects", "http.get(__ENV.T + '/redirect/20');", 11),
    ("failures", "http.get(__ENV.T + '/status/500'); http.post(__ENV.T + '/nowhere', 'x');", 2),
    (
        "batch",
        "http.batch([__ENV.T + '/', ['POST', __ENV.T + '/echo', 'x'], { method: 'GET', url: __ENV.T + '/' },
           ['GET', __ENV.T + '/redirect/1']]);",
        5,
    ),
    (
        "batch by name",
        "const all = http.batch({ a: __ENV.T + '/', b: __ENV.T + '/cookies' });
         if (all.a.status !== 200 || all.b.status !== 200) throw new Error('no answers');",
        2,
    ),
    (
        "asyncRequest",
        "const all = await Promise.all([1, 2, 3].map(() => http.asyncRequest('GET', __ENV.T)));
         if (all.some((one) => one.status !== 200)) throw new Error('no answers');",
        3,
    ),
    ("timeout", "http.get(__ENV.T + '/delay/300', { timeout: '50ms' });", 1),
];

#[test]
fn every_way_to_send_a_request_is_counted() {
    for (what, body, each) in WAYS {
        let scripts = Scripts::with(&format!(
            "import http from 'k6/http';
             export const options = {{ vus: 2, iterations: 4 }};
             export default async function () {{ {body} }}"
        ));
        let args = ["test.js", "--summary", "s.json", "--summary-export", "e.json"];
        let done = scripts.run(args).expect(0);
        assert!(!done.err.contains("Error"), "{what}: {}", done.err);
        let total = scripts.target.total();
        assert_eq!(total, 4 * each, "{what}");
        assert_eq!(scripts.room.json("s.json")["requests"]["sent"], total, "{what}");
        assert_eq!(scripts.room.json("e.json")["metrics"]["http_reqs"]["count"], total, "{what}");
    }
}

#[test]
fn requests_of_setup_and_teardown_are_counted() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         export const options = { iterations: 2 };
         export function setup() { return { path: http.get(__ENV.T + '/').status === 200 ? '/echo' : '' }; }
         export default function (data) { http.get(__ENV.T + data.path); }
         export function teardown(data) { http.get(__ENV.T + data.path); }",
    );
    assert_eq!(scripts.summary(0)["requests"]["sent"], 4);
    assert_eq!(scripts.target.seen()["by_path"]["/echo"], 3);
    assert_eq!(scripts.target.total(), 4);
}

#[test]
fn requests_that_the_end_cuts_off_are_counted_as_sent_and_as_interrupted() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         export const options = { scenarios: {
           cut: { executor: 'constant-vus', vus: 20, duration: '1s', gracefulStop: '0s' },
         } };
         export default function () {
           http.batch([1, 2, 3].map((n) => `${__ENV.T}/delay/${20 * n + __VU}`));
           http.get(__ENV.T + '/redirect/2');
         }",
    );
    let args = ["test.js", "--summary", "s.json", "--summary-export", "e.json"];
    scripts.run(args).expect(0);
    let requests = scripts.room.json("s.json")["requests"].clone();
    assert_eq!(requests["sent"], scripts.target.total());
    let interrupted = requests["interrupted"].as_u64().unwrap();
    assert!(interrupted > 0, "{requests}");
    let answered = scripts.room.json("e.json")["metrics"]["http_reqs"]["count"].as_u64().unwrap();
    assert_eq!(requests["sent"], answered + interrupted);
}

#[test]
fn typescript_runs_and_its_errors_have_its_lines() {
    let scripts = Scripts::new();
    scripts.room.write("kinds.ts", "export enum Kind { Small = 1, Large = 5 }\n");
    let text = "import { Kind } from './kinds.ts';
interface Item {
  kind: Kind;
  name?: string;
}
const item: Item = { kind: Kind.Large };
export default function (): void {
  console.log(`${Kind[item.kind]} ${item.kind}`);
  const owner = (item as any).owner as { name: string };
  console.log(owner!.name);
}
";
    scripts.room.write("test.ts", text);
    let done = scripts.run(["test.ts"]).expect(0);
    assert_eq!(count_lines(&done, "Large 5"), 1, "{}", done.err);
    assert!(done.err.contains("TypeError: "), "{}", done.err);
    assert!(done.err.contains("test.ts:10:"), "the line of the file: {}", done.err);
}

#[test]
fn commonjs_runs() {
    let scripts = Scripts::new();
    scripts.room.write("double.js", "exports.double = (n) => n * 2;");
    scripts.room.write(
        "test.js",
        "const http = require('k6/http');
         const { double } = require('./double.js');
         module.exports.options = { iterations: 2 };
         module.exports.default = function () { http.get(__ENV.T); console.log('is ' + double(21)); };",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "is 42"), 2, "{}", done.err);
    assert_eq!(scripts.target.total(), 2);
}

#[test]
fn json_and_files_are_read_beside_the_file_that_asks() {
    let scripts = Scripts::new();
    std::fs::create_dir(scripts.room.path("lib")).unwrap();
    scripts.room.write("lib/users.json", "[{\"name\":\"ada\"},{\"name\":\"bob\"}]");
    scripts.room.write("lib/word.txt", "hello");
    scripts.room.write(
        "lib/users.js",
        "import list from './users.json';
         export const users = list;
         export const bytes = open(import.meta.resolve('./word.txt'), 'b').byteLength;",
    );
    scripts.room.write(
        "test.js",
        "import { users, bytes } from './lib/users.js';
         const word = open('./lib/word.txt');
         export default function () { console.log(`${users[1].name} ${word} ${bytes}`); }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "bob hello 5"), 1, "{}", done.err);
}

#[test]
fn the_jslib_files_need_no_network() {
    let scripts = Scripts::with(
        "import { randomIntBetween, uuidv4, randomItem } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
         import { textSummary } from 'https://jslib.k6.io/k6-summary/0.0.2/index.js';
         import { URL } from 'https://jslib.k6.io/url/1.0.0/index.js';
         import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
         export default function () {
           const url = new URL('http://a.example/x?y=1');
           url.searchParams.append('z', '2');
           const rows = papaparse.parse('a,b\\n1,2', { header: true }).data;
           console.log([randomIntBetween(3, 3), uuidv4().length, randomItem([7]), url, rows[0].b].join(' '));
         }
         export function handleSummary(data) {
           return { stdout: 'mine\\n' + textSummary(data, { indent: ' ', enableColors: false }) };
         }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "3 36 7 http://a.example/x?y=1&z=2 2"), 1, "{}", done.err);
    assert!(done.out.starts_with("mine\n"), "{}", done.out);
    assert!(done.out.contains("iterations..."), "{}", done.out);
}

#[test]
fn a_script_on_standard_input_imports_from_here() {
    let scripts = Scripts::with(
        "import { path } from './path.js';
         import http from 'k6/http';
         export default function () { http.get(__ENV.T + path); }",
    );
    scripts.room.write("path.js", "export const path = '/echo';");
    let mut command = scripts.command(["-", "-i", "3"]);
    command.stdin(File::open(scripts.room.path("test.js")).unwrap());
    common::finish(&mut command).expect(0);
    assert_eq!(scripts.target.seen()["by_path"]["/echo"], 3);
}

#[test]
fn a_shared_array_is_made_once_and_seen_by_all() {
    let scripts = Scripts::with(
        "import { SharedArray } from 'k6/data';
         const users = new SharedArray('users', () => {
           console.log('made');
           return Array.from({ length: 1000 }, (_, n) => ({ name: 'user ' + n }));
         });
         export const options = { vus: 20, iterations: 40 };
         export default function () {
           console.log(users.length + ' ' + users[999].name);
         }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "made"), 1, "{}", done.err);
    assert_eq!(count_lines(&done, "1000 user 999"), 40, "{}", done.err);
}

#[test]
fn virtual_users_share_nothing_else() {
    let scripts = Scripts::with(
        "let count = 0;
         export const options = { scenarios: {
           each: { executor: 'per-vu-iterations', vus: 5, iterations: 3 },
         } };
         export default function () { count += 1; if (__ITER === 2) console.log('count ' + count); }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "count 3"), 5, "{}", done.err);
}

#[test]
fn a_request_says_who_it_is_and_what_it_brings() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         export default function () {
           const sent = http.post(__ENV.T + '/echo', JSON.stringify({ a: 1 }), {
             headers: { 'Content-Type': 'application/json', 'X-Word': 'hello' } });
           console.log(sent.body);
         }",
    );
    let done = scripts.run(["test.js", "--user-agent", "me/1"]).expect(0);
    let line = done.err.lines().find(|line| line.starts_with('{')).unwrap();
    let echo: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let text = echo.to_string().to_lowercase();
    for part in ["me/1", "x-word", "hello", "application/json", "post"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}
