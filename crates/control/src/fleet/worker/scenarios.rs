//! Scenarios of the specification as scripts: `seconds event => effects`. The words are explained in `testing`.

use super::testing::{Rig, at, run};
use super::*;
use crate::ledger::AttemptStatus;

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
         0.3  s0.1 prepared           => tell 1 m1 s0.1 ready
         0.4  tell 1 taken            =>
         0.5  m1@5 start s0.1 in 500ms => done, start s0.1 at 1
         1    tick                    =>
         1.5  tick                    => renew 2 at m1 s0.1
         1.6  renewal 2 granted       => gate s0.1 7.5
         2    s0.1 completed          => store s0.1 completed, tell 2 m1 s0.1 completed
         2.1  s0.1 stored             =>
         2.2  tell 2 taken            =>
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
        "1.1  s1.1 completed           => store s1.1 completed, tell 4 m1 s1.1 completed
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

/// ARCH-59 to ARCH-62 as R3 has them, ARCH-SC-38: lower is refused, equal repeats the first answer, higher enters.
#[test]
fn a_lower_attempt_is_refused_an_equal_one_repeats_a_higher_one_enters() {
    let mut rig = Rig::new(4);
    rig.play(
        "0  m1@5 reserve h1 4       => done
         0  m1@5 dispatch s0.5 h1   => fetch s0.5, done
         0  m1@5 dispatch s0.4 h1   => refused attempt of the shard: stale
         0  m1@5 dispatch s0.5 h1   => done
         0  m1 inspect              => 0/4 free; s0.5 preparing@5
         0  m1@5 dispatch s0.6 h1   => store s0.5 stopped, fetch s0.6, done, tell 1 m1 s0.5 stopped
         0  m1@5 dispatch s0.5 h1   => refused attempt of the shard: stale
         0  m1@4 dispatch s1.1 h1   => refused epoch of the job: stale
         0  m1 inspect              => 1/4 free; s0.6 preparing@5 s0.5 ended@5",
    );
    assert_eq!(rig.worker.fence_counts().0.stale, 3);
}

/// ARCH-SC-39, ARCH-ISS-21: the fence outlives the attempt.
#[test]
fn a_delayed_duplicate_of_a_finished_dispatch_runs_nothing() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 completed          => store s0.1 completed, tell 2 m1 s0.1 completed
         1.2  m1 forget s0.1          => remove s0.1, done
         1.3  m1@5 dispatch s0.1 h1   => done
         1.3  m1@5 start s0.1 in 0ms  => refused attempt
         1.4  m1 inspect              => 4/4 free; ",
    );
}

/// ARCH-SC-63, ARCH-ISS-36: a stop that overtakes its dispatch bars it.
#[test]
fn a_stop_that_overtakes_its_dispatch_bars_it() {
    let mut rig = Rig::new(4);
    rig.play(
        "0  m1@5 reserve h1 1       => done
         0  m1@5 stop s0.1 now      => is stopped
         0  m1@5 dispatch s0.1 h1   => refused attempt of the shard: stale
         0  m1 inspect              => 3/4 free; ",
    );
}

/// S61, S64: an owner that was replaced while it stood still is refused, and its holds are given back.
#[test]
fn a_replaced_owner_is_refused_and_its_holds_are_given_back() {
    let mut rig = Rig::new(4);
    rig.play(
        "0  m1@5 reserve h1 2       => done
         0  m1@5 dispatch s0.1 h1   => fetch s0.1, done
         1  m2@9 reserve h1 2       => done
         1  m1 inspect              => 1/4 free; s0.1 preparing@9
         2  m1@5 dispatch s1.1 h1   => refused epoch of the job: stale
         2  m1@5 start s0.1 in 0ms  => refused epoch of the job: stale
         2  m1@5 stop s0.1 now      => refused epoch of the job: stale
         2  m1@5 steer #1 pause     => refused epoch of the job: stale
         2  m1@5 release h1         => refused epoch of the job: stale
         2  m2@9 dispatch s1.1 h1   => fetch s1.1, done",
    );
    assert_eq!(rig.worker.counts().holds_superseded, 1);
}

/// ARCH-108, SC-13, X29: a new owner takes running attempts over, and nothing is interrupted or run again.
#[test]
fn a_new_owner_takes_over_what_runs() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1", "s1.1"]).play(
        "1.2  s1.1 completed            => store s1.1 completed, tell 3 m1 s1.1 completed
         1.3  m2 inspect                => 3/4 free; s0.1 running@5 s1.1 ended@5
         1.4  m2@9 install              => 3/4 free; s0.1 running@9 s1.1 ended@9
         1.4  m1@5 install              => refused epoch of the job: stale
         1.4  m2@9 dispatch s0.1 h1     => done
         1.4  m2@9 start s0.1 in 100ms  => done
         1.5  m2 inspect                => 3/4 free; s0.1 running@9 s1.1 ended@9
         2    tell 3 failed             => renew 3 at m1 s0.1
         2.1  renewal 3 granted         => gate s0.1 8
         2.2  tick                      => tell 4 m2 s1.1 completed
         2.3  m2 forget s1.1            => remove s1.1, done
         2.4  s0.1 completed            => store s0.1 completed, tell 5 m2 s0.1 completed",
    );
    assert_eq!(rig.worker.counts().forced, 0);
}

/// ARCH-110, ARCH-111, ARCH-SC-49: who does not answer is passed over; what runs is not interrupted.
#[test]
fn renewals_go_to_the_next_manager_while_the_lease_runs_on() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.5   tick               => renew 2 at m1 s0.1
         2.25  tick               => renew 3 at m2 s0.1
         2.3   renewal 3 failed   => renew 4 at m3 s0.1
         2.4   renewal 4 failed   =>
         2.775 tick               => renew 5 at m1 s0.1
         2.8   renewal 5 granted  => gate s0.1 8.775
         2.9   renewal 3 granted  =>
         4.275 tick               => renew 6 at m1 s0.1",
    );
    assert_eq!(rig.worker.counts().lapses, 0);
}

/// ARCH-SC-50: losing a manager that is not asked changes nothing; losing the one that is asked, the next is.
#[test]
fn losing_another_manager_changes_nothing() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.1   managers m1 m3       =>
         1.5   tick                 => renew 2 at m1 s0.1
         1.6   managers m3          => renew 3 at m3 s0.1
         1.7   renewal 3 granted    => gate s0.1 7.6
         1.8   renewal 2 granted    =>
         3.1   tick                 => renew 4 at m3 s0.1",
    );
}

/// R4, ARCH-ISS-24: cut off from all managers a worker stops by itself, for good.
#[test]
fn a_lease_that_runs_out_ends_the_attempt_for_good() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.5   tick                 => renew 2 at m1 s0.1
         1.6   managers             =>
         6     tick                 => shut s0.1, halt s0.1
         6.1   s0.1 sees it         =>
         6.2   s0.1 stopped         => store s0.1 interrupted, tell 2 m1 s0.1 interrupted
         6.3   renewal 2 granted    => ",
    );
    assert_eq!(rig.worker.counts().lapses, 1);
    assert!(rig.error("s0.1").contains("lease ran out"));
}

/// R4: the clock is looked at before the inbox. A grant that waited out an hour of sleep revives nothing.
#[test]
fn a_grant_that_arrives_after_a_long_sleep_revives_nothing() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.5   tick                 => renew 2 at m1 s0.1
         3600  renewal 2 granted    => shut s0.1, halt s0.1
         3600  s0.1 completed       => store s0.1 interrupted, tell 2 m1 s0.1 interrupted",
    );
}

/// ARCH-124, ARCH-SC-61, GATE-106: a cancel whose message was lost is found by the next renewal, after L/4.
#[test]
fn a_lost_cancel_is_found_by_the_next_renewal() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1", "s1.1"]).play(
        "2     tick                            => renew 3 at m1 s0.1+s1.1
         2.1   renewal 3 s0.1 refused s1.1 granted => shut s0.1, halt s0.1, gate s1.1 8
         2.2   s0.1 stopped                    => store s0.1 stopped, tell 3 m1 s0.1 stopped",
    );
    assert_eq!(rig.error("s0.1"), "its lease was not renewed: revoked");
    assert_eq!(rig.worker.counts().renewals_refused, 1);
}

/// ARCH-118, ARCH-SC-59: work that no manager knows ends by the refusal of its renewal, or by having none.
#[test]
fn an_orphan_ends_without_anybody_looking_for_it() {
    let mut rig = Rig::new(2);
    rig.play(
        "0    managers m1           =>
         0    m1@5 reserve h1 2     => done
         0    m1@5 dispatch s0.1 h1 => fetch s0.1, done, renew 1 at m1 s0.1
         0.1  renewal 1 refused     => store s0.1 stopped, tell 1 m1 s0.1 stopped
         0.2  tell 1 unknown        =>
         10   tick                  => tell 2 m1 s0.1 stopped
         10   m1 inspect            => 2/2 free; s0.1 ended@5
         10.1 tell 2 unknown        =>
         700  tick                  => tell 3 m1 s0.1 stopped
         700  tell 3 unknown        => remove s0.1",
    );
    assert_eq!(rig.worker.counts().holds_expired, 1);
    assert_eq!(rig.worker.counts().reports_unclaimed, 1);
}

/// CORE-110, LIFE-72: when the job's time is nearly over and something was done, more is asked for; again only when
/// more was done since.
#[test]
fn more_time_is_asked_for_while_there_is_progress() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1                => done
         0    managers m1                      =>
         0    m1@5 dispatch s0.1 h1 left 11s   => fetch s0.1, done, renew 1 at m1 s0.1
         0    s0.1 fetched                     => prepare s0.1 on 0
         0    renewal 1 granted                => gate s0.1 6
         0    s0.1 prepared                    => tell 1 m1 s0.1 ready
         0    m1@5 start s0.1 in 0ms           => done, start s0.1 at 0
         0.9  s0.1 progress                    =>
         1    tick                             => tell 2 m1 more time
         1    tell 2 taken                     =>
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

/// ARCH-SC-58, ARCH-99: what does not end is asked, forced, killed and given up; its core stays taken while its thread
/// lives.
#[test]
fn an_attempt_that_hangs_is_ended_by_force() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1                    => done
         0    managers m1                          =>
         0    m1@5 dispatch s0.1 h1 at most 2s     => fetch s0.1, done, renew 1 at m1 s0.1
         0    s0.1 fetched                         => prepare s0.1 on 0
         0    renewal 1 granted                    => gate s0.1 6
         0    s0.1 prepared                        => tell 1 m1 s0.1 ready
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
         10.5 tick                                 => store s0.1 failed, tell 2 m1 s0.1 failed
         11   m1@5 reserve h2 1                    => refused 1 cores: 0 of 1 are free
         12   s0.1 stopped                         =>
         12   m1@5 reserve h2 1                    => done",
    );
    assert_eq!(rig.error("s0.1"), "it had not ended 2.0 s after its start");
    assert_eq!(rig.worker.outbox().get(run("s0.1")).unwrap().counters.issued, 10);
    assert_eq!(rig.worker.counts().abandoned, 1);
}

/// EXEC-133, ARCH-90, ARCH-99, ARCH-SC-40, S39: every way out gives the core back, before anything was sent or stored.
#[test]
fn every_way_out_gives_the_core_back() {
    let ways = [
        ("1.1 s0.1 completed", AttemptStatus::Completed),
        ("1.1 s0.1 failed", AttemptStatus::Failed),
        ("1.1 s0.1 stopped", AttemptStatus::Stopped),
    ];
    for (way, status) in ways {
        let mut rig = Rig::new(1);
        let said =
            format!("1.1 managers => \n {way} => store s0.1 {status}, tell 2 m1 s0.1 {status}");
        let before = rig.running(&["s0.1"]).worker.figures();
        assert_eq!(before.cores_free, 0);
        rig.play(&said).play("2 tell 2 failed => \n 3 s0.1 not stored => ");
        let after = rig.worker.figures();
        assert_eq!((after.cores_free, after.shards), (1, 0), "{way}");
        assert!(after.work_done > before.work_done, "{way}: the figures have moved on");
        assert_eq!(rig.status("s0.1"), Some(status));
    }
}

/// ARCH-89, ARCH-ISS-37: a graceful cancel lets iterations end; a harder one may follow; the core stays taken until the
/// thread has ended.
#[test]
fn a_graceful_cancel_can_be_made_harder() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 stop s0.1 graceful  => end s0.1, done
         1.2  m1@5 stop s0.1 graceful  => done
         1.3  m1@5 stop s0.1 now       => shut s0.1, halt s0.1
         1.3  m1 inspect               => 0/1 free; s0.1 stopping@5
         1.4  s0.1 sees it             => is stopped
         1.4  m1@5 stop s0.1 now       => is stopped
         1.5  s0.1 stopped             => store s0.1 stopped, tell 2 m1 s0.1 stopped
         1.6  m1@5 stop s0.1 now       => is stopped: stopped
         1.6  m1 inspect               => 1/1 free; s0.1 ended@5",
    );
    assert_eq!(rig.error("s0.1"), "cancelled");
}

/// R4: `Stopped` is the licence for the next attempt, so a thread that does not answer is not said to have stopped.
#[test]
fn a_thread_that_does_not_answer_is_not_said_to_have_stopped() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 stop s0.1 now   => shut s0.1, halt s0.1
         3.1  tick                 => done, kill s0.1
         3.2  m1@5 stop s0.1 now   => done
         4    s0.1 completed       => store s0.1 stopped, tell 2 m1 s0.1 stopped
         4.1  m1@5 stop s0.1 now   => is stopped: stopped",
    );
}

/// R4, P1: a later attempt on the same worker is not ready before the thread of the former has seen its gate shut.
#[test]
fn a_later_attempt_waits_for_the_thread_of_the_former() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 reserve h2 1       => done
         1.1  m1@5 dispatch s0.2 h2   => shut s0.1, halt s0.1, fetch s0.2, done, renew 2 at m1 s0.2
         1.2  s0.2 fetched            => prepare s0.2 on 1
         1.2  s0.2 prepared           =>
         1.3  renewal 2 granted       => gate s0.2 7.1
         1.4  m1@5 start s0.2 in 0ms  => done
         1.5  s0.1 sees it            => start s0.2 at 1.4
         1.6  s0.1 stopped            => store s0.1 stopped, tell 2 m1 s0.1 stopped",
    );
    assert_eq!(rig.worker.counts().superseded, 1);
}

/// S40, ARCH-SC-43, ARCH-ISS-25: a report is told until it is durable, wherever the owner is by then.
#[test]
fn a_report_is_told_until_it_is_forgotten() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 completed        => store s0.1 completed, tell 2 m1 s0.1 completed
         1.2  tell 2 failed         =>
         1.4  tick                  => tell 3 m2 s0.1 completed
         1.5  tell 3 not owner m3   => tell 4 m3 s0.1 completed
         1.6  tell 4 taken          =>
         16.6 tick                  => tell 5 m3 s0.1 completed
         18.6 tick                  =>
         18.8 tick                  => tell 6 m3 s0.1 completed
         19   m3 forget s0.1        => remove s0.1, done
         19.1 tell 6 taken          =>
         19.2 m3 forget s0.1        => done
         60   tick                  => ",
    );
    assert_eq!(rig.worker.counts().reports_forgotten, 1);
}

/// R17, R17a, X29: after a restart reports are told again, and what died without one gets one from its issued file.
#[test]
fn a_restart_brings_reports_and_makes_those_that_are_missing() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"])
        .play("1.1 s0.1 completed => store s0.1 completed, tell 2 m1 s0.1 completed");
    let stored = rig.worker.outbox().get(run("s0.1")).unwrap().clone();
    let counters = crate::ledger::Counters { issued: 42, ..Default::default() };
    let file = |name| IssuedFile { run: run(name), boot: testing::BOOT, counters };
    let mut settings = testing::settings(1);
    settings.boot = settings.boot.next();

    let files = vec![file("s0.1"), file("s1.3")];
    let (worker, effects) = Worker::recover(settings, vec![stored], files, at(0.0)).unwrap();
    let mut rig = Rig { worker, ..Rig::new(1) };
    assert!(matches!(&effects[..], [Effect::Store { report }] if report.boot == testing::BOOT));
    rig.play(
        "0    managers m2               => tell 1 m2 s0.1 completed, tell 2 m2 s1.3 interrupted
         0.1  tell 1 not owner m3       => tell 3 m3 s0.1 completed
         0.2  m3@9 dispatch s0.2 h1     => refused: boot 7 is named, and this is 8
         0.3  m3 inspect                => 1/1 free; s0.1 ended@0 s1.3 ended@0
         0.4  m3 forget s1.3            => remove s1.3, done",
    );
    assert_eq!(rig.worker.counts().reports_recovered, 1);
}

/// S60, X28: a dispatch that knows fewer layers than another of its job is refused.
#[test]
fn a_dispatch_with_an_older_context_is_refused() {
    let mut rig = Rig::new(4);
    rig.play(
        "0  m1@5 reserve h1 4                 => done
         0  m1@5 dispatch s0.1 h1 context 2   => fetch s0.1, done
         0  m1@5 dispatch w1s0.1 h1 context 1 => refused context: 2 seen
         0  m1@5 dispatch w1s0.1 h1 context 2 => fetch w1s0.1, done",
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
         1.3  s0.1 completed               => store s0.1 completed, tell 3 m1 s0.1 completed
         1.3  m1@5 reserve h2 1            => refused 1 cores: 0 of 2 are free
         1.4  w1s0.1 completed             => store w1s0.1 completed, tell 4 m1 w1s0.1 completed
         1.4  m1@5 reserve h2 1            => done",
    );
}

/// R5: a worker that is shut down stops at once and says that its attempts were interrupted, so that they are retried
/// elsewhere without waiting for their leases.
#[test]
fn a_shutdown_leaves_its_attempts_to_others() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.2  shutdown                => shut s0.1, halt s0.1, tell 2 m1 draining
         1.2  tell 2 taken            =>
         1.3  m1@5 reserve h3 1       => refused: draining
         1.3  s0.1 stopped            => store s0.1 interrupted, tell 3 m1 s0.1 interrupted
         1.4  m1 forget s0.1          => remove s0.1, done, drained",
    );
}

/// ARCH-100, ARCH-SC-68: a drained worker finishes what runs, takes no more, and says so.
#[test]
fn a_draining_worker_finishes_and_takes_no_more() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 reserve h2 1       => done
         1.2  drain                   => tell 2 m1 draining
         1.2  drain                   =>
         1.3  tell 2 taken            =>
         1.3  m1@5 reserve h3 1       => refused: draining
         1.3  m1@5 dispatch s1.1 h2   => refused: draining
         1.3  m1@5 dispatch s0.1 h1   => done
         1.5  tick                    => renew 2 at m1 s0.1
         1.6  renewal 2 granted       => gate s0.1 7.5
         2    s0.1 completed          => store s0.1 completed, tell 3 m1 s0.1 completed
         2.1  m1 forget s0.1          => remove s0.1, done, drained
         9    tick                    => ",
    );
    assert!(!rig.worker.figures().accepting);
}

/// Each row is issued once: rows that come again, or late, are not given again.
#[test]
fn rows_are_given_once_in_rising_order() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 wants rows          => tell 2 m1 s0.1 wants rows
         1.1  s0.1 wants rows          =>
         1.2  tell 2 taken             =>
         1.3  m1@5 rows s0.1 0 100     => rows s0.1 0..100, done
         1.3  m1@5 rows s0.1 0 100     => done
         1.4  s0.1 wants rows          => tell 3 m1 s0.1 wants rows
         1.5  m1@5 rows s0.1 0 100     => done, renew 2 at m1 s0.1
         1.6  m1@5 rows s0.1 100 200   => rows s0.1 100..200, done
         1.7  m1@5 rows s0.1 200 200   => rows s0.1 200..200, done
         1.8  m1@5 rows s1.1 200 300   => refused attempt",
    );
    assert_eq!(rig.worker.counts().rows_repeated, 2);
}

/// A late duplicate of a steering command does not undo a later one, and attempts that come later follow the last.
#[test]
fn steering_is_numbered_and_kept_for_attempts_that_come_later() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 steer #1 pause        => s0.1 pause, done
         1.1  m1@5 steer #2 resume       => s0.1 resume, done
         1.1  m1@5 steer #1 pause        => done
         1.1  m1@5 steer #3 vus 40       => s0.1 vus 40, done
         1.2  m2@9 steer #1 pause        => s0.1 pause, done
         1.3  m2@9 reserve h2 1          => done
         1.3  m2@9 dispatch s1.1 h2      => fetch s1.1, done, renew 2 at m1 s0.1+s1.1
         1.3  s1.1 fetched               => prepare s1.1 on 1
         1.3  s1.1 prepared              =>
         1.3  m2@9 start s1.1 in 0ms     => done
         1.4  renewal 2 granted          => gate s0.1 7.3, gate s1.1 7.3, start s1.1 at 1.3, s1.1 vus 40, s1.1 pause",
    );
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
                let answers = vec![(shard, attempt, super::super::message::Renewal::Granted)];
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

/// Preparing has a deadline; blobs are asked for again until then, and the report says what was wrong.
#[test]
fn what_cannot_be_fetched_is_given_up_in_time() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1      => done
         0    m1@5 dispatch s0.1 h1  => fetch s0.1, done
         0.1  s0.1 unfetched         =>
         0.6  tick                   => fetch s0.1
         0.7  s0.1 unfetched         =>
         60   tick                   => store s0.1 interrupted, tell 1 m1 s0.1 interrupted",
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
         300  s0.1 stopped           => store s0.1 interrupted, tell 1 m1 s0.1 interrupted",
    );
    assert_eq!(rig.error("s0.1"), "prepared, but no manager granted it a lease within 300.0 s");
}

/// R5: what only this machine cannot do is not the plan's error; another worker may be asked.
#[test]
fn what_this_machine_cannot_prepare_is_interrupted() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1      => done
         0    m1@5 dispatch s0.1 h1  => fetch s0.1, done
         0.1  s0.1 unable            => store s0.1 interrupted, tell 1 m1 s0.1 interrupted",
    );
    assert_eq!(rig.error("s0.1"), "no space left");
}

/// Whoever led the job has died with what it was told. Its successor is told when it comes, not a quarter of a minute
/// later.
#[test]
fn a_new_owner_is_told_at_once() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 aborts             => tell 2 m1 s0.1 aborts
         1.1  tell 2 taken            =>
         1.2  m1@5 install            => 0/1 free; s0.1 running@5
         1.3  m2@9 install            => 0/1 free; s0.1 running@9, tell 3 m2 s0.1 aborts",
    );
}

/// A script that asks to end the job is heard, also when the owner dies with the message.
#[test]
fn an_abort_is_told_until_the_attempt_ends() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 aborts             => tell 2 m1 s0.1 aborts
         1.2  s0.1 aborts             =>
         1.3  tell 2 failed           =>
         1.5  tick                    => renew 2 at m1 s0.1, tell 3 m2 s0.1 aborts
         1.6  renewal 2 granted       => gate s0.1 7.5
         1.6  tell 3 not owner        =>
         2    tick                    => tell 4 m3 s0.1 aborts
         2    tell 4 taken            =>
         2.1  m3@9 stop s0.1 graceful => end s0.1, done
         2.2  s0.1 stopped            => store s0.1 stopped, tell 5 m3 s0.1 stopped",
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

/// A hold that has run out or was given up does not begin again by a late repeat.
#[test]
fn a_late_repeat_of_a_reservation_holds_nothing() {
    let mut rig = Rig::new(4);
    rig.play(
        "0   m1@5 reserve h1 3   => done
         1   m1@5 reserve h1 3   => done
         1   m1 inspect          => 1/4 free;
         1   m1@5 reserve h1 2   => refused hold
         2   m1@5 release h1     => done
         2   m1@5 release h1     => done
         3   m1@5 reserve h1 3   => refused hold
         3   m1@5 reserve h2 4   => done
         8   m1@5 reserve h2 4   => done
         13  m1 inspect          => 0/4 free;
         18  m1@5 reserve h2 4   => refused hold
         18  m1 inspect          => 4/4 free;",
    );
}
