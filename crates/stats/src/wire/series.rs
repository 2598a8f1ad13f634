//! A script's metrics: sinks by number, then groups and checks by name.
//!
//! Values are written as they are while the sender keeps them so, and as buckets once it has
//! folded them; a reader's sum is the same as if it had counted them itself.

use super::{Reader, WireError, Writer};
use crate::series::distribution::{Buckets, FRACTION_BITS};
use crate::series::tree::{Counted, First};
use crate::series::{
    Distribution, EXACT_VALUES_MAX, MetricKind, SeriesLayout, SeriesWindow, Sink, TREE_NODES_MAX,
};

type Read<T> = Result<T, WireError>;

/// A group's path, or the name of a check. Longer ones are cut when written.
const NAME_BYTES_MAX: usize = 4 << 10;

pub(crate) fn write_series(writer: &mut Writer, window: &SeriesWindow) {
    for sinks in [&window.metrics, &window.subs] {
        write_sinks(writer, &sinks.iter().map(Some));
    }
    writer.int(window.tree.left_out);
    let places = || {
        let told = |place: &&crate::series::Place| {
            place.entered
                || place.checks.iter().any(|check| check.total() > 0)
                || place.sinks.iter().flatten().any(|sink| !sink.is_empty())
        };
        window.tree.places.iter().filter(told)
    };
    writer.len(places().count());
    for place in places() {
        writer.text(cut(&place.scenario));
        writer.text(cut(&place.group));
        writer.flag(place.entered);
        write_first(writer, place.first);
        let checks = || place.checks.iter().filter(|check| check.total() > 0);
        writer.len(checks().count());
        for check in checks() {
            writer.text(cut(&check.name));
            writer.int(check.passes);
            writer.int(check.fails);
            write_first(writer, check.first);
        }
        write_sinks(writer, &place.sinks.iter().map(Option::as_ref));
    }
}

pub(crate) fn read_series(reader: &mut Reader<'_>, layout: &SeriesLayout) -> Read<SeriesWindow> {
    let mut window = SeriesWindow::new(layout);
    let kinds: Vec<MetricKind> = layout.metrics().map(|(_, metric)| metric.kind).collect();
    for (number, sink) in read_sinks(reader, &kinds)? {
        window.metrics[number as usize] = sink;
    }
    let subs: Vec<MetricKind> = layout.subs().map(|(_, sub)| layout.get(sub.metric).kind).collect();
    for (number, sink) in read_sinks(reader, &subs)? {
        window.subs[number as usize] = sink;
    }
    let tree = &mut window.tree;
    tree.left_out = reader.counter()?;
    for _ in 0..reader.len("groups", TREE_NODES_MAX)? {
        let scenario = reader.text("a scenario", NAME_BYTES_MAX)?;
        let group = reader.text("a group", NAME_BYTES_MAX)?;
        let entered = reader.flag()?;
        let first = read_first(reader)?;
        let full = WireError::OutOfRange {
            what: "groups and checks",
            value: TREE_NODES_MAX as u64 + 1,
            limit: TREE_NODES_MAX as u64,
        };
        // A name that was cut may occur twice; its counts add up.
        let known = tree.find(scenario, group);
        let at = known.or_else(|| tree.make_place(scenario, group, first)).ok_or(full.clone())?;
        tree.places[at].entered |= entered;
        for _ in 0..reader.len("checks", TREE_NODES_MAX)? {
            let name = reader.text("a check", NAME_BYTES_MAX)?;
            let counts = [reader.counter()?, reader.counter()?];
            let first = read_first(reader)?;
            let room = tree.nodes < TREE_NODES_MAX;
            match tree.places[at].check(name, first, counts, room) {
                Counted::Known => {}
                Counted::Made => tree.nodes += 1,
                Counted::Refused => return Err(full),
            }
        }
        for (number, sink) in read_sinks(reader, &kinds)? {
            tree.places[at].sink_mut(number as usize, sink.kind()).merge(&sink);
        }
    }
    Ok(window)
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

fn write_first(writer: &mut Writer, (at_ns, order): First) {
    writer.int(at_ns);
    writer.int(u64::from(order));
}

fn read_first(reader: &mut Reader<'_>) -> Read<First> {
    Ok((reader.int()?, reader.within("an order", u64::from(u32::MAX))? as u32))
}

fn write_sinks<'a>(writer: &mut Writer, sinks: &(impl Iterator<Item = Option<&'a Sink>> + Clone)) {
    let told = || {
        let all = sinks.clone().enumerate();
        all.filter_map(|(at, sink)| Some((at, sink.filter(|sink| !sink.is_empty())?)))
    };
    writer.len(told().count());
    for (number, sink) in told() {
        writer.len(number);
        match sink {
            Sink::Counter { sum, samples } => {
                writer.float(*sum);
                writer.int(*samples);
            }
            Sink::Gauge { value, at_ns, min, max, samples } => {
                writer.float(*value);
                writer.int(*at_ns);
                writer.float(*min);
                writer.float(*max);
                writer.int(*samples);
            }
            Sink::Rate { trues, total } => {
                writer.int(*trues);
                writer.int(*total);
            }
            Sink::Trend(trend) => write_distribution(writer, trend),
        }
    }
}

fn read_sinks(reader: &mut Reader<'_>, kinds: &[MetricKind]) -> Read<Vec<(u32, Sink)>> {
    let count = reader.len("metrics", kinds.len())?;
    let mut sinks: Vec<(u32, Sink)> = Vec::with_capacity(count);
    for _ in 0..count {
        let number = reader.index("a metric", kinds.len())?;
        if sinks.last().is_some_and(|(last, _)| *last >= number) {
            return Err(WireError::Contradiction { what: "metrics" });
        }
        let sink = match kinds[number as usize] {
            MetricKind::Counter => {
                Sink::Counter { sum: reader.float()?, samples: reader.counter()? }
            }
            MetricKind::Gauge => Sink::Gauge {
                value: reader.number("a gauge")?,
                at_ns: reader.int()?,
                min: reader.number("the least value of a gauge")?,
                max: reader.number("the largest value of a gauge")?,
                samples: reader.counter()?,
            },
            MetricKind::Rate => {
                let (trues, total) = (reader.counter()?, reader.counter()?);
                if trues > total {
                    return Err(WireError::Contradiction { what: "a rate above one" });
                }
                Sink::Rate { trues, total }
            }
            MetricKind::Trend => Sink::Trend(Box::new(read_distribution(reader)?)),
        };
        if sink.is_empty() {
            return Err(WireError::Contradiction { what: "a metric of nothing" });
        }
        sinks.push((number, sink));
    }
    Ok(sinks)
}

fn write_distribution(writer: &mut Writer, trend: &Distribution) {
    writer.flag(trend.folded);
    writer.int(trend.zeros);
    writer.float(trend.sum);
    writer.float(trend.min);
    writer.float(trend.max);
    if trend.folded {
        write_buckets(writer, &trend.negative);
        write_buckets(writer, &trend.positive);
    } else {
        writer.len(trend.exact.len());
        trend.exact.iter().for_each(|value| writer.float(*value));
    }
}

fn read_distribution(reader: &mut Reader<'_>) -> Read<Distribution> {
    let folded = reader.flag()?;
    let mut trend = Distribution { folded, zeros: reader.counter()?, ..Distribution::default() };
    trend.sum = reader.float()?;
    trend.min = reader.number("the least value")?;
    trend.max = reader.number("the largest value")?;
    trend.count = trend.zeros;
    if folded {
        trend.count += read_buckets(reader, &mut trend.negative)?;
        trend.count += read_buckets(reader, &mut trend.positive)?;
    } else {
        let len = reader.len("values", EXACT_VALUES_MAX)?;
        for _ in 0..len {
            let value = reader.number("a value")?;
            if value == 0.0 || value < trend.min || value > trend.max {
                return Err(WireError::Contradiction { what: "a value outside its bounds" });
            }
            trend.exact.push(value);
        }
        trend.count += len as u64;
    }
    if trend.min > trend.max || (trend.zeros > 0 && (trend.min > 0.0 || trend.max < 0.0)) {
        return Err(WireError::Contradiction { what: "a distribution's extremes" });
    }
    Ok(trend)
}

fn write_buckets(writer: &mut Writer, buckets: &Buckets) {
    writer.len(buckets.in_use().count());
    let mut next = 0;
    for (bucket, count) in buckets.in_use() {
        writer.int(bucket - next);
        writer.int(count);
        next = bucket + 1;
    }
}

/// The sum of the counts.
fn read_buckets(reader: &mut Reader<'_>, buckets: &mut Buckets) -> Read<u64> {
    // Sign aside, eleven bits of exponent.
    let limit = 1u64 << (11 + FRACTION_BITS);
    let (mut next, mut sum, mut page) = (0u64, 0u64, u64::MAX);
    for _ in 0..reader.len("buckets", limit as usize)? {
        let bucket = next.saturating_add(reader.int()?);
        if bucket >= limit {
            return Err(WireError::OutOfRange { what: "a bucket", value: bucket, limit });
        }
        let count = reader.counter()?;
        // Counts beyond 32 bits are kept in a list that is searched: these are paid for as well.
        let cost = usize::from(page != bucket >> FRACTION_BITS) + usize::from(count >> 32 > 0);
        page = bucket >> FRACTION_BITS;
        let left = reader.pages_left.checked_sub(cost);
        reader.pages_left =
            left.ok_or(WireError::Contradiction { what: "too wide a distribution" })?;
        if count == 0 {
            return Err(WireError::Contradiction { what: "a bucket of nothing" });
        }
        sum += count;
        buckets.add(bucket, count as u32);
        let carried = (count >> 32) as u32;
        if carried > 0 {
            buckets.carry(bucket, carried);
        }
        next = bucket + 1;
    }
    Ok(sum)
}
