//! Every way to be bad, and what the engine makes of it: the right kind of error, bounded memory,
//! an end on time.

use std::time::Duration;

use crate::common::{Run, Runner, describe, plan_with};
use stats::ErrorKind;
use target::hostile::{Behaviour, Hostile};

const ITERATIONS: u64 = 6;
const BODY_LIMIT: u64 = 1 << 20;

/// What must come of a request.
#[derive(Debug, PartialEq)]
enum Expect {
    Answer(u16),
    Error(ErrorKind),
}

fn expected(behaviour: Behaviour) -> Expect {
    use Behaviour as B;
    use ErrorKind as K;
    use Expect::{Answer, Error};
    match behaviour {
        B::Refuse => Error(K::Refused),
        B::NeverAnswer => Error(K::Timeout),
        // The connection broke before the answer was complete, wherever in the answer that was.
        B::CloseAtOnce | B::CloseMidHead | B::CloseMidBody | B::ResetMidBody => Error(K::Reset),
        B::Garbage | B::EndlessHeader | B::HugeHead => Error(K::Protocol),
        B::WrongChunkSize | B::GarbageChunkSize => Error(K::Protocol),
        B::TwoContentLengths | B::NegativeContentLength | B::Status99999 => Error(K::Protocol),
        B::EndlessChunked | B::EndlessUntilClose | B::GzipBomb | B::BadGzip => Error(K::Body),
        B::RedirectLoop | B::RedirectToScheme => Error(K::Redirect),
        B::SlowDrip => Error(K::Timeout),
        B::CloseAfterEach | B::CloseOnReuse | B::Interim | B::Http10 | B::BareLineFeed => {
            Answer(200)
        }
        B::RedirectToHost | B::HeadWithLength => Answer(200),
        B::NoContentWithLength => Answer(204),
        B::NotModifiedWithLength => Answer(304),
    }
}

fn run(hostile: &Hostile, method: &str) -> Run {
    // Reading the body makes the engine keep and decode it.
    let steps = format!("{{ {method}: /, check: [ {{ body: {{ size: '< 100GB' }} }} ] }}");
    let defaults = format!("timeout: 400ms, body_limit: {BODY_LIMIT}B");
    let load = format!("vus: 2, iterations: {ITERATIONS}, max_duration: 10s, graceful_stop: 0s");
    Runner::to(hostile.url()).run(&plan_with(&defaults, &load, &steps))
}

#[test]
fn each_misbehaviour_is_counted_as_what_it_is() {
    for &behaviour in Behaviour::ALL {
        let hostile = Hostile::start(behaviour).unwrap();
        let run = run(&hostile, "get");
        let total = run.total();
        let counts = describe(&total);
        assert_eq!(run.iterations().iterations, ITERATIONS, "{behaviour:?}: {counts}");
        match expected(behaviour) {
            Expect::Answer(status) => {
                let last = total.status.iter().find(|(code, _)| *code == status);
                assert_eq!(last, Some((status, ITERATIONS)), "{behaviour:?}: {counts}");
                assert_eq!(total.failed, 0, "{behaviour:?}: {counts}");
            }
            Expect::Error(kind) => {
                let errors = total.errors[kind as usize];
                assert_eq!(errors, ITERATIONS, "{behaviour:?}: {counts}");
                assert_eq!(total.failed, ITERATIONS, "{behaviour:?}: {counts}");
                assert!(!run.message(kind).is_empty(), "{behaviour:?} has no message");
            }
        }
        let seen = hostile.requests();
        if [Behaviour::CloseAtOnce, Behaviour::CloseAfterEach].contains(&behaviour) {
            // Written while the server was closing, a request is on the way and not in its log.
            let may_be = total.completed..=total.sent;
            assert!(may_be.contains(&seen), "{behaviour:?}: {seen} seen, {counts}");
        } else {
            assert_eq!(total.sent, seen, "{behaviour:?}: {counts}");
        }
        // Three users' worth of timeouts, one after the other, and room for a slow machine.
        let limit = Duration::from_millis(400 * ITERATIONS / 2 + 1000);
        assert!(run.0.elapsed < limit, "{behaviour:?} took {:?}", run.0.elapsed);
    }
}

#[test]
fn endless_answers_are_read_no_further_than_their_limit() {
    let behaviours =
        [Behaviour::EndlessChunked, Behaviour::EndlessUntilClose, Behaviour::EndlessHeader];
    for behaviour in behaviours {
        let hostile = Hostile::start(behaviour).unwrap();
        let run = run(&hostile, "get");
        let received = run.total().bytes_received / ITERATIONS;
        // One reading of the socket may go beyond the limit.
        assert!(received <= BODY_LIMIT + (128 << 10), "{behaviour:?}: {received} bytes each");
        // The server may have filled the buffers of the kernel as well, and no more.
        let sent = hostile.bytes_sent() / ITERATIONS;
        assert!(sent < BODY_LIMIT + (16 << 20), "{behaviour:?}: {sent} bytes sent each");
    }
}

#[test]
fn memory_does_not_follow_the_answer() {
    // A bomb unpacks to 1 GB, and endless answers have no size at all. The limit is 1 MB.
    for behaviour in [Behaviour::GzipBomb, Behaviour::EndlessChunked, Behaviour::HugeHead] {
        let hostile = Hostile::start(behaviour).unwrap();
        let run = run(&hostile, "get");
        let megabytes = run.0.generator.memory_max_bytes >> 20;
        assert!(megabytes < 200, "{behaviour:?}: {megabytes} MB");
    }
}

#[test]
fn a_body_that_nobody_reads_is_not_unpacked() {
    for behaviour in [Behaviour::GzipBomb, Behaviour::BadGzip] {
        let hostile = Hostile::start(behaviour).unwrap();
        let load = "vus: 2, iterations: 6";
        let plan = plan_with("timeout: 5s", load, "{ get: / }");
        Runner::to(hostile.url()).run(&plan).assert_clean();
    }
}

#[test]
fn answers_without_a_body_leave_the_connection_in_step() {
    for (behaviour, method) in [
        (Behaviour::NoContentWithLength, "get"),
        (Behaviour::NotModifiedWithLength, "get"),
        (Behaviour::HeadWithLength, "head"),
        (Behaviour::Interim, "get"),
        (Behaviour::BareLineFeed, "get"),
    ] {
        let hostile = Hostile::start(behaviour).unwrap();
        let run = run(&hostile, method);
        run.assert_clean();
        assert_eq!(hostile.connections(), 2, "{behaviour:?}: one connection per user");
    }
}

#[test]
fn a_redirect_loop_ends_at_its_limit_and_each_turn_is_counted() {
    let hostile = Hostile::start(Behaviour::RedirectLoop).unwrap();
    let run = run(&hostile, "get");
    let total = run.total();
    // Ten were followed, so eleven were asked for.
    assert_eq!(total.requests, 11 * ITERATIONS, "{}", describe(&total));
    assert_eq!(total.sent, hostile.requests());
    assert!(run.message(ErrorKind::Redirect).contains("10 redirects"));
}

#[test]
fn credentials_stay_behind_when_a_redirect_leaves_the_host() {
    let hostile = Hostile::start(Behaviour::RedirectToHost).unwrap();
    let steps = "{ get: /, auth: { bearer: secret }, headers: { cookie: a=b, x-kept: yes } }";
    Runner::to(hostile.url()).run(&plan_with("", "iterations: 1", steps)).assert_clean();
    let head = hostile.last_head().to_ascii_lowercase();
    assert!(head.starts_with("get /landed "), "{head}");
    assert!(!head.contains("secret") && !head.contains("cookie"), "{head}");
    assert!(head.contains("x-kept: yes"), "{head}");
}

#[test]
fn the_run_ends_on_time_whatever_the_target_does() {
    for &behaviour in Behaviour::ALL {
        let hostile = Hostile::start(behaviour).unwrap();
        // Nothing but the end of the run stops these requests.
        let plan = plan_with(
            "timeout: 60s",
            "vus: 2, duration: 200ms, graceful_stop: 100ms",
            "{ get: / }",
        );
        let run = Runner::to(hostile.url()).run(&plan);
        run.total();
        assert!(run.0.elapsed < Duration::from_millis(1300), "{behaviour:?}: {:?}", run.0.elapsed);
    }
}
