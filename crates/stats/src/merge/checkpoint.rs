//! What makes frames durable: the whole state of a merge, so that another owner can go on.
//!
//! It holds every frame up to each stream's `applied_through`, in the sums or in what was pending.
//! Once it is stored, and only then, these frames are durable, and senders may forget them. A new
//! owner takes up the last stored one, and senders repeat what came after it; nothing is counted
//! twice and nothing is lost, whenever the old owner died.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::Threshold;
use serde::{Deserialize, Serialize};

use super::{Ack, CHECKPOINTS_MAX, CatchUp, Merge, Pending, Settings, Stream, Unrun};
use crate::aggregate::SavedAggregate;
use crate::delta::{Counters, Delta};
use crate::stream::{Cursor, StreamError};
use crate::threshold::SavedEvaluator;
use crate::verdict::{LostWorker, Stall};
use crate::wire::{
    GapReason, Generator, Reader, Schema, StreamKey, WireError, open, read_delta, read_fingerprint,
    read_plain, read_series, read_sparse, seal, write_delta, write_plain, write_series,
    write_sparse,
};

/// Larger ones are neither written nor read. A merge that has so much to say has folded its tags
/// before.
pub const CHECKPOINT_BYTES_MAX: usize = 256 << 20;
/// 2 was without histograms in the history.
const KIND: u8 = 8;
/// 1 GiB of folded values: whoever wrote it had as much in memory.
const PAGES_MAX: usize = 512 << 10;

#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub number: u64,
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Plain {
    number: u64,
    next: u64,
    ticked: Duration,
    judged_without: usize,
    lost: Vec<LostWorker>,
    stalls: Vec<Stall>,
    /// What the owner wants its successor to know.
    owner: Vec<u8>,
    incomplete: Vec<String>,
    unrun: Vec<Unrun>,
    counts: (u64, u64, u64),
    evaluator: SavedEvaluator,
    aggregate: SavedAggregate,
    streams: Vec<SavedStream>,
}

#[derive(Serialize, Deserialize)]
struct SavedStream {
    key: StreamKey,
    number: usize,
    applied: u64,
    live: bool,
    ended: bool,
    sealed: Option<u64>,
    broken: Option<StreamError>,
    gaps: Vec<(u64, u64, GapReason)>,
    next: u64,
    generator: Generator,
    counters: Counters,
}

impl Merge {
    /// The state as it is now. At most a few may be under way; the oldest is then forgotten.
    ///
    /// `owner`: whatever the owner wants its successor to know, see [`Merge::of_last_owner`].
    pub fn checkpoint(&mut self, owner: &[u8]) -> Checkpoint {
        self.checkpoint_number += 1;
        let number = self.checkpoint_number;
        let marks = self.streams.iter();
        let marks = marks.map(|(key, stream)| (*key, stream.cursor.applied_through())).collect();
        self.checkpoints.push_back((number, marks));
        if self.checkpoints.len() > CHECKPOINTS_MAX {
            self.checkpoints.pop_front();
        }
        let plain = Plain {
            number,
            next: self.next,
            ticked: self.ticked,
            judged_without: self.judged_without,
            lost: self.lost.clone(),
            stalls: self.stalls.clone(),
            owner: owner.to_vec(),
            incomplete: self.incomplete.clone(),
            unrun: self.unrun.clone(),
            counts: (self.refused, self.late_windows, self.partial_windows),
            evaluator: self.evaluator.save(),
            aggregate: self.aggregate.save(),
            streams: self.streams.iter().map(|(key, stream)| saved(*key, stream)).collect(),
        };
        // What is not yet in the sums is shown as one window by the next owner.
        let mut carried = self.aggregate.open_tick();
        self.pending.values().for_each(|pending| carried.merge(&pending.delta));
        carried.fold_tags(&mut BTreeMap::new());
        let mut totals = Delta::of(&self.aggregate.totals);
        let sealed = |plain: &Plain, totals: &Delta| {
            seal(KIND, |writer| {
                writer.int(u64::from(self.schema.fingerprint()));
                write_plain(writer, plain);
                write_delta(writer, totals);
                write_delta(writer, &carried);
                write_sparse(writer, &self.aggregate.loop_lag.to_sparse());
                self.aggregate.all_series().for_each(|series| write_series(writer, series));
            })
        };
        let mut bytes = sealed(&plain, &totals);
        if bytes.len() > CHECKPOINT_BYTES_MAX {
            // What cannot be read again must not be acknowledged: the sums stay, their division by
            // tags goes.
            let mut plain = plain;
            plain
                .incomplete
                .push("too much to keep: sums by tags are lost at a change of owner".to_owned());
            totals.fold_tags(&mut BTreeMap::new());
            bytes = sealed(&plain, &totals);
        }
        Checkpoint { number, bytes }
    }

    /// This checkpoint is stored where a new owner will find it: what it holds is durable. Gives
    /// the streams that have something new to hear.
    pub fn stored(&mut self, number: u64) -> Vec<Ack> {
        let Some(at) = self.checkpoints.iter().position(|(known, _)| *known == number) else {
            return Vec::new();
        };
        let Some((_, marks)) = self.checkpoints.drain(..=at).next_back() else {
            return Vec::new();
        };
        let mut acks = Vec::new();
        for (key, through) in marks {
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            let before = stream.cursor.durable_through();
            stream.cursor.made_durable(through);
            if stream.cursor.durable_through() > before {
                acks.push(self.ack(key));
            }
        }
        acks
    }

    /// Takes over a job that another owner had begun: goes on where its last checkpoint stands, or
    /// from nothing if it had stored none. Windows wait until every live stream has resumed.
    pub fn restore(
        schema: Schema,
        thresholds: &[Threshold],
        settings: Settings,
        checkpoint: Option<&[u8]>,
        now: Duration,
    ) -> Result<Merge, WireError> {
        let (mut merge, carried) = match checkpoint {
            Some(bytes) => Merge::read(schema, thresholds, settings, bytes, now)?,
            None => (Merge::new(schema, thresholds, settings), Delta::default()),
        };
        let through = merge.window_at(now).max(merge.next);
        merge.catch_up = Some(CatchUp { through, since: now });
        let pending = Pending { delta: carried, coalesced: true, ..Pending::default() };
        merge.pending.insert(through, pending);
        Ok(merge)
    }

    /// The state that a checkpoint holds, and what was pending.
    fn read(
        schema: Schema,
        thresholds: &[Threshold],
        settings: Settings,
        bytes: &[u8],
        now: Duration,
    ) -> Result<(Merge, Delta), WireError> {
        let mut reader = Reader::new(open(KIND, bytes, CHECKPOINT_BYTES_MAX)?, PAGES_MAX);
        read_fingerprint(&mut reader, &schema)?;
        let plain: Plain = read_plain(&mut reader, CHECKPOINT_BYTES_MAX)?;
        let totals = read_delta(&mut reader, &schema)?;
        let carried = read_delta(&mut reader, &schema)?;
        let loop_lag = read_sparse(&mut reader)?;
        let mut series = [None, None];
        if let Some(layout) = &schema.series {
            for one in &mut series {
                *one = Some(Box::new(read_series(&mut reader, layout)?));
            }
        }
        reader.end()?;
        if !plain.aggregate.is_sound(&schema.layout) {
            return Err(WireError::Contradiction { what: "the history" });
        }

        let mut merge = Merge::new(schema, thresholds, settings);
        let wrong = WireError::Contradiction { what: "thresholds of another plan" };
        merge.evaluator.restore(plain.evaluator).ok_or(wrong)?;
        merge.tally.add(&totals);
        merge.aggregate.restore(plain.aggregate, &totals, &loop_lag, series);
        merge.checkpoint_number = plain.number;
        (merge.next, merge.ticked) = (plain.next, plain.ticked);
        (merge.lost, merge.incomplete, merge.unrun) = (plain.lost, plain.incomplete, plain.unrun);
        (merge.stalls, merge.last_owner) = (plain.stalls, plain.owner);
        merge.judged_without = plain.judged_without;
        (merge.refused, merge.late_windows, merge.partial_windows) = plain.counts;
        for saved in plain.streams {
            let cpu = (saved.generator.cpu_user, saved.generator.cpu_system);
            merge.aggregate.restore_cpu(saved.number, cpu);
            merge.streams.insert(saved.key, restored(saved, &settings, now));
        }
        Ok((merge, carried))
    }
}

fn saved(key: StreamKey, stream: &Stream) -> SavedStream {
    let cursor = &stream.cursor;
    SavedStream {
        key,
        number: stream.number,
        applied: cursor.applied,
        live: stream.live,
        ended: cursor.ended,
        sealed: cursor.sealed,
        broken: cursor.broken,
        gaps: cursor.gaps.clone(),
        next: stream.next,
        generator: stream.generator.clone(),
        // Also of one that has ended: a new owner may have to say what its attempt has counted, if
        // its worker does not.
        counters: cursor.counters.clone(),
    }
}

fn restored(saved: SavedStream, settings: &Settings, now: Duration) -> Stream {
    let mut cursor = Cursor::new(settings.cursor);
    (cursor.applied, cursor.durable) = (saved.applied, saved.applied);
    (cursor.ended, cursor.sealed, cursor.broken) = (saved.ended, saved.sealed, saved.broken);
    (cursor.gaps, cursor.counters) = (saved.gaps, saved.counters);
    Stream {
        number: saved.number,
        cursor,
        opened: false,
        live: saved.live,
        next: saved.next,
        heard: now,
        generator: saved.generator,
    }
}
