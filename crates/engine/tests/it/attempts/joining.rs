//! A new attempt joins the schedule where it stands (R5a).

use base::clock;
use std::path::Path;
use std::time::Duration;

use engine::attempt::{Ending, Join, Report, ShardControl, ShardSpec, Stop};
use plan::Rate;
use stats::DropCause;

/// What an attempt is granted before anything is known of it.
const FIRST: u64 = 400;

use super::{Led, Whole, load};
use crate::common::recording::{Recording, ok};
use crate::common::{plan, target, url};

fn run(text: &str, target: &str, spec: ShardSpec) -> Whole {
    let led = Led::prepare(&load(text, target, Path::new(".")), spec).ready();
    led.run.start_at(clock::now());
    led.finish().completed()
}

/// Arrivals that were missed are passed over. Whoever leads the job counts them: only there it is
/// known what the attempts before have counted.
#[test]
fn missed_arrivals_are_passed_over() {
    let target = target();
    let text = plan("rate: 100/s, duration: 1s, max_vus: 50", "{ get: / }");
    let elapsed = Duration::from_millis(600);
    let spec = |spent| ShardSpec { join: Join { elapsed, spent }, ..ShardSpec::new(0, 0, 2) };
    // Shard 0 of 2 has arrivals 0, 20 ms, 40 ms ...: thirty of them before 600 ms, twenty after.
    for spent in [0, 12] {
        let whole = run(&text, &url(&target), spec(spent));
        assert_eq!(whole.dropped(DropCause::WorkerLost), 0);
        assert_eq!(whole.iterations().iterations, 20, "{spent} were begun before");
        assert_eq!(whole.last.as_ref().unwrap().taken, 50);
    }
    let whole = run(&text, &url(&target), spec(33));
    assert_eq!(whole.iterations().iterations, 17, "three had been issued ahead");
    assert_eq!(whole.last.as_ref().unwrap().taken, 50);
}

/// The end of the load does not move: who joins late has less time.
#[test]
fn a_late_attempt_ends_with_the_others() {
    let target = target();
    let begun = std::time::Instant::now();
    let spec = ShardSpec {
        join: Join { elapsed: Duration::from_secs(60), ..Join::default() },
        ..ShardSpec::new(0, 0, 1)
    };
    let whole = run(&plan("vus: 2, duration: 60300ms", "{ get: / }"), &url(&target), spec);
    assert!(begun.elapsed() < Duration::from_secs(20), "a third of a second was left");
    assert!(whole.iterations().iterations > 0);
    assert_eq!(whole.dropped(DropCause::WorkerLost), 0, "nothing was scheduled");
}

/// Iterations that may have been issued are not issued again.
#[test]
fn counted_iterations_are_not_issued_twice() {
    for load_text in [
        "executor: shared-iterations, vus: 4, iterations: 100",
        "executor: per-vu-iterations, vus: 4, iterations: 25",
    ] {
        let server = Recording::start(|_| ok(""));
        let spec = ShardSpec {
            join: Join { elapsed: Duration::from_millis(10), spent: 31 },
            ..ShardSpec::new(0, 1, 2)
        };
        let whole = run(&plan(load_text, "{ get: '/${iteration}' }"), &server.url(), spec);
        assert_eq!(whole.iterations().iterations, 19, "{load_text}");
        assert_eq!(whole.last.as_ref().unwrap().taken, 50, "{load_text}");
        let numbers = server.paths().into_iter().map(|path| path[1..].parse::<u64>().unwrap());
        let first = numbers.min().unwrap();
        assert_eq!(first, 1 + 31 * 2, "numbers go on where the last attempt may have been");
    }
}

#[test]
fn an_attempt_of_which_all_is_spent_does_nothing() {
    let target = target();
    let spec = ShardSpec {
        join: Join { elapsed: Duration::from_millis(10), spent: 10 },
        ..ShardSpec::new(0, 0, 1)
    };
    let text = "target: TARGET\nworkflows: [ { name: w, load: { vus: 2, iterations: 10 }, \
                vu_setup: [ { get: /bytes/1 } ], steps: [ { get: / } ] } ]\n";
    let whole = run(text, &url(&target), spec);
    assert_eq!((whole.end.taken, target.counts().total), (10, 0));
}

fn granted(units_end: u64) -> ShardSpec {
    ShardSpec { units_end: Some(units_end), ..ShardSpec::new(0, 0, 1) }
}

/// Until the target has seen so many, and some time longer.
fn until_seen(target: &target::RunningTarget, count: u64) {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while target.counts().total < count && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
}

/// R5a: an attempt that somebody may have to replace goes only as far as it was granted, and says
/// so when it comes to the end of that.
#[test]
fn an_attempt_goes_no_further_than_it_was_granted() {
    for load_text in [
        "executor: shared-iterations, vus: 8, iterations: 1000",
        "executor: per-vu-iterations, vus: 8, iterations: 125",
    ] {
        let target = target();
        let loaded = load(&plan(load_text, "{ get: / }"), &url(&target), Path::new("."));
        let led = Led::prepare(&loaded, granted(FIRST)).ready();
        led.run.start_at(clock::now());
        until_seen(&target, FIRST);
        assert_eq!(target.counts().total, FIRST, "{load_text}: not one more");
        let Report::UnitsWanted = led.next() else { panic!("{load_text}: it says that it waits") };
        led.run.grant_units(FIRST - 1);
        led.run.swap(None, None);
        let Report::Counted(counted) = led.next() else { panic!("counts were asked for") };
        assert_eq!(counted.taken, FIRST, "{load_text}: grants only rise");
        assert!(counted.held >= Duration::from_millis(100), "{load_text}: {:?}", counted.held);
        led.run.grant_units(u64::MAX);
        led.finish().completed();
        assert_eq!(target.counts().total, 1_000, "{load_text}");
    }
}

/// A load that is over, or stopped, does not wait for a grant.
#[test]
fn an_attempt_can_be_stopped_while_it_waits_for_a_grant() {
    let target = target();
    let text = plan("executor: shared-iterations, vus: 8, iterations: 1000", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::prepare(&loaded, granted(FIRST)).ready();
    led.run.start_at(clock::now());
    until_seen(&target, FIRST);
    led.run.stop(Stop::Graceful);
    let whole = led.finish();
    assert_eq!(whole.how, Ending::Stopped);
    assert_eq!((whole.end.taken, target.counts().total), (FIRST, FIRST));
    assert_eq!(whole.dropped(DropCause::Stopped), 600, "nobody will run the rest");
}

/// R27: a lease that ran out is not the end of the load. What was not begun is left for the next
/// attempt, or for whoever leads the job to count.
#[test]
fn an_attempt_that_is_shut_out_drops_nothing() {
    let target = target();
    let text = plan("executor: shared-iterations, vus: 8, iterations: 1000", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::prepare(&loaded, granted(FIRST)).ready();
    led.run.start_at(clock::now());
    until_seen(&target, FIRST);
    led.permit.close();
    let whole = led.finish();
    assert_eq!(whole.how, Ending::LeaseLapsed);
    assert_eq!((whole.end.taken, whole.dropped(DropCause::TimeOver)), (FIRST, 0));
}

/// Earlier attempts of which nothing was heard count for more than there was to do.
#[test]
fn no_more_is_spent_than_there_was() {
    let target = target();
    let spec = ShardSpec {
        join: Join { elapsed: Duration::from_millis(10), spent: 2 * FIRST },
        ..ShardSpec::new(0, 0, 1)
    };
    let text = plan("executor: shared-iterations, vus: 2, iterations: 10", "{ get: / }");
    let whole = run(&text, &url(&target), spec);
    assert_eq!((whole.end.taken, target.counts().total), (10, 0));
}

/// A rate that was set before the attempt began holds for it, too: all shards agree on the numbers.
#[test]
fn earlier_orders_hold_for_a_later_attempt() {
    let target = target();
    let rate = |events| Rate { events, per: Duration::from_secs(1) };
    let spec = ShardSpec {
        join: Join { elapsed: Duration::from_millis(500), ..Join::default() },
        rates: vec![
            (rate(200), Duration::from_millis(100)),
            (rate(50), Duration::from_millis(300)),
        ],
        ..ShardSpec::new(0, 0, 1)
    };
    let text = plan("rate: 100/s, duration: 1s, max_vus: 50", "{ get: / }");
    let whole = run(&text, &url(&target), spec);
    // 10 in the first 100 ms, 40 in the next 200, 10 in the next 200, then 25 in half a second.
    assert_eq!((whole.end.taken, whole.iterations().iterations), (85, 25));
}

/// R5a: the word of the start counts, not what was known when it was prepared; and a load that is
/// to begin later has missed nothing before that.
#[test]
fn the_start_says_where_the_schedule_stands() {
    let target = target();
    let start = |load_text: &str, elapsed| {
        let text = plan(load_text, "{ get: / }");
        let loaded = load(&text, &url(&target), Path::new("."));
        let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
        led.run.start_from(clock::now(), Duration::from_millis(elapsed));
        let whole = led.finish().completed();
        (whole.iterations().iterations, whole.end.taken)
    };
    assert_eq!(start("rate: 100/s, duration: 1s, max_vus: 50", 600), (40, 100));
    assert_eq!(start("rate: 100/s, duration: 1s, max_vus: 50, start_after: 500ms", 600), (90, 100));
    assert_eq!(
        start("rate: 100/s, duration: 500ms, max_vus: 50, start_after: 500ms", 400),
        (50, 50)
    );
}
