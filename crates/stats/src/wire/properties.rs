//! Whatever was counted is read as it was written; whatever else is read is refused by name.

use proptest::prelude::*;

use super::*;
use crate::delta::Delta;
use crate::error_kind::ErrorKind;
use crate::fixture::{Happening, layout, made_up};
use crate::series::{Contains, MetricKind, SeriesWindow, builtin};
use crate::trend::Trend;
use crate::window::Window;

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(any::<Happening>(), 0..60)
}

fn series_layout() -> Arc<SeriesLayout> {
    let mut layout = SeriesLayout::new();
    for kind in [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend] {
        layout.metric(&format!("m_{}", kind_name(kind)), kind, Contains::Time).unwrap();
    }
    layout.threshold("m_trend{scenario:s1}", &[]).unwrap();
    layout.set_sections(true);
    Arc::new(layout)
}

fn schema() -> Schema {
    Schema::new(layout(), Some(series_layout()))
}

fn series(layout: &SeriesLayout, happenings: &[Happening], times: usize) -> SeriesWindow {
    let mut window = SeriesWindow::new(layout);
    let metrics: Vec<_> = layout.metrics().map(|(id, _)| id).collect();
    for (at, &(a, b, c, d)) in happenings.iter().cycle().take(happenings.len() * times).enumerate()
    {
        let (scenario, group) = (format!("s{}", a % 2), format!("::g{}", b % 3));
        let tags = [("scenario", &*scenario), ("group", &*group)];
        let metric = metrics[usize::from(c) % metrics.len()];
        let value = (f64::from(d) - 60.0) * f64::from(c) + at as f64;
        window.record(layout, metric, value, at as u64, &tags);
        window.check(layout, &group, &format!("c{}", d % 5), d > 20, at as u64, &tags);
    }
    window
}

fn frame(schema: &Schema, happenings: &[Happening], times: usize) -> Frame {
    let window = made_up(&schema.layout, happenings);
    let mut lag = Trend::new();
    happenings.iter().for_each(|one| lag.record_ns(u64::from(one.2)));
    let series = schema.series.as_ref().map(|layout| series(layout, happenings, times));
    let content = Content {
        counts: Delta::of(&window),
        series: series.map(Box::new),
        messages: vec![FailureMessage {
            step: 1,
            kind: ErrorKind::Timeout,
            text: "no answer within 5 s".to_owned(),
            exchange: Some("GET /".to_owned()),
        }],
        loop_lag: lag.to_sparse(),
        generator: Generator { vus: vec![(0, 5), (1, 7)], vus_made: 12, ..Generator::default() },
    };
    let key = StreamKey { workflow: 0, shard: 3, attempt: 2, id: 77 << 90 };
    let body = Body::Content(Box::new(content));
    Frame { key, first: 5, last: 9, windows: (3, 7), end: false, body }
}

fn content(frame: Frame) -> Content {
    match frame.body {
        Body::Content(content) => *content,
        Body::Gap(reason) => panic!("a gap: {reason:?}"),
    }
}

/// With a checksum that fits again.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_frame_is_read_as_it_was_written(happenings in happenings(), times in 1..30usize) {
        let schema = schema();
        let written = frame(&schema, &happenings, times);
        let bytes = written.encode(&schema);
        let read = Frame::decode(&bytes, &schema).unwrap();
        prop_assert_eq!((read.key, read.first, read.last), (written.key, 5, 9));
        prop_assert_eq!(&read.encode(&schema), &bytes, "one content, one spelling");
        let (read, written) = (content(read), content(written));
        prop_assert_eq!(&read.counts, &written.counts);
        prop_assert_eq!(&read.messages, &written.messages);
        prop_assert_eq!(&read.generator, &written.generator);
        let (read, written) = (read.series.unwrap(), written.series.unwrap());
        for (id, _) in schema.series.as_ref().unwrap().metrics() {
            let percentiles = |window: &SeriesWindow| match window.sink(id) {
                Some(crate::series::Sink::Trend(trend)) => {
                    [1.0, 50.0, 99.0].map(|percent| trend.percentile(percent).to_bits())
                }
                sink => [sink.map_or(0, crate::series::Sink::samples); 3],
            };
            prop_assert_eq!(percentiles(&read), percentiles(&written));
        }
        let rows = |window: &SeriesWindow| -> Vec<String> {
            let places = window.places();
            let checks = places.iter().map(|place| format!("{:?} {:?}", place.group, place.checks()));
            checks.collect()
        };
        prop_assert_eq!(rows(&read), rows(&written));
        prop_assert!(read.sink(builtin::CHECKS).is_some());
    }

    #[test]
    fn adding_a_delta_is_merging_its_window(one in happenings(), other in happenings()) {
        let layout = layout();
        let (one, other) = (made_up(&layout, &one), made_up(&layout, &other));
        let mut merged = one.clone();
        merged.merge(&other);
        let mut added = Window::new(&layout);
        Delta::of(&one).add_to(&mut added, &layout);
        Delta::of(&other).add_to(&mut added, &layout);
        let mut sparse = Delta::of(&one);
        sparse.merge(&Delta::of(&other));
        prop_assert_eq!(&Delta::of(&added), &Delta::of(&merged));
        // Tag values beyond the limit are folded by a window only.
        sparse.fold_tags(&mut Default::default());
        let mut again = Window::new(&layout);
        sparse.add_to(&mut again, &layout);
        prop_assert_eq!(again.blocks.len(), merged.blocks.len());
        prop_assert_eq!(Delta::of(&again).requests(), Delta::of(&merged).requests());
    }

    #[test]
    fn bytes_that_were_changed_or_cut_are_refused(
        happenings in happenings(), at in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        let schema = schema();
        let bytes = frame(&schema, &happenings, 1).encode(&schema);
        let at = at.index(bytes.len());
        prop_assert!(Frame::decode(&bytes[..at], &schema).is_err());
        let mut changed = bytes;
        changed[at] ^= 1 << bit;
        prop_assert!(Frame::decode(&changed, &schema).is_err());
    }

    #[test]
    fn nothing_that_passes_the_checksum_can_do_harm(
        happenings in happenings(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let schema = schema();
        let mut bytes = frame(&schema, &happenings, 3).encode(&schema);
        for (at, byte) in changes {
            let at = 3 + at.index(bytes.len() - 3);
            bytes[at] = byte;
        }
        if let Ok(frame) = Frame::decode(&resealed(bytes.clone()), &schema)
            && let Body::Content(content) = frame.body
        {
            // What was let in can be counted.
            let mut window = Window::new(&schema.layout);
            content.counts.add_to(&mut window, &schema.layout);
            let mut sum = SeriesWindow::new(schema.series.as_ref().unwrap());
            content.series.iter().for_each(|series| sum.merge(series));
        }
        bytes.truncate(3);
        bytes.extend(noise);
        bytes.extend([0; 4]);
        let _ = Frame::decode(&resealed(bytes), &schema);
    }
}

#[test]
fn each_fault_has_its_name() {
    let schema = schema();
    let good = frame(&schema, &[(1, 1, 500, 1)], 1).encode(&schema);
    let refusal = |bytes: &[u8]| Frame::decode(bytes, &schema).unwrap_err();
    let mut later = good.clone();
    later[1] = VERSION + 1;
    assert_eq!(refusal(&later), WireError::FutureVersion { found: 2 });
    assert!(refusal(&later).to_string().contains("upgrade"));
    let mut foreign = good.clone();
    foreign[0] = b'X';
    assert_eq!(refusal(&foreign), WireError::Foreign);
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    assert_eq!(refusal(&flipped), WireError::Checksum);
    assert_eq!(refusal(&good[..4]), WireError::Truncated { at: 4 });
    let large = vec![b'V'; FRAME_BYTES_MAX + 1];
    assert!(matches!(refusal(&large), WireError::TooLarge { .. }));
    let mut longer = good.clone();
    longer.insert(longer.len() - 4, 0);
    assert_eq!(refusal(&resealed(longer)), WireError::Trailing { bytes: 1 });
    let other = Schema::new(layout(), None);
    let refused = Frame::decode(&good, &other).unwrap_err();
    assert!(matches!(refused, WireError::OtherSchema { .. }), "{refused}");
    let event = crate::feed::Event { epoch: 1, seq: 1, what: crate::feed::What::Final(vec![]) };
    assert_eq!(refusal(&event.encode()), WireError::Foreign, "another kind");
}

/// A length that lies costs nothing: the list grows as its elements arrive.
#[test]
fn a_lying_length_is_refused_before_memory_is_taken() {
    let mut writer = Writer::default();
    writer.int(1 << 15);
    writer.int(0);
    let mut reader = Reader::new(&writer.0, 0);
    assert!(matches!(read_sparse(&mut reader), Err(WireError::Truncated { .. })));
}
