//! Time-outs and extensions within one datacenter, as scenarios.

use super::*;

fn at(seconds: f64) -> Moment {
    Moment::since_boot(Duration::from_secs_f64(seconds))
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn job(timeout: f64) -> Timeouts {
    let budget = Budget::new(Some(secs(timeout)), secs(120.0));
    Timeouts::take_up(budget, Duration::ZERO, Duration::ZERO, at(0.0))
}

/// LIFE-42, LIFE-48: strictly later, and the reason has the numbers.
#[test]
fn a_job_has_had_its_time() {
    let job = job(300.0);
    assert_eq!(job.check(at(300.0)), None);
    assert_eq!(
        job.check(at(310.5)).unwrap().to_string(),
        "job timeout exceeded (310.5s > 300.0s, base=300.0s + extensions=0.0s)"
    );
    assert!(job.check(job.due().unwrap()).is_some());
}

/// No progress for more than 120 s while something runs; exactly 120 s is not.
#[test]
fn nothing_moves_any_more() {
    let mut job = job(3_600.0);
    job.set_running(true, at(10.0));
    assert_eq!(job.check(at(130.0)), None);
    assert_eq!(
        job.check(at(131.5)).unwrap().to_string(),
        "job stuck (no progress for 121.5s, never extended)"
    );
    job.progressed(at(131.0));
    assert_eq!(job.check(at(250.0)), None);
    assert!(job.check(job.due().unwrap()).is_some());
}

/// A job that waits for cores for ten minutes is not stuck, and a long steady run is not either.
#[test]
fn waiting_is_not_being_stuck() {
    let mut job = job(36_000.0);
    assert_eq!(job.check(at(600.0)), None);
    job.set_running(true, at(600.0));
    for second in (600..2_400).step_by(100) {
        job.progressed(at(f64::from(second)));
        assert_eq!(job.check(at(f64::from(second) + 100.0)), None);
    }
}

/// A successor whose clock is a million seconds away fires at the same age of the job, and the gap
/// counts as time but not as a standstill.
#[test]
fn a_takeover_goes_on_with_the_same_time() {
    let budget = Budget::new(Some(secs(300.0)), secs(120.0));
    let (far, seventy) = (1_000_000.0, secs(70.0));
    let mut job = Timeouts::take_up(budget, seventy, Duration::ZERO, at(far));
    job.set_running(true, at(far));
    job.progressed(at(far + 200.0));
    assert_eq!(job.check(at(far + 230.0)), None);
    assert!(matches!(job.check(at(far + 230.5)), Some(Expired::Overall { .. })));
}

/// GATE-99: one worker's 15, 7.5 and 3.75 s; they outlive their owner.
#[test]
fn extensions_move_the_end() {
    let mut owner = job(300.0);
    let worker = NodeId(1);
    assert_eq!(owner.ask(worker, 1, false, at(50.0)), Ok(secs(15.0)));
    assert_eq!(owner.ask(worker, 2, false, at(100.0)), Ok(secs(22.5)));
    assert_eq!(owner.ask(worker, 3, false, at(150.0)), Ok(secs(26.25)));
    assert_eq!(owner.check(at(326.25)), None);
    assert!(owner.check(at(326.3)).is_some());

    let budget = Budget::new(Some(secs(300.0)), secs(120.0));
    let next = Timeouts::take_up(budget, secs(70.0), secs(15.0), at(9.0));
    assert_eq!(next.check(at(9.0 + 245.0)), None);
    assert!(next.check(at(9.0 + 245.1)).is_some());
}

/// CORE-112: the sixth is denied, and so is one without progress or for a worker under suspicion.
#[test]
fn extensions_come_to_an_end() {
    let grants: Vec<f64> = (0..6).map(|n| grant(n).as_secs_f64()).collect();
    assert_eq!(grants, [15.0, 7.5, 3.75, 1.875, 1.0, 1.0]);
    // CORE-114: the first needs no progress.
    assert!(job(300.0).ask(NodeId(1), 0, false, at(1.0)).is_ok());
    let mut job = job(300.0);
    assert_eq!(job.ask(NodeId(1), 0, true, at(1.0)), Err(Denied::Suspect));
    assert!(job.ask(NodeId(1), 5, false, at(1.0)).is_ok());
    let denied = Denied::NoProgress { last: 5, now: 5 };
    assert_eq!(job.ask(NodeId(1), 5, false, at(2.0)), Err(denied));
    for progress in 6..10 {
        assert!(job.ask(NodeId(1), progress, false, at(3.0)).is_ok());
    }
    assert_eq!(job.ask(NodeId(1), 99, false, at(4.0)), Err(Denied::Exhausted { most: 5 }));
}

/// Workers that are extended beside each other do not add up, and the whole is bounded.
#[test]
fn a_thousand_workers_move_the_end_once() {
    let mut job = job(20.0);
    for worker in 0..1_000 {
        for progress in 1..=5 {
            let _ = job.ask(NodeId(worker), progress, false, at(1.0));
        }
    }
    assert_eq!(job.check(at(30.0)), None);
    assert!(job.check(at(30.1)).is_some(), "at most half of the timeout");
}

/// LIFE-82: a worker that dies takes no extension away; one that was extended is not stuck.
#[test]
fn a_lost_worker_leaves_what_it_was_granted() {
    let mut job = job(300.0);
    job.set_running(true, at(0.0));
    job.ask(NodeId(1), 1, false, at(100.0)).unwrap();
    job.forget(NodeId(1));
    assert_eq!(job.check(at(219.0)), None);
    assert!(matches!(job.check(at(221.0)), Some(Expired::Stuck { .. })));
    job.progressed(at(300.0));
    assert_eq!(job.check(at(314.0)), None);
}
