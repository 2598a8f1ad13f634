//! `volley debug ledger inspect`, `verify`, `reset`: a data folder, with or without a member on it.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use ledger::inspect::{Inspection, RecordLine, Report};
use ledger::store::Storage;
use report::ExitCode;
use report::format;
use serde_json::json;
use wal::{Disk, RealDisk};

use super::draw;
use crate::cli::{InspectArgs, ResetArgs, VerifyArgs};
use crate::failure::Failure;
use crate::print;

fn fail(problem: &dyn std::fmt::Display) -> ExitCode {
    Failure::failed(problem).tell()
}

pub fn inspect(args: &InspectArgs) -> ExitCode {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let inspection = match Inspection::open(disk, &args.folder) {
        Ok(inspection) => inspection,
        Err(error) => return fail(&error),
    };
    if !args.json {
        let who = inspection.identity();
        let group = who.group.map_or("no group".to_owned(), |group| format!("group {group}"));
        print::line(&format!("node {}, start {}, disk {}, {group}", who.node, who.boot, who.disk));
    }
    let records = match inspection.records(args.from.unwrap_or(1)..u64::MAX) {
        Ok(records) => records,
        Err(error) => return fail(&error),
    };
    // With a beginning, the first of them; without one, the last.
    let mut tail = std::collections::VecDeque::new();
    for (count, record) in records.enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                tail.iter().for_each(|line: &String| print::line(line));
                return fail(&error);
            }
        };
        let line = if args.json { json_line(&record) } else { record.to_string() };
        if args.from.is_some() {
            if count >= args.limit {
                break;
            }
            print::line(&line);
        } else {
            tail.push_back(line);
            if tail.len() > args.limit {
                tail.pop_front();
            }
        }
    }
    tail.iter().for_each(|line| print::line(line));
    ExitCode::Passed
}

fn json_line(record: &RecordLine) -> String {
    let RecordLine { lsn, hlc, bytes, words } = record;
    json!({
        "lsn": lsn, "wall_ms": hlc.wall_ms, "logical": hlc.logical, "bytes": bytes,
        "kind": words.kind(), "what": words.to_string(),
    })
    .to_string()
}

pub fn verify(args: &VerifyArgs) -> ExitCode {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    match ledger::inspect::verify(&disk, &args.folder) {
        Ok(report) => {
            if args.json {
                print::line(&json_report(&report).to_string());
            } else {
                print::out(&text_report(&args.folder, &report));
            }
            if report.is_sound() { ExitCode::Passed } else { ExitCode::Failed }
        }
        Err(error) => fail(&error),
    }
}

fn text_report(folder: &Path, report: &Report) -> String {
    let Report { identity, log, snapshots, blobs, problems } = report;
    let mut text = format!(
        "{}: node {}, start {}, disk {}\n",
        folder.display(),
        identity.node,
        identity.boot,
        identity.disk
    );
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{words}");
    };
    line(format_args!(
        "log        {} in {}, LSN {} to {}",
        format::plural(log.records, "record"),
        format::plural(log.segments, "segment"),
        log.first_lsn,
        log.last_lsn
    ));
    let kinds: Vec<String> =
        log.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    line(format_args!(
        "           {}; {} in them",
        kinds.join(", "),
        format::plural(log.commands, "command")
    ));
    if let Some(torn) = &log.torn {
        line(format_args!("torn tail  {torn}; a start cuts it off, none of it was acknowledged"));
    }
    for snapshot in snapshots {
        let found = match &snapshot.found {
            Ok(_) => format::plural(snapshot.jobs as u64, "job").to_string(),
            Err(why) => why.clone(),
        };
        line(format_args!("snapshot   up to entry {}: {found}", snapshot.index));
    }
    line(format_args!(
        "blobs      {}, {} bytes, {} damaged, {} missing",
        blobs.blobs,
        blobs.bytes,
        blobs.damaged.len(),
        blobs.missing.len()
    ));
    for problem in problems {
        line(format_args!("PROBLEM    {problem}"));
    }
    if problems.is_empty() {
        line(format_args!("sound"));
    }
    text
}

fn json_report(report: &Report) -> serde_json::Value {
    let Report { identity, log, snapshots, blobs, problems } = report;
    let snapshots: Vec<_> = snapshots
        .iter()
        .map(|snapshot| {
            json!({
                "index": snapshot.index, "jobs": snapshot.jobs, "problem": snapshot.found.as_ref().err(),
            })
        })
        .collect();
    json!({
        "node": identity.node.to_string(), "boot": identity.boot.0, "disk": identity.disk.to_string(),
        "records": log.records, "segments": log.segments, "first_lsn": log.first_lsn, "last_lsn": log.last_lsn,
        "kinds": log.kinds, "commands": log.commands,
        "torn": log.torn.as_ref().map(ToString::to_string),
        "snapshots": snapshots,
        "blobs": blobs.blobs, "blob_bytes": blobs.bytes, "blobs_damaged": blobs.damaged.len(),
        "blobs_missing": blobs.missing.len(),
        "problems": problems, "sound": report.is_sound(),
    })
}

pub fn reset(args: &ResetArgs) -> ExitCode {
    let drawer: ledger::store::Draw = Arc::new(draw);
    match Storage::reset(&RealDisk, &args.folder, &drawer, &args.reason) {
        Ok(disk) => {
            print::line(&format!(
                "the log was put aside; the folder has disk id {disk} now. Start a manager as before, then \
                 `volley managers add ADDRESS`; a member of `volley debug ledger serve` with --join, then \
                 `volley debug ledger members MEMBER readmit ADDRESS`"
            ));
            ExitCode::Passed
        }
        Err(error) => fail(&error),
    }
}
