//! Ids, epochs, and the invariants themselves: each must be able to fail.

use fence::invariant::{
    Holder, attempts_rise, epochs_never_fall, epochs_rise, one_holder, stamps_rise,
};
use fence::{Attempt, BootId, Epoch, GroupId, Hlc, IdError, JobId, NodeId, ShardKey, WorkflowNo};

fn epoch(cluster: u64, generation: u32, index: u64, position: u16) -> Epoch {
    Epoch::at(GroupId { cluster, generation }, index, position)
}

/// R2: an id is read as it is written, with or without hyphens; anything else is named.
#[test]
fn ids_are_read_as_they_are_written() {
    let id = NodeId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    assert_eq!(id.to_string(), "01234567-89ab-cdef-0011-223344556677");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(id.to_string().replace('-', "").parse(), Ok(id));
    let long = "0".repeat(10_000);
    for wrong in ["", "0123", "+1234567-89ab-cdef-0011-223344556677", "é", &long] {
        let error: IdError = wrong.parse::<JobId>().unwrap_err();
        assert!(error.to_string().contains("is not a job id"), "{error}");
        assert!(error.to_string().len() < 200);
    }
}

/// R3, R6: the epoch is the place in the log; generations stand before it; clusters are not
/// compared.
#[test]
fn epochs_are_ordered_by_generation_index_and_position() {
    let one = epoch(1, 0, 5, 0);
    assert!(one < epoch(1, 0, 5, 1));
    assert!(epoch(1, 0, 5, u16::MAX) < epoch(1, 0, 6, 0));
    assert!(epoch(1, 0, (1 << 48) - 1, u16::MAX) < epoch(1, 1, 1, 0));
    assert_eq!(one.partial_cmp(&epoch(2, 0, 5, 0)), None);
    assert_eq!((one.index(), one.to_string()), (5, "0000000000000001.0:5+0".to_owned()));
}

/// A number that cannot rise stays, so that a fencing_table refuses it; it never starts again at 0.
#[test]
fn the_last_number_does_not_wrap() {
    assert_eq!(Attempt(u32::MAX).next(), Attempt(u32::MAX));
    assert_eq!(BootId(u64::MAX).next(), BootId(u64::MAX));
}

#[test]
fn two_holders_of_one_shard_violate_p1() {
    let shard = |shard| ShardKey { job: JobId(1), workflow: WorkflowNo(0), shard };
    let holder = |number, attempt, worker| Holder {
        shard: shard(number),
        attempt: Attempt(attempt),
        worker: NodeId(worker),
        boot: BootId(1),
    };
    assert_eq!(one_holder(&[]), Ok(()));
    assert_eq!(one_holder(&[holder(0, 1, 1), holder(1, 1, 1), holder(2, 1, 2)]), Ok(()));
    for other in [holder(0, 2, 2), holder(0, 2, 1), holder(0, 1, 2)] {
        let violation = one_holder(&[holder(0, 1, 1), holder(1, 1, 1), other]).unwrap_err();
        assert_eq!(violation.id, "P1");
        assert!(violation.to_string().contains("attempt 1 of"), "{violation}");
    }
}

#[test]
fn what_falls_or_cannot_be_compared_is_a_violation() {
    let (low, high, other) = (epoch(1, 0, 1, 0), epoch(1, 0, 2, 0), epoch(2, 0, 3, 0));
    assert_eq!(epochs_rise(&[low, high]), Ok(()));
    assert_eq!(epochs_rise(&[low, low]).unwrap_err().id, "P4");
    assert_eq!(epochs_never_fall(&[low, low, high]), Ok(()));
    for wrong in [[high, low], [high, other]] {
        assert!(epochs_rise(&wrong).is_err() && epochs_never_fall(&wrong).is_err());
    }
    assert_eq!(attempts_rise(&[Attempt(1), Attempt(2)]), Ok(()));
    assert_eq!(attempts_rise(&[Attempt(1), Attempt(1)]).unwrap_err().id, "P1");
    let stamp = |wall_ms, logical| Hlc { wall_ms, logical, node: NodeId(1) };
    assert_eq!(stamps_rise(&[stamp(1, 0), stamp(1, 1), stamp(2, 0)]), Ok(()));
    assert_eq!(stamps_rise(&[stamp(1, 1), stamp(1, 1)]).unwrap_err().id, "HLC");
}
