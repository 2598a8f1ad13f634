//! A virtual user without an engine: what it logs is kept, what it measures can be looked at.

// Each test file uses its own part of this.

use fence::Moment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use client::{Deadlines, ExchangeEnd, OriginTable, Progress, Settings};
use script::heap::Budget;
use script::host::{HostEnvironment, InstanceFacts, Phase, Scenario, VuSetup};
use script::log::{Line, Logger};
use script::program::{Rules, Script};
use script::recorder::ScriptRecorder;
use script::source::Sources;
use script::thrown::Thrown;
use script::vu::{Argument, Call, Returned, Vu};
use stats::series::{SeriesLayout, SeriesSample, SeriesSink, SeriesWindow};

pub mod raw;

#[derive(Default)]
pub struct Nobody {
    pub aborts: RefCell<Vec<String>>,
    /// Requests that ended, and those that were cut off.
    pub exchanged: Cell<u64>,
    pub interrupted: Cell<u64>,
}

impl HostEnvironment for Nobody {
    fn progress(&self) -> f64 {
        0.5
    }
    fn scenario_started_unix_ms(&self) -> f64 {
        1000.0
    }
    fn instance(&self) -> InstanceFacts {
        InstanceFacts { vus_active: 1, vus_initialized: 2, ..InstanceFacts::default() }
    }
    fn abort(&self, reason: &str) {
        self.aborts.borrow_mut().push(reason.to_owned());
    }
    fn mark_failed(&self, _reason: &str) {}
    fn next_request_at(&self) -> Option<Moment> {
        None
    }
    fn exchanged(&self, _progress: &Progress, _ended: ExchangeEnd, _name: &str) {
        self.exchanged.set(self.exchanged.get() + 1);
    }
    fn interrupted(&self, _progress: &Progress) {
        self.interrupted.set(self.interrupted.get() + 1);
    }
}

pub struct Rig {
    /// Removed when the test ends.
    pub _folder: tempfile::TempDir,
    pub script: Arc<Script>,
    pub lines: Arc<Mutex<Vec<Line>>>,
    pub outside: Rc<Nobody>,
    pub recorder: Rc<ScriptRecorder>,
    pub deadlines: Rc<Deadlines>,
    pub http: plan::HttpOptions,
    pub samples: Arc<Mutex<Vec<SeriesSample>>>,
}

impl Rig {
    /// A script, and files beside it.
    pub fn new(code: &str, files: &[(&str, &str)]) -> Rig {
        Rig::with_memory(code, files, 64 << 20)
    }

    pub fn with_memory(code: &str, files: &[(&str, &str)], each: usize) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let path: PathBuf = folder.path().join("script.js");
        std::fs::write(&path, code).unwrap();
        let env = BTreeMap::from([("HOME_TOWN".to_owned(), "Bern".to_owned())]);
        let budget = Budget::new(1 << 30, each);
        let script = Arc::new(Script::new(
            Sources::open(&path, script::modules::builtins()).unwrap(),
            env,
            budget,
        ));
        let recorder = Rc::new(ScriptRecorder::new(Arc::new(SeriesLayout::new()), None, 0));
        Rig {
            _folder: folder,
            script,
            lines: Arc::default(),
            outside: Rc::default(),
            recorder,
            deadlines: Rc::default(),
            http: plan::HttpOptions::default(),
            samples: Arc::default(),
        }
    }

    pub fn vu(&self) -> Vu {
        let lines = self.lines.clone();
        let logger: Logger = Arc::new(move |line| lines.lock().unwrap().push(line));
        let http = self.http.clone();
        let origins = Rc::new(OriginTable::new(&http, None));
        let settings = Settings {
            http,
            tls: Arc::new(OnceLock::new()),
            origins,
            send_control: permit::SendControl::free(),
        };
        let scenario = Scenario {
            name: "default".to_owned(),
            executor: "constant-vus".to_owned(),
            exec: "default".to_owned(),
            ..Scenario::default()
        };
        let setup = VuSetup {
            script: self.script.clone(),
            recorder: self.recorder.clone(),
            logger,
            scenario: Rc::new(scenario),
            environment: self.outside.clone(),
            settings: Rc::new(settings),
            deadlines: self.deadlines.clone(),
            local_address: None,
            id_in_test: 1,
            id_in_instance: 1,
        };
        Vu::new(setup).unwrap()
    }

    /// Keeps every sample, for [`Rig::recorded`].
    pub fn with_samples(mut self) -> Rig {
        let kept = self.samples.clone();
        let sink: SeriesSink = Arc::new(move |batch| {
            kept.lock().unwrap().extend(batch);
            true
        });
        self.recorder = Rc::new(ScriptRecorder::new(Arc::new(SeriesLayout::new()), Some(sink), 0));
        self
    }

    /// Runs the default function once, with deadlines that end; gives what was logged.
    pub fn run(&self) -> Vec<String> {
        on_core(async {
            let sweep = self.deadlines.clone().sweep_every(Duration::from_millis(5));
            let sweep = tokio::task::spawn_local(sweep);
            let vu = self.vu();
            vu.init().await.unwrap();
            if let Err(thrown) = call(&vu, "default").await {
                panic!("{}", thrown.full());
            }
            vu.host.record_traffic();
            sweep.abort();
        });
        assert_eq!(self.script.budget.leaked(), 0, "memory was lost");
        self.said()
    }

    /// What was recorded, as `metric value {tag=value ...}`.
    pub fn recorded(&self) -> Vec<(String, f64, BTreeMap<String, String>)> {
        self.recorder.swap(SeriesWindow::new(&self.recorder.layout));
        let samples = self.samples.lock().unwrap();
        let one = |sample: &SeriesSample| {
            let name = self.recorder.layout.get(sample.metric).name.to_string();
            let tags = sample.tags.pairs();
            let tags = tags.map(|(key, value)| (key.to_string(), value.to_string()));
            (name, sample.value, tags.collect())
        };
        samples.iter().map(one).collect()
    }

    pub fn said(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|line| line.message.clone()).collect()
    }
}

pub async fn call(vu: &Vu, function: &str) -> Result<Option<Returned>, Thrown> {
    let argument = Argument::SetupData(None);
    vu.call(Call { function: function.into(), phase: Phase::Iteration, argument }).await
}

/// Runs on a runtime like a core's.
pub fn on_core<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(tokio::runtime::LocalOptions::default());
    runtime.unwrap().block_on(future)
}

/// Runs each expression in one virtual user, with `http`, `B` (the server's URL) and `H` (its host)
/// at hand, and compares what comes out, as JSON. Gives all that was logged besides.
pub fn check(server: &raw::Raw, rows: &[(&str, &str)]) -> Vec<String> {
    check_with(server, rows, |rules| rules)
}

pub fn check_with(
    server: &raw::Raw,
    rows: &[(&str, &str)],
    change: impl FnOnce(Rules) -> Rules,
) -> Vec<String> {
    let mut code = format!(
        "import http from 'k6/http';\nconst B = 'http://{0}', H = '{0}';\n\
         const show = f => {{ try {{ return JSON.stringify(f()) }} catch (e) {{ return String(e) }} }};\n\
         export default function () {{\n",
        server.address
    );
    for (expression, _) in rows {
        code.push_str(&format!("  console.log(show(() => {expression}));\n"));
    }
    code.push_str("}\n");
    let rig = Rig::new(&code, &[]);
    rig.script.settle(change(rig.script.rules().clone()), rig.recorder.layout.clone());
    rig.run();
    let lines = rig.lines.lock().unwrap();
    let (shown, other): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.source == Some("console"));
    for ((expression, expected), got) in rows.iter().zip(&shown) {
        let expected = expected.replace("HOST", &server.address.to_string());
        assert_eq!(got.message, expected, "{expression}");
    }
    assert_eq!(shown.len(), rows.len());
    let text = |line: &&Line| {
        let fields: String =
            line.fields.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("{}{fields}", line.message)
    };
    other.iter().map(text).collect()
}
