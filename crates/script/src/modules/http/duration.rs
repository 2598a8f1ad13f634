//! Durations in the form that k6 options have: `1m30s`, `500ms`, or a bare number of milliseconds.

use std::time::Duration;

const UNITS: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no duration; write \"30s\", \"500ms\" or \"1m30s\"");
    let seconds = match text.trim().parse::<f64>() {
        Ok(ms) if ms.is_finite() => ms / 1e3,
        _ => seconds(text.trim()).ok_or_else(bad)?,
    };
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
}

fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &rest[..end])?;
        total += number * scale;
        rest = &rest[end..];
    }
    Some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_k6_reads_them() {
        for (text, ms) in [
            ("30s", 30_000),
            ("0.2s", 200),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("5000", 5000),
            ("500ms", 500),
            ("-1s", 0),
        ] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "abc", "5x", "s", "1s2", "-"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
