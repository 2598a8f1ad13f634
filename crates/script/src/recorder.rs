//! One core's record of what its scripts measured. One owner, no locks; the window is swapped when
//! the conductor asks.

use base::clock;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use stats::series::{MetricId, SeriesLayout, SeriesSample, SeriesSink, SeriesWindow};

use crate::tags::SampleScope;

/// Samples are handed on in batches of this size, or at the end of a window.
const SAMPLE_BATCH: usize = 1024;

pub struct ScriptRecorder {
    pub layout: Arc<SeriesLayout>,
    window: RefCell<SeriesWindow>,
    samples: RefCell<Vec<SeriesSample>>,
    sink: Option<SeriesSink>,
    epoch_unix_ns: u64,
    samples_dropped: Cell<u64>,
    /// Looks at tags that are left, and what they are for: tags of sub-metrics with a threshold.
    looks: Cell<u32>,
    looked_for: Vec<(MetricId, Box<str>)>,
    seen: Option<Arc<SeenTags>>,
}

/// Values of the tags that thresholds ask for, as the first samples had them: for whoever asks why
/// a sub-metric measured nothing.
#[derive(Default)]
pub struct SeenTags(Mutex<BTreeMap<(MetricId, Box<str>), Values>>);

type Values = BTreeSet<Box<str>>;

/// Later samples are like the first.
const LOOKS_MAX: u32 = 500;
const SEEN_VALUES_MAX: usize = 8;

impl SeenTags {
    pub fn values(&self, metric: MetricId, tag: &str) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = seen.get(&(metric, tag.into()));
        values.into_iter().flatten().map(|value| value.to_string()).collect()
    }

    fn add(&self, metric: MetricId, tag: &str, value: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = seen.entry((metric, tag.into())).or_default();
        if values.len() < SEEN_VALUES_MAX && !values.contains(value) {
            values.insert(value.into());
        }
    }
}

impl ScriptRecorder {
    pub fn new(
        layout: Arc<SeriesLayout>,
        sink: Option<SeriesSink>,
        epoch_unix_ns: u64,
    ) -> ScriptRecorder {
        ScriptRecorder {
            window: RefCell::new(SeriesWindow::new(&layout)),
            layout,
            samples: RefCell::default(),
            sink,
            epoch_unix_ns,
            samples_dropped: Cell::new(0),
            looks: Cell::new(0),
            looked_for: Vec::new(),
            seen: None,
        }
    }

    /// Notes the values of tags that thresholds ask for, of the first samples.
    pub fn noting(mut self, seen: Arc<SeenTags>) -> ScriptRecorder {
        let wanted = self.layout.subs().filter(|(_, sub)| sub.wanted);
        let tags = wanted.flat_map(|(_, sub)| {
            sub.tags.iter().map(|(tag, _)| (sub.metric, Box::from(&**tag))).collect::<Vec<_>>()
        });
        self.looked_for = tags.collect();
        self.looks.set(if self.looked_for.is_empty() { 0 } else { LOOKS_MAX });
        self.seen = Some(seen);
        self
    }

    #[cold]
    fn look(&self, metrics: &[MetricId], tags: &dyn stats::series::Tags) {
        let Some(seen) = &self.seen else { return };
        for (metric, tag) in &self.looked_for {
            if metrics.contains(metric)
                && let Some(value) = tags.tag(tag)
            {
                self.looks.set(self.looks.get().saturating_sub(1));
                seen.add(*metric, tag, value);
            }
        }
    }

    pub fn record(&self, metric: MetricId, value: f64, tags: &impl SampleScope) {
        self.record_all(&[(metric, value)], tags);
    }

    /// Several values with the same tags at the same time.
    pub fn record_all(&self, values: &[(MetricId, f64)], tags: &impl SampleScope) {
        let now = clock::recent().as_nanos();
        if self.looks.get() > 0 {
            let metrics: Vec<MetricId> = values.iter().map(|(metric, _)| *metric).collect();
            self.look(&metrics, tags);
        }
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
        let now = clock::recent().as_nanos();
        if self.looks.get() > 0 {
            self.look(&[stats::series::builtin::CHECKS], tags);
        }
        self.window.borrow_mut().check(&self.layout, group, name, holds, now, tags);
        if self.sink.is_some() {
            let value = f64::from(u8::from(holds));
            self.sample(stats::series::builtin::CHECKS, value, Arc::new(tags.sample_tags()));
        }
    }

    /// A group exists from when it is first entered, whatever happens in it.
    pub fn group(&self, path: &str, tags: &impl SampleScope) {
        self.window.borrow_mut().group(&self.layout, path, clock::recent().as_nanos(), tags);
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
        let at_unix_ns = self.epoch_unix_ns + clock::recent().as_nanos();
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
