//! Options of scripts: where they come from and which place wins, flags, scenarios.

use crate::common;
use crate::common::scripts::{Scripts, count_lines};
use crate::common::{finish, plan};
use serde_json::Value;

/// Requests `/`; options from elsewhere.
const PLAIN: &str = "import http from 'k6/http';
export default function () { http.get(__ENV.T + '/'); }
";

/// The same with options of its own.
fn with_options(options: &str) -> String {
    format!("export const options = {{ {options} }};\n{PLAIN}")
}

/// Runs `test.js` and returns what the target has counted for it.
#[track_caller]
fn requests(scripts: &Scripts, args: &[&str], environment: &[(&str, &str)]) -> u64 {
    let before = scripts.target.total();
    let mut command = scripts.command(["test.js", "--no-summary"]);
    command.args(args).envs(environment.iter().copied());
    finish(&mut command).expect(0);
    scripts.target.total() - before
}

#[test]
fn flags_win_over_the_environment_over_the_script_over_the_config_file_over_defaults() {
    let scripts = Scripts::with(PLAIN);
    scripts.room.write("config.json", "{ \"iterations\": 2 }");
    let config: &[&str] = &["--config", "config.json"];
    assert_eq!(requests(&scripts, &[], &[]), 1, "default");
    assert_eq!(requests(&scripts, config, &[]), 2, "config file");
    scripts.room.write("test.js", &with_options("iterations: 3"));
    assert_eq!(requests(&scripts, config, &[]), 3, "script");
    let environment = &[("K6_ITERATIONS", "4")];
    assert_eq!(requests(&scripts, config, environment), 4, "environment");
    let flags = &["-c", "config.json", "-i", "5"];
    assert_eq!(requests(&scripts, flags, environment), 5, "flag");
}

#[test]
fn a_load_from_a_higher_place_replaces_every_load_below() {
    let scripts = Scripts::with(&with_options("vus: 2, duration: '10m'"));
    assert_eq!(requests(&scripts, &["-i", "4"], &[]), 4, "instead of duration");
    scripts.room.write("test.js", &with_options("stages: [{ duration: '10m', target: 3 }]"));
    assert_eq!(requests(&scripts, &[], &[("K6_ITERATIONS", "3")]), 3, "instead of stages");
    let scenarios = "scenarios: { a: { executor: 'constant-vus', vus: 1, duration: '10m' } }";
    scripts.room.write("test.js", &with_options(scenarios));
    assert_eq!(requests(&scripts, &["-i", "2"], &[]), 2, "instead of scenarios");
}

#[test]
fn values_of_the_environment_must_make_sense() {
    let scripts = Scripts::with(PLAIN);
    for (name, value) in [("K6_VUS", "many"), ("K6_DURATION", "soon"), ("K6_STAGES", "1s:x")] {
        let mut command = scripts.command(["test.js"]);
        finish(command.env(name, value)).expect(104).says(name);
    }
    scripts.run(["test.js", "-c", "no.json"]).expect(104).says("no.json").says("No such file");
    scripts.room.write("config.json", "{ iterations: 2 }");
    scripts.run(["test.js", "-c", "config.json"]).expect(104).says("config.json").says("JSON");
    assert_eq!(scripts.target.total(), 0);
}

fn vus_max(scripts: &Scripts, args: &[&str]) -> Value {
    let fixed = ["test.js", "--no-summary", "--summary", "s.json"];
    scripts.run(fixed.iter().chain(args)).expect(0);
    scripts.room.json("s.json")["workflows"]["default"]["vus_max"].clone()
}

#[test]
fn users_durations_and_stages_are_flags() {
    let scripts = Scripts::with(
        "import { sleep } from 'k6';
         export default function () { console.log('vu ' + __VU); sleep(0.2); }",
    );
    let done = scripts.run(["test.js", "-u", "3", "-i", "3"]).expect(0);
    let each = ["vu 1", "vu 2", "vu 3"].map(|line| count_lines(&done, line));
    assert_eq!(each, [1, 1, 1], "{}", done.err);
    assert_eq!(vus_max(&scripts, &["-u", "2", "-d", "1s"]), 2);
    let elapsed = scripts.room.json("s.json")["elapsed_s"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&elapsed), "{elapsed}");
    assert_eq!(vus_max(&scripts, &["-s", "200ms:3", "--stage", "200ms:0"]), 3);
    scripts.run(["test.js", "-d", "300ms"]).expect(104).says("300ms").says("1s");
    scripts.run(["test.js", "-s", "soon"]).expect(2).says("soon");
    scripts.run(["test.js", "-d", "1s", "-i", "3"]).says("duration");
}

#[test]
fn scenarios_have_their_function_environment_tags_and_start() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         import exec from 'k6/execution';
         export const options = {
           scenarios: {
             first: { executor: 'shared-iterations', vus: 1, iterations: 2, exec: 'shop',
                      env: { WHO: 'ada' }, tags: { team: 'red' } },
             later: { executor: 'per-vu-iterations', vus: 2, iterations: 1, exec: 'pay',
                      env: { WHO: 'bob' }, tags: { team: 'blue' }, startTime: '400ms' },
           },
           thresholds: {
             'http_reqs{team:red}': ['count==2'], 'http_reqs{team:blue}': ['count==2'],
             'http_reqs{scenario:later}': ['count==2'], 'iterations{scenario:first}': ['count==2'],
           },
         };
         export function shop() { http.get(__ENV.T + '/'); console.log(`${exec.scenario.name} ${__ENV.WHO}`); }
         export function pay() {
           http.get(__ENV.T + '/echo');
           console.log(`${exec.scenario.name} ${__ENV.WHO} ${exec.instance.currentTestRunDuration >= 400}`);
         }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "first ada"), 2, "{}", done.err);
    assert_eq!(count_lines(&done, "later bob true"), 2, "{}", done.err);
    let seen = &scripts.target.seen()["by_path"];
    assert_eq!((&seen["/"], &seen["/echo"]), (&2.into(), &2.into()));
    assert_eq!(done.out.matches("✓ 'count==2' count=2").count(), 4, "{}", done.out);
}

#[test]
fn a_constant_arrival_rate_is_kept_to_the_request() {
    let scripts = Scripts::with(&with_options(
        "scenarios: { rate: { executor: 'constant-arrival-rate', rate: 100, duration: '1s', preAllocatedVUs: 10 } }",
    ));
    let args = ["test.js", "--no-summary", "--summary", "s.json"];
    scripts.run(args).expect(0);
    let summary = scripts.room.json("s.json");
    let dropped = summary["dropped_iterations"].as_u64().unwrap();
    assert_eq!(scripts.target.total() + dropped, 100, "one each 10 ms, the first at 0");
    assert_eq!(summary["requests"]["sent"], scripts.target.total());
}

#[test]
fn an_arrival_rate_without_users_left_says_so_once() {
    let scripts = Scripts::with(
        "import { sleep } from 'k6';
         export const options = { scenarios: {
           rate: { executor: 'constant-arrival-rate', rate: 50, duration: '1s', preAllocatedVUs: 1, maxVUs: 2 },
         } };
         export default function () { sleep(0.3); }",
    );
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(0);
    let warning = "Insufficient VUs, reached 2 active VUs and cannot initialize more";
    assert_eq!(done.err.matches(warning).count(), 1, "{}", done.err);
    assert!(scripts.room.json("s.json")["dropped_iterations"].as_u64() > Some(30));
}

#[test]
fn a_run_without_a_finished_iteration_says_so() {
    let scripts = Scripts::with(
        "import { sleep } from 'k6';
         export const options = { scenarios: {
           slow: { executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '0s' } } };
         export default function () { sleep(10); }",
    );
    scripts.run(["test.js"]).expect(0).says("No script iterations fully finished");
}

#[test]
fn a_script_sees_the_environment_and_flags_above_it() {
    let scripts =
        Scripts::with("export default function () { console.log(`${__ENV.A} ${__ENV.B}`); }");
    let mut command = scripts.command(["test.js", "-e", "B=flag"]);
    let done = finish(command.env("A", "system").env("B", "system")).expect(0);
    assert_eq!(count_lines(&done, "system flag"), 1, "{}", done.err);
    let mut command =
        scripts.command(["test.js", "-e", "B=flag", "--include-system-env-vars=false"]);
    let done = finish(command.env("A", "system")).expect(0);
    assert_eq!(count_lines(&done, "undefined flag"), 1, "{}", done.err);
}

#[test]
fn the_least_time_of_an_iteration_and_the_most_requests_a_second_are_kept() {
    let scripts = Scripts::with(PLAIN);
    let begin = std::time::Instant::now();
    requests(&scripts, &["-i", "4", "--min-iteration-duration", "200ms"], &[]);
    assert!(begin.elapsed().as_millis() >= 600, "{:?}", begin.elapsed());
    let begin = std::time::Instant::now();
    requests(&scripts, &["-u", "5", "-i", "11", "--rps", "20"], &[]);
    assert!(begin.elapsed().as_millis() >= 450, "{:?}", begin.elapsed());
}

#[test]
fn failed_requests_throw_if_that_is_wanted() {
    let scripts = Scripts::with(
        "import http from 'k6/http';
         export default function () { http.get('http://127.0.0.1:1/'); console.log('went on'); }",
    );
    let done = scripts.run(["test.js"]).expect(0);
    assert_eq!(count_lines(&done, "went on"), 1, "{}", done.err);
    let done = scripts.run(["test.js", "--throw"]).expect(0).says("refused").says("test.js:2:");
    assert_eq!(count_lines(&done, "went on"), 0, "{}", done.err);
}

#[track_caller]
fn assert_refused_for_plans(flags: &[&[&str]]) {
    let scripts = Scripts::new();
    scripts.room.write("plan.yaml", &plan(&scripts.target.url(), "vus: 1, iterations: 1"));
    for flag in flags {
        let done = scripts.room.volley(["run", "plan.yaml"].iter().chain(*flag));
        let message = format!("{} is for scripts", flag[0].split('=').next().unwrap_or_default());
        assert!(done.err.contains(&message), "{flag:?}: {}", done.err);
        assert_eq!(done.code, 2, "{flag:?}");
    }
    assert_eq!(scripts.target.total(), 0);
}

#[test]
fn a_plan_refuses_flags_of_scripts() {
    assert_refused_for_plans(&[
        &["--config", "c.json"],
        &["--strict"],
        &["--no-setup"],
        &["--no-teardown"],
        &["--no-thresholds"],
        &["--summary-export", "e.json"],
        &["--tag", "a=b"],
        &["--rps", "3"],
        &["--max-redirects", "3"],
        &["--user-agent", "me"],
        &["--insecure-skip-tls-verify"],
        &["--no-connection-reuse"],
        &["--execution-segment", "0:1/2"],
        &["--paused"],
    ]);
}

#[test]
fn a_plan_refuses_every_flag_of_scripts() {
    assert_refused_for_plans(&[
        &["--no-summary"],
        &["--summary-mode", "full"],
        &["--summary-trend-stats", "avg"],
        &["--summary-time-unit", "s"],
        &["--system-tags", "url"],
        &["--batch", "3"],
        &["--batch-per-host", "3"],
        &["--http-debug"],
        &["--no-vu-connection-reuse"],
        &["--discard-response-bodies"],
        &["--min-iteration-duration", "1s"],
        &["--throw"],
        &["--blacklist-ip", "10.0.0.0/8"],
        &["--block-hostnames", "a.example"],
        &["--local-ips", "127.0.0.1"],
        &["--dns", "ttl=1m"],
        &["--execution-segment-sequence", "0,1/2,1"],
        &["--include-system-env-vars=false"],
        &["--console-output", "c.txt"],
        &["--log-output", "none"],
        &["--log-format", "json"],
        &["--verbose"],
        &["--no-usage-report"],
        &["--address", "localhost:6565"],
        &["--linger"],
        &["--profiling-enabled"],
        &["--secret-source", "mock=a=b"],
        &["--traces-output", "otel"],
    ]);
}

#[test]
fn flags_of_k6_that_mean_nothing_here_are_taken_and_answered_with_a_line() {
    let scripts = Scripts::with("export default function () { console.log('iterated'); }\n");
    let given = [
        "--address=localhost:6565",
        "--linger",
        "--profiling-enabled",
        "--secret-source=mock=a=b",
        "--traces-output=otel",
    ];
    let done = scripts.run(["test.js", "--no-usage-report"].iter().chain(&given)).expect(0);
    assert_eq!(count_lines(&done, "iterated"), 1, "{}", done.err);
    for flag in given {
        let name = flag.split('=').next().unwrap();
        let said =
            done.err.lines().filter(|line| line.starts_with(&format!("{name} has no effect")));
        assert_eq!(said.count(), 1, "{name}: {}", done.err);
    }
    assert!(!done.err.contains("usage"), "nothing is reported anyway: {}", done.err);
    let done = scripts.run(["test.js", "--traces-output=none"]).expect(0);
    assert!(!done.err.contains("no effect"), "{}", done.err);
}

#[test]
fn the_web_dashboard_of_k6_is_answered_with_a_word() {
    let scripts = Scripts::with("export default function () {}\n");
    let done =
        common::finish(scripts.command(["test.js"]).env("K6_WEB_DASHBOARD", "true")).expect(0);
    assert!(done.err.contains("the run is shown at http://127.0.0.1:"), "{}", done.err);
    let done =
        common::finish(scripts.command(["test.js"]).env("K6_WEB_DASHBOARD", "false")).expect(0);
    assert!(!done.err.contains("DASHBOARD"), "{}", done.err);
}

#[test]
fn redirects_that_were_limited_on_purpose_are_no_reason_to_warn() {
    let warned = |options: &str, args: &[&str]| {
        let scripts = Scripts::with(&format!(
            "import http from 'k6/http';\nexport const options = {{ {options} }};\n\
             export default function () {{ http.get(__ENV.T + '/redirect/15'); }}\n"
        ));
        let done = scripts.run(["test.js"].iter().chain(args)).expect(0);
        done.err.contains("Stopped after")
    };
    assert!(warned("", &[]), "the limit that nobody chose");
    assert!(!warned("maxRedirects: 4", &[]));
    assert!(!warned("", &["--max-redirects", "4"]));
    assert!(!warned("maxRedirects: 0", &[]));
}
