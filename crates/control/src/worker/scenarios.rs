//! What happens to a worker, as scripts: `seconds event => effects`. `testing` explains the words.

mod ends;
mod fences;
mod leases;
mod times;

use super::testing::Rig;

/// ARCH-83: from the reservation to the report, step by step.
#[test]
fn an_attempt_goes_from_a_held_core_to_an_acknowledged_report() {
    let mut rig = Rig::new(4);
    rig.play(
        "0    managers m1 m2          =>
         0    m1@5 reserve h1 1       => done
         0    m1@5 dispatch s0.1 h1   => fetch s0.1, done, renew 1 at m1 s0.1
         0.1  s0.1 fetched            => prepare s0.1 on 0
         0.2  renewal 1 granted       => gate s0.1 6
         0.3  s0.1 prepared           => report 1 m1 s0.1 ready
         0.4  report 1 taken          =>
         0.5  m1@5 start s0.1 in 500ms => done, start s0.1 at 1
         1    tick                    =>
         1.5  tick                    => renew 2 at m1 s0.1
         1.6  renewal 2 granted       => gate s0.1 7.5
         2    s0.1 completed          => store s0.1 completed, report 2 m1 s0.1 completed
         2.1  s0.1 stored             =>
         2.2  report 2 taken          =>
         3    m1 forget s0.1          => remove s0.1, done
         4    m1 inspect              => 4/4 free; ",
    );
    assert_eq!(rig.worker.counts().attempts_completed, 1);
    assert!(rig.worker.outbox().is_empty());
}

/// ARCH-84, ARCH-86, ARCH-91: the lowest free core is given, and the engine is told which.
#[test]
fn cores_are_given_in_order_of_their_numbers() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1", "s1.1", "s2.1"]).play(
        "1.1  s1.1 completed           => store s1.1 completed, report 4 m1 s1.1 completed
         1.2  m1@5 reserve h2 3        => refused 3 cores: 2 of 4 are free
         1.2  m1@5 reserve h2 2        => done
         1.3  m1@5 dispatch s3.1 h2    => fetch s3.1, done, renew 3 at m1 s0.1+s2.1+s3.1
         1.3  s3.1 fetched             => prepare s3.1 on 1
         1.4  m1@5 dispatch s4.1 h2    => fetch s4.1, done, renew 4 at m1 s0.1+s2.1+s3.1+s4.1
         1.4  s4.1 fetched             => prepare s4.1 on 3
         1.4  m1@5 dispatch s5.1 h2    => refused hold
         1.4  m1@5 reserve h3 1        => refused 1 cores: 0 of 4 are free",
    );
}

/// R14: without a free core a lost shard runs beside another of its workflow, and of no other.
#[test]
fn a_lost_shard_shares_a_core_of_its_workflow() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1", "w1s0.1"]).play(
        "1.1  m1@5 dispatch s1.2 shared    => fetch s1.2, done, renew 3 at m1 s0.1+s1.2+w1s0.1
         1.1  s1.2 fetched                 => prepare s1.2 on 0
         1.2  m1@5 dispatch w2s0.2 shared  => refused 1 cores: 0 of 2 are free
         1.2  m1@5 dispatch s2.2 shared    => fetch s2.2, done, renew 4 at m1 s0.1+s1.2+s2.2+w1s0.1
         1.2  m1@5 dispatch s3.2 shared    => fetch s3.2, done
         1.2  m1@5 dispatch s4.2 shared    => refused 1 cores: 0 of 2 are free
         1.25 tick                         => renew 5 at m1 s0.1+s1.2+s2.2+s3.2+w1s0.1
         1.3  s0.1 completed               => store s0.1 completed, report 3 m1 s0.1 completed
         1.3  m1@5 reserve h2 1            => refused 1 cores: 0 of 2 are free
         1.4  w1s0.1 completed             => store w1s0.1 completed, report 4 m1 w1s0.1 completed
         1.4  m1@5 reserve h2 1            => done",
    );
}

/// Each row is issued once: rows that come again, or late, are not given again.
#[test]
fn rows_are_given_once_in_rising_order() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 wants rows          => report 2 m1 s0.1 wants rows
         1.1  s0.1 wants rows          =>
         1.2  report 2 taken           =>
         1.3  m1@5 rows s0.1 0 100     => rows s0.1 0..100, done
         1.3  m1@5 rows s0.1 0 100     => done
         1.4  s0.1 wants rows          => report 3 m1 s0.1 wants rows
         1.5  m1@5 rows s0.1 0 100     => done, renew 2 at m1 s0.1
         1.6  m1@5 rows s0.1 100 200   => rows s0.1 100..200, done
         1.7  m1@5 rows s0.1 200 200   => rows s0.1 200..200, done
         1.8  m1@5 rows s1.1 200 300   => refused attempt",
    );
    assert_eq!(rig.worker.counts().rows_repeated, 2);
}

/// A late duplicate of a steering command does not undo a later one, and attempts that come later
/// follow the last.
#[test]
fn steering_is_numbered_and_kept_for_attempts_that_come_later() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 steer #1 pause        => s0.1 pause, done
         1.1  m1@5 steer #2 resume       => s0.1 resume, done
         1.1  m1@5 steer #1 pause        => done
         1.1  m1@5 steer #3 vus 40       => s0.1 vus 40, done
         1.2  m2@9 steer #4 pause        => s0.1 pause, done
         1.3  m2@9 reserve h2 1          => done
         1.3  m2@9 dispatch s1.1 h2      => fetch s1.1, done, renew 2 at m1 s0.1+s1.1
         1.3  s1.1 fetched               => prepare s1.1 on 1
         1.3  s1.1 prepared              =>
         1.3  m2@9 start s1.1 in 0ms     => done
         1.4  renewal 2 granted          => gate s0.1 7.3, gate s1.1 7.3, s1.1 vus 40, start s1.1 at 1.3, s1.1 pause",
    );
}

/// R5a: a retry joins the schedule where the start says that it stands, and the first start stands.
#[test]
fn a_retry_joins_the_schedule_where_the_start_says() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    managers m1                       =>
         0    m1@5 reserve h1 1                 => done
         0    m1@5 dispatch s0.2 h1             => fetch s0.2, done, renew 1 at m1 s0.2
         0    m1@5 start s0.2 in 100ms from 30s => done
         0.1  m1@5 start s0.2 in 100ms from 99s => done
         0.2  s0.2 fetched                      => prepare s0.2 on 0
         0.3  renewal 1 granted                 => gate s0.2 6
         0.4  s0.2 prepared                     => start s0.2 at 0.1 from 30",
    );
}
