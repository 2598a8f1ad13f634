//! Values of arguments: how they are written, and what is wrong with those that are refused.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use membership::discovery::Seed;
use plan::units::Wrong;

pub fn duration(text: &str) -> Result<Duration, Wrong> {
    plan::units::duration(text)
}

/// A time in which something can happen.
pub fn length(text: &str) -> Result<Duration, Wrong> {
    match duration(text)? {
        Duration::ZERO => Err(Wrong::only("longer than 0 is needed")),
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
pub fn factor(text: &str) -> Result<f64, Wrong> {
    let value = text.parse::<f64>().ok().filter(|factor| *factor > 0.0 && *factor <= 100.0);
    value.ok_or_else(|| Wrong::only("a factor is more than 0 and at most 100: 2, 0.5"))
}

/// The verdict from which a result counts as failed.
pub fn fail_on(text: &str) -> Result<stats::VerdictState, Wrong> {
    match text {
        "degraded" => Ok(stats::VerdictState::Degraded),
        "invalid" => Ok(stats::VerdictState::Invalid),
        _ => Err(Wrong::only("`degraded` or `invalid`")),
    }
}

pub fn method(text: &str) -> Result<String, Wrong> {
    let letters =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if letters {
        Ok(text.to_ascii_uppercase())
    } else {
        Err(Wrong::only("a method is letters: GET, POST, PURGE"))
    }
}

/// A name that promises another format would be opened with the wrong program.
pub fn summary(text: &str) -> Result<std::path::PathBuf, Wrong> {
    let ending = text.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let other = match ending.as_deref() {
        Some("html" | "htm") => "the report is `--report FILE.html`",
        Some("pdf" | "md") => "there is no report of that kind yet",
        Some("xml") => "JUnit is `--output junit=FILE`",
        Some("csv") => "every sample as CSV is `--output csv=FILE`",
        Some("hdr" | "hgrm") => "histograms are `--output hdr=FILE`",
        Some("yaml" | "yml" | "toml") => "write it as `.json`",
        _ => return Ok(text.into()),
    };
    Err(Wrong::new("the summary is JSON, as `--summary result.json`", other))
}

/// A record or a report: always a file.
pub fn kept_file(text: &str) -> Result<std::path::PathBuf, Wrong> {
    match text {
        "" | "-" => Err(Wrong::only("expected the name of a file")),
        _ => Ok(text.into()),
    }
}

/// Catches what would only fail once the run has begun.
pub fn target(text: &str) -> Result<String, Wrong> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        None if text.starts_with("unix:") => Ok(text.to_owned()),
        _ => Err(Wrong::only("expected http://HOST, https://HOST or unix:PATH")),
    }
}

/// `8080` is what people type.
pub fn listen(text: &str) -> Result<SocketAddr, Wrong> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let port = text.rsplit(':').next().unwrap_or_default();
    if port.parse::<u16>().is_err() && port.parse::<u64>().is_ok() {
        return Err(Wrong::only(format!("{port} is not a port: they are from 0 to 65535")));
    }
    let named = text.replace("localhost:", "127.0.0.1:");
    named.parse().map_err(|_| Wrong::only("expected ADDRESS:PORT or PORT, such as 127.0.0.1:8080"))
}

/// Where a page is served; nothing: at the usual place.
pub fn web(text: &str) -> Result<web::Listen, Wrong> {
    match text {
        "" => Ok(web::Listen::Usual),
        text => listen(text).map(web::Listen::At),
    }
}

pub fn share(text: &str) -> Result<f64, Wrong> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    value
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| Wrong::only("a share is 0 to 1, or 0% to 100%"))
}

pub fn rate(text: &str) -> Result<plan::Rate, Wrong> {
    match text.parse::<u64>() {
        Ok(events) if events > 0 => Ok(plan::Rate { events, per: Duration::from_secs(1) }),
        _ => plan::units::rate(text),
    }
}

pub fn pair(text: &str) -> Result<(String, String), Wrong> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Wrong::only("expected KEY=VALUE")),
    }
}

/// A node: a name or an address, at the usual port unless another is said. A port alone is on this
/// machine.
pub fn node(text: &str) -> Result<Seed, Wrong> {
    let here = text.trim_start_matches(':').parse::<u16>().ok();
    let text = here.map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    Seed::parse(&text, node::config::PORT).map_err(|error| Wrong::only(error.to_string()))
}

/// The same as it is connected to.
pub fn host(text: &str) -> Result<String, Wrong> {
    node(text).map(|node| node.to_string())
}

/// Eight hexadecimal digits.
pub fn key_id(text: &str) -> Result<u32, Wrong> {
    let id = u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 8);
    id.ok_or_else(|| {
        Wrong::new(
            "a key's name has 8 hexadecimal digits",
            "`volley debug members keys list` shows them",
        )
    })
}

/// `client:sequence:nonce`, or whatever else tells submissions apart.
pub fn job_key(text: &str) -> Result<ledger_state::IdempotencyKey, Wrong> {
    use ledger_state::IdempotencyKey;
    let key = text.parse().unwrap_or_else(|_| IdempotencyKey {
        client: text.to_owned(),
        sequence: 0,
        nonce: [0; 16],
    });
    key.validate().map_err(|problem| Wrong::only(problem.to_string()))?;
    Ok(key)
}

/// Hexadecimal digits, with or without dashes.
pub fn job_prefix(text: &str) -> Result<String, Wrong> {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_one = (1..=32).contains(&digits)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_one {
        Ok(text.to_owned())
    } else {
        let what = "a job's id is hexadecimal digits, or the first few of them";
        Err(Wrong::new(what, "`volley jobs` shows them"))
    }
}
