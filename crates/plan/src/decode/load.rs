//! How much load: which executor is meant, and whether its keys make sense.

use std::time::Duration;

use super::Context;
use crate::model::{Executor, Load, Rate};
use crate::tree::{Node, shorten};
use crate::units;

/// Each virtual user has a connection and buffers; a million of them is beyond one workflow.
pub const VUS_MAX: u64 = 1_000_000;

/// How long iterations may go on after the end, as in k6.
const GRACE: Duration = Duration::from_secs(30);
const MAX_DURATION: Duration = Duration::from_secs(600);

/// Keys that fit every executor.
const COMMON: [&str; 4] = ["executor", "start_after", "graceful_stop", "warmup"];

/// What fits which executor besides.
const FITTING: [(&str, &[&str]); 6] = [
    ("constant-vus", &["vus", "duration", "pacing"]),
    ("ramping-vus", &["start_vus", "stages", "graceful_ramp_down", "pacing"]),
    ("per-vu-iterations", &["vus", "iterations", "max_duration", "pacing"]),
    ("shared-iterations", &["vus", "iterations", "max_duration", "pacing"]),
    ("constant-arrival-rate", &["rate", "duration", "vus", "max_vus"]),
    ("ramping-arrival-rate", &["start_rate", "stages", "vus", "max_vus"]),
];

pub fn load(cx: &Context<'_>, node: Option<&Node>) -> Load {
    let Some(node) = node else { return once() };
    let Some(name) = executor_name(cx, node) else {
        return once();
    };
    unfitting_keys(cx, node, name);
    let decoder = Decoder { cx, node };
    let executor = decoder.executor(name);
    let pacing = node.get("pacing").and_then(Node::text).and_then(|text| units::span(text).ok());
    let warmup = cx.duration(node.get("warmup"));
    cx.not_zero(node.get("warmup"), warmup);
    if let (Some(warmup), Some(total)) = (warmup, executor.scheduled())
        && warmup >= total
        && !total.is_zero()
    {
        let place = node.get("warmup").unwrap_or(node).place;
        cx.report(place, "the warm-up takes the whole run")
            .help(format!("make it shorter than {total:?}"));
    }
    Load {
        executor,
        start_after: cx.duration(node.get("start_after")).unwrap_or_default(),
        graceful_stop: cx.duration(node.get("graceful_stop")).unwrap_or(GRACE),
        warmup,
        pacing,
    }
}

/// A workflow without `load`: one virtual user does it once.
fn once() -> Load {
    Load {
        executor: Executor::SharedIterations { vus: 1, iterations: 1, max_duration: MAX_DURATION },
        start_after: Duration::ZERO,
        graceful_stop: GRACE,
        warmup: None,
        pacing: None,
    }
}

/// The executor that is named, or that the other keys tell (k6's shortcuts).
fn executor_name(cx: &Context<'_>, node: &Node) -> Option<&'static str> {
    if let Some(named) = node.get("executor").and_then(Node::text) {
        let named = named.to_ascii_lowercase();
        // A wrong name is reported by the shape check.
        return FITTING.iter().map(|(name, _)| *name).find(|name| *name == named);
    }
    let has = |key: &str| node.get(key).is_some();
    let rates = || {
        let stages = node.get("stages").map(Node::items).unwrap_or_default();
        let is_rate =
            |stage: &Node| stage.get("to").and_then(Node::text).is_some_and(|to| to.contains('/'));
        has("start_rate") || stages.first().is_some_and(is_rate)
    };
    if has("stages") {
        Some(if rates() { "ramping-arrival-rate" } else { "ramping-vus" })
    } else if has("rate") {
        Some("constant-arrival-rate")
    } else if has("iterations") || has("max_duration") {
        Some("shared-iterations")
    } else if has("duration") {
        Some("constant-vus")
    } else if node.entries().iter().all(|entry| COMMON.contains(&entry.key.as_str())) {
        Some("shared-iterations")
    } else if node.entries().iter().any(|entry| !is_known(&entry.key)) {
        // An unknown key may be what says how long, and it is reported.
        None
    } else {
        cx.report(node.place, "how long?")
            .help("add `duration: 30s`, `iterations: 100` or `stages: [ { to: 10, over: 10s } ]`");
        None
    }
}

fn is_known(key: &str) -> bool {
    crate::keys::LOAD.keys.iter().any(|known| known.name == key)
}

fn unfitting_keys(cx: &Context<'_>, node: &Node, name: &str) {
    let fits = |executor: &str, key: &str| {
        FITTING.iter().any(|(other, keys)| *other == executor && keys.contains(&key))
    };
    for entry in node.entries() {
        let key = entry.key.as_str();
        if COMMON.contains(&key) || fits(name, key) {
            continue;
        }
        let owners: Vec<&str> =
            FITTING.iter().map(|(other, _)| *other).filter(|other| fits(other, key)).collect();
        // An unknown key has no owner, and is reported by the shape check.
        if !owners.is_empty() {
            let fitting = FITTING.iter().find(|(other, _)| *other == name);
            let keys = fitting.map(|(_, keys)| keys.join(", ")).unwrap_or_default();
            cx.report(entry.place, format!("`{key}` belongs to {}", owners.join(" and ")))
                .help(format!("the executor here is {name}; it has {keys}"));
        }
    }
}

pub(super) struct Decoder<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) node: &'a Node,
}

impl Decoder<'_> {
    fn executor(&self, name: &str) -> Executor {
        match name {
            "constant-vus" => Executor::ConstantVus {
                vus: self.vus("vus").unwrap_or(1),
                duration: self.length("duration", "30s"),
            },
            "ramping-vus" => self.ramping_vus(),
            "per-vu-iterations" | "shared-iterations" => {
                let vus = self.vus("vus").unwrap_or(1);
                let iterations = self.iterations();
                let max_duration = self.cx.duration(self.node.get("max_duration"));
                self.cx.not_zero(self.node.get("max_duration"), max_duration);
                let max_duration = max_duration.unwrap_or(MAX_DURATION);
                self.enough_iterations(name, vus, iterations);
                match name {
                    "per-vu-iterations" => {
                        Executor::PerVuIterations { vus, iterations, max_duration }
                    }
                    _ => Executor::SharedIterations { vus, iterations, max_duration },
                }
            }
            "constant-arrival-rate" => {
                let (vus, max_vus) = self.rate_vus();
                let duration = self.length("duration", "30s");
                Executor::ConstantArrivalRate { rate: self.rate(), duration, vus, max_vus }
            }
            _ => self.ramping_rate(),
        }
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.node.get(key)?.count()
    }

    /// A number of virtual users, at least 1 and within the limit.
    fn vus(&self, key: &str) -> Option<u32> {
        let node = self.node.get(key)?;
        if node.count() == Some(0) {
            self.cx.report(node.place, format!("`{key}: 0` makes no load")).help("use at least 1");
        }
        self.limited(node)
    }

    fn limited(&self, node: &Node) -> Option<u32> {
        let count = node.count()?;
        if count > VUS_MAX {
            let message = format!("{count} virtual users; a workflow has at most {VUS_MAX}");
            self.cx
                .report(node.place, message)
                .help("for more load use an arrival rate (`rate: 20000/s`), or several workflows");
        }
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// A time that must be given and must not be 0.
    fn length(&self, key: &str, example: &str) -> Duration {
        let Some(node) = self.node.get(key) else {
            self.cx
                .report(self.node.place, format!("the key `{key}` is missing in load"))
                .help(format!("for example `{key}: {example}`"));
            return Duration::ZERO;
        };
        let length = self.cx.duration(Some(node));
        self.cx.not_zero(Some(node), length);
        length.unwrap_or_default()
    }

    fn iterations(&self) -> u64 {
        let count = self.count("iterations").unwrap_or(1);
        if let (0, Some(node)) = (count, self.node.get("iterations")) {
            self.cx.report(node.place, "`iterations: 0` makes no load").help("use at least 1");
        }
        count
    }

    /// `vus: 10, iterations: 5` shares five iterations among ten users.
    fn enough_iterations(&self, name: &str, vus: u32, iterations: u64) {
        if name == "shared-iterations" && iterations > 0 && iterations < u64::from(vus) {
            let place = self.node.get("iterations").unwrap_or(self.node).place;
            let noun = if iterations == 1 { "iteration" } else { "iterations" };
            self.cx
                .warn(
                    place,
                    format!(
                        "{iterations} {noun} are shared by {vus} virtual users, so that some of them do nothing"
                    ),
                )
                .help(format!(
                    "if each is to do {iterations}: `executor: per-vu-iterations`; otherwise `vus: {iterations}`"
                ));
        }
    }

    fn rate(&self) -> Rate {
        let zero = Rate { events: 0, per: Duration::from_secs(1) };
        let Some(node) = self.node.get("rate") else {
            self.cx
                .report(self.node.place, "the key `rate` is missing in load")
                .help("for example `rate: 200/s`");
            return zero;
        };
        let rate = node.text().and_then(|text| units::rate(text).ok());
        if rate.is_some_and(|rate| rate.events == 0) {
            self.cx.report(node.place, "a rate of 0 makes no load").help("use at least `1/s`");
        }
        rate.unwrap_or(zero)
    }

    fn rate_vus(&self) -> (Option<u32>, Option<u32>) {
        let (vus, max_vus) = (self.vus("vus"), self.vus("max_vus"));
        if let (Some(vus), Some(max)) = (vus, max_vus)
            && max < vus
        {
            let place = self.node.get("max_vus").unwrap_or(self.node).place;
            self.cx.report(place, format!("`max_vus` is less than `vus` ({vus})")).done();
        }
        (vus, max_vus)
    }

    fn ramping_vus(&self) -> Executor {
        let start = self.node.get("start_vus").and_then(|node| self.limited(node)).unwrap_or(0);
        let stages = self.stages(|to| match to.count() {
            Some(_) => self.limited(to).unwrap_or(0),
            None => {
                let found = shorten(to.text().unwrap_or_default());
                self.cx
                    .report(
                        to.place,
                        format!("expected a number of virtual users, found `{found}`"),
                    )
                    .help("for rates write `executor: ramping-arrival-rate`");
                1
            }
        });
        let idle = start == 0 && stages.iter().all(|stage| stage.to == 0);
        self.check_stages(&stages, idle, "no stage has any virtual users");
        Executor::RampingVus {
            start,
            stages,
            graceful_ramp_down: self
                .cx
                .duration(self.node.get("graceful_ramp_down"))
                .unwrap_or(GRACE),
        }
    }

    fn ramping_rate(&self) -> Executor {
        let zero = Rate { events: 0, per: Duration::from_secs(1) };
        let parse = |node: &Node| node.text().and_then(|text| units::rate(text).ok());
        let start = self.node.get("start_rate").and_then(parse).unwrap_or(zero);
        let stages = self.stages(|to| {
            let wrong = match units::rate(to.text().unwrap_or_default()) {
                Ok(rate) => return rate,
                Err(wrong) => wrong,
            };
            let help = match to.count() {
                Some(count) => Some(format!("a rate has a unit: `{count}/s`")),
                None => wrong.help,
            };
            self.cx.report(to.place, wrong.message).maybe_help(help);
            Rate { events: 1, ..zero }
        });
        let idle = start.events == 0 && stages.iter().all(|stage| stage.to.events == 0);
        self.check_stages(&stages, idle, "no stage has any arrivals");
        let (vus, max_vus) = self.rate_vus();
        Executor::RampingArrivalRate { start, stages, vus, max_vus }
    }
}
