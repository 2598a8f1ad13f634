//! Whether the thresholds of a script hold.
//!
//! - **During the run**, over everything since the start: metrics without a value are passed over,
//!   so that nothing aborts before it has begun ([`Thresholds::evaluate`]).
//! - **At the end**, a counter, gauge or trend without a value is judged as 0, so `count>0` of
//!   nothing fails and `p(95)<200` of nothing holds. The rate of nothing is no number: it holds,
//!   whatever was asked ([`Thresholds::finish`]).
//! - A threshold that was broken in between and holds at the end has held, unless it aborted.

use std::time::Duration;

use super::MetricId;
use super::layout::{SeriesLayout, SeriesThreshold, SubId};
use super::sink::Sink;
use super::window::SeriesWindow;

/// What a threshold speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub metric: MetricId,
    pub sub: Option<SubId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdOutcome {
    pub target: Target,
    /// `http_req_duration{status:200}`
    pub key: String,
    /// As the script has it: `p(95)<200`.
    pub text: String,
    pub ok: bool,
    /// What was compared; `None` for the rate of nothing, and for what was not yet evaluated.
    pub value: Option<f64>,
    /// This one ends the run when broken.
    pub abort: bool,
    delay_abort: Duration,
}

/// All thresholds of a run, and how they stood when last looked at.
#[derive(Debug, Clone, Default)]
pub struct Thresholds {
    outcomes: Vec<ThresholdOutcome>,
}

impl Thresholds {
    pub fn new(layout: &SeriesLayout) -> Thresholds {
        let outcome = |threshold: &SeriesThreshold| {
            let target = Target { metric: threshold.metric, sub: threshold.sub };
            ThresholdOutcome {
                target,
                key: layout.key(target).to_owned(),
                text: threshold.spec.text.clone(),
                ok: true,
                value: None,
                abort: threshold.spec.abort_on_fail,
                delay_abort: threshold.spec.delay_abort_eval,
            }
        };
        Thresholds { outcomes: layout.thresholds().iter().map(outcome).collect() }
    }

    /// How they stand now, in the order of the script.
    pub fn evaluate(
        &mut self,
        layout: &SeriesLayout,
        total: &SeriesWindow,
        elapsed: Duration,
    ) -> &[ThresholdOutcome] {
        self.judge(layout, total, elapsed, false);
        &self.outcomes
    }

    /// The final word.
    pub fn finish(
        mut self,
        layout: &SeriesLayout,
        total: &SeriesWindow,
        elapsed: Duration,
    ) -> Vec<ThresholdOutcome> {
        self.judge(layout, total, elapsed, true);
        self.outcomes
    }

    fn judge(&mut self, layout: &SeriesLayout, total: &SeriesWindow, elapsed: Duration, end: bool) {
        for (outcome, threshold) in self.outcomes.iter_mut().zip(layout.thresholds()) {
            let empty;
            let sink = match total.target_sink(outcome.target) {
                Some(sink) => sink,
                None => {
                    empty = Sink::new(layout.get(threshold.metric).kind);
                    &empty
                }
            };
            if sink.is_empty() && !end {
                continue;
            }
            let hold = threshold.hold;
            outcome.value = sink.value(hold.aggregation, elapsed);
            outcome.ok = outcome.value.is_none_or(|value| hold.op.holds(value, hold.value));
        }
    }

    /// The outcomes with these values, as another process found them; `None` if they are not as
    /// many.
    pub(crate) fn restored(
        mut self,
        found: &[(Option<f64>, bool)],
    ) -> Option<Vec<ThresholdOutcome>> {
        if self.outcomes.len() != found.len() {
            return None;
        }
        for (outcome, found) in self.outcomes.iter_mut().zip(found) {
            (outcome.value, outcome.ok) = *found;
        }
        Some(self.outcomes)
    }

    /// The first that is broken, by the last evaluation, and may end the run by now.
    pub fn broken_abort(&self, elapsed: Duration) -> Option<&ThresholdOutcome> {
        self.outcomes
            .iter()
            .find(|outcome| outcome.abort && !outcome.ok && elapsed > outcome.delay_abort)
    }

    pub fn outcomes(&self) -> &[ThresholdOutcome] {
        &self.outcomes
    }
}

impl SeriesWindow {
    pub fn target_sink(&self, target: Target) -> Option<&Sink> {
        match target.sub {
            Some(sub) => self.sub_sink(sub),
            None => self.sink(target.metric),
        }
    }

    /// Whether a summary shows it: it has values, or the script asked for it.
    pub fn is_shown(&self, layout: &SeriesLayout, target: Target) -> bool {
        let wanted = match target.sub {
            Some(sub) => layout.get_sub(sub).wanted,
            None => layout.get(target.metric).wanted,
        };
        wanted || self.target_sink(target).is_some_and(|sink| !sink.is_empty())
    }
}

impl SeriesLayout {
    /// `http_reqs` or `http_reqs{status:200}`.
    pub fn key(&self, target: Target) -> &str {
        match target.sub {
            Some(sub) => &self.get_sub(sub).key,
            None => &self.get(target.metric).name,
        }
    }

    /// Every metric, each followed by its sub-metrics.
    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.metrics().flat_map(|(metric, known)| {
            let subs = known.subs.iter().map(|sub| Some(*sub));
            std::iter::once(None).chain(subs).map(move |sub| Target { metric, sub })
        })
    }
}

impl From<MetricId> for Target {
    fn from(metric: MetricId) -> Target {
        Target { metric, sub: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Contains, MetricKind, ThresholdSpec, builtin};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn spec(text: &str) -> ThresholdSpec {
        ThresholdSpec {
            text: text.to_owned(),
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
        }
    }

    /// Which hold at the end.
    fn verdicts(layout: &SeriesLayout, total: &SeriesWindow) -> Vec<(String, bool)> {
        let outcomes = Thresholds::new(layout).finish(layout, total, 2 * SECOND);
        outcomes.into_iter().map(|outcome| (outcome.text, outcome.ok)).collect()
    }

    #[test]
    fn metrics_without_a_value_are_judged_as_the_reference_does() {
        let mut layout = SeriesLayout::new();
        for (name, kind) in [
            ("cc", MetricKind::Counter),
            ("gg", MetricKind::Gauge),
            ("rr", MetricKind::Rate),
            ("tt", MetricKind::Trend),
        ] {
            layout.metric(name, kind, Contains::Default).unwrap();
        }
        let table = [
            ("cc", "count>0", false),
            ("cc", "rate<5", true),
            ("gg", "value>0", false),
            ("gg", "value==0", true),
            ("rr", "rate>0.99", true),
            ("rr", "rate<0.01", true),
            ("tt", "avg>0", false),
            ("tt", "p(95)<200", true),
            ("tt", "avg<NaN", false),
            ("tt{a:b}", "min<1", true),
        ];
        for (key, text, _) in table {
            layout.threshold(key, &[spec(text)]).unwrap();
        }
        let expected: Vec<_> = table.iter().map(|(_, text, ok)| (text.to_string(), *ok)).collect();
        let total = SeriesWindow::new(&layout);
        assert_eq!(verdicts(&layout, &total), expected);
        let during = Thresholds::new(&layout).evaluate(&layout, &total, SECOND).to_vec();
        assert!(during.iter().all(|outcome| outcome.ok && outcome.value.is_none()));
    }

    #[test]
    fn values_are_compared_by_sub_metric_and_time_of_the_test() {
        let mut layout = SeriesLayout::new();
        layout.threshold("http_reqs", &[spec("rate==1.5"), spec("count>=4")]).unwrap();
        layout.threshold("http_reqs{status:500}", &[spec("count<2")]).unwrap();
        layout.threshold("vus", &[spec("value===7")]).unwrap();
        let mut total = SeriesWindow::new(&layout);
        for status in ["200", "500", "500"] {
            total.record(&layout, builtin::HTTP_REQS, 1.0, 0, &[("status", status)]);
        }
        total.record(&layout, builtin::VUS, 7.0, 3, &());
        let verdicts: Vec<bool> = verdicts(&layout, &total).iter().map(|(_, ok)| *ok).collect();
        assert_eq!(verdicts, [true, false, false, true]);
    }

    #[test]
    fn an_abort_waits_for_its_delay_and_forgets_what_was_mended() {
        let mut layout = SeriesLayout::new();
        let abort =
            ThresholdSpec { abort_on_fail: true, delay_abort_eval: SECOND, ..spec("rate>0.5") };
        layout.threshold("checks", &[abort]).unwrap();
        let mut total = SeriesWindow::new(&layout);
        let mut thresholds = Thresholds::new(&layout);
        thresholds.evaluate(&layout, &total, 5 * SECOND);
        assert!(thresholds.broken_abort(5 * SECOND).is_none(), "nothing was checked yet");
        total.check(&layout, "", "c", false, 0, &());
        thresholds.evaluate(&layout, &total, SECOND);
        assert!(thresholds.broken_abort(SECOND).is_none());
        assert_eq!(thresholds.broken_abort(2 * SECOND).unwrap().text, "rate>0.5");
        (0..2).for_each(|_| total.check(&layout, "", "c", true, 0, &()));
        assert!(thresholds.evaluate(&layout, &total, 2 * SECOND)[0].ok);
        assert!(thresholds.broken_abort(2 * SECOND).is_none());
    }
}
