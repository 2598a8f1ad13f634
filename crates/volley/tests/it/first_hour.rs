//! What people reach for in the first hour, and the mistakes they make there.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Room, Target, closed_port, plan};

#[test]
fn a_number_of_requests_is_made_exactly() {
    let (room, target) = (Room::new(), Target::start());
    room.volley(["-n", "137", "-c", "10", &target.url()]).expect(0).says("137");
    assert_eq!(target.total(), 137);
    room.volley(["-n", "10", "-d", "1s", &target.url()]).expect(2).says("cannot be used with");
}

#[test]
fn a_plans_load_is_replaced_from_the_command_line() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 3, duration: 10m"));
    room.volley(["run", "plan.yaml", "--iterations", "41", "-q"]).expect(0);
    assert_eq!(target.total(), 41);
    room.volley(["run", "plan.yaml", "--rate", "50/s", "--duration", "1s", "-q"]).expect(0);
    assert_eq!(target.total(), 91);
    room.volley(["run", "plan.yaml", "--stage", "300ms:2", "--stage", "200ms:0", "-q"]).expect(0);
    assert!(target.total() > 91);
    let both = ["run", "plan.yaml", "--rate", "5", "--iterations", "3"];
    room.volley(both).expect(2).says("cannot be used with");
    room.write("s.js", "export default function () {}");
    room.volley(["run", "s.js", "--rate", "5"]).expect(2).says("constant-arrival-rate");
}

#[test]
fn words_that_are_no_command_are_not_taken_for_targets() {
    let room = Room::new();
    for word in ["stop", "start", "monitor", "server1"] {
        room.volley([word]).expect(2).says(&format!("no command `{word}`"));
    }
    room.volley(["script.js"]).expect(2).says("there is no file `script.js`");
    room.volley(["load.jmx"]).expect(2).says("`volley run FILE`");
}

#[test]
fn commands_that_have_moved_are_answered_with_their_place() {
    let room = Room::new();
    for line in [&["members"][..], &["agent", "--certs", "c"], &["ledger", "status", "7101"]] {
        let said = format!("`volley {0}` is `volley debug {0}` now", line[0]);
        room.volley(line.iter().copied()).expect(2).says(&said);
        room.volley(["debug", line[0], "--help"]).expect(0).says("Usage: volley debug");
    }
    room.write("volley.toml", "[members]\njson = true\n");
    room.volley(["version"]).expect(104).says("did you mean `debug-members`?");
}

#[test]
fn habits_of_other_tools_are_answered_with_the_right_flag() {
    let room = Room::new();
    room.volley(["-z", "10s", "http://127.0.0.1:1/"]).expect(2).says("`-d TIME`");
    room.volley(["-t4", "http://127.0.0.1:1/"]).expect(2).says("--cores");
    room.volley(["-q", "100", "http://127.0.0.1:1/"]).expect(2).says("-r 100");
}

#[test]
fn the_version_says_of_which_source_it_is_a_build() {
    let done = Room::new().volley(["version"]).expect(0);
    assert!(done.out.starts_with(&format!("volley {} (", env!("CARGO_PKG_VERSION"))), "{done:?}");
    assert!(done.out.contains("build for"), "{done:?}");
}

#[test]
fn shells_are_given_completions_and_people_manual_pages() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = room.volley(["completions", shell]).expect(0);
        assert!(done.out.contains("volley") && done.out.contains("COMPLETE"), "{shell}: {done:?}");
    }
    // What the script asks for when somebody types `volley ma` and the tab key.
    let mut asked = room.command(["--", "volley", "ma"]);
    asked.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "1");
    let done = common::finish(asked.env("_CLAP_COMPLETE_COMP_TYPE", "9"));
    assert!(done.out.contains("manager") && done.out.contains("man"), "{done:?}");
    room.volley(["man"]).expect(0).says(".TH");
    room.volley(["man", "--dir", "pages"]).expect(0);
    for page in ["volley.1", "volley-run.1", "volley-submit.1"] {
        assert!(room.path("pages").join(page).exists(), "{page}");
    }
}

#[test]
fn more_cores_than_there_are_are_not_used_and_it_is_said() {
    let (room, target) = (Room::new(), Target::start());
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let args = ["-n", "10", "--cores", "900", "--summary", "s.json", &target.url()];
    room.volley(args).expect(0).says("this machine has").says("are used");
    assert_eq!(room.json("s.json")["generator"]["cores"], here);
}

/// The headline says it, the verdict is not `valid`, and users who are refused do not turn in
/// circles.
#[test]
fn a_target_that_refuses_every_connection_is_no_test() {
    let room = Room::new();
    let url = format!("http://{}", closed_port());
    room.write("plan.yaml", &plan(&url, "vus: 4, duration: 2s"));
    let done = room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(120);
    assert!(done.out.contains("nothing was answered:"), "{}", done.out);
    assert!(done.out.contains("attempts, all refused"), "{}", done.out);
    let summary = room.json("s.json");
    assert_eq!(summary["verdict"]["state"], "invalid");
    // Seven waits of 1 to 64 ms, then 100 ms each: some 26 attempts of each user.
    let attempts = summary["requests"]["count"].as_u64().unwrap();
    assert!((20..=140).contains(&attempts), "{attempts} attempts in 2 s by 4 users");
}

#[test]
fn a_target_that_comes_back_is_met_at_once() {
    let room = Room::new();
    let address = closed_port();
    room.write("plan.yaml", &plan(&format!("http://{address}"), "vus: 2, duration: 4s"));
    let run = room.start(["run", "plan.yaml", "--summary", "s.json"]);
    std::thread::sleep(Duration::from_millis(1_500));
    let began = Instant::now();
    let target = Target::at(address);
    common::until("it is met", || target.total() > 0);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    run.wait().expect(99);
}

/// Rows run out, so the result is degraded; the headline says so, and whoever asks for it gets
/// another exit code.
#[test]
fn the_verdict_is_in_the_quiet_line_and_decides_if_it_is_asked_to() {
    let (room, target) = (Room::new(), Target::start());
    room.write("rows.csv", "id\n1\n2\n3\n4\n5\n6\n7\n");
    let text = format!(
        "name: rows\ntarget: {}\ndata:\n  rows: {{ file: rows.csv, order: unique-per-iteration, when_exhausted: \
         stop }}\nworkflows:\n  - name: w\n    load: {{ vus: 1, iterations: 10 }}\n    steps: [ {{ get: \
         \"/?id=${{data.rows.id}}\" }} ]\n",
        target.url()
    );
    room.write("plan.yaml", &text);
    let done = room.volley(["run", "plan.yaml", "-q"]).expect(0);
    assert!(done.out.starts_with("passed, degraded: "), "{done:?}");
    assert!(done.out.contains("found no data row left"), "{done:?}");
    let done = room.volley(["run", "plan.yaml"]).expect(0);
    assert!(done.out.contains("! PASSED") && done.out.contains("but the result is degraded"));
    let done = room.volley(["run", "plan.yaml", "-q", "--fail-on", "degraded"]).expect(120);
    assert!(done.out.starts_with("failed, degraded: "), "{done:?}");
    room.volley(["run", "plan.yaml", "--fail-on", "valid"])
        .expect(2)
        .says("`degraded` or `invalid`");
}

#[test]
fn a_worker_whose_seeds_do_not_answer_says_so_and_goes_on_trying() {
    let room = Room::new();
    room.volley(["certs", "init", "ca"]).expect(0);
    let issue = ["certs", "issue", "--ca", "ca", "--role", "worker", "--datacenter", "dc1"];
    room.volley(issue.into_iter().chain(["--out", "w"])).expect(0);
    let seed = closed_port().to_string();
    let args = ["worker", "--certs", "w", "--data", "d", "--bind", "127.0.0.1:0", "--seed", &seed];
    let worker = room.start(args);
    std::thread::sleep(Duration::from_millis(3_500));
    worker.signal(libc::SIGTERM);
    worker.wait().expect(0).says(&format!("nobody answers at {seed}; trying on"));
}
