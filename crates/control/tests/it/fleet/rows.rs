//! Unique data: each row is issued once in the whole job (R5a).

use control::message::{WorkerReport, WorkerRequest};
use control::owner::{DataPart, Event};
use fence::Attempt;
use ledger_state::Outcome;

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, ms, part, worker};

fn rows(world: &World) -> Vec<(u64, u64)> {
    let runs = world.workers.values().flat_map(|model| model.runs.values());
    let mut all: Vec<_> =
        runs.flat_map(|run| &run.rows).map(|block| (block.first, block.end)).collect();
    all.sort_unstable();
    all
}

fn leasing(total: u64) -> World {
    let mut plan = manifest(vec![part("load", 3, 60)]);
    plan.data = vec![DataPart { rows: total, recycle: false, unique: true }];
    let mut world = World::new(plan, &[1, 1, 1]);
    for shard in 0..3 {
        world.behave(0, shard, &Behaviour { rows: Some(0), ..Behaviour::default() });
    }
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(ms(1_000));
    world
}

/// Blocks do not overlap; a retry gets new ones; what a lost attempt had is not given out again.
#[test]
fn rows_are_leased_once() {
    let mut world = leasing(1_000);
    let before = rows(&world);
    assert_eq!(before.len(), 3);
    assert!(before.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{before:?}");
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    world.until(|world| world.running() < 3);
    world.until(|world| world.running() == 3);
    world.pass(ms(1_000));
    let newest = rows(&world).last().copied().unwrap();
    assert!(newest.0 >= before[2].1, "{newest:?} after {before:?}");
    world.kill_owner();
    world.own();
    world.until(|world| world.running() == 3);
    let next = world.record().rows[&0];
    assert!(next >= newest.1);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// There are fewer rows than wanted: the last block is short, then there are none.
#[test]
fn rows_run_out() {
    let world = leasing(25);
    let mut blocks = rows(&world);
    blocks.retain(|(first, end)| first < end);
    assert_eq!(blocks, [(0, 10), (10, 20), (20, 25)]);
}

/// A worker has used its rows up at once and asks for more; the wish overtakes the answer to the
/// last block.
#[test]
fn a_wish_that_overtakes_an_answer_is_not_lost() {
    let mut world = leasing(1_000);
    let blocks = |world: &World| world.asked(|ask| matches!(ask, WorkerRequest::Rows { .. }));
    let before = blocks(&world);
    let (shard, attempt) = (world.key(0, 0), Attempt(1));
    let wish = WorkerReport::RowsWanted { shard, attempt, set: 0, at_least: 1 };
    world.give(Event::Reported(wish.clone()));
    world.until(|world| blocks(world) == before + 1);
    world.give(Event::Reported(wish));
    world.pass(ms(1_000));
    assert_eq!(blocks(&world), before + 2);
}
