//! Setup and teardown, once, and values from one to the next (EXEC-40).

use base::clock;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use engine::attempt::{
    Ended, Ending, Hook, HookRun, HookSpec, HookWiring, LoadOptions, Loaded, Provided, Report,
    Reporter, ShardSpec, Values, collect_provided, load_end,
};
use schedule::job::WorkflowEnd;

use super::loading::script;
use super::{Led, PATIENCE, load, open_permit, run_all};
use crate::common::recording::{Recording, ok, respond};
use crate::common::{target, url};

fn hook(loaded: &Arc<Loaded>, workflow: Option<usize>, what: Hook, values: Values) -> Ended {
    let (reports, ended) = reporter();
    let wiring = HookWiring { permit: open_permit(), issued: None, reports };
    let _run = HookRun::start(loaded, HookSpec::new(workflow, what, values), wiring).unwrap();
    *ended.recv_timeout(PATIENCE).expect("it ends")
}

/// Where a hook reports to; only its end is of interest.
fn reporter() -> (Reporter, Receiver<Box<Ended>>) {
    let (sender, ended) = channel();
    let hear = move |report| {
        if let Report::Ended(ended) = report {
            drop(sender.send(ended));
        }
    };
    (Arc::new(hear), ended)
}

const PLAN: &str = "target: TARGET
setup: [ { post: /login, extract: { token: $.token } } ]
teardown: [ { post: '/logout/${token}' } ]
workflows:
  - name: first
    load: { vus: 4, iterations: 8 }
    setup: [ { get: '/prepare/${token}', extract: { basket: $.basket } } ]
    steps: [ { get: '/first/${token}/${basket}', extract: { seen: $.seen } } ]
    provide: { seen: [second], all: { from: seen, to: [second], collect: true } }
  - name: second
    depends_on: [first]
    load: { vus: 2, iterations: 2 }
    use: { seen: [first], all: [first] }
    steps: [ { get: '/second/${token}/${use.seen}' } ]
";

/// A whole job by hand, as an owner leads it: each setup once, values by name in between.
#[test]
fn values_go_from_setup_to_shards_and_on_to_the_next_workflow() {
    let server = Recording::start(|seen| match seen.path.split('/').nth(1).unwrap() {
        "login" => ok("{\"token\":\"t1\"}"),
        "prepare" => ok("{\"basket\":\"b1\"}"),
        "first" => ok("{\"seen\":\"s1\"}"),
        _ => ok(""),
    });
    let loaded = load(PLAN, &server.url(), Path::new("."));
    assert!(loaded.has_setup(None) && loaded.has_teardown(None) && loaded.has_setup(Some(0)));
    assert!(!loaded.has_setup(Some(1)) && !loaded.has_teardown(Some(0)));
    let ended = hook(&loaded, None, Hook::Setup, Values::new());
    assert_eq!(ended.how, Ending::Completed);
    let shared = ended.values.unwrap().unwrap();
    assert_eq!(shared["token"], b"t1");
    let mut provided = Provided::new();
    let values = loaded.values_for(0, &shared, &provided);
    let prepared = hook(&loaded, Some(0), Hook::Setup, values).values.unwrap().unwrap();
    assert_eq!(prepared["basket"], b"b1");
    let led: Vec<_> = (0..2)
        .map(|shard| {
            let spec = ShardSpec { values: prepared.clone(), ..ShardSpec::new(0, shard, 2) };
            Led::prepare(&loaded, spec).ready()
        })
        .collect();
    led.iter().for_each(|one| one.run.start_at(clock::now()));
    let ends: Vec<_> = led.into_iter().map(|one| one.finish().completed().end).collect();
    assert_eq!(load_end(&ends), WorkflowEnd::Ok);
    for (key, value) in collect_provided(&loaded.definition().workflows[0].provide, &ends) {
        provided.insert(("first".to_owned(), key), value);
    }
    assert_eq!(provided[&("first".to_owned(), "all".to_owned())], b"[\"s1\",\"s1\"]");
    let spec =
        ShardSpec { values: loaded.values_for(1, &shared, &provided), ..ShardSpec::new(1, 0, 1) };
    let led = Led::prepare(&loaded, spec).ready();
    led.run.start_at(clock::now());
    led.finish().completed();
    let ended = hook(&loaded, None, Hook::Teardown, shared);
    assert_eq!(ended.how, Ending::Completed);
    assert_eq!(ended.last.unwrap().issued, None);
    let paths = server.paths();
    let count = |path: &str| paths.iter().filter(|known| known.starts_with(path)).count();
    assert_eq!((count("/login"), count("/prepare/t1"), count("/logout/t1")), (1, 1, 1));
    assert_eq!((count("/first/t1/b1"), count("/second/t1/s1")), (8, 2));
}

#[test]
fn a_setup_that_fails_says_why() {
    let server = Recording::start(|_| respond("500 No", "", b""));
    let loaded = load(PLAN, &server.url(), Path::new("."));
    let ended = hook(&loaded, None, Hook::Setup, Values::new());
    let error = ended.values.unwrap().unwrap_err().message;
    assert!(error.contains("unexpected status 500"), "{error}");
    assert!(matches!(ended.how, Ending::Error(_)));
    let last = ended.last.expect("its request is counted");
    let total = stats::totals::grand_total(&last.window, loaded.layout());
    assert_eq!((total.sent, total.failed), (1, 1));
}

#[test]
fn a_lapsed_lease_ends_a_setup_too() {
    let target = target();
    let text = "target: TARGET\nsetup: [ { get: /delay/60000 } ]\n\
                workflows: [ { name: w, steps: [ { get: / } ] } ]\n";
    let loaded = load(text, &url(&target), Path::new("."));
    let (reports, ended) = reporter();
    let permit = engine::attempt::SendPermit::leased();
    permit.extend(clock::now().after(std::time::Duration::from_millis(200)), clock::now());
    let wiring = HookWiring { permit, issued: None, reports };
    let spec = HookSpec::new(None, Hook::Setup, Values::new());
    let run = HookRun::start(&loaded, spec, wiring).unwrap();
    let ended = ended.recv_timeout(PATIENCE).unwrap();
    assert_eq!(ended.how, Ending::LeaseLapsed);
    drop(run);
}

/// No virtual user gets through its own setup: an error of the workflow, over all shards (R5).
#[test]
fn users_that_cannot_begin_are_an_error_of_the_workflow() {
    let server = Recording::start(|_| respond("500 No", "", b""));
    let text = "target: TARGET\nworkflows: [ { name: w, load: { vus: 2, duration: 300ms }, \
                vu_setup: [ { get: / } ], steps: [ { get: / } ] } ]\n";
    let wholes = run_all(&load(text, &server.url(), Path::new(".")), 2);
    let ends: Vec<_> = wholes.into_iter().map(|one| one.end).collect();
    assert!(matches!(load_end(&ends), WorkflowEnd::Error(text) if text.contains("vu_setup")));
}

/// `setup()` once; what it returns reaches the virtual users of every shard as a copy of their own.
#[test]
fn a_scripts_setup_data_reaches_all_shards() {
    let server = Recording::start(|_| ok(""));
    let code = "import http from 'k6/http';
        export function setup() { http.get('TARGET/setup'); return { token: 't7' } }
        export default (data) => { http.get(`TARGET/use/${data.token}`) }
        export function teardown(data) { http.get(`TARGET/teardown/${data.token}`) }";
    let code = code.replace("TARGET", &server.url());
    let loaded = script(&code, r#"{ "vus": 3, "iterations": 6 }"#, LoadOptions::default());
    assert!(loaded.has_setup(None) && loaded.has_teardown(None));
    let shared = hook(&loaded, None, Hook::Setup, Values::new()).values.unwrap().unwrap();
    let values = loaded.values_for(0, &shared, &Provided::new());
    let led: Vec<_> = (0..2)
        .map(|shard| {
            let spec = ShardSpec { values: values.clone(), ..ShardSpec::new(0, shard, 2) };
            Led::prepare(&loaded, spec).ready()
        })
        .collect();
    led.iter().for_each(|one| one.run.start_at(clock::now()));
    let done: u64 =
        led.into_iter().map(|one| one.finish().completed().iterations().iterations).sum();
    assert_eq!(done, 6);
    assert!(hook(&loaded, None, Hook::Teardown, shared).values.unwrap().is_ok());
    let paths = server.paths();
    let count = |path: &str| paths.iter().filter(|known| *known == path).count();
    assert_eq!((count("/setup"), count("/use/t7"), count("/teardown/t7")), (1, 6, 1));
}
