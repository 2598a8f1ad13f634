//! `summaryTrendStats` and `summaryTimeUnit`.

use std::str::FromStr;

use plan::Aggregation;

/// One number of a trend that a summary shows.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendStat {
    /// As the user wrote it: `p(99.90)`.
    pub label: String,
    pub aggregation: Aggregation,
}

impl TrendStat {
    pub fn defaults() -> Vec<TrendStat> {
        ["avg", "min", "med", "max", "p(90)", "p(95)"]
            .iter()
            .filter_map(|label| label.parse().ok())
            .collect()
    }
}

impl FromStr for TrendStat {
    type Err = String;

    fn from_str(text: &str) -> Result<TrendStat, String> {
        let label = text.trim();
        let percent = |text: &str| {
            let number: f64 = text.strip_prefix("p(")?.strip_suffix(')')?.parse().ok()?;
            (0.0..=100.0).contains(&number).then_some(Aggregation::Percentile(number))
        };
        let aggregation = match label {
            "avg" => Some(Aggregation::Avg),
            "min" => Some(Aggregation::Min),
            "med" => Some(Aggregation::Med),
            "max" => Some(Aggregation::Max),
            "count" => Some(Aggregation::Count),
            _ => percent(label),
        };
        let aggregation = aggregation.ok_or_else(|| {
            format!(
                "`{label}` is not a number of a trend; use avg, min, med, max, count or a \
                 percentile such as p(95) or p(99.9)"
            )
        })?;
        Ok(TrendStat { label: label.to_owned(), aggregation })
    }
}

/// All times of a summary in one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
}

impl TimeUnit {
    /// As options have it.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
        }
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeUnit, String> {
        match text {
            "s" => Ok(TimeUnit::Seconds),
            "ms" => Ok(TimeUnit::Milliseconds),
            "us" => Ok(TimeUnit::Microseconds),
            _ => Err(format!("`{text}` is not a time unit for summaries; use s, ms or us")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_keep_the_words_of_the_user() {
        let stat: TrendStat = "p(99.90)".parse().unwrap();
        assert_eq!((&*stat.label, stat.aggregation), ("p(99.90)", Aggregation::Percentile(99.9)));
        assert_eq!("count".parse::<TrendStat>().unwrap().aggregation, Aggregation::Count);
        for wrong in ["p95", "p(101)", "p(-1)", "p(x)", "average", ""] {
            assert!(wrong.parse::<TrendStat>().unwrap_err().contains("p(99.9)"), "{wrong}");
        }
        assert_eq!("us".parse(), Ok(TimeUnit::Microseconds));
        assert!("min".parse::<TimeUnit>().unwrap_err().contains("s, ms or us"));
    }
}
