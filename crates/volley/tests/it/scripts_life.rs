//! A script's life from setup to teardown, and who may end it: the script, a signal, `volley ctl`.

use std::time::{Duration, Instant};

use crate::common::scripts::{Scripts, count_lines};

/// What its functions do is in `default`, `setup` and `teardown`; each says that it ran.
fn life(options: &str, setup: &str, default: &str, teardown: &str) -> Scripts {
    Scripts::with(&format!(
        "import http from 'k6/http';
import exec from 'k6/execution';
import {{ sleep }} from 'k6';
export const options = {{ {options} }};
export function setup() {{ console.log('set up'); {setup} }}
export default function (data) {{ console.log('iterated'); {default} }}
export function teardown(data) {{ console.log('torn down'); {teardown} }}
"
    ))
}

#[test]
fn setup_runs_once_its_data_is_everybodys_and_teardown_runs_once() {
    let scripts = life(
        "scenarios: { each: { executor: 'per-vu-iterations', vus: 3, iterations: 2 } }",
        "return { word: 'hello', list: [1, 2] };",
        "console.log(data.word + data.list.length); data.word = 'changed';",
        "console.log('at the end ' + data.word);",
    );
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(0);
    let counts = ["set up", "iterated", "torn down", "at the end hello"]
        .map(|line| count_lines(&done, line));
    assert_eq!(counts, [1, 6, 1, 1], "{}", done.err);
    assert_eq!(count_lines(&done, "hello2"), 3, "each has its own: {}", done.err);
    assert_eq!(count_lines(&done, "changed2"), 3, "and keeps it: {}", done.err);
    assert_eq!(scripts.room.json("s.json")["iterations"], 6);
}

#[test]
fn setup_and_teardown_can_be_left_out() {
    let scripts = life("", "", "console.log(String(data));", "");
    let done = scripts.run(["test.js", "--no-setup", "--no-teardown"]).expect(0);
    let counts = ["set up", "undefined", "torn down"].map(|line| count_lines(&done, line));
    assert_eq!(counts, [0, 1, 0], "{}", done.err);
}

#[test]
fn an_exception_in_setup_ends_the_run_and_no_load_follows() {
    let scripts = life("", "throw new Error('no users');", "http.get(__ENV.T);", "");
    let done = scripts.run(["test.js"]).expect(107).says("Error: no users").says("test.js:5:");
    assert_eq!(count_lines(&done, "iterated") + count_lines(&done, "torn down"), 0);
    assert!(done.out.contains("TOTAL RESULTS"), "a summary all the same: {}", done.out);
    assert_eq!(scripts.target.total(), 0);
}

#[test]
fn an_exception_in_teardown_is_the_exit_code() {
    let scripts = life("", "", "", "throw new Error('left a mess');");
    let done = scripts.run(["test.js"]).expect(107).says("Error: left a mess").says("test.js:7:");
    assert_eq!(count_lines(&done, "iterated"), 1, "{}", done.err);
}

#[test]
fn setup_and_teardown_have_a_time_limit_even_if_they_compute() {
    for slow in ["sleep(30);", "for (;;) { }"] {
        let scripts = life("setupTimeout: '200ms'", slow, "", "");
        let begin = Instant::now();
        let done = scripts.run(["test.js"]).expect(100).says("setup()");
        assert_eq!(count_lines(&done, "iterated"), 0, "{}", done.err);
        let scripts = life("teardownTimeout: '200ms'", "", "", slow);
        let done = scripts.run(["test.js"]).expect(101).says("teardown()");
        assert_eq!(count_lines(&done, "iterated"), 1, "{}", done.err);
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}

#[test]
fn abort_in_an_iteration_ends_the_run_at_once_and_teardown_runs() {
    let scripts = life(
        "vus: 4, duration: '10m'",
        "",
        "http.get(__ENV.T + '/');
         if (exec.vu.idInTest === 1 && __ITER === 3) exec.test.abort('enough of it');
         http.get(__ENV.T + '/delay/20');",
        "",
    );
    let begin = Instant::now();
    let args = ["test.js", "--summary", "s.json"];
    let done = scripts.run(args).expect(108).says("test aborted: enough of it");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(count_lines(&done, "torn down"), 1, "{}", done.err);
    assert!(done.out.contains("http_reqs..."), "{}", done.out);
    assert_eq!(scripts.room.json("s.json")["requests"]["sent"], scripts.target.total());
}

#[test]
fn abort_in_setup_ends_the_run_before_the_load() {
    let scripts = life("", "exec.test.abort('not today');", "http.get(__ENV.T);", "");
    let done = scripts.run(["test.js"]).expect(108).says("test aborted: not today");
    assert_eq!(count_lines(&done, "iterated"), 0, "{}", done.err);
    assert_eq!(scripts.target.total(), 0);
}

#[test]
fn abort_in_init_ends_the_run_before_all_else() {
    let scripts = Scripts::with(
        "import exec from 'k6/execution';\nexec.test.abort('never');\nexport default function () {}\n",
    );
    let done = scripts.run(["test.js"]).expect(108);
    assert_eq!(done.out, "", "no summary: {}", done.out);
}

#[test]
fn abort_in_init_says_why() {
    let scripts = Scripts::with(
        "import exec from 'k6/execution';\nexec.test.abort('never');\nexport default function () {}\n",
    );
    scripts.run(["test.js"]).expect(108).says("test aborted: never");
}

#[test]
fn the_iteration_that_aborts_is_counted() {
    let scripts = life("iterations: 5", "", "if (__ITER === 2) exec.test.abort('here');", "");
    scripts.run(["test.js", "--summary-export", "e.json"]).expect(108);
    assert_eq!(scripts.room.json("e.json")["metrics"]["iterations"]["count"], 3);
}

#[test]
fn fail_marks_the_run_and_lets_it_go_on() {
    let scripts = life("iterations: 3", "", "if (__ITER === 1) exec.test.fail('not good');", "");
    let done = scripts.run(["test.js"]).expect(110).says("not good").says("marked");
    assert_eq!(count_lines(&done, "iterated"), 3, "{}", done.err);
}

#[test]
fn a_crossed_threshold_is_99_and_can_end_the_run() {
    let scripts = life(
        "vus: 1, duration: '10m', thresholds: { http_req_failed: [{ threshold: 'rate<0.5', abortOnFail: true }] }",
        "",
        "http.get(__ENV.T + '/status/503'); sleep(0.02);",
        "",
    );
    let done = scripts.run(["test.js", "--summary", "s.json"]).expect(99).says("http_req_failed");
    assert!(done.out.contains("✗ 'rate<0.5' rate=100.00%"), "{}", done.out);
    assert_eq!(count_lines(&done, "torn down"), 1, "{}", done.err);
    assert_eq!(scripts.room.json("s.json")["requests"]["sent"], scripts.target.total());
    let done = scripts.run(["test.js", "-i", "2", "--no-thresholds"]).expect(0);
    assert!(!done.out.contains("THRESHOLDS"), "{}", done.out);
}

/// Iterations of 20 ms, without end.
const STEADY: &str = "http.get(__ENV.T + '/'); sleep(0.02);";

#[test]
fn signals_end_the_run_with_a_summary() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let scripts = life("vus: 2, duration: '10m'", "", STEADY, "");
        let running = scripts.start(["test.js", "--summary", "s.json"]);
        scripts.target.wait_for_requests(4);
        running.signal(signal);
        let done = running.wait().expect(105).says("interrupt");
        assert_eq!(count_lines(&done, "torn down"), 1, "{}", done.err);
        assert!(done.out.contains("http_reqs..."), "{}", done.out);
        let summary = scripts.room.json("s.json");
        assert_eq!(summary["stopped_by"], "interrupt");
        assert_eq!(summary["requests"]["sent"], scripts.target.total());
    }
}

#[test]
fn a_signal_cuts_iterations_off() {
    let scripts = life("vus: 2, duration: '10m'", "", "http.get(__ENV.T); sleep(20);", "");
    let running = scripts.start(["test.js"]);
    scripts.target.wait_for_requests(2);
    let begin = Instant::now();
    running.signal(libc::SIGINT);
    running.wait().expect(105);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn ctl_asks_and_stops() {
    let scripts = life("vus: 2, duration: '10m'", "", STEADY, "");
    let running = scripts.start(["test.js", "--summary", "s.json"]);
    scripts.until_status("the status has numbers", |status| status["requests"].as_u64() > Some(0));
    let status = scripts.status();
    assert_eq!(status["plan"], "test.js");
    assert_eq!(status["pid"], running.pid());
    assert_eq!(status["state"], "running");
    assert_eq!(status["vus"], 2);
    assert_eq!(status["workflows"][0]["name"], "default");
    scripts.room.volley(["ctl", "stop"]).expect(0);
    let done = running.wait().expect(103);
    assert_eq!(count_lines(&done, "torn down"), 1, "{}", done.err);
    assert!(done.out.contains("http_reqs..."), "{}", done.out);
    assert_eq!(scripts.room.json("s.json")["requests"]["sent"], scripts.target.total());
}

#[test]
fn a_paused_run_sends_nothing_until_it_is_resumed() {
    let scripts = life("vus: 2, duration: '10m'", "", STEADY, "");
    let running = scripts.start(["test.js"]);
    scripts.target.wait_for_requests(2);
    scripts.room.volley(["ctl", "pause"]).expect(0);
    scripts.until_status("it is paused", |status| status["state"] == "paused");
    let paused_at = scripts.target.total();
    std::thread::sleep(Duration::from_millis(300));
    assert!(scripts.target.total() <= paused_at + 2, "a paused run sends nothing");
    scripts.room.volley(["ctl", "resume"]).expect(0);
    scripts.target.wait_for_requests(paused_at + 5);
    scripts.room.volley(["ctl", "stop"]).expect(0);
    running.wait().expect(103);
}

#[test]
fn a_run_that_begins_paused_waits_for_resume() {
    for (option, flag) in [("", "--paused"), ("paused: true", "--no-color")] {
        let scripts = life(&format!("iterations: 3, {option}"), "", "http.get(__ENV.T);", "");
        let running = scripts.start(["test.js", flag]);
        scripts.until_status("it is paused", |status| status["state"] == "paused");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(scripts.target.total(), 0);
        scripts.room.volley(["ctl", "resume"]).expect(0);
        let done = running.wait().expect(0);
        assert_eq!(count_lines(&done, "set up"), 1, "{}", done.err);
        assert_eq!(count_lines(&done, "iterated"), 3, "{}", done.err);
        assert_eq!(scripts.target.total(), 3);
    }
}

#[test]
fn setup_does_not_run_before_a_run_that_begins_paused_is_resumed() {
    let scripts = life("iterations: 2", "http.get(__ENV.T + '/set-up');", "", "");
    let running = scripts.start(["test.js", "--paused", "--summary", "s.json"]);
    scripts.until_status("it is paused", |status| status["state"] == "paused");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(scripts.target.total(), 0, "setup() has not run");
    scripts.room.volley(["ctl", "resume"]).expect(0);
    running.wait().expect(0);
    assert_eq!(scripts.target.total(), 1);
    let timeline = scripts.room.json("s.json")["timeline"].to_string();
    let at = |event: &str| timeline.find(event).unwrap_or_else(|| panic!("{event}: {timeline}"));
    assert!(at("resumed") < at("run started"), "the clock starts with the resume: {timeline}");
}

#[test]
fn a_run_that_begins_paused_can_be_ended_before_anything_has_run() {
    for (how, code) in [("stop", 103), ("interrupt", 105)] {
        let scripts = life("iterations: 2", "", "http.get(__ENV.T);", "");
        let running = scripts.start(["test.js", "--paused"]);
        scripts.until_status("it is paused", |status| status["state"] == "paused");
        match how {
            "stop" => drop(scripts.room.volley(["ctl", "stop"]).expect(0)),
            _ => running.signal(libc::SIGINT),
        }
        let done = running.wait().expect(code);
        assert_eq!(count_lines(&done, "set up"), 0, "{}", done.err);
        assert!(!done.err.contains("internal"), "{}", done.err);
        assert_eq!(scripts.target.total(), 0);
    }
}

const STEERED: &str = "scenarios: {
  steered: { executor: 'externally-controlled', vus: 1, maxVUs: 4, duration: '10m' } }";

#[test]
fn an_externally_controlled_scenario_is_steered() {
    let scripts = life(STEERED, "", STEADY, "");
    let running = scripts.start(["test.js", "--summary", "s.json"]);
    scripts.until_status("one user runs", |status| status["vus"] == 1);
    for count in [3, 4, 2] {
        let wanted = count.to_string();
        scripts.room.volley(["ctl", "scale", "--vus", &wanted]).expect(0).says("steered");
        scripts.until_status(&format!("{count} users run"), |status| status["vus"] == count);
    }
    scripts.room.volley(["ctl", "stop"]).expect(0);
    let done = running.wait().expect(103);
    assert_eq!(count_lines(&done, "torn down"), 1, "{}", done.err);
    let summary = scripts.room.json("s.json");
    assert_eq!(summary["workflows"]["steered"]["vus_max"], 4);
    assert_eq!(summary["requests"]["sent"], scripts.target.total());
}

#[test]
fn an_externally_controlled_scenario_has_its_most() {
    let scripts = life(STEERED, "", STEADY, "");
    let running = scripts.start(["test.js", "--summary", "s.json"]);
    scripts.until_status("one user runs", |status| status["vus"] == 1);
    scripts.room.volley(["ctl", "scale", "--vus", "9"]).expect(1).says("4").says("maxVUs");
    scripts.room.volley(["ctl", "stop"]).expect(0);
    running.wait().expect(103);
    assert_eq!(scripts.room.json("s.json")["workflows"]["steered"]["vus_max"], 1);
}
