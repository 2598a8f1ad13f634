//! The record and the report: whole, harmless, small, and with the numbers of the summary.

use std::time::{Duration, Instant};

use crate::fake;
use report::{About, Record, RecordError, Summary, html};
use serde_json::Value;
use stats::history::{History, TickFacts};
use stats::{RunResult, StepLayout, Window};

fn about() -> About {
    About { version: "0.0.0".to_owned(), file: Some("plan.yaml".to_owned()), ..About::default() }
}

fn record(result: &RunResult) -> Record {
    Record::new(result, &about())
}

/// Markup without what the script and the style say.
fn markup(page: &str) -> String {
    let body = page.find("<body>").unwrap();
    let end = page.find("<script type").unwrap();
    page[body..end].to_owned()
}

#[test]
fn a_record_holds_the_summary_as_it_is_and_is_read_as_it_was_written() {
    let result = fake::bad();
    let written = record(&result);
    let read = Record::from_bytes(written.bytes()).unwrap();
    let summary: Value = serde_json::from_str(&Summary::new(&result).to_json()).unwrap();
    assert_eq!(read.document()["summary"], summary);
    assert_eq!(read.document()["schema"], "volley.run/1");
    assert_eq!(read.bytes(), written.bytes());
    assert_eq!(
        html::page(&read),
        html::page(&written),
        "a report does not depend on when it is made"
    );
}

#[test]
fn every_field_of_a_record_is_present() {
    let record = record(&fake::good());
    for field in [
        "/schema",
        "/volley/version",
        "/machine/system",
        "/machine/architecture",
        "/machine/cores",
        "/kind",
        "/file",
        "/job",
        "/plan",
        "/summary/schema",
        "/history/scale",
        "/history/buckets_per_octave",
        "/history/unit",
        "/history/relative_error",
        "/history/ticks_per_slot",
        "/history/at_s/0",
        "/history/over_s/0",
        "/history/vus/0",
        "/history/iterations/0",
        "/history/iterations_interrupted/0",
        "/history/dropped",
        "/history/checks_passed/0",
        "/history/checks_failed/0",
        "/history/cores_busy/0",
        "/history/loop_lag_max_ms/0",
        "/history/thresholds/0",
        "/history/rows/0/step",
        "/history/rows/0/tags",
        "/history/rows/0/requests/0",
        "/history/rows/0/failed/0",
        "/history/rows/0/max_ms/0",
        "/history/rows/0/sum_ms/0",
        "/history/rows/0/latency/0",
        "/history/rows/0/data_sent/0",
        "/history/rows/0/data_received/0",
        "/history/rows/0/status",
        "/history/rows/0/errors",
        "/history/metrics",
        "/histograms/relative_error",
        "/histograms/parts/0/step",
        "/histograms/parts/0/stage",
        "/histograms/parts/0/latency/buckets",
        "/histograms/parts/0/service/count",
    ] {
        assert!(record.document().pointer(field).is_some(), "{field} is missing");
    }
}

#[test]
fn sums_over_the_history_are_those_of_the_summary() {
    let record = record(&fake::bad());
    let document = record.document();
    let mut requests = 0;
    for row in
        document["history"]["rows"].as_array().unwrap().iter().filter(|row| row["tags"].is_null())
    {
        let sum: u64 =
            row["requests"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        requests += sum;
    }
    let points = document["summary"]["history"].as_array().unwrap();
    let shown: u64 = points.iter().map(|point| point["requests"].as_u64().unwrap()).sum();
    assert_eq!(requests, shown);
    assert!(requests > 0);
}

#[test]
fn what_is_no_record_is_refused_by_name() {
    let whole = record(&fake::good()).bytes().to_vec();
    let error = |bytes: &[u8]| Record::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(b""), RecordError::NotARecord));
    assert!(matches!(error(b"{\"schema\":\"volley.summary/1\"}"), RecordError::NotARecord));
    for cut in [whole.len() / 3, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        assert!(matches!(error(&whole[..cut]), RecordError::Cut), "{cut}");
    }
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    assert!(matches!(error(&damaged), RecordError::Cut));
    let packed = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    assert!(matches!(error(&packed("hello")), RecordError::NotARecord));
    let later = error(&packed("{\"schema\":\"volley.run/2\",\"summary\":{}}"));
    assert!(later.to_string().contains("volley.run/2"), "{later}");
    assert!(later.to_string().contains("upgrade"), "{later}");
}

#[test]
fn the_page_is_complete_without_its_script() {
    let result = fake::bad();
    let page = html::page(&record(&result));
    let markup = markup(&page);
    for word in [
        "Failed",
        "measurement",
        "Thresholds",
        "p(95) &lt; 200ms",
        "Steps",
        "Errors",
        "Timeline",
        "Load generator",
    ] {
        assert!(markup.contains(word), "{word} is missing");
    }
    assert_eq!(markup.matches("<svg").count(), 3, "rate, percentiles, heatmap");
    assert!(!markup.contains("style="), "a strict policy forbids styles in attributes");
    for reason in &result.verdict.reasons {
        assert!(markup.contains(&reason.replace('\'', "&#39;")), "{reason}");
    }
    let summary = Summary::new(&result);
    assert!(markup.contains(&report::format::count(summary.requests.requests.count)));
    assert!(markup.contains(&report::format::time_ms(summary.latency_ms.p99)));
}

#[test]
fn the_page_asks_for_nothing() {
    let page = html::page(&record(&fake::bad()));
    assert!(page.contains("default-src 'none'"));
    let markup = markup(&page);
    for asking in ["src=", "href=", "@import", "url(", "<link", "<iframe", "fetch("] {
        assert!(!markup.contains(asking), "{asking}");
    }
    assert!(!page.contains("https://fonts"));
}

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"' -->";

#[test]
fn hostile_names_stay_text() {
    let mut result = fake::bad();
    let mut layout = (*result.layout).clone();
    layout.steps.iter_mut().for_each(|step| {
        step.name = HOSTILE.to_owned();
        step.route = HOSTILE.to_owned();
    });
    result.layout = layout.into();
    result.plan = HOSTILE.to_owned();
    result.timeline[0].event = HOSTILE.to_owned();
    result.verdict.reasons.push(HOSTILE.to_owned());
    result.notes.push(HOSTILE.to_owned());
    result.thresholds[0].label = HOSTILE.to_owned();
    for sample in &mut result.error_samples {
        sample.message = HOSTILE.to_owned();
        sample.exchange = Some(HOSTILE.to_owned());
    }
    let page = html::page(&record(&result));
    assert!(!page.contains("<img"), "markup was made of a name");
    assert_eq!(page.matches("<script").count(), 2, "the record and the script of the page");
    assert_eq!(page.matches("</script").count(), 2);
    let kept = html::record_of(&page).unwrap();
    assert_eq!(kept["summary"]["plan"], HOSTILE, "the record has it as it was");
}

/// A run of so many steps, each with requests in every slot.
fn long(steps: usize, seconds: u64) -> RunResult {
    let mut result = fake::good();
    let mut layout = (*result.layout).clone();
    let one: StepLayout = layout.steps[0].clone();
    layout.steps = (0..steps)
        .map(|n| StepLayout { name: format!("step {n}"), workflow: 0, ..one.clone() })
        .collect();
    layout.checks.clear();
    layout.workflows.truncate(1);
    layout.stages.truncate(1);
    (layout.workflows[0].steps, layout.workflows[0].checks) = (0..steps, 0..0);
    layout.workflows[0].stages = 0..1;
    layout.metrics.clear();
    let mut history = History::new(&layout, None);
    let mut totals = Window::new(&layout);
    let slots = seconds.min(480);
    for slot in 0..slots {
        let mut window = Window::new(&layout);
        let block = window.block(&layout, 0);
        block.iterations = 20;
        for (number, step) in block.steps.iter_mut().enumerate() {
            for n in 0..120u64 {
                // A spread of three powers of two, and a tail.
                let noise = (n * 7919 + slot * 104_729 + number as u64 * 1_299_709) % 1000;
                let us = 2_000 + noise * 14 + if noise > 985 { noise * 90 } else { 0 };
                step.latency.record_ns(us * 1000);
                step.duration.record_ns(us * 1000);
            }
            (step.requests, step.sent, step.completed) = (120, 120, 120);
            step.bytes_received = 120 * (700 + slot);
            step.status.add(200, 120);
        }
        totals.merge(&window);
        let over_ns = seconds * 1_000_000_000 / slots;
        let facts =
            TickFacts { at_ns: (slot + 1) * over_ns, over_ns, vus: 20, ..TickFacts::default() };
        history.close_tick(&layout, &window, None, facts);
    }
    (result.history, result.totals) = (history, totals);
    result.elapsed = Duration::from_secs(seconds);
    result.layout = layout.into();
    result.error_samples.clear();
    result
}

#[test]
fn reports_stay_small_whatever_the_length_and_the_number_of_steps() {
    let empty = html::page(&record(&fake::good())).len();
    assert!(empty <= 150_000, "{empty}");
    for (steps, seconds, limit) in [(10, 3600, 700_000), (50, 86_400, 1_500_000)] {
        let result = long(steps, seconds);
        let begun = Instant::now();
        let page = html::page(&record(&result));
        eprintln!("{steps} steps, {seconds} s: {} bytes in {:?}", page.len(), begun.elapsed());
        assert!(page.len() <= limit, "{steps} steps over {seconds} s: {} bytes", page.len());
    }
}
