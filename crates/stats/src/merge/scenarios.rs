//! Merging as stories: windows that are late, partial and joined, owners that change, thresholds
//! that wait.

use super::*;
use crate::fixture::{Happening, layout, made_up, one_tick, threshold};
use crate::result::{Outcome, StopReason, VerdictState};
use crate::snapshot::Snapshot;
use crate::stream::{Sender, SenderLimits};
use crate::window::Window;
use crate::wire::{Content, decode_result, encode_result};

const TEN: &[Happening] = &[(1, 0, 10, 1); 10];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn schema() -> Schema {
    Schema::new(layout(), None)
}

fn merge(thresholds: &[Threshold]) -> Merge {
    Merge::new(schema(), thresholds, Settings::default())
}

fn content(happenings: &[Happening]) -> Content {
    let mut content =
        Content { counts: Delta::of(&made_up(&layout(), happenings)), ..Content::default() };
    content.generator.vus = vec![(0, 4)];
    content
}

fn stream(merge: &mut Merge, shard: u32, now: Duration) -> Sender {
    let key = StreamKey { workflow: 0, shard, attempt: 1, id: 1 + u128::from(shard) };
    let mut sender = Sender::new(key, schema(), SenderLimits::default());
    sender.resume(merge.open(key, now).unwrap()).unwrap();
    sender
}

/// Everything that the sender may send arrives, and the answers too.
fn flow(sender: &mut Sender, merge: &mut Merge, now: Duration) {
    while let Some(frame) = sender.next_frame() {
        let ack = merge.receive(&frame.bytes, now).unwrap();
        sender.acknowledge(ack.applied_through, ack.durable_through);
    }
}

fn told(sender: &mut Sender, merge: &mut Merge, window: u64, happenings: &[Happening]) {
    sender.push(window, content(happenings));
    flow(sender, merge, ms(window * 100 + 110));
}

/// GATE-73: a window is released as soon as every live stream has told of it.
#[test]
fn a_window_waits_for_every_live_stream_and_no_longer() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    let mut two = stream(&mut merge, 1, ms(0));
    told(&mut one, &mut merge, 0, TEN);
    assert!(merge.step(ms(120)).windows.is_empty(), "the other has not told of it");
    told(&mut two, &mut merge, 0, TEN);
    let windows = merge.step(ms(121)).windows;
    let window = &windows[0];
    assert_eq!((windows.len(), window.first, window.last), (1, 0, 0));
    assert_eq!((window.told, window.live, window.totals.requests), (2, 2, 20));
    assert!(!window.late && !window.partial && !window.coalesced);
    assert_eq!(window.vus, 8);
}

/// What comes too late is in the next window, marked; nothing is lost and none is reopened.
#[test]
fn late_counts_stand_in_a_later_window() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    let mut two = stream(&mut merge, 1, ms(0));
    told(&mut one, &mut merge, 0, TEN);
    assert!(merge.step(ms(599)).windows.is_empty());
    let window = merge.step(ms(600)).windows.remove(0);
    assert!(window.partial && !window.late);
    assert_eq!((window.told, window.live, window.totals.requests), (1, 2, 10));
    two.push(0, content(TEN));
    flow(&mut two, &mut merge, ms(650));
    told(&mut one, &mut merge, 1, TEN);
    told(&mut two, &mut merge, 1, TEN);
    let window = merge.step(ms(660)).windows.remove(0);
    assert!(window.late && !window.partial);
    assert_eq!((window.first, window.totals.requests), (1, 40));
    assert_eq!(merge.refused_late_partial(), (0, 1, 1));
}

/// A window from the future counts as the present one.
#[test]
fn a_fast_clock_gains_nothing() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    one.push(90_000, content(TEN));
    flow(&mut one, &mut merge, ms(250));
    let windows = merge.step(ms(260)).windows;
    assert_eq!(windows.last().map(|window| (window.last, window.totals.requests)), Some((2, 10)));
}

/// BAR-114: a stream that nobody listened to arrives in joined frames, and is marked so.
#[test]
fn a_stream_that_was_cut_off_comes_back_joined() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    one.detach();
    for window in 0..500 {
        one.push(window, content(TEN));
        assert!(one.kept_frames() <= 65 && one.kept_bytes() < 200_000);
    }
    let now = ms(50_050);
    merge.step(now);
    one.resume(merge.open(one.key(), now).unwrap()).unwrap();
    flow(&mut one, &mut merge, now);
    let windows = merge.step(now + ms(50)).windows;
    assert!(windows[0].coalesced && windows[0].late, "{windows:?}");
    assert_eq!(windows.last().map(|window| window.totals.requests), Some(5000));
}

/// R28: a sender that has only heard of the new owner goes on where it was with the old one. Held
/// back, those frames would fill the cursor and none would ever be durable; refused, they make the
/// sender ask where to go on.
#[test]
fn a_new_owner_takes_nothing_of_a_stream_that_was_not_opened_with_it() {
    let mut old = merge(&[]);
    let mut sender = stream(&mut old, 0, ms(0));
    told(&mut sender, &mut old, 0, TEN);
    let checkpoint = old.checkpoint(&[]);
    told(&mut sender, &mut old, 1, TEN);
    let bytes = Some(&checkpoint.bytes[..]);
    let mut new = Merge::restore(schema(), &[], Settings::default(), bytes, ms(300)).unwrap();
    sender.push(2, content(TEN));
    let frame = sender.next_frame().unwrap();
    let refused = new.receive(&frame.bytes, ms(310)).unwrap_err();
    assert_eq!(refused, ReceiveError::UnknownStream(sender.key()));
    sender.detach();
    sender.resume(new.open(sender.key(), ms(320)).unwrap()).unwrap();
    flow(&mut sender, &mut new, ms(330));
    assert_eq!(new.ack(sender.key()).applied_through, 3, "all that the checkpoint had not");
    let checkpoint = new.checkpoint(&[]);
    assert_eq!(new.stored(checkpoint.number)[0].durable_through, 3);
}

/// R17: a new owner takes up the checkpoint, and what died with the old one is one window.
#[test]
fn what_died_with_the_owner_arrives_as_one_window() {
    let thresholds = [threshold("http_reqs", "count < 55")];
    let mut old = merge(&thresholds);
    let mut one = stream(&mut old, 0, ms(0));
    let mut two = stream(&mut old, 1, ms(0));
    for window in 0..2 {
        told(&mut one, &mut old, window, TEN);
        told(&mut two, &mut old, window, TEN);
    }
    assert_eq!(old.step(ms(220)).windows.len(), 2);
    let checkpoint = old.checkpoint(&[]);
    // After the checkpoint, and seen by those who watch.
    told(&mut one, &mut old, 2, TEN);
    told(&mut two, &mut old, 2, TEN);
    assert_eq!(old.step(ms(320)).windows[0].totals.requests, 60);
    for ack in old.stored(checkpoint.number) {
        let sender = if ack.key == one.key() { &mut one } else { &mut two };
        sender.acknowledge(ack.applied_through, ack.durable_through);
        assert_eq!(sender.durable_through(), 2);
    }
    drop(old);

    let now = ms(900);
    let settings = Settings::default();
    let mut new =
        Merge::restore(schema(), &thresholds, settings, Some(&checkpoint.bytes), now).unwrap();
    one.push(8, content(TEN));
    one.resume(new.open(one.key(), now).unwrap()).unwrap();
    flow(&mut one, &mut new, now);
    assert!(new.step(ms(1500)).windows.is_empty(), "the other has not resumed");
    two.push(15, content(TEN));
    two.resume(new.open(two.key(), ms(1600)).unwrap()).unwrap();
    flow(&mut two, &mut new, ms(1600));
    one.push(15, content(TEN));
    flow(&mut one, &mut new, ms(1600));
    let windows = new.step(ms(1610)).windows;
    assert!(windows[0].coalesced, "{windows:?}");
    assert_eq!((windows[0].first, windows[0].last), (2, 9));
    assert_eq!(windows.last().map(|window| window.totals.requests), Some(90));
    assert!(new.incomplete().is_empty());
}

/// R18: nothing is aborted on half of the truth, and nothing waits for ever.
#[test]
fn thresholds_wait_for_a_stream_that_is_behind_but_not_for_ever() {
    let mut broken = threshold("http_reqs", "count < 5");
    broken.abort = true;
    let mut merge = merge(&[broken]);
    let mut one = stream(&mut merge, 0, ms(0));
    let two = stream(&mut merge, 1, ms(0));
    let mut seen = Vec::new();
    for window in 0..130 {
        told(&mut one, &mut merge, window, TEN);
        let step = merge.step(ms(window * 100 + 120));
        if step.ticked {
            seen.push((step.waiting, step.broken));
        }
    }
    assert!(seen.len() >= 11, "{seen:?}");
    assert_eq!(seen[0], (1, None));
    assert_eq!(seen.last(), Some(&(0, Some(0))), "silent for ten seconds: judged without");
    merge.supersede(two.key());
    let notes = merge.finish(ms(13_100)).notes;
    assert!(notes.iter().any(|note| note.contains("judged without 1")), "{notes:?}");
}

/// R17: superseding an attempt bars its status, not its counts; a seal bars what comes after it.
#[test]
fn a_replaced_attempt_keeps_what_it_counted() {
    let mut merge = merge(&[]);
    let mut first = stream(&mut merge, 0, ms(0));
    told(&mut first, &mut merge, 0, TEN);
    merge.supersede(first.key());
    assert_eq!(merge.live_streams(), 0);
    told(&mut first, &mut merge, 1, TEN);
    merge.seal(first.key(), 2);
    first.push(2, content(TEN));
    let frame = first.next_frame().unwrap();
    let refused = merge.receive(&frame.bytes, ms(310)).unwrap_err();
    assert!(refused.to_string().contains("counts up to 2 only"), "{refused}");
    let key = StreamKey { attempt: 2, id: 77, ..first.key() };
    let mut second = Sender::new(key, schema(), SenderLimits::default());
    second.resume(merge.open(key, ms(400)).unwrap()).unwrap();
    second.finish(4, content(TEN));
    flow(&mut second, &mut merge, ms(510));
    let finished = merge.finish(ms(600));
    assert_eq!(Delta::of(&finished.totals).requests().0, 30);
    assert!(finished.exact, "{:?}", finished.verdict);
}

/// R5a, R19: arrivals that nobody ran are counted once, however often they are told, and the
/// verdict names the worker, the time and the share.
#[test]
fn a_lost_worker_is_in_the_counts_and_in_the_verdict() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    told(&mut one, &mut merge, 0, TEN);
    let cause = DropCause::WorkerLost as u32;
    let unrun = Unrun { workflow: 0, shard: 0, attempt: 2, stage: 1, cause, count: 30 };
    merge.count_unrun(unrun, ms(7000));
    merge.count_unrun(unrun, ms(7100));
    merge.count_unrun(Unrun { count: 35, ..unrun }, ms(7200));
    merge.lose(LostWorker {
        name: "w2".to_owned(),
        from: ms(200),
        until: Some(ms(7000)),
        share: 0.5,
        policy: "rebalance".to_owned(),
    });
    merge.give_up(one.key(), "its worker was lost");
    let finished = merge.finish(ms(8000));
    let dropped = finished.totals.blocks[1].as_ref().unwrap().dropped;
    assert_eq!(dropped[DropCause::WorkerLost as usize], 35);
    assert!(!finished.exact);
    assert_eq!(finished.verdict.state, VerdictState::Degraded);
    let reasons = finished.verdict.reasons.join("\n");
    for word in ["worker w2", "50.0%", "0.2 s until 7.0 s", "35 iterations", "end at 0.1 s"] {
        assert!(reasons.contains(word), "{reasons}");
    }
}

/// P5: a thread that has gone with what it had counted is in the verdict, though its stream has
/// come to its end.
#[test]
fn counts_that_were_not_handed_over_are_missing_by_name() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    told(&mut one, &mut merge, 0, TEN);
    one.lose(1);
    one.finish(1, Content::default());
    for frame in one.tail() {
        merge.receive(&frame, ms(300)).unwrap();
    }
    let finished = merge.finish(ms(400));
    assert!(!finished.exact);
    assert_eq!(finished.verdict.state, VerdictState::Degraded);
    let reasons = finished.verdict.reasons.join("\n");
    assert!(reasons.contains("the thread that counted them has gone"), "{reasons}");
}

#[test]
fn strangers_and_too_many_streams_are_refused_by_name() {
    let mut merge = merge(&[]);
    let key = StreamKey { workflow: 9, shard: 0, attempt: 1, id: 1 };
    assert_eq!(merge.open(key, ms(0)), Err(OpenError::NoSuchWorkflow { workflow: 9 }));
    let mut sender =
        Sender::new(StreamKey { workflow: 0, ..key }, schema(), SenderLimits::default());
    sender.resume(1).unwrap();
    sender.push(0, Content::default());
    let frame = sender.next_frame().unwrap();
    let refused = merge.receive(&frame.bytes, ms(1)).unwrap_err();
    assert!(refused.to_string().contains("resume it first"), "{refused}");
    for id in 0..STREAMS_PER_ATTEMPT_MAX as u128 {
        merge.open(StreamKey { workflow: 0, id, ..key }, ms(0)).unwrap();
    }
    let refused = merge.open(StreamKey { workflow: 0, id: 99, ..key }, ms(0)).unwrap_err();
    assert!(matches!(refused, OpenError::TooManyOfAttempt { .. }));
    // BAR-112: a second stream of one attempt means that the first one's tail is gone.
    assert!(merge.incomplete()[0].contains("began anew"), "{:?}", merge.incomplete());
}

/// The same counts give the same result, through streams or from cores (`submit --summary`).
#[test]
fn a_merged_run_reports_what_a_local_run_would() {
    let layout = layout();
    let thresholds = [threshold("http_req_duration{stage=main}", "p(95) < 50")];
    let mut merge = merge(&thresholds);
    let mut streams: Vec<Sender> = (0..2).map(|shard| stream(&mut merge, shard, ms(0))).collect();
    let mut local = Aggregate::new(layout.clone(), None);
    let mut evaluator = Evaluator::new(&thresholds, layout.clone());
    for second in 1..=3u64 {
        for part in 0..10 {
            let window = (second - 1) * 10 + part;
            for (shard, sender) in streams.iter_mut().enumerate() {
                let counts = if part == 3 { one_tick(&layout) } else { Window::new(&layout) };
                local.add(&counts, None);
                local.set_vus(shard, [(0, 4)]);
                let mut content = Content { counts: Delta::of(&counts), ..content(&[]) };
                content.counts = Delta::of(&counts);
                match window {
                    29 => sender.finish(window, content),
                    _ => sender.push(window, content),
                }
                flow(sender, &mut merge, ms(window * 100 + 100));
            }
            merge.step(ms(window * 100 + 100));
        }
        local.close_tick(ms(second * 1000), ms(1000));
        evaluator.observe(&local.last, 8, ms(second * 1000), ms(1000));
        let (mut far, mut near) = (Snapshot::default(), Snapshot::default());
        (far.elapsed, near.elapsed) = (ms(second * 1000), ms(second * 1000));
        merge.fill(&mut far);
        local.fill(&mut near);
        assert_eq!(far.total.requests, near.total.requests);
        assert_eq!(format!("{:?}", far.steps), format!("{:?}", near.steps));
        assert_eq!(far.thresholds, evaluator.evaluate(ms(second * 1000)));
    }
    let finished = merge.finish(ms(3000));
    assert!(finished.exact);
    assert_eq!(finished.verdict.state, VerdictState::Invalid, "the fixture drops most iterations");
    assert_eq!(Delta::of(&finished.totals), Delta::of(&local.totals));
    assert_eq!(finished.thresholds, evaluator.finish(ms(3000)));
    let points = |history: &crate::History| {
        history.points().iter().take(3).map(|point| format!("{point:?}")).collect::<Vec<_>>()
    };
    let (far, mut near) = (points(&finished.history), points(&local.history));
    // The last tick is closed when the streams have ended, and nobody is there any more.
    near[2] = near[2].replace("vus: 8", "vus: 0");
    assert_eq!(far, near);
    let head = Head {
        plan: "shop".to_owned(),
        started_unix_ms: 5,
        elapsed: ms(3000),
        outcome: Outcome::Completed,
        last_words: crate::LastWords::default(),
        stop: StopReason::Finished,
        workflows: Vec::new(),
        timeline: Vec::new(),
        notes: Vec::new(),
        script: None,
    };
    let result = finished.into_result(head);
    let read = decode_result(&encode_result(&result).unwrap()).unwrap();
    assert_eq!(Delta::of(&read.totals), Delta::of(&result.totals));
    assert_eq!(format!("{:?}", read.thresholds), format!("{:?}", result.thresholds));
    assert_eq!((read.plan, read.outcome), ("shop".to_owned(), Outcome::Completed));
}

/// What is acknowledged can be read again, also when it is larger than one message between
/// managers.
#[test]
fn a_large_checkpoint_can_be_read_again() {
    let mut merge = merge(&[]);
    let mut one = stream(&mut merge, 0, ms(0));
    told(&mut one, &mut merge, 0, TEN);
    let lost = LostWorker {
        name: "w".repeat(1 << 20),
        from: ms(0),
        until: None,
        share: 0.5,
        policy: "rebalance".to_owned(),
    };
    merge.lost = vec![lost; 30];
    let checkpoint = merge.checkpoint(&[]);
    assert!(checkpoint.bytes.len() > 30 << 20 && checkpoint.bytes.len() < CHECKPOINT_BYTES_MAX);
    let settings = Settings::default();
    let restored =
        Merge::restore(schema(), &[], settings, Some(&checkpoint.bytes), ms(500)).unwrap();
    assert_eq!(restored.lost.len(), 30);
}
