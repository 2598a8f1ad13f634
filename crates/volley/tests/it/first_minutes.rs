//! What a newcomer does in the first ten minutes, in the order in which they do it.

use crate::common::{Room, Target, closed_port, finish, plan, repository, until};

/// The number in front of `what`, thousands separated by commas.
fn number_before(text: &str, what: &str) -> u64 {
    let (before, _) = text.split_once(what).unwrap_or_else(|| panic!("no `{what}` in\n{text}"));
    let word = before.split_whitespace().next_back().unwrap();
    word.replace(',', "").parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

#[test]
fn the_demo_passes_and_counts_what_its_target_counted() {
    let room = Room::new();
    let done = room.volley(["demo", "--summary", "s.json"]).expect(0).says("PASSED");
    let summary = room.json("s.json");
    let counted = number_before(&done.out, " requests. Next:");
    assert_eq!(summary["requests"]["count"].as_u64(), Some(counted));
    let totals = done.out.split_once("TOTALS").unwrap().1;
    assert!(totals.contains(&format!("requests      {}", with_commas(counted))), "{totals}");
    assert!(done.err.contains("running"), "progress is shown: {}", done.err);
    for part in ["THRESHOLDS", "CHECKS", "STEPS", "STAGES", "TIMELINE", "verdict"] {
        assert!(done.out.contains(part), "no {part} in\n{}", done.out);
    }
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|part| std::str::from_utf8(part).unwrap()).collect();
    groups.join(",")
}

#[test]
fn the_checkout_example_runs_as_it_stands() {
    let (room, target) = (Room::new(), Target::start());
    let example = repository().join("examples/checkout.yaml");
    let text = std::fs::read_to_string(&example).unwrap();
    assert!(text.contains("http://127.0.0.1:8080"), "the port of `volley target`");
    // In full it takes 40 s; two are enough to see all of it.
    let (path, url) = (example.to_str().unwrap(), target.url());
    let args = ["run", path, "--target", &url, "--duration", "2s", "--summary", "s.json"];
    room.volley(args).expect(0);
    let summary = room.json("s.json");
    assert_eq!(summary["requests"]["sent"], target.total());
    let seen = &target.seen()["by_path"];
    for (step, path) in [("login", "/login"), ("cart", "/cart"), ("search", "/search")] {
        assert_eq!(summary["steps"][step]["requests"]["sent"], seen[path], "{step}");
        assert!(seen[path].as_u64() > Some(0), "{step}");
    }
}

#[test]
fn every_example_is_a_plan() {
    let room = Room::new();
    let mut count = 0;
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let ending = path.extension().unwrap_or_default().to_str().unwrap();
        if matches!(ending, "yaml" | "toml" | "json") {
            let done = room.volley(["plan", path.to_str().unwrap()]).expect(0);
            assert!(done.out.contains("layer 1"), "{}", done.out);
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} examples");
}

#[test]
fn a_url_alone_gives_a_short_result() {
    let (room, target) = (Room::new(), Target::start());
    // `http://` may be left out.
    let url = target.address.to_string();
    let done = room.volley([&url, "-d", "500ms", "-c", "3"]).expect(0);
    assert!(done.out.lines().count() <= 10, "as short as wrk's:\n{}", done.out);
    assert!(done.out.contains("3 connections"), "{}", done.out);
    let requests = done.out.split_once("requests").unwrap().1;
    let shown: u64 = requests.split_whitespace().next().unwrap().replace(',', "").parse().unwrap();
    assert_eq!(shown, target.total());
}

#[test]
fn a_rate_is_kept_to_the_request() {
    let (room, target) = (Room::new(), Target::start());
    room.volley(["-r", "200", "-d", "1s", &target.url(), "--summary", "s.json"]).expect(0);
    assert_eq!(target.total(), 200);
    assert_eq!(room.json("s.json")["requests"]["count"], 200);
}

#[test]
fn a_quick_test_sends_what_it_is_told() {
    let (room, target) = (Room::new(), Target::start());
    room.write("body.json", "{\"user\":\"amara\",\"password\":\"arama-1000\"}");
    let url = format!("{}/login", target.url());
    let header = "content-type: application/json";
    let args = ["-r", "5", "-d", "1s", "-m", "post", "-H", header, "-b", "@body.json", &url];
    room.volley(args).expect(0);
    assert_eq!(target.seen()["by_method"]["POST"], 5);
}

#[test]
fn a_new_plan_is_explained_and_runs_and_is_never_overwritten() {
    let (room, target) = (Room::new(), Target::start());
    room.volley(["new", "my.yaml"]).expect(0).says("volley run my.yaml");
    room.volley(["plan", "my.yaml"]).expect(0).says("up to 10 VUs").says("must hold");
    let url = target.url();
    room.volley(["run", "my.yaml", "--target", &url, "-d", "600ms"]).expect(0);
    room.write("my.yaml", "mine");
    room.volley(["new", "my.yaml"]).expect(1).says("--force");
    assert_eq!(std::fs::read_to_string(room.path("my.yaml")).unwrap(), "mine");
    room.volley(["new", "my.yaml", "--force"]).expect(0);
    room.volley(["plan", "my.yaml"]).expect(0);
}

#[test]
fn every_template_runs_as_it_stands_in_every_format() {
    let target = Target::start();
    let url = target.url();
    for template in ["start", "login", "csv", "open"] {
        for ending in ["yaml", "toml", "json"] {
            let (room, file) = (Room::new(), format!("x.{ending}"));
            room.volley(["new", &file, "--template", template]).expect(0).says("volley schema >");
            let text = std::fs::read_to_string(room.path(&file)).unwrap();
            assert!(text.contains("volley.schema.json"), "{text}");
            match ending {
                "toml" => assert!(text.contains("[[workflows]]"), "{text}"),
                "json" => drop(serde_json::from_str::<serde_json::Value>(&text).unwrap()),
                _ => assert!(text.starts_with("# yaml-language-server: $schema="), "{text}"),
            }
            let args = ["run", &file, "--target", &url, "-d", "600ms", "--view", "none"];
            room.volley(args).expect(0);
        }
    }
    let room = Room::new();
    room.volley(["new", "x.js", "--template", "k6"]).expect(0);
    let base = format!("BASE={url}");
    room.volley(["run", "x.js", "-e", &base, "-d", "1s"]).expect(0);
    room.volley(["new", "x.yaml", "--template", "k6"]).expect(2).says("x.js");
    room.volley(["new", "y.js", "--template", "csv"]).expect(2).says("csv.yaml");
}

#[test]
fn a_data_file_of_ones_own_is_not_overwritten_by_a_template() {
    let room = Room::new();
    room.write("users.csv", "name,password,region\nme,mine,eu\n");
    room.volley(["new", "x.yaml", "--template", "csv", "--force"]).expect(0).says("left");
    let kept = std::fs::read_to_string(room.path("users.csv")).unwrap();
    assert!(kept.contains("me,mine"), "{kept}");
}

#[test]
fn debug_says_what_an_extract_did_not_find_and_what_was_therefore_not_sent() {
    let (room, target) = (Room::new(), Target::start());
    let plan = format!(
        "target: {}\nworkflows:\n- name: a\n  steps:\n  - {{ name: login, get: /search?q=tea, extract: {{ token: $.token }} }}\n  \
         - {{ name: cart, get: '/cart/${{token}}' }}\n",
        target.url()
    );
    room.write("p.yaml", &plan);
    let done = room.volley(["run", "p.yaml", "--debug"]).expect(99);
    for part in ["`$.token` matches nothing in: [{", "── cart\n! ", "`${token}` has no value"] {
        assert!(done.out.contains(part), "no `{part}` in\n{}", done.out);
    }
    assert_eq!(target.total(), 1);
}

#[test]
fn debug_shows_one_iteration_without_its_secrets() {
    let (room, target) = (Room::new(), Target::start());
    let example = repository().join("examples/checkout.yaml");
    let args = ["run", example.to_str().unwrap(), "--debug", "--target", &target.url()];
    let done = room.volley(args).expect(0);
    assert_eq!(target.total(), 3, "one iteration of each workflow");
    for part in
        ["POST /login", "> authorization: Bearer •••", "< HTTP/1", "\"user\":\"amara\"", "waiting"]
    {
        assert!(done.out.contains(part), "no `{part}` in\n{}", done.out);
    }
    assert!(!done.out.contains("arama-1000"), "the password is shown:\n{}", done.out);
    let token = done.out.lines().find(|line| line.contains("\"token\":")).unwrap();
    assert!(token.contains("\"token\":\"•••\""), "{token}");
}

#[test]
fn ping_shows_the_exchange_or_why_there_was_none() {
    let (room, target) = (Room::new(), Target::start());
    let done = room.volley(["ping", &target.address.to_string()]).expect(0);
    for part in ["> GET / HTTP/1.1", "200", "Hello from the target", "connecting", "waiting"] {
        assert!(done.out.contains(part), "no `{part}` in\n{}", done.out);
    }
    room.volley(["ping", &format!("{}/nowhere", target.url())]).expect(99).says("404");
    room.volley(["ping", &closed_port().to_string()]).expect(99).says("refused");
    room.volley(["ping", "http://no-such-host.invalid"]).expect(99).says("no-such-host.invalid");
}

#[test]
fn quick_mode_shows_the_exchange_that_it_speaks_of() {
    let (room, target) = (Room::new(), Target::start());
    let url = format!("{}/nowhere", target.url());
    let done = room.volley([&url, "-d", "1s", "-c", "2"]).expect(99);
    let words: Vec<&str> = done.out.split_whitespace().collect();
    assert!(words.join(" ").contains("see the exchange above"), "{}", done.out);
    for part in ["exchange  │ ── GET", "│ > GET /nowhere HTTP/1.1", "│ < HTTP/1.1 404"] {
        assert!(done.out.contains(part), "no `{part}` in\n{}", done.out);
    }
}

#[test]
fn the_target_says_what_it_saw_when_it_ends() {
    let room = Room::new();
    let port = closed_port();
    let running = room.start(["target", "--listen", &port.port().to_string()]);
    until("the target listens", || std::net::TcpStream::connect(port).is_ok());
    room.volley(["-r", "10", "-d", "1s", &port.to_string()]).expect(0);
    running.signal(libc::SIGINT);
    running.wait().expect(0).says("saw 10 requests on");
}

#[test]
fn a_port_in_use_is_said_with_a_way_out() {
    let (room, target) = (Room::new(), Target::start());
    let args = ["target", "--listen", &target.address.to_string()];
    room.volley(args).expect(1).says("Address already in use").says("port 0");
}

#[test]
fn the_schema_describes_plans() {
    let room = Room::new();
    let done = room.volley(["schema"]).expect(0);
    let schema: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert!(schema["properties"]["workflows"].is_object(), "{schema}");
    room.volley(["schema", "--markdown"]).expect(0).says("| `workflows` (required)");
}

#[test]
fn help_has_examples_and_exit_codes() {
    let room = Room::new();
    let help = room.volley(["--help"]).expect(0).says("volley run plan.yaml");
    let held = report::ExitCode::NotHeld;
    help.says("Exit codes").says(&format!("{held:>5}  {}", held.meaning()));
    for command in ["run", "demo", "plan", "new", "ping", "target", "ctl", "schema"] {
        room.volley([command, "--help"]).expect(0).says("Usage: volley");
    }
    assert!(finish(&mut room.command(["--version"])).expect(0).out.starts_with("volley "));
}

#[test]
fn a_plan_is_explained_without_a_request() {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), "rate: 100/s, duration: 5s"));
    room.volley(["plan", "plan.yaml"]).expect(0).says("up to 500 (500 iterations, 1 each)");
    assert_eq!(target.total(), 0);
}
