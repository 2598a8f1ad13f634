//! The election machine by tables and by properties.

use openraft::CommittedLeaderId;
use proptest::prelude::*;

use super::*;

const ME: NodeId = NodeId(1);

const TIMING: Timing = Timing {
    lease: Duration::from_millis(600),
    jitter: Duration::from_millis(300),
    round: Duration::from_millis(300),
    unhealthy: Duration::from_millis(600),
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn view(configs: &[&[u128]]) -> View {
    let configs = configs.iter().map(|ids| ids.iter().copied().map(NodeId).collect()).collect();
    View { configs, leading: false, electing: false }
}

fn three() -> View {
    view(&[&[1, 2, 3]])
}

fn fresh() -> Election {
    Election::new(ME, TIMING, ms(0), ms(100))
}

fn yes(round: u64, from: u128) -> Event {
    Event::Answer { round, from: NodeId(from), granted: true }
}

/// CORE-20, CORE-22: asked after lease and jitter, elected by a majority of the configured voters,
/// once.
#[test]
fn a_majority_of_yes_starts_one_election() {
    let mut election = fresh();
    assert_eq!(election.wake_at(), ms(700));
    assert_eq!(election.step(Event::Tick, ms(699), ms(0), &three()), None);
    let asked = election.step(Event::Tick, ms(700), ms(0), &three());
    let voters = [NodeId(2), NodeId(3)].into();
    assert_eq!(asked, Some(Effect::Ask { round: 1, voters }));

    assert_eq!(election.step(yes(1, 2), ms(710), ms(0), &three()), Some(Effect::Elect));
    assert_eq!(election.step(yes(1, 3), ms(711), ms(0), &three()), None, "one election a round");
}

/// A starved machine: the task that should have looked at 700 ms is run at 2 s. What the leader
/// said meanwhile lies unread, and is read now. Nobody is asked, and no term rises.
#[test]
fn a_task_that_was_run_late_hears_the_leader_before_it_doubts_him() {
    let mut election = fresh();
    election.step(Event::Heard, ms(0), ms(100), &three());
    assert_eq!(election.step(Event::Late { by: ms(1_300) }, ms(2_000), ms(0), &three()), None);
    assert_eq!(election.step(Event::Tick, ms(2_000), ms(0), &three()), None);
    assert!(election.leader_alive(ms(1_899)), "nor does it promise its vote to another");
    // Words that come 1.5 s apart are no reason, as long as this node is run no better than that
    // itself.
    for at in (2_010..9_500).step_by(1_500) {
        election.step(Event::Heard, ms(at), ms(0), &three());
        for now in (at..at + 1_500).step_by(100) {
            assert_eq!(election.step(Event::Tick, ms(now), ms(0), &three()), None, "at {now}");
        }
    }
    // When it is run in time again, a silent leader is noticed as soon as before.
    election.step(Event::Heard, ms(20_000), ms(100), &three());
    assert_eq!(election.wake_at(), ms(20_700));
    // And however late it was, a leader that is gone is replaced.
    election.step(Event::Late { by: ms(60_000) }, ms(90_000), ms(0), &three());
    let asked = election.step(Event::Tick, ms(90_000) + TIMING.lease * 8, ms(0), &three());
    assert!(matches!(asked, Some(Effect::Ask { .. })), "{asked:?}");
}

/// Elections that bring no leader, because votes arrive too late, become rarer: a term is not spent
/// in every round.
#[test]
fn elections_that_come_to_nothing_become_rarer() {
    let mut election = fresh();
    let (mut stood, mut now) = (0, 0);
    while now < 16_000 {
        let effect = election.step(Event::Tick, ms(now), ms(0), &three());
        if let Some(Effect::Ask { round, .. }) = effect {
            let elect = election.step(yes(round, 2), ms(now + 1), ms(0), &three());
            stood += u32::from(elect == Some(Effect::Elect));
        }
        now += 50;
    }
    assert!((4..=7).contains(&stood), "{stood}");
    election.step(Event::Heard, ms(now), ms(0), &three());
    let next = election.wake_at();
    election.step(Event::Tick, next, ms(0), &three());
    let round = election.rounds;
    election.step(yes(round, 2), next, ms(0), &three());
    assert_eq!(election.wake_at(), next + TIMING.round, "a leader was there: as at first");
}

/// CORE-20: while Raft has not come to an election that was asked for, because its disk is slow,
/// there is no other: it would be held when nobody may be there any more, and raise the term for
/// nothing.
#[test]
fn elections_do_not_pile_up_behind_a_slow_disk() {
    let mut election = fresh();
    election.step(Event::Tick, ms(700), ms(0), &three());
    assert_eq!(election.step(yes(1, 2), ms(710), ms(0), &three()), Some(Effect::Elect));
    let held_up = View { electing: true, ..three() };
    for now in (720..5_000).step_by(10) {
        assert_eq!(election.step(Event::Tick, ms(now), ms(0), &held_up), None, "at {now}");
    }
    assert!(election.wake_at() <= ms(5_000) + TIMING.round);
    let asked = election.step(Event::Tick, ms(5_300), ms(0), &three());
    assert!(matches!(asked, Some(Effect::Ask { round: 2, .. })), "{asked:?}");
    assert_eq!(election.step(yes(2, 2), ms(5_310), ms(0), &held_up), None, "begun meanwhile");
}

/// CORE-22: without a majority nothing happens, however often it is tried.
#[test]
fn refusals_strangers_repeats_and_self_do_not_elect() {
    let five = view(&[&[1, 2, 3, 4, 5]]);
    let mut election = fresh();
    election.step(Event::Tick, ms(700), ms(0), &five);
    for event in [
        yes(1, 2),
        yes(1, 2),
        yes(1, 1),
        yes(1, 9),
        Event::Answer { round: 1, from: NodeId(3), granted: false },
        yes(7, 4),
    ] {
        assert_eq!(election.step(event, ms(710), ms(0), &five), None, "{event:?}");
    }
    assert_eq!(election.step(yes(1, 4), ms(1000), ms(0), &five), None, "the round is over");
    election.step(Event::Tick, ms(1000), ms(50), &five);
    assert_eq!(election.wake_at(), ms(1050), "another try comes, after another wait");
    let again = election.step(Event::Tick, ms(1050), ms(0), &five);
    assert!(matches!(again, Some(Effect::Ask { round: 2, .. })), "{again:?}");
    assert_eq!(election.step(yes(1, 4), ms(1060), ms(0), &five), None, "an answer of old");
}

/// CORE-21: whoever hears a leader neither stands nor counts it as gone.
#[test]
fn a_leader_that_is_heard_ends_the_round() {
    let mut election = fresh();
    election.step(Event::Tick, ms(700), ms(0), &three());
    election.step(Event::Heard, ms(705), ms(100), &three());
    assert_eq!(election.step(yes(1, 2), ms(710), ms(0), &three()), None);
    assert!(election.leader_alive(ms(1304)));
    assert!(!election.leader_alive(ms(1305)));
    assert_eq!(election.step(Event::Tick, ms(1404), ms(0), &three()), None);
    let asked = election.step(Event::Tick, ms(1405), ms(0), &three());
    assert!(matches!(asked, Some(Effect::Ask { round: 2, .. })), "{asked:?}");
}

/// Whoever has promised a vote lets that one go first; without this a second election ends the
/// first leadership.
#[test]
fn a_promise_to_another_ends_the_own_round() {
    let mut election = fresh();
    election.step(Event::Tick, ms(700), ms(0), &three());
    assert!(election.is_asking());
    election.step(Event::Promised { vote: true }, ms(705), ms(100), &three());
    assert!(!election.is_asking());
    assert_eq!(election.step(yes(1, 2), ms(710), ms(0), &three()), None);
    assert_eq!(election.wake_at(), ms(1105));
    assert!(
        election.step(Event::Tick, ms(1105), ms(0), &three()).is_some(),
        "if nothing came of it"
    );

    // One-way cut: somebody asks all the time and never hears. It is let go first twice, and then
    // no more.
    let mut election = fresh();
    for at in [100, 200, 300, 400, 500] {
        election.step(Event::Promised { vote: false }, ms(at), ms(300), &three());
    }
    assert_eq!(election.wake_at(), ms(800));
}

/// Bad health makes a node wait longer, and does not bar it.
#[test]
fn an_unhealthy_node_lets_others_go_first() {
    let mut election = fresh();
    election.step(Event::Health { good: false }, ms(0), ms(0), &three());
    election.step(Event::Heard, ms(0), ms(100), &three());
    assert_eq!(election.wake_at(), ms(1300));
    assert!(election.step(Event::Tick, ms(1300), ms(0), &three()).is_some());
}

/// A log that cannot be trusted never leads; neither does one who is no voter.
#[test]
fn the_unfit_and_the_learner_never_stand() {
    let mut election = fresh();
    election.step(Event::Unfit, ms(0), ms(0), &three());
    for at in (0..10_000).step_by(100) {
        assert_eq!(election.step(Event::Tick, ms(at), ms(0), &three()), None);
    }
    let mut learner = fresh();
    for at in (0..10_000).step_by(100) {
        assert_eq!(learner.step(Event::Tick, ms(at), ms(0), &view(&[&[2, 3]])), None);
        assert_eq!(learner.step(Event::Tick, ms(at), ms(0), &view(&[])), None);
    }
}

#[test]
fn a_node_alone_elects_itself_at_once_and_a_leader_never() {
    let mut election = fresh();
    assert_eq!(election.step(Event::Tick, ms(0), ms(0), &view(&[&[1]])), Some(Effect::Elect));
    let leading = View { leading: true, ..view(&[&[1]]) };
    assert_eq!(election.step(Event::Tick, ms(9000), ms(0), &leading), None);
}

/// While the voters change, a majority of each set is needed.
#[test]
fn a_joint_set_needs_both_majorities() {
    let joint = view(&[&[1, 2, 3], &[1, 4, 5]]);
    let mut election = fresh();
    election.step(Event::Tick, ms(700), ms(0), &joint);
    assert_eq!(election.step(yes(1, 2), ms(701), ms(0), &joint), None);
    assert_eq!(election.step(yes(1, 3), ms(701), ms(0), &joint), None);
    assert_eq!(election.step(yes(1, 4), ms(701), ms(0), &joint), Some(Effect::Elect));
}

fn log(term: u64, index: u64) -> Option<LogId> {
    Some(LogId::new(CommittedLeaderId::new(term, NodeId(9)), index))
}

/// CORE-21, LEDG-117: who gets a pre-vote.
#[test]
fn a_pre_vote_is_granted_only_to_one_who_could_win() {
    let judge = Judge {
        node: NodeId(1),
        asking: false,
        leader_alive: false,
        last_log: log(2, 10),
        membership: log(1, 1),
        voters_digest: 5,
        blank: false,
        admitted: Some(DiskId(20)),
        fit: true,
    };
    let candidate = Candidate {
        node: NodeId(2),
        disk: DiskId(20),
        last_log: log(2, 10),
        membership: log(1, 1),
        voters_digest: 5,
    };
    assert_eq!(judge.answer(&candidate), Ok(()));

    let ahead = Candidate { last_log: log(3, 4), ..candidate.clone() };
    assert_eq!(judge.answer(&ahead), Ok(()), "a later term outweighs a longer log");
    let changing = Candidate {
        last_log: log(2, 11),
        membership: log(2, 11),
        voters_digest: 6,
        ..candidate.clone()
    };
    assert_eq!(judge.answer(&changing), Ok(()), "one that has seen a newer membership");
    let stranger = Judge { admitted: None, ..judge.clone() };
    assert_eq!(stranger.answer(&changing), Ok(()), "and was admitted by it");
    let blank =
        Judge { blank: true, admitted: None, last_log: None, membership: None, ..judge.clone() };
    assert_eq!(blank.answer(&candidate), Ok(()), "the first election of a group");

    let asking = Judge { asking: true, ..judge.clone() };
    assert_eq!(asking.answer(&candidate), Ok(()), "the other one comes first");
    let first = Judge { node: NodeId(3), ..asking.clone() };
    assert_eq!(first.answer(&candidate), Err(No::AskingItself));
    assert_eq!(first.answer(&ahead), Ok(()), "a longer log comes before a name");

    let behind = Candidate { last_log: log(2, 9), ..candidate.clone() };
    assert_eq!(judge.answer(&behind), Err(No::LogOlder));
    let empty = Candidate { last_log: None, ..candidate.clone() };
    assert_eq!(judge.answer(&empty), Err(No::LogOlder));
    let differ = Candidate { voters_digest: 6, ..candidate.clone() };
    assert_eq!(judge.answer(&differ), Err(No::VotersDiffer));
    let disk = Candidate { disk: DiskId(21), ..candidate.clone() };
    assert_eq!(judge.answer(&disk), Err(No::DiskNotAdmitted));

    let with = |change: fn(&mut Judge)| {
        let mut judge = judge.clone();
        change(&mut judge);
        judge.answer(&candidate)
    };
    assert_eq!(with(|judge| judge.leader_alive = true), Err(No::LeaderAlive));
    assert_eq!(with(|judge| judge.admitted = None), Err(No::NotAVoter));
    assert_eq!(with(|judge| judge.fit = false), Err(No::Unfit));
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Tick),
        1 => Just(Event::Heard),
        1 => Just(Event::Promised { vote: true }),
        4 => (0u64..6, 1u128..7, any::<bool>()).prop_map(|(round, from, granted)| Event::Answer {
            round,
            from: NodeId(from),
            granted
        }),
        1 => any::<bool>().prop_map(|good| Event::Health { good }),
    ]
}

proptest! {
    /// Whatever happens in whatever order, an election needs fresh grants of a majority in one
    /// round, and no leader heard since.
    #[test]
    fn every_election_has_a_majority_behind_it(
        events in prop::collection::vec((event(), 0u64..400, 0u64..300), 1..200),
        joint in any::<bool>(),
    ) {
        let view = if joint { view(&[&[1, 2, 3], &[1, 4, 5]]) } else { view(&[&[1, 2, 3, 4, 5]]) };
        let mut election = fresh();
        let mut now = 0;
        let mut asked: Option<(u64, Duration)> = None;
        let mut granted = BTreeSet::new();
        for (event, wait, jitter) in events {
            now += wait;
            match event {
                Event::Heard | Event::Promised { .. } => asked = None,
                Event::Answer { round, from, granted: true }
                    if asked.is_some_and(|(number, _)| number == round) =>
                {
                    granted.insert(from);
                }
                _ => {}
            }
            match election.step(event, ms(now), ms(jitter), &view) {
                Some(Effect::Ask { round, voters }) => {
                    prop_assert!(!voters.contains(&ME));
                    asked = Some((round, ms(now)));
                    granted.clear();
                }
                Some(Effect::Elect) => {
                    let (_, since) = asked.take().expect("elected without asking");
                    prop_assert!(ms(now) < since + TIMING.round);
                    prop_assert!(quorum::reached(&view.configs, ME, &granted));
                }
                None => {}
            }
            prop_assert!(election.wake_at() + TIMING.round >= ms(0));
        }
    }
}
