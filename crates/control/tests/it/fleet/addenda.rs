//! Workers that come back when their attempts were given up: their word is taken, once, and changes
//! no outcome (R5).

use control::late::{self, Late};
use control::message::EndReport;
use control::owner::blob_of;
use fence::{Attempt, BootId};
use ledger_state::{AttemptRecord, LapseProof, Outcome, ReportedBy};
use stats::Issued;

use crate::fleet::world::{World, manifest, ms, part, worker};

/// The number of the worker that has the first shard.
fn first(world: &World) -> u128 {
    world.place_of(0, 0).0 - worker(0).0
}

fn attempt(world: &World, place: usize) -> &AttemptRecord {
    &world.record().shard(&world.key(0, 0)).unwrap().attempts[place]
}

fn issued(world: &World) -> Issued {
    world.conclusion.as_ref().expect("a result").last_words.issued()
}

/// Two shards on three workers; the first one's worker is cut off at 5 s, its lease lapses, another
/// goes on.
fn lost_and_replaced() -> (World, u128) {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(5_000));
    let gone = first(&world);
    world.worker(gone).cut_off = true;
    let key = world.key(0, 0);
    world.until(|world| world.record().shard(&key).unwrap().attempts.len() == 2);
    assert_eq!(attempt(&world, 1).after, LapseProof::LeaseLapsed);
    world.until(|world| attempt(world, 0).end.is_some());
    assert_eq!(attempt(&world, 0).end.as_ref().unwrap().word, ReportedBy::Owner);
    (world, gone)
}

/// R17, R27: what it did until its lease lapsed is not lost, and the result is exact about what was
/// issued.
#[test]
fn a_worker_that_is_back_while_the_job_runs_is_heard() {
    for takeover in [false, true] {
        let (mut world, gone) = lost_and_replaced();
        let sealed = attempt(&world, 0).end.as_ref().unwrap().counters;
        assert!(attempt(&world, 0).is_unheard());
        if takeover {
            world.kill_owner();
            world.pass(ms(2_000));
            world.own();
        }
        world.worker(gone).cut_off = false;
        world.until(|world| attempt(world, 0).addendum.is_some());
        world.until(|world| world.workers[&worker(gone)].outbox.is_empty());
        let added = attempt(&world, 0).added().unwrap();
        assert!(added.issued > 0, "it went on until its lease was over: {added:?}");
        assert_eq!(attempt(&world, 0).end.as_ref().unwrap().counters, sealed, "the end stays");
        assert_eq!(world.finish(), Outcome::Completed);
        let told = world.record().totals.issued + added.issued;
        assert_eq!(issued(&world), Issued::Exact(told), "takeover: {takeover}");
        let note = |note: &control::owner::Note| note.text.contains("is back");
        assert!(takeover || world.owner().timeline().iter().any(note));
    }
}

/// R27: nobody hears of it before the result is made. The worker keeps its report, and any manager
/// takes it afterwards.
#[test]
fn a_worker_that_is_back_after_the_end_is_heard_once_and_changes_no_outcome() {
    let (mut world, gone) = lost_and_replaced();
    assert_eq!(world.finish(), Outcome::Completed);
    assert!(!matches!(issued(&world), Issued::Exact(_)), "{:?}", issued(&world));
    let end = world.record().end.clone();
    let report: EndReport = {
        let host = world.worker(gone);
        host.outbox.values().next().expect("nobody told it to forget").clone()
    };
    assert_eq!(late::judge(world.record(), &report), Late::Wanted);
    let other_life = EndReport { boot: BootId(9), ..report.clone() };
    assert_eq!(late::judge(world.record(), &other_life), Late::Nobodys);
    let other_worker = EndReport { worker: worker(77), ..report.clone() };
    assert_eq!(late::judge(world.record(), &other_worker), Late::Nobodys);
    let no_attempt = EndReport { attempt: Attempt(9), ..report.clone() };
    assert_eq!(late::judge(world.record(), &no_attempt), Late::Nobodys);

    let content = late::content(&report, 4 << 20);
    world.run(late::command(&report, blob_of(&content)));
    assert_eq!(late::judge(world.record(), &report), Late::Known);
    assert_eq!(world.record().end, end);
    let added = attempt(&world, 0).added().unwrap();
    let sealed = attempt(&world, 0).end.as_ref().unwrap().counters;
    assert_eq!(sealed.issued + added.issued, report.counters.issued);
}

/// The second attempt's own report is the worker's word: there is nothing to add to it.
#[test]
fn an_end_in_the_workers_own_words_takes_no_addendum() {
    let (mut world, _) = lost_and_replaced();
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(attempt(&world, 1).end.as_ref().unwrap().word, ReportedBy::Whole);
    assert!(!attempt(&world, 1).is_unheard());
}

/// A report that is too large for the managers' disks loses its statistics, not its counts.
#[test]
fn a_late_report_that_is_too_large_is_kept_without_its_statistics() {
    let (mut world, gone) = lost_and_replaced();
    assert_eq!(world.finish(), Outcome::Completed);
    let report = world.worker(gone).outbox.values().next().unwrap().clone();
    let large = EndReport { totals: vec![7; 5_000], ..report.clone() };
    let kept = control::owner::decode_report(&late::content(&large, 4_000)).unwrap();
    assert_eq!((kept.totals.len(), kept.counters), (0, report.counters));
}
