//! The execution lease from both sides, on clocks that disagree.

use std::time::Duration;

use fence::{
    Attempt, BootId, DRIFT_PERCENT, Ended, ExecutionLease, Granted, Handover, Holding, JobId,
    Lapse, LeaseTerms, Moment, NodeId, ShardKey, WorkflowNo,
};
use proptest::prelude::*;

const SHARD: ShardKey = ShardKey { job: JobId(1), workflow: WorkflowNo(0), shard: 0 };

fn at(ms: u64) -> Moment {
    Moment::since_boot(Duration::from_millis(ms))
}

fn lease() -> ExecutionLease {
    ExecutionLease::new(SHARD, Attempt(1), LeaseTerms::default())
}

fn holding() -> Holding {
    Holding { shard: SHARD, attempt: Attempt(1), worker: NodeId(9), boot: BootId(4) }
}

/// R4: the lease runs from the send time of the request, not from the arrival of the grant.
#[test]
fn a_lease_runs_from_the_sending_of_its_request() {
    let mut lease = lease();
    assert!(!lease.may_act(at(0)), "nothing was granted yet");
    let ticket = lease.renewal_sent(at(1_000)).unwrap();
    assert!(!lease.may_act(at(2_000)), "asking is not having");
    assert_eq!(lease.renewal_granted(&ticket, at(5_000)), Granted::Until(at(7_000)));
    assert!(lease.may_act(at(6_999)));
    assert!(!lease.may_act(at(7_000)));
    assert_eq!(lease.ended(), Some(Ended::Lapsed));
}

/// R4: renewed every L/4; a late, repeated or overtaken grant never extends beyond its own send
/// time + L.
#[test]
fn grants_late_twice_or_out_of_order_give_no_more_than_their_own_time() {
    let mut lease = lease();
    let first = lease.renewal_sent(at(0)).unwrap();
    assert_eq!(lease.renewal_due(), Some(at(1_500)));
    let second = lease.renewal_sent(at(1_500)).unwrap();
    assert_eq!(lease.renewal_granted(&second, at(1_600)), Granted::Until(at(7_500)));
    assert_eq!(lease.renewal_granted(&first, at(1_700)), Granted::NoLonger);
    assert_eq!(lease.renewal_granted(&second, at(7_000)), Granted::NoLonger);
    assert_eq!(lease.until(), Some(at(7_500)));
}

/// R4, R24: a lapse is final, also when the process stood still through it and the grant lies in
/// its inbox.
#[test]
fn a_lapsed_lease_is_not_revived() {
    let mut lease = lease();
    let first = lease.renewal_sent(at(0)).unwrap();
    lease.renewal_granted(&first, at(10));
    let second = lease.renewal_sent(at(5_900)).unwrap();
    // The machine sleeps from 5.9 s to 6.1 s. The first thing it sees is a grant that would reach
    // to 11.9 s.
    assert_eq!(lease.renewal_granted(&second, at(6_100)), Granted::Over(Ended::Lapsed));
    assert!(!lease.may_act(at(6_200)));
    assert_eq!((lease.renewal_sent(at(6_300)), lease.renewal_due()), (None, None));
}

#[test]
fn a_first_grant_that_has_run_out_on_its_way_is_worth_nothing_and_ends_nothing() {
    let mut lease = lease();
    let slow = lease.renewal_sent(at(0)).unwrap();
    assert_eq!(lease.renewal_granted(&slow, at(6_000)), Granted::NoLonger);
    let next = lease.renewal_sent(at(6_100)).unwrap();
    assert_eq!(lease.renewal_granted(&next, at(6_200)), Granted::Until(at(12_100)));
}

/// R4: a stop is acknowledged only after the holder can act no more, whatever is still granted.
#[test]
fn a_stopped_lease_takes_no_grant() {
    let mut lease = lease();
    let first = lease.renewal_sent(at(0)).unwrap();
    lease.renewal_granted(&first, at(10));
    let second = lease.renewal_sent(at(1_500)).unwrap();
    assert_eq!(lease.stop(at(1_600)), Ended::Stopped);
    assert_eq!(lease.renewal_granted(&second, at(1_700)), Granted::Over(Ended::Stopped));
    assert!(!lease.may_act(at(1_701)));
}

#[test]
fn a_ticket_of_another_attempt_is_worth_nothing() {
    let ticket = lease().renewal_sent(at(0)).unwrap();
    let mut next = ExecutionLease::new(SHARD, Attempt(2), LeaseTerms::default());
    assert_eq!(next.renewal_granted(&ticket, at(1)), Granted::NotMine);
    assert!(!next.may_act(at(2)));
}

/// R4: the next attempt starts on a stop acknowledgement, on a higher BootId, or after 1.25 L.
/// Nothing else.
#[test]
fn only_three_things_prove_a_lapse() {
    let seen = at(10_000);
    let fresh = || Handover::revoke_seen_committed(holding(), LeaseTerms::default(), seen);
    assert_eq!(fresh().may_start(at(17_499)), None);
    assert_eq!(fresh().may_start(at(17_500)), Some(Lapse::LeaseLapsed));

    let mut stopped = fresh();
    for other in [
        Holding { attempt: Attempt(2), ..holding() },
        Holding { boot: BootId(3), ..holding() },
        Holding { worker: NodeId(8), ..holding() },
        Holding { shard: ShardKey { shard: 1, ..SHARD }, ..holding() },
    ] {
        stopped.stop_acknowledged(&other);
        assert_eq!(stopped.may_start(seen), None, "{other:?}");
    }
    stopped.stop_acknowledged(&holding());
    assert_eq!(stopped.may_start(seen), Some(Lapse::Stopped));

    let mut rebooted = fresh();
    rebooted.boot_seen(NodeId(9), BootId(4));
    rebooted.boot_seen(NodeId(9), BootId(3));
    rebooted.boot_seen(NodeId(8), BootId(5));
    assert_eq!(rebooted.may_start(seen), None, "the same life, an older one, another worker");
    rebooted.boot_seen(NodeId(9), BootId(5));
    assert_eq!(rebooted.may_start(seen), Some(Lapse::HigherBoot(BootId(5))));
}

/// R4: clocks that drift by 5 % either way leave a margin.
#[test]
fn the_wait_outlasts_the_lease_on_the_worst_pair_of_clocks() {
    for length_ms in [40, 1_000, 6_000, 60_000] {
        let terms = LeaseTerms::new(Duration::from_millis(length_ms));
        let margin = terms.margin();
        println!("L = {length_ms} ms, drift {DRIFT_PERCENT} %: margin {margin:?}");
        assert!(margin * 100 > terms.length() * 13, "at least 13 % of L in true time");
        assert!(terms.wait() * 10 > terms.length() * 11, "L_owner > 1.1 x L_worker");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// R4, P1: in true time, on clocks 5 % fast or slow and with any origin: no grant that was read
    /// before the revoke lets its holder act when the owner may start the next, however late it
    /// arrives.
    #[test]
    fn no_grant_outlives_the_wait(
        worker_rate in 95u64..=105,
        owner_rate in 95u64..=105,
        origins in (0u64..1_000_000, 0u64..1_000_000),
        renewals in prop::collection::vec((0u64..20_000, 0u64..3_000, 0u64..20_000), 1..12),
        committed in 0u64..20_000,
        seen_after in 0u64..4_000,
        glances in prop::collection::vec(0u64..60_000, 0..8),
    ) {
        let worker = |true_ms: u64| at(origins.0 + true_ms * worker_rate / 100);
        let owner = |true_ms: u64| at(origins.1 + true_ms * owner_rate / 100);
        let seen = committed + seen_after;
        let handover =
            Handover::revoke_seen_committed(holding(), LeaseTerms::default(), owner(seen));
        let next = (seen..).find(|ms| handover.may_start(owner(*ms)).is_some()).unwrap();

        // (when, what): requests, grants of those that were read before the revoke, and glances at
        // the clock.
        let mut lease = lease();
        let mut events = Vec::new();
        for (number, (sent, to_read, back)) in renewals.iter().enumerate() {
            events.push((*sent, 0, number));
            if sent + to_read < committed {
                events.push((sent + to_read + back, 1, number));
            }
        }
        events.extend(glances.iter().map(|when| (*when, 2, 0)));
        events.sort_unstable();
        let mut tickets = std::collections::BTreeMap::new();
        let mut over = false;
        for (when, what, number) in events {
            match what {
                0 => {
                    if let Some(ticket) = lease.renewal_sent(worker(when)) {
                        tickets.insert(number, ticket);
                    }
                }
                1 => {
                    if let Some(ticket) = tickets.get(&number) {
                        lease.renewal_granted(ticket, worker(when));
                    }
                }
                _ => {}
            }
            let acts = lease.may_act(worker(when));
            prop_assert!(!(acts && over), "a lapsed lease was revived");
            prop_assert!(!(acts && when >= next), "acts at {when}, the next began at {next}");
            over |= lease.ended().is_some();
        }
        prop_assert!(!lease.may_act(worker(next)));
    }
}
