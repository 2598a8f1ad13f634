//! An owner may die at any point: the sums of the job are those of its shards.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::feed::{Feed, FeedLimits, Shown, Watcher};
use crate::fixture::{Happening, layout, made_up, threshold};
use crate::stream::{Sender, SenderLimits};
use crate::window::Window;
use crate::wire::Content;

#[derive(Debug, Clone)]
enum Op {
    Count(u8, Vec<Happening>),
    Send(u8),
    Arrive(u8),
    Lose(u8),
    Reconnect(u8),
    /// An answer reaches its sender, whoever gave it.
    Answer(u8),
    Pass(u16),
    /// The state is written; it may be on disk, and it may be known to be.
    Checkpoint,
    Land,
    Stored,
    Die,
    /// The attempt at a shard is replaced by another, which is a stream of its own.
    Replace(u8),
    Watch,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<u8>(), prop::collection::vec(any::<Happening>(), 0..5))
            .prop_map(|(stream, happenings)| Op::Count(stream, happenings)),
        6 => any::<u8>().prop_map(Op::Send),
        8 => any::<u8>().prop_map(Op::Arrive),
        1 => any::<u8>().prop_map(Op::Lose),
        1 => any::<u8>().prop_map(Op::Reconnect),
        4 => any::<u8>().prop_map(Op::Answer),
        4 => (0..400u16).prop_map(Op::Pass),
        2 => Just(Op::Checkpoint),
        2 => Just(Op::Land),
        2 => Just(Op::Stored),
        1 => Just(Op::Die),
        1 => any::<u8>().prop_map(Op::Replace),
        2 => Just(Op::Watch),
    ]
}

struct World {
    schema: Schema,
    thresholds: Vec<Threshold>,
    settings: Settings,
    now: Duration,
    senders: Vec<Sender>,
    counted: Window,
    wire: Vec<Vec<u8>>,
    answers: Vec<Ack>,
    owner: Merge,
    under_way: VecDeque<Checkpoint>,
    landed: VecDeque<u64>,
    disk: Option<Vec<u8>>,
    epoch: u64,
    feed: Feed,
    watcher: Watcher,
    shown: Tally,
}

impl World {
    fn new() -> World {
        let schema = Schema::new(layout(), None);
        let thresholds =
            vec![threshold("http_reqs", "count > 0"), threshold("latency", "p(95) < 9")];
        let settings = Settings { silence: Duration::from_secs(3), ..Settings::default() };
        let owner = Merge::new(schema.clone(), &thresholds, settings);
        let mut world = World {
            counted: Window::new(&schema.layout),
            schema,
            thresholds,
            settings,
            now: Duration::ZERO,
            senders: Vec::new(),
            wire: Vec::new(),
            answers: Vec::new(),
            owner,
            under_way: VecDeque::new(),
            landed: VecDeque::new(),
            disk: None,
            epoch: 1,
            feed: Feed::new(1, FeedLimits { windows: 5, ..FeedLimits::default() }),
            watcher: Watcher::default(),
            shown: Tally::default(),
        };
        (0..3).for_each(|shard| world.start(shard, 1));
        world
    }

    fn start(&mut self, shard: u32, attempt: u32) {
        let id = u128::from(shard) << 64 | u128::from(attempt);
        let key = StreamKey { workflow: 0, shard, attempt, id };
        let limits = SenderLimits { sent_frames: 4, waiting_frames: 3, ..SenderLimits::default() };
        self.senders.push(Sender::new(key, self.schema.clone(), limits));
        self.reconnect(self.senders.len() - 1);
    }

    fn reconnect(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        sender.detach();
        let from = self.owner.open(sender.key(), self.now).expect("an honest shard");
        sender.resume(from).expect("an owner that keeps its word");
    }

    fn content(&mut self, happenings: &[Happening]) -> Content {
        let window = made_up(&self.schema.layout, happenings);
        self.counted.merge(&window);
        Content { counts: Delta::of(&window), ..Content::default() }
    }

    fn window(&self) -> u64 {
        (self.now.as_millis() / 100) as u64
    }

    fn send(&mut self, at: usize) {
        self.wire.extend(self.senders[at].next_frame().map(|frame| frame.bytes.to_vec()));
    }

    fn arrive(&mut self, bytes: &[u8]) {
        match self.owner.receive(bytes, self.now) {
            Ok(ack) => self.answers.push(ack),
            // It was opened at an owner that died before its first checkpoint.
            Err(ReceiveError::UnknownStream(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        for window in self.owner.step(self.now).windows {
            self.feed.window(window);
        }
    }

    fn watch(&mut self) {
        for event in self.feed.since(&self.watcher.position(), false) {
            // Told twice, and shown once.
            let again = event.clone();
            if let Some(Shown::Window { window, counted }) = self.watcher.take(event) {
                assert!(window.first <= window.last);
                self.shown.requests += counted.requests;
            }
            assert!(self.watcher.take(again).is_none());
        }
    }

    fn die(&mut self) {
        self.under_way.clear();
        self.landed.clear();
        let (schema, disk) = (self.schema.clone(), self.disk.as_deref());
        self.owner =
            Merge::restore(schema, &self.thresholds, self.settings, disk, self.now).unwrap();
        self.epoch += 1;
        self.feed = Feed::new(self.epoch, FeedLimits { windows: 5, ..FeedLimits::default() });
        (0..self.senders.len()).for_each(|at| self.reconnect(at));
    }

    fn do_it(&mut self, op: Op) {
        let some = |n: u8, len: usize| (len > 0).then(|| usize::from(n) % len);
        match op {
            Op::Count(n, happenings) => {
                let at = usize::from(n) % self.senders.len();
                let content = self.content(&happenings);
                let window = self.window();
                self.senders[at].push(window, content);
            }
            Op::Send(n) => self.send(usize::from(n) % self.senders.len()),
            Op::Arrive(n) => {
                if let Some(at) = some(n, self.wire.len()) {
                    let bytes = self.wire.remove(at);
                    self.arrive(&bytes);
                }
            }
            Op::Lose(n) => drop(some(n, self.wire.len()).map(|at| self.wire.remove(at))),
            Op::Reconnect(n) => self.reconnect(usize::from(n) % self.senders.len()),
            Op::Answer(n) => {
                if let Some(at) = some(n, self.answers.len()) {
                    let ack = self.answers.remove(at);
                    let sender = self.senders.iter_mut().find(|sender| sender.key() == ack.key);
                    let sender = sender.expect("an answer to a sender");
                    sender.acknowledge(ack.applied_through, ack.durable_through);
                }
            }
            Op::Pass(ms) => {
                self.now += Duration::from_millis(u64::from(ms));
                self.step();
            }
            Op::Checkpoint => self.under_way.push_back(self.owner.checkpoint(&[])),
            Op::Land => {
                if let Some(checkpoint) = self.under_way.pop_front() {
                    self.disk = Some(checkpoint.bytes);
                    self.landed.push_back(checkpoint.number);
                }
            }
            Op::Stored => {
                if let Some(number) = self.landed.pop_front() {
                    self.answers.extend(self.owner.stored(number));
                }
            }
            Op::Die => self.die(),
            Op::Replace(n) => {
                let key = self.senders[usize::from(n) % self.senders.len()].key();
                let attempts = self.senders.iter().filter(|one| one.key().shard == key.shard);
                let attempt = attempts.count() as u32 + 1;
                if attempt < 5 {
                    self.owner.supersede(key);
                    self.start(key.shard, attempt);
                }
            }
            Op::Watch => self.watch(),
        }
    }

    fn settle(&mut self) {
        for at in 0..self.senders.len() {
            let (content, window) = (self.content(&[(1, 0, 7, 7)]), self.window());
            self.senders[at].finish(window, content);
        }
        // An owner has one checkpoint under way at a time; of many it forgets the oldest, and
        // nobody hears of those.
        while !self.under_way.is_empty() || !self.landed.is_empty() {
            [Op::Land, Op::Stored].into_iter().for_each(|op| self.do_it(op));
        }
        for _ in 0..1000 {
            if self.senders.iter().all(Sender::is_done) {
                return;
            }
            for at in 0..self.senders.len() {
                self.reconnect(at);
                (0..8).for_each(|_| self.send(at));
                // An owner's answer speaks of all streams of a worker: one that may send no more,
                // because too much of it is not known to be durable, would wait for ever otherwise.
                self.answers.push(self.owner.ack(self.senders[at].key()));
            }
            while !self.wire.is_empty() {
                self.do_it(Op::Arrive(0));
            }
            self.do_it(Op::Pass(200));
            [Op::Checkpoint, Op::Land, Op::Stored].into_iter().for_each(|op| self.do_it(op));
            while !self.answers.is_empty() {
                self.do_it(Op::Answer(0));
            }
        }
        let left = self.senders.iter().filter(|sender| !sender.is_done());
        let left: Vec<_> = left.map(|one| (one.key(), one.cut(), one.durable_through())).collect();
        panic!("the job does not come to its end: {left:?}");
    }
}

fn without_tags(window: &Window) -> Delta {
    let mut delta = Delta::of(window);
    for step in delta.blocks.values_mut().flat_map(|block| block.steps.values_mut()) {
        step.tagged.clear();
        step.counters.own[8] = 0;
    }
    delta
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// R17, BAR-113: sums over all attempts of all shards, whoever owned the job in between; and
    /// what a watcher was shown adds up to them.
    #[test]
    fn the_sums_of_a_job_are_those_of_its_shards(ops in prop::collection::vec(op(), 0..250)) {
        let mut world = World::new();
        for op in ops {
            world.do_it(op);
            prop_assert!(world.owner.pending.len() as u64 <= BACKLOG_MAX + 8, "bounded");
        }
        world.settle();
        prop_assert!(world.owner.incomplete().is_empty(), "{:?}", world.owner.incomplete());
        for _ in 0..60 {
            world.do_it(Op::Pass(100));
        }
        world.watch();
        let expected = without_tags(&world.counted);
        prop_assert_eq!(world.watcher.position().window, world.owner.next);
        prop_assert_eq!(world.owner.tally.requests, expected.requests().0);
        // What the old owner had shown beyond its checkpoint is not shown again, and not lost.
        prop_assert_eq!(world.shown.requests, expected.requests().0);
        let finished = world.owner.finish(world.now);
        prop_assert!(finished.exact);
        prop_assert_eq!(without_tags(&finished.totals), expected.clone());
        prop_assert_eq!(finished.thresholds[0].value, Some(expected.requests().0 as f64));
        let points = finished.history.points().iter().map(|point| point.requests).sum::<u64>();
        prop_assert_eq!(points, expected.requests().0);
    }

    #[test]
    fn a_checkpoint_that_was_changed_is_refused(
        at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut world = World::new();
        world.do_it(Op::Count(0, vec![(1, 1, 5, 1); 4]));
        world.send(0);
        world.do_it(Op::Arrive(0));
        let bytes = world.owner.checkpoint(&[]).bytes;
        let restore = |bytes: &[u8]| {
            let (schema, settings) = (world.schema.clone(), world.settings);
            Merge::restore(schema, &world.thresholds, settings, Some(bytes), world.now)
        };
        prop_assert!(restore(&bytes).is_ok());
        let at = at.index(bytes.len());
        prop_assert!(restore(&bytes[..at]).is_err());
        let mut changed = bytes;
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        prop_assert!(restore(&changed).is_err());
    }
}
