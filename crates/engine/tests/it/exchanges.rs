//! What people see of single exchanges: the trace of `run --debug`, samples of failures, and no
//! secrets in either.

use crate::common;
use std::sync::{Arc, Mutex};

use crate::common::recording::{Recording, Seen, ok, respond};
use crate::common::{Run, Runner, plan, read};
use engine::{Conductor, RunOptions};
use stats::{ErrorKind, Sample};

#[test]
fn a_trace_shows_every_exchange_and_hides_credentials() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/login" => {
            respond("200 OK", "set-cookie: sid=hush\r\n", b"{\"token\":\"hush\",\"name\":\"ann\"}")
        }
        _ => ok("plain text"),
    });
    let steps = "{ post: /login, json: { user: ann, password: hush }, extract: { t: $.token } }, { get: /next, auth: { bearer: '${t}' } }";
    let plan = read(&plan("iterations: 2", steps), &server.url(), std::path::Path::new("."));
    let shown = Arc::new(Mutex::new(Vec::new()));
    let log = shown.clone();
    let trace: engine::Trace = Arc::new(move |text| log.lock().unwrap().push(text));
    let options = RunOptions { cores: Some(1), trace: Some(trace), ..RunOptions::default() };
    let (conductor, _) = Conductor::new(plan, options).unwrap();
    Run(conductor.run(&mut |_| {}).unwrap()).assert_clean();
    let shown = shown.lock().unwrap();
    assert_eq!(shown.len(), 4, "two iterations of two requests");
    let all = shown.join("\n");
    for part in [
        "POST /login",
        "\"user\":\"ann\"",
        "HTTP/1.1 200",
        "\"name\":\"ann\"",
        "GET /next",
        "plain text",
    ] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
    assert!(!all.contains("hush"), "{all}");
    assert_eq!(server.seen()[1].header("authorization"), Some("Bearer hush"), "it was sent");
}

#[test]
fn each_kind_of_failure_has_a_message_a_count_and_an_exchange() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/garbage" => b"this is not HTTP\r\n\r\n".to_vec(),
        _ => respond("503 Unavailable", "retry-after: 7\r\n", b"come back later"),
    });
    let steps = "{ name: busy, get: /busy, auth: { bearer: hush } }, { name: odd, get: /garbage }";
    let run = Runner::to(server.url()).run(&plan("iterations: 5", steps));
    let samples = &run.0.error_samples;
    assert_eq!(samples.len(), 2, "{samples:?}");
    for (kind, part) in [(ErrorKind::Status, "503"), (ErrorKind::Protocol, "not HTTP")] {
        let sample = samples.iter().find(|sample| sample.kind == kind).unwrap();
        assert_eq!(sample.count, 5);
        assert!(sample.message.contains(part), "{}", sample.message);
        let exchange = sample.exchange.as_deref().unwrap_or_default();
        assert!(exchange.contains("GET /") && !exchange.contains("hush"), "{exchange}");
        if kind == ErrorKind::Status {
            assert!(exchange.contains("come back later") && exchange.contains("retry-after: 7"));
        }
    }
}

#[test]
fn samples_add_up_to_the_totals() {
    let target = common::target();
    let steps = "{ get: /redirect/1, check: [ { status: 200 } ] }, { get: /status/500 }";
    let (run, samples) = Runner::to(common::url(&target))
        .cores(2)
        .run_sampled(&plan("vus: 3, iterations: 30", steps));
    run.assert_seen_by(&target);
    let (mut requests, mut failed, mut iterations, mut checks, mut bytes) = (0, 0, 0, 0, 0);
    for sample in &samples {
        match sample {
            Sample::Request(request) => {
                requests += 1;
                failed += u64::from(request.failed);
                bytes += request.bytes_received;
            }
            Sample::Iteration { .. } => iterations += 1,
            Sample::Check { ok, .. } => checks += u64::from(*ok),
            _ => {}
        }
    }
    let total = run.total();
    assert_eq!((requests, failed, bytes), (total.requests, total.failed, total.bytes_received));
    assert_eq!((iterations, checks), (30, 30));
}
