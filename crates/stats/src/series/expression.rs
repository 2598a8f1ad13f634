//! The two small grammars of a threshold: which metric, and what must hold.
//!
//! ```text
//! key:   name | name{tag:value,tag:value}       spaces and quotes around tag and value do not count
//! hold:  aggregation op number                  p(95) < 200
//! ```

use std::fmt;

use plan::{Aggregation, Comparison, Hold, MetricKind};

use super::kind_name;

/// Why a threshold cannot be used; says where, and what would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThresholdError {
    /// The key's braces or tags cannot be read.
    Key {
        key: String,
        reason: String,
    },
    UnknownMetric {
        key: String,
        name: String,
        nearest: Option<String>,
    },
    /// `part` is the piece of `text` that cannot be read; empty if something is missing.
    Expression {
        key: String,
        text: String,
        part: String,
        reason: String,
    },
    /// The metric's kind has no such aggregation.
    Aggregation {
        key: String,
        text: String,
        aggregation: String,
        kind: MetricKind,
    },
}

impl std::error::Error for ThresholdError {}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThresholdError::Key { key, reason } => {
                write!(f, "threshold on `{key}`: {reason}; write `metric{{tag:value,tag:value}}`")
            }
            ThresholdError::UnknownMetric { key, name, nearest } => {
                write!(f, "threshold on `{key}`: there is no metric `{name}`")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                    None => write!(f, "; make it in the init code, or use a built-in one"),
                }
            }
            ThresholdError::Expression { key, text, part, reason } => {
                write!(f, "threshold on `{key}`: {reason}\n    {text}")?;
                // A pointer helps only where the text is one plain line.
                match text.find(part.as_str()) {
                    Some(at) if !part.is_empty() && !text.chars().any(char::is_control) => {
                        let before = text[..at].chars().count();
                        let marks = "^".repeat(part.chars().count());
                        write!(f, "\n    {:before$}{marks}", "")
                    }
                    _ => Ok(()),
                }
            }
            ThresholdError::Aggregation { key, text, aggregation, kind } => {
                let (name, known) = (kind_name(*kind), known(*kind));
                write!(f, "threshold `{text}` on `{key}`: a {name} has no `{aggregation}`; ")?;
                write!(f, "it has {known}")
            }
        }
    }
}

/// What thresholds may ask of each kind.
fn known(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "`count` and `rate`",
        MetricKind::Gauge => "`value`",
        MetricKind::Rate => "`rate`",
        MetricKind::Trend => "`avg`, `min`, `max`, `med` and `p(N)`",
    }
}

pub(super) fn fits(kind: MetricKind, aggregation: Aggregation) -> bool {
    use Aggregation::{Avg, Count, Max, Med, Min, Percentile, Rate, Value};
    match kind {
        MetricKind::Counter => matches!(aggregation, Count | Rate),
        MetricKind::Gauge => matches!(aggregation, Value),
        MetricKind::Rate => matches!(aggregation, Rate),
        MetricKind::Trend => matches!(aggregation, Avg | Min | Max | Med | Percentile(_)),
    }
}

/// Tags that a value must have, and their values.
pub type TagFilter = Vec<(String, String)>;

/// A metric's name and its filter, sorted by tag; of one tag the last value counts.
pub fn parse_key(key: &str) -> Result<(&str, TagFilter), ThresholdError> {
    let wrong = |reason: String| ThresholdError::Key { key: key.to_owned(), reason };
    // Without a name in front there is no filter either; the name will be unknown.
    let Some((name, rest)) = key.split_once('{').filter(|(name, _)| !name.is_empty()) else {
        return match key.strip_suffix('}') {
            Some(name) if !name.contains('{') => Err(wrong("`}` without a `{` before it".into())),
            _ => Ok((key, Vec::new())),
        };
    };
    let Some(filter) = rest.strip_suffix('}') else {
        return Err(wrong("the filter must end with `}`".to_owned()));
    };
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    let mut tags = TagFilter::new();
    for pair in filter.split(',') {
        let (tag, value) = pair.split_once(':').unwrap_or_default();
        let (tag, value) = (unquoted(tag), unquoted(value));
        if tag.is_empty() || value.is_empty() {
            return Err(wrong(format!("`{}` is not `tag:value`", pair.trim())));
        }
        tags.retain(|(known, _)| *known != tag);
        tags.push((tag, value));
    }
    tags.sort();
    Ok((name, tags))
}

/// `key` is only for the error.
pub fn parse_hold(key: &str, text: &str) -> Result<Hold, ThresholdError> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    const OPERATORS: [(&str, Comparison); 7] = [
        ("===", Equal),
        (">=", GreaterOrEqual),
        ("<=", LessOrEqual),
        ("==", Equal),
        ("!=", NotEqual),
        ("<", Less),
        (">", Greater),
    ];
    let wrong = |part: &str, reason: String| ThresholdError::Expression {
        key: key.to_owned(),
        text: text.to_owned(),
        part: part.to_owned(),
        reason,
    };
    // The first operator in the text; of two at one place the longer.
    let found = OPERATORS
        .iter()
        .filter_map(|(symbol, op)| Some((text.find(symbol)?, *symbol, *op)))
        .min_by_key(|(at, symbol, _)| (*at, std::cmp::Reverse(symbol.len())));
    let Some((at, symbol, op)) = found else {
        let reason = "no comparison found; write `p(95) < 200`, with one of < <= > >= == !=";
        return Err(wrong("", reason.to_owned()));
    };
    let (left, right) = (text[..at].trim(), text[at + symbol.len()..].trim());
    if left.is_empty() || right.is_empty() {
        let reason = format!("something is missing beside `{symbol}`; write `p(95) < 200`");
        return Err(wrong(symbol, reason));
    }
    let aggregation = aggregation(left).ok_or_else(|| {
        let known = "avg, min, max, med, p(95), count, rate or value";
        wrong(left, format!("`{left}` is not an aggregation; use {known}"))
    })?;
    let value = number(right).ok_or_else(|| {
        let reason = if right.contains("&&") || right.contains("||") {
            "one comparison per threshold: write each as an element of the list".to_owned()
        } else {
            format!("`{right}` is not a number; times are milliseconds without a unit, shares 0..1")
        };
        wrong(right, reason)
    })?;
    Ok(Hold { aggregation, op, value })
}

fn aggregation(text: &str) -> Option<Aggregation> {
    Some(match text {
        "avg" => Aggregation::Avg,
        "min" => Aggregation::Min,
        "max" => Aggregation::Max,
        "med" => Aggregation::Med,
        "count" => Aggregation::Count,
        "rate" => Aggregation::Rate,
        "value" => Aggregation::Value,
        _ => Aggregation::Percentile(number(text.strip_prefix("p(")?.strip_suffix(')')?)?),
    })
}

/// A decimal number; digits may be separated by `_`, and `Infinity` and `NaN` are numbers too.
fn number(text: &str) -> Option<f64> {
    if !text.contains('_') {
        return text.parse().ok();
    }
    let bytes = text.as_bytes();
    let between_digits = |(at, byte): (usize, &u8)| {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_digit())
        };
        *byte != b'_' || (digit(at.checked_sub(1)) && digit(Some(at + 1)))
    };
    bytes.iter().enumerate().all(between_digits).then(|| text.replace('_', "").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reference_takes_is_taken() {
        let table = [
            ("p(95)<200", Aggregation::Percentile(95.0), "<", 200.0),
            ("p(99.99) >= 0", Aggregation::Percentile(99.99), ">=", 0.0),
            (" avg  <  1 ", Aggregation::Avg, "<", 1.0),
            ("rate===1", Aggregation::Rate, "==", 1.0),
            ("rate==1", Aggregation::Rate, "==", 1.0),
            ("count!=1e3", Aggregation::Count, "!=", 1000.0),
            ("value<=-1.5", Aggregation::Value, "<=", -1.5),
            ("med>.5", Aggregation::Med, ">", 0.5),
            ("max<5.", Aggregation::Max, "<", 5.0),
            ("min<+5", Aggregation::Min, "<", 5.0),
            ("avg<1_000", Aggregation::Avg, "<", 1000.0),
            ("avg<Infinity", Aggregation::Avg, "<", f64::INFINITY),
        ];
        for (text, aggregation, op, value) in table {
            let hold = parse_hold("m", text).unwrap();
            let got = (hold.aggregation, hold.op.symbol(), hold.value);
            assert_eq!(got, (aggregation, op, value), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_pointed_at() {
        let table = [
            ("avg < 5ms", "          ^^^"),
            ("avg < 1 && max < 2", "          ^^^^^^^^^^^^"),
            ("p95>=0", "    ^^^"),
            ("AVG<5", "    ^^^"),
            ("5<avg", "    ^"),
            ("avg<", "       ^"),
            ("p( 95 )<1", "    ^^^^^^^"),
            ("avg<0x10", "        ^^^^"),
            ("avg<1,000", "        ^^^^^"),
            ("avg<_1", "        ^^"),
            ("avg=5", "    avg=5"),
            ("", "    "),
        ];
        for (text, last_line) in table {
            let error = parse_hold("http_req_duration", text).unwrap_err().to_string();
            assert_eq!(error.lines().last(), Some(last_line), "{error}");
            assert!(error.starts_with("threshold on `http_req_duration`: "), "{error}");
        }
    }

    #[test]
    fn a_key_is_a_name_and_tags() {
        let tags = |key| parse_key(key).map(|(name, tags)| format!("{name} {tags:?}")).unwrap();
        assert_eq!(tags("tt"), "tt []");
        assert_eq!(tags("tt{a:b}"), r#"tt [("a", "b")]"#);
        assert_eq!(tags("tt{ c : 'd' , \"a\":b:c}"), r#"tt [("a", "b:c"), ("c", "d")]"#);
        assert_eq!(tags("tt{a:b,a:c}"), r#"tt [("a", "c")]"#);
        assert_eq!(tags("tt{url:http://x/a{b}}"), r#"tt [("url", "http://x/a{b}")]"#);
        for wrong in ["tt{}", "tt{a}", "tt{a:}", "tt{:b}", "tt{a:b", "tt{a:b}x", "tt{a:b,}", "tt}"]
        {
            let error = parse_key(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("metric{tag:value"), "{error}");
        }
    }
}
