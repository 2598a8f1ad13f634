//! One core's counters. One owner, no locks; a full window is swapped for an empty one when the
//! conductor asks.

use base::clock;
use fence::Moment;
use permit::SendControl;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use stats::{Block, DropCause, ErrorKind, LANDED, Layout, Sample, SampleSink, Window, is_remark};

use client::{ExchangeEnd, Progress};

/// Samples are handed on in batches of this size, or at the end of a window.
const SAMPLE_BATCH: usize = 1024;

/// A start later than this after its time is the generator's fault and not noise.
pub const LATE_START_NS: u64 = 10_000_000;

pub struct Recorder {
    layout: Arc<Layout>,
    window: RefCell<Window>,
    /// One message for each kind of error and step: shown to people, counted elsewhere.
    messages: RefCell<BTreeMap<(usize, ErrorKind), Message>>,
    /// Steps whose next exchange is kept whole, because one of theirs has failed.
    sampling: RefCell<Vec<Sampling>>,
    samples: RefCell<Vec<Sample>>,
    sample_sink: Option<SampleSink>,
    epoch_unix_ns: u64,
    pub samples_dropped: Cell<u64>,
    /// Requests that have begun and not ended: all that can be shown while nothing has come back.
    pub under_way: Cell<u64>,
    /// What lets requests out, with the counts that outlive the process.
    send_control: SendControl,
}

/// A message of the same kind and step is taken again so long after the one before.
const AGAIN_NS: [u64; 2] = [5_000_000_000, 60_000_000_000];

#[derive(Debug, Clone)]
pub struct Message {
    pub text: String,
    pub exchange: Option<String>,
    reported: bool,
    /// When it was handed out.
    at: Moment,
    /// How many of its kind and step were taken before it.
    before: usize,
    /// The next of its kind takes its place.
    again: bool,
}

impl Message {
    fn new(text: String, exchange: Option<String>, before: usize) -> Message {
        let at = Moment::default();
        Message { text, exchange, reported: false, at, before, again: false }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sampling {
    Idle,
    Wanted,
    Taken,
}

/// Where a count belongs.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// Number of the stage in the layout.
    pub stage: usize,
    /// Number of the step within its workflow.
    pub step: usize,
}

impl Recorder {
    pub fn new(
        layout: Arc<Layout>,
        sample_sink: Option<SampleSink>,
        epoch_unix_ns: u64,
        send_control: SendControl,
    ) -> Recorder {
        Recorder {
            window: RefCell::new(Window::new(&layout)),
            messages: RefCell::default(),
            sampling: RefCell::new(vec![Sampling::Idle; layout.steps.len()]),
            layout,
            samples: RefCell::default(),
            sample_sink,
            epoch_unix_ns,
            samples_dropped: Cell::new(0),
            under_way: Cell::new(0),
            send_control,
        }
    }

    /// What was counted since the last call. `empty` must be clear; it takes the old window's
    /// place.
    pub fn swap(&self, empty: Window) -> Window {
        self.flush_samples();
        std::mem::replace(&mut *self.window.borrow_mut(), empty)
    }

    #[inline]
    pub fn begun(&self) {
        self.under_way.set(self.under_way.get() + 1);
    }

    /// The other half of [`Recorder::begun`], however the request ended.
    #[inline]
    pub fn ended(&self) {
        self.under_way.set(self.under_way.get().saturating_sub(1));
    }

    pub fn exchange(&self, at: At, progress: &Progress, ended: ExchangeEnd, tags: Option<&str>) {
        let phases = progress.phases.get();
        let retries = u64::from(progress.retries.get());
        self.count_sent(progress, retries);
        {
            let mut window = self.window.borrow_mut();
            let step = &mut window.block(&self.layout, at.stage).steps[at.step];
            step.requests += 1 + retries;
            step.sent += u64::from(progress.sent.get()) + retries;
            step.retried += retries;
            step.bytes_sent += progress.bytes_sent.get();
            step.bytes_received += progress.bytes_received.get();
            if let Some(kind) = ended.error {
                step.failed += 1;
                step.errors[kind as usize] += 1;
            }
            // An exchange without an answer has no service time, but its user has waited all the
            // same.
            // One that was never tried has nobody waiting for it.
            let tried = ended.error != Some(ErrorKind::NoValue);
            if tried {
                step.latency.record_ns(ended.latency_ns);
            }
            if let Some(status) = ended.status {
                step.completed += 1;
                step.status.add(status, 1);
                step.duration.record_ns(phases.duration());
                step.sending.record_ns(phases.sending);
                step.waiting.record_ns(phases.waiting);
                // Most answers come in one piece.
                match phases.receiving {
                    0 => step.receiving.record_zero(),
                    ns => step.receiving.record_ns(ns),
                }
            }
            if phases.blocked == 0 && tried {
                step.blocked.record_zero();
                step.connecting.record_zero();
                step.tls_handshaking.record_zero();
            } else if tried {
                step.blocked.record_ns(phases.blocked);
                step.connecting.record_ns(phases.connecting);
                step.tls_handshaking.record_ns(phases.tls_handshaking);
            }
            if let Some(tags) = tags {
                let tagged = step.tag_stats(tags);
                tagged.requests += 1;
                tagged.failed += u64::from(ended.error.is_some());
                if tried {
                    tagged.latency.record_ns(ended.latency_ns);
                }
                if ended.status.is_some() {
                    tagged.duration.record_ns(phases.duration());
                }
            }
        }
        if self.sample_sink.is_some() {
            let step = self.layout.workflow_of_stage(at.stage).steps.start + at.step;
            self.sample(Sample::Request(stats::RequestSample {
                at_unix_ns: self.now_unix_ns(),
                step: step as u32,
                stage: at.stage as u32,
                status: ended.status.unwrap_or(0),
                error: ended.error,
                failed: ended.error.is_some(),
                duration_ns: phases.duration(),
                blocked_ns: phases.blocked,
                connecting_ns: phases.connecting,
                tls_ns: phases.tls_handshaking,
                sending_ns: phases.sending,
                waiting_ns: phases.waiting,
                receiving_ns: phases.receiving,
                latency_ns: ended.latency_ns,
                bytes_sent: progress.bytes_sent.get(),
                bytes_received: progress.bytes_received.get(),
                proto: progress.version.get(),
            }));
        }
    }

    /// A request that the end of the run cut off: counted, and neither completed nor failed.
    ///
    /// One that the permit has kept from leaving was no request: no byte of it is anywhere, and no
    /// target can have seen it. Counted, it would make more requests than were seen (R17).
    pub fn interrupted(&self, at: At, progress: &Progress) {
        let retries = u64::from(progress.retries.get());
        let left = progress.sent.get() || retries > 0;
        if !left && self.send_control.permit().standing(clock::now()).is_final() {
            return;
        }
        self.count_sent(progress, retries);
        self.with(at.stage, |block| {
            let step = &mut block.steps[at.step];
            step.requests += 1 + retries;
            step.sent += u64::from(progress.sent.get()) + retries;
            step.retried += retries;
            step.interrupted += 1;
            step.bytes_sent += progress.bytes_sent.get();
            step.bytes_received += progress.bytes_received.get();
        });
    }

    #[inline]
    fn count_sent(&self, progress: &Progress, retries: u64) {
        if let Some(issued) = self.send_control.issued() {
            issued.add_sent(u64::from(progress.sent.get()) + retries);
        }
    }

    pub fn check(&self, stage: usize, check: usize, holds: bool) {
        self.with(stage, |block| {
            let count = &mut block.checks[check];
            count.passes += u64::from(holds);
            count.fails += u64::from(!holds);
        });
        if self.sample_sink.is_some() {
            let check = self.layout.workflow_of_stage(stage).checks.start + check;
            let at_unix_ns = self.now_unix_ns();
            self.sample(Sample::Check { at_unix_ns, check: check as u32, ok: holds });
        }
    }

    pub fn iteration(&self, stage: usize, duration_ns: u64) {
        self.with(stage, |block| {
            block.iterations += 1;
            block.iteration_duration.record_ns(duration_ns);
        });
        if self.sample_sink.is_some() {
            let workflow = self.layout.stages[stage].workflow as u32;
            let at_unix_ns = self.now_unix_ns();
            self.sample(Sample::Iteration { at_unix_ns, workflow, duration_ns });
        }
    }

    pub fn iteration_interrupted(&self, stage: usize) {
        self.with(stage, |block| block.iterations_interrupted += 1);
    }

    pub fn dropped(&self, stage: usize, cause: DropCause, count: u64) {
        if count == 0 {
            return;
        }
        self.with(stage, |block| block.dropped[cause as usize] += count);
        if self.sample_sink.is_some() {
            let workflow = self.layout.stages[stage].workflow as u32;
            let at_unix_ns = self.now_unix_ns();
            self.sample(Sample::Dropped { at_unix_ns, workflow, count });
        }
    }

    pub fn started(&self, stage: usize, lag_ns: u64) {
        self.with(stage, |block| {
            block.start_lag.record_ns(lag_ns);
            block.late_starts += u64::from(lag_ns > LATE_START_NS);
        });
    }

    pub fn custom(&self, stage: usize, metric: usize, value: f64) {
        let now = clock::now().as_nanos();
        self.with(stage, |block| block.metrics[metric].record(value, now));
        if self.sample_sink.is_some() {
            let at_unix_ns = self.now_unix_ns();
            self.sample(Sample::Custom { at_unix_ns, metric: metric as u32, value });
        }
    }

    pub fn vus(&self, value: u64) {
        if self.sample_sink.is_some() {
            self.sample(Sample::Vus { at_unix_ns: self.now_unix_ns(), value });
        }
    }

    /// Whether this step's next exchange should be kept whole. `step` counts over the whole plan.
    pub fn wants_exchange(&self, step: usize) -> bool {
        self.sampling.borrow()[step] == Sampling::Wanted
    }

    /// Notes a failure for people: the first message of its kind, the first whole exchange there
    /// is, and some more over the time of the run.
    pub fn failure(
        &self,
        step: usize,
        kind: ErrorKind,
        text: impl FnOnce() -> String,
        exchange: Option<String>,
    ) {
        let mut sampling = self.sampling.borrow_mut();
        if exchange.is_some() {
            sampling[step] = Sampling::Taken;
        } else if sampling[step] == Sampling::Idle {
            sampling[step] = Sampling::Wanted;
        }
        let mut messages = self.messages.borrow_mut();
        match messages.get_mut(&(step, kind)) {
            None => {
                messages.insert((step, kind), Message::new(text(), exchange, 0));
            }
            Some(known) if known.again => {
                *known = Message::new(text(), exchange, known.before + 1);
            }
            Some(known)
                if known.exchange.is_none() && exchange.is_some() || is_remark(&known.text) =>
            {
                *known = Message::new(text(), exchange, known.before);
            }
            Some(_) => {}
        }
    }

    /// Notes where the first redirect of a step led: of interest if all of them lead there.
    pub fn landed(&self, step: usize, path: &str) {
        self.remark(step, ErrorKind::Redirect, || format!("{LANDED}{path}"));
    }

    /// Notes something beside the errors, once for each step; see `stats::is_remark`.
    pub fn remark(&self, step: usize, kind: ErrorKind, text: impl FnOnce() -> String) {
        let mut messages = self.messages.borrow_mut();
        let entry = messages.entry((step, kind));
        entry.or_insert_with(|| Message::new(text(), None, 0));
    }

    /// Messages that were not handed out before. To be called once per window.
    pub fn new_messages(&self) -> Vec<(usize, ErrorKind, Message)> {
        let now = clock::now();
        let mut messages = self.messages.borrow_mut();
        let mut sampling = self.sampling.borrow_mut();
        let mut new = Vec::new();
        for (&(step, kind), message) in &mut *messages {
            let wait = AGAIN_NS.get(message.before).filter(|_| !is_remark(&message.text));
            if !message.reported {
                (message.reported, message.at) = (true, now);
                new.push((step, kind, message.clone()));
            } else if message.again && sampling[step] == Sampling::Wanted {
                // None has failed in a whole window: others need not be kept for it.
                sampling[step] = Sampling::Taken;
            } else if wait.is_some_and(|wait| now.nanos_since(message.at) >= *wait) {
                if !message.again && sampling[step] == Sampling::Taken {
                    sampling[step] = Sampling::Wanted;
                }
                message.again = true;
            }
        }
        new
    }

    #[inline]
    fn with(&self, stage: usize, change: impl FnOnce(&mut Block)) {
        change(self.window.borrow_mut().block(&self.layout, stage));
    }

    fn now_unix_ns(&self) -> u64 {
        self.epoch_unix_ns + clock::now().as_nanos()
    }

    fn sample(&self, sample: Sample) {
        let mut samples = self.samples.borrow_mut();
        samples.push(sample);
        if samples.len() >= SAMPLE_BATCH {
            drop(samples);
            self.flush_samples();
        }
    }

    fn flush_samples(&self) {
        let batch = std::mem::take(&mut *self.samples.borrow_mut());
        let count = batch.len() as u64;
        if let Some(sink) = &self.sample_sink
            && count > 0
            && !sink(batch)
        {
            self.samples_dropped.set(self.samples_dropped.get() + count);
        }
    }
}
