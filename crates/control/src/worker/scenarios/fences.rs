//! Who may say what: attempts, owners and contexts that others have overtaken, and what is said
//! twice.

use super::super::testing::Rig;

/// ARCH-59 to ARCH-62 as R3 has them: lower is refused, equal repeats the first answer, higher
/// enters.
#[test]
fn a_lower_attempt_is_refused_an_equal_one_repeats_a_higher_one_enters() {
    let mut rig = Rig::new(4);
    rig.play(
        "0  m1@5 reserve h1 4       => done
         0  m1@5 dispatch s0.5 h1   => fetch s0.5, done
         0  m1@5 dispatch s0.4 h1   => refused attempt of the shard: stale
         0  m1@5 dispatch s0.5 h1   => done
         0  m1 inspect              => 0/4 free; s0.5 preparing@5
         0  m1@5 dispatch s0.6 h1   => store s0.5 stopped, fetch s0.6, done, report 1 m1 s0.5 stopped
         0  m1@5 dispatch s0.5 h1   => refused attempt of the shard: stale
         0  m1@4 dispatch s1.1 h1   => refused epoch of the job: stale
         0  m1 inspect              => 1/4 free; s0.6 preparing@5 s0.5 ended@5",
    );
    assert_eq!(rig.worker.fence_counts().0.stale, 3);
}

/// The fence outlives the attempt.
#[test]
fn a_delayed_duplicate_of_a_finished_dispatch_runs_nothing() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 completed          => store s0.1 completed, report 2 m1 s0.1 completed
         1.2  m1 forget s0.1          => remove s0.1, done
         1.3  m1@5 dispatch s0.1 h1   => done
         1.3  m1@5 start s0.1 in 0ms  => refused attempt
         1.4  m1 inspect              => 4/4 free; ",
    );
}

/// A stop that overtakes its dispatch bars it.
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

/// An owner that was replaced while it stood still is refused, and its holds are given back.
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

/// ARCH-108: a new owner takes running attempts over, and nothing is interrupted or run again.
#[test]
fn a_new_owner_takes_over_what_runs() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1", "s1.1"]).play(
        "1.2  s1.1 completed            => store s1.1 completed, report 3 m1 s1.1 completed
         1.3  m2 inspect                => 3/4 free; s0.1 running@5 s1.1 ended@5
         1.4  m2@9 install              => 3/4 free; s0.1 running@9 s1.1 ended@9
         1.4  m1@5 install              => refused epoch of the job: stale
         1.4  m2@9 dispatch s0.1 h1     => done
         1.4  m2@9 start s0.1 in 100ms  => done
         1.5  m2 inspect                => 3/4 free; s0.1 running@9 s1.1 ended@9
         2    report 3 failed           => renew 3 at m1 s0.1
         2.1  renewal 3 granted         => gate s0.1 8
         2.2  tick                      => report 4 m2 s1.1 completed
         2.3  m2 forget s1.1            => remove s1.1, done
         2.4  s0.1 completed            => store s0.1 completed, report 5 m2 s0.1 completed",
    );
    assert_eq!(rig.worker.counts().forced, 0);
}

/// A dispatch that knows fewer layers than another of its job is refused.
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

/// Whoever led the job has died with what it was told. Its successor is told when it comes, not a
/// quarter of a minute later.
#[test]
fn a_new_owner_is_told_at_once() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]).play(
        "1.1  s0.1 aborts             => report 2 m1 s0.1 aborts
         1.1  report 2 taken          =>
         1.2  m1@5 install            => 0/1 free; s0.1 running@5
         1.3  m2@9 install            => 0/1 free; s0.1 running@9, report 3 m2 s0.1 aborts",
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
