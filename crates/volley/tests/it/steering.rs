//! `volley ctl`: each command does what it says to the run that is meant, and is in the result's
//! timeline.

use crate::common;
use crate::common::{Room, Running, Target, plan, until};
use serde_json::Value;

/// Ends only if somebody ends it.
fn start(room: &Room, target: &Target, load: &str, summary: &str) -> Running {
    room.write("plan.yaml", &plan(&target.url(), load));
    let running = room.start(["run", "plan.yaml", "--summary", summary]);
    let pid = running.pid().to_string();
    let before = target.total();
    until("the run can be asked", || room.volley(["ctl", "status", "--run", &pid]).code == 0);
    target.wait_for_requests(before + 1);
    running
}

fn status(room: &Room) -> Value {
    let done = room.volley(["ctl", "status", "--json"]).expect(0);
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
}

fn timeline(room: &Room, summary: &str) -> Vec<String> {
    let entries = room.json(summary)["timeline"].as_array().unwrap().clone();
    entries.iter().map(|entry| entry["event"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_in_order(timeline: &[String], words: &[&str]) {
    let mut rest = timeline.iter();
    for word in words {
        assert!(
            rest.any(|event| event.contains(word)),
            "no `{word}` in its place in {timeline:#?}"
        );
    }
}

#[test]
fn a_run_is_paused_resumed_scaled_and_stopped_and_tells_so() {
    let (room, target) = (Room::new(), Target::start());
    let running = start(&room, &target, "vus: 2, duration: 10m, pacing: 10ms", "s.json");
    until("the status has numbers", || status(&room)["requests"].as_u64() > Some(0));
    let now = status(&room);
    assert_eq!(now["plan"], "small");
    assert_eq!(now["pid"], running.pid());
    assert_eq!(now["workflows"][0]["name"], "main");

    let told = room.volley(["ctl", "status"]).expect(0).out;
    let first = format!("small (process {}): running, ", running.pid());
    assert!(told.starts_with(&first) && told.contains(" of 10m00s\n"), "in words: {told}");
    assert!(told.contains("\n  main: running, "), "{told}");

    room.volley(["ctl", "pause"]).expect(0);
    until("it is paused", || status(&room)["state"] == "paused");
    // What was under way when it was paused has arrived by now.
    let paused_at = target.total();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(target.total() <= paused_at + 2, "a paused run sends nothing");

    room.volley(["ctl", "resume"]).expect(0);
    target.wait_for_requests(paused_at + 5);
    room.volley(["ctl", "scale", "--vus", "5"]).expect(0);
    until("five users run", || status(&room)["vus"] == 5);
    room.volley(["ctl", "scale", "--by", "2"]).expect(0);
    until("ten users run", || status(&room)["vus"] == 10);
    room.volley(["ctl", "stop"]).expect(0);
    running.wait().expect(103);

    assert_in_order(
        &timeline(&room, "s.json"),
        &["paused", "resumed", "set to 5", "scaled by 2", "stop"],
    );
    assert_eq!(room.json("s.json")["requests"]["sent"], target.total());
    room.volley(["ctl", "status"]).expect(1).says("no test is running");
}

#[test]
fn a_rate_is_scaled_by_rate() {
    let (room, target) = (Room::new(), Target::start());
    let running = start(&room, &target, "rate: 20/s, duration: 10m", "s.json");
    room.volley(["ctl", "scale", "--rate", "400/s", "--workflow", "main"]).expect(0);
    let before = target.total();
    target.wait_for_requests(before + 200);
    room.volley(["ctl", "scale", "--rate", "1/s", "--workflow", "nope"]).expect(1).says("nope");
    room.volley(["ctl", "stop"]).expect(0);
    running.wait().expect(103);
    assert_in_order(&timeline(&room, "s.json"), &["400", "stop"]);
}

#[test]
fn two_runs_at_once_must_be_told_apart() {
    let (room, target) = (Room::new(), Target::start());
    let load = "vus: 1, duration: 10m, pacing: 20ms";
    let one = start(&room, &target, load, "one.json");
    let other = start(&room, &target, load, "other.json");
    let (first, second) = (one.pid().to_string(), other.pid().to_string());
    let done = room.volley(["ctl", "stop"]).expect(1).says("--run");
    for pid in [&first, &second] {
        let named = format!("{pid} (small)");
        assert!(done.err.contains(&named), "the plan stands beside its process: {}", done.err);
    }
    room.volley(["ctl", "--run", &first, "stop"]).expect(0);
    one.wait().expect(103);
    // The other is alone now, and goes on.
    assert_eq!(status(&room)["pid"], other.pid());
    room.volley(["ctl", "stop"]).expect(0);
    other.wait().expect(103);
    room.volley(["ctl", "stop", "--run", &first]).expect(1).says("no run with process id");
}

#[test]
fn what_a_killed_run_left_behind_is_no_run() {
    let (room, target) = (Room::new(), Target::start());
    let running = start(&room, &target, "vus: 1, duration: 10m, pacing: 20ms", "s.json");
    running.signal(libc::SIGKILL);
    running.wait().expect(-1);
    room.volley(["ctl", "status"]).expect(1).says("no test is running");
}

#[test]
fn without_a_place_for_its_control_socket_a_run_goes_on() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, iterations: 3"));
    let mut command = room.command(["run", "plan.yaml"]);
    common::finish(command.env("XDG_RUNTIME_DIR", "/proc/no/such/folder")).expect(0);
    assert_eq!(target.total(), 3);
}

#[test]
fn requests_that_wait_for_a_silent_target_are_shown() {
    // It accepts, by the kernel's hands, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (room, url) = (Room::new(), format!("http://{}", silent.local_addr().unwrap()));
    room.write("plan.yaml", &plan(&url, "vus: 3, duration: 10m"));
    let running = room.start(["run", "plan.yaml"]);
    let sentence = "3 requests under way, nothing has come back yet";
    until("the status says that it waits", || {
        room.volley(["ctl", "status"]).out.contains(sentence)
    });
    // A line of progress comes every three seconds; a graceful end would wait for the target.
    std::thread::sleep(std::time::Duration::from_secs(4));
    running.signal(libc::SIGKILL);
    let done = running.wait().expect(-1);
    assert!(done.err.contains(sentence), "the progress says so, too: {}", done.err);
}

#[test]
fn a_locale_without_utf_8_gets_nothing_but_ascii() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 2, iterations: 20"));
    for args in [&["run", "plan.yaml"][..], &["plan", "plan.yaml"], &["run", "--help"]] {
        let mut command = room.command(args);
        let done = common::finish(command.env("LC_ALL", "C")).expect(0);
        assert!(done.out.is_ascii() && done.err.is_ascii(), "{args:?}: {}{}", done.out, done.err);
    }
    let said = room.volley(["run", "plan.yaml"]).expect(0);
    assert!(said.out.contains("✓ PASSED"), "{}", said.out);
}
