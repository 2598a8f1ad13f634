//! The samples of a plan, as k6's metrics: one sample becomes a point of each of its metrics.

use std::sync::Arc;

use stats::{Layout, Sample, SampleSink};

use super::metrics::{self, Metric};
use super::queue::{BatchWriter, Encoder, QUEUED_BYTES_MAX, Written};
use super::tags::Key;
use super::target::{Format, Target};
use super::{csv::Csv, json::Json};

/// A format for single points.
pub(super) trait PointEncoder: Send {
    fn head(&self, _out: &mut Vec<u8>) {}
    fn point(
        &mut self,
        layout: &Layout,
        metric: Metric,
        at_unix_ns: u64,
        value: f64,
        key: Key,
        out: &mut Vec<u8>,
    );
}

/// Writes the samples of a plan's run; [`SampleWriter::finish`] ends it.
pub struct SampleWriter(BatchWriter<Sample>);

impl SampleWriter {
    /// `None` if no target wants samples. Files are emptied here, and the first lines written.
    pub fn start(
        targets: &[Target],
        layout: Arc<Layout>,
    ) -> Result<Option<SampleWriter>, Vec<String>> {
        SampleWriter::start_with(targets, layout, QUEUED_BYTES_MAX)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers share the layout as an Arc")]
    fn start_with(
        targets: &[Target],
        layout: Arc<Layout>,
        queued_bytes_max: usize,
    ) -> Result<Option<SampleWriter>, Vec<String>> {
        let encoder = |format: Format| -> Box<dyn Encoder<Sample>> {
            let layout = Arc::clone(&layout);
            match format {
                Format::Csv => Box::new(Points { points: Csv::new(&layout), layout }),
                _ => Box::new(Points { points: Json::new(&layout), layout }),
            }
        };
        let writer =
            BatchWriter::start(targets, encoder, size_of_val::<[Sample]>, queued_bytes_max);
        Ok(writer?.map(SampleWriter))
    }

    /// For the engine's cores: takes a batch, or refuses it at once.
    pub fn sink(&self) -> SampleSink {
        self.0.sink()
    }

    /// Writes what is queued and closes the files. Sinks that are still around refuse from now on.
    pub fn finish(self) -> Written {
        self.0.finish()
    }
}

struct Points<P> {
    layout: Arc<Layout>,
    points: P,
}

impl<P: PointEncoder> Encoder<Sample> for Points<P> {
    fn head(&self, out: &mut Vec<u8>) {
        self.points.head(out);
    }

    fn sample(&mut self, sample: &Sample, out: &mut Vec<u8>) {
        let mut point = |metric, at, value, key| {
            self.points.point(&self.layout, metric, at, value, key, out);
        };
        match *sample {
            Sample::Request(ref request) => {
                let key = Key::of(request);
                for (index, value) in metrics::of_request(request).into_iter().enumerate() {
                    point(Metric(index), request.at_unix_ns, value, key);
                }
            }
            Sample::Iteration { at_unix_ns, workflow, duration_ns } => {
                let (key, ms) = (Key::Workflow(workflow), duration_ns as f64 / 1e6);
                point(metrics::ITERATION_DURATION, at_unix_ns, ms, key);
                point(metrics::ITERATIONS, at_unix_ns, 1.0, key);
            }
            Sample::Check { at_unix_ns, check, ok } => {
                let value = f64::from(u8::from(ok));
                point(metrics::CHECKS, at_unix_ns, value, Key::Check(check));
            }
            Sample::Custom { at_unix_ns, metric, value } => {
                point(metrics::custom(metric), at_unix_ns, value, Key::Global);
            }
            Sample::Vus { at_unix_ns, value } => {
                point(metrics::VUS, at_unix_ns, value as f64, Key::Global);
            }
            Sample::Dropped { at_unix_ns, workflow, count } => {
                let key = Key::Workflow(workflow);
                point(metrics::DROPPED_ITERATIONS, at_unix_ns, count as f64, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vus(value: u64) -> Sample {
        Sample::Vus { at_unix_ns: 0, value }
    }

    #[test]
    fn a_full_queue_refuses_at_once_and_counts_what_it_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target { format: Format::Json, path: folder.path().join("a.json") };
        let one = size_of::<Sample>();
        let writer = SampleWriter::start_with(&[target], Arc::default(), 2 * one);
        let writer = writer.unwrap().unwrap();
        let sink = writer.sink();
        assert!(!sink(vec![vus(1); 3]), "larger than the whole queue");
        assert!(sink(vec![vus(1); 2]));
        let written = writer.finish();
        assert_eq!(written.dropped, 3);
        assert!(written.notes[0].contains("3 samples not written"), "{written:?}");
        assert!(!sink(vec![vus(1)]), "closed");
    }

    #[test]
    fn without_a_target_that_wants_samples_there_is_no_writer() {
        let target = Target { format: Format::Hdr, path: "x".into() };
        assert!(SampleWriter::start(&[target], Arc::default()).unwrap().is_none());
    }
}
