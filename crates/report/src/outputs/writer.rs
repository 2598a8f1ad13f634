//! From samples to files, on a thread of its own.
//!
//! ```text
//! cores ──try_send(batch)──▶ queue (bounded in bytes) ──▶ writer thread ──▶ json, csv
//!              │ full                                        │ write error
//!              ▼                                             ▼
//!        counted, dropped                        that file is given up, said once
//! ```
//!
//! The queue is bounded by bytes, not batches, because batches differ in size; a sender that finds
//! it full drops its batch and goes on. Files are flushed every second, so that `tail -f` works.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stats::{Layout, Sample, SampleSink};

use super::metrics::{self, Metric};
use super::tags::Key;
use super::target::{Format, Target};
use super::{csv::Csv, json::Json};

/// Samples waiting to be written, in bytes of memory.
const QUEUED_BYTES_MAX: usize = 64 << 20;
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Encoded text is handed to the file in pieces of about this size.
const BUFFER_BYTES: usize = 64 << 10;

/// A format for single points.
pub(super) trait Encoder: Send {
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

/// Owns the writer thread; [`SampleWriter::finish`] ends it.
pub struct SampleWriter {
    shared: Arc<Shared>,
    queue: Sender<Vec<Sample>>,
    thread: JoinHandle<Vec<String>>,
}

struct Shared {
    queued_bytes: AtomicUsize,
    queued_bytes_max: usize,
    dropped: AtomicU64,
    /// Nothing more is taken.
    closed: AtomicBool,
}

/// What became of the samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Samples that found the queue full.
    pub dropped: u64,
    /// One sentence per trouble, for [`stats::RunResult::notes`].
    pub notes: Vec<String>,
}

impl SampleWriter {
    /// `None` if no target wants samples. Files are emptied here, and the first lines written.
    pub fn start(
        targets: &[Target],
        layout: Arc<Layout>,
    ) -> Result<Option<SampleWriter>, Vec<String>> {
        SampleWriter::start_with(targets, layout, QUEUED_BYTES_MAX)
    }

    fn start_with(
        targets: &[Target],
        layout: Arc<Layout>,
        queued_bytes_max: usize,
    ) -> Result<Option<SampleWriter>, Vec<String>> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for target in targets.iter().filter(|target| target.format.is_streamed()) {
            match OpenFile::new(target, &layout) {
                Ok(file) => files.push(file),
                Err(error) => problems.push(format!("output {target}: {error}")),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if files.is_empty() {
            return Ok(None);
        }
        let shared = Arc::new(Shared {
            queued_bytes: AtomicUsize::new(0),
            queued_bytes_max,
            dropped: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let (queue, batches) = mpsc::channel();
        let body = {
            let shared = Arc::clone(&shared);
            move || write_batches(&batches, files, &layout, &shared)
        };
        let thread = std::thread::Builder::new().name("volley-output".into()).spawn(body);
        let thread = thread.map_err(|error| vec![format!("output thread: {error}")])?;
        Ok(Some(SampleWriter { shared, queue, thread }))
    }

    /// For the engine's cores: takes a batch, or refuses it at once.
    pub fn sink(&self) -> SampleSink {
        let (shared, queue) = (Arc::clone(&self.shared), self.queue.clone());
        Arc::new(move |batch: Vec<Sample>| shared.offer(&queue, batch))
    }

    /// Writes what is queued and closes the files. Sinks that are still around refuse from now on.
    pub fn finish(self) -> Written {
        self.shared.closed.store(true, Ordering::Release);
        // An empty batch ends the thread: sinks may live on and would keep the channel open.
        let _ = self.queue.send(Vec::new());
        let mut notes = match self.thread.join() {
            Ok(notes) => notes,
            Err(_) => vec!["output: the writer failed; files may be incomplete".to_owned()],
        };
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        if dropped > 0 {
            let n = crate::format::plural(dropped, "sample");
            notes.push(format!(
                "output: {n} not written, because they came faster than the disk took them"
            ));
        }
        Written { dropped, notes }
    }
}

impl Shared {
    fn offer(&self, queue: &Sender<Vec<Sample>>, batch: Vec<Sample>) -> bool {
        if batch.is_empty() {
            return true;
        }
        let (samples, bytes) = (batch.len() as u64, size_of_val(&*batch));
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before + bytes <= self.queued_bytes_max && !self.closed.load(Ordering::Acquire);
        if fits && queue.send(batch).is_ok() {
            return true;
        }
        self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.dropped.fetch_add(samples, Ordering::AcqRel);
        false
    }
}

fn write_batches(
    batches: &Receiver<Vec<Sample>>,
    mut files: Vec<OpenFile>,
    layout: &Layout,
    shared: &Shared,
) -> Vec<String> {
    let mut flushed = Instant::now();
    loop {
        match batches.recv_timeout(FLUSH_EVERY) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => {
                shared.queued_bytes.fetch_sub(size_of_val(&*batch), Ordering::AcqRel);
                files.iter_mut().for_each(|file| file.write(&batch, layout));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            files.iter_mut().for_each(OpenFile::flush);
            flushed = Instant::now();
        }
    }
    // A sender may have passed the closed flag just before it was set.
    while let Ok(batch) = batches.try_recv() {
        files.iter_mut().for_each(|file| file.write(&batch, layout));
    }
    files.iter_mut().for_each(OpenFile::flush);
    files.into_iter().filter_map(|file| file.trouble).collect()
}

struct OpenFile {
    name: String,
    encoder: Box<dyn Encoder>,
    out: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    /// The first error; nothing is written after it.
    trouble: Option<String>,
}

impl OpenFile {
    fn new(target: &Target, layout: &Layout) -> std::io::Result<OpenFile> {
        let encoder: Box<dyn Encoder> = match target.format {
            Format::Csv => Box::new(Csv::new(layout)),
            _ => Box::new(Json::new(layout)),
        };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        encoder.head(&mut buffer);
        let out = target.open()?;
        Ok(OpenFile { name: target.to_string(), encoder, out, buffer, trouble: None })
    }

    fn write(&mut self, batch: &[Sample], layout: &Layout) {
        for sample in batch {
            if self.trouble.is_some() {
                return;
            }
            self.sample(sample, layout);
            if self.buffer.len() >= BUFFER_BYTES {
                self.hand_over();
            }
        }
    }

    fn sample(&mut self, sample: &Sample, layout: &Layout) {
        let mut point = |metric, at, value, key| {
            self.encoder.point(layout, metric, at, value, key, &mut self.buffer);
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

    fn hand_over(&mut self) {
        if self.trouble.is_none()
            && let Err(error) = self.out.write_all(&self.buffer)
        {
            self.give_up(&error);
        }
        self.buffer.clear();
    }

    fn flush(&mut self) {
        self.hand_over();
        if self.trouble.is_none()
            && let Err(error) = self.out.flush()
        {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &std::io::Error) {
        self.trouble = Some(format!("output {}: {error}; the rest is missing", self.name));
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
