//! Values of arguments: how they are written, and what is wrong with those that are refused.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use membership::discovery::Seed;

pub fn duration(text: &str) -> Result<Duration, String> {
    plan::units::duration(text).map_err(|wrong| wrong.to_string())
}

/// A time in which something can happen.
pub fn length(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("longer than 0 is needed".to_owned()),
        longer => Ok(longer),
    }
}

/// As many as a plan may have.
pub fn vus() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=1_000_000)
}

/// Of a short test.
pub fn requests() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=1_000_000_000)
}

/// A running test can also be left without any.
pub fn vus_or_none() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(0..=1_000_000)
}

/// A slip of the finger should not become a million users.
pub fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && *factor <= 100.0);
    value.ok_or_else(|| "a factor is more than 0 and at most 100: 2, 0.5".to_owned())
}

/// The verdict from which a result counts as failed.
pub fn fail_on(text: &str) -> Result<stats::VerdictState, String> {
    match text {
        "degraded" => Ok(stats::VerdictState::Degraded),
        "invalid" => Ok(stats::VerdictState::Invalid),
        _ => Err("`degraded` or `invalid`".to_owned()),
    }
}

pub fn method(text: &str) -> Result<String, String> {
    let letters =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if letters {
        Ok(text.to_ascii_uppercase())
    } else {
        Err("a method is letters: GET, POST, PURGE".to_owned())
    }
}

/// A name that promises another format would be opened with the wrong program.
pub fn summary(text: &str) -> Result<std::path::PathBuf, String> {
    let ending = text.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let other = match ending.as_deref() {
        Some("html" | "htm" | "pdf" | "md") => "there is no report of that kind yet",
        Some("xml") => "JUnit is `--output junit=FILE`",
        Some("csv") => "every sample as CSV is `--output csv=FILE`",
        Some("hdr" | "hgrm") => "histograms are `--output hdr=FILE`",
        Some("yaml" | "yml" | "toml") => "write it as `.json`",
        _ => return Ok(text.into()),
    };
    Err(format!("the summary is JSON, as `--summary result.json`; {other}"))
}

/// Catches what would only fail once the run has begun.
pub fn target(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        None if text.starts_with("unix:") => Ok(text.to_owned()),
        _ => Err("expected http://HOST, https://HOST or unix:PATH".to_owned()),
    }
}

/// `8080` is what people type.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let named = text.replace("localhost:", "127.0.0.1:");
    named.parse().map_err(|_| "expected ADDRESS:PORT or PORT, such as 127.0.0.1:8080".to_owned())
}

pub fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    value
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a share is 0 to 1, or 0% to 100%".to_owned())
}

pub fn rate(text: &str) -> Result<plan::Rate, String> {
    match text.parse::<u64>() {
        Ok(events) if events > 0 => Ok(plan::Rate { events, per: Duration::from_secs(1) }),
        _ => plan::units::rate(text).map_err(|wrong| wrong.to_string()),
    }
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// A node: a name or an address, at the usual port unless another is said. A port alone is on this machine.
pub fn node(text: &str) -> Result<Seed, String> {
    let here = text.trim_start_matches(':').parse::<u16>().ok();
    let text = here.map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    Seed::parse(&text, node::config::PORT).map_err(|error| error.to_string())
}

/// The same as it is connected to.
pub fn host(text: &str) -> Result<String, String> {
    node(text).map(|node| node.to_string())
}

/// Eight hexadecimal digits.
pub fn key_id(text: &str) -> Result<u32, String> {
    let id = u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 8);
    id.ok_or_else(|| {
        "a key's name has 8 hexadecimal digits; `volley members keys list` shows them".to_owned()
    })
}

/// `client:sequence:nonce`, or whatever else tells submissions apart.
pub fn job_key(text: &str) -> Result<ledger_state::IdempotencyKey, String> {
    use ledger_state::IdempotencyKey;
    let key = text.parse().unwrap_or_else(|_| IdempotencyKey {
        client: text.to_owned(),
        sequence: 0,
        nonce: [0; 16],
    });
    key.validate().map_err(|problem| problem.to_string())?;
    Ok(key)
}

/// Hexadecimal digits, with or without dashes.
pub fn job_prefix(text: &str) -> Result<String, String> {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_one = (1..=32).contains(&digits)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_one {
        Ok(text.to_owned())
    } else {
        Err("a job's id is hexadecimal digits, or the first few of them; `volley jobs` shows them"
            .to_owned())
    }
}
