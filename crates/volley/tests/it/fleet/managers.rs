//! The managers' own group: one is lost for good and replaced while a job runs.

use crate::common::{Target, plan};
use crate::fleet::cluster::Cluster;
use crate::fleet::jobs::requests;

/// ARCH-139, ARCH-141: a manager and its disk are gone. Another takes its place, and from then on the group can lose
/// one of the others as it could before: the job that runs all the time ends with every request made and counted once.
#[test]
fn a_lost_manager_is_replaced_while_a_job_runs() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    let load = "executor: constant-arrival-rate, rate: 40/s, duration: 30s, max_vus: 20";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(20);
    let owner = cluster.owner(&job);
    let lost = ["m1", "m2", "m3"].into_iter().find(|name| *name != owner).unwrap();
    let gone = cluster.place(lost).clone();
    // Who runs is not taken out: its jobs would have an owner that can write nothing down.
    let id = gone.node.to_string();
    cluster.volley(&["managers", "remove", &id]).expect(1).says("still runs").says("volley drain");
    cluster.kill(lost);
    std::fs::remove_dir_all(&gone.data).unwrap();
    cluster.volley(&["managers", "add", "127.0.0.1:9"]).expect(1).says("--join-group");

    let fourth = cluster.one_more_manager("m4");
    let address = fourth.bind.to_string();
    cluster.until("the new one is let in", || {
        cluster.volley(&["managers", "add", &address]).code == 0
    });
    cluster.volley(&["managers", "add", &address]).expect(0).says("votes");
    cluster.until("the lost one is out", || cluster.volley(&["managers", "remove", &id]).code == 0);
    let known = cluster.json(&["managers", "--json"]);
    assert_eq!((&known["voters"], &known["there"]), (&3.into(), &3.into()), "{known:#}");
    let members = known["members"].as_array().unwrap();
    assert!(members.iter().any(|member| member["node"] == fourth.node.to_string()), "{known:#}");
    assert!(members.iter().all(|member| member["node"] != id), "{known:#}");
    cluster.volley(&["managers"]).expect(0).says("1 of them may be lost");

    // Two of the first three are gone now; without the new one nothing could be decided.
    let owner = cluster.owner(&job);
    cluster.kill(&owner);
    let summary = cluster.result(&job, 0);
    assert_eq!((requests(&summary), target.total()), (1_200, 1_200), "{summary:#}");
}
