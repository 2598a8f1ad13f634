//! The record of a run, `volley.run/1`: everything that a report, a page or a comparison needs.
//!
//! One JSON document, compressed with gzip. It holds the whole summary (`volley.summary/1`), the
//! history with its histograms, the full histograms of every step in every stage, and of which
//! plan, machine and version it is. No credentials are in it: what it shows of exchanges is what
//! the summary shows.
//!
//! **Compatibility promise.** As the summary's: within `/1`, fields are only ever added. A record
//! of a later schema, one that is cut, and a file that is no record are refused by name.

pub(crate) mod history;
mod script;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use stats::{RunResult, Trend};

use crate::rollup::blocks;
use crate::summary::{Summary, replace};

/// The version of the document; see the promise above.
pub const SCHEMA: &str = "volley.run/1";
const FAMILY: &str = "volley.run/";
/// Larger ones are not read: a record of a day of fifty steps has a hundredth of it.
const BYTES_MAX: u64 = 512 << 20;

/// A record as a document.
#[derive(Debug, Clone)]
pub struct Record {
    document: Value,
    /// Compressed, as the file has it.
    bytes: Vec<u8>,
}

/// What only the command knows of a run.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Of this program.
    pub version: String,
    /// `here`, or `cluster` with the job's id.
    pub job: Option<String>,
    /// The file that was run.
    pub file: Option<String>,
    /// What would run, as `volley plan --json` says it.
    pub plan: Option<Value>,
    /// The stages of each workflow with their times, for charts; see docs/outputs.md.
    pub schedule: Option<Value>,
}

/// Why a file was not taken for a record.
#[derive(Debug)]
pub enum RecordError {
    Unreadable(io::Error),
    /// Not even the beginning is that of a record.
    NotARecord,
    /// It began as one.
    Cut,
    TooLarge,
    Newer {
        schema: String,
    },
}

impl std::error::Error for RecordError {}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Unreadable(error) => error.fmt(f),
            RecordError::NotARecord => f.write_str(
                "this is not a record of a run; `volley run PLAN --record FILE` writes one",
            ),
            RecordError::Cut => {
                f.write_str("the record is cut or damaged: it ends before its content does")
            }
            RecordError::TooLarge => {
                write!(f, "the record has more than {} MiB of content", BYTES_MAX >> 20)
            }
            RecordError::Newer { schema } => write!(
                f,
                "the record has the schema {schema}, and this version reads {SCHEMA}: upgrade Volley"
            ),
        }
    }
}

impl Record {
    pub fn new(result: &RunResult, about: &About) -> Record {
        let mut document = head(result, about);
        document["history"] = history::part(result, 0..result.history.slots().len());
        document["histograms"] = histograms(result);
        if let Some(script) = of_script(result) {
            document["script"] = script;
        }
        let bytes = packed(&document);
        Record { document, bytes }
    }

    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Compressed, as the file has it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        if path == Path::new("-") {
            return io::stdout().lock().write_all(&self.bytes);
        }
        replace(path, &self.bytes)
    }

    pub fn read(path: &Path) -> Result<Record, RecordError> {
        let bytes = match path == Path::new("-") {
            true => {
                let mut bytes = Vec::new();
                let stdin = io::stdin().lock();
                stdin.take(BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
            }
            false => std::fs::read(path),
        };
        Record::from_bytes(&bytes.map_err(RecordError::Unreadable)?)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Record, RecordError> {
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(RecordError::NotARecord);
        }
        let mut text = Vec::new();
        let unpacked = GzDecoder::new(bytes).take(BYTES_MAX).read_to_end(&mut text);
        if text.len() as u64 >= BYTES_MAX {
            return Err(RecordError::TooLarge);
        }
        // What is no record need not be whole.
        let begins = text.iter().take(64).copied().collect::<Vec<u8>>();
        let is_ours = String::from_utf8_lossy(&begins).contains(FAMILY);
        if !is_ours {
            return Err(RecordError::NotARecord);
        }
        let document: Value = match (unpacked, serde_json::from_slice(&text)) {
            (Ok(_), Ok(document)) => document,
            _ => return Err(RecordError::Cut),
        };
        match document["schema"].as_str() {
            Some(SCHEMA) if document["summary"].is_object() => {
                Ok(Record { document, bytes: bytes.to_vec() })
            }
            Some(SCHEMA) => Err(RecordError::Cut),
            Some(schema) if schema.starts_with(FAMILY) => {
                Err(RecordError::Newer { schema: schema.to_owned() })
            }
            _ => Err(RecordError::NotARecord),
        }
    }
}

/// Everything but what was counted over time and in histograms.
pub(crate) fn head(result: &RunResult, about: &About) -> Value {
    let summary = serde_json::to_value(Summary::new(result));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "schema": SCHEMA,
        "volley": { "version": about.version },
        "machine": {
            "system": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "cores": cores,
        },
        "kind": if result.script.is_some() { "script" } else { "plan" },
        "file": about.file,
        "job": about.job,
        "plan": about.plan,
        "schedule": about.schedule,
        "summary": summary.expect("plain structs with string keys always serialise"),
    })
}

/// A script's own part, where the run is one.
pub(crate) fn of_script(result: &RunResult) -> Option<Value> {
    result.script.as_ref().map(|script| script::part(script, result.elapsed))
}

fn packed(document: &Value) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    let written = serde_json::to_writer(&mut encoder, document);
    debug_assert!(written.is_ok(), "memory takes everything");
    encoder.finish().unwrap_or_default()
}

/// The full histograms of every step in every stage.
fn histograms(result: &RunResult) -> Value {
    let layout = &result.layout;
    let mut parts = Vec::new();
    for (stage, block) in blocks(result) {
        let workflow = layout.workflow_of_stage(stage);
        for (step, stats) in workflow.steps.clone().zip(&block.steps) {
            if stats.requests == 0 {
                continue;
            }
            parts.push(json!({
                "workflow": workflow.name,
                "stage": layout.stages[stage].name,
                "step": layout.steps[step].name,
                "latency": histogram(&stats.latency),
                "service": histogram(&stats.duration),
            }));
        }
    }
    json!({ "relative_error": stats::RELATIVE_ERROR, "unit": "us", "parts": parts })
}

/// Upper ends of buckets in microseconds, as distances, each with its count.
fn histogram(trend: &Trend) -> Value {
    let mut flat = Vec::new();
    let mut last = 0;
    for (ms, count, _) in trend.buckets() {
        let us = (ms * 1e3).round() as u64;
        flat.push(us - last);
        flat.push(count);
        last = us;
    }
    json!({
        "count": trend.count(), "sum_ms": trend.sum_ms(), "min_ms": trend.min_ms(),
        "max_ms": trend.max_ms(), "buckets": flat,
    })
}
