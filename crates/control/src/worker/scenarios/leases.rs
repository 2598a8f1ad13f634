//! Leases: renewed, run out, and what they find that nobody has said.

use super::super::testing::Rig;

/// ARCH-110, ARCH-111: who does not answer is passed over; what runs is not interrupted.
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

/// Losing a manager that is not asked changes nothing; losing the one that is asked, the next is.
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

/// R4: cut off from all managers a worker stops by itself, for good.
#[test]
fn a_lease_that_runs_out_ends_the_attempt_for_good() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.5   tick                 => renew 2 at m1 s0.1
         1.6   managers             =>
         6     tick                 => shut s0.1, halt s0.1
         6.1   s0.1 sees it         =>
         6.2   s0.1 stopped         => store s0.1 interrupted, report 2 m1 s0.1 interrupted
         6.3   renewal 2 granted    => ",
    );
    assert_eq!(rig.worker.counts().lapses, 1);
    assert!(rig.error("s0.1").contains("lease ran out"));
}

/// R4: the clock is looked at before the inbox. A grant that waited out an hour of sleep revives
/// nothing.
#[test]
fn a_grant_that_arrives_after_a_long_sleep_revives_nothing() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1"]).play(
        "1.5   tick                 => renew 2 at m1 s0.1
         3600  renewal 2 granted    => shut s0.1, halt s0.1
         3600  s0.1 completed       => store s0.1 interrupted, report 2 m1 s0.1 interrupted",
    );
}

/// ARCH-124, GATE-106: a cancel whose message was lost is found by the next renewal, after L/4.
#[test]
fn a_lost_cancel_is_found_by_the_next_renewal() {
    let mut rig = Rig::new(4);
    rig.running(&["s0.1", "s1.1"]).play(
        "2     tick                            => renew 3 at m1 s0.1+s1.1
         2.1   renewal 3 s0.1 refused s1.1 granted => shut s0.1, halt s0.1, gate s1.1 8
         2.2   s0.1 stopped                    => store s0.1 stopped, report 3 m1 s0.1 stopped",
    );
    assert_eq!(rig.error("s0.1"), "its lease was not renewed: revoked");
    assert_eq!(rig.worker.counts().renewals_refused, 1);
}

/// ARCH-118: work that no manager knows ends by the refusal of its renewal, or by having none.
#[test]
fn an_orphan_ends_without_anybody_looking_for_it() {
    let mut rig = Rig::new(2);
    rig.play(
        "0    managers m1           =>
         0    m1@5 reserve h1 2     => done
         0    m1@5 dispatch s0.1 h1 => fetch s0.1, done, renew 1 at m1 s0.1
         0.1  renewal 1 refused     => store s0.1 stopped, report 1 m1 s0.1 stopped
         0.2  report 1 unknown      =>
         10   tick                  => report 2 m1 s0.1 stopped
         10   m1 inspect            => 2/2 free; s0.1 ended@5
         10.1 report 2 unknown      =>
         700  tick                  => report 3 m1 s0.1 stopped
         700  report 3 unknown      => remove s0.1",
    );
    assert_eq!(rig.worker.counts().holds_expired, 1);
    assert_eq!(rig.worker.counts().reports_unclaimed, 1);
}
