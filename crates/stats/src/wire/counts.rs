//! Counters and histograms of a plan.
//!
//! A histogram is a list of buckets in rising order; each is its distance from the one before,
//! doubled, plus one if a count follows. Most buckets of a short window hold one value, and take
//! one byte or two.

use std::collections::BTreeMap;

use super::bytes::COUNT_MAX;
use super::{Reader, Schema, WireError, Writer};
use crate::delta::{
    BlockCounters, BlockDelta, Delta, MetricDelta, StepCounters, StepDelta, TAGS_BYTES_MAX,
    TagDelta,
};
use crate::trend::{BUCKETS, SparseTrend, bucket_start};
use crate::window::TAG_SETS_MAX;
use plan::MetricKind;

type Read<T> = Result<T, WireError>;

pub(crate) fn write_delta(writer: &mut Writer, delta: &Delta) {
    writer.len(delta.blocks.len());
    for (stage, block) in &delta.blocks {
        writer.int(u64::from(*stage));
        write_block_counters(writer, &block.counters);
        write_sparse(writer, &block.iteration_duration);
        write_sparse(writer, &block.start_lag);
        writer.len(block.steps.len());
        for (number, step) in &block.steps {
            writer.int(u64::from(*number));
            write_step_counters(writer, &step.counters);
            let present = step.trends.iter().enumerate().filter(|(_, trend)| !trend.is_empty());
            writer.byte(present.fold(0, |bits, (at, _)| bits | 1 << at));
            for trend in step.trends.iter().filter(|trend| !trend.is_empty()) {
                write_sparse(writer, trend);
            }
            writer.len(step.tagged.len());
            for (tags, tagged) in &step.tagged {
                writer.text(tags);
                writer.int(tagged.requests);
                writer.int(tagged.failed);
                write_sparse(writer, &tagged.latency);
                write_sparse(writer, &tagged.duration);
            }
        }
        writer.len(block.metrics.len());
        for (number, metric) in &block.metrics {
            writer.int(u64::from(*number));
            write_metric(writer, metric);
        }
    }
}

pub(crate) fn read_delta(reader: &mut Reader<'_>, schema: &Schema) -> Read<Delta> {
    let layout = &schema.layout;
    let mut delta = Delta::default();
    for _ in 0..reader.len("stages", layout.stages.len())? {
        let stage = reader.index("a stage", layout.stages.len())?;
        rises(&delta.blocks, stage, "stages")?;
        let workflow = layout.workflow_of_stage(stage as usize);
        let mut block = BlockDelta {
            counters: read_block_counters(reader, workflow.checks.len())?,
            iteration_duration: read_sparse(reader)?,
            start_lag: read_sparse(reader)?,
            ..BlockDelta::default()
        };
        for _ in 0..reader.len("steps", workflow.steps.len())? {
            let number = reader.index("a step", workflow.steps.len())?;
            rises(&block.steps, number, "steps")?;
            let step = read_step(reader)?;
            block.steps.insert(number, step);
        }
        for _ in 0..reader.len("metrics", layout.metrics.len())? {
            let number = reader.index("a metric", layout.metrics.len())?;
            rises(&block.metrics, number, "metrics")?;
            let metric = read_metric(reader, layout.metrics[number as usize].kind)?;
            block.metrics.insert(number, metric);
        }
        delta.blocks.insert(stage, block);
    }
    Ok(delta)
}

/// Each list is in rising order: one spelling for one content, and no key twice.
fn rises<T>(known: &BTreeMap<u32, T>, next: u32, what: &'static str) -> Read<()> {
    match known.last_key_value() {
        Some((last, _)) if *last >= next => Err(WireError::Contradiction { what }),
        _ => Ok(()),
    }
}

fn read_step(reader: &mut Reader<'_>) -> Read<StepDelta> {
    let mut step = StepDelta { counters: read_step_counters(reader)?, ..StepDelta::default() };
    let present = reader.byte()?;
    for (at, trend) in step.trends.iter_mut().enumerate() {
        if present & (1 << at) != 0 {
            *trend = read_sparse(reader)?;
            if trend.is_empty() {
                return Err(WireError::Contradiction { what: "a histogram of nothing" });
            }
        }
    }
    for _ in 0..reader.len("tag values", TAG_SETS_MAX + 1)? {
        let tags: Box<str> = reader.text("a tag value", TAGS_BYTES_MAX)?.into();
        if step.tagged.last_key_value().is_some_and(|(last, _)| *last >= tags) {
            return Err(WireError::Contradiction { what: "tag values" });
        }
        let tagged = TagDelta {
            requests: reader.counter()?,
            failed: reader.counter()?,
            latency: read_sparse(reader)?,
            duration: read_sparse(reader)?,
        };
        step.tagged.insert(tags, tagged);
    }
    Ok(step)
}

/// A bit for each counter that is not zero, then these.
fn write_numbers(writer: &mut Writer, numbers: &[u64]) {
    let present = numbers.iter().enumerate().filter(|(_, number)| **number > 0);
    writer.int(present.fold(0, |bits, (at, _)| bits | 1 << at));
    numbers.iter().filter(|number| **number > 0).for_each(|number| writer.int(*number));
}

fn read_numbers<const N: usize>(reader: &mut Reader<'_>) -> Read<[u64; N]> {
    const { assert!(N < 64) }
    let present = reader.within("counters", (1 << N) - 1)?;
    let mut numbers = [0; N];
    for (at, number) in numbers.iter_mut().enumerate() {
        if present & (1 << at) != 0 {
            *number = reader.counter()?;
            if *number == 0 {
                return Err(WireError::Contradiction { what: "a counter of nothing" });
            }
        }
    }
    Ok(numbers)
}

pub(crate) fn write_block_counters(writer: &mut Writer, counters: &BlockCounters) {
    write_numbers(writer, &counters.own);
    writer.len(counters.checks.len());
    for (check, [passes, fails]) in &counters.checks {
        writer.int(u64::from(*check));
        writer.int(*passes);
        writer.int(*fails);
    }
}

pub(crate) fn read_block_counters(reader: &mut Reader<'_>, checks: usize) -> Read<BlockCounters> {
    let mut counters = BlockCounters { own: read_numbers(reader)?, checks: BTreeMap::new() };
    for _ in 0..reader.len("checks", checks)? {
        let check = reader.index("a check", checks)?;
        rises(&counters.checks, check, "checks")?;
        counters.checks.insert(check, [reader.counter()?, reader.counter()?]);
    }
    Ok(counters)
}

pub(crate) fn write_step_counters(writer: &mut Writer, counters: &StepCounters) {
    write_numbers(writer, &counters.own);
    writer.len(counters.status.len());
    for (status, count) in &counters.status {
        writer.int(u64::from(*status));
        writer.int(*count);
    }
}

pub(crate) fn read_step_counters(reader: &mut Reader<'_>) -> Read<StepCounters> {
    let mut counters = StepCounters { own: read_numbers(reader)?, status: BTreeMap::new() };
    for _ in 0..reader.len("statuses", usize::from(u16::MAX))? {
        let status = reader.index("a status", usize::from(u16::MAX) + 1)? as u16;
        if counters.status.last_key_value().is_some_and(|(last, _)| *last >= status) {
            return Err(WireError::Contradiction { what: "statuses" });
        }
        counters.status.insert(status, reader.counter()?);
    }
    Ok(counters)
}

pub(crate) fn write_sparse(writer: &mut Writer, trend: &SparseTrend) {
    writer.len(trend.buckets.len());
    writer.int(trend.zeros);
    if trend.is_empty() {
        return;
    }
    let mut next = 0;
    for (bucket, count) in &trend.buckets {
        let distance = u64::from(bucket - next) << 1;
        next = bucket + 1;
        writer.int(distance | u64::from(*count > 1));
        if *count > 1 {
            writer.int(*count);
        }
    }
    writer.int(trend.min_ns);
    writer.int(trend.max_ns - trend.min_ns);
    writer.long(trend.sum_ns);
}

pub(crate) fn read_sparse(reader: &mut Reader<'_>) -> Read<SparseTrend> {
    let len = reader.len("buckets", BUCKETS as usize)?;
    let mut trend = SparseTrend { zeros: reader.counter()?, ..SparseTrend::default() };
    if len == 0 && trend.zeros == 0 {
        return Ok(trend);
    }
    trend.buckets.reserve_exact(len);
    let (mut next, mut count) = (0u64, trend.zeros);
    for _ in 0..len {
        let code = reader.int()?;
        let bucket = next + (code >> 1);
        if bucket >= u64::from(BUCKETS) {
            let limit = u64::from(BUCKETS);
            return Err(WireError::OutOfRange { what: "a bucket", value: bucket, limit });
        }
        let held = if code & 1 == 1 { reader.counter()? } else { 1 };
        if code & 1 == 1 && held < 2 {
            return Err(WireError::Contradiction { what: "a bucket of nothing" });
        }
        count += held;
        if count > COUNT_MAX {
            return Err(WireError::OutOfRange { what: "a count", value: count, limit: COUNT_MAX });
        }
        trend.buckets.push((bucket as u32, held));
        next = bucket + 1;
    }
    trend.min_ns = reader.int()?;
    let spread = reader.int()?;
    let wrong = WireError::Contradiction { what: "a histogram's extremes and sum" };
    trend.max_ns = trend.min_ns.checked_add(spread).ok_or(wrong.clone())?;
    trend.sum_ns = reader.long()?;
    let highest = trend.buckets.last().map_or(0, |(bucket, _)| bucket_start(*bucket));
    let most = u128::from(trend.max_ns) * u128::from(count - trend.zeros);
    if highest > trend.max_ns / 1000 || trend.sum_ns > most || (trend.zeros > 0 && trend.min_ns > 0)
    {
        return Err(wrong);
    }
    Ok(trend)
}

fn write_metric(writer: &mut Writer, metric: &MetricDelta) {
    match metric {
        MetricDelta::Counter { sum, count } => {
            writer.float(*sum);
            writer.int(*count);
        }
        MetricDelta::Gauge { value, at_ns, min, max } => {
            writer.float(*value);
            writer.int(*at_ns);
            writer.float(*min);
            writer.float(*max);
        }
        MetricDelta::Rate { trues, total } => {
            writer.int(*trues);
            writer.int(*total);
        }
        MetricDelta::Trend(trend) => write_sparse(writer, trend),
    }
}

fn read_metric(reader: &mut Reader<'_>, kind: MetricKind) -> Read<MetricDelta> {
    Ok(match kind {
        MetricKind::Counter => {
            MetricDelta::Counter { sum: reader.float()?, count: reader.counter()? }
        }
        MetricKind::Gauge => MetricDelta::Gauge {
            value: reader.float()?,
            at_ns: reader.int()?,
            min: reader.number("the least value of a gauge")?,
            max: reader.number("the largest value of a gauge")?,
        },
        MetricKind::Rate => {
            let (trues, total) = (reader.counter()?, reader.counter()?);
            if trues > total {
                return Err(WireError::Contradiction { what: "a rate above one" });
            }
            MetricDelta::Rate { trues, total }
        }
        MetricKind::Trend => MetricDelta::Trend(read_sparse(reader)?),
    })
}
