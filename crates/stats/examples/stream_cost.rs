//! What the statistics of a distributed run cost: bytes of a frame, and time to make, read and
//! merge one.
//!
//!     cargo run --release -p stats --example stream_cost
//!
//! The plan is a usual one: three steps, a check each, 1,000 requests a second on one shard,
//! windows of 100 ms. Then 64 such shards are merged.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use stats::merge::{Merge, Settings};
use stats::stream::{Sender, SenderLimits};
use stats::wire::{Content, Frame, Generator, Schema, StreamKey};
use stats::{CheckLayout, Delta, Layout, StageLayout, StepLayout, Trend, Window, WorkflowLayout};

const STEPS: usize = 3;
const REQUESTS: u64 = 100;
const SHARDS: u32 = 64;
const WINDOWS: u64 = 100;

fn layout() -> Arc<Layout> {
    let step = |at: usize| StepLayout {
        name: format!("step {at}"),
        workflow: 0,
        method: "GET".to_owned(),
        route: "/".to_owned(),
        tags: Vec::new(),
        when: Vec::new(),
    };
    let check = |step: usize| CheckLayout { name: format!("check {step}"), step };
    Arc::new(Layout {
        workflows: vec![WorkflowLayout {
            name: "shop".to_owned(),
            steps: 0..STEPS,
            checks: 0..STEPS,
            stages: 0..1,
            synthetic: false,
            about: stats::WorkflowFacts::default(),
        }],
        steps: (0..STEPS).map(step).collect(),
        checks: (0..STEPS).map(check).collect(),
        stages: vec![StageLayout { name: "main".to_owned(), workflow: 0 }],
        metrics: Vec::new(),
    })
}

/// Any generator will do, if it is always the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Times around 3 ms with a tail up to 60.
    fn nanos(&mut self) -> u64 {
        let base = 1_500_000 + self.next() % 3_000_000;
        if self.next().is_multiple_of(50) { base * (2 + self.next() % 12) } else { base }
    }
}

fn window(layout: &Layout, numbers: &mut Numbers) -> Window {
    let mut window = Window::new(layout);
    let block = window.block(layout, 0);
    for request in 0..REQUESTS as usize {
        let step = &mut block.steps[request % STEPS];
        let nanos = numbers.nanos();
        step.requests += 1;
        step.sent += 1;
        step.completed += 1;
        step.bytes_sent += 120;
        step.bytes_received += 1500;
        step.status.add(200, 1);
        step.latency.record_ns(nanos + 40_000);
        step.duration.record_ns(nanos);
        step.sending.record_ns(8_000 + numbers.next() % 9_000);
        step.waiting.record_ns(nanos - 100_000);
        step.receiving.record_zero();
        step.blocked.record_zero();
        step.connecting.record_zero();
        step.tls_handshaking.record_zero();
        block.checks[request % STEPS].passes += 1;
        if request % STEPS == 0 {
            block.iterations += 1;
            block.iteration_duration.record_ns(nanos * 3);
            block.start_lag.record_ns(20_000 + numbers.next() % 200_000);
        }
    }
    window
}

fn content(window: &Window, lag: &Trend) -> Content {
    let generator = Generator {
        vus: vec![(0, 20)],
        vus_made: 20,
        cpu_user: Duration::from_millis(731),
        cpu_system: Duration::from_millis(212),
        memory_max_bytes: 90 << 20,
        descriptors_max: 64,
        descriptors_limit: 1 << 20,
        ..Generator::default()
    };
    let (counts, loop_lag) = (Delta::of(window), lag.to_sparse());
    Content { counts, loop_lag, generator, ..Content::default() }
}

fn main() {
    let schema = Schema::new(layout(), None);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut lag = Trend::new();
    (0..5).for_each(|_| lag.record_ns(numbers.next() % 400_000));
    let windows: Vec<Window> = (0..WINDOWS).map(|_| window(&schema.layout, &mut numbers)).collect();
    let key =
        |shard| StreamKey { workflow: 0, shard, attempt: 1, id: 1 << 100 | u128::from(shard) };
    let unlimited =
        SenderLimits { sent_frames: usize::MAX, sent_bytes: usize::MAX, ..SenderLimits::default() };

    let mut sender = Sender::new(key(0), schema.clone(), unlimited);
    sender.resume(1).expect("a new stream");
    let mut frames = Vec::new();
    let begun = Instant::now();
    for (at, window) in (0..).zip(&windows) {
        sender.push(at, content(window, &lag));
        frames.extend(sender.next_frame().map(|frame| frame.bytes));
    }
    let encoding = begun.elapsed() / WINDOWS as u32;
    let bytes: usize = frames.iter().map(|frame| frame.len()).sum();

    let begun = Instant::now();
    for frame in &frames {
        std::hint::black_box(Frame::decode(frame, &schema).expect("our own frame"));
    }
    let decoding = begun.elapsed() / WINDOWS as u32;

    let mut merge = Merge::new(schema.clone(), &[], Settings::default());
    let mut streams = Vec::new();
    for shard in 0..SHARDS {
        merge.open(key(shard), Duration::ZERO).expect("room for it");
        let mut sender = Sender::new(key(shard), schema.clone(), unlimited);
        sender.resume(1).expect("a new stream");
        let mut frames = Vec::new();
        for at in 0..WINDOWS {
            let window = &windows[((at * 7 + u64::from(shard)) % WINDOWS) as usize];
            sender.push(at, content(window, &lag));
            frames.extend(sender.next_frame().map(|frame| frame.bytes));
        }
        streams.push(frames);
    }
    let begun = Instant::now();
    let (mut released, mut checkpoints, mut checkpoint_bytes) = (0, Duration::ZERO, 0);
    for at in 0..WINDOWS as usize {
        let now = Duration::from_millis(at as u64 * 100 + 100);
        for frames in &streams {
            merge.receive(&frames[at], now).expect("an honest stream");
        }
        released += merge.step(now).windows.len();
        if at % 10 == 9 {
            let begun = Instant::now();
            checkpoint_bytes = merge.checkpoint(&[]).bytes.len();
            checkpoints += begun.elapsed();
        }
    }
    let merging = begun.elapsed() - checkpoints;
    println!("frame: {} bytes for {REQUESTS} requests of {STEPS} steps", bytes / frames.len());
    println!("make and encode: {:.1} us a frame", encoding.as_secs_f64() * 1e6);
    println!("decode: {:.1} us a frame", decoding.as_secs_f64() * 1e6);
    println!(
        "merge {SHARDS} streams: {:.2} ms a window ({:.1} us a frame, decoding included), {released} \
         windows of {WINDOWS} released",
        merging.as_secs_f64() * 1e3 / WINDOWS as f64,
        merging.as_secs_f64() * 1e6 / (WINDOWS * u64::from(SHARDS)) as f64,
    );
    println!(
        "checkpoint: {checkpoint_bytes} bytes, {:.2} ms",
        checkpoints.as_secs_f64() * 1e3 / (WINDOWS / 10) as f64
    );
}
