//! What one core counted of a script's metrics between two swaps, and the sum of such windows.

use super::layout::{SeriesLayout, SubId};
use super::sink::Sink;
use super::tree::{Place, Tree};
use super::{MetricId, Tags, builtin};

#[derive(Debug, Clone)]
pub struct SeriesWindow {
    /// Indexed by [`MetricId`].
    pub(crate) metrics: Vec<Sink>,
    /// Indexed by [`SubId`].
    pub(crate) subs: Vec<Sink>,
    pub(crate) tree: Tree,
}

impl SeriesWindow {
    pub fn new(layout: &SeriesLayout) -> SeriesWindow {
        let mut window =
            SeriesWindow { metrics: Vec::new(), subs: Vec::new(), tree: Tree::default() };
        window.grow(layout);
        window
    }

    /// A script may make metrics after the first windows were made.
    #[cold]
    fn grow(&mut self, layout: &SeriesLayout) {
        let metrics = layout.metrics().skip(self.metrics.len());
        self.metrics.extend(metrics.map(|(_, metric)| Sink::new(metric.kind)));
        let subs = layout.subs().skip(self.subs.len());
        self.subs.extend(subs.map(|(_, sub)| Sink::new(layout.get(sub.metric).kind)));
    }

    /// One value. `at_ns`: since the run began; it decides which value of a gauge is the last.
    ///
    /// Tags are asked for only if the metric has sub-metrics, or sections are on. NaN is ignored.
    #[inline]
    pub fn record(
        &mut self,
        layout: &SeriesLayout,
        metric: MetricId,
        value: f64,
        at_ns: u64,
        tags: &dyn Tags,
    ) {
        if metric.0 as usize >= self.metrics.len() {
            self.grow(layout);
        }
        let Some(sink) = self.metrics.get_mut(metric.0 as usize) else {
            debug_assert!(false, "metric {metric:?} is not in the layout");
            return;
        };
        sink.record(value, at_ns);
        let known = layout.get(metric);
        for sub in &known.subs {
            if layout.get_sub(*sub).matches(tags) {
                self.record_sub(layout, *sub, value, at_ns);
            }
        }
        if layout.sections() {
            self.record_in_place(layout, metric, value, at_ns, tags);
        }
    }

    fn record_sub(&mut self, layout: &SeriesLayout, sub: SubId, value: f64, at_ns: u64) {
        if sub.0 as usize >= self.subs.len() {
            self.grow(layout);
        }
        self.subs[sub.0 as usize].record(value, at_ns);
    }

    fn record_in_place(
        &mut self,
        layout: &SeriesLayout,
        metric: MetricId,
        value: f64,
        at_ns: u64,
        tags: &dyn Tags,
    ) {
        let scenario = tags.tag("scenario").unwrap_or_default();
        let group = tags.tag("group").unwrap_or_default();
        if let Some(place) = self.tree.place(scenario, group, at_ns) {
            place.sink_mut(metric.0 as usize, layout.get(metric).kind).record(value, at_ns);
        }
    }

    /// One check: `group` is empty or `::outer::inner`. The tags `check` and `group` need not be
    /// among the others.
    pub fn check(
        &mut self,
        layout: &SeriesLayout,
        group: &str,
        name: &str,
        ok: bool,
        at_ns: u64,
        tags: &dyn Tags,
    ) {
        let tags = CheckTags { check: name, group, others: tags };
        self.record(layout, builtin::CHECKS, f64::from(u8::from(ok)), at_ns, &tags);
        let scenario = scenario_of(layout, &tags);
        self.tree.check(scenario, group, name, at_ns, [u64::from(ok), u64::from(!ok)]);
    }

    /// A group was entered: it appears even if nothing is counted in it.
    pub fn group(&mut self, layout: &SeriesLayout, path: &str, at_ns: u64, tags: &dyn Tags) {
        self.tree.enter(scenario_of(layout, tags), path, at_ns);
    }

    pub fn merge(&mut self, other: &SeriesWindow) {
        for (mine, theirs) in [(&mut self.metrics, &other.metrics), (&mut self.subs, &other.subs)] {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                mine.merge(theirs);
            }
            let missing = mine.len().min(theirs.len());
            mine.extend_from_slice(&theirs[missing..]);
        }
        self.tree.merge(&other.tree);
    }

    /// Back to zero, memory kept, so that a recorder can use it again.
    pub fn clear(&mut self) {
        self.metrics.iter_mut().chain(&mut self.subs).for_each(Sink::clear);
        self.tree.clear();
    }

    /// `None`: made after this window, so without any value.
    pub fn sink(&self, metric: MetricId) -> Option<&Sink> {
        self.metrics.get(metric.0 as usize)
    }

    /// `None`: made after this window, so without any value.
    pub fn sub_sink(&self, sub: SubId) -> Option<&Sink> {
        self.subs.get(sub.0 as usize)
    }

    /// Groups, in order of first appearance. Outer groups appear only if something was counted in
    /// them or they were entered.
    pub fn places(&self) -> Vec<&Place> {
        self.tree.places()
    }

    /// Checks that are in the metric, but not in the tree, because it was full.
    pub fn checks_left_out(&self) -> u64 {
        self.tree.left_out()
    }
}

fn scenario_of<'a>(layout: &SeriesLayout, tags: &'a dyn Tags) -> &'a str {
    if layout.sections() { tags.tag("scenario").unwrap_or_default() } else { "" }
}

/// A check's own tags before those of its surroundings.
struct CheckTags<'a> {
    check: &'a str,
    group: &'a str,
    others: &'a dyn Tags,
}

impl Tags for CheckTags<'_> {
    fn tag(&self, key: &str) -> Option<&str> {
        match key {
            "check" => Some(self.check),
            "group" => Some(self.group),
            _ => self.others.tag(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Contains, MetricKind};
    use super::*;

    /// Fails the test if somebody asks for a tag.
    struct Untouchable;

    impl Tags for Untouchable {
        fn tag(&self, key: &str) -> Option<&str> {
            panic!("nobody needs the tag {key}");
        }
    }

    #[test]
    fn tags_are_asked_for_only_where_somebody_needs_them() {
        let layout = SeriesLayout::new();
        let mut window = SeriesWindow::new(&layout);
        window.record(&layout, builtin::HTTP_REQ_BLOCKED, 0.0, 1, &Untouchable);
        window.check(&layout, "::g", "ok", true, 1, &Untouchable);
        let sink = window.sink(builtin::HTTP_REQ_BLOCKED).unwrap();
        assert_eq!(sink.samples(), 1);
    }

    #[test]
    fn sub_metrics_take_the_values_whose_tags_match() {
        let mut layout = SeriesLayout::new();
        layout.threshold("http_reqs{status:200,scenario:one}", &[]).unwrap();
        layout.threshold("checks{check:fast}", &[]).unwrap();
        let mut window = SeriesWindow::new(&layout);
        let mut request = |tags: &dyn Tags| {
            window.record(&layout, builtin::HTTP_REQS, 1.0, 0, tags);
            window.record(&layout, builtin::HTTP_REQ_DURATION, 2.0, 0, tags);
        };
        request(&[("status", "200"), ("scenario", "one"), ("expected_response", "true")]);
        request(&[("status", "200"), ("scenario", "two"), ("expected_response", "true")]);
        request(&[("status", "200")]);
        window.check(&layout, "", "fast", true, 0, &());
        window.check(&layout, "", "slow", false, 0, &());
        let samples = |sub| window.sub_sink(SubId(sub)).unwrap().samples();
        assert_eq!([samples(0), samples(1), samples(2)], [2, 1, 1]);
    }

    #[test]
    fn sections_count_each_group_of_each_scenario() {
        let mut layout = SeriesLayout::new();
        layout.set_sections(true);
        let mut window = SeriesWindow::new(&layout);
        for (scenario, group) in [("one", ""), ("one", "::g"), ("two", "::g"), ("one", "::g")] {
            let tags = [("scenario", scenario), ("group", group)];
            window.record(&layout, builtin::HTTP_REQS, 1.0, 5, &tags);
            window.check(&layout, group, "c", true, 6, &tags);
        }
        let mut sum = SeriesWindow::new(&layout);
        sum.merge(&window);
        sum.merge(&window);
        let rows: Vec<_> = sum
            .places()
            .iter()
            .map(|place| {
                let requests = place.sink(builtin::HTTP_REQS).unwrap().samples();
                (place.scenario.to_string(), place.group.to_string(), requests)
            })
            .collect();
        let row = |scenario: &str, group: &str, n| (scenario.to_owned(), group.to_owned(), n);
        assert_eq!(rows, [row("one", "", 2), row("one", "::g", 4), row("two", "::g", 2)]);
    }

    #[test]
    fn a_window_grows_with_the_layout_and_so_does_a_sum() {
        let mut layout = SeriesLayout::new();
        let mut window = SeriesWindow::new(&layout);
        let mut sum = SeriesWindow::new(&layout);
        let id = layout.metric("later", MetricKind::Counter, Contains::Default).unwrap();
        layout.threshold("later{a:b}", &[]).unwrap();
        assert!(sum.sink(id).is_none());
        window.record(&layout, id, 2.0, 0, &[("a", "b")]);
        sum.merge(&window);
        sum.merge(&SeriesWindow::new(&SeriesLayout::new()));
        assert_eq!(sum.sink(id).unwrap().samples(), 1);
        assert_eq!(sum.sub_sink(SubId(1)).unwrap().samples(), 1);
        window.clear();
        assert!(window.sink(id).unwrap().is_empty());
    }
}
