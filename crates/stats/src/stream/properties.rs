//! Any loss, repetition, reordering, reconnection and change of owner: the sums agree, or say that
//! they do not.

use proptest::prelude::*;

use super::*;
use crate::delta::Delta;
use crate::fixture::{Happening, layout, made_up};
use crate::window::Window;
use crate::wire::{Body, Content, Frame, Schema, StreamKey};

const KEY: StreamKey = StreamKey { workflow: 0, shard: 1, attempt: 1, id: 9 };

#[derive(Debug, Clone)]
enum Op {
    Count(Vec<Happening>),
    /// Up to so many frames go out.
    Send(u8),
    /// Of the frames under way, one arrives; by its number, so in any order.
    Arrive(u8),
    Lose(u8),
    Repeat(u8),
    /// The connection breaks; all that is under way may still arrive, or not.
    Reconnect,
    Acknowledge,
    /// What is applied becomes durable.
    Store,
    /// The owner dies; the next one has what was stored.
    Die,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec(any::<Happening>(), 0..6).prop_map(Op::Count),
        4 => (0..6u8).prop_map(Op::Send),
        6 => any::<u8>().prop_map(Op::Arrive),
        1 => any::<u8>().prop_map(Op::Lose),
        1 => any::<u8>().prop_map(Op::Repeat),
        1 => Just(Op::Reconnect),
        3 => Just(Op::Acknowledge),
        2 => Just(Op::Store),
        1 => Just(Op::Die),
    ]
}

struct World {
    schema: Schema,
    sender: Sender,
    counted: Window,
    window: u64,
    wire: Vec<Vec<u8>>,
    owner: (Cursor, Delta),
    disk: (Cursor, Delta),
}

impl World {
    fn new(limits: SenderLimits) -> World {
        let schema = Schema::new(layout(), None);
        let limits_in = CursorLimits { held_frames: 3, held_bytes: 1 << 20 };
        let owner = (Cursor::new(limits_in), Delta::default());
        let mut sender = Sender::new(KEY, schema.clone(), limits);
        sender.resume(1).unwrap();
        let counted = Window::new(&schema.layout);
        let disk = owner.clone();
        World { schema, sender, counted, window: 0, wire: Vec::new(), owner, disk }
    }

    fn content(&mut self, happenings: &[Happening]) -> Content {
        let window = made_up(&self.schema.layout, happenings);
        self.counted.merge(&window);
        self.window += 1;
        Content { counts: Delta::of(&window), ..Content::default() }
    }

    fn arrive(&mut self, bytes: &[u8]) {
        let frame = Frame::decode(bytes, &self.schema).unwrap();
        let taken = self.owner.0.take(frame, bytes.len()).expect("an honest sender");
        for frame in taken.frames {
            if let Body::Content(content) = frame.body {
                self.owner.1.merge(&content.counts);
            }
        }
    }

    fn do_it(&mut self, op: Op) {
        let some = |n: u8, len: usize| (len > 0).then(|| usize::from(n) % len);
        match op {
            Op::Count(happenings) => {
                let content = self.content(&happenings);
                self.sender.push(self.window, content);
            }
            Op::Send(count) => {
                for _ in 0..count {
                    self.wire.extend(self.sender.next_frame().map(|frame| frame.bytes.to_vec()));
                }
            }
            Op::Arrive(n) => {
                if let Some(at) = some(n, self.wire.len()) {
                    let bytes = self.wire.remove(at);
                    self.arrive(&bytes);
                }
            }
            Op::Lose(n) => drop(some(n, self.wire.len()).map(|at| self.wire.remove(at))),
            Op::Repeat(n) => {
                self.wire.extend(some(n, self.wire.len()).map(|at| self.wire[at].clone()));
            }
            Op::Reconnect => {
                self.sender.detach();
                self.sender.resume(self.owner.0.resume_from()).unwrap();
            }
            Op::Acknowledge => {
                let cursor = &self.owner.0;
                self.sender.acknowledge(cursor.applied_through(), cursor.durable_through());
            }
            Op::Store => {
                let through = self.owner.0.applied_through();
                self.owner.0.made_durable(through);
                self.disk = self.owner.clone();
            }
            Op::Die => {
                self.owner = self.disk.clone();
                self.do_it(Op::Reconnect);
            }
        }
    }

    fn settle(&mut self) {
        let content = self.content(&[(1, 0, 7, 7)]);
        self.sender.finish(self.window, content);
        for _ in 0..10_000 {
            if self.sender.is_done() {
                return;
            }
            self.do_it(Op::Reconnect);
            self.do_it(Op::Send(9));
            while !self.wire.is_empty() {
                self.do_it(Op::Arrive(0));
            }
            self.do_it(Op::Store);
            self.do_it(Op::Acknowledge);
        }
        panic!("the stream does not come to its end");
    }

    fn sum(&self) -> Delta {
        let mut sum = Window::new(&self.schema.layout);
        self.owner.1.add_to(&mut sum, &self.schema.layout);
        Delta::of(&sum)
    }
}

/// Without what has more tag values than are kept: which ones are folded depends on the order.
fn without_tags(mut delta: Delta) -> Delta {
    for step in delta.blocks.values_mut().flat_map(|block| block.steps.values_mut()) {
        step.tagged.clear();
        step.counters.own[8] = 0;
    }
    delta
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// BAR-113, BAR-114: joined, repeated and reordered frames count once each, over any number of
    /// owners.
    #[test]
    fn what_was_counted_is_what_arrives(
        ops in prop::collection::vec(op(), 0..150), sent in 1..6usize, waiting in 1..5usize,
    ) {
        let limits =
            SenderLimits { sent_frames: sent, waiting_frames: waiting, ..SenderLimits::default() };
        let mut world = World::new(limits);
        for op in ops {
            world.do_it(op);
            prop_assert!(world.sender.kept_frames() <= sent + waiting, "bounded");
            let (cursor, sender) = (&world.owner.0, &world.sender);
            prop_assert!(cursor.durable_through() <= cursor.applied_through());
            prop_assert!(cursor.applied_through() <= sender.cut());
            prop_assert!(sender.durable_through() <= world.disk.0.applied_through());
        }
        world.settle();
        prop_assert!(world.owner.0.gaps().is_empty(), "there was room for everything");
        prop_assert_eq!(world.owner.0.applied_through(), world.sender.cut());
        prop_assert_eq!(without_tags(world.sum()), without_tags(Delta::of(&world.counted)));
    }

    /// BAR-115: what does not fit becomes a gap that is seen, and the counters are right all the
    /// same.
    #[test]
    fn what_is_shed_is_said(ops in prop::collection::vec(op(), 50..150)) {
        let limits = SenderLimits {
            sent_frames: 2,
            sent_bytes: 1200,
            waiting_frames: 3,
            waiting_bytes: 900,
        };
        let mut world = World::new(limits);
        for op in ops {
            world.do_it(op);
        }
        world.settle();
        let (_, shed) = world.sender.joined_and_shed();
        prop_assert_eq!(shed > 0, !world.owner.0.gaps().is_empty());
        prop_assert_eq!(world.owner.0.applied_through(), world.sender.cut());
        let counters = |delta: &Delta| crate::delta::Counters::of(&without_tags(delta.clone()));
        let (found, counted) = (counters(&world.sum()), counters(&Delta::of(&world.counted)));
        prop_assert_eq!(found, counted);
    }
}

fn sender() -> Sender {
    Sender::new(KEY, Schema::new(layout(), None), SenderLimits::default())
}

#[test]
fn a_receiver_that_speaks_of_another_stream_is_refused() {
    let mut sender = sender();
    assert_eq!(sender.resume(2), Err(ResumeError::Ahead { asked: 2, sent: 0 }));
    sender.resume(1).unwrap();
    sender.push(0, Content::default());
    // Never sent, so never had.
    sender.acknowledge(1, 1);
    assert_eq!(sender.durable_through(), 0);
    assert!(sender.resume(2).is_err());
    assert!(sender.next_frame().is_some());
    sender.detach();
    assert!(sender.next_frame().is_none());
    assert!(sender.resume(2).is_ok());
}

/// The end report brought what the stream had not: then the stream has nothing left to send.
#[test]
fn a_receiver_may_know_the_tail_from_elsewhere() {
    let mut sender = sender();
    sender.resume(1).unwrap();
    sender.push(0, Content::default());
    sender.next_frame().unwrap();
    sender.push(1, Content::default());
    sender.finish(2, Content::default());
    let tail = sender.tail();
    assert_eq!(tail.len(), 3, "nothing is durable yet");
    assert_eq!(sender.resume(sender.cut() + 2), Err(ResumeError::Ahead { asked: 5, sent: 3 }));
    sender.resume(4).unwrap();
    assert!(sender.next_frame().is_none());
    sender.acknowledge(3, 3);
    assert!(sender.is_done());
}

/// A receiver that had said it keeps frames, and has lost them: the gap is told, the sums heal.
#[test]
fn frames_that_a_receiver_forgot_are_a_gap() {
    let schema = Schema::new(layout(), None);
    let mut sender = sender();
    sender.resume(1).unwrap();
    let push = |sender: &mut Sender, window| {
        let counts = Delta::of(&made_up(&schema.layout, &[(1, 1, 40, 1)]));
        sender.push(window, Content { counts, ..Content::default() });
    };
    for window in 0..3 {
        push(&mut sender, window);
        sender.next_frame().unwrap();
    }
    sender.acknowledge(3, 3);
    sender.resume(1).unwrap();
    push(&mut sender, 3);
    let mut cursor = Cursor::default();
    let mut sum = Delta::default();
    while let Some(next) = sender.next_frame() {
        let frame = Frame::decode(&next.bytes, &schema).unwrap();
        for frame in cursor.take(frame, next.bytes.len()).unwrap().frames {
            if let Body::Content(content) = frame.body {
                sum.merge(&content.counts);
            }
        }
    }
    assert_eq!(cursor.applied_through(), 4);
    assert_eq!(cursor.gaps(), [(1, 3, crate::wire::GapReason::Forgotten)]);
    assert_eq!(sum.requests(), (4, 0), "counters are sums since the start");
    assert_eq!(sender.resume(3), Ok(()), "any part of a gap will do");
}

#[test]
fn a_stream_that_lies_is_not_believed() {
    let schema = Schema::new(layout(), None);
    let frame = |first, last, requests: usize| {
        let happenings = vec![(1, 1, 40, 1); requests];
        let counts = Delta::of(&made_up(&schema.layout, &happenings));
        let body = Body::Content(Box::new(Content { counts, ..Content::default() }));
        Frame { key: KEY, first, last, windows: (0, 0), end: false, body }
    };
    let mut cursor = Cursor::default();
    cursor.take(frame(1, 2, 5), 100).unwrap();
    let overlap = cursor.clone().take(frame(2, 3, 6), 100).unwrap_err();
    assert_eq!(overlap, StreamError::Overlap { first: 2, last: 3, applied: 2 });
    let back = cursor.take(frame(3, 3, 4), 100).unwrap_err();
    assert_eq!(back, StreamError::CounterWentBack { first: 3 });
    assert_eq!(cursor.take(frame(3, 3, 9), 100).unwrap_err(), back, "for good");
    assert_eq!(cursor.applied_through(), 2);
    let mut sealed = Cursor::default();
    sealed.take(frame(1, 1, 1), 100).unwrap();
    sealed.seal(1);
    assert!(matches!(sealed.take(frame(2, 2, 2), 9), Err(StreamError::Sealed { .. })));
}
