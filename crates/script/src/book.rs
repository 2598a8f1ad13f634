//! One core's record of what its scripts measured. One owner, no locks; the window is swapped when
//! the conductor asks.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use client::Mono;
use stats::series::{MetricId, SeriesLayout, SeriesSample, SeriesSink, SeriesWindow};

use crate::tags::SampleScope;

/// Samples are handed on in batches of this size, or at the end of a window.
const SAMPLE_BATCH: usize = 1024;

pub struct Book {
    pub layout: Arc<SeriesLayout>,
    window: RefCell<SeriesWindow>,
    samples: RefCell<Vec<SeriesSample>>,
    sink: Option<SeriesSink>,
    epoch_unix_ns: u64,
    samples_dropped: Cell<u64>,
}

impl Book {
    pub fn new(layout: Arc<SeriesLayout>, sink: Option<SeriesSink>, epoch_unix_ns: u64) -> Book {
        Book {
            window: RefCell::new(SeriesWindow::new(&layout)),
            layout,
            samples: RefCell::default(),
            sink,
            epoch_unix_ns,
            samples_dropped: Cell::new(0),
        }
    }

    pub fn record(&self, metric: MetricId, value: f64, tags: &impl SampleScope) {
        self.record_all(&[(metric, value)], tags);
    }

    /// Several values with the same tags at the same time.
    pub fn record_all(&self, values: &[(MetricId, f64)], tags: &impl SampleScope) {
        let now = Mono::recent().0;
        {
            let mut window = self.window.borrow_mut();
            for &(metric, value) in values {
                window.record(&self.layout, metric, value, now, tags);
            }
        }
        if self.sink.is_some() {
            let shared = Arc::new(tags.sample_tags());
            for &(metric, value) in values {
                self.sample(metric, value, shared.clone());
            }
        }
    }

    pub fn check(&self, group: &str, name: &str, holds: bool, tags: &impl SampleScope) {
        let now = Mono::recent().0;
        self.window.borrow_mut().check(&self.layout, group, name, holds, now, tags);
        if self.sink.is_some() {
            let value = f64::from(u8::from(holds));
            self.sample(stats::series::builtin::CHECKS, value, Arc::new(tags.sample_tags()));
        }
    }

    /// A group exists from when it is first entered, whatever happens in it.
    pub fn group(&self, path: &str, tags: &impl SampleScope) {
        self.window.borrow_mut().group(&self.layout, path, Mono::recent().0, tags);
    }

    /// What was recorded since the last call. `empty` must be clear; it takes the window's place.
    pub fn swap(&self, empty: SeriesWindow) -> SeriesWindow {
        self.flush();
        std::mem::replace(&mut *self.window.borrow_mut(), empty)
    }

    pub fn take_samples_dropped(&self) -> u64 {
        self.samples_dropped.take()
    }

    fn sample(&self, metric: MetricId, value: f64, tags: Arc<stats::series::SampleTags>) {
        let at_unix_ns = self.epoch_unix_ns + Mono::recent().0;
        let mut samples = self.samples.borrow_mut();
        samples.push(SeriesSample { at_unix_ns, metric, value, tags });
        if samples.len() >= SAMPLE_BATCH {
            drop(samples);
            self.flush();
        }
    }

    fn flush(&self) {
        let batch = std::mem::take(&mut *self.samples.borrow_mut());
        let count = batch.len() as u64;
        if let Some(sink) = &self.sink
            && count > 0
            && !sink(batch)
        {
            self.samples_dropped.set(self.samples_dropped.get() + count);
        }
    }
}
