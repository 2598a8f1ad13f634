//! The rows of Locust, Gatling, Artillery and JMeter.

use super::row;
use crate::words::Row;

pub const LOCUST: &[Row] = &[
    row(
        "`class User(HttpUser)` with `@task` methods",
        "a workflow with `steps`",
        &["plan tasks", "workflow tasks", "plan users", "plan user"],
    ),
    row(
        "`@task(3)`",
        "`choose: [ { weight: 3, steps: [...] } ]`",
        &["step weight", "workflow weight", "plan weight", "step task"],
    ),
    row(
        "`wait_time = between(1, 3)`",
        "`think: 1s..3s`, or `pacing: 1s..3s` for `constant_pacing`",
        &[
            "plan wait_time",
            "workflow wait_time",
            "step wait_time",
            "load wait_time",
            "step wait",
            "step constant_pacing",
        ],
    ),
    row(
        "`on_start`, `on_stop`",
        "`vu_setup`, `vu_teardown`",
        &["workflow on_start", "workflow on_stop", "plan on_start", "plan on_stop"],
    ),
    row("`self.client.get(\"/x\", name=\"x\")`", "`{ name: x, get: /x }`", &["plan host"]),
    row("`with ... catch_response=True`", "`check`", &["step catch_response"]),
    row(
        "`-u 100 -r 10 -t 1m`",
        "`load: { stages: [ { to: 100, over: 10s }, { to: 100, over: 50s } ] }`",
        &["load spawn_rate", "plan spawn_rate", "plan run_time", "load run_time", "load users"],
    ),
    row(
        "keys `w`, `s` while it runs",
        "keys `+`, `-`, `p`, `q`; `volley ctl scale --vus 200`",
        &[],
    ),
    row("`--csv`, `--html`", "`--output csv=FILE`, `--summary FILE.json`", &[]),
    row("exit code 1 on failures", "exit code 99", &[]),
];

pub const GATLING: &[Row] = &[
    row(
        "`scenario(\"shop\").exec(http(\"cart\").get(\"/cart\"))`",
        "`{ name: shop, steps: [ { name: cart, get: /cart } ] }`",
        &["workflow exec", "step exec", "plan scenario"],
    ),
    row(
        "`rampUsers`, `constantConcurrentUsers(50).during(30)`",
        "`stages: [...]`, `{ vus: 50, duration: 30s }`",
        &[
            "load rampUsers",
            "load constantConcurrentUsers",
            "load inject",
            "plan inject",
            "plan setUp",
        ],
    ),
    row(
        "`constantUsersPerSec(20).during(60)`",
        "`{ rate: 20/s, duration: 1m }`",
        &["load constantUsersPerSec"],
    ),
    row(
        "`rampUsersPerSec(10).to(100).during(60)`",
        "`{ start_rate: 10/s, stages: [ { to: 100/s, over: 1m } ] }`",
        &["load rampUsersPerSec"],
    ),
    row(
        "`csv(\"users.csv\").circular()`, `.random()`, `.queue()`",
        "`order: sequential` and `when_exhausted: recycle`; `order: random`; `when_exhausted: stop`",
        &["plan feeders", "plan feed", "step feed", "workflow feed"],
    ),
    row(
        "`.check(jsonPath(\"$.token\").saveAs(\"token\"))`",
        "`extract: { token: $.token }`",
        &["step saveAs", "extractor saveAs"],
    ),
    row("`#{token}`", "`${token}`", &[]),
    row(
        "`pause(1, 3)`, `pace(5)`",
        "`think: 1s..3s`, `pacing: 5s`",
        &["step pause", "step pace", "load pace"],
    ),
    row(
        "`repeat(5)`, `randomSwitch`, `doIf`",
        "`repeat: 5`, `choose`, `when`",
        &["step randomSwitch", "step doIf"],
    ),
    row("`andThen`", "`depends_on`", &[]),
    row(
        "`assertions(global().responseTime().percentile(95).lt(200))`",
        "`{ metric: http_req_duration, hold: p(95) < 200ms }`",
        &["plan assertions"],
    ),
];

pub const ARTILLERY: &[Row] = &[
    row(
        "`config: { target: ... }`",
        "`target: http://...` at the top, connection settings in `defaults`",
        &["plan config"],
    ),
    row(
        "`phases: [ { duration: 60, arrivalRate: 20 } ]`",
        "`load: { rate: 20/s, duration: 1m }` of a workflow",
        &["plan phases", "workflow phases", "load phases", "load arrivalRate", "load arrivalCount"],
    ),
    row(
        "`rampTo: 50`, `maxVusers: 100`",
        "`stages: [ { to: 50/s, over: 1m } ]`, `max_vus: 100`",
        &["load rampTo", "stage rampTo", "load maxVusers"],
    ),
    row(
        "`scenarios: [ { flow: [...] } ]`",
        "`workflows: [ { name: a, steps: [...] } ]`",
        &["workflow flow", "plan flow"],
    ),
    row(
        "`- get: { url: /cart }`",
        "`- get: /cart`, with `headers`, `json` and the rest beside it",
        &["step url"],
    ),
    row(
        "`capture: { json: $.token, as: token }`",
        "`extract: { token: $.token }`",
        &["step capture", "extractor as"],
    ),
    row(
        "`expect: [ { statusCode: 200 } ]`",
        "`check: { status: 200 }`",
        &["step expect", "check statusCode"],
    ),
    row(
        "`payload: { path: users.csv, fields: [...] }`",
        "`data: { users: { file: users.csv } }`, then `${data.users.name}`",
        &["plan payload", "data set path", "data set fields"],
    ),
    row("`- loop: [...]`, `count: 5`", "`- repeat: 5` with `steps`", &["step loop", "step count"]),
    row(
        "`ifTrue`, `beforeRequest`, `afterResponse`",
        "`when`; `set` before a step, `extract` and `check` in it",
        &["step ifTrue", "step beforeRequest", "step afterResponse", "step function"],
    ),
    row(
        "`{{ token }}`, `{{ $randomNumber(1, 5) }}`",
        "`${token}`, `${random.int(1, 5)}`",
        &["${ $randomNumber"],
    ),
    row(
        "`{{ $randomString() }}`, `{{ $uuid }}`",
        "`${random.string(8)}`, `${uuid}`",
        &["${ $randomString", "${ $uuid"],
    ),
    row(
        "`{{ $processEnvironment.NAME }}`",
        "`${env.NAME}`",
        &["${ $processEnvironment", "${ $environment"],
    ),
    row(
        "`ensure: { p95: 200 }`",
        "`thresholds: [ { metric: http_req_duration, hold: p(95) < 200ms } ]`",
        &["plan ensure", "plan plugins"],
    ),
];

pub const JMETER: &[Row] = &[
    row(
        "Thread Group, ramp-up, loop count",
        "a workflow with `load: { stages: [...] }`, or `{ vus: 10, iterations: 200 }`",
        &[
            "plan threads",
            "load threads",
            "load num_threads",
            "load ramp_time",
            "load rampUp",
            "load ramp_up",
            "load loops",
            "plan thread_groups",
        ],
    ),
    row(
        "HTTP Request sampler, HTTP Header Manager",
        "a step (`get: /cart`), `headers`",
        &["step sampler", "step method", "step path"],
    ),
    row(
        "CSV Data Set Config, `${name}`",
        "`data: { users: { file: users.csv } }`, `${data.users.name}`",
        &["data set filename", "plan csv"],
    ),
    row(
        "JSON Extractor, Match No. 0, -1",
        "`extract: { id: { json: \"$.items[*].id\", match: random } }`, `match: all`",
        &["step extractors", "extractor match_no"],
    ),
    row(
        "Response Assertion, Duration Assertion",
        "`check: { status: 200 }`, `check: { latency: < 250ms }`",
        &["step assertions", "step assertion"],
    ),
    row(
        "Constant Timer, Uniform Random Timer",
        "`think: 1s`, `think: 1s..3s`",
        &["step timer", "step delay", "workflow delay"],
    ),
    row("Constant Throughput Timer", "`load: { rate: 600/m, duration: 1m }`", &["load throughput"]),
    row(
        "If, Loop and Random Controllers",
        "`when`, `repeat`, `choose`",
        &["step if", "step while", "step foreach"],
    ),
    row("`${__Random(1,5)}`", "`${random.int(1, 5)}`", &["${ __Random", "${ randomInt"]),
    row(
        "`${__RandomString(8)}`, `${__UUID}`",
        "`${random.string(8)}`, `${uuid}`",
        &["${ __RandomString", "${ __UUID", "${ randomUuid"],
    ),
    row(
        "`${__time()}`, `${__threadNum}`, `${__counter()}`",
        "`${timestamp.ms}`, `${vu.id}`, `${iteration}`",
        &["${ __time", "${ __threadNum", "${ __counter", "${ __VU", "${ __ITER"],
    ),
    row(
        "`${__P(name)}`, `-Jname=value`",
        "`${env.NAME}`, `-e NAME=value`",
        &["${ __P", "${ __property", "${ __env"],
    ),
];
