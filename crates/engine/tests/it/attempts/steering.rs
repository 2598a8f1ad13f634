//! Attempts are steered like local runs: pause, resume, virtual users, rate, stop.

use base::clock;
use std::path::Path;
use std::time::Duration;

use engine::attempt::{Ending, Report, ShardControl, ShardSpec, Stop};
use plan::Rate;

use super::{Led, load};
use crate::common::{eventually, plan, target, url};

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn a_paused_attempt_sends_nothing_and_goes_on_afterwards() {
    let target = target();
    let text = plan("rate: 100/s, duration: 600ms, max_vus: 100", "{ get: / }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 1));
    let led = led.ready();
    led.run.start_at(clock::now());
    sleep(200);
    led.run.pause(clock::now());
    sleep(100);
    let before = target.counts().total;
    sleep(300);
    assert_eq!(target.counts().total, before, "the schedule stands still");
    assert!(before < 60);
    led.run.resume(clock::now());
    let whole = led.finish().completed();
    assert_eq!(whole.iterations().iterations, 60, "and nothing of it is lost");
}

#[test]
fn an_attempt_that_begins_paused_waits() {
    let target = target();
    let spec = ShardSpec { paused: true, ..ShardSpec::new(0, 0, 1) };
    let text = plan("vus: 2, iterations: 6", "{ get: / }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), spec).ready();
    led.run.start_at(clock::now());
    sleep(200);
    assert_eq!(target.counts().total, 0);
    led.run.resume(clock::now());
    assert_eq!(led.finish().completed().iterations().iterations, 6);
}

#[test]
fn virtual_users_and_rates_can_be_set() {
    let target = target();
    let text = plan("vus: 2, duration: 60s", "{ get: /delay/20 }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 2));
    let led = led.ready();
    led.run.start_at(clock::now());
    led.run.set_vus(11);
    let alive = eventually(
        || {
            led.run.swap(None, None);
            match led.next() {
                Report::Counted(counted) => counted.vus,
                _ => 0,
            }
        },
        |vus| *vus == 6,
    );
    assert_eq!(alive, 6, "this shard's share of eleven");
    led.run.stop(Stop::Graceful);
    let whole = led.finish();
    assert_eq!(whole.how, Ending::Stopped);
    assert_eq!(whole.total().interrupted, 0, "running iterations came to their end");

    let text = plan("rate: 10/s, duration: 600ms, max_vus: 100", "{ get: / }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 1));
    let led = led.ready();
    led.run.set_rate(Rate { events: 100, per: Duration::from_secs(1) }, Duration::from_millis(400));
    led.run.start_at(clock::now());
    let whole = led.finish().completed();
    assert_eq!(whole.iterations().iterations, 4 + 20);
}

/// Windows come when they are asked for, and their sum is the whole.
#[test]
fn windows_are_the_attempts_own_and_lose_nothing() {
    let target = target();
    let text = plan("vus: 3, duration: 700ms", "{ get: / }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 1));
    let led = led.ready();
    led.run.start_at(clock::now());
    for _ in 0..6 {
        sleep(100);
        led.run.swap(None, None);
    }
    let whole = led.finish().completed();
    let sent = whole.total().sent;
    assert_eq!(eventually(|| target.counts().total, |seen| *seen >= sent), sent);
}

#[test]
fn stop_before_the_start_is_an_end() {
    let target = target();
    let text = plan("vus: 2, duration: 60s", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.stop(Stop::Graceful);
    assert_eq!(led.finish().how, Ending::Stopped);
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.start_at(clock::now().after(Duration::from_secs(3600)));
    led.run.stop(Stop::Now);
    assert_eq!(led.finish().how, Ending::Stopped);
    assert_eq!(target.counts().total, 0);
}

/// A rate that was so low that nothing was left to do is followed when it is raised again; and one
/// who joins issues nothing of before, whenever it hears of a change.
#[test]
fn a_rate_is_followed_up_and_down_and_by_those_who_join() {
    let target = target();
    let per_second = |events| Rate { events, per: Duration::from_secs(1) };
    let text = plan("rate: 100/s, duration: 1500ms, max_vus: 100", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.set_rate(per_second(0), Duration::from_millis(200));
    led.run.start_at(clock::now());
    sleep(400);
    led.run.set_rate(per_second(50), Duration::from_millis(1000));
    assert_eq!(led.finish().completed().iterations().iterations, 20 + 25);

    // It hears only later that the rate was raised before it joined.
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.start_from(clock::now(), Duration::from_millis(1000));
    led.run.set_rate(per_second(200), Duration::from_millis(500));
    let whole = led.finish().completed();
    let begun = whole.iterations().iterations;
    assert!(
        (100..=150).contains(&begun),
        "{begun}: half a second at 200/s, and a few before it heard"
    );
}
