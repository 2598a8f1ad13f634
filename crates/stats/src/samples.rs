//! Samples of failures: what people want to see of an error beyond its count.
//!
//! Of each kind and step the first message is kept, with its exchange where there is one, and a few
//! more over the time of the run. What is kept beyond the first of each is bounded by bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::layout::Layout;
use crate::result::{ErrorSample, FailureSample, is_remark};

/// Of each kind and step.
const EACH_MAX: usize = 3;
/// Between two of them.
const APART: Duration = Duration::from_secs(4);
/// Of all but the first of each.
const BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct FailureSamples {
    /// In the order in which they came.
    kept: BTreeMap<(usize, ErrorKind), Vec<FailureSample>>,
    /// Of all but the first of each.
    bytes: usize,
}

impl FailureSamples {
    pub fn note(&mut self, step: usize, kind: ErrorKind, sample: FailureSample) {
        let known = self.kept.entry((step, kind)).or_default();
        let Some(last) = known.last_mut() else {
            known.push(sample);
            return;
        };
        // A remark is told only as long as nothing is wrong.
        if is_remark(&sample.message) {
            return;
        }
        let shows_more = last.exchange.is_none() && sample.exchange.is_some();
        if is_remark(&last.message) || shows_more {
            *last = FailureSample { at: last.at, ..sample };
            return;
        }
        let apart = sample.at.saturating_sub(last.at) >= APART;
        let bytes = sample.message.len() + sample.exchange.as_ref().map_or(0, String::len);
        if apart && known.len() < EACH_MAX && self.bytes + bytes <= BYTES_MAX {
            self.bytes += bytes;
            known.push(sample);
        }
    }

    /// Most frequent first. `count`: how often a kind occurred at a step.
    pub fn results(&self, count: impl Fn(usize, ErrorKind) -> u64) -> Vec<ErrorSample> {
        let result = |(&(step, kind), samples): (&(usize, ErrorKind), &Vec<FailureSample>)| {
            let (first, later) = samples.split_first()?;
            Some(ErrorSample {
                kind,
                step,
                count: count(step, kind),
                at: first.at,
                message: first.message.clone(),
                exchange: first.exchange.clone(),
                later: later.to_vec(),
            })
        };
        let mut results: Vec<ErrorSample> = self.kept.iter().filter_map(result).collect();
        results.sort_by_key(|sample| std::cmp::Reverse(sample.count));
        results
    }

    /// The first message of each kind, with its step.
    pub fn messages(&self) -> impl Iterator<Item = (usize, &str)> {
        let kept = self.kept.iter();
        kept.filter_map(|(&(step, _), kept)| Some((step, kept.first()?.message.as_str())))
    }

    pub fn is_sound(&self, layout: &Layout) -> bool {
        let steps = layout.steps.len();
        self.kept.iter().all(|((step, _), kept)| *step < steps && kept.len() <= EACH_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, message: &str, exchange: Option<&str>) -> FailureSample {
        FailureSample {
            at: Duration::from_secs(second),
            message: message.to_owned(),
            exchange: exchange.map(str::to_owned),
        }
    }

    fn shown(samples: &FailureSamples) -> Vec<(u64, String, bool)> {
        let results = samples.results(|_, _| 1);
        let first = results.iter().map(|one| (one.at, &one.message, one.exchange.is_some()));
        let later = results.iter().flat_map(|one| &one.later);
        let later = later.map(|one| (one.at, &one.message, one.exchange.is_some()));
        first.chain(later).map(|(at, text, whole)| (at.as_secs(), text.clone(), whole)).collect()
    }

    #[test]
    fn three_samples_of_a_kind_are_kept_some_time_apart() {
        let mut samples = FailureSamples::default();
        for second in 0..100 {
            samples.note(
                0,
                ErrorKind::Status,
                sample(second, &format!("at {second}"), Some("GET")),
            );
        }
        let kept: Vec<u64> = shown(&samples).iter().map(|one| one.0).collect();
        assert_eq!(kept, [0, 4, 8]);
    }

    #[test]
    fn a_message_with_its_exchange_takes_the_place_of_one_without() {
        let mut samples = FailureSamples::default();
        samples.note(0, ErrorKind::Status, sample(1, "500", None));
        samples.note(0, ErrorKind::Status, sample(2, "500 again", Some("GET /")));
        assert_eq!(shown(&samples), [(1, "500 again".to_owned(), true)]);
    }

    #[test]
    fn samples_are_bounded_by_bytes() {
        let mut samples = FailureSamples::default();
        let large = "x".repeat(100 << 10);
        for step in 0..10 {
            for second in [0, 10, 20] {
                samples.note(step, ErrorKind::Status, sample(second, "500", Some(&large)));
            }
        }
        assert!(samples.bytes <= BYTES_MAX);
        assert_eq!(shown(&samples).len(), 12, "the first of each, and two more");
    }
}
