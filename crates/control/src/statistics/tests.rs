//! FrameBatch, reports, seals and checkpoints, one at a time.

use std::sync::Arc;

use fence::BootId;
use stats::stream::{Sender, SenderLimits};
use stats::wire::Content;
use stats::{Layout, WorkflowLayout};

use super::*;
use ledger_state::AttemptStatus;

const JOB: JobId = JobId(1);
const SHARD: ShardKey = ShardKey { job: JOB, workflow: WorkflowNo(0), shard: 3 };
const ONE: Attempt = Attempt(1);

fn schema() -> Schema {
    let mut layout = Layout::default();
    layout.workflows.push(WorkflowLayout {
        name: "w".to_owned(),
        steps: 0..0,
        checks: 0..0,
        stages: 0..0,
        synthetic: false,
        about: stats::WorkflowFacts::default(),
    });
    Schema::new(Arc::new(layout), None)
}

fn begin() -> (Statistics, Sender) {
    let key = StreamKey { workflow: 0, shard: 3, attempt: 1, id: 9 };
    let statistics = Statistics::new(schema(), &[], None, Duration::ZERO).unwrap();
    (statistics, Sender::new(key, schema(), SenderLimits::default()))
}

fn open(statistics: &mut Statistics, sender: &Sender) -> Result<u64, String> {
    let (worker, boot, open) = (NodeId(7), BootId(1), vec![sender.key()]);
    let post = FrameBatch { job: JOB, worker, boot, open, frames: Vec::new() };
    let (answer, _) = statistics.frames(&post, Duration::ZERO, |_, _, _| true);
    let FrameBatchAck::Taken { mut resume, .. } = answer else { panic!("{answer:?}") };
    resume.remove(0).1
}

fn report(sender: &Sender) -> EndReport {
    EndReport {
        shard: SHARD,
        attempt: ONE,
        worker: NodeId(7),
        boot: BootId(1),
        status: AttemptStatus::Stopped,
        error: None,
        counters: Counters::default(),
        provided: BTreeMap::new(),
        frames: sender.cut(),
        totals: postcard::to_allocvec(&sender.tail()).unwrap(),
        log: String::new(),
        certain: true,
        sent_until: None,
    }
}

/// R17: the sum is over all attempts, those that were replaced too, and what is said twice counts
/// once.
#[test]
fn totals_are_the_sum_over_all_attempts() {
    let (mut statistics, first) = begin();
    let key = StreamKey { attempt: 2, id: 10, ..first.key() };
    let second = Sender::new(key, schema(), SenderLimits::default());
    assert_eq!(statistics.totals(), Counters::default());
    for (mut sender, issued) in [(first, 7), (second, 5)] {
        assert_eq!(open(&mut statistics, &sender), Ok(1));
        sender.resume(1).unwrap();
        let mut content = Content::default();
        (content.generator.issued, content.generator.begun) = (issued, issued + 1);
        sender.push(0, content);
        let frames = vec![sender.next_frame().unwrap().bytes.to_vec()];
        let (job, worker, boot) = (JOB, NodeId(7), BootId(1));
        let post = FrameBatch { job, worker, boot, open: Vec::new(), frames };
        for _ in 0..2 {
            statistics.frames(&post, Duration::ZERO, |_, _, _| true);
        }
    }
    let totals = statistics.totals();
    assert_eq!((totals.issued, totals.begun), (12, 14));
}

/// Its worker had made it ready, and it was ended before it began.
#[test]
fn what_never_ran_leaves_no_gap() {
    let (mut statistics, mut sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    statistics.never_ran(SHARD, ONE);
    assert_eq!(statistics.merge().live_streams(), 0, "no window waits for it");
    assert_eq!(statistics.merge().incomplete(), [""; 0]);
    // Its worker says the same later.
    sender.finish(1, Content::default());
    statistics.ended(&report(&sender), Duration::from_secs(1));
    assert_eq!(statistics.merge().incomplete(), [""; 0]);
}

#[test]
fn what_never_ran_opens_nothing() {
    let (mut statistics, sender) = begin();
    statistics.never_ran(SHARD, ONE);
    assert!(open(&mut statistics, &sender).unwrap_err().contains("before it ran"));
    assert_eq!(statistics.merge().live_streams(), 0);
}

/// P5: without its last frames the sums are not all there is, and the result says so.
#[test]
fn a_report_without_the_last_frames_is_a_gap() {
    let (mut statistics, mut sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    sender.finish(1, Content::default());
    let whole = report(&sender);
    statistics.ended(&EndReport { totals: Vec::new(), ..whole }, Duration::ZERO);
    let notes = statistics.merge().incomplete();
    assert!(notes[0].contains("end at 0.0 s"), "{notes:?}");
}

/// P5: a new owner finds a report whose frames were too large to keep, and has none of them itself.
#[test]
fn a_report_without_any_frames_of_an_attempt_that_has_sent_is_a_gap() {
    let (mut statistics, mut sender) = begin();
    sender.finish(1, Content::default());
    let counters = Counters { issued: 5, ..Counters::default() };
    let light = EndReport { totals: Vec::new(), counters, ..report(&sender) };
    for _ in 0..2 {
        statistics.ended(&light, Duration::ZERO);
        let notes = statistics.merge().incomplete();
        assert!(notes.len() == 1 && notes[0].contains("all counts of attempt 1"), "{notes:?}");
    }
    let (mut sound, _) = begin();
    sound.ended(&EndReport { counters: Counters::default(), ..light }, Duration::ZERO);
    assert_eq!(sound.merge().incomplete(), [""; 0], "it has sent nothing");
}

/// An attempt that counts iterations waits at its beginning for what it says to be durable.
#[test]
fn checkpoints_come_quickly_when_an_attempt_begins() {
    let (mut statistics, sender) = begin();
    let mut made = Vec::new();
    for ms in (0..6_000).step_by(10) {
        if ms == 3_000 {
            let again = StreamKey { attempt: 2, id: 2, ..sender.key() };
            let open = vec![again];
            let (job, worker, boot) = (SHARD.job, NodeId(1), BootId(1));
            let post = FrameBatch { job, worker, boot, open, frames: Vec::new() };
            let (answer, _) = statistics.frames(&post, Duration::from_millis(ms), |_, _, _| true);
            assert!(matches!(answer, FrameBatchAck::Taken { .. }));
        }
        statistics.keep_anew();
        if let Some(checkpoint) = statistics.checkpoint_with(Duration::from_millis(ms), Vec::new) {
            statistics.stored(checkpoint.number);
            made.push(ms);
        }
    }
    let quick = [0, 100, 300, 700, 1_500, 2_500];
    let anew = [3_000, 3_100, 3_300, 3_700, 4_500, 5_500];
    assert_eq!(made, [quick, anew].concat());
}

/// A checkpoint that is under way is waited for, and what was closed is said when it is durable.
#[test]
fn what_is_sealed_is_said_when_it_is_stored() {
    let (mut statistics, sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    statistics.seal(SHARD, ONE, true);
    let checkpoint =
        statistics.checkpoint_with(Duration::from_millis(1), Vec::new).expect("at once");
    assert!(
        statistics.checkpoint_with(Duration::from_secs(9), Vec::new).is_none(),
        "one at a time"
    );
    assert_eq!(statistics.stored(checkpoint.number), [(SHARD, ONE)]);
    assert_eq!(statistics.stored(checkpoint.number), [], "once");
}

/// R26: frames count only for attempts of the worker that sends them, in a post as well as in a
/// last word.
#[test]
fn a_worker_feeds_and_ends_the_streams_of_its_own_attempts_only() {
    let (mut statistics, mut sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    sender.resume(1).unwrap();
    let mut content = Content::default();
    content.generator.issued = 7;
    sender.finish(0, content);
    let frames = vec![sender.next_frame().unwrap().bytes.to_vec()];
    let (job, worker, boot) = (JOB, NodeId(8), BootId(1));
    let post = FrameBatch { job, worker, boot, open: vec![sender.key()], frames };
    let (answer, touched) = statistics.frames(&post, Duration::ZERO, |_, _, _| false);
    let FrameBatchAck::Taken { resume, refused, .. } = answer else { panic!("{answer:?}") };
    assert!(resume[0].1.is_err() && touched.is_empty());
    assert_eq!(refused[0].0, sender.key());

    // The last word of another attempt carries the frames of this one.
    let foreign = EndReport { attempt: Attempt(2), ..report(&sender) };
    statistics.ended(&foreign, Duration::ZERO);
    assert_eq!(statistics.totals().issued, 0);
    statistics.ended(&report(&sender), Duration::ZERO);
    assert_eq!(statistics.totals().issued, 7);
}

/// R27: the owner goes by a last word that comes before the seal of its attempt is said. So it must
/// be in the sums, also where an owner before had sealed the attempt and nobody was told. After the
/// seal was said, nothing more counts.
#[test]
fn a_last_word_that_comes_while_its_attempt_is_sealed_counts() {
    let (mut statistics, mut sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    let mut content = Content::default();
    content.generator.issued = 7;
    sender.finish(0, content);
    statistics.seal(SHARD, ONE, true);
    let checkpoint = statistics.checkpoint_with(Duration::from_millis(1), Vec::new).unwrap();
    let bytes = Some(&checkpoint.bytes[..]);
    let mut successor = Statistics::new(schema(), &[], bytes, Duration::from_millis(1)).unwrap();

    statistics.ended(&report(&sender), Duration::from_millis(2));
    assert_eq!(statistics.stored(checkpoint.number), [], "it has an end of its own");
    successor.ended(&report(&sender), Duration::from_millis(2));
    for statistics in [&mut statistics, &mut successor] {
        assert_eq!(statistics.totals().issued, 7);
        assert_eq!(statistics.merge().incomplete(), [""; 0]);
    }
}

/// P5: an attempt that may have run and was never heard of is missing, and the result says so,
/// unless its own last word comes after all. One that was never told to start has nothing to miss.
#[test]
fn an_attempt_that_is_sealed_unheard_is_a_gap_if_it_may_have_run() {
    let (mut statistics, mut sender) = begin();
    statistics.seal(SHARD, ONE, true);
    let notes = statistics.merge().incomplete();
    assert!(notes.len() == 1 && notes[0].contains("all counts of attempt 1"), "{notes:?}");
    sender.finish(1, Content::default());
    statistics.ended(&report(&sender), Duration::ZERO);
    assert_eq!(statistics.merge().incomplete(), [""; 0], "it has told everything");
    let (mut waiting, _) = begin();
    waiting.seal(SHARD, ONE, false);
    assert_eq!(waiting.merge().incomplete(), [""; 0], "it was never started");
}

/// R27: of an attempt that was sealed before anything came of it nothing comes later, either.
#[test]
fn an_attempt_that_is_sealed_opens_nothing() {
    let (mut statistics, mut sender) = begin();
    statistics.seal(SHARD, ONE, true);
    assert!(open(&mut statistics, &sender).unwrap_err().contains("has ended"));
    // Unless its own last word comes first.
    let mut content = Content::default();
    content.generator.issued = 7;
    sender.finish(0, content);
    statistics.ended(&report(&sender), Duration::ZERO);
    assert_eq!(statistics.totals().issued, 7);
}

/// R27: a frame that arrives after the last word of a killed process is not in what that has
/// counted.
#[test]
fn a_frame_that_comes_after_the_last_word_does_not_count() {
    let (mut statistics, mut sender) = begin();
    assert_eq!(open(&mut statistics, &sender), Ok(1));
    sender.resume(1).unwrap();
    let mut content = Content::default();
    content.generator.issued = 7;
    sender.finish(0, content);
    let frames = vec![sender.next_frame().unwrap().bytes.to_vec()];
    let (job, worker, boot) = (JOB, NodeId(7), BootId(1));
    let post = FrameBatch { job, worker, boot, open: Vec::new(), frames };
    let killed = EndReport { totals: Vec::new(), ..report(&sender) };
    statistics.ended(&killed, Duration::ZERO);
    statistics.frames(&post, Duration::ZERO, |_, _, _| true);
    assert_eq!(statistics.totals().issued, 0);
}
