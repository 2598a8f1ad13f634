//! What other tools call things, and what they are called here: the one table.
//!
//! A row's last part are the words by which it is found: `step sleep` is the key `sleep` in a step,
//! `${ __UUID` a reference that begins so.

mod more;

use super::{Row, Section, Table};
use more::{ARTILLERY, GATLING, JMETER, LOCUST};

const fn row(theirs: &'static str, ours: &'static str, words: &'static [&'static str]) -> Row {
    Row { theirs, ours, words }
}

pub static SECTIONS: &[Section] = &[
    Section {
        title: "k6",
        tables: &[
            Table {
                tool: "k6",
                before: "`volley run script.js` runs your script ([scripts.md](scripts.md)):",
                head: "k6",
                rows: K6_SCRIPTS,
            },
            Table {
                tool: "k6",
                before: "A plan is shorter, is checked as a whole before anything is sent, and \
             measures latency from the intended start. This is what a script becomes:",
                head: "k6",
                rows: K6_PLANS,
            },
        ],
    },
    Section {
        title: "wrk, wrk2, hey, oha",
        tables: &[Table { tool: "wrk", before: "", head: "There", rows: WRK }],
    },
    Section {
        title: "Locust",
        tables: &[Table { tool: "Locust", before: "", head: "Locust", rows: LOCUST }],
    },
    Section {
        title: "Gatling",
        tables: &[Table { tool: "Gatling", before: "", head: "Gatling", rows: GATLING }],
    },
    Section {
        title: "Artillery",
        tables: &[Table { tool: "Artillery", before: "", head: "Artillery", rows: ARTILLERY }],
    },
    Section {
        title: "JMeter",
        tables: &[Table { tool: "JMeter", before: "", head: "JMeter", rows: JMETER }],
    },
];

const K6_SCRIPTS: &[Row] = &[
    row("`k6 run script.js`", "`volley run script.js`, with the same flags", &[]),
    row("`k6 run --out json=f`, `--summary-export f`", "the same", &[]),
    row(
        "`k6 status`, `k6 pause`, `k6 resume`, `k6 scale --vus 20`",
        "`volley ctl status`, `pause`, `resume`, `scale --vus 20`",
        &[],
    ),
    row("exit code 0 though checks failed", "the same; with `--strict` it is 99", &[]),
];

const K6_PLANS: &[Row] = &[
    row("`k6 new`, `k6 run`", "`volley new plan.yaml`, `volley run plan.yaml`", &[]),
    row("`k6 run --vus 10 --duration 30s`", "`volley run plan.yaml --vus 10 --duration 30s`", &[]),
    row("`-e KEY=VALUE`, `__ENV.KEY`", "`-e KEY=VALUE`, `${env.KEY}`", &["${ __ENV", "plan env"]),
    row(
        "`scenarios: { a: { executor: 'ramping-vus', ... } }`",
        "`workflows: [ { name: a, load: { executor: ramping-vus, ... } } ]`",
        &["plan scenarios", "plan executors", "plan options", "workflow executor"],
    ),
    row(
        "`stages: [ { duration: '5s', target: 50 } ]`",
        "`stages: [ { to: 50, over: 5s } ]`",
        &["stage duration", "stage target", "workflow stages"],
    ),
    row(
        "`preAllocatedVUs`, `maxVUs`",
        "optional: `vus`, `max_vus`; users are added as they are needed",
        &["load preAllocatedVUs", "load maxVUs"],
    ),
    row(
        "`startTime`, `gracefulStop`",
        "`start_after`, `graceful_stop`",
        &[
            "load startTime",
            "load gracefulStop",
            "load gracefulRampDown",
            "load startVUs",
            "load maxDuration",
            "load startRate",
        ],
    ),
    row(
        "`http.get(url)`, `http.batch([...])`",
        "`get: URL`, a `group` with `concurrent: true`",
        &["step batch", "step http"],
    ),
    row(
        "`check(res, { ok: r => r.status === 200 })`",
        "`check: { status: 200 }`; a failed check fails the run unless a threshold on `checks` allows it",
        &["step checks", "step assert"],
    ),
    row("`res.json('token')`", "`extract: { token: $.token }`, then `${token}`", &["step res"]),
    row("`sleep(1)`", "`think: 1s` or `think: 500ms..2s`", &["step sleep"]),
    row("`group('cart', ...)`", "`group: cart` with `steps`", &[]),
    row(
        "`SharedArray`, `papaparse`",
        "`data: { users: { file: users.csv, order: unique-per-vu } }`",
        &["plan sharedArray"],
    ),
    row(
        "`new Trend('x')`, `x.add(v)`",
        "`metrics: { x: trend }`, `record: { x: \"${v}\" }`",
        &["plan trend", "plan counter"],
    ),
    row(
        "`setup`, `teardown`",
        "`setup`, `teardown` of the plan; of each workflow and virtual user too",
        &[],
    ),
    row(
        "`thresholds: { 'http_req_duration{name:cart}': ['p(95)<200'] }`",
        "`{ metric: http_req_duration, step: cart, hold: p(95) < 200ms }`",
        &[],
    ),
    row(
        "`abortOnFail`, `delayAbortEval`",
        "`abort: true`, `after: 5s`",
        &["threshold abortOnFail", "threshold delayAbortEval", "threshold threshold"],
    ),
    row("`http_req_duration`", "the same; `latency` beside it runs from the intended start", &[]),
    row(
        "`--out json=f`, `--out csv=f`, `handleSummary`",
        "`--output json=f`, `--output csv=f`, `--summary f.json`",
        &["plan output", "plan outputs", "plan out", "plan summary"],
    ),
    row("`--http-debug`", "`volley run plan.yaml --debug`", &[]),
    row("exit codes 99, 104, 105", "the same; see [README](../README.md#exit-codes) for more", &[]),
];

const WRK: &[Row] = &[
    row(
        "`wrk -t2 -c50 -d10s URL`",
        "`volley URL` (these are the defaults), `volley -c 50 -d 10s --cores 2 URL`",
        &[],
    ),
    row(
        "`wrk2 -R500`, `oha -q 500 --latency-correction`",
        "`volley -r 500 URL`; latency is always from the intended start",
        &[],
    ),
    row("`-H 'a: b'`, `-m POST -d BODY`", "`-H 'a: b'`, `-m POST -b BODY` or `-b @FILE`", &[]),
    row("`wrk --latency`", "always shown", &[]),
    row("`-s script.lua`", "a plan", &[]),
    row("`oha --output-format json`", "`--summary -`", &[]),
];
