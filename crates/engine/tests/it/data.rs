//! Data sets and variables: which row an iteration gets, and that nobody sees another's values
//! (EXEC-40, EXEC-41).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::recording::{Recording, Seen, ok, respond};
use crate::common::{Run, Runner};
use stats::DropCause;

fn rows(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..count).map(|row| format!("name{row},{row}\n")).collect();
    std::fs::write(folder.path().join("rows.csv"), format!("name,number\n{lines}")).unwrap();
    let lines: String = (0..count).map(|row| format!("{{\"name\":\"json{row}\"}}\n")).collect();
    std::fs::write(folder.path().join("rows.jsonl"), lines).unwrap();
    folder
}

fn run(server: &Recording, cores: usize, rows_: usize, data: &str, load: &str) -> Run {
    let folder = rows(rows_);
    let plan = format!(
        "target: TARGET
data: {{ rows: {{ {data} }} }}
workflows:
  - name: w
    load: {{ {load} }}
    steps: [ {{ get: '/${{data.rows.name}}?vu=${{vu.id}}' }} ]
"
    );
    Runner { folder: folder.path(), ..Runner::to(server.url()).cores(cores) }.run(&plan)
}

fn names(server: &Recording) -> Vec<String> {
    let name = |path: String| path[1..].split('?').next().unwrap().to_owned();
    server.paths().into_iter().map(name).collect()
}

fn counts(server: &Recording) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names(server) {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[test]
fn sequential_rows_come_in_order_and_begin_again() {
    let server = Recording::start(|_| ok(""));
    run(&server, 1, 4, "file: rows.csv", "vus: 1, iterations: 10").assert_clean();
    let wanted: Vec<_> = (0..10).map(|turn| format!("name{}", turn % 4)).collect();
    assert_eq!(names(&server), wanted);
}

#[test]
fn sequential_rows_are_dealt_evenly_over_cores() {
    let server = Recording::start(|_| ok(""));
    run(&server, 3, 6, "file: rows.csv", "vus: 3, iterations: 30").assert_clean();
    let counts = counts(&server);
    assert_eq!(counts.len(), 6, "{counts:?}");
    assert!(counts.values().all(|&count| count == 5), "{counts:?}");
}

#[test]
fn json_lines_are_rows_too() {
    let server = Recording::start(|_| ok(""));
    run(&server, 1, 3, "file: rows.jsonl", "vus: 1, iterations: 3").assert_clean();
    assert_eq!(names(&server), ["json0", "json1", "json2"]);
}

#[test]
fn sequential_rows_that_end_stop_the_load_and_say_why() {
    for cores in [1, 3] {
        let server = Recording::start(|_| ok(""));
        let run = run(
            &server,
            cores,
            7,
            "file: rows.csv, when_exhausted: stop",
            "vus: 3, iterations: 20, max_duration: 30s",
        );
        assert_eq!(counts(&server).len(), 7);
        assert_eq!(server.seen().len(), 7, "each row once");
        let iterations = run.iterations();
        let dropped = iterations.dropped[DropCause::DataExhausted as usize];
        assert_eq!(
            (iterations.iterations, dropped),
            (7, 13),
            "{cores} cores: {:?}",
            iterations.dropped
        );
        assert!(run.0.elapsed < Duration::from_secs(5));
        let verdict = &run.0.verdict;
        assert_eq!(verdict.state, stats::VerdictState::Invalid, "{:?}", verdict.reasons);
        assert!(verdict.reasons[0].contains("no data row left"), "{:?}", verdict.reasons);
    }
}

#[test]
fn a_user_keeps_its_own_row_for_life() {
    for cores in [1, 2] {
        let server = Recording::start(|_| ok(""));
        let data = "file: rows.csv, order: unique-per-vu";
        run(&server, cores, 4, data, "executor: per-vu-iterations, vus: 4, iterations: 5")
            .assert_clean();
        let pairs: BTreeSet<_> = server.paths().into_iter().collect();
        assert_eq!(pairs.len(), 4, "one row per user: {pairs:?}");
        assert_eq!(counts(&server).len(), 4, "and another for each");
    }
}

#[test]
fn users_without_a_row_stop_quietly_while_the_others_go_on() {
    let server = Recording::start(|_| {
        std::thread::sleep(Duration::from_millis(20));
        ok("")
    });
    let data = "file: rows.csv, order: unique-per-vu, when_exhausted: stop";
    let run = run(&server, 1, 2, data, "vus: 5, duration: 1s");
    run.assert_clean();
    assert_eq!(counts(&server).len(), 2);
    assert!(server.seen().len() >= 20, "two users go on");
    // Users that are started again and again for a row that does not come would use the whole core.
    let cpu = run.0.generator.cpu_user + run.0.generator.cpu_system;
    assert!(cpu < Duration::from_millis(400), "{cpu:?} of CPU for a handful of requests");
}

#[test]
fn each_row_is_used_once_and_then_the_run_is_over() {
    for cores in [1, 2, 3] {
        for load in ["vus: 4, duration: 30s", "rate: 400/s, duration: 30s"] {
            let server = Recording::start(|_| ok(""));
            let run = run(&server, cores, 40, "file: rows.csv, order: unique-per-iteration", load);
            run.assert_clean();
            let counts = counts(&server);
            assert_eq!(counts.len(), 40, "{load} on {cores} cores");
            assert!(counts.values().all(|&count| count == 1), "{counts:?}");
            assert!(run.0.elapsed < Duration::from_secs(5), "{load}: {:?}", run.0.elapsed);
        }
    }
}

#[test]
fn random_rows_are_drawn_from_all_of_them() {
    let server = Recording::start(|_| ok(""));
    run(&server, 1, 4, "file: rows.csv, order: random", "vus: 2, iterations: 200").assert_clean();
    let counts = counts(&server);
    assert_eq!(counts.len(), 4);
    // 50 each on average; six standard deviations are 37.
    assert!(counts.values().all(|&count| (13..=87).contains(&count)), "{counts:?}");
    let wanted: Vec<_> = (0..200).map(|turn| format!("name{}", turn % 4)).collect();
    assert_ne!(names(&server), wanted);
}

/// `/token` hands out a new token each time, slowly; `/use` takes one back.
fn tokens() -> Recording {
    let count = std::sync::atomic::AtomicU64::new(0);
    Recording::start(move |request: &Seen| {
        if !request.path.starts_with("/token") {
            return ok("used");
        }
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        // Every third answer holds no token, and sets no variable.
        if number % 3 == 2 {
            return ok("{}");
        }
        let user = request.path.split('=').next_back().unwrap();
        respond("200 OK", "", format!("{{\"token\":\"{number}-for-{user}\"}}").as_bytes())
    })
}

#[test]
fn no_user_ever_sees_anothers_value_nor_its_own_of_the_iteration_before() {
    let server = tokens();
    let plan = "target: TARGET
workflows:
  - name: w
    load: { executor: per-vu-iterations, vus: 8, iterations: 12 }
    steps:
      - { get: '/token?u=${vu.id}', extract: { token: $.token } }
      - { think: 1ms..5ms }
      - { get: '/use?u=${vu.id}&token=${token:-none}' }
";
    Runner::to(server.url()).cores(2).run(plan).assert_clean();
    let used: Vec<_> = server.paths().into_iter().filter(|path| path.starts_with("/use")).collect();
    assert_eq!(used.len(), 96);
    let mut tokens = BTreeSet::new();
    let mut without = 0;
    for path in &used {
        let (user, token) = path.strip_prefix("/use?u=").unwrap().split_once("&token=").unwrap();
        if token == "none" {
            without += 1;
            continue;
        }
        assert!(token.ends_with(&format!("-for-{user}")), "user {user} got {token}");
        assert!(tokens.insert(token.to_owned()), "{token} outlived its iteration");
    }
    // A value of the iteration before would have stood in for the missing ones.
    assert_eq!((without, tokens.len()), (32, 64));
}

#[test]
fn variables_start_anew_in_every_iteration() {
    let server = Recording::start(|_| ok(""));
    let plan = "target: TARGET
vars: { place: start, id: '${uuid}' }
workflows:
  - name: w
    load: { executor: per-vu-iterations, vus: 2, iterations: 3 }
    vars: { who: 'user-${vu.id}' }
    steps:
      - { get: '/${place}/${who}/${id}' }
      - { set: { place: changed } }
      - { get: '/${place}/${who}/${id}' }
";
    Runner::to(server.url()).run(plan).assert_clean();
    let paths = server.paths();
    for (place, count) in [("/start/", 6), ("/changed/", 6)] {
        assert_eq!(paths.iter().filter(|path| path.starts_with(place)).count(), count);
    }
    let ids: BTreeSet<_> = paths.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(ids.len(), 6, "one identifier per iteration, the same in both of its requests");
}

#[test]
fn values_are_escaped_where_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let nasty = "a b&c=d/e\"f\\g?h#ü";
    let row = serde_json::json!({ "nasty": nasty }).to_string();
    std::fs::write(folder.path().join("rows.jsonl"), row + "\n").unwrap();
    let plan = "target: TARGET
data: { rows: { file: rows.jsonl } }
workflows:
  - name: w
    steps:
      - get: '/echo/${data.rows.nasty}'
        query: { q: '${data.rows.nasty}' }
        headers: { x-plain: '${data.rows.nasty}' }
      - post: /json
        json: { nasty: '${data.rows.nasty}', list: [ 1, true, null ] }
      - post: /form
        form: { nasty: '${data.rows.nasty}', other: 'x y' }
";
    let server = Recording::start(|_| ok(""));
    let runner = Runner { folder: folder.path(), ..Runner::to(server.url()) };
    runner.run(plan).assert_clean();
    let seen = server.seen();
    let url = url::Url::parse(&format!("http://host{}", seen[0].path)).unwrap();
    // Slashes are kept: a value may be several segments.
    let rest = url.path().strip_prefix("/echo/").unwrap();
    let decoded = percent_encoding::percent_decode_str(rest).decode_utf8().unwrap();
    assert_eq!(decoded, nasty, "{}", seen[0].path);
    assert_eq!(url.query_pairs().next().unwrap(), ("q".into(), nasty.into()));
    let json: serde_json::Value = serde_json::from_slice(&seen[1].body).unwrap();
    assert_eq!(json, serde_json::json!({ "nasty": nasty, "list": [1, true, null] }));
    assert_eq!(seen[1].header("content-type"), Some("application/json"));
    let form = url::form_urlencoded::parse(&seen[2].body);
    let form: Vec<_> = form.map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
    assert_eq!(form, [("nasty".into(), nasty.into()), ("other".to_owned(), "x y".to_owned())]);
}
