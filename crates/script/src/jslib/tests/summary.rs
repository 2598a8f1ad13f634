//! The summary as text, against k6's own, and as JUnit XML.

use super::{run_with, value_of};

/// The data and the text come from one run of k6 v1.1.0 with `--summary-mode=legacy` on a terminal.
/// The library writes rates in an older way than k6 does, so those are compared up to the value.
#[test]
fn the_text_summary_is_k6s() {
    let data = include_str!("summary.json");
    let expected = include_str!("summary.txt");
    let strip = |text: &str| {
        let mut plain = String::new();
        for (i, part) in text.split('\x1b').enumerate() {
            plain.push_str(if i == 0 { part } else { part.split_once('m').expect("a color").1 });
        }
        plain
    };
    for colors in [true, false] {
        let text = run_with(
            &format!(
                "answer(summary.textSummary(JSON.parse(given), {{ indent: ' ', enableColors: {colors} }}))"
            ),
            data,
        );
        let expected = if colors { expected.to_string() } else { strip(expected) };
        let expected = expected.trim_start_matches('\n').trim_end_matches('\n');
        let lines: Vec<_> = text.lines().collect();
        let expected_lines: Vec<_> = expected.lines().collect();
        assert_eq!(lines.len(), expected_lines.len(), "{text}");
        for (line, expected) in lines.iter().zip(expected_lines) {
            let is_rate = expected.contains(" out of ");
            let compared = |line: &str| {
                let end = if is_rate { line.find('%').expect("a rate") } else { line.len() };
                line[..end].to_string()
            };
            assert_eq!(compared(line), compared(expected));
        }
    }
    let rates = run_with(
        "answer(summary.textSummary(JSON.parse(given), { indent: '', enableColors: false })
            .split('\\n').filter((line) => line.includes('%  ')).join('\\n'))",
        data,
    );
    assert_eq!(
        rates,
        "  ✓ checks.........................: 57.14%   ✓ 16          ✗ 12        \n\
         \x20 ✗ hits...........................: 57.14%   ✓ 4           ✗ 3         \n\
         \x20   http_req_failed................: 0.00%    ✓ 0           ✗ 7         "
    );
}

#[test]
fn summary_values_are_readable() {
    let time = "{ type: 'trend', contains: 'time' }";
    let data = "{ type: 'counter', contains: 'data' }";
    let rate = "{ type: 'rate', contains: 'default' }";
    let mut expressions = Vec::new();
    for (value, metric, unit, expected) in [
        ("0", time, "''", "0s"),
        ("0.0123456", time, "''", "12.34µs"),
        ("61999", time, "''", "1m1s"),
        ("12.345", time, "'us'", "12345.00µs"),
        ("12.345", time, "'s'", "0.01s"),
        ("0", data, "''", "0 B"),
        ("522", data, "''", "522 B"),
        ("9234", data, "''", "9.2 kB"),
        ("12345678", data, "''", "12 MB"),
        ("0.57149", rate, "''", "57.14%"),
        ("1/3", "{ type: 'gauge', contains: 'default' }", "''", "0.333333"),
    ] {
        expressions.push((format!("summary.humanizeValue({value}, {metric}, {unit})"), expected));
    }
    for (expression, expected) in expressions {
        assert_eq!(value_of(&expression), expected, "{expression}");
    }
    let stats = value_of(
        "summary.textSummary({ metrics: { t: { type: 'trend', contains: 'time', values: { 'p(99)': 1, count: 2 } } },
            options: { summaryTrendStats: ['avg'], summaryTimeUnit: 'ms' } },
            { enableColors: false, summaryTrendStats: ['p(99)', 'count'], summaryTimeUnit: 's' })",
    );
    assert_eq!(stats, "     t...: p(99)=0.00s count=2");
}

#[test]
fn the_junit_summary_has_a_case_for_each_threshold() {
    let xml = run_with(
        "answer(summary.jUnit(JSON.parse(given), { name: 'a \"b\" <c>', classname: 'load' }))",
        include_str!("summary.json"),
    );
    let lines: Vec<_> = xml.lines().collect();
    assert_eq!(lines[0], r#"<?xml version="1.0"?>"#);
    assert_eq!(lines[1], r#"<testsuites tests="6" failures="3">"#);
    assert_eq!(lines[2], r#"<testsuite name="a &quot;b&quot; &lt;c&gt;" tests="6" failures="3">"#);
    assert!(
        lines.contains(&r#"<testcase name="checks - rate&gt;0.5" classname="load" />"#),
        "{xml}"
    );
    assert!(
        lines.contains(
            &"<testcase name=\"orders - count&lt;5\" classname=\"load\">\
              <failure message=\"failed: count=21\" /></testcase>"
        ),
        "{xml}"
    );
    assert_eq!(lines[lines.len() - 2..], ["</testsuite>", "</testsuites>"]);
    let named = value_of("summary.jUnit({ metrics: {} })");
    assert!(
        named.contains(r#"<testsuite name="k6 thresholds" tests="0" failures="0">"#),
        "{named}"
    );
}
