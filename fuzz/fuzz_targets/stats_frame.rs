//! Bytes that claim to be statistics go through every decoder of them, and what is let in is
//! counted.
//!
//! The first byte chooses the kind and whether the checksum is made to fit, which is what gets past
//! the envelope.

#![no_main]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use stats::feed::Event;
use stats::merge::{Merge, Settings};
use stats::series::{Contains, MetricKind, SeriesLayout};
use stats::wire::{Body, Frame, Schema, decode_result, decode_snapshot};
use stats::{CheckLayout, Layout, MetricLayout, StageLayout, StepLayout, Window, WorkflowLayout};

/// Notes the largest single allocation.
struct Watching;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Memory, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Memory) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Two workflows with checks and metrics of each kind, and a script's metrics.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let workflow = |name: &str, steps, checks, stages| WorkflowLayout {
        name: name.into(),
        steps,
        checks,
        stages,
        synthetic: false,
    };
    let step = |name: &str, workflow| StepLayout {
        name: name.into(),
        workflow,
        method: "GET".into(),
        route: "/".into(),
        tags: vec![],
    };
    let stage = |workflow| StageLayout { name: "main".into(), workflow };
    let kinds = [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend];
    let metric = |kind| MetricLayout { name: format!("{kind:?}"), kind, time: false };
    let layout = Layout {
        workflows: vec![workflow("one", 0..2, 0..1, 0..2), workflow("two", 2..3, 1..1, 2..3)],
        steps: vec![step("a", 0), step("b", 0), step("c", 1)],
        checks: vec![CheckLayout { name: "ok".into(), step: 0 }],
        stages: vec![stage(0), stage(0), stage(1)],
        metrics: kinds.into_iter().map(metric).collect(),
    };
    let mut series = SeriesLayout::new();
    for kind in kinds {
        series.metric(&format!("m_{kind:?}"), kind, Contains::Default).unwrap();
    }
    series.set_sections(true);
    Schema::new(Arc::new(layout), Some(Arc::new(series)))
});

fn sealed(kind: u8, body: &[u8], fits: bool) -> Vec<u8> {
    let mut bytes = vec![b'V', stats::wire::VERSION, kind];
    if matches!(kind, 1 | 2) && fits {
        let mut fingerprint = SCHEMA.fingerprint();
        while fingerprint >= 0x80 {
            bytes.push(fingerprint as u8 | 0x80);
            fingerprint >>= 7;
        }
        bytes.push(fingerprint as u8);
    }
    bytes.extend_from_slice(body);
    let checksum = if fits { crc32c::crc32c(&bytes) } else { 0 };
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fuzz_target!(|data: &[u8]| {
    let Some((shape, rest)) = data.split_first() else { return };
    let schema = &*SCHEMA;
    let bytes = sealed(1 + shape % 5, rest, shape & 0x80 == 0);
    LARGEST.store(0, Relaxed);
    match shape % 5 {
        0 => {
            if let Ok(frame) = Frame::decode(&bytes, schema) {
                let largest = LARGEST.load(Relaxed);
                let limit = 64 * bytes.len() + (64 << 10);
                assert!(largest <= limit, "{largest} bytes for a frame of {}", bytes.len());
                if let Body::Content(content) = &frame.body {
                    // Groups that occur twice add up, so a script's metrics may have two spellings.
                    if content.series.is_none() {
                        assert_eq!(frame.encode(schema), bytes, "one content, one spelling");
                    }
                    let mut window = Window::new(&schema.layout);
                    content.counts.add_to(&mut window, &schema.layout);
                }
            }
        }
        1 => {
            let now = Duration::from_secs(5);
            if let Ok(mut merge) =
                Merge::restore(schema.clone(), &[], Settings::default(), Some(&bytes), now)
            {
                merge.step(Duration::from_secs(60));
                drop(merge.checkpoint());
            }
        }
        2 => drop(decode_result(&bytes)),
        3 => drop(decode_snapshot(&bytes)),
        _ => drop(Event::decode(&bytes)),
    }
});
