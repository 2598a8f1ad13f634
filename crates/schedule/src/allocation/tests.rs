//! Worked examples of shares, and what must hold for every layer.

use plan::Priority::{Auto, Exclusive, High, Low, Normal};
use proptest::prelude::*;

use super::*;
use crate::spread;

const MANY: u32 = 50_000;

fn test(name: &str, priority: Priority) -> Candidate {
    Candidate { name: name.into(), priority, is_test: true, vus_max: MANY, size: Size::Any }
}

fn helper(name: &str, priority: Priority) -> Candidate {
    Candidate { is_test: false, ..test(name, priority) }
}

/// `A 18, B 6 | C 20!`: batches apart by bars, `!` for exclusive.
fn show(batches: &[Vec<Grant>]) -> String {
    let grant = |g: &Grant| format!("{} {}{}", g.name, g.cores, if g.exclusive { "!" } else { "" });
    let batch = |b: &Vec<Grant>| b.iter().map(grant).collect::<Vec<_>>().join(", ");
    batches.iter().map(batch).collect::<Vec<_>>().join(" | ")
}

fn show_waves(waves: &[Wave]) -> String {
    let seat = |s: &Seat| format!("{} {:?}", s.name, s.cores);
    let wave = |w: &Wave| w.iter().map(seat).collect::<Vec<_>>().join(", ");
    waves.iter().map(wave).collect::<Vec<_>>().join(" | ")
}

#[test]
fn priorities_are_ranges_of_the_pool() {
    for (pool, expected) in [
        (24, [(1, 6), (6, 18), (18, 24), (24, 24), (1, 24)]),
        (8, [(1, 2), (2, 6), (6, 8), (8, 8), (1, 8)]),
        (2, [(1, 1), (1, 2), (2, 2), (2, 2), (1, 2)]),
        (1, [(1, 1), (1, 1), (1, 1), (1, 1), (1, 1)]),
        (5, [(1, 2), (2, 4), (4, 5), (5, 5), (1, 5)]),
    ] {
        let ranges = [Low, Normal, High, Exclusive, Auto].map(|priority| range(priority, pool));
        assert_eq!(ranges, expected, "pool of {pool}");
    }
}

#[test]
fn layers_are_partitioned_as_the_worked_examples_say() {
    let few = Candidate { vus_max: 3, ..test("Few", High) };
    let lonely = Candidate { vus_max: 2, ..test("Lonely", Exclusive) };
    for (pool, candidates, expected) in [
        (
            24,
            vec![test("LoadTest", High), helper("DataLoad", Auto), test("Metrics", Low)],
            "DataLoad 1 | LoadTest 18, Metrics 6",
        ),
        (24, vec![test("Only", Auto)], "Only 24"),
        (8, vec![test("Only", Normal)], "Only 6"),
        (24, vec![test("Only", Exclusive)], "Only 24!"),
        (24, vec![helper("Only", High)], "Only 1"),
        (24, vec![test("b", Auto), test("a", Auto)], "a 12, b 12"),
        (25, vec![test("b", Auto), test("a", Auto)], "a 13, b 12"),
        (24, vec![test("a", High), test("b", High)], "a 24 | b 24"),
        (24, vec![test("a", Low), test("b", Exclusive), test("c", Normal)], "b 24! | c 18, a 6"),
        (8, vec![few, test("Rest", Auto)], "Few 3, Rest 5"),
        (8, vec![lonely, test("Rest", Low)], "Lonely 2! | Rest 2"),
        (2, ["a", "b", "c"].map(|name| test(name, Auto)).to_vec(), "a 1, b 1 | c 2"),
        (2, ["a", "b", "c"].map(|name| helper(name, Auto)).to_vec(), "a 1, b 1 | c 1"),
        (4, vec![helper("h", Exclusive), helper("i", Auto)], "h 1! | i 1"),
        (4, vec![], ""),
    ] {
        assert_eq!(show(&partition(&candidates, pool)), expected, "{candidates:?}");
    }
}

#[test]
fn fifty_thousand_users_on_a_normal_share_of_eight_cores_are_8333_each() {
    let batches = partition(&[test("Only", Normal)], 8);
    let users = spread(u64::from(MANY), batches[0][0].cores);
    assert_eq!(users, [8334, 8334, 8333, 8333, 8333, 8333]);
}

#[test]
fn batches_of_a_layer_run_together_and_share_cores_except_exclusive_ones() {
    for (pool, candidates, expected) in [
        (4, vec![test("a", High), test("b", Low)], "a [0, 1, 2], b [3]"),
        (2, vec![test("a", High), test("b", High)], "a [0, 1], b [0, 1]"),
        (
            4,
            vec![test("a", Exclusive), test("b", Low), test("c", Exclusive)],
            "a [0, 1, 2, 3] | c [0, 1, 2, 3] | b [0]",
        ),
        (2, vec![helper("h", Auto), test("a", Auto)], "h [0], a [1, 0]"),
        (1, vec![test("a", High), test("b", Low), helper("h", Auto)], "h [0], a [0], b [0]"),
        (3, vec![test("a", Normal), test("b", High)], "b [0, 1, 2], a [0, 1, 2]"),
    ] {
        let waves = place(&partition(&candidates, pool), pool);
        assert_eq!(show_waves(&waves), expected, "{candidates:?}");
    }
}

#[test]
fn a_plan_is_arranged_layer_by_layer_with_workflows_by_number() {
    let candidates = [test("Setup", Auto), test("LoadTest", High), test("Validate", Exclusive)];
    let arranged = arrange(&[vec![0, 1], vec![2]], &candidates, 4);
    assert_eq!(
        arranged,
        [vec![vec![(1, vec![0, 1, 2]), (0, vec![3])]], vec![vec![(2, vec![0, 1, 2, 3])]]]
    );
}

fn any_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let priority = prop::sample::select(vec![Low, Normal, High, Exclusive, Auto]);
    let size = prop_oneof![
        Just(Size::Any),
        (1..30u32).prop_map(Size::AtMost),
        (1..30u32).prop_map(Size::Exactly)
    ];
    let one = (priority, any::<bool>(), 0..60u32, size);
    prop::collection::vec(one, 0..12).prop_map(|all| {
        let named = |(i, (priority, is_test, vus_max, size))| Candidate {
            name: format!("w{i:02}"),
            priority,
            is_test,
            vus_max,
            size,
        };
        all.into_iter().enumerate().map(named).collect()
    })
}

proptest! {
    #[test]
    fn a_batch_never_exceeds_the_pool_and_every_grant_is_within_its_range(
        candidates in any_candidates(), pool in 1..40usize,
    ) {
        let batches = partition(&candidates, pool);
        let mut names: Vec<&str> = batches.iter().flatten().map(|grant| &*grant.name).collect();
        names.sort_unstable();
        prop_assert_eq!(names, candidates.iter().map(|one| &*one.name).collect::<Vec<_>>());
        for batch in &batches {
            prop_assert!(batch.iter().map(|grant| grant.cores).sum::<usize>() <= pool);
            prop_assert!(batch.len() == 1 || batch.iter().all(|grant| !grant.exclusive));
            for grant in batch {
                let one = candidates.iter().find(|one| one.name == grant.name).unwrap();
                let (min, max) = if one.is_test { range(one.priority, pool) } else { (1, 1) };
                let (min, max) = match one.size {
                    Size::Any => (min, max),
                    Size::AtMost(most) => (min.min(most as usize), max.min(most as usize)),
                    Size::Exactly(cores) => (pool.min(cores as usize), pool.min(cores as usize)),
                };
                let users = (one.vus_max as usize).max(1);
                prop_assert!(grant.cores >= min.min(users) && grant.cores <= max.min(users));
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        (candidates, shuffled) in any_candidates()
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        pool in 1..40usize,
    ) {
        prop_assert_eq!(partition(&candidates, pool), partition(&shuffled, pool));
    }

    #[test]
    fn what_runs_together_does_not_depend_on_the_number_of_cores(
        candidates in any_candidates(), pool in 1..40usize, other in 1..40usize,
    ) {
        let waves = |pool| -> Vec<Vec<String>> {
            let waves = place(&partition(&candidates, pool), pool);
            let sorted = |wave: Wave| {
                let mut names: Vec<_> = wave.into_iter().map(|seat| seat.name).collect();
                names.sort();
                names
            };
            waves.into_iter().map(sorted).collect()
        };
        prop_assert_eq!(waves(pool), waves(other));
    }

    #[test]
    fn cores_are_dealt_evenly_and_never_twice_to_one_workflow(
        candidates in any_candidates(), pool in 1..40usize,
    ) {
        for wave in place(&partition(&candidates, pool), pool) {
            let mut served = vec![0usize; pool];
            for seat in &wave {
                let mut mine = seat.cores.clone();
                mine.sort_unstable();
                mine.dedup();
                prop_assert_eq!(mine.len(), seat.cores.len());
                prop_assert!(!mine.is_empty());
                mine.into_iter().for_each(|core| served[core] += 1);
            }
            prop_assert!(served.iter().max().unwrap() - served.iter().min().unwrap() <= 1);
        }
    }
}

/// Parts of a workflow, in the plan's language.
fn workflow(parts: &str) -> Workflow {
    let text = format!("name: t\ntarget: http://localhost\nworkflows: [ {{ name: w, {parts} }} ]");
    let env = |_: &str| None;
    let options = plan::ReadOptions::new(&env);
    let plan = plan::read_str(&text, plan::Format::Yaml, std::path::Path::new("."), &options);
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    plan.workflows.into_iter().next().unwrap()
}

#[test]
fn a_load_needs_cores_by_its_rate_or_its_users_with_headroom() {
    let get = "steps: [ { get: / } ]";
    let two = "steps: [ { get: / }, { think: 1s }, { get: /b } ]";
    for (parts, expected) in [
        (format!("load: {{ rate: 20/s, duration: 1m }}, {get}"), "1 core for 20 requests/s"),
        (format!("load: {{ rate: 20000/s, duration: 1m }}, {get}"), "4 cores for 20000 requests/s"),
        (format!("load: {{ rate: 5000/s, duration: 1m }}, {two}"), "2 cores for 10000 requests/s"),
        (format!("load: {{ rate: 30/m, duration: 1m }}, {get}"), "1 core for 1 requests/s"),
        (format!("load: {{ vus: 150, duration: 1m }}, {get}"), "2 cores for 150 virtual users"),
        (format!("load: {{ vus: 2000, duration: 1m }}, {two}"), "1 core for 4000 requests/s"),
        (format!("load: {{ vus: 1, iterations: 9 }}, {get}"), "1 core for 1 virtual user"),
        (format!("load: {{ vus: 1, iterations: 9 }}, cores: 3, {get}"), "3 cores as the plan says"),
    ] {
        let found = need(&workflow(&parts)).to_string();
        assert!(found.starts_with(expected), "{parts}: {found}");
    }
}

#[test]
fn a_workflow_takes_no_more_than_it_needs_and_exactly_what_its_plan_says() {
    let small = Candidate { size: Size::AtMost(1), ..test("small", Auto) };
    let three = Candidate { size: Size::Exactly(3), ..test("three", Auto) };
    assert_eq!(show(&partition(std::slice::from_ref(&small), 24)), "small 1");
    assert_eq!(show(&partition(&[small.clone(), test("rest", Auto)], 8)), "rest 7, small 1");
    assert_eq!(show(&partition(&[three.clone(), test("rest", Auto)], 8)), "rest 5, three 3");
    assert_eq!(show(&partition(&[three], 2)), "three 2");
}
