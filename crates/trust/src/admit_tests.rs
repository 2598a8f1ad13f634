//! The role matrix cell by cell, the order of the checks, and the texts.

use super::*;

fn identity(role: Role) -> Identity {
    Identity {
        cluster: "prod".into(),
        environment: "live".into(),
        role,
        datacenter: "fra".into(),
        node: NodeId(role as u128 + 1),
    }
}

/// Who may connect to whom (R22), initiator by target; recruits reach managers and nobody else.
#[rustfmt::skip]
const MATRIX: [(Role, [(Role, bool); 5]); 5] = {
    use Role::{Client, Gate, Manager, Recruit, Worker};
    [
        (Client,  [(Worker, false), (Manager, false), (Gate, true),  (Client, false), (Recruit, false)]),
        (Gate,    [(Worker, false), (Manager, true),  (Gate, true),  (Client, true),  (Recruit, false)]),
        (Manager, [(Worker, true),  (Manager, true),  (Gate, true),  (Client, true),  (Recruit, false)]),
        (Worker,  [(Worker, false), (Manager, true),  (Gate, false), (Client, false), (Recruit, false)]),
        (Recruit, [(Worker, false), (Manager, true),  (Gate, false), (Client, false), (Recruit, false)]),
    ]
};

/// CORE-124: all cells, with gates and without.
#[test]
fn all_cells_of_the_role_matrix() {
    let mut cells = 0;
    for gates in [Gates::Configured, Gates::None] {
        let policy = Policy { gates, expected: None };
        for (initiator, row) in MATRIX {
            for (target, allowed) in row {
                cells += 1;
                let opened_by_no_gates =
                    gates == Gates::None && (initiator, target) == (Role::Client, Role::Manager);
                let answer = admit(&identity(initiator), &identity(target), &policy);
                if allowed || opened_by_no_gates {
                    assert_eq!(answer, Ok(()), "{initiator} to {target}, {gates:?}");
                } else {
                    let refusal = answer.unwrap_err();
                    assert_eq!(refusal, Refusal::Role { initiator, target });
                    let text = refusal.to_string();
                    let start = format!("role '{initiator}' cannot connect to '{target}'");
                    assert!(text.starts_with(&start), "{text}");
                }
            }
        }
    }
    assert_eq!(cells, 50);
}

#[test]
fn the_text_of_a_forbidden_pair_names_both_roles() {
    let refusal =
        admit(&identity(Role::Worker), &identity(Role::Gate), &Policy::default()).unwrap_err();
    assert_eq!(refusal.to_string(), "role 'worker' cannot connect to 'gate'");
}

/// CORE-122: each check hides those after it.
#[test]
fn the_order_is_cluster_environment_role_receiver() {
    let target = identity(Role::Gate);
    let expected = Some(Expected { role: Role::Manager, node: Some(NodeId(99)) });
    let policy = Policy { gates: Gates::Configured, expected };
    // Everything is wrong; it is put right from the front, one thing at a time.
    let mut initiator = identity(Role::Worker);
    initiator.cluster = "staging".into();
    initiator.environment = "test".into();

    let refusal = admit(&initiator, &target, &policy).unwrap_err();
    assert_eq!(refusal.kind(), "cluster");
    assert_eq!(refusal, Refusal::Cluster { ours: "prod".into(), theirs: "staging".into() });
    initiator.cluster = "prod".into();
    let refusal = admit(&initiator, &target, &policy).unwrap_err();
    assert_eq!(refusal, Refusal::Environment { ours: "live".into(), theirs: "test".into() });
    initiator.environment = "live".into();
    assert_eq!(admit(&initiator, &target, &policy).unwrap_err().kind(), "role");
    initiator.role = Role::Manager;
    assert_eq!(admit(&initiator, &target, &policy).unwrap_err().kind(), "receiver");
    let met = Some(Expected { role: Role::Gate, node: Some(target.node) });
    assert_eq!(admit(&initiator, &target, &Policy { expected: met, ..policy }), Ok(()));
}

/// CORE-122: the same pair, asked by the initiator, names the initiator's cluster as ours.
#[test]
fn ours_is_the_side_that_asks() {
    let (mut initiator, target) = (identity(Role::Worker), identity(Role::Manager));
    initiator.cluster = "staging".into();
    let refusal = admit_target(&initiator, &target, &Policy::default()).unwrap_err();
    assert_eq!(refusal, Refusal::Cluster { ours: "staging".into(), theirs: "prod".into() });
}

/// Managers and workers stay within their datacenter; gates reach into all of them.
#[test]
fn managers_and_workers_stay_within_their_datacenter() {
    for (initiator, row) in MATRIX {
        for (target, allowed) in row {
            if !allowed {
                continue;
            }
            let mut elsewhere = identity(initiator);
            elsewhere.datacenter = "iad".into();
            let answer = admit(&elsewhere, &identity(target), &Policy::default());
            let bound = matches!(initiator, Role::Manager | Role::Worker | Role::Recruit)
                && matches!(target, Role::Manager | Role::Worker);
            match answer {
                Ok(()) => assert!(!bound, "{initiator} to {target}"),
                Err(refusal) => {
                    assert_eq!(refusal.kind(), "datacenter");
                    assert!(bound, "{initiator} to {target}: {refusal}");
                }
            }
        }
    }
}

/// CORE-121: an address that now belongs to somebody else is noticed.
#[test]
fn another_node_at_the_address_is_refused() {
    let (initiator, target) = (identity(Role::Gate), identity(Role::Manager));
    let expect =
        |role, node| Policy { gates: Gates::Configured, expected: Some(Expected { role, node }) };
    assert!(admit_target(&initiator, &target, &expect(Role::Manager, None)).is_ok());
    assert!(admit_target(&initiator, &target, &expect(Role::Manager, Some(target.node))).is_ok());
    let refusal =
        admit_target(&initiator, &target, &expect(Role::Manager, Some(NodeId(77)))).unwrap_err();
    assert!(refusal.to_string().contains("belongs to another node now"), "{refusal}");
    let refusal = admit_target(&initiator, &target, &expect(Role::Gate, None)).unwrap_err();
    assert!(refusal.to_string().contains("where a gate was expected"), "{refusal}");
}

/// CORE-122: what a message claims is compared with the certificate, first things first.
#[test]
fn claims_must_agree_with_the_certificate() {
    let certified = identity(Role::Worker);
    assert_eq!(confirm(&certified, &certified), Ok(()));
    let mut claimed = Identity {
        cluster: "x".into(),
        environment: "x".into(),
        role: Role::Manager,
        datacenter: "x".into(),
        node: NodeId(99),
    };
    for what in ["cluster", "environment", "role", "datacenter", "node"] {
        assert_eq!(confirm(&certified, &claimed), Err(Refusal::Claim { what }));
        match what {
            "cluster" => claimed.cluster.clone_from(&certified.cluster),
            "environment" => claimed.environment.clone_from(&certified.environment),
            "role" => claimed.role = certified.role,
            "datacenter" => claimed.datacenter.clone_from(&certified.datacenter),
            _ => claimed.node = certified.node,
        }
    }
    assert_eq!(confirm(&certified, &claimed), Ok(()));
}

#[test]
fn dates_are_written_as_people_read_them() {
    for (seconds, text) in [
        (0, "1970-01-01 00:00:00 UTC"),
        (951_782_399, "2000-02-28 23:59:59 UTC"),
        (951_782_400, "2000-02-29 00:00:00 UTC"),
        (951_868_800, "2000-03-01 00:00:00 UTC"),
        (1_704_067_199, "2023-12-31 23:59:59 UTC"),
        (4_107_542_400, "2100-03-01 00:00:00 UTC"),
    ] {
        assert_eq!(Utc(seconds).to_string(), text);
    }
}
