//! Lost workers, refusals, orphans and drains, as R4, R5a, R14 and R19 want them.

use std::time::Duration;

use control::budget;
use control::message::{EndReport, Placement, Steer, WorkerRequest};
use control::owner::{Event, Mended, OnWorkerLoss, ShardState, WhenNoneLeft};
use fence::WorkflowNo;
use ledger_state::{AttemptStatus, Counters, LapseProof, Outcome};

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, counted_part, manifest, ms, part, worker};

/// Worker of a shard, by its number.
fn at(world: &World, shard: u32) -> u128 {
    world.place_of(0, shard).0 - worker(0).0
}

/// R4, R5a: killed: after 1.25 L its shards run on another worker, at the job's elapsed time, and
/// never on the dead one. Back to the planned rate within 1.25 L + detection + 2 s; that it was
/// heard of a moment ago speaks against what membership says of it.
#[test]
fn a_killed_workers_shards_run_elsewhere() {
    let mut world = World::new(manifest(vec![part("load", 4, 60)]), &[2, 2, 4]);
    world.own();
    world.until(|world| world.running() == 4);
    world.pass(ms(5_000));
    let dead = at(&world, 0);
    let lost: Vec<u32> = (0..4).filter(|s| at(&world, *s) == dead).collect();
    world.kill(dead);
    let killed = world.now;
    world.until(|world| world.running() < 4);
    world.until(|world| world.running() == 4);
    let took = world.now.since(killed);
    let wait = world.settings.lease.wait();
    let doubt = world.settings.lease.length() / 3;
    assert!(took >= wait && took <= wait + doubt + Duration::from_secs(2), "{took:?}");
    for shard in lost {
        let record = world.record().shard(&world.key(0, shard)).unwrap();
        assert_eq!(record.attempts.len(), 2);
        assert_eq!(record.attempts[1].after, LapseProof::LeaseLapsed);
        assert_ne!(record.attempts[1].worker, worker(dead));
        let mut starts = world.workers.values().flat_map(|w| &w.starts);
        let (.., elapsed) = *starts.rfind(|s| s.0.shard == shard).unwrap();
        assert!(elapsed >= Duration::from_secs(12), "it joins the schedule, at {elapsed:?}");
        let mut orders = world.workers.values().flat_map(|w| &w.dispatches);
        let again = orders.rfind(|order| order.order.shard.shard == shard).unwrap();
        assert!(again.units_before >= 400, "what was done is not done again: {again:?}");
    }
    assert_eq!(world.finish(), Outcome::Completed);
    let gap = world.owner().timeline().iter().find_map(|note| note.gap.clone()).unwrap();
    assert_eq!((gap.mended, gap.shards, gap.of), (Mended::Elsewhere, 1, 4));
    assert!(gap.to - gap.from >= wait);
    let told =
        world.owner().timeline().iter().any(|n| n.text.contains("on_worker_loss: rebalance"));
    assert!(told, "{:?}", world.owner().timeline());
}

/// A workflow of a number of iterations, on two workers with one core each and a third with two;
/// the worker of its first shard is lost. What the next attempt is told to leave out, and how far
/// the ledger had let the first one go.
fn left_out_after(course: impl Fn(&mut World)) -> (u64, u64) {
    left_out(|world| {
        course(world);
        world.kill(at(world, 0));
    })
}

fn left_out(course: impl Fn(&mut World)) -> (u64, u64) {
    let mut world = World::new(manifest(vec![counted_part("load", 2, 60)]), &[1, 1, 2]);
    world.mute = true;
    world.own();
    world.until(|world| world.running() == 2);
    course(&mut world);
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    let mut orders = world.workers.values().flat_map(|w| &w.dispatches);
    let again = orders.rfind(|order| order.order.shard.shard == 0).unwrap();
    assert_eq!(again.order.step.attempt, fence::Attempt(2));
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[1].terms.units_before, again.units_before);
    (again.units_before, record.attempts[0].terms.units_end.unwrap())
}

fn says(world: &mut World, iterations: u64, begun: u64) {
    let counters = Counters { iterations, begun, ..Counters::default() };
    let (shard, attempt) = (world.key(0, 0), fence::Attempt(1));
    let told = world.clock();
    world.give(Event::Progress { shard, attempt, counters, told });
    world.pass(ms(100));
}

/// R5a: iterations that a lost attempt may have begun are not begun again. How many those are the
/// ledger says, because an attempt goes no further than is granted there.
#[test]
fn what_a_lost_attempt_may_have_begun_is_not_begun_again() {
    let (left_out, granted) = left_out_after(|_| ());
    assert_eq!((left_out, granted), (budget::first(0, 1), budget::first(0, 1)));
    let goes_on = |world: &mut World| {
        for tenth in 1..30 {
            says(world, 10 * tenth - 1, 10 * tenth);
        }
    };
    let (left_out, granted) = left_out_after(goes_on);
    assert_eq!(left_out, granted, "not what it said last, but all that it was granted");
    assert!((290 + 100..290 + 800).contains(&granted), "some seconds ahead: {granted}");
}

fn report_of_a_killed_process(world: &mut World, begun: u64, certain: bool) {
    let (number, shard) = (at(world, 0), world.key(0, 0));
    world.kill(number);
    let host = world.worker(number);
    let (attempt, status) = (fence::Attempt(1), AttemptStatus::Interrupted);
    let report = EndReport {
        shard,
        attempt,
        worker: host.node,
        boot: host.boot,
        status,
        error: None,
        counters: Counters { issued: 7, begun, ..Counters::default() },
        provided: std::collections::BTreeMap::new(),
        frames: 0,
        totals: Vec::new(),
        log: String::new(),
        certain,
        sent_until: None,
    };
    host.restart();
    host.outbox.insert((shard, attempt), report);
}

/// The file of a process that was killed outlives it, and says exactly how far it came. That of a
/// machine that lost power may be older than its death: then only the grant is certain.
#[test]
fn the_report_of_a_killed_process_is_exact_and_that_of_a_dead_machine_is_not() {
    let (left_out_by_process, _) = left_out(|world| report_of_a_killed_process(world, 7, true));
    assert_eq!(left_out_by_process, 7);
    let (by_machine, granted) = left_out(|world| report_of_a_killed_process(world, 7, false));
    assert_eq!(by_machine, granted);
}

/// The same if its owner dies with it: a successor reads the grant in the ledger.
#[test]
fn a_new_owner_knows_how_far_a_lost_attempt_may_have_come() {
    let successor = |world: &mut World| {
        says(world, 9, 10);
        says(world, 19, 20);
        world.kill_owner();
        world.own();
    };
    let (left_out, granted) = left_out_after(successor);
    assert_eq!(left_out, granted);
    assert!(granted > budget::first(0, 1), "more was granted before the owner died: {granted}");
}

/// One that has stopped and says so knows exactly how far it came, whatever it was granted.
#[test]
fn an_attempt_that_stopped_leaves_out_no_more_than_it_began() {
    let mut world = World::new(manifest(vec![counted_part("load", 2, 60)]), &[1, 1, 2]);
    world.mute = true;
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(2_000));
    says(&mut world, 10, 190);
    let gone = at(&world, 0);
    cut_off_for_a_while(&mut world, gone);
    world.until(|world| world.running() == 2);
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[1].after, LapseProof::Stopped);
    let mut orders = world.workers.values().flat_map(|w| &w.dispatches);
    let again = orders.rfind(|order| order.order.shard.shard == 0).unwrap();
    assert!((190..1_000).contains(&again.units_before), "{again:?}");
}

/// R27: a tail that comes after the next attempt was dispatched is counted once. What lies between
/// what the first was taken to have begun and what it has counted was lost with it, and nothing
/// else.
#[test]
fn what_was_lost_between_two_attempts_is_counted_once() {
    let mut world = World::new(manifest(vec![counted_part("load", 2, 60)]), &[1, 1, 2]);
    world.mute = true;
    world.own();
    world.until(|world| world.running() == 2);
    for tenth in 1..20 {
        says(&mut world, 10 * tenth - 1, 10 * tenth);
    }
    world.kill(at(&world, 0));
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    assert_eq!(world.finish(), Outcome::Completed);
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    let [first, second] = &record.attempts[..] else { panic!("{record:?}") };
    let counted = first.end.as_ref().unwrap().counters.counted();
    let lost = world.lost.get(&(world.key(0, 0), fence::Attempt(1))).copied();
    assert_eq!(lost, Some(second.terms.units_before - counted));
}

/// R25: the wait after a revoke is for the lease that was granted, whoever waits and whatever it
/// was started with.
#[test]
fn a_successor_with_a_shorter_lease_waits_for_the_one_that_was_granted() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let granted = world.settings.lease;
    world.kill_owner();
    world.settings.lease = fence::LeaseTerms::new(granted.length() / 6);
    world.own();
    world.until(|world| world.running() == 2);
    world.kill(at(&world, 0));
    let killed = world.now;
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    assert!(world.now.since(killed) >= granted.wait(), "{:?}", world.now.since(killed));
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    let leases: Vec<u64> = record.attempts.iter().map(|one| one.terms.lease_ms).collect();
    assert_eq!(leases, [6_000, 1_000], "and the next one has the new length");
}

/// R4: a restarted worker proves by its boot that nothing of it runs: no wait.
#[test]
fn a_higher_boot_needs_no_wait() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let dead = at(&world, 0);
    world.kill(dead);
    world.worker(dead).restart();
    let killed = world.now;
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    assert!(world.now.since(killed) < Duration::from_secs(2));
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert!(matches!(record.attempts[1].after, LapseProof::HigherBoot(_)), "{record:?}");
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R26: whoever has the gossip key can say "worker W, boot + 1". W runs, and no answer of its own
/// is heard.
#[test]
fn a_higher_boot_told_by_gossip_does_not_shorten_the_wait() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let there = at(&world, 0);
    world.worker(there).cut_off = true;
    world.forged.insert(worker(there), fence::BootId(2));
    world.until(|world| world.record().shard(&world.key(0, 0)).unwrap().attempts.len() == 2);
    world.check_load();
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[1].after, LapseProof::LeaseLapsed, "{record:?}");
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R24: a copied data folder, or a volume that was moved while the old pod lives. The new process
/// cannot know that the old one is gone.
#[test]
fn a_higher_boot_on_another_machine_waits_for_the_lease() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let dead = at(&world, 0);
    world.kill(dead);
    world.worker(dead).restart_elsewhere();
    let killed = world.now;
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    assert!(
        world.now.since(killed) >= world.settings.lease.wait(),
        "{:?}",
        world.now.since(killed)
    );
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[1].after, LapseProof::LeaseLapsed, "{record:?}");
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A worker that is only cut off stops by itself before the next attempt starts; its late report is
/// counted once, bars nothing and settles nothing.
#[test]
fn a_worker_that_is_cut_off_fences_itself() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(3_000));
    let gone = at(&world, 0);
    world.worker(gone).cut_off = true;
    world.suspected.insert(worker(gone));
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    world.check_load();
    // It is back, with the counts of what it had done.
    world.worker(gone).cut_off = false;
    world.pass(ms(3_000));
    assert!(world.worker(gone).outbox.is_empty(), "acknowledged");
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[0].end.as_ref().unwrap().status, AttemptStatus::Interrupted);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A worker is not heard of until its attempts are revoked, and is reachable again right after.
fn cut_off_for_a_while(world: &mut World, gone: u128) {
    world.worker(gone).cut_off = true;
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    world.worker(gone).cut_off = false;
}

/// R26: what membership says of a worker that renews its leases does not matter.
#[test]
fn a_worker_that_renews_is_not_lost_whatever_gossip_says() {
    let mut world = World::new(manifest(vec![part("load", 2, 30)]), &[1, 1, 2]);
    world.mute = true;
    world.own();
    world.until(|world| world.running() == 2);
    world.suspected.insert(worker(at(&world, 0)));
    assert_eq!(world.finish(), Outcome::Completed);
    assert!(world.record().attempts().all(|one| one.revoked.is_none()));
}

/// R26: who cannot renew is lost for its owner, though membership knows nothing of it. Decided by
/// the lease: three quarters of it without a word, then the wait.
#[test]
fn a_worker_that_renews_nowhere_is_lost_whatever_gossip_says() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(3_000));
    let gone = at(&world, 0);
    world.worker(gone).cut_off = true;
    let cut = world.now;
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    let took = world.now.since(cut);
    let terms = world.settings.lease;
    let most = terms.length() * 3 / 4 + terms.wait() + Duration::from_secs(2);
    assert!(took >= terms.wait() && took <= most, "{took:?}");
    world.check_load();
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R4: a false alarm: the worker is reachable, says at once that it has stopped, and nobody waits.
#[test]
fn a_stop_acknowledgement_is_proof() {
    let mut world = World::new(manifest(vec![part("load", 2, 30)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let suspect = at(&world, 0);
    cut_off_for_a_while(&mut world, suspect);
    let began = world.now;
    world.until(|world| world.running() == 2);
    assert!(world.now.since(began) < Duration::from_secs(2));
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!(record.attempts[1].after, LapseProof::Stopped);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R14: no core is free: survivors run the lost shards on the cores held for the workflow, and the
/// verdict can say so.
#[test]
fn survivors_share_their_cores() {
    let mut world = World::new(manifest(vec![part("load", 4, 60)]), &[2, 2]);
    world.own();
    world.until(|world| world.running() == 4);
    world.kill(0);
    world.until(|world| world.running() < 4);
    world.until(|world| world.running() == 4);
    let shared =
        world.worker(1).dispatches.iter().filter(|d| d.placement == Placement::Shared).count();
    assert_eq!(shared, 2);
    assert_eq!(world.finish(), Outcome::Completed);
    let gaps: Vec<Mended> =
        world.owner().timeline().iter().filter_map(|n| n.gap.as_ref()).map(|g| g.mended).collect();
    assert_eq!(gaps, [Mended::Shared; 2]);
}

/// R19: `continue`: the lost share is missing until the end, the rest completes.
#[test]
fn continue_goes_on_without() {
    let mut plan = manifest(vec![part("load", 4, 20)]);
    plan.policy.on_worker_loss = OnWorkerLoss::Continue;
    let mut world = World::new(plan, &[2, 2, 4]);
    world.own();
    world.until(|world| world.running() == 4);
    let dead = at(&world, 0);
    let lost = (0..4).filter(|s| at(&world, *s) == dead).count();
    world.kill(dead);
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.dispatched(0).len(), 4, "nothing was started again");
    let gaps = world.owner().timeline().iter().filter_map(|n| n.gap.as_ref());
    assert_eq!(gaps.filter(|g| g.mended == Mended::Never).count(), lost);
}

/// R19: `fail`: the workflow has failed, and says why.
#[test]
fn fail_ends_the_workflow() {
    let mut plan = manifest(vec![part("load", 4, 60)]);
    plan.policy.on_worker_loss = OnWorkerLoss::Fail;
    let mut world = World::new(plan, &[2, 2, 4]);
    world.own();
    world.until(|world| world.running() == 4);
    world.kill(at(&world, 0));
    assert_eq!(world.finish(), Outcome::Failed);
    assert!(world.at() < Duration::from_secs(30), "the others do not run on");
    let status = format!("{:?}", world.owner().status(0));
    assert!(status.contains("on_worker_loss: fail"), "{status}");
}

/// Three retries, never on a worker where it failed; then FAILED, and the job ends.
#[test]
fn retries_come_to_an_end() {
    let mut world = World::new(manifest(vec![part("load", 1, 200)]), &[1, 1, 1, 1, 1]);
    world.own();
    let mut used = Vec::new();
    for _ in 0..4 {
        world.until(|world| world.running() == 1);
        let place = at(&world, 0);
        assert!(!used.contains(&place));
        used.push(place);
        world.kill(place);
        world.until(|world| world.running() == 0);
    }
    assert_eq!(world.finish(), Outcome::Failed);
    assert_eq!(world.record().shard(&world.key(0, 0)).unwrap().attempts.len(), 4);
    let status = format!("{:?}", world.owner().status(0));
    assert!(status.contains("3 retries were made"), "{status}");
    assert_eq!(world.owner().counts().retries, 3);
}

/// It has failed on every worker: the one of longest ago again, or FAILED with the reason, by
/// policy. One that has started again since is another one.
#[test]
fn when_nobody_is_left_policy_decides() {
    for policy in [WhenNoneLeft::Readmit, WhenNoneLeft::Fail] {
        let mut plan = manifest(vec![part("load", 1, 100)]);
        plan.policy.when_none_left = policy;
        let mut world = World::new(plan, &[1, 1]);
        world.own();
        world.until(|world| world.running() == 1);
        let first = at(&world, 0);
        let second = 1 - first;
        cut_off_for_a_while(&mut world, first);
        world.until(|world| world.running() == 1);
        assert_eq!(at(&world, 0), second);
        world.worker(second).cut_off = true;
        world.until(|world| world.record().attempts().all(|one| one.revoked.is_some()));
        world.worker(second).cut_off = false;
        if policy == WhenNoneLeft::Fail {
            assert_eq!(world.finish(), Outcome::Failed);
            let status = format!("{:?}", world.owner().status(0));
            assert!(status.contains("failed on every worker there is"), "{status}");
        } else {
            world.until(|world| world.running() == 1);
            assert_eq!(at(&world, 0), first);
            assert_eq!(world.finish(), Outcome::Completed);
        }
    }
}

/// A worker refuses the dispatch: another one gets it.
#[test]
fn a_refused_dispatch_goes_elsewhere() {
    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1, 1]);
    let cannot_run = Behaviour { cannot_run: true, ..Behaviour::default() };
    world.worker(0).behaviours.insert((0, 0), cannot_run.clone());
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.place_of(0, 0), worker(1));

    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1, 1]);
    world.behave(0, 0, &cannot_run);
    world.own();
    assert_eq!(world.finish(), Outcome::Failed);
    let status = format!("{:?}", world.owner().status(0));
    assert!(status.contains("a secret is missing"), "{status}");
}

/// GATE-107: an attempt that its worker does not know in two scans is an orphan, and is run
/// elsewhere; one scan is not enough.
#[test]
fn orphans_are_found() {
    let mut world = World::new(manifest(vec![part("load", 2, 300)]), &[2, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let place = at(&world, 0);
    let key = world.key(0, 0);
    world.worker(place).runs.remove(&key);
    world.pass(ms(35_000));
    assert_eq!(world.state_of(0, 0), Some(ShardState::Running));
    world.until(|world| world.record().shard(&key).unwrap().attempts.len() == 2);
    assert!(world.at() < Duration::from_secs(75));
    assert_eq!(world.finish(), Outcome::Completed);
}

/// Its worker is not heard of while it prepares: revoked, stopped, and tried elsewhere.
#[test]
fn a_worker_that_is_cut_off_while_it_prepares_is_lost() {
    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1, 1]);
    world.own();
    world.until(|world| !world.dispatched(0).is_empty());
    let place = at(&world, 0);
    world.worker(place).cut_off = true;
    world.until(|world| world.running() == 1);
    assert_ne!(at(&world, 0), place);
    assert!(world.at() < Duration::from_secs(20), "{:?}", world.at());
    assert_eq!(world.finish(), Outcome::Completed);
}

/// ARCH-138: a draining worker finishes what runs, and gets nothing new: not even a retry.
#[test]
fn a_draining_worker_gets_nothing_new() {
    let mut world = World::new(manifest(vec![part("load", 2, 30)]), &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 2);
    let (first, second) = (at(&world, 0), at(&world, 1));
    let spare = (0..3).find(|w| *w != first && *w != second).unwrap();
    world.worker(spare).draining = true;
    world.worker(second).draining = true;
    world.pass(ms(500));
    world.kill(first);
    world.until(|world| world.running() == 1);
    world.pass(ms(15_000));
    let all = world.workers.values().flat_map(|w| &w.dispatches);
    assert_eq!(all.filter(|d| d.order.step.attempt.0 > 1).count(), 0);
    world.worker(spare).draining = false;
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R18: a threshold ends the whole job. The plan's own word: what was cut short does not count
/// against the outcome.
#[test]
fn a_threshold_stops_the_job() {
    let mut world = World::new(manifest(vec![part("load", 4, 60)]), &[4]);
    world.own();
    world.until(|world| world.running() == 4);
    world.give(Event::Threshold { number: 2, reason: "p95 < 100ms".to_owned() });
    assert_eq!(world.finish(), Outcome::Completed);
    assert!(world.at() < Duration::from_secs(10));
    assert_eq!(world.conclusion.as_ref().unwrap().stop, stats::StopReason::Threshold(2));
    assert!(world.record().stop.is_some());
}

/// Pause, resume and scale reach every worker and, later, those that join; a pause is no
/// standstill, and moves the schedule of a retry.
#[test]
fn steering_reaches_everybody() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    let vus = Steer::Vus { workflow: WorkflowNo(0), vus: 7 };
    world.steer(vus.clone());
    world.steer(Steer::Pause);
    world.pass(ms(1_000));
    let first = at(&world, 0);
    assert_eq!(world.worker(first).steered, [vus.clone(), Steer::Pause]);
    world.pass(Duration::from_secs(20));
    world.steer(Steer::Resume);
    world.pass(ms(500));
    world.kill(first);
    world.until(|world| world.running() < 2);
    world.until(|world| world.running() == 2);
    let second = at(&world, 0);
    assert!(world.worker(second).steered.contains(&vus), "a worker that joins later");
    let (.., elapsed) = *world.worker(second).starts.last().unwrap();
    assert!(elapsed < Duration::from_secs(15), "the pause is no part of the schedule: {elapsed:?}");
    world.finish();
}

/// A worker that says something about an attempt of another one is not believed.
#[test]
fn a_lie_is_counted() {
    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1, 1]);
    world.own();
    world.until(|world| world.worker_report().is_some());
    let mut report = world.worker_report().unwrap();
    report.worker = worker(9);
    world.give(Event::Reported(control::message::WorkerReport::Ended(Box::new(report))));
    assert_eq!(world.owner().counts().mismatched, 1);
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.asked(|ask| matches!(ask, WorkerRequest::Stop { .. })), 0);
}

/// A worker that says it has cores and refuses to give them does not keep a job from running
/// elsewhere.
#[test]
fn a_worker_that_refuses_what_it_offers_holds_nobody_up() {
    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[8, 1]);
    world.worker(0).lies = true;
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert!(world.owner().counts().mismatched > 0);
    assert!(world.worker(0).dispatches.is_empty());
}

/// LIFE-22: all that a dead worker ran is FAILED before anything is done about any of it.
#[test]
fn a_dead_workers_shards_fail_together() {
    let mut world = World::new(manifest(vec![part("load", 4, 30)]), &[2, 2]);
    world.own();
    world.until(|world| world.running() == 4);
    world.kill(at(&world, 0));
    world.until(|world| world.running() < 4);
    let history = world.owner().history();
    let failed: Vec<_> = history.iter().filter(|moved| moved.to == ShardState::Failed).collect();
    assert_eq!((failed.len(), history.last().map(|moved| moved.to)), (2, Some(ShardState::Failed)));
    assert_eq!(failed[0].at, failed[1].at);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// LIFE-83: a job that has no workers left ends when its time is over.
#[test]
fn a_job_without_workers_has_its_time() {
    let mut plan = manifest(vec![part("load", 2, 60)]);
    plan.timeout = Some(Duration::from_secs(20));
    let mut world = World::new(plan, &[1, 1]);
    world.own();
    world.until(|world| world.running() == 2);
    world.kill(0);
    world.kill(1);
    assert_eq!(world.finish(), Outcome::Timeout);
    assert!(world.at() < Duration::from_secs(40), "{:?}", world.at());
}

/// R5: a worker that cannot even begin is passed over, and the timeline says why.
#[test]
fn why_a_worker_gave_up_is_said() {
    let mut world = World::new(manifest(vec![part("load", 1, 3)]), &[1, 1]);
    let unable = Behaviour { unable: true, ..Behaviour::default() };
    world.worker(0).behaviours.insert((0, 0), unable);
    // Worker 1 has no room yet, so that worker 0 is asked first.
    world.worker(1).draining = true;
    world.own();
    world.pass(ms(50));
    world.worker(1).draining = false;
    assert_eq!(world.finish(), Outcome::Completed);
    let said: Vec<_> = world.owner().timeline().iter().map(|note| note.text.clone()).collect();
    assert!(said.iter().any(|text| text.contains("no space left")), "{said:?}");
}
