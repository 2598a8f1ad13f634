//! The rule of who may found a group, as a table and as properties.

use std::collections::{BTreeMap, BTreeSet};

use fence::GroupId;
use proptest::prelude::*;

use super::super::formation::*;
use super::*;

fn group(cluster: u64) -> GroupId {
    GroupId { cluster, generation: 1 }
}

fn voters(nodes: &[u128]) -> BTreeSet<NodeId> {
    nodes.iter().map(|node| NodeId(*node)).collect()
}

/// A peer as seen: its node, its group, its list of founders.
fn seen(peers: &[(u128, Option<u64>, &[u128])]) -> BTreeMap<NodeId, Hello> {
    let one = |(node, of, list): &(u128, Option<u64>, &[u128])| {
        let mut hello = hello(*node, address(u8::try_from(*node).unwrap()));
        hello.group = of.map(group);
        hello.voters = digest(&voters(list));
        (NodeId(*node), hello)
    };
    peers.iter().map(one).collect()
}

fn ask(
    of: Option<u64>,
    list: &[u128],
    around: bool,
    peers: &[(u128, Option<u64>, &[u128])],
) -> Formation {
    let (identity, voters) = (identity(1), voters(list));
    let me = Founder {
        identity: &identity,
        group: of.map(group),
        voters: &voters,
        looked_around: around,
    };
    decide(&me, &seen(peers))
}

/// R6: the rule, row by row.
#[test]
fn the_rule_row_by_row() {
    const THREE: &[u128] = &[1, 2, 3];
    let found = Formation::Found(founding_group(&identity(1), &voters(THREE)));
    let few = |present, missing: &[u128]| {
        let missing = missing.iter().map(|node| NodeId(*node)).collect();
        Formation::Wait(Waiting::Founders { present, needed: 2, missing })
    };
    // Rule 1: the data folder decides.
    assert_eq!(ask(Some(9), THREE, true, &[(2, None, THREE)]), Formation::Member(group(9)));
    assert_eq!(ask(Some(9), &[], false, &[(2, Some(9), &[])]), Formation::Member(group(9)));
    // Rule 2: a majority of the list, without a group, with the same list, after looking around.
    assert_eq!(ask(None, THREE, true, &[]), few(1, &[2, 3]));
    assert_eq!(
        ask(None, THREE, false, &[(2, None, THREE)]),
        Formation::Wait(Waiting::LookingAround)
    );
    assert_eq!(ask(None, THREE, true, &[(2, None, THREE)]), found);
    assert_eq!(ask(None, THREE, true, &[(2, None, &[])]), few(1, &[2, 3]));
    assert_eq!(ask(None, THREE, true, &[(7, None, THREE), (8, None, THREE)]), few(1, &[2, 3]));
    let alone = Formation::Found(founding_group(&identity(1), &voters(&[1])));
    assert_eq!(ask(None, &[1], true, &[]), alone);
    assert_eq!(ask(None, &[1], false, &[]), Formation::Wait(Waiting::LookingAround));
    // Rule 3: everybody else waits for a group, or asks the one that is there.
    assert_eq!(ask(None, &[], true, &[(2, None, &[])]), Formation::Wait(Waiting::NotAFounder));
    assert_eq!(
        ask(None, &[2, 3], true, &[(2, None, &[2, 3])]),
        Formation::Wait(Waiting::NotAFounder)
    );
    assert_eq!(
        ask(None, THREE, true, &[(2, Some(9), THREE), (3, None, THREE)]),
        Formation::AskFor(group(9))
    );
    assert_eq!(ask(None, &[1], true, &[(7, Some(9), &[])]), Formation::AskFor(group(9)));
    // Rule 4: two truths.
    let two = Formation::Conflict(Conflict::Groups([group(8), group(9)].into()));
    assert_eq!(ask(Some(8), THREE, true, &[(2, Some(9), THREE)]), two);
    assert_eq!(ask(None, THREE, true, &[(2, Some(8), THREE), (3, Some(9), THREE)]), two);
    let lists = Formation::Conflict(Conflict::Lists { others: vec![NodeId(2)] });
    assert_eq!(ask(None, THREE, true, &[(2, None, &[1, 2]), (3, None, THREE)]), lists);
}

/// Other datacenters and other roles have groups of their own.
#[test]
fn other_domains_do_not_matter() {
    let three = voters(&[1, 2, 3]);
    let mut around = seen(&[(2, None, &[1, 2, 3])]);
    let mut elsewhere = hello(20, address(20));
    elsewhere.identity.datacenter = "iad".into();
    elsewhere.group = Some(group(9));
    let mut gate = hello(21, address(21));
    gate.identity.role = Role::Gate;
    gate.group = Some(group(8));
    around.insert(NodeId(20), elsewhere);
    around.insert(NodeId(21), gate);
    let identity = identity(1);
    let me = Founder { identity: &identity, group: None, voters: &three, looked_around: true };
    assert!(matches!(decide(&me, &around), Formation::Found(_)));
}

/// The id of a new group is the same on every machine and in every version.
#[test]
fn the_group_follows_from_the_list() {
    let three = voters(&[1, 2, 3]);
    assert_eq!(founding_group(&identity(1), &three), founding_group(&identity(2), &three));
    assert_ne!(
        founding_group(&identity(1), &three),
        founding_group(&identity(1), &voters(&[1, 2]))
    );
    let mut elsewhere = identity(1);
    elsewhere.datacenter = "iad".into();
    assert_ne!(founding_group(&identity(1), &three), founding_group(&elsewhere, &three));
    assert_eq!(founding_group(&identity(1), &three).to_string(), "f69012c2db393efa.1");
}

proptest! {
    /// R6: one list, any views, any order: whoever founds, founds the same group; and two founders
    /// that cannot see each other never both have a majority of nodes that are without a group.
    #[test]
    fn one_list_founds_one_group(
        size in 1usize..8, views in prop::collection::vec(prop::collection::vec(any::<bool>(), 8), 8),
        order in prop::collection::vec(0usize..8, 0..30),
    ) {
        let list: BTreeSet<NodeId> = (1..=size as u128).map(NodeId).collect();
        let mut groups: BTreeMap<NodeId, GroupId> = BTreeMap::new();
        for turn in order {
            let node = (turn % size) as u128 + 1;
            let own = identity(node);
            let sees = |other: &NodeId| views[turn % size][usize::try_from(other.0).unwrap() - 1];
            let around = list.iter().filter(|other| **other != own.node && sees(other)).map(|other| {
                let mut hello = hello(other.0, address(1));
                hello.group = groups.get(other).copied();
                hello.voters = digest(&list);
                (*other, hello)
            }).collect();
            let group = groups.get(&own.node).copied();
            let me = Founder { identity: &own, group, voters: &list, looked_around: true };
            match decide(&me, &around) {
                Formation::Found(group) => {
                    let seen = around.len() + 1;
                    prop_assert!(seen > size / 2, "a minority founds");
                    groups.insert(own.node, group);
                }
                Formation::AskFor(group) => { groups.insert(own.node, group); }
                Formation::Conflict(conflict) => prop_assert!(false, "{conflict:?}"),
                Formation::Member(_) | Formation::Wait(_) => {}
            }
            let all: BTreeSet<_> = groups.values().collect();
            prop_assert!(all.len() <= 1, "{all:?}");
        }
    }

    /// R6: with two different lists in one domain, nodes that see each other found nothing.
    #[test]
    fn two_lists_that_meet_found_nothing(a in 1u128..20, b in 1u128..20) {
        prop_assume!(a != b);
        let (one, two) = (voters(&[1, a]), voters(&[1, b]));
        prop_assume!(one != two);
        let own = identity(1);
        let mut other = hello(30, address(30));
        other.voters = digest(&two);
        let around = [(NodeId(30), other)].into();
        let me = Founder { identity: &own, group: None, voters: &one, looked_around: true };
        let met = matches!(decide(&me, &around), Formation::Conflict(Conflict::Lists { .. }));
        prop_assert!(met);
    }
}
