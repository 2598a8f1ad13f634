//! A fleet is shared: a small job leaves room for the next, and its commands find it.

use crate::common::{Target, plan, until};
use crate::fleet::cluster::Cluster;

#[test]
fn a_small_job_leaves_its_fleet_to_the_next() {
    let (cluster, target) = (Cluster::start(1, 2, 2), Target::start());
    let small = "executor: constant-arrival-rate, rate: 20/s, duration: 30s, max_vus: 10";
    let job = cluster.submit(&plan(&target.url(), small), &[]);
    until("it runs", || target.total() > 0);
    let status = cluster.status(&job);
    let flow = &status["workflows"][0];
    assert_eq!(flow["shards"].as_array().unwrap().len(), 1, "{flow}");
    assert_eq!(flow["need"], "1 core for 20 requests/s (5000 a core)");
    let once = "executor: shared-iterations, vus: 1, iterations: 1";
    let path = cluster.room.write("once.yaml", &plan(&target.url(), once));
    cluster.volley(&["submit", path.to_str().unwrap(), "--watch", "--quiet"]).expect(0);
    assert_eq!(cluster.status(&job)["state"], "running", "the first one still runs");
    cluster.volley(&["status", &job]).expect(0).says("1 core for 20 requests/s");
    cluster.volley(&["cancel", &job, "--now"]).expect(0);
}

#[test]
fn the_only_manager_is_not_drained_by_mistake() {
    let cluster = Cluster::start(1, 1, 1);
    let address = cluster.place("m1").bind.to_string();
    let refused = cluster.volley(&["drain", &address]).expect(1);
    let refused = refused.says("without it 0 of 1 voters would be there, and 1 are needed");
    refused.says("--force");
    cluster.volley(&["drain", &address, "--force"]).expect(0);
}
