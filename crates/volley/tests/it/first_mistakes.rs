//! Mistakes of the first hours on the command line and in runs, each with the words that help.

use std::process::Stdio;

use crate::common::{self, Room, Target, plan};

/// The same as `says`, wherever lines are broken.
#[track_caller]
fn says_words(done: &common::Done, part: &str) {
    let words = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(part), "nothing says `{part}`: {words}");
}

/// A plan with one step that has these keys.
fn with_step(target: &str, step: &str) -> String {
    format!(
        "name: test\ntarget: {target}\nworkflows:\n  - name: main\n    load: {{ vus: 2, iterations: 4 }}\n    \
         steps: [ {{ name: one, {step} }} ]\n"
    )
}

#[test]
fn an_output_that_is_a_file_of_the_run_is_refused_whatever_the_flag() {
    let (room, target) = (Room::new(), Target::start());
    room.write("users.csv", "name\namara\n");
    let text = plan(&target.url(), "vus: 1, iterations: 1")
        .replace("workflows:", "data: { users: users.csv }\nworkflows:");
    room.write("plan.json.yaml", &text);
    std::os::unix::fs::symlink(room.path("plan.json.yaml"), room.path("link.json")).unwrap();
    for (args, whose) in [
        (["--summary", "link.json"], "summary link.json: this is the plan itself"),
        (["-o", "junit=plan.json.yaml"], "junit plan.json.yaml: this is the plan itself"),
        (["-o", "csv=./users.csv"], "csv ./users.csv: this is `users.csv`, which the plan reads"),
    ] {
        let done = room.volley(["run", "plan.json.yaml"].iter().chain(&args)).expect(104);
        done.says(whose).says("choose another file");
    }
    assert_eq!(std::fs::read_to_string(room.path("users.csv")).unwrap(), "name\namara\n");
    room.write("body.json", "{}");
    let url = target.url();
    let args = ["-n", "1", "-b", "@body.json", "--summary", "body.json", &url];
    room.volley(args).expect(104).says("this is the body");
    room.write("script.js", "export default function () {}");
    let done = room.volley(["run", "script.js", "-o", "json=script.js"]).expect(104);
    done.says("this is the script itself");
    assert_eq!(target.total(), 0, "nothing was sent");
}

#[test]
fn a_plan_or_a_script_is_read_from_standard_input() {
    let (room, target) = (Room::new(), Target::start());
    for (name, text) in [
        ("plan.yaml", plan(&target.url(), "vus: 1, iterations: 1")),
        ("script.js", "export default function () {}".to_owned()),
    ] {
        let path = room.write(name, &text);
        let mut command = room.command(["run", "-"]);
        common::finish(command.stdin(std::fs::File::open(path).unwrap())).expect(0);
    }
    assert_eq!(target.total(), 1);
    let path = room.write("bad.yaml", "name: x\nworkflows:\n- name: a\n  stebs: []\n");
    let mut command = room.command(["plan", "-"]);
    let done = common::finish(command.stdin(std::fs::File::open(path).unwrap())).expect(104);
    done.says("standard input:4:3: unknown key `stebs`");
    room.volley(["run", "-"]).expect(104).says("there is nothing on standard input");
}

#[test]
fn a_variable_of_run_that_another_command_does_not_read_is_said() {
    let (room, target) = (Room::new(), Target::start());
    let url = target.url();
    let mut command = room.command(["-n", "1", &url]);
    let done = common::finish(command.env("VOLLEY_RATE", "5").env("VOLLEY_QUIET", "1")).expect(0);
    assert!(!done.err.contains("VOLLEY_QUIET"), "it is read: {}", done.err);
    done.says("VOLLEY_RATE has no effect here: it is for `volley run`; here it is `--rate`");
    room.write("plan.yaml", &plan(&url, "vus: 1, iterations: 1"));
    let mut command = room.command(["plan", "plan.yaml"]);
    let done = common::finish(command.env("VOLLEY_VUS", "5")).expect(0);
    done.says("--vus 5 comes from the variable VOLLEY_VUS");
}

#[test]
fn a_bound_on_failures_from_below_does_not_allow_them() {
    let (room, target) = (Room::new(), Target::start());
    let text = with_step(&target.url(), "get: /status/500");
    let threshold = "thresholds: [ { metric: http_req_failed, hold: rate > 1% } ]\n";
    room.write("plan.yaml", &format!("{text}{threshold}"));
    let done = room.volley(["run", "plan.yaml", "-q"]).expect(99);
    let done = done.says("no threshold on `http_req_failed` says how many may");
    done.says("(`rate > 1%` says how many must)").says("did you mean `rate < 1%`?");
    room.write("plan.yaml", &format!("{text}{}", threshold.replace("> 1%", "<= 100%")));
    room.volley(["run", "plan.yaml", "-q"]).expect(0);
}

#[test]
fn a_failed_check_says_what_it_found_instead() {
    let (room, target) = (Room::new(), Target::start());
    for (step, found) in [
        ("get: /, check: { json: $.error, exists: false }", "the body is not JSON"),
        (
            "get: '/search?q=tea', check: { json: $.length, is: '> 0' }",
            "the path matches nothing in the answer",
        ),
        ("get: '/search?q=tea', check: { json: '$[0].id', equals: 1.0 }", "found `1`"),
        ("get: /, check: { header: { name: x-none, exists: true } }", "no such header"),
        ("get: /, check: { latency: '> 250s' }", "it took "),
    ] {
        room.write("plan.yaml", &with_step(&target.url(), step));
        room.volley(["run", "plan.yaml"]).expect(99).says(found);
    }
    let step = "get: '/search?q=tea', check: { json: $.error, exists: false }";
    room.write("plan.yaml", &with_step(&target.url(), step));
    room.volley(["run", "plan.yaml"]).expect(0);
}

#[test]
fn users_that_run_out_of_rows_before_their_time_make_the_result_invalid() {
    let (room, target) = (Room::new(), Target::start());
    room.write("users.csv", "name\namara\nbruno\n");
    let text = plan(&target.url(), "vus: 2, duration: 5s")
        .replace(
            "workflows:",
            "data: { users: { file: users.csv, order: unique-per-iteration } }\nworkflows:",
        )
        .replace("get: /", "get: \"/?n=${data.users.name}\"");
    room.write("plan.yaml", &text);
    let done = room.volley(["run", "plan.yaml"]).expect(120).says("main ended after 0.0");
    says_words(&done, "the data set `users` had no row left (2 rows)");
}

#[test]
fn an_answer_in_no_version_of_http_that_was_asked_for_is_no_answer() {
    let room = Room::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9\r\n");
        }
    });
    room.write("plan.yaml", &with_step(&format!("http://{address}"), "get: /"));
    room.volley(["run", "plan.yaml"]).expect(120).says("nothing was answered");
}

#[test]
fn a_port_that_closes_every_connection_is_asked_for_tls() {
    let room = Room::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 64]);
        }
    });
    room.write("plan.yaml", &with_step(&format!("http://{address}"), "get: /"));
    room.volley(["run", "plan.yaml"]).expect(120).says("does that port speak TLS? Try");
}

#[test]
fn settings_of_the_network_are_looked_at_before_anything_is_sent() {
    let (room, target) = (Room::new(), Target::start());
    let begin = "name: t\ndefaults: { ";
    let text = |settings: &str| {
        with_step(&target.url(), "get: /")
            .replace("name: test\n", &format!("{begin}{settings} }}\n"))
    };
    room.write("plan.yaml", &text("local_addresses: [ 203.0.113.7 ]"));
    let done = room.volley(["run", "plan.yaml"]).expect(104);
    done.says("plan.yaml:2:32: 203.0.113.7 is not an address of this machine").says("`ip address`");
    room.write("plan.yaml", &text("local_addresses: [ 127.0.0.1 ]"));
    room.volley(["run", "plan.yaml"]).expect(0);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    room.write("ca.pem", broken);
    room.write("plan.yaml", &text("tls: { ca: ca.pem }"));
    room.volley(["run", "plan.yaml"]).expect(104).says("plan.yaml:2:").says("ca.pem");
    assert_eq!(target.total(), 4);
}

#[test]
fn a_summary_that_cannot_be_written_to_standard_output_is_an_error() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, iterations: 1"));
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [
        &["run", "plan.yaml"][..],
        &["run", "plan.yaml", "--summary", "-"],
        &["run", "plan.yaml", "-q", "-o", "json=-"],
        &["run", "plan.yaml", "-q", "-o", "junit=-"],
    ] {
        let mut command = room.command(args);
        let done = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left"), "{said}");
    }
}

#[test]
fn the_end_of_the_terminal_ends_a_run_as_sigterm_does_unless_it_is_ignored() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, duration: 30s"));
    let run = room.start(["run", "plan.yaml", "-q", "--summary", "s.json"]);
    target.wait_for_requests(1);
    run.signal(libc::SIGHUP);
    run.wait().expect(105);
    assert!(room.json("s.json")["requests"]["count"].as_u64() > Some(0));
}

#[test]
fn few_descriptors_are_answered_with_a_message_and_without_a_panic() {
    let (room, target) = (Room::new(), Target::start());
    for limit in [12, 16, 20, 40] {
        let line =
            format!("ulimit -n {limit}; exec {} -n 20 -c 20 {}", common::VOLLEY, target.url());
        let mut shell = std::process::Command::new("sh");
        let done = common::finish(shell.args(["-c", &line]).current_dir(room.path("")));
        assert!(!done.err.contains("panicked"), "{limit}: {}", done.err);
        let said =
            done.code == 0 || done.err.contains("ulimit -n") || done.out.contains("ulimit -n");
        assert!(said, "{limit}: {}\n{}", done.out, done.err);
    }
}

#[test]
fn a_body_that_is_the_name_of_a_file_is_pointed_at() {
    let (room, target) = (Room::new(), Target::start());
    room.write("body.json", "{}");
    let url = format!("{}/echo", target.url());
    let said = "the file of that name is `-b @body.json`";
    room.volley(["-n", "1", "-b", "body.json", &url]).expect(0).says(said);
    let done = room.volley(["-n", "1", "-b", "@body.json", &url]).expect(0);
    assert!(!done.err.contains("body.json"), "{}", done.err);
}

#[test]
fn a_time_that_is_all_warm_up_is_refused() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "vus: 1, duration: 30s, warmup: 5s"));
    let done = room.volley(["run", "plan.yaml", "-d", "1s"]).expect(104);
    done.says("--duration: the warm-up of `main` (5s) takes the whole run");
}

#[test]
fn slips_on_the_command_line_are_answered_with_what_to_write() {
    let room = Room::new();
    for (line, code, said) in [
        ("run plan.yaml --summary .", 104, "a folder; name a file in it, such as ./result.json"),
        ("target --listen localhost:99999", 2, "99999 is not a port: they are from 0 to 65535"),
        ("validate plan.yaml", 2, "volley: no command `validate`"),
        ("completions", 2, "volley: name a shell: bash, zsh, fish"),
    ] {
        room.write("plan.yaml", &plan("http://127.0.0.1:1", "vus: 1, iterations: 1"));
        room.volley(line.split(' ')).expect(code).says(said);
    }
    room.volley(["GET http://127.0.0.1:1/"]).expect(2).says("`volley -m GET http://127.0.0.1:1/`");
}

#[test]
fn a_step_that_needs_a_value_of_one_that_was_skipped_says_so() {
    let (room, target) = (Room::new(), Target::start());
    let text = with_step(&target.url(), "get: /").replace(
        "steps: [",
        "steps: [ { name: login, get: '/search?q=tea', extract: { token: '$[0].id' }, when: \"${vu.iteration} == 0\" \
         }, { name: cart, get: \"/?t=${token}\" },",
    );
    room.write("plan.yaml", &text);
    let done = room.volley(["run", "plan.yaml"]).expect(99);
    says_words(&done, "the step `login` was skipped (`when: ${vu.iteration} == 0`)");
    says_words(&done, "belongs into `vu_setup`");
}

#[test]
fn a_scale_that_does_not_fit_says_what_does() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "rate: 10/s, duration: 30s"));
    let run = room.start(["run", "plan.yaml", "-q"]);
    target.wait_for_requests(1);
    let done = room.volley(["ctl", "scale", "--vus", "50"]).expect(1);
    done.says("`main` has a rate, so `--rate 50/s`, or `--by 2`");
    let done = room.volley(["status"]);
    assert_ne!(done.code, 0);
    done.says("a test runs on this machine: `volley ctl status`");
    run.signal(libc::SIGTERM);
    run.wait().expect(105);
}

#[test]
fn a_metric_that_gets_no_number_names_the_value_and_the_step() {
    let (room, target) = (Room::new(), Target::start());
    let step = "get: '/search?q=tea', extract: { t: '$[0].title' }, record: { basket: '${t}' }";
    let text = with_step(&target.url(), step)
        .replace("workflows:", "metrics: { basket: trend }\nworkflows:");
    room.write("plan.yaml", &text);
    let done = room.volley(["run", "plan.yaml"]);
    says_words(&done, "the first `tea 1` for `basket` in step `one`");
    room.write("plan.yaml", &text.replace("'${t}'", "\"yes\""));
    room.volley(["run", "plan.yaml"]).expect(104).says("`yes` is no number");
}

#[test]
fn a_plan_is_explained_with_the_load_and_the_target_of_the_flags() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://127.0.0.1:1", "vus: 1, duration: 5s"));
    let done = room.volley(["plan", "plan.yaml", "--vus", "7", "--json"]).expect(0);
    assert!(done.out.contains("constant-vus, 7 VUs for 5s"), "{}", done.out);
    room.volley(["plan", "plan.yaml", "--target", "http://127.0.0.1:9", "-r", "50"]).expect(0);
    room.write("script.js", "export default function () {}\n");
    room.volley(["plan", "script.js", "--vus", "7"]).expect(2).says("are for plans");
}

#[test]
fn a_run_that_is_refused_says_that_the_result_of_an_earlier_one_is_old() {
    let room = Room::new();
    room.write("plan.yaml", "target: http://127.0.0.1:1\nworkflow: []\n");
    room.write("s.json", "{}");
    let done = room.volley(["run", "plan.yaml", "--summary", "s.json"]).expect(104);
    done.says("nothing was run, and s.json stays as it was: it is of an earlier run");
    assert_eq!(std::fs::read_to_string(room.path("s.json")).unwrap(), "{}");
    let done = room.volley(["run", "plan.yaml", "--summary", "new.json"]).expect(104);
    assert!(!done.err.contains("stays as it was"), "{}", done.err);
}

#[test]
fn a_run_in_which_nothing_was_answered_in_time_is_invalid_and_says_what_to_change() {
    let (room, target) = (Room::new(), Target::start());
    let text = plan(&target.url(), "vus: 2, duration: 1s, graceful_stop: 0s");
    room.write("plan.yaml", &text.replace("get: /", "get: /delay/3000"));
    let done = room.volley(["run", "plan.yaml"]).expect(120);
    says_words(&done, "make `duration` or `graceful_stop` longer");
}

#[test]
fn a_template_in_the_place_of_a_file_and_a_report_that_is_called_json_are_refused() {
    let room = Room::new();
    room.volley(["new", "login"]).expect(2).says("`volley new plan.yaml --template login`");
    room.volley(["new", "k6"]).expect(2).says("`volley new plan.js --template k6`");
    assert!(!room.path("login").exists());
    room.write("plan.yaml", &plan("http://127.0.0.1:1", "vus: 1, iterations: 1"));
    let done = room.volley(["run", "plan.yaml", "--report", "result.json"]).expect(104);
    done.says("`--report result.json` writes HTML").says("JSON is `--summary FILE`");
}
