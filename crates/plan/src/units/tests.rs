use std::time::Duration;

use super::*;

/// Shows a result as text, so that one table serves for right and wrong input.
fn check<T: std::fmt::Debug>(parse: fn(&str) -> Result<T, Wrong>, input: &str, expect: &str) {
    let shown = match parse(input) {
        Ok(value) => format!("{value:?}"),
        Err(wrong) => format!("error: {}", wrong.message),
    };
    assert_eq!(shown, expect, "{input:?}");
}

#[test]
fn durations_have_units() {
    for (input, expect) in [
        ("100ms", "100ms"),
        ("1m30s", "90s"),
        ("1m 30s", "90s"),
        ("2h", "7200s"),
        ("1d", "86400s"),
        ("1.5s", "1.5s"),
        ("250us", "250µs"),
        ("250µs", "250µs"),
        ("0s", "0ns"),
        ("0", "0ns"),
        (" 10s ", "10s"),
        ("30", "error: the time `30` has no unit"),
        ("1.5", "error: the time `1.5` has no unit"),
        ("", "error: `` is not a time"),
        ("s", "error: `s` is not a time"),
        ("10 parsecs", "error: `10 parsecs` is not a time"),
        ("-5s", "error: `-5s` is not a time"),
        ("1..2s", "error: `1..2s` is not a time"),
        ("99999d", "error: the time `99999d` is longer than 1000 days"),
        ("99999999999999999999s", "error: `99999999999999999999s` is not a time"),
    ] {
        check(duration, input, expect);
    }
}

#[test]
fn a_time_without_unit_says_which_to_add() {
    let wrong = duration("30").unwrap_err();
    assert_eq!(wrong.help.unwrap(), "write `30s` for seconds, `30ms` for milliseconds");
}

#[test]
fn spans_have_two_bounds_or_one() {
    for (input, expect) in [
        ("100ms..300ms", "Span { min: 100ms, max: 300ms }"),
        ("1s", "Span { min: 1s, max: 1s }"),
        ("1..3s", "Span { min: 1s, max: 3s }"),
        ("500ms .. 1s", "Span { min: 500ms, max: 1s }"),
        ("3s..1s", "error: `3s..1s` ends before it begins"),
        ("1..3", "error: the time `1` has no unit"),
        ("..", "error: `` is not a time"),
    ] {
        check(span, input, expect);
    }
}

#[test]
fn rates_are_kept_exact() {
    for (input, expect) in [
        ("200/s", "Rate { events: 200, per: 1s }"),
        ("90/m", "Rate { events: 90, per: 60s }"),
        ("1000/500ms", "Rate { events: 1000, per: 500ms }"),
        ("0.5/s", "Rate { events: 5, per: 10s }"),
        ("1.25/s", "Rate { events: 125, per: 100s }"),
        ("0/s", "Rate { events: 0, per: 1s }"),
        ("10 / h", "Rate { events: 10, per: 3600s }"),
        ("200", "error: `200` is not a rate"),
        ("200/", "error: `200/` is not a rate"),
        ("200/0s", "error: `200/0s` is not a rate"),
        ("-1/s", "error: `-1/s` is not a rate"),
        ("many/s", "error: `many/s` is not a rate"),
        ("1.12345678/s", "error: `1.12345678/s` has more than six decimals"),
    ] {
        check(rate, input, expect);
    }
}

#[test]
fn sizes_are_bytes() {
    for (input, expect) in [
        ("512", "512"),
        ("512B", "512"),
        ("10KB", "10000"),
        ("10 KiB", "10240"),
        ("64MiB", "67108864"),
        ("1.5GB", "1500000000"),
        ("1 light-year", "error: `1 light-year` is not a size"),
    ] {
        check(size, input, expect);
    }
}

#[test]
fn shares_are_percentages_or_fractions() {
    for (input, expect) in
        [("99%", "0.99"), ("0.99", "0.99"), ("1 %", "0.01"), ("x", "error: `x` is not a share")]
    {
        check(fraction, input, expect);
    }
}

#[test]
fn statuses_are_codes_classes_and_ranges() {
    for (input, expect) in [
        ("200", "StatusRange { from: 200, to: 200 }"),
        ("2xx", "StatusRange { from: 200, to: 299 }"),
        ("4XX", "StatusRange { from: 400, to: 499 }"),
        ("200..299", "StatusRange { from: 200, to: 299 }"),
        ("99", "error: `99` is not a status"),
        ("9xx", "error: `9xx` is not a status"),
        ("299..200", "error: `299..200` is not a status"),
        ("ok", "error: `ok` is not a status"),
    ] {
        check(status, input, expect);
    }
}

#[test]
fn limits_have_an_operator() {
    check(duration_limit, "< 250ms", "(Less, 250ms)");
    check(duration_limit, "<=1s", "(LessOrEqual, 1s)");
    check(duration_limit, "250ms", "error: `250ms` is not a comparison");
    check(duration_limit, "< 250", "error: the time `250` has no unit");
    check(size_limit, "> 1KB", "(Greater, 1000)");
    check(number_limit, "== 3", "(Equal, 3.0)");
    check(number_limit, "!= -2.5", "(NotEqual, -2.5)");
    check(number_limit, "> inf", "error: `inf` is not a number");
}

#[test]
fn durations_of_a_second_and_more_are_exact() {
    assert_eq!(duration("0.1s").unwrap(), Duration::from_millis(100));
    assert_eq!(duration("1.000000001s").unwrap(), Duration::from_nanos(1_000_000_001));
}
