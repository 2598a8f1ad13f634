//! Made-up results, the same every time: for golden tests and for looking at the output.
#![allow(dead_code, reason = "each user of this file needs some of it")]

use std::sync::Arc;
use std::time::Duration;

use plan::MetricKind;
use stats::{
    CheckLayout, DropCause, ErrorKind, ErrorSample, GeneratorStats, History, Issued, LastWords,
    Layout, MetricLayout, Outcome, RunResult, StageLayout, StepLayout, StopReason, ThresholdResult,
    TimelineEntry, Unit, Verdict, VerdictState, Window, WorkflowLayout, WorkflowResult,
    WorkflowStatus,
};

fn step(name: &str, workflow: usize, method: &str, route: &str) -> StepLayout {
    StepLayout {
        name: name.into(),
        workflow,
        method: method.into(),
        route: route.into(),
        tags: vec![("team".into(), "shop".into())],
        when: Vec::new(),
    }
}

/// The plan of the quick start: a closed workflow with stages, then an open one.
pub fn layout() -> Layout {
    let workflow = |name: &str, steps, checks, stages| WorkflowLayout {
        name: name.into(),
        steps,
        checks,
        stages,
        synthetic: false,
        about: stats::WorkflowFacts::default(),
    };
    let check = |name: &str, step| CheckLayout { name: name.into(), step };
    let stage = |name: &str, workflow| StageLayout { name: name.into(), workflow };
    let metric = |name: &str, kind, time| MetricLayout { name: name.into(), kind, time };
    Layout {
        workflows: vec![workflow("shop", 0..2, 0..4, 0..3), workflow("search", 2..4, 4..5, 3..4)],
        steps: vec![
            step("login", 0, "POST", "http://127.0.0.1:8080/login"),
            step("cart", 0, "GET", "http://127.0.0.1:8080/cart?region=${env.REGION:-eu}"),
            step("search", 1, "GET", "http://127.0.0.1:8080/search?q=${random.word}"),
            step("cart", 1, "GET", "http://127.0.0.1:8080/cart"),
        ],
        checks: vec![
            check("status is 200", 0),
            check("$.token exists", 0),
            check("status is 200", 1),
            check("latency < 250ms", 1),
            check("body contains items", 3),
        ],
        stages: vec![
            stage("ramp-up", 0),
            stage("steady", 0),
            stage("ramp-down", 0),
            stage("main", 1),
        ],
        metrics: vec![
            metric("items_bought", MetricKind::Counter, false),
            metric("queue_length", MetricKind::Gauge, false),
            metric("cache_hit", MetricKind::Rate, false),
            metric("render_time", MetricKind::Trend, true),
            metric("cart_size", MetricKind::Trend, false),
        ],
    }
}

/// `n` answered requests; `lag_us` is how long each waited before it could be sent.
fn answered(stats: &mut stats::StepStats, n: u64, base_us: u64, lag_us: u64) {
    for i in 0..n {
        // A long tail without randomness.
        let tail = if i % 100 == 99 {
            40
        } else if i % 10 == 9 {
            4
        } else {
            1
        };
        let service = (base_us + i % 97 * base_us / 50) * tail * 1000;
        stats.requests += 1;
        stats.sent += 1;
        stats.completed += 1;
        stats.bytes_sent += 180;
        stats.bytes_received += 1450;
        stats.status.add(200, 1);
        stats.duration.record_ns(service);
        stats.latency.record_ns(service + lag_us * 1000 * (i % 7));
        stats.sending.record_ns(8_000);
        stats.waiting.record_ns(service - service / 10);
        stats.receiving.record_ns(service / 10);
        if i < 50 {
            stats.blocked.record_ns(400_000);
            stats.connecting.record_ns(250_000);
        } else {
            stats.blocked.record_zero();
            stats.connecting.record_zero();
        }
        stats.tls_handshaking.record_zero();
    }
}

fn totals(layout: &Layout) -> Window {
    let mut window = Window::new(layout);
    for (stage, n) in [(0, 300), (1, 2400), (2, 250)] {
        let block = window.block(layout, stage);
        answered(&mut block.steps[0], n, 900, 0);
        answered(&mut block.steps[1], n, 2100, 0);
        block.iterations = n;
        for _ in 0..n {
            block.iteration_duration.record_ns(205_000_000);
        }
        for check in &mut block.checks {
            check.passes = n;
        }
    }
    let block = window.block(layout, 3);
    answered(&mut block.steps[0], 2000, 1300, 0);
    answered(&mut block.steps[1], 100, 1300, 0);
    block.checks[0].passes = 100;
    block.iterations = 2000;
    for i in 0..200u32 {
        let at = u64::from(i);
        block.metrics[0].record(f64::from(i % 4), at);
        block.metrics[1].record(f64::from(i % 13), at);
        block.metrics[2].record(f64::from(u8::from(i % 5 != 0)), at);
        block.metrics[3].record(f64::from(i) / 7.0, at);
        block.metrics[4].record(f64::from(i % 9), at);
    }
    window
}

fn workflow(name: &str, from: u64, to: u64, vus_max: u64) -> WorkflowResult {
    WorkflowResult {
        name: name.into(),
        status: WorkflowStatus::Completed,
        started: Duration::from_secs(from),
        ended: Duration::from_secs(to),
        cores: 2,
        vus_max,
    }
}

fn threshold(metric: &str, label: &str, hold: &str, value: f64, unit: Unit) -> ThresholdResult {
    ThresholdResult {
        metric: metric.into(),
        label: label.into(),
        hold: hold.into(),
        value: Some(value),
        ok: true,
        unit,
        abort: false,
    }
}

/// Everything held.
pub fn good() -> RunResult {
    let layout = Arc::new(layout());
    let history = history(&layout);
    let event =
        |at, event: &str| TimelineEntry { at: Duration::from_millis(at), event: event.into() };
    RunResult {
        plan: "checkout".into(),
        started_unix_ms: 1_794_788_563_120,
        elapsed: Duration::from_millis(40_200),
        outcome: Outcome::Completed,
        verdict: Verdict { state: VerdictState::Valid, reasons: vec![] },
        stop: StopReason::Finished,
        issued: Issued::Exact(totals(&layout).sent()),
        last_words: LastWords::default(),
        totals: totals(&layout),
        layout,
        workflows: vec![workflow("shop", 0, 30, 50), workflow("search", 30, 40, 12)],
        thresholds: vec![
            threshold(
                "http_req_duration",
                "http_req_duration{step:cart}",
                "p(95) < 200ms",
                18.2,
                Unit::Milliseconds,
            ),
            threshold("checks", "checks", "rate > 99%", 1.0, Unit::Fraction),
            threshold(
                "http_req_failed",
                "http_req_failed",
                "rate < 1% over 30s",
                0.0,
                Unit::Fraction,
            ),
        ],
        error_samples: vec![],
        timeline: vec![event(0, "start"), event(40_200, "end")],
        generator: GeneratorStats {
            cores: 2,
            cpu_user: Duration::from_millis(3100),
            cpu_system: Duration::from_millis(5200),
            memory_max_bytes: 48_300_000,
            descriptors_max: 74,
            descriptors_limit: 20_000,
            loop_lag_p99_ms: 0.31,
            loop_lag_max_ms: 2.14,
            busiest_core: 0.34,
        },
        history,
        notes: vec![],
        script: None,
        fail_on: VerdictState::Invalid,
    }
}

/// All that was counted, in two ticks.
fn history(layout: &Layout) -> History {
    let mut history = History::new(layout, None);
    let ticks = [(1, totals(layout)), (2, Window::new(layout))];
    for (second, window) in ticks {
        let facts = stats::history::TickFacts {
            at_ns: second * 1_000_000_000,
            over_ns: 1_000_000_000,
            vus: 10,
            ..stats::history::TickFacts::default()
        };
        history.close_tick(layout, &window, None, facts);
    }
    history
}

/// Everything went wrong that can.
pub fn bad() -> RunResult {
    let mut result = good();
    let layout = Arc::clone(&result.layout);
    let block = result.totals.block(&layout, 1);
    fail(&mut block.steps[0], ErrorKind::Status, 48);
    block.steps[0].status.add(503, 48);
    block.steps[0].completed += 48;
    fail(&mut block.steps[1], ErrorKind::Timeout, 70);
    fail(&mut block.steps[1], ErrorKind::Refused, 5);
    block.steps[1].requests += 3;
    block.steps[1].interrupted += 3;
    block.checks[2].fails = 123;
    block.checks[3].fails = 170;
    let block = result.totals.block(&layout, 3);
    answered(&mut block.steps[0], 2000, 1300, 90_000);
    block.dropped[DropCause::NoFreeVu as usize] = 310;
    block.dropped[DropCause::TimeOver as usize] = 2;
    block.late_starts = 120;
    block.start_lag.record_ns(540_000_000);
    for (tags, n, ms) in [("region=eu", 1800, 4), ("region=us", 200, 90)] {
        let tagged = block.steps[0].tag_stats(tags);
        tagged.requests = n;
        (0..n).for_each(|i| tagged.latency.record_ns(ms * 1_000_000 + i * 1000));
    }
    result.outcome = Outcome::Completed;
    result.verdict = Verdict {
        state: VerdictState::Degraded,
        reasons: vec!["generator saturated: 6.0% of iterations started more than 10ms late".into()],
    };
    result.stop = StopReason::Threshold(1);
    result.workflows[1].status = WorkflowStatus::Stopped;
    result.thresholds[0].ok = false;
    result.thresholds[0].value = Some(312.4);
    result.thresholds[1].ok = false;
    result.thresholds[1].value = Some(0.9312);
    result.error_samples = error_samples();
    let paused = TimelineEntry { at: Duration::from_secs(12), event: "paused by key".into() };
    let resumed = TimelineEntry { at: Duration::from_secs(15), event: "resumed by key".into() };
    result.timeline.splice(1..1, [paused, resumed]);
    result.notes =
        vec!["output csv=/full/out.csv: No space left on device; the rest is missing".into()];
    result
}

/// Counts that strain every column.
pub fn huge() -> RunResult {
    let mut result = bad();
    let layout = Arc::clone(&result.layout);
    for step in &mut result.totals.block(&layout, 1).steps {
        step.requests = 123_456_789_012;
        step.failed = 7_654_321;
        step.latency.record_ns(7_200_000_000_000);
    }
    result
}

fn fail(stats: &mut stats::StepStats, kind: ErrorKind, n: u64) {
    stats.requests += n;
    stats.sent += n;
    stats.failed += n;
    stats.errors[kind as usize] += n;
}

fn error_samples() -> Vec<ErrorSample> {
    vec![
        ErrorSample {
            at: Duration::from_secs(3),
            later: Vec::new(),
            kind: ErrorKind::Status,
            step: 0,
            count: 48,
            message: "503 Service Unavailable, expected 200".into(),
            exchange: Some(
                "> POST /login HTTP/1.1\n> host: 127.0.0.1:8080\n> content-type: application/json\n\
                 >\n> {\"user\":\"anna\",\"password\":\"***\"}\n< HTTP/1.1 503 Service Unavailable\n\
                 < content-type: text/plain\n< retry-after: 1\n<\n< too many \x1b[31mlogins\n"
                    .into(),
            ),
        },
        ErrorSample {
            at: Duration::from_secs(3),
            later: Vec::new(),
            kind: ErrorKind::Timeout,
            step: 1,
            count: 70,
            message: "no complete answer within 10s".into(),
            exchange: None,
        },
        ErrorSample {
            at: Duration::from_secs(3),
            later: Vec::new(),
            kind: ErrorKind::Refused,
            step: 1,
            count: 5,
            message: "connect to 127.0.0.1:8080: connection refused".into(),
            exchange: None,
        },
    ]
}

/// `volley URL`: one workflow, one step, no thresholds.
pub fn quick() -> RunResult {
    let mut result = good();
    let layout = Layout {
        workflows: vec![WorkflowLayout {
            name: "quick".into(),
            steps: 0..1,
            checks: 0..0,
            stages: 0..1,
            synthetic: false,
            about: stats::WorkflowFacts::default(),
        }],
        steps: vec![step("GET /", 0, "GET", "http://127.0.0.1:8080/")],
        checks: vec![],
        stages: vec![StageLayout { name: "main".into(), workflow: 0 }],
        metrics: vec![],
    };
    let mut window = Window::new(&layout);
    answered(&mut window.block(&layout, 0).steps[0], 25_000, 130, 0);
    result.plan = "http://127.0.0.1:8080/".into();
    result.elapsed = Duration::from_secs(10);
    result.totals = window;
    result.layout = Arc::new(layout);
    result.workflows = vec![workflow("quick", 0, 10, 50)];
    result.thresholds.clear();
    result
}

/// `volley URL` against nobody.
pub fn quick_refused() -> RunResult {
    let mut result = quick();
    let layout = Arc::clone(&result.layout);
    result.totals = Window::new(&layout);
    let stats = &mut result.totals.block(&layout, 0).steps[0];
    fail(stats, ErrorKind::Refused, 500);
    stats.sent = 0;
    result.error_samples = vec![ErrorSample {
        at: Duration::from_secs(3),
        later: Vec::new(),
        kind: ErrorKind::Refused,
        step: 0,
        count: 500,
        message: "connect to 127.0.0.1:8080: connection refused".into(),
        exchange: None,
    }];
    result
}

/// A run on a fleet: a worker was not heard of when the result was made, and came back.
pub fn with_addendum() -> RunResult {
    let of = stats::AttemptKey { workflow: 0, shard: 0, attempt: 1 };
    let added = stats::Added { issued: 9, sent: 8, completed: 7, failed: 0, iterations: 6 };
    let addendum = stats::Addendum {
        of,
        at_unix_ms: 1_794_945_600_000,
        worker: "3f2a0000-0000-0000-0000-000000000001".to_owned(),
        added,
        certain: true,
    };
    let unheard = vec![stats::Unheard { of, more_at_most: Some(30) }];
    let last_words = LastWords { told: 1_000, unheard, addenda: vec![addendum] };
    RunResult { issued: last_words.issued(), last_words, ..good() }
}
