//! Execution segments: parts that add up, and are k6's.

use std::time::Duration;

use plan::{Executor, Load, Rate, Stage};

use super::super::{Segment, SegmentSequence, Stripes, cut, describe};
use super::{accepted, refused};

#[test]
fn segments_are_read_in_every_spelling_and_shown_as_fractions() {
    for (text, shown) in [
        ("1/2", "0:1/2"),
        ("50%", "0:1/2"),
        ("0.5", "0:1/2"),
        ("25%:75%", "1/4:3/4"),
        ("0.25:1/2", "1/4:1/2"),
        ("1", "0:1"),
        ("2/6:4/6", "1/3:2/3"),
    ] {
        let segment = Segment::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        assert_eq!(segment.to_string(), shown, "{text}");
    }
    for text in ["1/3:1/3", "2/3:1/3", "x", "3/2", "0:2", "-1:1", "0", "1:1", "1/2: 1", "1/0", ""] {
        assert!(Segment::parse(text).is_err(), "{text}");
    }
    for text in ["x", "0", "0,1/2,1/4,1", "0,0,1", ""] {
        assert!(SegmentSequence::parse(text).is_err(), "{text}");
    }
}

fn stripes(segment: &str, sequence: &str) -> Stripes {
    let sequence = SegmentSequence::parse(sequence).expect("a sequence");
    Stripes::new(Segment::parse(segment).expect("a segment"), Some(&sequence)).expect("stripes")
}

fn all_parts(sequence: &str) -> Vec<Stripes> {
    let points: Vec<&str> = sequence.split(',').collect();
    points.windows(2).map(|pair| stripes(&format!("{}:{}", pair[0], pair[1]), sequence)).collect()
}

const SEQUENCES: [&str; 5] =
    ["0,1", "0,1/2,1", "0,1/3,2/3,1", "0,1/5,1/2,1", "0,1/3,1/2,2/3,13/14,1"];

#[test]
fn every_unit_belongs_to_one_segment() {
    for sequence in SEQUENCES {
        let parts = all_parts(sequence);
        for unit in 0..200 {
            let owners = parts.iter().filter(|part| part.owns(unit)).count();
            assert_eq!(owners, 1, "unit {unit} of {sequence}");
            let shares: u64 = parts.iter().map(|part| part.share(unit)).sum();
            assert_eq!(shares, unit, "{sequence}");
        }
        for part in &parts {
            let owned = (0..200).filter(|unit| part.owns(*unit)).count() as u64;
            assert_eq!(owned, part.share(200), "{sequence}");
        }
    }
}

#[test]
fn shares_are_those_of_k6() {
    // 13 VUs and 37 iterations, and rates that follow the VUs.
    for (segment, sequence, line) in [
        ("0:1/5", "0,1/5,1/2,1", "6 iterations shared among 2 VUs"),
        ("1/5:1/2", "0,1/5,1/2,1", "11 iterations shared among 4 VUs"),
        ("1/2:1", "0,1/5,1/2,1", "20 iterations shared among 7 VUs"),
    ] {
        let resolved = accepted(&format!(
            r#"{{"executionSegment": "{segment}", "executionSegmentSequence": "{sequence}",
                "vus": 13, "iterations": 37}}"#
        ));
        assert!(describe(&resolved)[1].contains(line), "{segment}: {:?}", describe(&resolved));
    }
    let resolved = accepted(
        r#"{"executionSegment": "1/2:1", "executionSegmentSequence": "0,1/5,1/2,1", "scenarios": {
            "a": {"executor": "constant-arrival-rate", "rate": 5, "duration": "1s",
                  "preAllocatedVUs": 3, "maxVUs": 5},
            "c": {"executor": "constant-arrival-rate", "rate": 7, "duration": "1s",
                  "preAllocatedVUs": 10}}}"#,
    );
    assert_eq!(
        describe(&resolved)[1..],
        [
            "* a: 3.00 iterations/s for 1s (maxVUs: 2-3, gracefulStop: 30s)",
            "* c: 3.50 iterations/s for 1s (maxVUs: 5, gracefulStop: 30s)"
        ]
    );
    let quarter = accepted(r#"{"executionSegment": "25%:75%", "vus": 5, "duration": "1s"}"#);
    assert_eq!(quarter.scenarios[0].vus_max, 3);
}

fn loads() -> Vec<Load> {
    let second = Duration::from_secs(1);
    let rate = |events| Rate { events, per: second };
    let executors = [
        Executor::ConstantVus { vus: 17, duration: second },
        Executor::PerVuIterations { vus: 5, iterations: 3, max_duration: second },
        Executor::SharedIterations { vus: 2, iterations: 31, max_duration: second },
        Executor::RampingVus {
            start: 3,
            stages: vec![Stage { name: None, to: 20, over: second }],
            graceful_ramp_down: second,
        },
        Executor::ConstantArrivalRate {
            rate: rate(7),
            duration: second,
            vus: Some(4),
            max_vus: Some(9),
        },
        Executor::RampingArrivalRate {
            start: rate(1),
            stages: vec![Stage { name: None, to: rate(1000), over: second }],
            vus: Some(1),
            max_vus: Some(1),
        },
    ];
    let load = |executor| Load {
        executor,
        start_after: Duration::ZERO,
        graceful_stop: second,
        warmup: None,
        pacing: None,
    };
    executors.map(load).to_vec()
}

/// What can be added up: virtual users, iterations, and rates in events per 2,520 seconds.
fn amounts(load: &Load) -> Vec<u128> {
    let rate = |rate: Rate| {
        let scaled = u128::from(rate.events) * 2_520_000_000_000;
        assert_eq!(scaled % rate.per.as_nanos(), 0, "{rate:?}");
        scaled / rate.per.as_nanos()
    };
    match &load.executor {
        Executor::ConstantVus { vus, .. } | Executor::PerVuIterations { vus, .. } => {
            vec![u128::from(*vus)]
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            vec![u128::from(*vus), u128::from(*iterations)]
        }
        Executor::RampingVus { start, stages, .. } => {
            vec![u128::from(*start), u128::from(stages[0].to)]
        }
        Executor::ConstantArrivalRate { rate: r, vus, max_vus, .. } => {
            vec![rate(*r), u128::from(vus.unwrap_or(0)), u128::from(max_vus.unwrap_or(0))]
        }
        Executor::RampingArrivalRate { start, stages, .. } => {
            vec![rate(*start), rate(stages[0].to)]
        }
    }
}

#[test]
fn the_parts_of_every_load_add_up_to_the_whole() {
    for sequence in SEQUENCES {
        for load in loads() {
            let mut sums = vec![0; amounts(&load).len()];
            for part in all_parts(sequence) {
                // Work without anybody to do it would be lost.
                if let Some(part) = cut(&load, &part).expect("small numbers") {
                    for (sum, amount) in sums.iter_mut().zip(amounts(&part)) {
                        *sum += amount;
                    }
                }
            }
            assert_eq!(sums, amounts(&load), "{sequence}: {load:?}");
        }
    }
}

#[test]
fn a_part_without_virtual_users_is_not_run() {
    let resolved = accepted(r#"{"executionSegment": "1/2:1", "vus": 1, "iterations": 5}"#);
    assert_eq!(resolved.scenarios, []);
    // Its users may come later.
    let resolved = accepted(
        r#"{"executionSegment": "1/2:1", "scenarios": {"a": {"executor": "externally-controlled",
            "vus": 1, "maxVUs": 7, "duration": "1s"}}}"#,
    );
    assert_eq!(resolved.scenarios[0].vus_max, 3);
}

#[test]
fn a_segment_must_be_in_its_sequence() {
    let error =
        refused(r#"{"executionSegment": "0:1/2", "executionSegmentSequence": "0,1/3,2/3,1"}"#);
    assert!(error.contains("the segment 0:1/2 is not in the sequence 0,1/3,2/3,1"), "{error}");
    assert!(refused(r#"{"executionSegmentSequence": "0,1/2,1"}"#).contains("the segment 0:1 is"));
    assert!(refused(r#"{"executionSegment": "0.1234567"}"#).contains("are not supported"));
    accepted(r#"{"executionSegment": "0:1/2", "executionSegmentSequence": "0,1/2"}"#);
}
