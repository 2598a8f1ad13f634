//! Numbers as k6 writes them, which is as JavaScript writes them.
//!
//! Plain numbers are rounded to six decimals, times and shares are cut off after two.

use stats::series::Contains;

use super::stats::TimeUnit;

/// A value of a metric, with its unit.
pub(super) fn value(value: f64, contains: Contains, unit: Option<TimeUnit>) -> String {
    match contains {
        Contains::Time => time_ms(value, unit),
        Contains::Data => bytes(value),
        Contains::Default => plain(value),
    }
}

/// `27.314262`, `5`, `1e+21`
pub(super) fn plain(value: f64) -> String {
    trimmed(value, 6)
}

/// `59.09%` of a fraction, never rounded up.
pub(super) fn percent(fraction: f64) -> String {
    format!("{}%", to_fixed((fraction * 100.0 * 100.0).trunc() / 100.0, 2))
}

/// `312 B`, `1.0 kB`, `18 kB`
pub(super) fn bytes(count: f64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    // Written so that NaN goes here too.
    if !(count >= 10.0 && count.is_finite()) {
        return format!("{} B", js_number(count));
    }
    let exponent = (count.ln() / 1000f64.ln()).floor().clamp(0.0, 6.0) as usize;
    let scaled = count / 1000f64.powi(exponent as i32);
    let tenths = (scaled * 10.0 + 0.5).floor() / 10.0;
    format!("{} {}", to_fixed(tenths, usize::from(tenths < 10.0)), UNITS[exponent])
}

fn time_ms(ms: f64, unit: Option<TimeUnit>) -> String {
    match unit {
        Some(TimeUnit::Seconds) => format!("{}s", to_fixed(ms * 0.001, 2)),
        Some(TimeUnit::Milliseconds) => format!("{}ms", to_fixed(ms, 2)),
        Some(TimeUnit::Microseconds) => format!("{}µs", to_fixed(ms * 1000.0, 2)),
        None => suitable_time(ms),
    }
}

/// `0s`, `271ns`, `87.5µs`, `1.23ms`, `45.6s`, `1m30s`, `2h0m5s`
fn suitable_time(ms: f64) -> String {
    let cut = |value: f64, decimals: i32| {
        let scale = 10f64.powi(decimals);
        trimmed((scale * value).trunc() / scale, decimals as usize)
    };
    if ms == 0.0 {
        "0s".to_owned()
    } else if ms < 0.001 {
        format!("{}ns", js_number((ms * 1e6).trunc()))
    } else if ms < 1.0 {
        format!("{}µs", cut(ms * 1000.0, 2))
    } else if ms < 1000.0 {
        format!("{}ms", cut(ms, 2))
    } else {
        let seconds = cut(ms % 60_000.0 / 1000.0, if ms > 60_000.0 { 0 } else { 2 });
        let minutes = (ms / 60_000.0).trunc();
        let hours = (minutes / 60.0).trunc();
        if minutes < 1.0 {
            format!("{seconds}s")
        } else if hours < 1.0 {
            format!("{}m{seconds}s", js_number(minutes % 60.0))
        } else {
            format!("{}h{}m{seconds}s", js_number(hours), js_number(minutes % 60.0))
        }
    }
}

/// Up to so many decimals, without zeros at the end.
fn trimmed(value: f64, decimals: usize) -> String {
    // Through text and back: that is what cuts the zeros off.
    js_number(to_fixed(value, decimals).parse().unwrap_or(value))
}

/// Exactly so many decimals. Of two that are equally near, the one further from zero.
fn to_fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e21 {
        return js_number(value);
    }
    let doubled = value.abs() * 2f64.powi(decimals as i32 + 1);
    // A tie has a short binary fraction: scaled by the power of two alone it is odd.
    if doubled < 2f64.powi(53) && doubled.fract() == 0.0 && doubled % 2.0 == 1.0 {
        let up = value.abs() + 10f64.powi(-(decimals as i32)) / 4.0;
        return format!("{:.decimals$}", up.copysign(value));
    }
    format!("{value:.decimals$}")
}

/// The shortest text that means this number.
pub(super) fn js_number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size >= 1e21 || (size < 1e-6 && size > 0.0) {
        let text = format!("{value:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    // JavaScript knows -0, and does not show it.
    if size == 0.0 { "0".to_owned() } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_have_up_to_six_decimals() {
        let table = [
            (0.0, "0"),
            (-1.0, "-1"),
            (0.123456789, "0.123457"),
            (5e-7, "0"),
            (5.1e-7, "0.000001"),
            (1.9999999, "2"),
            (12345.678, "12345.678"),
            (1e15, "1000000000000000"),
            (1.5e20, "150000000000000000000"),
            (1.863_530_612_001_193_7e20, "186353061200119370000"),
            (1e21, "1e+21"),
            (1.234e25, "1.234e+25"),
            (0.0078125, "0.007813"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (number, text) in table {
            assert_eq!(plain(number), text);
        }
    }

    #[test]
    fn times_are_cut_off_after_two_decimals_of_the_unit_that_suits() {
        let table = [
            (0.0, "0s"),
            (1.0, "1ms"),
            (-1.0, "-1000000ns"),
            (0.1, "100µs"),
            (0.123456789, "123.45µs"),
            (1e-7, "0ns"),
            (0.0009999, "999ns"),
            (0.001, "1µs"),
            (9.996, "9.99ms"),
            (999.9999, "999.99ms"),
            (1000.06, "1s"),
            (12345.678, "12.34s"),
            (59999.9, "59.99s"),
            (60000.0, "1m0s"),
            (90500.0, "1m30s"),
            (3599999.9, "59m59s"),
            (3600000.0, "1h0m0s"),
            (123456789.123, "34h17m36s"),
            (1e15, "277777777h46m40s"),
        ];
        for (ms, text) in table {
            assert_eq!(time_ms(ms, None), text, "{ms}");
        }
    }

    #[test]
    fn times_in_one_unit_have_two_decimals() {
        let table = [
            (0.0, "0.00s", "0.00ms", "0.00µs"),
            (-0.5, "-0.00s", "-0.50ms", "-500.00µs"),
            (12345.678, "12.35s", "12345.68ms", "12345678.00µs"),
            (1.5e20, "150000000000000000.00s", "150000000000000000000.00ms", "1.5e+23µs"),
        ];
        for (value, s, ms, us) in table {
            assert_eq!(time_ms(value, Some(TimeUnit::Seconds)), s);
            assert_eq!(time_ms(value, Some(TimeUnit::Milliseconds)), ms);
            assert_eq!(time_ms(value, Some(TimeUnit::Microseconds)), us);
        }
    }

    #[test]
    fn shares_are_cut_off_even_where_binary_fractions_mislead() {
        for (part, whole, text) in [
            (2.0, 3.0, "66.66%"),
            (1.0, 1.0, "100.00%"),
            (29.0, 100.0, "28.99%"),
            (11.0, 1000.0, "1.09%"),
            (999.0, 1000.0, "99.90%"),
            (0.0, 5.0, "0.00%"),
        ] {
            assert_eq!(percent(part / whole), text);
        }
    }

    #[test]
    fn bytes_are_in_powers_of_a_thousand() {
        let table = [
            (0.0, "0 B"),
            (2.5, "2.5 B"),
            (947.0, "947 B"),
            (1020.0, "1.0 kB"),
            (9947.0, "9.9 kB"),
            (9997.0, "10 kB"),
            (99497.0, "100 kB"),
            (999497.0, "1000 kB"),
            (1_499_999.0, "1.5 MB"),
        ];
        for (count, text) in table {
            assert_eq!(bytes(count), text, "{count}");
        }
    }
}
