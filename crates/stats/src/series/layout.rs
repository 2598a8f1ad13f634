//! What a script's run counts: metrics, sub-metrics, thresholds. Made in the init code, then fixed.

use base::names::Likeness;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use plan::{Hold, MetricKind};

use super::expression::{TagFilter, ThresholdError, fits, parse_hold, parse_key};
use super::{Contains, MetricId, Tags, builtin, kind_name};

/// A name's first character aside, so many more are allowed.
const NAME_REST_MAX: usize = 128;

/// Tags with a value of their own for each virtual user or iteration are not counted by.
const NOT_COUNTED_BY: [&str; 2] = ["vu", "iter"];

#[derive(Debug, Clone)]
pub struct SeriesLayout {
    metrics: Vec<SeriesMetric>,
    subs: Vec<SubMetric>,
    thresholds: Vec<SeriesThreshold>,
    by_name: HashMap<String, MetricId>,
    sections: bool,
}

#[derive(Debug, Clone)]
pub struct SeriesMetric {
    pub name: String,
    pub kind: MetricKind,
    pub contains: Contains,
    pub subs: Vec<SubId>,
    /// Named by a threshold, itself or a sub-metric of it: shown even without a value.
    pub wanted: bool,
}

/// Number of a sub-metric in its [`SeriesLayout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubId(pub u32);

/// The values of a metric that have certain tags.
#[derive(Debug, Clone)]
pub struct SubMetric {
    pub metric: MetricId,
    /// As first written, without spaces at the ends: `http_req_duration{status:200}`.
    pub key: String,
    pub tags: TagFilter,
    /// Named by a threshold: shown even without a value.
    pub wanted: bool,
}

impl SubMetric {
    #[inline]
    pub fn matches(&self, tags: &dyn Tags) -> bool {
        self.tags.iter().all(|(tag, value)| tags.tag(tag) == Some(value))
    }

    /// What stands between the braces of the key.
    pub fn filter(&self) -> &str {
        self.key.split_once('{').map_or("", |(_, rest)| rest.strip_suffix('}').unwrap_or(rest))
    }
}

/// A threshold as the script's options give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThresholdSpec {
    pub text: String,
    pub abort_on_fail: bool,
    pub delay_abort_eval: Duration,
}

#[derive(Debug, Clone)]
pub struct SeriesThreshold {
    pub metric: MetricId,
    pub sub: Option<SubId>,
    pub spec: ThresholdSpec,
    pub hold: Hold,
}

/// Why a metric cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricError {
    Name { name: String },
    Kind { name: String, known: MetricKind, wanted: MetricKind },
    Contains { name: String, known: Contains, wanted: Contains },
}

impl std::error::Error for MetricError {}

impl fmt::Display for MetricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricError::Name { name } => write!(
                f,
                "`{name}` cannot be the name of a metric: use 2 to {} ASCII letters, digits and \
                 underscores, the first of them not a digit",
                NAME_REST_MAX + 1
            ),
            MetricError::Kind { name, known, wanted } => write!(
                f,
                "metric `{name}` exists already as a {}, it cannot be a {} too; use another name",
                kind_name(*known),
                kind_name(*wanted)
            ),
            MetricError::Contains { name, known, wanted } => write!(
                f,
                "metric `{name}` exists already with values of type {}, they cannot be of type {} \
                 too; use another name, or the same second argument",
                known.name(),
                wanted.name()
            ),
        }
    }
}

impl Default for SeriesLayout {
    fn default() -> Self {
        SeriesLayout::new()
    }
}

impl SeriesLayout {
    /// With the built-in metrics, and the sub-metric of expected responses.
    pub fn new() -> SeriesLayout {
        let mut layout = SeriesLayout {
            metrics: Vec::new(),
            subs: Vec::new(),
            thresholds: Vec::new(),
            by_name: HashMap::new(),
            sections: false,
        };
        for (name, kind, contains) in builtin::ALL {
            layout.add(name, *kind, *contains);
        }
        let tags = vec![("expected_response".to_owned(), "true".to_owned())];
        layout.sub(builtin::HTTP_REQ_DURATION, "http_req_duration{expected_response:true}", tags);
        layout
    }

    /// The same name, kind and content again gives the same number, because each virtual user runs
    /// the init code.
    pub fn metric(
        &mut self,
        name: &str,
        kind: MetricKind,
        contains: Contains,
    ) -> Result<MetricId, MetricError> {
        if let Some(id) = self.find(name) {
            let known = self.get(id);
            let name = name.to_owned();
            return if known.kind != kind {
                Err(MetricError::Kind { name, known: known.kind, wanted: kind })
            } else if known.contains != contains {
                Err(MetricError::Contains { name, known: known.contains, wanted: contains })
            } else {
                Ok(id)
            };
        }
        if !is_name(name) {
            return Err(MetricError::Name { name: name.to_owned() });
        }
        Ok(self.add(name, kind, contains))
    }

    /// `key` is `name` or `name{tag:value,…}`. An empty list still makes the sub-metric, and shows
    /// the metric. Two keys with equal tags are one sub-metric.
    pub fn threshold(&mut self, key: &str, specs: &[ThresholdSpec]) -> Result<(), ThresholdError> {
        let (name, tags) = parse_key(key)?;
        let Some(metric) = self.find(name) else {
            let (key, name) = (key.to_owned(), name.to_owned());
            let nearest = self.nearest(&name).map(str::to_owned);
            return Err(ThresholdError::UnknownMetric { key, name, nearest });
        };
        let kind = self.get(metric).kind;
        let mut holds = Vec::with_capacity(specs.len());
        for spec in specs {
            let hold = parse_hold(key, &spec.text)?;
            if !fits(kind, hold.aggregation) {
                let operator = spec.text.find(['<', '>', '=', '!']).unwrap_or(spec.text.len());
                return Err(ThresholdError::Aggregation {
                    key: key.to_owned(),
                    text: spec.text.clone(),
                    aggregation: spec.text[..operator].trim().to_owned(),
                    kind,
                });
            }
            holds.push(hold);
        }
        // Spaces at the ends of the filter are not part of the sub-metric's name.
        let filter = key[name.len()..].strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let filter = filter.unwrap_or_default().trim();
        let sub =
            (!tags.is_empty()).then(|| self.sub(metric, &format!("{name}{{{filter}}}"), tags));
        if let Some(sub) = sub {
            self.subs[sub.0 as usize].wanted = true;
        }
        self.metrics[metric.0 as usize].wanted = true;
        let thresholds = specs.iter().zip(holds);
        self.thresholds.extend(thresholds.map(|(spec, hold)| SeriesThreshold {
            metric,
            sub,
            spec: spec.clone(),
            hold,
        }));
        Ok(())
    }

    /// Count also for each group of each scenario, for the full summary.
    pub fn set_sections(&mut self, on: bool) {
        self.sections = on;
    }

    #[inline]
    pub fn sections(&self) -> bool {
        self.sections
    }

    pub fn find(&self, name: &str) -> Option<MetricId> {
        self.by_name.get(name).copied()
    }

    /// # Panics
    /// If the number is not from this layout.
    #[inline]
    pub fn get(&self, id: MetricId) -> &SeriesMetric {
        &self.metrics[id.0 as usize]
    }

    /// # Panics
    /// If the number is not from this layout.
    #[inline]
    pub fn get_sub(&self, id: SubId) -> &SubMetric {
        &self.subs[id.0 as usize]
    }

    /// The built-in ones first, then in the order in which they were made.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = (MetricId, &SeriesMetric)> {
        self.metrics.iter().enumerate().map(|(at, metric)| (MetricId(at as u32), metric))
    }

    pub fn subs(&self) -> impl ExactSizeIterator<Item = (SubId, &SubMetric)> {
        self.subs.iter().enumerate().map(|(at, sub)| (SubId(at as u32), sub))
    }

    /// In the order in which they were given.
    pub fn thresholds(&self) -> &[SeriesThreshold] {
        &self.thresholds
    }

    /// Not one of those that every run has.
    pub fn is_custom(&self, id: MetricId) -> bool {
        id.0 as usize >= builtin::ALL.len()
    }

    /// What works otherwise than its author may think.
    pub fn warnings(&self) -> Vec<String> {
        let of_sub = |sub: &SubMetric| {
            let (tag, _) = sub.tags.iter().find(|(tag, _)| NOT_COUNTED_BY.contains(&&**tag))?;
            Some(format!(
                "threshold on `{}`: nothing is counted by the tag `{tag}`, because each virtual \
                 user and iteration has its own value; use a tag of your own",
                sub.key
            ))
        };
        self.subs.iter().filter_map(of_sub).collect()
    }

    fn add(&mut self, name: &str, kind: MetricKind, contains: Contains) -> MetricId {
        let id = MetricId(self.metrics.len() as u32);
        let (subs, wanted) = (Vec::new(), false);
        self.metrics.push(SeriesMetric { name: name.to_owned(), kind, contains, subs, wanted });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn sub(&mut self, metric: MetricId, key: &str, tags: TagFilter) -> SubId {
        let known = self.get(metric).subs.iter().find(|sub| self.get_sub(**sub).tags == tags);
        if let Some(known) = known {
            return *known;
        }
        let id = SubId(self.subs.len() as u32);
        self.subs.push(SubMetric { metric, key: key.to_owned(), tags, wanted: false });
        self.metrics[metric.0 as usize].subs.push(id);
        id
    }

    fn nearest(&self, wrong: &str) -> Option<&str> {
        let names = self.metrics.iter().map(|metric| metric.name.as_str());
        base::names::closest(wrong, names, Likeness::Third)
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first
        && (1..=NAME_REST_MAX).contains(&bytes.len())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ThresholdSpec {
        ThresholdSpec {
            text: text.to_owned(),
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
        }
    }

    #[test]
    fn names_follow_the_rules_of_the_reference() {
        let mut layout = SeriesLayout::new();
        let mut make = |name: &str| layout.metric(name, MetricKind::Trend, Contains::Default);
        for good in ["ab", "_a", "a1", &"a".repeat(129)] {
            assert!(make(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "1a", "a-b", "a b", "é", "aé", "a.b", &"a".repeat(130)] {
            let error = make(bad).unwrap_err().to_string();
            assert!(error.contains("2 to 129 ASCII"), "{error}");
        }
    }

    #[test]
    fn a_metric_made_again_is_the_same_unless_it_differs() {
        let mut layout = SeriesLayout::new();
        let id = layout.metric("orders", MetricKind::Counter, Contains::Default).unwrap();
        assert_eq!(layout.metric("orders", MetricKind::Counter, Contains::Default), Ok(id));
        let error = layout.metric("orders", MetricKind::Trend, Contains::Default).unwrap_err();
        assert!(error.to_string().contains("already as a counter"), "{error}");
        let error = layout.metric("orders", MetricKind::Counter, Contains::Time).unwrap_err();
        assert!(error.to_string().contains("of type default"), "{error}");
        let built_in = layout.metric("http_req_duration", MetricKind::Trend, Contains::Time);
        assert_eq!(built_in, Ok(builtin::HTTP_REQ_DURATION));
    }

    #[test]
    fn the_numbers_of_built_in_metrics_are_their_places() {
        let layout = SeriesLayout::new();
        assert_eq!(layout.find("vus"), Some(builtin::VUS));
        assert_eq!(layout.find("http_req_receiving"), Some(builtin::HTTP_REQ_RECEIVING));
        assert_eq!(layout.find("ws_connecting"), Some(builtin::WS_CONNECTING));
        assert!(!layout.is_custom(builtin::WS_CONNECTING));
        assert_eq!(layout.get_sub(SubId(0)).key, "http_req_duration{expected_response:true}");
        assert_eq!(layout.get_sub(SubId(0)).filter(), "expected_response:true");
    }

    #[test]
    fn thresholds_make_sub_metrics_once_for_equal_tags() {
        let mut layout = SeriesLayout::new();
        layout.threshold("http_reqs{b:2,a:1}", &[]).unwrap();
        layout.threshold("http_reqs{ a:'1', b:2 }", &[spec("count>1"), spec("rate<5")]).unwrap();
        layout.threshold("http_req_duration{expected_response:true}", &[spec("p(95)<1")]).unwrap();
        assert_eq!(layout.subs().len(), 2);
        assert_eq!(layout.thresholds().len(), 3);
        assert_eq!(layout.thresholds()[2].sub, Some(SubId(0)));
        assert!(layout.get(builtin::HTTP_REQS).wanted);
        layout.threshold("vus{ vu: 1 }", &[]).unwrap();
        assert_eq!(layout.get_sub(SubId(2)).key, "vus{vu: 1}");
        layout.threshold("vus{url:http://x/{id}}", &[]).unwrap();
        assert_eq!(layout.get_sub(SubId(3)).key, "vus{url:http://x/{id}}");
        assert_eq!(layout.warnings().len(), 1);
    }

    #[test]
    fn a_threshold_that_cannot_work_says_what_would() {
        let mut layout = SeriesLayout::new();
        let mut wrong =
            |key: &str, text: &str| layout.threshold(key, &[spec(text)]).unwrap_err().to_string();
        let table = [
            ("http_req_duraton", "p(95)<1", "did you mean `http_req_duration`?"),
            ("surely_not_there", "avg<1", "make it in the init code"),
            ("http_reqs", "avg<1", "a counter has no `avg`; it has `count` and `rate`"),
            ("checks", "count>0", "a rate has no `count`; it has `rate`"),
            ("vus", "max>0", "a gauge has no `max`; it has `value`"),
            ("http_req_duration", "count>0", "`med` and `p(N)`"),
            ("http_req_duration{", "p(95)<1", "must end with `}`"),
            ("{a:b}", "avg<1", "no metric `{a:b}`"),
        ];
        for (key, text, word) in table {
            let error = wrong(key, text);
            assert!(error.contains(word), "{error}");
        }
        assert!(layout.thresholds().is_empty());
    }
}
