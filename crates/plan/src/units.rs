//! Quantities as people write them: `1m30s`, `100ms..300ms`, `200/s`, `10MB`, `99%`, `< 250ms`.
//!
//! A time always has a unit: a bare `30` is seconds to one reader and milliseconds to the next.

use std::time::Duration;

use crate::model::{Comparison, Rate, Span, StatusRange};
use crate::tree::shorten;

/// Why a text is not what it should be, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub message: String,
    pub help: Option<String>,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}; {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Wrong {}

impl Wrong {
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Wrong { message: message.into(), help: Some(help.into()) }
    }

    /// Where the message says all there is to say.
    pub fn only(message: impl Into<String>) -> Self {
        Wrong { message: message.into(), help: None }
    }
}

/// Longer times overflow clocks, and are mistakes.
const DURATION_MAX: Duration = Duration::from_secs(1000 * 86_400);

const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
];

/// `100ms`, `1m30s`, `1.5s`, `2h`, `1d`.
pub fn duration(text: &str) -> Result<Duration, Wrong> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let help = "write a number with a unit: 100ms, 30s, 1m30s, 2h, 1d";
    let wrong = || Wrong::new(format!("`{}` is not a time", shorten(text)), help);
    if text.parse::<f64>().is_ok() {
        let message = format!("the time `{}` has no unit", shorten(text));
        return Err(Wrong::new(
            message,
            format!("write `{text}s` for seconds, `{text}ms` for milliseconds"),
        ));
    }
    let mut rest = text;
    let mut nanos = 0u128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let factor = match unit {
            "d" => 86_400 * 1_000_000_000,
            _ => TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        nanos = nanos.saturating_add(scaled(number, factor).ok_or_else(wrong)?);
        rest = after.trim_start();
    }
    if text.is_empty() {
        return Err(wrong());
    }
    if nanos > DURATION_MAX.as_nanos() {
        let message = format!("the time `{}` is longer than 1000 days", shorten(text));
        return Err(Wrong::new(message, "times are limited to 1000d"));
    }
    Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// A decimal number times a whole factor, exactly; digits beyond the factor's are cut.
fn scaled(number: &str, factor: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let plain = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || whole.len() > 18 {
        return None;
    }
    let mut total = whole.parse::<u128>().ok()? * u128::from(factor);
    let mut unit = u128::from(factor);
    for digit in fraction.bytes().take(18) {
        unit /= 10;
        total += u128::from(digit - b'0') * unit;
    }
    Some(total)
}

/// `100ms..300ms`, or one time for both bounds.
pub fn span(text: &str) -> Result<Span, Wrong> {
    let Some((min, max)) = text.split_once("..") else {
        let both = duration(text).map_err(|wrong| dashed(text).unwrap_or(wrong))?;
        return Ok(Span { min: both, max: both });
    };
    // `1..3s` means 1s..3s.
    let unit = max.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    let min = match min.trim().parse::<f64>() {
        Ok(_) => duration(&format!("{}{unit}", min.trim()))?,
        Err(_) => duration(min)?,
    };
    let max = duration(max)?;
    if min > max {
        let message = format!("`{}` ends before it begins", shorten(text));
        return Err(Wrong::new(message, "write the shorter time first"));
    }
    Ok(Span { min, max })
}

/// `1-3s` and `1s - 3s`, which others write for a span.
fn dashed(text: &str) -> Option<Wrong> {
    let (min, max) = text.split_once('-')?;
    let (min, max) = (min.trim(), max.trim());
    let bare = |text: &str| text.parse::<f64>().is_ok();
    let unit = if bare(max) {
        "s"
    } else {
        max.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
    };
    let with_unit = |text: &str| if bare(text) { format!("{text}{unit}") } else { text.to_owned() };
    let meant = format!("{}..{}", with_unit(min), with_unit(max));
    span(&meant).ok()?;
    Some(Wrong::new(format!("`{}` is not a time", shorten(text)), format!("write `{meant}`")))
}

/// `200/s`, `90/m`, `1000/500ms`, `0.5/s`; kept exact.
pub fn rate(text: &str) -> Result<Rate, Wrong> {
    let help = "write events per time: 200/s, 90/m, 1000/500ms";
    let wrong = || Wrong::new(format!("`{}` is not a rate", shorten(text)), help);
    let (events, per) = text.split_once('/').ok_or_else(wrong)?;
    let per = per.trim();
    let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
        duration(per)?
    } else {
        duration(&format!("1{per}")).map_err(|_| wrong())?
    };
    let events = events.trim();
    let decimals = events.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if decimals > 6 {
        return Err(Wrong::new(format!("`{}` has more than six decimals", shorten(text)), help));
    }
    let factor = 10u64.pow(u32::try_from(decimals).unwrap_or(0));
    let count = scaled(events, factor).ok_or_else(wrong)?;
    let count = u64::try_from(count).map_err(|_| wrong())?;
    let per = u32::try_from(factor).ok().and_then(|factor| per.checked_mul(factor));
    match per {
        Some(per) if !per.is_zero() && per <= DURATION_MAX => Ok(Rate { events: count, per }),
        _ => Err(Wrong::new(format!("`{}` is not a rate", shorten(text)), help)),
    }
}

/// `512`, `10KB`, `64MiB`: bytes.
pub fn size(text: &str) -> Result<u64, Wrong> {
    let help = "write bytes with a unit: 512B, 10KB, 64MiB";
    let wrong = || Wrong::new(format!("`{}` is not a size", shorten(text)), help);
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "k" => 1000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    scaled(number, factor).and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(wrong)
}

/// `99%` or `0.99`.
pub fn fraction(text: &str) -> Result<f64, Wrong> {
    let text = text.trim();
    let wrong = || {
        let message = format!("`{}` is not a share", shorten(text));
        Wrong::new(message, "write 99% or 0.99")
    };
    match text.strip_suffix('%') {
        Some(percent) => Ok(number(percent).ok_or_else(wrong)? / 100.0),
        None => number(text).ok_or_else(wrong),
    }
}

/// A finite decimal number.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Rust also reads `inf` and `nan`.
    let decimal = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| decimal && number.is_finite())
}

/// The operator at the start, and what follows it.
pub fn comparison(text: &str) -> Option<(Comparison, &str)> {
    const SYMBOLS: [(&str, Comparison); 8] = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("===", Comparison::Equal),
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
    ];
    let text = text.trim();
    SYMBOLS.iter().find_map(|(symbol, op)| Some((*op, text.strip_prefix(symbol)?.trim())))
}

/// `< 250ms`
pub fn duration_limit(text: &str) -> Result<(Comparison, Duration), Wrong> {
    let (op, limit) = split_limit(text, "< 250ms")?;
    Ok((op, duration(limit)?))
}

/// `< 10KB`
pub fn size_limit(text: &str) -> Result<(Comparison, u64), Wrong> {
    let (op, limit) = split_limit(text, "< 10KB")?;
    Ok((op, size(limit)?))
}

/// `> 3`
pub fn number_limit(text: &str) -> Result<(Comparison, f64), Wrong> {
    let (op, limit) = split_limit(text, "> 3")?;
    let wrong = || Wrong::new(format!("`{}` is not a number", shorten(limit)), "write `> 3`");
    Ok((op, number(limit).ok_or_else(wrong)?))
}

fn split_limit<'a>(text: &'a str, example: &str) -> Result<(Comparison, &'a str), Wrong> {
    comparison(text).ok_or_else(|| {
        let message = format!("`{}` is not a comparison", shorten(text));
        Wrong::new(message, format!("write an operator and a limit: `{example}`"))
    })
}

/// `200`, `2xx`, `200..299`.
pub fn status(text: &str) -> Result<StatusRange, Wrong> {
    let wrong = || {
        let message = format!("`{}` is not a status", shorten(text));
        Wrong::new(message, "write 200, 2xx, 200..299, or a list of these")
    };
    let text = text.trim();
    let code = |text: &str| {
        let text = text.trim();
        let digits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|code| digits && *code >= 100).ok_or_else(wrong)
    };
    if let Some((from, to)) = text.split_once("..") {
        let (from, to) = (code(from)?, code(to.trim_start_matches('='))?);
        return if from <= to { Ok(StatusRange { from, to }) } else { Err(wrong()) };
    }
    if let Some(class) = text.to_ascii_lowercase().strip_suffix("xx") {
        let class: u16 = class.parse().map_err(|_| wrong())?;
        if !(1..=5).contains(&class) {
            return Err(wrong());
        }
        return Ok(StatusRange { from: class * 100, to: class * 100 + 99 });
    }
    let code = code(text)?;
    Ok(StatusRange { from: code, to: code })
}

#[cfg(test)]
mod tests;
