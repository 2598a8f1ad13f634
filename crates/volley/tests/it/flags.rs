//! Flags and environment variables of `volley run`: each changes what it says, and nothing else.

use crate::common;
use crate::common::{Room, Target, plan};
use serde_json::Value;

fn summary(room: &Room, args: &[&str]) -> Value {
    let fixed = ["run", "plan.yaml", "--summary", "s.json"];
    room.volley(fixed.iter().chain(args)).expect(0);
    room.json("s.json")
}

#[test]
fn env_values_come_from_the_flag_then_from_the_environment_then_from_the_default() {
    let (room, target) = (Room::new(), Target::start());
    let step = "get: \"/search?q=${env.WORD:-oak}\", \
                check: { json: \"$[0].title\", equals: \"${env.WANT:-oak} 1\" }";
    let text = plan(&target.url(), "vus: 1, iterations: 1").replace("get: /", step);
    room.write("plan.yaml", &text);
    room.volley(["run", "plan.yaml"]).expect(0);
    room.volley(["run", "plan.yaml", "-e", "WORD=elm", "-e", "WANT=elm"]).expect(0);
    room.volley(["run", "plan.yaml", "-e", "WORD=elm", "-e", "WANT=ash"]).expect(99);
    let mut command = room.command(["run", "plan.yaml", "-e", "WANT=ash"]);
    common::finish(command.env("WORD", "ash").env("WANT", "elm")).expect(0);
}

#[test]
fn a_variable_that_is_missing_and_has_no_default_is_a_mistake_in_the_plan() {
    let room = Room::new();
    let text = plan("http://127.0.0.1:1", "vus: 1, iterations: 1")
        .replace("get: /", "get: \"/${env.NOT_SET}\"");
    room.write("plan.yaml", &text);
    room.volley(["run", "plan.yaml"]).expect(104).says("NOT_SET").says("-e");
}

#[test]
fn vus_and_duration_replace_those_of_the_plan_and_stages_keep_their_shape() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 2, duration: 10m"));
    let result = summary(&room, &["--vus", "7", "--duration", "400ms"]);
    assert_eq!(result["workflows"]["main"]["vus_max"], 7);
    let elapsed = result["elapsed_s"].as_f64().unwrap();
    assert!((0.4..5.0).contains(&elapsed), "{elapsed}");

    let stages = "stages: [ { to: 4, over: 1m }, { to: 2, over: 3m } ]";
    room.write("plan.yaml", &plan(&target.url(), stages));
    let result = summary(&room, &["--vus", "8", "-d", "800ms"]);
    let names: Vec<_> =
        result["stages"].as_array().unwrap().iter().map(|stage| stage["name"].clone()).collect();
    assert_eq!(names, ["stage-1", "stage-2"]);
    assert_eq!(result["workflows"]["main"]["vus_max"], 8);
}

#[test]
fn the_environment_sets_what_flags_set_and_flags_win() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan("http://127.0.0.1:1", "vus: 2, duration: 10m"));
    let mut command = room.command(["run", "plan.yaml", "--vus", "3"]);
    command
        .env("VOLLEY_VUS", "5")
        .env("VOLLEY_DURATION", "300ms")
        .env("VOLLEY_TARGET", target.url());
    command.env("VOLLEY_QUIET", "1").env("VOLLEY_SUMMARY", "s.json").env("VOLLEY_CORES", "1");
    let done = common::finish(&mut command).expect(0);
    assert_eq!(done.out.lines().count(), 1, "quiet: {}", done.out);
    let result = room.json("s.json");
    assert_eq!(result["workflows"]["main"]["vus_max"], 3);
    assert_eq!(result["generator"]["cores"], 1);
    assert_eq!(result["requests"]["count"], target.total());
}

#[test]
fn cores_limits_the_generator() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 4, duration: 200ms"));
    assert_eq!(summary(&room, &["--cores", "1"])["generator"]["cores"], 1);
    let done = room.volley(["plan", "plan.yaml", "--cores", "3", "--json"]).expect(0);
    let explained: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(explained["layers"][0]["waves"][0][0]["vus"], serde_json::json!([2, 1, 1]));
}

#[test]
fn quiet_leaves_one_line_with_the_verdict() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, iterations: 1"));
    let done = room.volley(["run", "plan.yaml", "--quiet"]).expect(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("passed, valid: no request failed\n", ""));
    let done =
        room.volley(["run", "plan.yaml", "-q", "--target", "http://127.0.0.1:1"]).expect(120);
    assert!(
        done.out.starts_with("failed, invalid: the result is invalid: nothing was answered"),
        "{}",
        done.out
    );
}

#[test]
fn without_a_terminal_there_is_no_escape_sequence_and_progress_is_plain_lines() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, duration: 3s, pacing: 50ms"));
    let done = room.volley(["run", "plan.yaml"]).expect(0);
    assert!(
        !done.out.contains('\u{1b}') && !done.err.contains('\u{1b}'),
        "{}{}",
        done.out,
        done.err
    );
    assert!(
        done.err.lines().any(|line| line.contains("running") && line.contains("main")),
        "{}",
        done.err
    );
    let done = room.volley(["run", "plan.yaml", "--view", "none", "-d", "200ms"]).expect(0);
    assert_eq!(done.err, "");
}

#[test]
fn colours_need_a_terminal_and_can_be_refused() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, iterations: 1"));
    if common::finish(std::process::Command::new("script").arg("--version")).code != 0 {
        eprintln!("skipped: needs the command `script` (util-linux)");
        return;
    }
    // `script` gives the command a terminal and passes on what it writes there.
    let on_terminal = |extra: &str, no_color: Option<&str>| {
        let line = format!("{} run plan.yaml --view none {extra}", common::VOLLEY);
        let mut script = std::process::Command::new("script");
        script.current_dir(room.path(".")).args(["-qec", &line, "/dev/null"]);
        script.env_remove("NO_COLOR").env("TERM", "xterm-256color");
        if let Some(value) = no_color {
            script.env("NO_COLOR", value);
        }
        common::finish(script.stdin(std::process::Stdio::null())).expect(0).out
    };
    assert!(on_terminal("", None).contains("\u{1b}["), "coloured by default");
    assert!(!on_terminal("--no-color", None).contains("\u{1b}["));
    assert!(!on_terminal("", Some("1")).contains("\u{1b}["));
    assert!(on_terminal("", Some("")).contains("\u{1b}["), "an empty NO_COLOR says nothing");
}
