//! The tags of a sample, as k6 names them.
//!
//! A run has few distinct combinations (steps × statuses × errors) and very many samples, so each
//! combination is put into text once and looked up afterwards.

use std::collections::HashMap;

use stats::{ErrorKind, Layout, RequestSample};

/// Distinct combinations kept; beyond it the cache starts anew, so a hostile target cannot grow it.
const CACHED_MAX: usize = 4096;

/// Sorted by name, as k6 writes them.
pub(super) type Tags = Vec<(String, String)>;

/// What of a sample decides its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Request { step: u32, stage: u32, status: u16, error: Option<u8>, failed: bool, proto: u8 },
    Workflow(u32),
    Check(u32),
    Global,
}

impl Key {
    pub(super) fn of(sample: &RequestSample) -> Key {
        Key::Request {
            step: sample.step,
            stage: sample.stage,
            status: sample.status,
            error: sample.error.map(|kind| kind as u8),
            failed: sample.failed,
            proto: sample.proto,
        }
    }
}

/// Text made from tags, by key.
pub(super) struct Cache {
    known: HashMap<Key, Box<str>>,
    render: fn(&Tags) -> String,
}

impl Cache {
    pub(super) fn new(render: fn(&Tags) -> String) -> Cache {
        Cache { known: HashMap::new(), render }
    }

    pub(super) fn text(&mut self, key: Key, layout: &Layout) -> &str {
        if self.known.len() >= CACHED_MAX && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let render = self.render;
        self.known.entry(key).or_insert_with(|| render(&tags(key, layout)).into())
    }
}

fn tags(key: Key, layout: &Layout) -> Tags {
    let mut tags = Tags::new();
    let mut add = |name: &str, value: &str| tags.push((name.to_owned(), value.to_owned()));
    match key {
        Key::Request { step, stage, status, error, failed, proto } => {
            let error = error.and_then(|index| ErrorKind::ALL.get(usize::from(index)));
            if let Some(stage) = layout.stages.get(stage as usize) {
                add("stage", &stage.name);
            }
            add("status", &status.to_string());
            add("expected_response", if failed { "false" } else { "true" });
            add("proto", if proto == 2 { "HTTP/2.0" } else { "HTTP/1.1" });
            if let Some(error) = error {
                add("error", error.name());
                add("error_code", &error_code(*error, status).to_string());
            }
            if let Some(step) = layout.steps.get(step as usize) {
                add_step(step, layout, &mut add);
            }
        }
        Key::Workflow(workflow) => {
            add("group", "");
            let workflow = layout.workflows.get(workflow as usize);
            add("scenario", workflow.map_or("", |workflow| &workflow.name));
        }
        Key::Check(check) => {
            if let Some(check) = layout.checks.get(check as usize) {
                add("check", &check.name);
                let step = &layout.steps[check.step];
                add("name", &step.name);
                add("group", "");
                add("scenario", &layout.workflows[step.workflow].name);
            }
        }
        Key::Global => {}
    }
    tags.sort();
    // An object must not have a key twice.
    tags.dedup_by(|later, earlier| later.0 == earlier.0);
    tags
}

fn add_step(step: &stats::StepLayout, layout: &Layout, add: &mut impl FnMut(&str, &str)) {
    const MEASURED: [&str; 11] = [
        "error",
        "error_code",
        "expected_response",
        "group",
        "method",
        "name",
        "proto",
        "scenario",
        "stage",
        "status",
        "url",
    ];
    add("group", "");
    add("method", &step.method);
    add("name", &step.name);
    add("scenario", &layout.workflows[step.workflow].name);
    add("url", &step.route);
    for (name, value) in &step.tags {
        if !MEASURED.contains(&&**name) {
            add(name, value);
        }
    }
}

/// k6's `error_code`, so that dashboards made for k6 keep working.
fn error_code(error: ErrorKind, status: u16) -> u16 {
    match error {
        ErrorKind::Dns => 1100,
        ErrorKind::Refused => 1212,
        ErrorKind::Connect => 1200,
        ErrorKind::Reset => 1220,
        ErrorKind::Tls => 1300,
        ErrorKind::Timeout => 1050,
        ErrorKind::Body => 1701,
        ErrorKind::Status if status >= 400 => 1000 + status,
        ErrorKind::Status | ErrorKind::Protocol | ErrorKind::Redirect | ErrorKind::Local => 1000,
        // k6 has neither: a script does what it likes with an answer.
        ErrorKind::Extract | ErrorKind::NoValue => 1000,
    }
}
