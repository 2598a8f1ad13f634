//! Every way out: cores given back, reports kept until they are forgotten, restarts, drains.

use super::super::testing::{Rig, at, run};
use super::super::*;
use ledger_state::AttemptStatus;

/// EXEC-133, ARCH-90, ARCH-99: every way out gives the core back, before anything was sent or
/// stored.
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
            format!("1.1 managers => \n {way} => store s0.1 {status}, report 2 m1 s0.1 {status}");
        let before = rig.running(&["s0.1"]).worker.figures();
        assert_eq!(before.cores_free, 0);
        rig.play(&said).play("2 report 2 failed => \n 3 s0.1 not stored => ");
        let after = rig.worker.figures();
        assert_eq!((after.cores_free, after.shards), (1, 0), "{way}");
        assert!(after.work_done > before.work_done, "{way}: the figures have moved on");
        assert_eq!(rig.status("s0.1"), Some(status));
    }
}

/// ARCH-89: a graceful cancel lets iterations end; a harder one may follow; the core stays taken
/// until the thread has ended.
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
         1.5  s0.1 stopped             => store s0.1 stopped, report 2 m1 s0.1 stopped
         1.6  m1@5 stop s0.1 now       => is stopped: stopped
         1.6  m1 inspect               => 1/1 free; s0.1 ended@5",
    );
    assert_eq!(rig.error("s0.1"), "cancelled");
}

/// R4: `Stopped` is the licence for the next attempt, so a thread that does not answer is not said
/// to have stopped.
#[test]
fn a_thread_that_does_not_answer_is_not_said_to_have_stopped() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 stop s0.1 now   => shut s0.1, halt s0.1
         3.1  tick                 => done, kill s0.1
         3.2  m1@5 stop s0.1 now   => done
         4    s0.1 completed       => store s0.1 stopped, report 2 m1 s0.1 stopped
         4.1  m1@5 stop s0.1 now   => is stopped: stopped",
    );
}

/// R4, P1: a later attempt on the same worker is not ready before the thread of the former has seen
/// its permit withdrawn.
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
         1.6  s0.1 stopped            => store s0.1 stopped, report 2 m1 s0.1 stopped",
    );
    assert_eq!(rig.worker.counts().superseded, 1);
}

/// A report is told until it is durable, wherever the owner is by then.
#[test]
fn a_report_is_told_until_it_is_forgotten() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 completed        => store s0.1 completed, report 2 m1 s0.1 completed
         1.2  report 2 failed       =>
         1.4  tick                  => report 3 m2 s0.1 completed
         1.5  report 3 not owner m3 => report 4 m3 s0.1 completed
         1.6  report 4 taken        =>
         16.6 tick                  => report 5 m3 s0.1 completed
         18.6 tick                  =>
         18.8 tick                  => report 6 m3 s0.1 completed
         19   m3 forget s0.1        => remove s0.1, done
         19.1 report 6 taken        =>
         19.2 m3 forget s0.1        => done
         60   tick                  => ",
    );
    assert_eq!(rig.worker.counts().reports_forgotten, 1);
}

/// R17, R17a: after a restart reports are told again, and what died without one gets one from its
/// issued file.
#[test]
fn a_restart_brings_reports_and_makes_those_that_are_missing() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"])
        .play("1.1 s0.1 completed => store s0.1 completed, report 2 m1 s0.1 completed");
    let stored = rig.worker.outbox().get(run("s0.1")).unwrap().clone();
    let counters = ledger_state::Counters { issued: 42, ..Default::default() };
    let file = |name| IssuedFile { run: run(name), boot: testing::BOOT, counters, certain: true };
    let mut settings = testing::settings(1);
    settings.boot = settings.boot.next();

    let files = vec![file("s0.1"), file("s1.3")];
    let (worker, effects) = Worker::recover(settings, vec![stored], files, at(0.0)).unwrap();
    let mut rig = Rig { worker, ..Rig::new(1) };
    assert!(matches!(&effects[..], [Effect::Store { report }] if report.boot == testing::BOOT));
    rig.play(
        "0    managers m2               => report 1 m2 s0.1 completed, report 2 m2 s1.3 interrupted
         0.1  report 1 not owner m3     => report 3 m3 s0.1 completed
         0.2  m3@9 dispatch s0.2 h1     => refused: boot 7 is named, and this is 8
         0.3  m3 inspect                => 1/1 free; s0.1 ended@0 s1.3 ended@0
         0.4  m3 forget s1.3            => remove s1.3, done",
    );
    assert_eq!(rig.worker.counts().reports_recovered, 1);
}

/// R27: when its job has ended, what a killed process had issued is told all the same, and let go
/// of when a manager says that the ledger has it.
#[test]
fn a_report_is_told_until_somebody_says_that_it_is_settled() {
    let counters = ledger_state::Counters { issued: 42, ..Default::default() };
    let run = run("s1.3");
    let file = IssuedFile { run, boot: testing::BOOT, counters, certain: true };
    let mut settings = testing::settings(1);
    settings.boot = settings.boot.next();
    let (worker, _) = Worker::recover(settings, vec![], vec![file], at(0.0)).unwrap();
    let mut rig = Rig { worker, ..Rig::new(1) };
    rig.play(
        "0    managers m2      => report 1 m2 s1.3 interrupted
         0.1  report 1 taken   =>
         15.2 tick             => report 2 m2 s1.3 interrupted
         15.3 report 2 settled => remove s1.3",
    );
    assert!(rig.worker.outbox().is_empty());
    assert_eq!(rig.worker.counts().reports_forgotten, 1);
}

/// R5: a worker that is shut down stops at once and says that its attempts were interrupted, so
/// that they are retried elsewhere without waiting for their leases.
#[test]
fn a_shutdown_leaves_its_attempts_to_others() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.2  shutdown                => shut s0.1, halt s0.1, report 2 m1 draining
         1.2  report 2 taken          =>
         1.3  m1@5 reserve h3 1       => refused: draining
         1.3  s0.1 stopped            => store s0.1 interrupted, report 3 m1 s0.1 interrupted
         1.4  m1 forget s0.1          => remove s0.1, done, drained",
    );
}

/// ARCH-100: a drained worker finishes what runs, takes no more, and says so.
#[test]
fn a_draining_worker_finishes_and_takes_no_more() {
    let mut rig = Rig::new(2);
    rig.running(&["s0.1"]).play(
        "1.1  m1@5 reserve h2 1       => done
         1.2  drain                   => report 2 m1 draining
         1.2  drain                   =>
         1.3  report 2 taken          =>
         1.3  m1@5 reserve h3 1       => refused: draining
         1.3  m1@5 dispatch s1.1 h2   => refused: draining
         1.3  m1@5 dispatch s0.1 h1   => done
         1.5  tick                    => renew 2 at m1 s0.1
         1.6  renewal 2 granted       => gate s0.1 7.5
         2    s0.1 completed          => store s0.1 completed, report 3 m1 s0.1 completed
         2.1  m1 forget s0.1          => remove s0.1, done, drained
         9    tick                    => ",
    );
    assert!(!rig.worker.figures().accepting);
}

/// A full disk keeps new work out, by name; what runs goes on, and when there is room all is as
/// before.
#[test]
fn a_full_disk_takes_nothing_new_and_says_so() {
    let mut rig = Rig::new(2);
    rig.play(
        "0    m1@5 reserve h1 1       => done
         0    m1@5 dispatch s0.1 h1   => fetch s0.1, done
         0.1  disk full               =>
         0.2  m1@5 reserve h2 1       => refused: disk full",
    );
    let figures = rig.worker.figures();
    assert!(!figures.accepting && figures.disk_full);
    assert_eq!(figures.shards, 1);
    rig.play(
        "0.3  disk free               =>
         0.4  m1@5 reserve h2 1       => done",
    );
    assert!(rig.worker.figures().accepting);
}

/// R5: what only this machine cannot do is not the plan's error; another worker may be asked.
#[test]
fn what_this_machine_cannot_prepare_is_interrupted() {
    let mut rig = Rig::new(1);
    rig.play(
        "0    m1@5 reserve h1 1      => done
         0    m1@5 dispatch s0.1 h1  => fetch s0.1, done
         0.1  s0.1 unable            => store s0.1 interrupted, report 1 m1 s0.1 interrupted",
    );
    assert_eq!(rig.error("s0.1"), "no space left");
}

/// A script that asks to end the job is heard, also when the owner dies with the message.
#[test]
fn an_abort_is_told_until_the_attempt_ends() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 aborts             => report 2 m1 s0.1 aborts
         1.2  s0.1 aborts             =>
         1.3  report 2 failed         =>
         1.5  tick                    => renew 2 at m1 s0.1, report 3 m2 s0.1 aborts
         1.6  renewal 2 granted       => gate s0.1 7.5
         1.6  report 3 not owner      =>
         2    tick                    => report 4 m3 s0.1 aborts
         2    report 4 taken          =>
         2.1  m3@9 stop s0.1 graceful => end s0.1, done
         2.2  s0.1 stopped            => store s0.1 stopped, report 5 m3 s0.1 stopped",
    );
}
