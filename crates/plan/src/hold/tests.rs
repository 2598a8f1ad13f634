use super::*;

fn measure(metric: &str) -> Option<Measure> {
    BUILT_IN.iter().find(|(name, _)| *name == metric).map(|(_, measure)| *measure)
}

fn check(metric: &str, condition: &str, expect: &str) {
    let shown = match parse(condition, measure(metric)) {
        Ok(hold) => {
            format!("{} {} {}", describe(hold.aggregation), hold.op.symbol(), hold.value)
        }
        Err(wrong) => format!("error: {}", wrong.message),
    };
    assert_eq!(shown, expect, "{metric} {condition}");
}

#[test]
fn conditions_are_read_in_our_spelling_and_in_k6s() {
    for (metric, condition, expect) in [
        ("http_req_duration", "p(95) < 200ms", "p(95) < 200"),
        ("http_req_duration", "p(95)<200", "p(95) < 200"),
        ("http_req_duration", "p(99.9) <= 1.5s", "p(99.9) <= 1500"),
        ("http_req_duration", "p95 < 200ms", "p(95) < 200"),
        ("http_req_duration", "avg < 1s", "avg < 1000"),
        ("latency", "med<100", "med < 100"),
        ("checks", "rate > 99%", "rate > 0.99"),
        ("http_req_failed", "rate<0.01", "rate < 0.01"),
        ("http_reqs", "count > 100", "count > 100"),
        ("http_reqs", "rate > 100/s", "rate > 100"),
        ("http_reqs", "rate > 90/m", "rate > 1.5"),
        ("data_received", "count < 10MB", "count < 10000000"),
        ("vus", "value > 3", "value > 3"),
    ] {
        check(metric, condition, expect);
    }
}

#[test]
fn a_metric_answers_only_what_its_kind_can() {
    for (metric, condition, expect) in [
        ("http_req_duration", "rate < 200", "error: the metric is a trend and has no `rate`"),
        ("http_req_duration", "count > 1", "error: the metric is a trend and has no `count`"),
        ("http_reqs", "p(95) < 200", "error: the metric is a counter and has no `p(95)`"),
        ("checks", "count > 1", "error: the metric is a rate and has no `count`"),
        ("vus", "max > 1", "error: the metric is a gauge and has no `max`"),
    ] {
        check(metric, condition, expect);
    }
}

#[test]
fn bad_conditions_are_refused() {
    for (metric, condition, expect) in [
        ("checks", "rate", "error: `rate` is not a condition"),
        ("checks", "", "error: `` is not a condition"),
        ("checks", "rat > 99%", "error: unknown aggregation `rat`"),
        ("checks", "rate > 120%", "error: `120%` is not a limit"),
        ("http_req_duration", "p(101) < 1s", "error: there is no percentile 101"),
        ("http_req_duration", "p(95) < soon", "error: `soon` is not a time"),
        ("http_reqs", "count > lots", "error: `lots` is not a limit"),
    ] {
        check(metric, condition, expect);
    }
}
