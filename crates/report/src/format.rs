//! Numbers as people read them: three significant digits, a unit, thousands separated.
//!
//! Used by the summary, the live view and the plain progress lines, so that one value looks the
//! same in all.

use stats::Unit;

/// A time given in milliseconds: `0`, `87µs`, `1.23ms`, `45.6s`, `2m05s`, `1h02m`.
pub fn time_ms(ms: f64) -> String {
    if !ms.is_finite() || ms <= 0.0 {
        return "0".to_owned();
    }
    // Each limit is where rounding to three digits would print 1000 of the smaller unit.
    if ms < 0.9995 {
        format!("{}µs", digits(ms * 1e3))
    } else if ms < 999.5 {
        format!("{}ms", digits(ms))
    } else if ms < 59_950.0 {
        format!("{}s", digits(ms / 1e3))
    } else {
        let seconds = (ms / 1e3).round() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
            (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
        }
    }
}

/// A moment of a run: less than a millisecond after its start is its start.
pub fn moment(at: std::time::Duration) -> String {
    time_ms((at.as_secs_f64() * 1e3).trunc())
}

/// `1,234,567`
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// For columns: exact up to seven digits, then `12.3M`.
pub fn count_short(n: u64) -> String {
    count_within(n, "9,999,999".len())
}

/// Exact if it fits in so many characters, else with three digits: `1.23M`.
pub fn count_within(n: u64, width: usize) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let exact = count(n);
    let unit = UNITS.into_iter().find(|(size, _)| n as f64 >= *size);
    match unit {
        Some((size, name)) if exact.len() > width => format!("{}{name}", digits(n as f64 / size)),
        _ => exact,
    }
}

/// Events per second, without the unit: `0.25`, `98.7`, `12,345`.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second <= 0.0 {
        return "0".to_owned();
    }
    if per_second < 99.95 {
        digits(per_second)
    } else if per_second < 999.95 {
        format!("{per_second:.1}")
    } else {
        count_within(per_second.round() as u64, 7)
    }
}

/// `0 B`, `12.3 kB`, `4.56 MB`: powers of 1000, as k6 and network people count.
pub fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if !n.is_finite() || n < 999.5 {
        return format!("{:.0} B", n.max(0.0));
    }
    let (mut value, mut unit) = (n / 1e3, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{} {}", digits(value), UNITS[unit])
}

/// `93.1%` of a fraction. Rounded towards zero: 99.996 % is not "100%", one failure in a million
/// not "0%".
pub fn percent(fraction: f64) -> String {
    if !fraction.is_finite() || fraction <= 0.0 {
        return "0%".to_owned();
    }
    let hundredths = (fraction * 1e4 + 1e-6).floor();
    if hundredths < 1.0 {
        return "<0.01%".to_owned();
    }
    format!("{}%", trimmed(hundredths / 100.0, 2))
}

/// `part` of `whole` as a percentage; nothing of nothing is 0 %.
pub fn share(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// A measured value in the unit of its metric.
pub fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds => time_ms(value),
        Unit::Fraction => percent(value),
        Unit::PerSecond => format!("{}/s", rate(value)),
        Unit::Count if value.fract() == 0.0 && value >= 0.0 => count(value as u64),
        Unit::Count | Unit::Plain => plain(value),
    }
}

/// A number without a unit: whole numbers with separators, others with up to three decimals.
pub fn plain(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        count(value as u64)
    } else {
        trimmed(value, 3)
    }
}

/// To three digits, which is what a histogram knows.
pub fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    if decimals == 0 && value > 0.0 {
        count(value.round() as u64)
    } else {
        trimmed(value, decimals)
    }
}

/// `1 request`, `2 requests`.
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Removes what could command a terminal: text from a server is shown, never obeyed.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// At most `width` characters, the cut marked.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// The text for a reader whose locale has nothing but ASCII; as long as before, so that columns
/// stay in line.
pub fn ascii(text: &str) -> String {
    text.chars().map(ascii_char).collect()
}

/// What stands for `c` where there is nothing but ASCII.
pub fn ascii_char(c: char) -> char {
    match c {
        c if c.is_ascii() => c,
        '✓' => '+',
        '✗' | '×' => 'x',
        '→' | '↳' => '>',
        '…' => '~',
        'µ' | 'μ' => 'u',
        '•' => '*',
        '—' | '–' | '·' | '▃' => '-',
        '│' | '⠋' | '⠦' => '|',
        '⠙' | '⠇' => '/',
        '⠸' | '⠏' => '-',
        '⠴' | '⠛' => '\\',
        '‖' | '▄' => '=',
        '■' | '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '░' | '▏' | '▎' | '▍' | '▁' => '.',
        '▂' => ':',
        '▅' => '+',
        '▆' => '*',
        '▇' => '%',
        '\u{a0}' => ' ',
        _ => '?',
    }
}

/// Three significant digits for 1 <= value < 1000.
fn digits(value: f64) -> String {
    if value < 9.995 {
        trimmed_to(value, 2)
    } else if value < 99.95 {
        trimmed_to(value, 1)
    } else {
        format!("{value:.0}")
    }
}

/// Fixed decimals, so that columns line up.
fn trimmed_to(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

/// Up to `decimals`, without zeros at the end.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_suits_them() {
        let table = [
            (0.0, "0"),
            (0.0004, "0.40µs"),
            (0.087, "87.0µs"),
            (0.9994, "999µs"),
            (0.9996, "1.00ms"),
            (12.34, "12.3ms"),
            (999.4, "999ms"),
            (999.6, "1.00s"),
            (45_600.0, "45.6s"),
            (59_960.0, "1m00s"),
            (125_000.0, "2m05s"),
            (3_720_000.0, "1h02m"),
        ];
        for (ms, text) in table {
            assert_eq!(time_ms(ms), text, "{ms}");
        }
    }

    #[test]
    fn counts_rates_and_bytes_are_separated_and_scaled() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count_short(9_999_999), "9,999,999");
        assert_eq!(count_short(12_345_678), "12.3M");
        assert_eq!(count_within(999_999, 7), "999,999");
        assert_eq!(count_within(1_234_567, 7), "1.23M");
        assert_eq!(rate(0.25), "0.25");
        assert_eq!(rate(98.74), "98.7");
        assert_eq!(rate(123.45), "123.5");
        assert_eq!(rate(12_345.6), "12,346");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999.6), "1.00 kB");
        assert_eq!(bytes(4_560_000.0), "4.56 MB");
    }

    #[test]
    fn a_percentage_never_rounds_a_failure_away() {
        assert_eq!(percent(0.999_96), "99.99%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.000_001), "<0.01%");
        assert_eq!(percent(0.93), "93%");
        assert_eq!(share(0, 0), "0%");
    }

    #[test]
    fn text_for_ascii_terminals_has_the_same_length_and_nothing_else() {
        let text = "✓ 87.0µs × 3 → ✗ abc… │ • ↳ 1% — ▁▂▃▄▅▆▇█▏▌░ Bücher";
        let plain = ascii(text);
        assert_eq!(plain, "+ 87.0us x 3 > x abc~ | * > 1% - .:-=+*%#.#. B?cher");
        assert_eq!(plain.len(), text.chars().count());
    }

    #[test]
    fn text_from_a_server_cannot_command_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\r\nc"), "a\u{fffd}[2Jb  c");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("abcd", 4), "abcd");
    }
}
