//! Who owns which job (R6, R7).

use std::collections::{BTreeMap, BTreeSet};

use control::claims::{Duty, Managers, duties, lost};
use fence::{BootId, JobId, NodeId};
use ledger_state::{Command, SessionId, preferred_owner};

use crate::fleet::queue::Ledger;

fn session(node: u128) -> SessionId {
    SessionId { node: NodeId(node), boot: BootId(1) }
}

fn wants(ledger: &Ledger, me: u128, live: &BTreeSet<NodeId>) -> Vec<Duty> {
    wants_as(ledger, session(me), live)
}

fn wants_as(ledger: &Ledger, me: SessionId, live: &BTreeSet<NodeId>) -> Vec<Duty> {
    wants_of(ledger, me, live, &BTreeSet::new())
}

fn wants_of(
    ledger: &Ledger,
    me: SessionId,
    live: &BTreeSet<NodeId>,
    silent: &BTreeSet<NodeId>,
) -> Vec<Duty> {
    let managers = Managers { me, live, silent, leaving: false, silent_ms: 2_000 };
    duties(&ledger.state, &managers, &BTreeSet::new())
}

fn world() -> (Ledger, Vec<JobId>, BTreeSet<NodeId>) {
    let mut ledger = Ledger::new();
    for node in 2..=3 {
        ledger.run(session(node), Command::OpenSession);
    }
    let jobs = (0..30).map(|n| ledger.job(n)).collect();
    (ledger, jobs, (1..=3).map(NodeId).collect())
}

/// R7: every new job is wanted by exactly one living manager, the preferred one.
#[test]
fn new_jobs_are_spread() {
    let (ledger, jobs, live) = world();
    let nodes: Vec<NodeId> = live.iter().copied().collect();
    for job in jobs {
        for me in 1..=3 {
            let claims = wants(&ledger, me, &live).iter().any(|duty| duty.job() == job);
            assert_eq!(claims, preferred_owner(job, &nodes) == Some(NodeId(me)));
        }
    }
}

/// R6: an owner that membership takes for dead but that still writes to the ledger keeps its jobs;
/// once it is silent its jobs, and only those, are claimed; one that has started again has lost
/// them at once.
#[test]
fn an_owner_is_dead_when_both_say_so() {
    let (mut ledger, jobs, live) = world();
    for job in &jobs {
        ledger.claim(session(2), *job);
    }
    for me in [1, 3] {
        assert_eq!(wants(&ledger, me, &live), []);
    }
    let others: BTreeSet<NodeId> = [NodeId(1), NodeId(3)].into();
    assert_eq!(wants(&ledger, 1, &others), [], "it has just written");
    ledger.pass(2_500);
    let (one, three) = (wants(&ledger, 1, &others), wants(&ledger, 3, &others));
    assert_eq!(one.len() + three.len(), jobs.len());
    assert!(one.iter().all(|duty| matches!(duty, Duty::Claim { seen: Some(_), .. })));

    let again = SessionId { node: NodeId(2), boot: BootId(2) };
    ledger.run(again, Command::OpenSession);
    let own = wants_as(&ledger, again, &live).len();
    let all = own + wants(&ledger, 1, &live).len() + wants(&ledger, 3, &live).len();
    assert_eq!(all, jobs.len(), "its new life has nothing yet");
}

/// An owner that is cut off from the managers only: workers keep it alive to membership, and it has
/// just written. The leader does not hear it, which is enough; each job is claimed by one of the
/// others, and stays where it is when the old owner is heard again.
#[test]
fn an_owner_that_the_leader_does_not_hear_is_replaced_though_membership_has_it_alive() {
    let (mut ledger, jobs, live) = world();
    for job in &jobs {
        ledger.claim(session(2), *job);
    }
    let silent: BTreeSet<NodeId> = [NodeId(2)].into();
    let others: Vec<NodeId> = vec![NodeId(1), NodeId(3)];
    let mut claimed = 0;
    for me in [1, 3] {
        for duty in wants_of(&ledger, session(me), &live, &silent) {
            let Duty::Claim { job, seen: Some(_) } = duty else { panic!("{duty:?}") };
            assert_eq!(preferred_owner(job, &others), Some(NodeId(me)));
            ledger.claim(session(me), job);
            claimed += 1;
        }
    }
    assert_eq!(claimed, jobs.len());
    for me in 1..=3 {
        assert!(wants(&ledger, me, &live).iter().all(|duty| !matches!(duty, Duty::Claim { .. })));
    }
}

/// A new job is not left to a manager that cannot claim it.
#[test]
fn nobody_waits_for_a_silent_manager_to_claim() {
    let (ledger, jobs, live) = world();
    let silent: BTreeSet<NodeId> = [NodeId(3)].into();
    let wanted: usize =
        [1, 2].map(|me| wants_of(&ledger, session(me), &live, &silent).len()).iter().sum();
    assert_eq!(wanted, jobs.len());
}

/// An owner that starts again before anybody has missed it, and has nothing else to write: it
/// claims what it had. All managers that start again at once once waited for each other for ever.
#[test]
fn an_owner_that_started_again_claims_what_it_had() {
    let (mut ledger, jobs, live) = world();
    ledger.claim(session(2), jobs[0]);
    let again = SessionId { node: NodeId(2), boot: BootId(2) };
    let claims = |duty: &Duty| duty.job() == jobs[0];
    assert!(!wants(&ledger, 1, &live).iter().any(claims));
    assert!(!wants(&ledger, 3, &live).iter().any(claims));
    assert!(wants_as(&ledger, again, &live).iter().any(claims));
}

/// A claim whose answer was lost: the job is mine, and taken up; one that leaves gives all up and
/// takes nothing.
#[test]
fn what_is_mine_is_taken_up_or_given_up() {
    let (mut ledger, jobs, live) = world();
    ledger.claim(session(1), jobs[0]);
    assert!(wants(&ledger, 1, &live).contains(&Duty::Adopt { job: jobs[0] }));
    let led: BTreeSet<JobId> = [jobs[0]].into();
    let (me, silent) = (session(1), BTreeSet::new());
    let mut managers =
        Managers { me, live: &live, silent: &silent, leaving: false, silent_ms: 2_000 };
    assert!(!duties(&ledger.state, &managers, &led).iter().any(|duty| duty.job() == jobs[0]));
    managers.leaving = true;
    assert_eq!(duties(&ledger.state, &managers, &led), [Duty::Release { job: jobs[0] }]);
}

/// A manager may read its own state before its claim is applied there: that is no reason to let go
/// of the job.
#[test]
fn a_state_that_is_older_than_the_claim_takes_no_job_away() {
    let (mut ledger, jobs, _) = world();
    let (before, job) = (ledger.state.clone(), jobs[0]);
    ledger.claim(session(2), job);
    let epoch = ledger.state.job(job).and_then(|job| job.epoch).expect("it was granted");
    let led = BTreeMap::from([(job, epoch)]);
    assert_eq!(lost(&before, session(2), &led), []);
    assert_eq!(lost(&ledger.state, session(2), &led), []);
    assert_eq!(lost(&ledger.state, session(3), &led), [job], "another's");
    ledger.run(session(2), Command::ReleaseJob { job, epoch });
    assert_eq!(lost(&ledger.state, session(2), &led), [job], "given up");
    ledger.claim(session(3), job);
    assert_eq!(lost(&ledger.state, session(2), &led), [job]);
}
