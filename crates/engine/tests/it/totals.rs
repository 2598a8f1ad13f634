//! The generator's counts and the target's say the same, to the request, whatever became of each.

use crate::common;
use crate::common::{Runner, describe, plan, plan_with, target, url};
use stats::ErrorKind;
use target::hostile::{Behaviour, Hostile};

#[test]
fn closed_models_count_what_the_target_counts() {
    for load in [
        "vus: 4, duration: 300ms",
        "executor: ramping-vus, stages: [ { to: 6, over: 200ms }, { to: 0, over: 200ms } ]",
        "executor: per-vu-iterations, vus: 3, iterations: 20",
        "executor: shared-iterations, vus: 3, iterations: 50",
    ] {
        for cores in [1, 2] {
            let target = target();
            let run = Runner::to(url(&target)).cores(cores).run(&plan(load, "{ get: / }"));
            run.assert_clean().assert_seen_by(&target);
            assert_eq!(run.total().completed, run.iterations().iterations, "{load}");
        }
    }
}

#[test]
fn open_models_count_what_the_target_counts() {
    for load in
        ["rate: 300/s, duration: 500ms", "start_rate: 50/s, stages: [ { to: 400/s, over: 500ms } ]"]
    {
        for cores in [1, 3] {
            let target = target();
            let run = Runner::to(url(&target)).cores(cores).run(&plan(load, "{ get: / }"));
            run.assert_clean().assert_seen_by(&target);
        }
    }
}

#[test]
fn requests_that_the_end_cuts_off_are_counted_as_interrupted() {
    for load in ["vus: 5, duration: 250ms", "rate: 100/s, duration: 250ms"] {
        for version in ["1.1", "2"] {
            let target = target();
            let load = format!("{load}, graceful_stop: 0s");
            let steps = "{ get: / }, { get: /delay/60000 }";
            let plan = plan_with(&format!("version: {version}"), &load, steps);
            let run = Runner::to(url(&target)).cores(2).run(&plan);
            run.assert_seen_by(&target);
            let total = run.total();
            assert!(total.interrupted >= 5, "{}", describe(&total));
            assert_eq!(total.interrupted, target.counts().of("/delay/MS"), "{load} {version}");
            assert_eq!(run.iterations().interrupted, total.interrupted);
            assert_eq!(total.failed, 0, "an end is no failure: {}", describe(&total));
        }
    }
}

#[test]
fn http2_counts_what_the_target_counts() {
    let target = target();
    let load = "executor: per-vu-iterations, vus: 4, iterations: 25";
    let steps = "{ group: g, concurrent: true, steps: [ { get: / }, { get: /bytes/5000 }, { get: /stream/9000 } ] }";
    let run = Runner::to(url(&target)).cores(2).run(&plan_with("version: 2", load, steps));
    run.assert_clean().assert_seen_by(&target);
    assert_eq!(run.total().completed, 300);
    // Streams share their virtual user's connection.
    assert_eq!(target.counts().connections, 4);
}

#[test]
fn every_hop_of_a_redirect_is_a_request() {
    for version in ["1.1", "2"] {
        let target = target();
        let load = "vus: 2, iterations: 10";
        let run = Runner::to(url(&target)).run(&plan_with(
            &format!("version: {version}"),
            load,
            "{ get: /redirect/3 }",
        ));
        run.assert_clean().assert_seen_by(&target);
        let statuses: Vec<_> = run.total().status.iter().collect();
        assert_eq!(statuses, [(302, 30), (200, 10)]);
    }
}

#[test]
fn setup_and_teardown_of_plan_workflow_and_user_are_counted() {
    let target = target();
    let run = Runner::to(url(&target)).cores(2).run(
        "target: TARGET
setup: [ { get: /bytes/1 } ]
teardown: [ { get: /bytes/2 } ]
workflows:
  - name: w
    load: { executor: per-vu-iterations, vus: 3, iterations: 4 }
    setup: [ { get: /bytes/3 } ]
    teardown: [ { get: /bytes/4 } ]
    vu_setup: [ { get: /status/200 } ]
    vu_teardown: [ { get: /status/201 } ]
    steps: [ { get: / } ]
",
    );
    run.assert_clean().assert_seen_by(&target);
    let counts = target.counts();
    assert_eq!((counts.of("/bytes/N"), counts.of("/status/CODE"), counts.of("/")), (4, 6, 12));
    assert_eq!(run.iterations().iterations, 12, "setup and teardown are no iterations");
    assert_eq!(run.step("vu_setup: GET /status/200").completed, 3);
    assert_eq!(run.step("teardown: GET /bytes/4").completed, 1);
}

#[test]
fn failed_answers_and_failed_checks_are_counted_once() {
    let target = target();
    let steps = "{ get: /status/500 }, { get: /status/404, check: [ { status: 404 } ] }, { get: /, check: [ { body: { contains: nowhere } } ] }";
    let run = Runner::to(url(&target)).run(&plan("vus: 2, iterations: 20", steps));
    run.assert_seen_by(&target);
    let total = run.total();
    assert_eq!((total.requests, total.completed, total.failed), (60, 60, 20));
    assert_eq!(run.errors(ErrorKind::Status), 20);
}

#[test]
fn a_request_repeated_on_a_new_connection_counts_twice() {
    let hostile = Hostile::start(Behaviour::CloseOnReuse).unwrap();
    let run = Runner::to(hostile.url()).run(&plan("vus: 3, iterations: 30", "{ get: / }"));
    let total = run.assert_clean().total();
    assert_eq!(total.completed, 30);
    // Each connection serves one request and eats the next, except where the run was over.
    assert_eq!(total.retried, 27, "{}", describe(&total));
    assert_eq!(total.requests, 57);
    assert_eq!(total.sent, hostile.requests(), "{}", describe(&total));
    assert_eq!(hostile.connections(), 30);
}

#[test]
fn a_request_that_may_not_be_repeated_fails_instead() {
    let hostile = Hostile::start(Behaviour::CloseOnReuse).unwrap();
    let run =
        Runner::to(hostile.url()).run(&plan("vus: 1, iterations: 10", "{ post: /, body: x }"));
    let total = run.total();
    assert_eq!((total.completed, total.retried), (5, 0), "{}", describe(&total));
    assert_eq!(run.errors(ErrorKind::Reset), 5);
    assert_eq!(total.sent, hostile.requests());
}

#[test]
fn an_idle_connection_that_was_closed_costs_nothing() {
    let hostile = Hostile::start(Behaviour::CloseAfterEach).unwrap();
    // The pause lets the close arrive, so that it is known before the next request is written.
    let steps = "{ get: / }, { think: 150ms }";
    let run = Runner::to(hostile.url()).run(&plan("vus: 5, iterations: 15", steps));
    let total = run.assert_clean().total();
    assert_eq!((total.completed, total.retried), (15, 0), "{}", describe(&total));
    assert_eq!(total.sent, hostile.requests());
}

#[test]
fn a_repetition_that_finds_nobody_does_not_count_as_sent() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    // Answers once, takes the second request and is gone: listener and all.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = std::sync::Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        for _ in 0..2 {
            common::recording::read_request(&mut stream, peer).unwrap();
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                std::io::Write::write_all(&mut stream, &common::recording::ok("hello")).unwrap();
            }
        }
        drop(listener);
    });
    let run = Runner::to(format!("http://{address}")).run(&plan("iterations: 2", "{ get: / }"));
    server.join().unwrap();
    let total = run.total();
    assert_eq!(run.errors(ErrorKind::Refused), 1, "{}", describe(&total));
    assert_eq!((total.requests, total.retried, total.completed), (3, 1, 1));
    assert_eq!(total.sent, seen.load(Ordering::Relaxed) as u64, "{}", describe(&total));
}

#[test]
fn nothing_is_sent_where_nobody_listens() {
    let hostile = Hostile::start(Behaviour::Refuse).unwrap();
    let run = Runner::to(hostile.url()).run(&plan("vus: 2, iterations: 10", "{ get: / }"));
    let total = run.total();
    assert_eq!((total.requests, total.sent, run.errors(ErrorKind::Refused)), (10, 0, 10));
}

#[test]
fn bytes_are_counted_as_they_pass_the_socket() {
    let target = target();
    let run =
        Runner::to(url(&target)).run(&plan("vus: 1, iterations: 5", "{ get: /bytes/100000 }"));
    let total = run.assert_clean().total();
    assert!(total.bytes_received > 500_000 && total.bytes_received < 510_000);
    let each = total.bytes_sent / 5;
    assert!((40..200).contains(&each), "{each} bytes per request");
}

const FULL_FLIGHT: &str = "{ group: g, concurrent: true, steps: [ { get: / }, { get: '/?q=${vu.id}' }, { get: /bytes/3000 } ] }";

#[test]
fn an_end_in_full_flight_loses_no_request() {
    for _ in 0..8 {
        let target = target();
        let load = "vus: 8, duration: 60ms, graceful_stop: 0s";
        let run = Runner::to(url(&target)).cores(2).run(&plan(load, FULL_FLIGHT));
        run.assert_seen_by(&target);
    }
}

#[test]
fn an_end_in_full_flight_counts_as_sent_what_was_written_to_an_http2_connection() {
    // Streams are queued first and written by their connection later, or never.
    for _ in 0..6 {
        let server = common::frames::Frames::start();
        // More users than one core has time for, so that the end finds many in the middle.
        let load = "vus: 100, duration: 150ms, graceful_stop: 0s";
        let plan = plan_with("version: 2", load, FULL_FLIGHT);
        let run = Runner::to(format!("http://{}", server.addr)).run(&plan);
        let total = run.total();
        assert!(total.completed > 0, "{}", describe(&total));
        assert_eq!(total.sent, server.requests(), "{}", describe(&total));
    }
}

#[test]
fn a_stream_that_is_given_up_before_it_is_written_does_not_count_as_sent() {
    let server = common::frames::Frames::start();
    // The second step cannot be sent at all, and takes the first one with it in the same breath.
    let steps = "{ set: { base: 'http://[' } }, { group: g, concurrent: true, steps: [ { get: / }, { get: '${base}/x', on_failure: end-iteration } ] }";
    let plan = plan_with("version: 2, warm: true", "iterations: 20", steps);
    let run = Runner::to(format!("http://{}", server.addr)).run(&plan);
    let total = run.total();
    assert_eq!((total.requests, total.interrupted), (40, 20), "{}", describe(&total));
    assert_eq!(total.sent, server.requests(), "{}", describe(&total));
}
