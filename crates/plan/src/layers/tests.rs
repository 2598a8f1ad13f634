use proptest::prelude::*;

use super::*;

fn check(dependencies: &[&[usize]], expect: Result<&[usize], &[usize]>) {
    let graph: Vec<Vec<usize>> = dependencies.iter().map(|needs| needs.to_vec()).collect();
    let found = layer_numbers(&graph);
    assert_eq!(found.as_deref().map_err(Vec::as_slice), expect);
}

#[test]
fn a_workflow_is_later_than_all_its_dependencies() {
    // EXEC-82: Setup; LoadTest; Validate(LoadTest); Report(Validate, LoadTest)
    check(&[&[], &[], &[1], &[2, 1]], Ok(&[0, 0, 1, 2]));
    check(&[], Ok(&[]));
    check(&[&[1], &[2], &[]], Ok(&[2, 1, 0]));
    check(&[&[], &[0, 0]], Ok(&[0, 1]));
}

#[test]
fn a_cycle_is_found_and_told_in_order() {
    check(&[&[1], &[0]], Err(&[0, 1]));
    check(&[&[0]], Err(&[0]));
    check(&[&[], &[3, 0], &[1], &[2]], Err(&[1, 3, 2]));
}

#[test]
fn ancestors_are_transitive() {
    let mut before = ancestors(&[vec![], vec![0], vec![1], vec![]]);
    before.iter_mut().for_each(|list| list.sort_unstable());
    assert_eq!(before, [vec![], vec![0], vec![0, 1], vec![]]);
}

proptest! {
    /// Edges only to lower numbers, so there is no cycle.
    #[test]
    fn every_node_is_later_than_what_it_needs(
        edges in prop::collection::vec((0usize..40, 0usize..40), 0..200),
    ) {
        let mut graph = vec![Vec::new(); 40];
        for (a, b) in edges.into_iter().filter(|(a, b)| a != b) {
            graph[a.max(b)].push(a.min(b));
        }
        let layers = layer_numbers(&graph).unwrap();
        for (node, needs) in graph.iter().enumerate() {
            let expect = needs.iter().map(|need| layers[*need] + 1).max().unwrap_or(0);
            prop_assert_eq!(layers[node], expect);
        }
    }

    #[test]
    fn any_graph_has_layers_or_a_real_cycle(
        edges in prop::collection::vec((0usize..12, 0usize..12), 0..40),
    ) {
        let mut graph = vec![Vec::new(); 12];
        edges.into_iter().for_each(|(a, b)| graph[a].push(b));
        if let Err(cycle) = layer_numbers(&graph) {
            prop_assert!(!cycle.is_empty());
            for (index, node) in cycle.iter().enumerate() {
                prop_assert!(graph[*node].contains(&cycle[(index + 1) % cycle.len()]));
            }
        }
    }
}
