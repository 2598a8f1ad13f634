//! Threshold conditions: `p(95) < 200ms`, `rate > 99%`, `count > 100`; k6's `p(95)<200` too.
//!
//! What the right side means depends on the metric: a bare number is milliseconds for a time, a
//! share from 0 to 1 for a rate metric, events per second for the `rate` of a counter.

use crate::model::{Aggregation, Comparison, Hold, MetricKind};
use crate::tree::shorten;
use crate::units::{self, Wrong};

/// What a metric measures, as far as conditions care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    pub kind: MetricKind,
    /// A trend of times.
    pub time: bool,
    /// Whether it is counted per step, and so can be selected by `step`.
    pub per_step: bool,
}

/// The metrics that every run has, named as in k6; `latency` is measured from the intended start.
pub const BUILT_IN: [(&str, Measure); 18] = {
    use MetricKind::{Counter, Gauge, Rate, Trend};
    const fn of(kind: MetricKind, time: bool, per_step: bool) -> Measure {
        Measure { kind, time, per_step }
    }
    [
        ("http_reqs", of(Counter, false, true)),
        ("http_req_duration", of(Trend, true, true)),
        ("http_req_failed", of(Rate, false, true)),
        ("http_req_blocked", of(Trend, true, true)),
        ("http_req_connecting", of(Trend, true, true)),
        ("http_req_tls_handshaking", of(Trend, true, true)),
        ("http_req_sending", of(Trend, true, true)),
        ("http_req_waiting", of(Trend, true, true)),
        ("http_req_receiving", of(Trend, true, true)),
        ("latency", of(Trend, true, true)),
        ("iterations", of(Counter, false, false)),
        ("iteration_duration", of(Trend, true, false)),
        ("dropped_iterations", of(Counter, false, false)),
        ("vus", of(Gauge, false, false)),
        ("vus_max", of(Gauge, false, false)),
        ("checks", of(Rate, false, true)),
        ("data_sent", of(Counter, false, true)),
        ("data_received", of(Counter, false, true)),
    ]
};

/// Reads a condition; `measure` is `None` if the metric is unknown, which is reported elsewhere.
pub fn parse(text: &str, measure: Option<Measure>) -> Result<Hold, Wrong> {
    let example = "write `p(95) < 200ms`, `rate > 99%` or `count > 100`";
    let wrong = || Wrong::new(format!("`{}` is not a condition", shorten(text)), example);
    if let Some(word) = ["&&", "||", " and ", " or "].into_iter().find(|word| text.contains(word)) {
        let message = format!("`hold` takes one condition, and `{}` joins two", word.trim());
        let first = text.split(word).next().unwrap_or_default().trim();
        let help = match word.trim() {
            "&&" | "and" => format!(
                "make two thresholds of the metric, one of them with `hold: {}`; all must hold",
                shorten(first)
            ),
            _ => "thresholds must all hold; there is no `or`. Keep the one that matters".to_owned(),
        };
        return Err(Wrong::new(message, help));
    }
    let at = text.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
    let (name, rest) = text.split_at(at);
    let (op, value) = units::comparison(rest).ok_or_else(wrong)?;
    let aggregation = aggregation(name.trim())?;
    if let Some(measure) = measure {
        fits(aggregation, measure.kind)?;
    }
    let limit = limit(value, aggregation, measure)?;
    // `rate < 1` of failures holds unless everything fails; one percent was meant.
    let below = matches!(op, Comparison::Less | Comparison::LessOrEqual);
    let is_share = measure.is_some_and(|measure| measure.kind == MetricKind::Rate);
    if is_share && below && limit == 1.0 && !value.contains('%') {
        let message = format!("`{}` is read as 100%: a share is from 0 to 1", shorten(value));
        return Err(Wrong::new(message, "write `1%`, or `100%` if all of them are meant"));
    }
    Ok(Hold { aggregation, op, value: limit })
}

fn aggregation(name: &str) -> Result<Aggregation, Wrong> {
    let all = "avg, min, med, max, p(N), rate, count and value";
    let unknown = || {
        let message = format!("unknown aggregation `{}`", shorten(name));
        Wrong::new(message, format!("there are {all}"))
    };
    Ok(match name.to_ascii_lowercase().as_str() {
        "avg" | "mean" => Aggregation::Avg,
        "min" => Aggregation::Min,
        "med" | "median" => Aggregation::Med,
        "max" => Aggregation::Max,
        "rate" => Aggregation::Rate,
        "count" => Aggregation::Count,
        "value" => Aggregation::Value,
        other => {
            let inner = other.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')'));
            let short = other.strip_prefix('p').filter(|rest| !rest.starts_with('('));
            let percent = units::number(inner.or(short).ok_or_else(unknown)?);
            let percent = percent.ok_or_else(unknown)?;
            if !(0.0..=100.0).contains(&percent) {
                let message = format!("there is no percentile {percent}");
                return Err(Wrong::new(message, "percentiles are from 0 to 100: p(99.9)"));
            }
            // A quantile, as Prometheus and numpy have them: it would hardly ever fail.
            if percent > 0.0 && percent < 1.0 {
                let message =
                    format!("`p({percent})` is the {percent}th percentile, nearly the minimum");
                let meant = (percent * 1e8).round() / 1e6;
                let help = format!("write `p({meant})`; the smallest value is `min`");
                return Err(Wrong::new(message, help));
            }
            Aggregation::Percentile(percent)
        }
    })
}

/// k6's table of what each kind of metric can answer.
fn fits(aggregation: Aggregation, kind: MetricKind) -> Result<(), Wrong> {
    use Aggregation::{Avg, Count, Max, Med, Min, Percentile, Rate, Value};
    let (name, allowed, fits) = match kind {
        MetricKind::Counter => {
            ("a counter", "`count` and `rate`", matches!(aggregation, Count | Rate))
        }
        MetricKind::Gauge => ("a gauge", "`value`", matches!(aggregation, Value)),
        MetricKind::Rate => ("a rate", "`rate`", matches!(aggregation, Rate)),
        MetricKind::Trend => (
            "a trend",
            "`avg`, `min`, `med`, `max` and `p(N)`",
            matches!(aggregation, Avg | Min | Med | Max | Percentile(_)),
        ),
    };
    if fits {
        return Ok(());
    }
    let message = format!("the metric is {name} and has no `{}`", describe(aggregation));
    Err(Wrong::new(message, format!("it has {allowed}")))
}

fn describe(aggregation: Aggregation) -> String {
    match aggregation {
        Aggregation::Percentile(percent) => format!("p({percent})"),
        Aggregation::Avg => "avg".into(),
        Aggregation::Min => "min".into(),
        Aggregation::Med => "med".into(),
        Aggregation::Max => "max".into(),
        Aggregation::Rate => "rate".into(),
        Aggregation::Count => "count".into(),
        Aggregation::Value => "value".into(),
    }
}

fn limit(text: &str, aggregation: Aggregation, measure: Option<Measure>) -> Result<f64, Wrong> {
    let wrong = |help: &str| Wrong::new(format!("`{}` is not a limit", shorten(text)), help);
    let plain = units::number(text);
    let Some(Measure { kind, time, .. }) = measure else {
        return Ok(plain.unwrap_or_default());
    };
    match (kind, aggregation) {
        (MetricKind::Trend, _) if time => match plain {
            // Seconds, most likely; a limit below a millisecond is written with its unit.
            Some(number) if number > 0.0 && number < 1.0 => {
                let message =
                    format!("`{}` has no unit, and is read as milliseconds", shorten(text));
                Err(Wrong::new(message, format!("write `{number}s` or `{number}ms`")))
            }
            Some(milliseconds) => Ok(milliseconds),
            None => units::duration(text).map(|limit| limit.as_secs_f64() * 1000.0),
        },
        (MetricKind::Rate, _) => {
            let share = units::fraction(text)?;
            if (0.0..=1.0).contains(&share) {
                return Ok(share);
            }
            Err(wrong("a share is from 0 to 1, or from 0% to 100%"))
        }
        (MetricKind::Counter, Aggregation::Rate) => match plain {
            Some(per_second) => Ok(per_second),
            None => {
                let rate = units::rate(text).map_err(|_| wrong("write `rate > 100/s`"))?;
                Ok(rate.events as f64 / rate.per.as_secs_f64())
            }
        },
        _ => match plain {
            Some(number) => Ok(number),
            None => units::size(text).map(|size| size as f64).map_err(|_| wrong("write a number")),
        },
    }
}

mod always;

pub use always::always;

#[cfg(test)]
mod tests;
