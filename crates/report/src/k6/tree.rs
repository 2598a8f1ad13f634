//! Groups within groups, and checks in order: what readers see of the places where a run counted.

use stats::series::{CheckNode, MetricId, Place, SeriesLayout, SeriesWindow, Sink};

/// A group, what was checked and counted in it, and the groups within.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub name: &'a str,
    /// `::outer::inner`; the root's is empty.
    pub path: String,
    pub checks: Vec<Check<'a>>,
    /// By metric; only with sections on.
    pub sinks: Vec<(MetricId, Sink)>,
    pub groups: Vec<Group<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Check<'a> {
    pub name: &'a str,
    pub passes: u64,
    pub fails: u64,
}

impl<'a> Group<'a> {
    /// The tree of all places that are wanted, merged over scenarios.
    pub(super) fn tree(
        layout: &SeriesLayout,
        total: &'a SeriesWindow,
        wanted: impl Fn(&Place) -> bool,
    ) -> Group<'a> {
        let mut root = Group::default();
        for place in total.places().into_iter().filter(|place| wanted(place)) {
            let group = root.descend(&place.group);
            add_checks(&mut group.checks, place.checks());
            for (metric, _) in layout.metrics() {
                if let Some(sink) = place.sink(metric) {
                    group.add_sink(metric, sink);
                }
            }
        }
        root
    }

    /// The group at a path, made with all that lead to it.
    fn descend(&mut self, path: &'a str) -> &mut Group<'a> {
        let mut group = self;
        for name in path.split("::").skip(1) {
            let at = match group.groups.iter().position(|known| known.name == name) {
                Some(at) => at,
                None => {
                    let path = format!("{}::{name}", group.path);
                    group.groups.push(Group { name, path, ..Group::default() });
                    group.groups.len() - 1
                }
            };
            group = &mut group.groups[at];
        }
        group
    }

    fn add_sink(&mut self, metric: MetricId, sink: &Sink) {
        match self.sinks.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, mine)) => mine.merge(sink),
            None => self.sinks.push((metric, sink.clone())),
        }
    }

    /// Everything that was counted here and in the groups within.
    pub(super) fn all_sinks(&self) -> Vec<(MetricId, Sink)> {
        let mut all = Group { sinks: self.sinks.clone(), ..Group::default() };
        for group in &self.groups {
            group.all_sinks().iter().for_each(|(metric, sink)| all.add_sink(*metric, sink));
        }
        all.sinks
    }
}

/// Checks by name, wherever they were made, in order of first appearance.
pub(super) fn all_checks<'a>(
    total: &'a SeriesWindow,
    wanted: impl Fn(&Place) -> bool,
) -> Vec<Check<'a>> {
    let places = total.places().into_iter().filter(|place| wanted(place));
    let mut nodes: Vec<&CheckNode> = places.flat_map(Place::checks).collect();
    nodes.sort_by_key(|node| node.first_seen());
    let mut checks = Vec::new();
    add_checks(&mut checks, nodes);
    checks
}

fn add_checks<'a>(checks: &mut Vec<Check<'a>>, nodes: Vec<&'a CheckNode>) {
    // Thousands of names are rare, but must not take seconds.
    let mut known: std::collections::HashMap<&str, usize> =
        checks.iter().enumerate().map(|(at, check)| (check.name, at)).collect();
    for node in nodes {
        let at = *known.entry(&node.name).or_insert_with(|| {
            checks.push(Check { name: &node.name, passes: 0, fails: 0 });
            checks.len() - 1
        });
        checks[at].passes += node.passes;
        checks[at].fails += node.fails;
    }
}
