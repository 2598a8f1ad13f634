//! From batches of samples to files, on a thread of its own.
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
//!
//! What a sample is, and how it is written, is the [`Encoder`]'s.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::target::{Format, Target};

/// Samples waiting to be written, in bytes of memory.
pub(super) const QUEUED_BYTES_MAX: usize = 64 << 20;
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Encoded text is handed to the file in pieces of about this size.
const BUFFER_BYTES: usize = 64 << 10;

/// A file format for samples.
pub(super) trait Encoder<S>: Send {
    /// The first lines of the file.
    fn head(&self, _out: &mut Vec<u8>) {}
    fn sample(&mut self, sample: &S, out: &mut Vec<u8>);
}

/// Takes a batch, or refuses it at once (`false`).
pub(super) type Sink<S> = Arc<dyn Fn(Vec<S>) -> bool + Send + Sync>;

/// Owns the writer thread; [`BatchWriter::finish`] ends it.
pub(super) struct BatchWriter<S> {
    shared: Arc<Shared<S>>,
    queue: Sender<Vec<S>>,
    thread: JoinHandle<Written>,
}

struct Shared<S> {
    queued_bytes: AtomicUsize,
    queued_bytes_max: usize,
    weigh: fn(&[S]) -> usize,
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
    /// The trouble with standard output, unless its reader just went away.
    pub lost_on_stdout: Option<String>,
}

impl<S: Send + 'static> BatchWriter<S> {
    /// `None` if no target wants samples. Files are emptied here, and the first lines written.
    /// `weigh` gives the memory that a batch takes.
    pub(super) fn start(
        targets: &[Target],
        encoder: impl Fn(Format) -> Box<dyn Encoder<S>>,
        weigh: fn(&[S]) -> usize,
        queued_bytes_max: usize,
    ) -> Result<Option<BatchWriter<S>>, Vec<String>> {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for target in targets.iter().filter(|target| target.format.is_streamed()) {
            match OpenFile::new(target, encoder(target.format)) {
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
            weigh,
            dropped: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let (queue, batches) = mpsc::channel();
        let body = {
            let shared = Arc::clone(&shared);
            move || write_batches(&batches, files, &shared)
        };
        let thread = std::thread::Builder::new().name("volley-output".into()).spawn(body);
        let thread = thread.map_err(|error| vec![format!("output thread: {error}")])?;
        Ok(Some(BatchWriter { shared, queue, thread }))
    }

    /// For the engine's cores: takes a batch, or refuses it at once.
    pub(super) fn sink(&self) -> Sink<S> {
        let (shared, queue) = (Arc::clone(&self.shared), self.queue.clone());
        Arc::new(move |batch: Vec<S>| shared.offer(&queue, batch))
    }

    /// Writes what is queued and closes the files. Sinks that are still around refuse from now on.
    pub(super) fn finish(self) -> Written {
        self.shared.closed.store(true, Ordering::Release);
        // An empty batch ends the thread: sinks may live on and would keep the channel open.
        let _ = self.queue.send(Vec::new());
        let mut written = self.thread.join().unwrap_or_else(|_| {
            let notes = vec!["output: the writer failed; files may be incomplete".to_owned()];
            Written { notes, ..Written::default() }
        });
        written.dropped = self.shared.dropped.load(Ordering::Acquire);
        if written.dropped > 0 {
            let n = crate::format::plural(written.dropped, "sample");
            written.notes.push(format!(
                "output: {n} not written, because they came faster than the disk took them"
            ));
        }
        written
    }
}

impl<S> Shared<S> {
    fn offer(&self, queue: &Sender<Vec<S>>, batch: Vec<S>) -> bool {
        if batch.is_empty() {
            return true;
        }
        let (samples, bytes) = (batch.len() as u64, (self.weigh)(&batch));
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

fn write_batches<S>(
    batches: &Receiver<Vec<S>>,
    mut files: Vec<OpenFile<S>>,
    shared: &Shared<S>,
) -> Written {
    let mut flushed = Instant::now();
    loop {
        match batches.recv_timeout(FLUSH_EVERY) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => {
                shared.queued_bytes.fetch_sub((shared.weigh)(&batch), Ordering::AcqRel);
                files.iter_mut().for_each(|file| file.write(&batch));
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
        files.iter_mut().for_each(|file| file.write(&batch));
    }
    files.iter_mut().for_each(OpenFile::flush);
    let mut written = Written::default();
    for (target, error) in
        files.into_iter().filter_map(|file| file.trouble.map(|error| (file.target, error)))
    {
        written.trouble(&target, &error, "; the rest is missing");
    }
    written
}

impl Written {
    /// Notes that something could not be written.
    pub(super) fn trouble(&mut self, target: &Target, error: &std::io::Error, behind: &str) {
        let note = format!("output {target}: {error}{behind}");
        if target.is_stdout() && error.kind() != std::io::ErrorKind::BrokenPipe {
            self.lost_on_stdout.get_or_insert_with(|| note.clone());
        }
        self.notes.push(note);
    }
}

struct OpenFile<S> {
    target: Target,
    encoder: Box<dyn Encoder<S>>,
    out: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    /// The first error; nothing is written after it.
    trouble: Option<std::io::Error>,
}

impl<S> OpenFile<S> {
    fn new(target: &Target, encoder: Box<dyn Encoder<S>>) -> std::io::Result<OpenFile<S>> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        encoder.head(&mut buffer);
        let out = target.open()?;
        Ok(OpenFile { target: target.clone(), encoder, out, buffer, trouble: None })
    }

    fn write(&mut self, batch: &[S]) {
        for sample in batch {
            if self.trouble.is_some() {
                return;
            }
            self.encoder.sample(sample, &mut self.buffer);
            if self.buffer.len() >= BUFFER_BYTES {
                self.hand_over();
            }
        }
    }

    fn hand_over(&mut self) {
        if self.trouble.is_none() {
            self.trouble = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn flush(&mut self) {
        self.hand_over();
        if self.trouble.is_none() {
            self.trouble = self.out.flush().err();
        }
    }
}
