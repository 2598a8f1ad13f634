//! The operator: admits again who lost its disk, now and then takes a member out and in, and when
//! the faults have stopped asks about everything that is still open.

use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;

use super::agent::{Ask, Told};
use super::class::Mark;
use super::client::WorkerReports;
use super::host;
use crate::event;

const DEADLINE: Duration = Duration::from_secs(5);

pub async fn work(office: Rc<WorkerReports>) {
    let mut random = Rng::with_seed(office.world.plan.seed ^ 0x6f70);
    let mut removed: Option<usize> = None;
    while !office.world.calm.get() {
        tokio::time::sleep(Duration::from_millis(random.u64(500..4_000))).await;
        readmit(&office, &mut random).await;
        if office.world.plan.membership {
            change(&office, &mut random, &mut removed).await;
        }
    }
    if let Some(host) = removed {
        while !admit(&office, host, &mut random).await {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    while office.world.hosts.iter().any(|host| host.amnesic.get()) {
        readmit(&office, &mut random).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // Every unknown write is asked about until it has an outcome; how long that may take is the
    // run's bound.
    while Rc::clone(&office).resolve_one(DEADLINE).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    final_reads(&office).await;
    office.world.operator_done.set(true);
}

/// Admits one host, through any other.
async fn admit(office: &Rc<WorkerReports>, host: usize, random: &mut Rng) -> bool {
    let through = random.usize(0..office.world.plan.nodes);
    if through == host {
        return false;
    }
    let ask = Ask::Admit { address: host::address(host) };
    match office.ask(through, ask, DEADLINE).await {
        Some(Told::Changed(Ok(()))) => {
            event!("n{} is admitted", host + 1);
            true
        }
        Some(Told::Changed(Err(why))) => {
            event!("n{} is not admitted: {why}", host + 1);
            false
        }
        _ => false,
    }
}

async fn readmit(office: &Rc<WorkerReports>, random: &mut Rng) {
    for (number, host) in office.world.hosts.iter().enumerate() {
        if host.amnesic.get() && host.node.borrow().is_some() {
            let start = host.starts.get();
            if admit(office, number, random).await && host.starts.get() == start {
                host.amnesic.set(false);
                office.world.reach(Mark::Readmitted);
            }
        }
    }
}

/// Takes a member out, or lets the one that is out back in. At most one is out, and none while a
/// disk is lost: the group that is left must stand the loss of one more.
async fn change(office: &Rc<WorkerReports>, random: &mut Rng, removed: &mut Option<usize>) {
    if let Some(host) = *removed {
        if admit(office, host, random).await {
            *removed = None;
            office.world.member_out.set(false);
            office.world.reach(Mark::MembershipChanged);
        }
        return;
    }
    if office.world.hosts.iter().any(|host| host.amnesic.get()) {
        return;
    }
    let (host, through) =
        (random.usize(0..office.world.plan.nodes), random.usize(0..office.world.plan.nodes));
    let Some(node) = office.world.node(host) else { return };
    let member = node.session().node;
    // Whatever the answer, it may have happened; admitting a member that is one already is
    // harmless.
    *removed = Some(host);
    office.world.member_out.set(true);
    match office.ask(through, Ask::Remove { node: member }, DEADLINE).await {
        Some(Told::Changed(Ok(()))) => event!("n{} is removed", host + 1),
        Some(Told::Changed(Err(why))) => event!("n{} is not removed: {why}", host + 1),
        _ => {}
    }
}

/// Reads every job on every node, strongly; the answers are the last words of each history.
async fn final_reads(office: &Rc<WorkerReports>) {
    for job in office.oracle.jobs() {
        for host in 0..office.world.plan.nodes {
            let mut tries = 0;
            loop {
                // Before the read: a client may still create it while the read is under way.
                let accepted = office.oracle.acknowledged(job);
                if let Some(view) = office.read(host, job, DEADLINE).await {
                    if view.is_none() && accepted {
                        let detail = format!("job {job} was accepted, and n{} has none", host + 1);
                        office.world.violate("P2.present", detail);
                    }
                    break;
                }
                tries += 1;
                if tries == 20 {
                    let detail = format!(
                        "n{} cannot be read strongly though all faults have stopped",
                        host + 1
                    );
                    office.world.violate("P7.reads", detail);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
