//! Latency, errors and stalls apply to every route but `/volley/*`.
//!
//! Times are only ever compared from below, or with bounds no working machine comes near.

use crate::common::Client;
use std::time::{Duration, Instant};
use target::{Latency, Stall, Target, TargetConfig};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (what(), start.elapsed())
}

#[test]
fn latency_and_delay_add_up() {
    let config = TargetConfig { latency: Latency::Fixed(ms(40)), ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut client = Client::to(target.addr());
    let (answer, took) = timed(|| client.get("/"));
    assert!(answer.status == 200 && took >= ms(40), "{took:?}");
    let (answer, took) = timed(|| client.get("/delay/60"));
    assert!(answer.status == 200 && took >= ms(100), "{took:?}");
    assert_eq!(client.get("/delay/x").status, 400);
}

#[test]
fn the_asked_for_share_of_requests_fails() {
    let config = TargetConfig { error_rate: 0.25, ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut client = Client::to(target.addr());
    let failed = (0..2000).filter(|_| client.get("/").status == 500).count();
    // the standard deviation is 19
    assert!((380..=620).contains(&failed), "{failed} of 2000");
    assert_eq!(target.counts().total, 2000, "failed ones are counted as well");
    assert!((0..50).all(|_| client.get("/volley/seen").status == 200));
}

#[test]
fn a_stall_holds_what_arrives_in_it_until_it_ends() {
    let stall = Stall { at: ms(100), for_: ms(400) };
    let config = TargetConfig { stalls: vec![stall], ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut client = Client::to(target.addr());
    std::thread::sleep(ms(150)); // the clock has not started: there was no request

    let first = Instant::now();
    assert_eq!(client.get("/").status, 200);
    while first.elapsed() < ms(120) {
        std::thread::sleep(ms(5));
    }
    assert_eq!(client.get("/").status, 200);
    assert!(first.elapsed() >= ms(500), "held: {:?}", first.elapsed());
    let counts = target.counts();
    assert_eq!((counts.total, counts.stalled), (2, 1));
    // after the window nothing is held
    client.get("/");
    assert_eq!(target.counts().stalled, 1);
}

#[test]
fn a_request_being_answered_when_a_stall_begins_is_held_too() {
    let stall = Stall { at: ms(50), for_: ms(300) };
    let latency = Latency::Fixed(ms(100));
    let config = TargetConfig { latency, stalls: vec![stall], ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut client = Client::to(target.addr());
    let (_, took) = timed(|| client.get("/"));
    assert!(took >= ms(350), "arrived at 0, ready at 100, held until 350: {took:?}");
}

#[test]
fn counting_does_not_wait_for_a_stall_and_control_is_not_held() {
    let stall = Stall { at: ms(0), for_: Duration::from_secs(60) };
    let config = TargetConfig { stalls: vec![stall], ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut held: Vec<_> = (0..20).map(|_| Client::to(target.addr())).collect();
    for client in &mut held {
        client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    }
    let mut control = Client::to(target.addr());
    while control.get("/volley/seen").json()["total"] != 20 {
        std::thread::yield_now();
    }
    let (counts, took) = timed(|| target.stop());
    assert_eq!(counts.total, 20);
    assert!(took < Duration::from_secs(30), "stopping does not wait for the stall: {took:?}");
}

#[test]
fn a_reset_starts_the_clock_of_the_stalls_anew() {
    let stall = Stall { at: ms(0), for_: ms(100) };
    let config = TargetConfig { stalls: vec![stall], ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut client = Client::to(target.addr());
    for _ in 0..2 {
        let (_, took) = timed(|| client.get("/"));
        assert!(took >= ms(100), "{took:?}");
        target.reset();
    }
}
