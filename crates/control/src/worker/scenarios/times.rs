//! Time: what takes too long is given up or ended, and what is asked for more gets it while it
//! moves.

use super::super::testing::{Rig, at, run};
use super::super::*;
use crate::message::Renewal;

/// CORE-110, LIFE-72: when the job's time is nearly over and something was done, more is asked for;
/// again only when more was done since.
#[test]
fn more_time_is_asked_for_while_there_is_progress() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1                => done
         0    managers m1                      =>
         0    m1@5 dispatch s0.1 h1 left 11s   => fetch s0.1, done, renew 1 at m1 s0.1
         0    s0.1 fetched                     => prepare s0.1 on 0
         0    renewal 1 granted                => gate s0.1 6
         0    s0.1 prepared                    => report 1 m1 s0.1 ready
         0    m1@5 start s0.1 in 0ms           => done, start s0.1 at 0
         0.9  s0.1 progress                    =>
         1    tick                             => report 2 m1 more time
         1    report 2 taken                   =>
         1.5  tick                             => renew 2 at m1 s0.1
         1.5  renewal 2 granted                => gate s0.1 7.5
         3    tick                             => renew 3 at m1 s0.1
         3    renewal 3 granted                => gate s0.1 9
         4.5  tick                             => renew 4 at m1 s0.1
         4.5  renewal 4 granted                => gate s0.1 10.5
         6    tick                             => renew 5 at m1 s0.1
         6    renewal 5 granted                => gate s0.1 12",
    );
    assert_eq!(rig.worker.counts().tells_sent, 2, "nothing was done since, so nothing is asked");
}

/// ARCH-99: what does not end is asked, forced, killed and given up; its core stays taken while its
/// thread lives.
#[test]
fn an_attempt_that_hangs_is_ended_by_force() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1                    => done
         0    managers m1                          =>
         0    m1@5 dispatch s0.1 h1 at most 2s     => fetch s0.1, done, renew 1 at m1 s0.1
         0    s0.1 fetched                         => prepare s0.1 on 0
         0    renewal 1 granted                    => gate s0.1 6
         0    s0.1 prepared                        => report 1 m1 s0.1 ready
         0    m1@5 start s0.1 in 0ms               => done, start s0.1 at 0
         1.5  s0.1 progress                        => renew 2 at m1 s0.1
         1.6  renewal 2 granted                    => gate s0.1 7.5
         2    tick                                 => end s0.1
         3    tick                                 => renew 3 at m1 s0.1
         3    renewal 3 granted                    => gate s0.1 9
         4.5  tick                                 => renew 4 at m1 s0.1
         4.5  renewal 4 granted                    => gate s0.1 10.5
         6    tick                                 => renew 5 at m1 s0.1
         7    tick                                 => shut s0.1, halt s0.1
         9    tick                                 => kill s0.1
         9.5  s0.1 abandoned                       =>
         10.5 tick                                 => store s0.1 failed, report 2 m1 s0.1 failed
         11   m1@5 reserve h2 1                    => refused 1 cores: 0 of 1 are free
         12   s0.1 stopped                         =>
         12   m1@5 reserve h2 1                    => done",
    );
    assert_eq!(rig.error("s0.1"), "it had not ended 2.0 s after its start");
    let report = rig.worker.outbox().get(run("s0.1")).unwrap();
    assert_eq!(report.counters.issued, 10);
    assert_eq!(report.totals, [1, 2, 3], "what its thread had handed over is told (P5)");
    assert_eq!(rig.worker.counts().abandoned, 1);
}

/// A pause is no part of the time that an attempt may run.
#[test]
fn a_paused_attempt_does_not_run_out_of_time() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]);
    let keep = |rig: &mut Rig, from: u32, to: u32| {
        for second in from..to {
            rig.now = at(f64::from(second));
            let effects = rig.step(Event::Tick);
            for effect in effects {
                let Effect::SendRenewal { number, .. } = effect else { panic!("{effect:?}") };
                let Run { shard, attempt } = run("s0.1");
                let answers =
                    vec![(shard, attempt, Renewal::Granted { units_end: None, steering: None })];
                rig.step(Event::RenewalAnswered { number, answers });
            }
        }
    };
    keep(&mut rig, 2, 31);
    rig.play("31 m1@5 steer #1 pause => s0.1 pause, done");
    keep(&mut rig, 32, 131);
    rig.play("131 m1@5 steer #2 resume => s0.1 resume, done");
    keep(&mut rig, 132, 161);
    rig.play("161 tick => end s0.1");
}

/// Preparing has a deadline; blobs are asked for again until then, and the report says what was
/// wrong.
#[test]
fn what_cannot_be_fetched_is_given_up_in_time() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1      => done
         0    m1@5 dispatch s0.1 h1  => fetch s0.1, done
         0.1  s0.1 unfetched         =>
         0.6  tick                   => fetch s0.1
         0.7  s0.1 unfetched         =>
         60   tick                   => store s0.1 interrupted, report 1 m1 s0.1 interrupted",
    );
    assert_eq!(rig.error("s0.1"), "not prepared within 60.0 s: no manager has it");
}

/// What is ready and never started does not wait for ever.
#[test]
fn what_nobody_starts_is_given_up() {
    let mut rig = Rig::new(2);
    rig.play(
        "0    m1@5 reserve h1 2      => done
         0    m1@5 dispatch s0.1 h1  => fetch s0.1, done
         0    s0.1 fetched           => prepare s0.1 on 0
         0    s0.1 prepared          =>
         299  tick                   =>
         300  tick                   => shut s0.1, halt s0.1
         300  s0.1 stopped           => store s0.1 interrupted, report 1 m1 s0.1 interrupted",
    );
    assert_eq!(rig.error("s0.1"), "prepared, but no manager granted it a lease within 300.0 s");
}
