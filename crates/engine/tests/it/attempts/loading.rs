//! What came over the wire is what its author wrote; secrets are known here alone.

use base::clock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::attempt::{
    Content, Ending, LoadOptions, Loaded, PackedPlan, PackedScript, Report, ShardSpec, load_end,
};
use plan::ReadOptions;
use schedule::job::WorkflowEnd;
use script::heap::Budget;
use script::inspect::inspect;
use script::options::{Options, Place};
use script::program::Script;
use script::source::Sources;

use super::{Led, run_all, sum};
use crate::common::recording::{Recording, ok, respond};

/// A script as a client packs it, loaded as a worker does.
pub fn script(code: &str, options: &str, load: LoadOptions) -> Arc<Loaded> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.js");
    std::fs::write(&path, code).unwrap();
    std::fs::write(folder.path().join("words.txt"), "one two").unwrap();
    let sources = Sources::open(&path, script::modules::builtins()).unwrap();
    let env: BTreeMap<String, String> = [("REGION".to_owned(), "eu".to_owned())].into();
    let script = Arc::new(Script::new(sources, env, Budget::new(1 << 30, 1 << 28)));
    let quiet: script::log::Logger = Arc::new(|_| {});
    inspect(&script, &quiet).unwrap_or_else(|thrown| panic!("{}", thrown.full()));
    let value = serde_json::from_str(options).unwrap();
    let (merged, _) = Options::from_json(&value, Place::Script).unwrap();
    let (resolved, _) = script::options::resolve(merged).unwrap();
    let packed = PackedScript::pack(&script, &resolved.options, "script.js");
    // The author's disk is far away.
    drop(folder);
    Loaded::script(&packed, load).unwrap()
}

#[test]
fn a_script_travels_with_its_files_options_and_environment() {
    let server = Recording::start(|_| ok(""));
    let code = "import http from 'k6/http'; const words = open('./words.txt').split(' ');
        export default () => { for (const word of words) http.get(`TARGET/${__ENV.REGION}/${word}`) }";
    let code = code.replace("TARGET", &server.url());
    let options = r#"{ "scenarios": { "b": { "executor": "shared-iterations", "vus": 2, "iterations": 4 } } }"#;
    let loaded = script(&code, options, LoadOptions::default());
    assert_eq!(loaded.definition().workflows[0].name, "b");
    let wholes = run_all(&loaded, 2);
    assert_eq!(sum(&wholes, |one| one.iterations().iterations), 4);
    let mut paths = server.paths();
    paths.sort();
    assert_eq!(paths.len(), 8);
    assert_eq!((paths[0].as_str(), paths[7].as_str()), ("/eu/one", "/eu/two"));
    assert!(wholes.iter().all(|one| one.last.as_ref().unwrap().series.is_some()));
}

#[test]
fn a_plan_travels_with_its_files_and_its_environment() {
    let server = Recording::start(|_| ok(""));
    let (author, worker) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(author.path().join("data")).unwrap();
    std::fs::write(author.path().join("data/rows.tsv"), "name\tn\nann\t1\nbob\t2\n").unwrap();
    std::fs::write(author.path().join("body.bin"), "hello").unwrap();
    let text = "target: ${env.WHERE}
data: { rows: { file: data/rows.tsv } }
workflows:
  - name: w
    load: { vus: 1, iterations: '${env.COUNT:-2}' }
    steps: [ { post: '/${data.rows.name}', file: body.bin } ]
";
    let path = author.path().join("shop.yaml");
    std::fs::write(&path, text).unwrap();
    let url = server.url();
    let env = |name: &str| (name == "WHERE").then(|| url.clone());
    let (plan, packed) = PackedPlan::pack(&path, &ReadOptions::new(&env)).unwrap();
    assert_eq!(plan.name, "shop");
    assert_eq!(packed.env.keys().collect::<Vec<_>>(), ["WHERE"]);
    assert_eq!(packed.files.keys().collect::<Vec<_>>(), ["body.bin", "data/rows.tsv"]);
    // One file is in this worker's cache already.
    let stored = worker.path().join("5f1e");
    std::fs::write(&stored, "name\tn\nann\t1\nbob\t2\n").unwrap();
    let mut packed = packed;
    packed.files.insert("data/rows.tsv".to_owned(), Content::Stored(stored));
    drop(author);
    let scratch = worker.path().join("scratch");
    let options = || LoadOptions { scratch: scratch.clone(), ..LoadOptions::default() };
    let loaded = Loaded::plan(&packed, options()).unwrap();
    assert_eq!(loaded.definition().name, "shop");
    let wholes = run_all(&loaded, 1);
    assert_eq!(wholes[0].total().completed, 2);
    assert_eq!(server.paths(), ["/ann", "/bob"]);
    assert_eq!(server.seen()[0].text(), "hello");
    drop((wholes, loaded));
    crate::common::eventually(|| std::fs::read_dir(&scratch).unwrap().count(), |left| *left == 0);
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left behind");
    packed.files.remove("body.bin");
    let error = Loaded::plan(&packed, options()).err().unwrap().to_string();
    assert!(error.contains("`body.bin` was not sent along"), "{error}");
}

fn with_secret(text: &str, server: &Recording) -> Result<Arc<Loaded>, String> {
    let plan = crate::common::read(text, &server.url(), Path::new("."));
    let known = |name: &str| (name == "KEY").then(|| "hunter2/ß".to_owned());
    let options = LoadOptions { secrets: Arc::new(known), ..LoadOptions::default() };
    Loaded::from_plan(plan, options).map_err(|error| error.to_string())
}

/// The target gets it; samples, messages and tags do not.
#[test]
fn a_secret_reaches_the_target_and_nobody_else() {
    let server = Recording::start(|seen| {
        let echo = format!("you sent {} and {}", seen.path, seen.text());
        respond("500 No", "", echo.as_bytes())
    });
    let text = "target: TARGET
vars: { key: '${secret.KEY}' }
workflows:
  - name: w
    load: { vus: 1, iterations: 4 }
    steps: [ { post: '/${secret.KEY}?again=${key}', headers: { x-mine: '${secret.KEY | base64}' },
               json: { key: '${key}' }, tags: { shown: '${key}' } } ]
";
    let loaded = with_secret(text, &server).unwrap();
    let wholes = run_all(&loaded, 1);
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/hunter2/%C3%9F?again=hunter2/%C3%9F");
    assert_eq!(seen.text(), "{\"key\":\"hunter2/ß\"}");
    let last = wholes[0].last.as_ref().unwrap();
    let shown: String = last
        .messages
        .iter()
        .map(|(_, _, message)| {
            format!("{}\n{}", message.text, message.exchange.as_deref().unwrap_or(""))
        })
        .collect();
    assert!(shown.contains("POST /•••"), "an exchange was kept: {shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let tags: Vec<_> = wholes[0].total().tagged.iter().map(|(tags, _)| tags.to_string()).collect();
    assert_eq!(tags, ["shown=•••"]);
    assert!(!format!("{:?}", loaded.layout().steps).contains("hunter2"));
}

#[test]
fn a_secret_that_this_machine_does_not_have_is_named() {
    let server = Recording::start(|_| ok(""));
    let text = crate::common::plan("vus: 1, iterations: 1", "{ get: '/${secret.OTHER}' }");
    let error = with_secret(&text, &server).err().unwrap();
    assert!(error.contains("OTHER") && error.contains("VOLLEY_SECRET_"), "{error}");
}

/// Values between workflows go through the ledger; secrets do not.
#[test]
fn a_secret_is_not_handed_on() {
    let server = Recording::start(|_| ok(""));
    let text = "target: TARGET
workflows:
  - name: a
    load: { vus: 1, iterations: 1 }
    steps: [ { set: { mine: 'x${secret.KEY}' } } ]
    provide: { mine: [b] }
  - { name: b, depends_on: [a], use: { mine: [a] }, load: { vus: 1, iterations: 1 }, steps: [ { get: '/${use.mine}' } ] }
";
    let loaded = with_secret(text, &server).unwrap();
    let wholes = run_all(&loaded, 1);
    assert_eq!(wholes[0].end.provided, [None]);
    let ends: Vec<_> = wholes.iter().map(|one| one.end.clone()).collect();
    assert!(matches!(load_end(&ends), WorkflowEnd::Error(text) if text.contains("mine")));
}

/// A name without an address is an error of the workflow, told as such.
#[test]
fn a_workflow_that_cannot_start_ends_with_its_error() {
    let text = crate::common::plan("vus: 1, iterations: 1", "{ get: / }");
    let loaded = super::load(&text, "http://nowhere.invalid", Path::new("."));
    assert!(loaded.error_of(0).is_some());
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1));
    let Report::Ended(ended) = led.next() else { panic!("it is never ready") };
    assert!(matches!(ended.how, Ending::Error(_)), "{:?}", ended.how);
    led.run.start_at(clock::now());
}
