//! Managers that know each other by name, and whose job is whose.

use crate::common::{Target, plan, until};
use crate::fleet::cluster::Cluster;

/// CORE-86: a job is changed by the client that submitted it and by operators, and who did it is
/// said. The managers of this cluster know each other by name, and find each other again after a
/// kill.
#[test]
fn a_job_belongs_to_its_client_and_managers_have_names() {
    let target = Target::start();
    let cluster = Cluster::prepare(3, 1, 1).by_name();
    let (other, _) = cluster.another_client("other");
    let (operator, id) = cluster.another_client("operator");
    let mut cluster = cluster.operator(&id);
    cluster.up_all();
    let load = "executor: constant-arrival-rate, rate: 50/s, duration: 60s, max_vus: 20";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(20);
    // It is looked at by all, and changed by few.
    let seen = cluster.volley_as(&other, &["status", &job]).expect(0);
    let owner = cluster.status(&job)["submitted_by"].as_str().unwrap().to_owned();
    seen.says(&owner);
    for args in [&["cancel", &job][..], &["ctl", "--job", &job, "pause"]] {
        cluster
            .volley_as(&other, args)
            .expect(1)
            .says("was submitted by client")
            .says("--operator");
    }
    let worker = cluster.place("w1").node.to_string();
    cluster.volley_as(&other, &["drain", &worker]).expect(1).says("only operators");
    cluster.volley(&["drain", &worker]).expect(1).says("only operators");
    cluster.volley(&["ctl", "--job", &job, "pause"]).expect(0);
    cluster.volley(&["ctl", "--job", &job, "resume"]).expect(0);
    // Names lead to those who are there, also after one of them was gone.
    let leader = cluster.leader();
    cluster.kill(&leader);
    cluster.until("somebody else leads", || {
        cluster.volley(&["ctl", "--job", &job, "pause"]).code == 0
    });
    cluster.up(&leader);
    cluster.until("it follows again", || cluster.said(&leader).matches("follows").count() > 0);
    cluster.volley_as(&operator, &["cancel", &job]).expect(0);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    let status = cluster.status(&job);
    assert!(status["cancelled_by"].as_str().unwrap().contains(&id), "{status:#}");
    cluster.volley(&["status", &job]).expect(0).says("cancelled").says(&id);
    cluster.volley_as(&operator, &["drain", &worker]).expect(0);
}
