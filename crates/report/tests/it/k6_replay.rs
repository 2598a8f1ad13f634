//! Results against the reference: what k6 measured in a run is counted here, and must give the
//! summaries that k6 gave of that run, to the letter; written here, the files that k6 wrote.
//!
//! A case is a folder in `tests/k6`, named after the summary mode: the samples that k6 wrote
//! (`--out json`, `csv`), what it printed, the object its `handleSummary` got, and its summary
//! export.
//! `K6_CASES=folder` runs the test on other cases too; `tests/k6/record` makes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use report::k6::{Results, SummaryMode, SummaryOptions};
use report::outputs::{Format, SeriesFileOptions, SeriesWriter, Target};
use serde_json::Value;
use stats::series::{
    Contains, MetricKind, SampleTags, SeriesLayout, SeriesSample, SeriesWindow, ThresholdSpec,
    Thresholds, builtin,
};

struct Case {
    layout: SeriesLayout,
    total: SeriesWindow,
    options: SummaryOptions,
    duration: Duration,
    data: Value,
}

impl Case {
    fn read(folder: &Path, sections: bool) -> Case {
        let data: Value = parse(&read(folder, "data.json"));
        let points = read(folder, "points.jsonl");
        let lines: Vec<Value> = points.lines().map(parse).collect();
        let mut layout = SeriesLayout::new();
        layout.set_sections(sections);
        for line in lines.iter().filter(|line| line["type"] == "Metric") {
            let name = text(&line["data"]["name"]);
            let (kind, contains) = kind(&line["data"]);
            layout.metric(name, kind, contains).unwrap();
        }
        // Metrics without a sample are known from the summary alone.
        let metrics = data["metrics"].as_object().unwrap();
        for (key, metric) in metrics.iter().filter(|(key, _)| !key.contains('{')) {
            let (kind, contains) = kind(metric);
            layout.metric(key, kind, contains).unwrap();
        }
        for (key, metric) in metrics {
            let texts = metric["thresholds"].as_object();
            let mut specs: Vec<_> =
                texts.into_iter().flatten().map(|(text, _)| spec(text)).collect();
            // The summary has lost their order.
            if let Some(line) = lines.iter().find(|line| line["data"]["name"] == **key) {
                let texts = line["data"]["thresholds"].as_array().unwrap();
                specs = texts.iter().map(spec_of).collect();
            }
            if key.contains('{') && !key.contains("{expected_response:true}") || !specs.is_empty() {
                layout.threshold(key, &specs).unwrap();
            }
        }
        let mut total = SeriesWindow::new(&layout);
        for line in lines.iter().filter(|line| line["type"] == "Point") {
            record(&mut total, &layout, line);
        }
        let labels = data["options"]["summaryTrendStats"].as_array().unwrap();
        let options = SummaryOptions {
            trend_stats: labels.iter().map(|label| text(label).parse().unwrap()).collect(),
            time_unit: text(&data["options"]["summaryTimeUnit"]).parse().ok(),
            stdout_is_terminal: data["state"]["isStdOutTTY"] == true,
            stderr_is_terminal: data["state"]["isStdErrTTY"] == true,
            ..SummaryOptions::default()
        };
        let ms = data["state"]["testRunDurationMs"].as_f64().unwrap();
        let duration = Duration::from_nanos((ms * 1e6).round() as u64);
        Case { layout, total, options, duration, data }
    }
}

fn record(total: &mut SeriesWindow, layout: &SeriesLayout, line: &Value) {
    let point = &line["data"];
    let pairs = point["tags"].as_object().into_iter().flatten();
    let pairs: Vec<(&str, &str)> = pairs.map(|(tag, value)| (&**tag, text(value))).collect();
    let tags = SampleTags::new(pairs.iter().copied(), []);
    let tag = |name: &str| pairs.iter().find(|(tag, _)| *tag == name).map(|(_, value)| *value);
    let metric = layout.find(text(&line["metric"])).unwrap();
    let value = point["value"].as_f64().unwrap();
    let at_ns = nanoseconds(text(&point["time"]));
    if metric == builtin::CHECKS {
        let (group, check) = (tag("group").unwrap(), tag("check").unwrap());
        total.check(layout, group, check, value != 0.0, at_ns, &tags);
        return;
    }
    if metric == builtin::GROUP_DURATION {
        // The sample is made at the end of a group, but it was entered before.
        let entered = at_ns - (value * 1e6) as u64;
        total.group(layout, tag("group").unwrap(), entered, &tags);
    }
    total.record(layout, metric, value, at_ns, &tags);
}

/// Since 1970: `2026-11-16T03:20:43.736351745Z`.
fn nanoseconds(time: &str) -> u64 {
    let (second, fraction) = time.trim_end_matches('Z').split_once('.').unwrap_or((time, ""));
    let second = second.trim_end_matches('Z');
    // Text of this form sorts as time does.
    let written = |unix: u64| stats::time::rfc3339_ms(unix * 1000)[..second.len()].to_owned();
    let (mut low, mut high) = (0, 1 << 33);
    while low < high {
        let middle = (low + high) / 2;
        if *written(middle) < *second { low = middle + 1 } else { high = middle }
    }
    low * 1_000_000_000 + format!("{fraction:0<9}").parse::<u64>().unwrap()
}

fn kind(metric: &Value) -> (MetricKind, Contains) {
    let kinds = [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend];
    let kind = kinds.into_iter().find(|kind| stats::series::kind_name(*kind) == metric["type"]);
    let contains = [Contains::Default, Contains::Time, Contains::Data];
    let contains = contains.into_iter().find(|known| known.name() == metric["contains"]);
    (kind.unwrap(), contains.unwrap())
}

fn spec(text: &str) -> ThresholdSpec {
    let (text, delay_abort_eval) = (text.to_owned(), Duration::ZERO);
    ThresholdSpec { text, abort_on_fail: false, delay_abort_eval }
}

/// A text, or an object for thresholds that abort; delays of the cases are whole seconds.
fn spec_of(known: &Value) -> ThresholdSpec {
    if let Some(text) = known.as_str() {
        return spec(text);
    }
    let delay = known["delayAbortEval"].as_str().unwrap_or("0s").trim_end_matches('s');
    let delay_abort_eval = Duration::from_secs(delay.parse().unwrap());
    ThresholdSpec { abort_on_fail: true, delay_abort_eval, ..spec(text(&known["threshold"])) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn read(folder: &Path, file: &str) -> String {
    let path = folder.join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(folder: &Path) {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let mode: SummaryMode = name.split('-').next().unwrap().parse().unwrap();
    let case = Case::read(folder, mode == SummaryMode::Full);
    let thresholds = Thresholds::new(&case.layout);
    let outcomes = thresholds.finish(&case.layout, &case.total, case.duration);
    let results = Results {
        layout: &case.layout,
        total: &case.total,
        outcomes: &outcomes,
        duration: case.duration,
        options: &case.options,
    };
    let (ours, theirs) = (results.text(mode), read(folder, "summary.txt"));
    for (number, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(ours, theirs, "{name}: line {}", number + 1);
    }
    assert_eq!(ours, theirs, "{name}");
    same(&results.data(), &case.data, &format!("{name}: data"));
    let export = read(folder, "export.json");
    same(&parse(&results.export()), &parse(&export), &format!("{name}: export"));
}

/// Equal but for the last bits of fractions, and the order of keys, which k6 leaves to chance.
fn same(ours: &Value, theirs: &Value, place: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut keys: [Vec<&String>; 2] = [ours.keys().collect(), theirs.keys().collect()];
            keys.iter_mut().for_each(|keys| keys.sort());
            assert_eq!(keys[0], keys[1], "{place}");
            ours.iter()
                .for_each(|(key, value)| same(value, &theirs[key], &format!("{place}.{key}")));
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{place}");
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.for_each(|(at, (ours, theirs))| same(ours, theirs, &format!("{place}[{at}]")));
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= b.abs() * 1e-12, "{place}: {a} instead of {b}");
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

/// All cases, and how many there are.
fn for_each_case(check: fn(&Path)) {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/k6")];
    folders.extend(std::env::var_os("K6_CASES").map(Into::into));
    let cases = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let cases = cases.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let count = cases.map(|case| check(&case)).count();
    assert!(count >= 3, "{count} cases");
}

#[test]
fn summaries_are_those_of_the_reference() {
    for_each_case(check);
}

#[test]
fn files_are_those_of_the_reference() {
    for_each_case(check_files);
}

fn check_files(folder: &Path) {
    let case = Case::read(folder, false);
    let theirs = read(folder, "points.jsonl");
    let samples: Vec<SeriesSample> = theirs
        .lines()
        .map(parse)
        .filter(|line| line["type"] == "Point")
        .map(|line| sample(&case.layout, &line))
        .collect();
    let written = tempfile::tempdir().unwrap();
    let target = |format, name: &str| Target { format, path: written.path().join(name) };
    let targets = [target(Format::Json, "points.jsonl"), target(Format::Csv, "points.csv")];
    let options = SeriesFileOptions {
        system_tags: columns(&read(folder, "points.csv")),
        ..SeriesFileOptions::default()
    };
    let writer = SeriesWriter::start(&targets, Arc::new(case.layout), &options).unwrap().unwrap();
    assert!(writer.sink()(samples));
    assert_eq!(writer.finish().notes, [""; 0]);
    let name = folder.display();
    let ours = read(written.path(), "points.jsonl");
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{name}");
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        // k6 leaves the order of sub-metrics and of metadata to chance.
        if ours != theirs {
            same(&unordered(parse(ours)), &unordered(parse(theirs)), &format!("{name}: {theirs}"));
        }
    }
    let [ours, theirs] =
        [written.path(), folder].map(|folder| csv_rows(&read(folder, "points.csv")));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
}

fn sample(layout: &SeriesLayout, line: &Value) -> SeriesSample {
    let pairs = |field: &str| {
        let pairs = line["data"][field].as_object().into_iter().flatten();
        pairs.map(|(tag, value)| (tag.as_str(), text(value))).collect::<Vec<_>>()
    };
    SeriesSample {
        at_unix_ns: nanoseconds(text(&line["data"]["time"])),
        metric: layout.find(text(&line["metric"])).unwrap(),
        value: line["data"]["value"].as_f64().unwrap(),
        tags: Arc::new(SampleTags::new(pairs("tags"), pairs("metadata"))),
    }
}

fn unordered(mut line: Value) -> Value {
    if let Some(subs) = line["data"]["submetrics"].as_array_mut() {
        subs.sort_by_key(|sub| sub["name"].to_string());
    }
    line
}

/// The system tags among the columns.
fn columns(csv: &str) -> Vec<String> {
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    head[3..head.len() - 2].iter().map(|name| (*name).to_owned()).collect()
}

/// Rows, the parts of the last two fields sorted: k6 leaves their order to chance.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let sorted = |field: &str| {
        let mut parts: Vec<&str> = field.split('&').collect();
        parts.sort_unstable();
        parts.join("&")
    };
    let row = |record: csv::StringRecord| {
        let last_two = record.len() - 2;
        let fields = record.iter().enumerate();
        fields.map(|(at, field)| if at < last_two { field.into() } else { sorted(field) }).collect()
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

#[test]
fn names_from_a_script_cannot_command_the_terminal() {
    let mut layout = SeriesLayout::new();
    layout.set_sections(true);
    layout.threshold("http_reqs{name:\x1b[2J}", &[spec("count>0")]).unwrap();
    let mut total = SeriesWindow::new(&layout);
    let tags = [("scenario", "s\x1b]0;x\x07"), ("group", "::g\x1b[1m")];
    total.group(&layout, "::g\x1b[1m", 0, &tags);
    total.check(&layout, "::g\x1b[1m", "c\x1b[31m", false, 1, &tags);
    let duration = Duration::from_secs(1);
    let outcomes = Thresholds::new(&layout).finish(&layout, &total, duration);
    let options = SummaryOptions::default();
    let (layout, total, outcomes) = (&layout, &total, &*outcomes);
    let results = Results { layout, total, outcomes, duration, options: &options };
    for mode in SummaryMode::ALL {
        let text = results.text(mode);
        assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
        assert!(text.contains("✗ c\u{fffd}[31m"), "{text}");
    }
}
