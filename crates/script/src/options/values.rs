//! Single values as users write them: the parsers that all levels share.
//!
//! Flags and environment variables use them directly, JSON uses them for its texts, so that one
//! spelling means the same everywhere.

use std::net::IpAddr;
use std::time::Duration;

use plan::units::Wrong;

use super::level::{HttpDebug, StageOptions};
use super::network::{Dns, DnsPolicy, DnsSelect, DnsTtl, IpRange};
use super::problem::{plain, suggestion};

pub(super) const DURATION_HELP: &str = "write 500ms, 30s, 1m30s, 1d2h, or a number of milliseconds";

/// Messages quote what the user wrote, but not a whole file of it.
const QUOTED_CHARS_MAX: usize = 60;

pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= QUOTED_CHARS_MAX {
        return text.to_string();
    }
    text.chars().take(QUOTED_CHARS_MAX).chain(['…']).collect()
}

pub fn integer(text: &str) -> Result<i64, Wrong> {
    let wrong = || {
        // `50/s`, as a plan writes it.
        let rate = text.split_once('/').filter(|(number, _)| number.parse::<i64>().is_ok());
        let help = match rate {
            Some((number, unit @ ("s" | "m" | "h"))) => {
                format!("write {number}, and beside it timeUnit: '1{unit}'")
            }
            _ => "write 10".to_owned(),
        };
        Wrong::new(format!("`{}` is not a whole number", shorten(text)), help)
    };
    text.parse().map_err(|_| wrong())
}

pub(super) fn not_negative(number: i64) -> Result<u64, Wrong> {
    u64::try_from(number).map_err(|_| plain(format!("{number} is negative")))
}

pub(super) fn fits_u32(number: u64) -> Result<u32, Wrong> {
    let wrong = || Wrong::new(format!("{number} is too many"), format!("at most {}", u32::MAX));
    u32::try_from(number).map_err(|_| wrong())
}

pub fn count(text: &str) -> Result<u64, Wrong> {
    not_negative(integer(text)?)
}

pub fn count32(text: &str) -> Result<u32, Wrong> {
    fits_u32(count(text)?)
}

pub fn boolean(text: &str) -> Result<bool, Wrong> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            Err(Wrong::new(format!("`{}` is neither true nor false", shorten(text)), "write true"))
        }
    }
}

/// Go's style with days in front (`1h30m`, `1.5s`, `1d2h`); a bare number is milliseconds.
pub fn duration(text: &str) -> Result<Duration, Wrong> {
    let decimal = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match text.parse::<f64>() {
        Ok(number) if decimal => milliseconds(number),
        _ => duration_with_unit(text),
    }
}

/// As [`duration`], for a time that must not be zero.
pub fn positive_duration(text: &str) -> Result<Duration, Wrong> {
    positive(duration(text)?)
}

pub(super) fn positive(duration: Duration) -> Result<Duration, Wrong> {
    if duration.is_zero() {
        return Err(Wrong::new("the time must be more than 0", DURATION_HELP));
    }
    Ok(duration)
}

pub(super) fn milliseconds(number: f64) -> Result<Duration, Wrong> {
    if number < 0.0 {
        return Err(negative(&number.to_string()));
    }
    // Beyond this, nanoseconds no longer fit 64 bits; such a time is a mistake anyway.
    let nanos = number * 1e6;
    if !nanos.is_finite() || nanos >= i64::MAX as f64 {
        return Err(plain(format!("{number} milliseconds are too long a time")));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

fn negative(text: &str) -> Wrong {
    Wrong::new(format!("the time `{}` is negative", shorten(text)), DURATION_HELP)
}

/// A duration that must have units: the form of `--stage`.
fn duration_with_unit(text: &str) -> Result<Duration, Wrong> {
    let wrong = || Wrong::new(format!("`{}` is not a duration", shorten(text)), DURATION_HELP);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (days, rest) = unsigned.split_once('d').unwrap_or(("0", unsigned));
    let whole_days = !days.is_empty() && days.bytes().all(|b| b.is_ascii_digit());
    let days: u64 = days.parse().ok().filter(|_| whole_days).ok_or_else(wrong)?;
    let mut nanos = u128::from(days) * 86_400_000_000_000;
    let mut rest = rest;
    if rest.is_empty() && !unsigned.ends_with('d') {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        nanos += scaled(number, unit_nanos(unit).ok_or_else(wrong)?).ok_or_else(wrong)?;
        rest = after;
    }
    if text.starts_with('-') && nanos > 0 {
        return Err(negative(text));
    }
    let nanos = u64::try_from(nanos).ok().filter(|nanos| i64::try_from(*nanos).is_ok());
    let too_long = || plain(format!("`{}` is too long a time", shorten(text)));
    nanos.map(Duration::from_nanos).ok_or_else(too_long)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Two characters look like this: the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A decimal number times a factor, exactly; what is finer than a nanosecond is cut.
fn scaled(number: &str, factor: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = u128::from(whole) * u128::from(factor);
    let mut unit = u128::from(factor) * 1_000_000;
    let mut parts = 0u128;
    for digit in fraction.bytes().take(18) {
        unit /= 10;
        parts += u128::from(digit - b'0') * unit;
    }
    total += parts / 1_000_000;
    Some(total)
}

/// A duration as Go prints it: `1m30s`, `10m0s`, `1.5s`, `250ms`, `0s`.
pub fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, name) = match nanos {
        0 => return "0s".to_string(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    if name != "s" {
        return format!("{}{name}", with_fraction(nanos, unit));
    }
    let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000);
    let seconds = with_fraction(nanos % 60_000_000_000, unit);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{}m{seconds}s", minutes % 60),
    }
}

fn with_fraction(nanos: u128, unit: u128) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// `10s:5`: five virtual users after ten seconds. The target may be missing, and is then reported
/// when the load is made.
pub fn stage(text: &str) -> Result<StageOptions, Wrong> {
    let (length, target) = match text.split_once(':') {
        Some((length, target)) => (length, Some(target)),
        None => (text, None),
    };
    let help = "write a duration with a unit and a number of VUs: 10s:5";
    let duration = match length {
        "" => None,
        _ => {
            let wrong = |_| Wrong::new(format!("`{}` is not a duration", shorten(length)), help);
            // A bare number is refused here: in `5:10` nobody means milliseconds.
            Some(duration_with_unit(length).map_err(wrong)?)
        }
    };
    let target = match target {
        Some(target) if !target.is_empty() => Some(count(target)?),
        _ => None,
    };
    Ok(StageOptions { duration, target })
}

/// `10s:5,1m:20`; an empty text is no stage.
pub fn stages(text: &str) -> Result<Vec<StageOptions>, Wrong> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(stage).collect()
}

/// `name=value`; neither may be empty.
pub fn tag(text: &str) -> Result<(String, String), Wrong> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_string(), value.to_string()))
        }
        _ => Err(Wrong::new(format!("`{}` is not a tag", shorten(text)), "write name=value")),
    }
}

/// Names divided by commas.
pub fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// `ttl=5m,select=random,policy=preferIPv4`, in any order, each of them optional.
pub fn dns(text: &str) -> Result<Dns, Wrong> {
    let mut dns = Dns::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let help = "write ttl=5m,select=random,policy=preferIPv4";
        let wrong = || Wrong::new(format!("`{}` has no value", shorten(part)), help);
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        match key {
            "ttl" => dns.ttl = Some(dns_ttl(value)?),
            "select" => dns.select = Some(DnsSelect::parse(value)?),
            "policy" => dns.policy = Some(DnsPolicy::parse(value)?),
            _ => {
                let message = format!("DNS has no setting `{}`", shorten(key));
                return Err(Wrong::new(message, suggestion(key, &["ttl", "select", "policy"])));
            }
        }
    }
    Ok(dns)
}

/// `inf`, `0`, or how long an answer is kept.
pub fn dns_ttl(text: &str) -> Result<DnsTtl, Wrong> {
    let wrong = || {
        let message = format!("`{}` is not a time to keep answers", shorten(text));
        Wrong::new(message, "write inf, 0, or a duration such as 5m")
    };
    match text {
        "inf" => Ok(DnsTtl { written: text.to_string(), keep: None }),
        _ => {
            let keep = duration(text).map_err(|_| wrong())?;
            Ok(DnsTtl { written: text.to_string(), keep: Some(keep) })
        }
    }
}

/// `headers` (also without a value) or `full`.
pub fn http_debug(text: &str) -> HttpDebug {
    if text == "full" { HttpDebug::Full } else { HttpDebug::Headers }
}

/// One statistic of a trend: `avg`, `min`, `med`, `max`, `count` or `p(95)`.
pub fn trend_stat(text: &str) -> Result<String, Wrong> {
    const NAMES: [&str; 5] = ["avg", "min", "med", "max", "count"];
    let help = "write avg, min, med, max, count, or p(0) to p(100)";
    if NAMES.contains(&text) {
        return Ok(text.to_string());
    }
    let percent = text.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')'));
    match percent.and_then(plan::units::number) {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(text.to_string()),
        _ => Err(Wrong::new(format!("`{}` is not a statistic", shorten(text)), help)),
    }
}

pub fn summary_time_unit(text: &str) -> Result<String, Wrong> {
    match text {
        "s" | "ms" | "us" => Ok(text.to_string()),
        _ => Err(Wrong::new(format!("`{}` is not a unit", shorten(text)), "write s, ms or us")),
    }
}

/// Source addresses: `192.168.0.10`, `192.168.0.10-192.168.0.25`, `fd::/120`, divided by commas.
pub fn local_addresses(text: &str) -> Result<Vec<IpAddr>, Wrong> {
    let mut addresses = Vec::new();
    for part in text.split(',') {
        let (first, last) = address_range(part.trim())?;
        let count = last - first.1 + 1;
        if addresses.len() as u128 + count > LOCAL_ADDRESSES_MAX {
            let message = format!("`{}` has too many addresses", shorten(part));
            return Err(Wrong::new(message, format!("at most {LOCAL_ADDRESSES_MAX} in all")));
        }
        addresses.extend((first.1..=last).map(|number| address(first.0, number)));
    }
    Ok(addresses)
}

/// More source addresses than this are a mistyped prefix.
const LOCAL_ADDRESSES_MAX: u128 = 65_536;

/// Whether the addresses are of version 6 with the first as a number, and the last as a number.
fn address_range(text: &str) -> Result<((bool, u128), u128), Wrong> {
    let wrong = || {
        let message = format!("`{}` is not an address", shorten(text));
        Wrong::new(message, "write 10.0.0.1, 10.0.0.1-10.0.0.9 or 10.0.0.0/24")
    };
    let parse = |text: &str| text.trim().parse::<IpAddr>().map(number).map_err(|_| wrong());
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (parse(first)?, parse(last)?);
        let ordered = first.0 == last.0 && first.1 <= last.1;
        return if ordered { Ok((first, last.1)) } else { Err(wrong()) };
    }
    if text.contains('/') {
        let range = IpRange::parse(text).map_err(|_| wrong())?;
        let (v6, base) = number(range.address);
        let free = u32::from(if v6 { 128 } else { 32 } - range.prefix);
        let last = base | 1u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        // The first and the last address of a network name it and all of it; pairs have neither.
        return Ok(if free >= 2 { ((v6, base + 1), last - 1) } else { ((v6, base), last) });
    }
    let one = parse(text)?;
    Ok((one, one.1))
}

fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(u32::from(address))),
        IpAddr::V6(address) => (true, u128::from(address)),
    }
}

fn address(v6: bool, number: u128) -> IpAddr {
    // A number of version 4 came from 32 bits.
    if v6 { IpAddr::V6(number.into()) } else { IpAddr::V4((number as u32).into()) }
}
