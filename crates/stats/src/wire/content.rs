//! What one frame tells of a shard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Reader, Schema, WireError, Writer, read_delta, read_series, read_sparse, write_delta,
    write_series, write_sparse,
};
use crate::delta::Delta;
use crate::error_kind::ErrorKind;
use crate::series::SeriesWindow;
use crate::trend::SparseTrend;

type Read<T> = Result<T, WireError>;

/// Messages of a frame. A recorder sends the first of each kind and step only.
pub const MESSAGES_MAX: usize = 256;
const TEXT_BYTES_MAX: usize = 4 << 10;
const EXCHANGE_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Clone, Default)]
pub struct Content {
    pub counts: Delta,
    /// Of a script's run.
    pub series: Option<Box<SeriesWindow>>,
    pub messages: Vec<FailureMessage>,
    /// How late the event loop woke up.
    pub loop_lag: SparseTrend,
    pub generator: Generator,
}

/// A message of a kind of error that a step had, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureMessage {
    pub step: u32,
    pub kind: ErrorKind,
    pub text: String,
    /// Request and head of the response, secrets removed.
    pub exchange: Option<String>,
}

/// How the generator stands at the end of a frame. Each value replaces the one before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Virtual users alive, by workflow.
    pub vus: Vec<(u32, u64)>,
    /// Virtual users that exist, busy or not.
    pub vus_made: u64,
    /// Since the stream began.
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    pub samples_dropped: u64,
    pub unrecordable: u64,
    /// Requests begun, answered or not; from the file that outlives the process.
    pub issued: u64,
    /// Units of the schedule that this attempt has taken: arrivals, or iterations where those are
    /// counted.
    pub begun: u64,
    /// For how long users could not begin an iteration because no more were granted.
    pub held: Duration,
    /// Of the whole process, so not to be added up over the shards of a worker.
    pub memory_max_bytes: u64,
    pub descriptors_max: u64,
    pub descriptors_limit: u64,
}

impl Content {
    /// Joins what the same stream counted next; both as a frame has them.
    pub(crate) fn join(&mut self, later: Content) {
        self.counts.join(later.counts);
        match (&mut self.series, later.series) {
            (Some(mine), Some(theirs)) => mine.merge(&theirs),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
        for message in later.messages {
            let is_it =
                |known: &FailureMessage| (known.step, known.kind) == (message.step, message.kind);
            match self.messages.iter().position(is_it) {
                Some(at) if self.messages[at].exchange.is_none() => self.messages[at] = message,
                Some(_) => {}
                None if self.messages.len() < MESSAGES_MAX => self.messages.push(message),
                // Beyond the limit only their counts are told.
                None => {}
            }
        }
        self.loop_lag.merge(&later.loop_lag);
        self.generator = later.generator;
    }
}

pub(crate) fn write_content(writer: &mut Writer, content: &Content) {
    write_delta(writer, &content.counts);
    writer.flag(content.series.is_some());
    if let Some(series) = &content.series {
        write_series(writer, series);
    }
    writer.len(content.messages.len().min(MESSAGES_MAX));
    for message in content.messages.iter().take(MESSAGES_MAX) {
        writer.int(u64::from(message.step));
        writer.byte(message.kind as u8);
        writer.text(cut(&message.text, TEXT_BYTES_MAX));
        writer.flag(message.exchange.is_some());
        if let Some(exchange) = &message.exchange {
            writer.text(cut(exchange, EXCHANGE_BYTES_MAX));
        }
    }
    write_sparse(writer, &content.loop_lag);
    write_generator(writer, &content.generator);
}

pub(crate) fn read_content(reader: &mut Reader<'_>, schema: &Schema) -> Read<Content> {
    let counts = read_delta(reader, schema)?;
    let series = match (reader.flag()?, &schema.series) {
        (false, _) => None,
        (true, Some(layout)) => Some(Box::new(read_series(reader, layout)?)),
        (true, None) => {
            return Err(WireError::Contradiction { what: "a script's metrics of a plan" });
        }
    };
    let mut messages = Vec::new();
    for _ in 0..reader.len("messages", MESSAGES_MAX)? {
        let step = reader.index("a step", schema.layout.steps.len())?;
        let kind = usize::from(reader.byte()?);
        let Some(&kind) = ErrorKind::ALL.get(kind) else {
            let (value, limit) = (kind as u64, ErrorKind::ALL.len() as u64);
            return Err(WireError::OutOfRange { what: "a kind of error", value, limit });
        };
        let text = reader.text("a message", TEXT_BYTES_MAX)?.to_owned();
        let exchange = match reader.flag()? {
            true => Some(reader.text("an exchange", EXCHANGE_BYTES_MAX)?.to_owned()),
            false => None,
        };
        messages.push(FailureMessage { step, kind, text, exchange });
    }
    let loop_lag = read_sparse(reader)?;
    let generator = read_generator(reader, schema)?;
    Ok(Content { counts, series, messages, loop_lag, generator })
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

pub(crate) fn write_generator(writer: &mut Writer, generator: &Generator) {
    writer.len(generator.vus.len());
    for (workflow, count) in &generator.vus {
        writer.int(u64::from(*workflow));
        writer.int(*count);
    }
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    for value in [
        generator.vus_made,
        nanos(generator.cpu_user),
        nanos(generator.cpu_system),
        generator.samples_dropped,
        generator.unrecordable,
        generator.issued,
        generator.begun,
        nanos(generator.held),
        generator.memory_max_bytes,
        generator.descriptors_max,
        generator.descriptors_limit,
    ] {
        writer.int(value);
    }
}

pub(crate) fn read_generator(reader: &mut Reader<'_>, schema: &Schema) -> Read<Generator> {
    let workflows = schema.layout.workflows.len();
    let mut vus: Vec<(u32, u64)> = Vec::new();
    for _ in 0..reader.len("workflows", workflows)? {
        let workflow = reader.index("a workflow", workflows)?;
        vus.push((workflow, reader.within("virtual users", u64::from(u32::MAX))?));
    }
    Ok(Generator {
        vus,
        vus_made: reader.within("virtual users", u64::from(u32::MAX))?,
        cpu_user: Duration::from_nanos(reader.int()?),
        cpu_system: Duration::from_nanos(reader.int()?),
        samples_dropped: reader.counter()?,
        unrecordable: reader.counter()?,
        issued: reader.counter()?,
        begun: reader.counter()?,
        held: Duration::from_nanos(reader.int()?),
        memory_max_bytes: reader.int()?,
        descriptors_max: reader.int()?,
        descriptors_limit: reader.int()?,
    })
}
