//! The places of a script where something is counted: groups, and the checks in them.
//!
//! A place is a group of a scenario. With sections off nobody asks for scenarios, and all groups
//! belong to the scenario without a name.
//!
//! Several cores see the same groups and checks, each at its own time. Each node remembers when it
//! was first seen; of two the earlier counts, so that readers get the order of first appearance
//! whatever order the windows were merged in.

use std::collections::HashMap;

use super::sink::Sink;

/// Places and checks beyond this number are left out, and counted: names made from data would
/// otherwise take memory without end.
pub const TREE_NODES_MAX: usize = 20_000;

/// When a node was first seen: nanoseconds, and what came first at one instant.
pub(crate) type First = (u64, u32);

#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) places: Vec<Place>,
    /// Places by group; the scenarios of a group are few.
    by_group: HashMap<Box<str>, Vec<u32>>,
    pub(crate) nodes: usize,
    /// Checks that were not counted here because the tree was full.
    pub(crate) left_out: u64,
    /// The place that was asked for last: most likely it is asked for again.
    last: usize,
    order: u32,
}

/// A group of a scenario.
#[derive(Debug, Clone)]
pub struct Place {
    /// Empty: values without this tag, or sections are off.
    pub scenario: Box<str>,
    /// `::outer::inner`; empty: outside all groups.
    pub group: Box<str>,
    /// A check was made here, or the group was entered as such. Otherwise only values with its tag
    /// came (setup, teardown).
    pub entered: bool,
    pub(crate) first: First,
    pub(crate) checks: Vec<CheckNode>,
    by_name: HashMap<Box<str>, u32>,
    /// The check that will likely come next: checks are made in the same order each time.
    expected: usize,
    /// By number of metric; with sections off, none.
    pub(crate) sinks: Vec<Option<Sink>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckNode {
    pub name: Box<str>,
    pub passes: u64,
    pub fails: u64,
    pub(crate) first: First,
}

impl Tree {
    /// `None`: the tree is full.
    pub(super) fn place(&mut self, scenario: &str, group: &str, at_ns: u64) -> Option<&mut Place> {
        if !self.places.get(self.last).is_some_and(|place| place.is(scenario, group)) {
            self.last = match self.find(scenario, group) {
                Some(at) => at,
                None => {
                    let first = (at_ns, self.next_order());
                    self.make_place(scenario, group, first)?
                }
            };
        }
        self.places.get_mut(self.last)
    }

    /// Whether there is room for it.
    pub(super) fn enter(&mut self, scenario: &str, group: &str, at_ns: u64) -> bool {
        let place = self.place(scenario, group, at_ns);
        place.map(|place| place.entered = true).is_some()
    }

    pub(crate) fn find(&self, scenario: &str, group: &str) -> Option<usize> {
        let mut places = self.by_group.get(group)?.iter().map(|at| *at as usize);
        places.find(|at| self.places[*at].is(scenario, group))
    }

    #[cold]
    pub(crate) fn make_place(
        &mut self,
        scenario: &str,
        group: &str,
        first: First,
    ) -> Option<usize> {
        if self.nodes >= TREE_NODES_MAX {
            return None;
        }
        self.nodes += 1;
        let at = self.places.len();
        self.by_group.entry(group.into()).or_default().push(at as u32);
        self.places.push(Place {
            scenario: scenario.into(),
            group: group.into(),
            entered: false,
            first,
            checks: Vec::new(),
            by_name: HashMap::new(),
            expected: 0,
            sinks: Vec::new(),
        });
        Some(at)
    }

    pub(super) fn check(
        &mut self,
        scenario: &str,
        group: &str,
        name: &str,
        at_ns: u64,
        counts: [u64; 2],
    ) {
        if !self.enter(scenario, group, at_ns) {
            self.left_out += counts[0] + counts[1];
            return;
        }
        let first = (at_ns, self.next_order());
        let room = self.nodes < TREE_NODES_MAX;
        match self.places[self.last].check(name, first, counts, room) {
            Counted::Known => {}
            Counted::Made => self.nodes += 1,
            Counted::Refused => self.left_out += counts[0] + counts[1],
        }
    }

    fn next_order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.order
    }

    pub(super) fn merge(&mut self, other: &Tree) {
        self.left_out += other.left_out;
        for theirs in &other.places {
            let known = self.find(&theirs.scenario, &theirs.group);
            let at =
                known.or_else(|| self.make_place(&theirs.scenario, &theirs.group, theirs.first));
            let Some(at) = at else {
                self.left_out += theirs.checks.iter().map(CheckNode::total).sum::<u64>();
                continue;
            };
            let room = TREE_NODES_MAX - self.nodes;
            let (mut made, mut refused) = (0, 0);
            let mine = &mut self.places[at];
            mine.first = mine.first.min(theirs.first);
            mine.entered |= theirs.entered;
            for check in &theirs.checks {
                let counts = [check.passes, check.fails];
                match mine.check(&check.name, check.first, counts, made < room) {
                    Counted::Known => {}
                    Counted::Made => made += 1,
                    Counted::Refused => refused += check.total(),
                }
            }
            mine.merge_sinks(&theirs.sinks);
            self.nodes += made;
            self.left_out += refused;
        }
    }

    /// Counts go back to zero; names, and when they were first seen, stay.
    pub(super) fn clear(&mut self) {
        self.left_out = 0;
        for place in &mut self.places {
            for check in &mut place.checks {
                (check.passes, check.fails) = (0, 0);
            }
            place.sinks.iter_mut().flatten().for_each(Sink::clear);
        }
    }

    /// In order of first appearance.
    pub(super) fn places(&self) -> Vec<&Place> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.sort_by_key(|place| place.first);
        places
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

pub(crate) enum Counted {
    Known,
    Made,
    Refused,
}

impl Place {
    fn is(&self, scenario: &str, group: &str) -> bool {
        *self.group == *group && *self.scenario == *scenario
    }

    pub(crate) fn check(
        &mut self,
        name: &str,
        first: First,
        counts: [u64; 2],
        room: bool,
    ) -> Counted {
        let is_it = |check: &CheckNode| *check.name == *name;
        let known = if self.checks.get(self.expected).is_some_and(is_it) {
            Some(self.expected)
        } else {
            self.by_name.get(name).map(|at| *at as usize)
        };
        let (at, counted) = match known {
            Some(at) => (at, Counted::Known),
            None if !room => return Counted::Refused,
            None => {
                let (passes, fails) = (0, 0);
                self.by_name.insert(name.into(), self.checks.len() as u32);
                self.checks.push(CheckNode { name: name.into(), passes, fails, first });
                (self.checks.len() - 1, Counted::Made)
            }
        };
        self.expected = if at + 1 < self.checks.len() { at + 1 } else { 0 };
        let check = &mut self.checks[at];
        check.passes += counts[0];
        check.fails += counts[1];
        check.first = check.first.min(first);
        counted
    }

    /// The sink of a metric here, made if needed.
    pub(crate) fn sink_mut(&mut self, metric: usize, kind: plan::MetricKind) -> &mut Sink {
        if metric >= self.sinks.len() {
            self.sinks.resize_with(metric + 1, || None);
        }
        self.sinks[metric].get_or_insert_with(|| Sink::new(kind))
    }

    fn merge_sinks(&mut self, theirs: &[Option<Sink>]) {
        for (metric, theirs) in theirs.iter().enumerate() {
            if let Some(theirs) = theirs {
                self.sink_mut(metric, theirs.kind()).merge(theirs);
            }
        }
    }

    /// Values that were recorded here, not in groups within; only with sections on.
    pub fn sink(&self, metric: super::MetricId) -> Option<&Sink> {
        self.sinks.get(metric.0 as usize)?.as_ref().filter(|sink| !sink.is_empty())
    }

    /// Checks of this group, not of groups within, in order of first appearance.
    pub fn checks(&self) -> Vec<&CheckNode> {
        let mut checks: Vec<&CheckNode> = self.checks.iter().collect();
        checks.sort_by_key(|check| check.first);
        checks
    }

    /// For putting places of several scenarios in order.
    pub fn first_seen(&self) -> impl Ord + Copy + use<> {
        self.first
    }
}

impl CheckNode {
    pub fn total(&self) -> u64 {
        self.passes + self.fails
    }

    /// For putting checks of several places in order.
    pub fn first_seen(&self) -> impl Ord + Copy + use<> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_first_appearance_whichever_window_comes_first() {
        let (mut one, mut two) = (Tree::default(), Tree::default());
        one.check("", "", "late", 50, [1, 0]);
        two.check("", "::g", "early", 10, [0, 1]);
        two.check("", "", "late", 60, [1, 0]);
        two.check("", "", "first", 20, [1, 0]);
        for pair in [[&one, &two], [&two, &one]] {
            let mut sum = Tree::default();
            pair.iter().for_each(|tree| sum.merge(tree));
            let places = sum.places();
            let groups: Vec<&str> = places.iter().map(|place| &*place.group).collect();
            assert_eq!(groups, ["::g", ""]);
            let checks = places[1].checks();
            let checks: Vec<_> = checks.iter().map(|c| (&*c.name, c.passes)).collect();
            assert_eq!(checks, [("first", 1), ("late", 2)]);
        }
    }

    #[test]
    fn names_made_from_data_are_left_out_when_there_are_too_many() {
        let mut tree = Tree::default();
        for number in 0..TREE_NODES_MAX + 5 {
            tree.check("", "", &format!("item {number}"), 0, [1, 0]);
        }
        // The place is a node too.
        assert_eq!(tree.left_out(), 6);
        let mut sum = Tree::default();
        sum.merge(&tree);
        tree.clear();
        tree.check("", "", "item 3", 0, [0, 1]);
        sum.merge(&tree);
        assert_eq!((sum.left_out(), sum.nodes), (6, TREE_NODES_MAX));
        assert_eq!(sum.places()[0].checks()[3].total(), 2);
    }
}
