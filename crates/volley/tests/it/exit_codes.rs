//! The exit codes of `volley run`, as a table of what leads to each.

use std::time::{Duration, Instant};

use crate::common::{Room, Target, closed_port, plan};

/// Ends soon, and well.
const SOON: &str = "vus: 2, duration: 300ms";
/// Ends only if somebody ends it.
const LONG: &str = "vus: 2, duration: 10m";

fn run_with(extra: &str) -> (Room, Target) {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &format!("{}{extra}", plan(&target.url(), SOON)));
    (room, target)
}

#[test]
fn zero_if_all_held() {
    let (room, target) = run_with("thresholds: [ { metric: http_req_failed, hold: rate < 1% } ]\n");
    let done = room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(0).says("PASSED");
    assert!(done.out.contains("verdict"), "{}", done.out);
    let summary = room.json("s.json");
    assert_eq!(summary["exit_code"], 0);
    assert_eq!(summary["outcome"], "COMPLETED");
    assert_eq!(summary["requests"]["count"], target.total());
}

#[test]
fn two_if_the_command_line_is_wrong() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://127.0.0.1:1", SOON));
    let mistakes: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["run"], "<FILE>"),
        (&["run", "plan.yaml", "--vuss", "3"], "--vus"),
        (&["run", "plan.yaml", "--vus", "0"], "1..=1000000"),
        (&["run", "plan.yaml", "--vus", "1000000000"], "1..=1000000"),
        (&["run", "plan.yaml", "--duration", "3"], "3s"),
        (&["run", "plan.yaml", "--duration", "0s"], "longer than 0"),
        (&["run", "plan.yaml", "--target", "127.0.0.1:80"], "http://HOST"),
        (&["run", "plan.yaml", "--output", "xml=a"], "json, csv, junit, hdr"),
        (&["run", "plan.yaml", "-e", "KEY"], "KEY=VALUE"),
        (&["run", "plan.yaml", "--cores", "0"], "1..=1024"),
        (&["rum", "plan.yaml"], "did you mean `volley run`?"),
        (&["plan.yaml"], "volley run plan.yaml"),
        (&["other.yaml"], "volley new other.yaml"),
        (&["ftp://host/"], "not a scheme"),
        (&["-c", "0", "127.0.0.1:1"], "1..=1000000"),
        (&["-H", "nonsense", "127.0.0.1:1"], "Name: value"),
        (&["--http", "3", "127.0.0.1:1"], "auto, 1.1 or 2"),
        (&["-m", "", "127.0.0.1:1"], "GET, POST"),
        (&["ctl", "scale"], "--vus, --rate or --by"),
        (&["ctl", "scale", "--vus", "2000000"], "0..=1000000"),
        (&["ctl", "scale", "--by", "1e9"], "at most 100"),
        (&["ctl", "scale", "--by", "-1"], "more than 0"),
        (&["target", "--listen", "here"], "127.0.0.1:8080"),
        (&["target", "--error-rate", "3"], "0 to 1"),
    ];
    for (args, part) in mistakes {
        let done = room.volley(*args).expect(2).says(part);
        assert_eq!(done.out, "", "what is wrong is said on stderr: {args:?}");
    }
}

/// Each plan is wrong in one way: what it says, where, and what it should say instead.
const BAD_PLANS: &[(&str, &str, &[&str])] = &[
    ("malformed YAML", "name: x\nworkflows: [\n  - a: {\n", &["bad.yaml:3:3", "not valid YAML"]),
    (
        "missing data file",
        "TARGETdata: { users: { file: userz.csv } }\nWORKFLOW",
        &["bad.yaml:2:24", "data.users.file", "no file `userz.csv`", "help: files are found from"],
    ),
    (
        "cycle",
        "TARGETworkflows:\n  - { name: a, depends_on: [b], steps: [ { get: / } ] }\n  \
         - { name: b, depends_on: [a], steps: [ { get: / } ] }\n",
        &["bad.yaml:3:", "depends_on", "a", "b", "help:"],
    ),
    (
        "duplicate name",
        "TARGETworkflows:\n  - { name: a, steps: [ { get: / } ] }\n  - { name: a, steps: [ { get: / } ] }\n",
        &["bad.yaml:4:13", "workflows[1].name", "two workflows are called `a`", "help:"],
    ),
    (
        "impossible stage",
        "TARGETworkflows:\n  - name: a\n    load: { stages: [ { to: -4, over: 3s } ] }\n    steps: [ { get: / } ]\n",
        &["bad.yaml:4:29", "load.stages[0].to", "found `-4`", "help:"],
    ),
    (
        "10^9 users",
        "TARGETworkflows:\n  - name: a\n    load: { vus: 1000000000, duration: 5s }\n    steps: [ { get: / } ]\n",
        &["bad.yaml:4:18", "load.vus", "at most 1000000", "help:"],
    ),
    (
        "template that refers to nothing",
        "TARGETworkflows:\n  - name: a\n    steps: [ { get: \"/${nope}\" } ]\n",
        &["bad.yaml:4:23", "steps[0].get", "`${nope}` refers to nothing", "help: set it with"],
    ),
    (
        "unknown key",
        "TARGETworkflows:\n  - name: a\n    loda: { vus: 1 }\n    steps: [ { get: / } ]\n",
        &["bad.yaml:4:5", "workflows[0].loda", "did you mean `load`?"],
    ),
    ("empty file", "", &["bad.yaml", "the plan is empty", "volley new"]),
];

#[test]
fn one_hundred_and_four_if_the_plan_is_wrong_and_nothing_is_sent() {
    let (room, target) = (Room::new(), Target::start());
    for (what, text, parts) in BAD_PLANS {
        let text = text
            .replace("TARGET", &format!("target: {}\n", target.url()))
            .replace("WORKFLOW", "workflows: [ { name: a, steps: [ { get: / } ] } ]\n");
        room.write("bad.yaml", &text);
        for command in ["run", "plan"] {
            let done = room.volley([command, "bad.yaml"]).expect(104);
            for part in *parts {
                assert!(done.err.contains(part), "{what}: no `{part}` in\n{}", done.err);
            }
            assert_eq!(done.out, "", "{what}");
            assert!(
                done.err.ends_with('\n'),
                "{what}: the shell's prompt would follow the message"
            );
        }
    }
    assert_eq!(target.total(), 0, "no request may reach the target");
}

#[test]
fn one_hundred_and_four_names_all_problems_at_once() {
    let room = Room::new();
    let text = "target: http://127.0.0.1:1\nworkflows:\n  - name: a\n    loda: {}\n    \
                steps: [ { get: \"/${x}\" } ]\n  - name: a\n    steps: [ { gte: / } ]\n";
    room.write("bad.yaml", text);
    let done = room.volley(["run", "bad.yaml"]).expect(104);
    for part in ["loda", "${x}", "two workflows", "gte", "4 problems in bad.yaml"] {
        assert!(done.err.contains(part), "no `{part}` in\n{}", done.err);
    }
}

#[test]
fn one_hundred_and_four_for_a_plan_that_is_not_there_or_no_plan() {
    let room = Room::new();
    room.volley(["run", "nope.yaml"]).expect(104).says("help: `volley new nope.yaml`");
    room.volley(["run", "."]).expect(104).says("a folder");
}

#[test]
fn ninety_nine_if_a_threshold_failed() {
    let (room, _target) =
        run_with("thresholds: [ { metric: http_req_duration, hold: p(95) < 1us } ]\n");
    room.volley(["run", "plan.yaml"]).expect(99).says("✗ http_req_duration").says("FAILED");
}

#[test]
fn ninety_nine_if_a_threshold_ended_the_run_whose_outcome_is_completed() {
    let (room, target) = (Room::new(), Target::start());
    let abort = "thresholds: [ { metric: http_req_duration, hold: p(95) < 1us, abort: true } ]\n";
    room.write("plan.yaml", &format!("{}{abort}", plan(&target.url(), LONG)));
    room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(99);
    let summary = room.json("s.json");
    assert_eq!(summary["outcome"], "COMPLETED");
    assert_eq!(summary["stopped_by"], "threshold");
    assert_eq!(summary["requests"]["sent"], target.total());
}

#[test]
fn ninety_nine_if_a_check_failed_and_no_threshold_says_how_many_may() {
    let (room, target) = (Room::new(), Target::start());
    let plan = plan(&target.url(), SOON);
    let checked = plan.replace("get: / }", "get: /, check: { body: { contains: nothing } } }");
    room.write("plan.yaml", &checked);
    room.volley(["run", "plan.yaml"]).expect(99).says("no threshold on `checks`");
    let allowed = format!("{checked}thresholds: [ {{ metric: checks, hold: rate >= 0% }} ]\n");
    room.write("plan.yaml", &allowed);
    room.volley(["run", "plan.yaml"]).expect(0).says("as allowed");
}

#[test]
fn one_hundred_and_twenty_if_the_target_is_down() {
    let room = Room::new();
    let url = format!("http://{}", closed_port());
    room.write("plan.yaml", &plan(&url, "vus: 1, iterations: 3"));
    let done = room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(120);
    assert!(done.out.contains("is the target up?"), "{}", done.out);
    let summary = room.json("s.json");
    assert_eq!(summary["requests"]["count"], 3);
    assert_eq!(summary["requests"]["sent"], 0, "nothing was written to any connection");
    assert_eq!(summary["errors"]["refused"], 3);
}

#[test]
fn one_hundred_and_five_after_one_interrupt_with_a_summary() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (room, target) = (Room::new(), Target::start());
        room.write("plan.yaml", &plan(&target.url(), LONG));
        let running = room.start(["run", "plan.yaml", "--summary", "s.json"]);
        target.wait_for_requests(10);
        running.signal(signal);
        running.wait().expect(105).says("interrupted before the end").says("STEPS");
        let summary = room.json("s.json");
        assert_eq!(summary["stopped_by"], "interrupt");
        assert_eq!(summary["requests"]["sent"], target.total(), "to the request");
    }
}

#[test]
fn one_hundred_and_five_at_once_after_two_interrupts() {
    let (room, target) = (Room::new(), Target::with(&["--latency", "30s"]));
    room.write("plan.yaml", &plan(&target.url(), LONG));
    let running = room.start(["run", "plan.yaml", "--summary", "s.json"]);
    target.wait_for_requests(2);
    let begin = Instant::now();
    running.signal(libc::SIGINT);
    // A graceful end waits for the answers, which take 30 s.
    std::thread::sleep(Duration::from_millis(500));
    running.signal(libc::SIGINT);
    running.wait().expect(105);
    assert!(begin.elapsed() < Duration::from_secs(10), "took {:?}", begin.elapsed());
    let summary = room.json("s.json");
    assert_eq!(summary["requests"]["sent"], 2, "requests without an answer are counted too");
    assert_eq!(summary["requests"]["interrupted"], 2);
    assert_eq!(target.total(), 2);
}

#[test]
fn one_hundred_and_three_if_stopped_by_command() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), LONG));
    let running = room.start(["run", "plan.yaml", "--summary", "s.json"]);
    target.wait_for_requests(1);
    room.volley(["ctl", "stop"]).expect(0);
    running.wait().expect(103).says("stopped on request");
    let summary = room.json("s.json");
    assert_eq!(summary["outcome"], "CANCELLED");
    assert_eq!(summary["requests"]["sent"], target.total());
}

#[test]
fn one_hundred_and_two_if_the_plan_took_too_long() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &format!("{}timeout: 500ms\n", plan(&target.url(), LONG)));
    room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(102).says("time limit");
    assert_eq!(room.json("s.json")["outcome"], "TIMEOUT");
}

#[test]
fn one_hundred_and_twenty_two_if_setup_failed_and_no_load_follows() {
    let (room, target) = (Room::new(), Target::start());
    let setup =
        "setup: [ { name: prepare, get: /volley/no-such-thing, check: { status: 200 } } ]\n";
    room.write("plan.yaml", &format!("{}{setup}", plan(&target.url(), SOON)));
    room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(122).says("setup");
    assert_eq!(room.json("s.json")["outcome"], "FAILED");
    assert_eq!(target.seen()["by_path"]["/"].as_u64().unwrap_or(0), 0);
}

#[test]
fn one_hundred_and_twenty_two_if_a_workflow_cannot_start() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://no-such-host.invalid", SOON));
    room.volley(["run", "plan.yaml"]).expect(122).says("cannot resolve `no-such-host.invalid`");
}

#[test]
fn one_hundred_and_twenty_if_the_result_means_nothing() {
    let (room, target) = (Room::new(), Target::start());
    let never = plan(&target.url(), SOON).replace("get: / }", "get: /, when: \"${vu.id} == 0\" }");
    room.write("plan.yaml", &never);
    room.volley(["run", "plan.yaml"]).expect(120).says("no request was made");
    assert_eq!(target.total(), 0);
}
