//! What a target is told to be: fast or slow, sound or failing, with stalls at known times.
//!
//! The textual forms are those of the command line: `--latency 5ms..20ms`, `--stall 3s+1s`.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;

/// More is a slip of the keyboard, and would only make the runtime's timer overflow.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
const THREADS_MAX: usize = 256;
/// The answer of `/` is kept in memory, once.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;

#[derive(Debug, Clone, PartialEq)]
pub struct TargetConfig {
    /// Port 0 takes any free port; see [`RunningTarget::addr`](crate::RunningTarget::addr).
    pub listen: SocketAddr,
    /// Connections are dealt to these threads in turn.
    pub threads: usize,
    /// Added to every answer.
    pub latency: Latency,
    /// Share of requests, 0 to 1, that are answered with status 500.
    pub error_rate: f64,
    /// Times in which nothing is answered.
    pub stalls: Vec<Stall>,
    /// Size of the answer of `/`; 0: a short greeting.
    pub payload_bytes: usize,
}

impl Default for TargetConfig {
    fn default() -> Self {
        TargetConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            latency: Latency::None,
            error_rate: 0.0,
            stalls: Vec::new(),
            payload_bytes: 0,
        }
    }
}

impl TargetConfig {
    /// The first setting that cannot be meant, if any.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=THREADS_MAX).contains(&self.threads) {
            let threads = self.threads;
            return Err(Error::Config(format!("threads: {threads} is not in 1..={THREADS_MAX}")));
        }
        if !(0.0..=1.0).contains(&self.error_rate) {
            let rate = self.error_rate;
            return Err(Error::Config(format!("error rate: {rate} is not a share from 0 to 1")));
        }
        if self.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(Error::Config(format!(
                "payload: {} bytes is more than {PAYLOAD_BYTES_MAX}; `/bytes/N` has no limit",
                self.payload_bytes
            )));
        }
        Ok(())
    }
}

/// Time added to each answer: none, always the same, or drawn anew for each request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Latency {
    #[default]
    None,
    Fixed(Duration),
    /// Evenly between the two, both included.
    Uniform(Duration, Duration),
    /// Exponential with this mean: mostly short, now and then very long.
    Exponential(Duration),
}

impl Latency {
    pub(crate) fn draw(self) -> Duration {
        match self {
            Latency::None => Duration::ZERO,
            Latency::Fixed(latency) => latency,
            Latency::Uniform(min, max) => min + (max - min).mul_f64(fastrand::f64()),
            // 1 - f64() is in (0, 1], so the logarithm is finite
            Latency::Exponential(mean) => mean.mul_f64(-(1.0 - fastrand::f64()).ln()),
        }
    }
}

impl FromStr for Latency {
    type Err = Error;

    /// `none`, `5ms`, `5ms..20ms` or `exp(10ms)`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            let forms = "none, 5ms, 5ms..20ms or exp(10ms)";
            Error::Config(format!("latency `{text}`: {why}; write {forms}"))
        };
        let text = text.trim();
        if text == "none" {
            return Ok(Latency::None);
        }
        if let Some(mean) = text.strip_prefix("exp(").and_then(|rest| rest.strip_suffix(')')) {
            return parse_duration(mean).map(Latency::Exponential).map_err(|why| wrong(&why));
        }
        if let Some((min, max)) = text.split_once("..") {
            let min = parse_duration(min).map_err(|why| wrong(&why))?;
            let max = parse_duration(max).map_err(|why| wrong(&why))?;
            if min > max {
                return Err(wrong("the first bound is the larger one"));
            }
            return Ok(Latency::Uniform(min, max));
        }
        match parse_duration(text) {
            Ok(Duration::ZERO) => Ok(Latency::None),
            Ok(latency) => Ok(Latency::Fixed(latency)),
            Err(why) => Err(wrong(&why)),
        }
    }
}

/// A window in which nothing is answered, counted from the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    pub at: Duration,
    pub for_: Duration,
}

impl FromStr for Stall {
    type Err = Error;

    /// `3s+1s`: from the third second on, for one second.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::Config(format!("stall `{text}`: {why}; write START+LENGTH, such as 3s+1s"))
        };
        let (at, for_) = text.split_once('+').ok_or_else(|| wrong("there is no `+`"))?;
        Ok(Stall {
            at: parse_duration(at).map_err(|why| wrong(&why))?,
            for_: parse_duration(for_).map_err(|why| wrong(&why))?,
        })
    }
}

/// `200us`, `5ms`, `1.5s`, `2m`, `1h`, or a bare `0`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" => return Err(format!("`{text}` has no unit (us, ms, s, m, h)")),
        _ => return Err(format!("`{unit}` is not a unit of time (us, ms, s, m, h)")),
    };
    let is_number = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = match number.parse() {
        Ok(number) if is_number => number,
        _ => return Err(format!("`{number}` is not a number")),
    };
    let seconds = number * seconds_per_unit;
    if seconds > DURATION_MAX.as_secs_f64() {
        return Err(format!("`{text}` is more than a day"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn latency_is_read_in_all_its_forms() {
        for (text, latency) in [
            ("none", Latency::None),
            ("0", Latency::None),
            ("0ms", Latency::None),
            ("5ms", Latency::Fixed(ms(5))),
            ("1.5s", Latency::Fixed(ms(1500))),
            ("200us", Latency::Fixed(Duration::from_micros(200))),
            ("5ms..20ms", Latency::Uniform(ms(5), ms(20))),
            (" 5ms .. 20ms ", Latency::Uniform(ms(5), ms(20))),
            ("exp(10ms)", Latency::Exponential(ms(10))),
        ] {
            assert_eq!(text.parse::<Latency>().unwrap(), latency, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_latency_is_refused_with_the_reason() {
        for (text, why) in [
            ("5", "no unit"),
            ("5 parsecs", "not a unit"),
            ("ms", "not a number"),
            ("-5ms", "not a number"),
            ("1.2.3s", "not a number"),
            ("20ms..5ms", "larger"),
            ("exp(10)", "no unit"),
            ("99h", "more than a day"),
            ("", "no unit"),
        ] {
            let error = text.parse::<Latency>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("5ms..20ms"), "{text}: {error}");
        }
    }

    #[test]
    fn a_stall_is_a_start_and_a_length() {
        let stall: Stall = "3s+1s".parse().unwrap();
        assert_eq!(stall, Stall { at: ms(3000), for_: ms(1000) });
        for text in ["3s", "3s+", "+1s", "3+1"] {
            assert!(text.parse::<Stall>().is_err(), "{text}");
        }
    }

    #[test]
    fn drawn_latencies_keep_their_bounds_and_their_mean() {
        let uniform = Latency::Uniform(ms(5), ms(20));
        assert!((0..1000).all(|_| (ms(5)..=ms(20)).contains(&uniform.draw())));

        let exponential = Latency::Exponential(ms(10));
        let sum: Duration = (0..20_000).map(|_| exponential.draw()).sum();
        let mean = sum / 20_000;
        // the standard error of this mean is 0.07 ms
        assert!((ms(9)..=ms(11)).contains(&mean), "mean {mean:?}");
    }

    #[test]
    fn settings_out_of_range_are_refused_before_anything_starts() {
        let good = TargetConfig::default();
        assert!(good.check().is_ok());
        for bad in [
            TargetConfig { threads: 0, ..good.clone() },
            TargetConfig { error_rate: 1.1, ..good.clone() },
            TargetConfig { error_rate: f64::NAN, ..good.clone() },
            TargetConfig { payload_bytes: usize::MAX, ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
