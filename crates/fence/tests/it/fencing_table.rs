//! The fencing_table and the command_fence: tables of single cases, and a model that any schedule
//! is compared with.

use std::collections::{BTreeMap, BTreeSet};

use fence::invariant::epochs_never_fall;
use fence::{
    Act, Admission, Answered, Attempt, BootId, Capacity, CommandFence, Epoch, Fence, FenceRefusal,
    FencedCommand, FencingTable, GroupId, JobId, Passage, Refusal, ShardKey, Step, WorkflowNo,
};
use proptest::prelude::*;

const CLUSTER: u64 = 0xc1;

fn epoch(generation: u32, index: u64) -> Epoch {
    Epoch::at(GroupId { cluster: CLUSTER, generation }, index, 0)
}

fn foreign(index: u64) -> Epoch {
    Epoch::at(GroupId { cluster: 0xf0, generation: 9 }, index, 0)
}

fn fencing_table(keys: usize, tombstones: usize) -> FencingTable<u8, Epoch, &'static str> {
    FencingTable::new(Capacity { keys, tombstones })
}

/// CORE-26, CORE-27: higher enters, equal repeats the first answer, lower is refused and told why.
#[test]
fn a_higher_token_enters_an_equal_one_repeats_a_lower_one_is_refused() {
    let mut fencing_table = fencing_table(4, 4);
    let (low, high) = (epoch(0, 5), epoch(0, 7));
    assert_eq!(fencing_table.present(&1, &low), Passage::Enter);
    assert_eq!(fencing_table.present(&1, &low), Passage::Busy, "remembered before it is answered");
    assert_eq!(fencing_table.answer(&1, &low, "first"), Answered::Recorded);
    assert_eq!(fencing_table.answer(&1, &low, "second"), Answered::AlreadyAnswered);
    assert_eq!(fencing_table.present(&1, &low), Passage::Repeat("first"));
    assert_eq!(fencing_table.present(&1, &high), Passage::Enter);
    let refused = fencing_table.present(&1, &low);
    assert_eq!(refused, Passage::Refused(Refusal::Stale { held: high, offered: low }));
    let Passage::Refused(why) = refused else { unreachable!() };
    let text = why.to_string();
    assert!(text.contains(&high.to_string()) && text.contains(&low.to_string()), "{text}");
    assert_eq!(fencing_table.present(&2, &low), Passage::Enter, "another key has another floor");
    let counts = fencing_table.counts();
    assert_eq!((counts.entered, counts.repeated, counts.busy, counts.stale), (3, 1, 1, 1));
}

/// R3: a rebuilt group counts from 1 again and is higher all the same; another cluster is foreign,
/// never higher.
#[test]
fn epochs_of_a_rebuilt_group_enter_and_those_of_another_cluster_do_not() {
    let mut fencing_table = fencing_table(4, 4);
    let held = epoch(0, 900);
    assert_eq!(fencing_table.present(&1, &held), Passage::Enter);
    let offered = foreign(1_000);
    assert_eq!(
        fencing_table.present(&1, &offered),
        Passage::Refused(Refusal::Foreign { held, offered })
    );
    assert_eq!(fencing_table.present(&1, &epoch(1, 1)), Passage::Enter);
    assert!(fencing_table.present(&1, &held).is_refused());
    assert_eq!((fencing_table.counts().foreign, fencing_table.counts().stale), (1, 1));
}

#[test]
fn an_answer_that_comes_after_a_higher_token_is_not_repeated_to_it() {
    let mut fencing_table = fencing_table(4, 4);
    assert_eq!(fencing_table.present(&1, &epoch(0, 1)), Passage::Enter);
    assert_eq!(fencing_table.present(&1, &epoch(0, 2)), Passage::Enter);
    assert_eq!(fencing_table.answer(&1, &epoch(0, 1), "late"), Answered::Superseded);
    assert_eq!(fencing_table.present(&1, &epoch(0, 2)), Passage::Busy);
    assert_eq!(fencing_table.answer(&2, &epoch(0, 1), "of nobody"), Answered::Superseded);
}

#[test]
fn a_full_turnstile_refuses_new_keys_and_forgets_none() {
    let mut fencing_table = fencing_table(2, 2);
    for key in [1, 2] {
        assert_eq!(fencing_table.present(&key, &epoch(0, 5)), Passage::Enter);
    }
    let full = Passage::Refused(Refusal::Full { keys: 2 });
    assert_eq!(fencing_table.present(&3, &epoch(0, 9)), full);
    assert_eq!(fencing_table.held(&3), None, "a refused key leaves nothing behind");
    assert_eq!(
        fencing_table.present(&1, &epoch(0, 6)),
        Passage::Enter,
        "a known key needs no room"
    );
    assert!(fencing_table.present(&2, &epoch(0, 4)).is_refused());
    assert!(fencing_table.retire(&2));
    assert_eq!(fencing_table.present(&3, &epoch(0, 9)), Passage::Enter);
    assert_eq!(fencing_table.present(&2, &epoch(0, 6)), full, "a retired key needs room again");
    assert_eq!(fencing_table.counts().full, 2);
}

#[test]
fn a_retired_key_keeps_its_floor_until_its_tombstone_falls_out() {
    let mut fencing_table = fencing_table(8, 2);
    for key in [1, 2, 3] {
        assert_eq!(fencing_table.present(&key, &epoch(0, 5)), Passage::Enter);
        fencing_table.answer(&key, &epoch(0, 5), "done");
    }
    assert!(fencing_table.retire(&1) && fencing_table.retire(&2) && !fencing_table.retire(&9));
    for index in [4, 5] {
        let offered = epoch(0, index);
        let over = Refusal::Over { held: epoch(0, 5), offered };
        assert_eq!(fencing_table.present(&1, &offered), Passage::Refused(over));
    }
    assert!(fencing_table.present(&1, &foreign(9)).is_refused());
    assert_eq!(fencing_table.forgotten(), 0);

    assert!(fencing_table.retire(&3));
    assert_eq!(fencing_table.forgotten(), 1, "the third tombstone pushed the first out");
    assert_eq!(fencing_table.present(&1, &epoch(0, 4)), Passage::Enter, "key 1 is unknown again");
    assert!(fencing_table.present(&2, &epoch(0, 5)).is_refused());

    assert_eq!(
        fencing_table.present(&2, &epoch(0, 6)),
        Passage::Enter,
        "higher than the tombstone"
    );
    assert!(fencing_table.retire(&2));
    assert_eq!(fencing_table.held(&2), Some(&epoch(0, 6)));
    assert_eq!(fencing_table.forgotten(), 1, "its old tombstone was taken away, none fell out");
}

/// What may happen to a fencing_table.
#[derive(Clone, Debug)]
enum Move {
    Present(u8, Epoch),
    Answer(u8, Epoch),
    Retire(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let token = prop_oneof![
        8 => (0u32..2, 1u64..6).prop_map(|(generation, index)| epoch(generation, index)),
        1 => (1u64..6).prop_map(foreign),
    ];
    let one = prop_oneof![
        6 => (0u8..5, token.clone()).prop_map(|(key, token)| Move::Present(key, token)),
        3 => (0u8..5, token).prop_map(|(key, token)| Move::Answer(key, token)),
        1 => (0u8..5).prop_map(Move::Retire),
    ];
    prop::collection::vec(one, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// R3, P4: whatever the order of presents, answers and retires, nothing enters twice or below
    /// what has entered; an answer is the first one given; every command is counted once.
    #[test]
    fn any_schedule_agrees_with_the_highest_seen(moves in moves(), keys in 1usize..6) {
        // Tombstones for all keys: this model forgets nothing.
        let mut fencing_table = FencingTable::new(Capacity { keys, tombstones: 8 });
        let mut entered: BTreeMap<u8, Vec<Epoch>> = BTreeMap::new();
        let mut first_answer: BTreeMap<u8, usize> = BTreeMap::new();
        let mut in_use = BTreeSet::new();
        let mut presented = 0;
        for (number, one) in moves.iter().enumerate() {
            match one {
                Move::Present(key, token) => {
                    presented += 1;
                    let highest = entered.get(key).and_then(|tokens| tokens.last()).copied();
                    match fencing_table.present(key, token) {
                        Passage::Enter => {
                            prop_assert!(highest.is_none_or(|highest| *token > highest));
                            entered.entry(*key).or_default().push(*token);
                            first_answer.remove(key);
                            in_use.insert(*key);
                        }
                        Passage::Repeat(answer) => {
                            prop_assert_eq!(Some(*token), highest);
                            prop_assert_eq!(first_answer.get(key), Some(&answer));
                        }
                        Passage::Busy => {
                            prop_assert_eq!(Some(*token), highest);
                            prop_assert!(!first_answer.contains_key(key));
                        }
                        Passage::Refused(Refusal::Stale { held, offered }) => {
                            prop_assert!(in_use.contains(key) && offered < held);
                            prop_assert_eq!((Some(held), offered), (highest, *token));
                        }
                        Passage::Refused(Refusal::Over { held, offered }) => {
                            prop_assert!(!in_use.contains(key) && offered <= held);
                            prop_assert_eq!((Some(held), offered), (highest, *token));
                        }
                        Passage::Refused(Refusal::Foreign { held, offered }) => {
                            prop_assert_eq!(held.partial_cmp(&offered), None);
                            prop_assert_eq!((Some(held), offered), (highest, *token));
                        }
                        Passage::Refused(Refusal::Full { .. }) => {
                            prop_assert!(!in_use.contains(key) && in_use.len() == keys);
                        }
                    }
                }
                Move::Answer(key, token) => {
                    let current = in_use.contains(key)
                        && entered.get(key).and_then(|tokens| tokens.last()) == Some(token);
                    let expected = match (current, first_answer.contains_key(key)) {
                        (false, _) => Answered::Superseded,
                        (true, true) => Answered::AlreadyAnswered,
                        (true, false) => Answered::Recorded,
                    };
                    prop_assert_eq!(fencing_table.answer(key, token, number), expected);
                    if expected == Answered::Recorded {
                        first_answer.insert(*key, number);
                    }
                }
                Move::Retire(key) => {
                    prop_assert_eq!(fencing_table.retire(key), in_use.remove(key));
                    first_answer.remove(key);
                }
            }
            prop_assert!(fencing_table.in_use().count() <= keys);
        }
        let counts = fencing_table.counts();
        prop_assert_eq!(counts.presented(), presented);
        prop_assert_eq!(counts.entered, entered.values().map(Vec::len).sum::<usize>() as u64);
        prop_assert_eq!(fencing_table.forgotten(), 0);
    }
}

const OWN: BootId = BootId(3);
const JOB: JobId = JobId(77);

fn shard(shard: u32) -> ShardKey {
    ShardKey { job: JOB, workflow: WorkflowNo(1), shard }
}

fn order(epoch: Epoch, number: u32, attempt: u32, act: Act) -> FencedCommand {
    FencedCommand::new(OWN, shard(number), Fence { epoch, attempt: Attempt(attempt) }, act)
}

fn command_fence() -> CommandFence<&'static str> {
    let room = Capacity { keys: 2, tombstones: 8 };
    CommandFence::new(OWN, CLUSTER, room, room)
}

fn step(attempt: u32, act: Act) -> Step {
    Step { attempt: Attempt(attempt), act }
}

/// R3: a command repeated by the next owner repeats the first answer; it does not start the work
/// twice.
#[test]
fn a_new_owner_that_repeats_a_start_gets_the_first_answer() {
    let mut door = command_fence();
    let start = order(epoch(0, 5), 0, 1, Act::Start);
    assert_eq!(door.admit(&start), Admission::Enter);
    assert_eq!(door.admit(&start), Admission::Busy);
    door.answer(&shard(0), &start.step, "running");
    assert_eq!(door.install(OWN, JOB, epoch(0, 8)), Ok(()));
    assert_eq!(
        door.admit(&start),
        Admission::Refused(FenceRefusal::Epoch(Refusal::Stale {
            held: epoch(0, 8),
            offered: epoch(0, 5)
        })),
        "the former owner is out as soon as the new one has installed its epoch"
    );
    assert_eq!(door.admit(&order(epoch(0, 8), 0, 1, Act::Start)), Admission::Repeat("running"));
    assert_eq!(door.admit(&order(epoch(0, 8), 1, 1, Act::Start)), Admission::Enter);
    let counts = door.counts();
    assert_eq!((counts.entered, counts.repeated, counts.busy, counts.stale), (3, 1, 1, 1));
}

/// R3: the attempt is compared per shard, over all epochs; a stop that overtakes its start bars it.
#[test]
fn a_stop_that_overtakes_its_start_bars_it() {
    let mut door = command_fence();
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 1, Act::Stop)), Admission::Enter);
    door.answer(&shard(0), &step(1, Act::Stop), "stopped");
    let late = door.admit(&order(epoch(0, 5), 0, 1, Act::Start));
    let stale = Refusal::Stale { held: step(1, Act::Stop), offered: step(1, Act::Start) };
    assert_eq!(late, Admission::Refused(FenceRefusal::Step(stale)));
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 1, Act::Stop)), Admission::Repeat("stopped"));
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 2, Act::Start)), Admission::Enter);
    let Admission::Refused(why) = door.admit(&order(epoch(0, 5), 0, 1, Act::Start)) else {
        panic!("an old start entered")
    };
    assert_eq!(
        why.to_string(),
        "attempt of the shard: stale: offered start of attempt 1, but start of attempt 2 is held; \
         the sender was replaced"
    );
}

/// R3: a command names the receiver's BootId; the epoch carries its group.
#[test]
fn commands_for_another_life_or_from_another_cluster_change_nothing() {
    let mut door = command_fence();
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 1, Act::Start)), Admission::Enter);
    for named in [BootId(2), BootId(4)] {
        let sent = FencedCommand { receiver: named, ..order(epoch(0, 9), 0, 2, Act::Start) };
        let refusal = FenceRefusal::OtherLife { own: OWN, since: OWN, named };
        assert_eq!(door.admit(&sent), Admission::Refused(refusal.clone()));
        assert_eq!(door.install(named, JOB, epoch(0, 9)), Err(refusal));
    }
    let sent = order(foreign(9), 1, 1, Act::Start);
    assert!(matches!(
        door.admit(&sent),
        Admission::Refused(FenceRefusal::OtherCluster { own: CLUSTER, .. })
    ));
    assert_eq!(door.epoch(&JOB), Some(epoch(0, 5)));
    assert_eq!(door.step(&shard(0)), Some(step(1, Act::Start)));
    assert_eq!((door.other_life(), door.counts().foreign), (4, 1));
}

/// A refused attempt does not raise the epoch: the owner whose commands do arrive is not shut out
/// by it.
#[test]
fn a_refused_step_leaves_the_epoch_where_it_was() {
    let mut door = command_fence();
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 2, Act::Start)), Admission::Enter);
    assert_eq!(door.admit(&order(epoch(0, 5), 1, 1, Act::Start)), Admission::Enter);
    assert!(matches!(
        door.admit(&order(epoch(0, 9), 0, 1, Act::Start)),
        Admission::Refused(FenceRefusal::Step(Refusal::Stale { .. }))
    ));
    assert!(matches!(
        door.admit(&order(epoch(0, 9), 2, 1, Act::Start)),
        Admission::Refused(FenceRefusal::Step(Refusal::Full { keys: 2 }))
    ));
    assert_eq!(door.epoch(&JOB), Some(epoch(0, 5)));
    assert_eq!(door.admit(&order(epoch(0, 5), 0, 2, Act::Stop)), Admission::Enter);
    assert_eq!(door.admit(&order(epoch(0, 9), 0, 2, Act::Stop)), Admission::Busy);
    assert_eq!(door.epoch(&JOB), Some(epoch(0, 9)), "a repeat passes, and raises the epoch");
}

/// A job that is over makes room, and its late commands are refused all the same.
#[test]
fn a_retired_job_makes_room_and_stays_closed() {
    let mut door = command_fence();
    for number in [0, 1] {
        assert_eq!(door.admit(&order(epoch(0, 5), number, 1, Act::Start)), Admission::Enter);
    }
    let other = ShardKey { job: JobId(78), workflow: WorkflowNo(0), shard: 0 };
    let fence = Fence { epoch: epoch(0, 6), attempt: Attempt(1) };
    let other = FencedCommand::new(OWN, other, fence, Act::Start);
    assert!(matches!(door.admit(&other), Admission::Refused(_)), "no room yet");
    assert_eq!(door.retire(JOB), 2);
    assert_eq!(door.admit(&other), Admission::Enter);
    assert!(matches!(
        door.admit(&order(epoch(0, 5), 0, 1, Act::Stop)),
        Admission::Refused(FenceRefusal::Epoch(Refusal::Over { .. }))
    ));
    assert!(matches!(
        door.admit(&order(epoch(0, 7), 0, 1, Act::Start)),
        Admission::Refused(FenceRefusal::Step(Refusal::Over { .. }))
    ));
    assert_eq!(door.forgotten(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// P4: over any sequence of commands the accepted epochs never fall, each step enters once and
    /// in order, a refused command changes no floor, and every command is counted once.
    #[test]
    fn the_doorkeeper_lets_each_step_in_once_and_no_lower_epoch(
        orders in prop::collection::vec((1u64..6, 0u32..3, 1u32..4, any::<bool>(), 2u64..5), 0..80)
    ) {
        let mut door = command_fence();
        let mut accepted = Vec::new();
        let mut entered: BTreeMap<ShardKey, Vec<Step>> = BTreeMap::new();
        for (index, number, attempt, stop, named) in &orders {
            let act = if *stop { Act::Stop } else { Act::Start };
            let mut sent = order(epoch(0, *index), *number, *attempt, act);
            sent.receiver = BootId(*named);
            let before = (door.epoch(&JOB), door.step(&sent.shard));
            match door.admit(&sent) {
                Admission::Enter => {
                    accepted.push(sent.epoch);
                    entered.entry(sent.shard).or_default().push(sent.step);
                    door.answer(&sent.shard, &sent.step, "done");
                }
                Admission::Repeat(_) => {
                    accepted.push(sent.epoch);
                    prop_assert_eq!(before.1, Some(sent.step));
                }
                Admission::Busy => prop_assert!(false, "everything was answered at once"),
                Admission::Refused(_) => {
                    prop_assert_eq!(before, (door.epoch(&JOB), door.step(&sent.shard)));
                }
            }
        }
        prop_assert_eq!(epochs_never_fall(&accepted), Ok(()));
        for steps in entered.values() {
            prop_assert!(steps.is_sorted_by(|before, after| before < after));
        }
        prop_assert_eq!(door.counts().presented() + door.other_life(), orders.len() as u64);
    }
}
