//! Workers that are not heard of at the end of a job, and come back afterwards (R27).

use serde_json::Value;

use crate::common::{Done, Target, plan, until};
use crate::fleet::cluster::Cluster;

fn results(cluster: &Cluster, job: &str) -> (Done, Value) {
    let done = cluster.volley(&["results", job, "--summary", "summary.json"]);
    (done, cluster.room.json("summary.json"))
}

/// The name of the worker that runs the job's only shard.
fn worker_of(cluster: &Cluster, job: &str) -> String {
    let status = cluster.status(job);
    let node = status["workflows"][0]["shards"][0]["worker"].as_str().unwrap().to_owned();
    let found = cluster.local.workers.iter().find(|place| place.node.to_string() == node);
    found.unwrap_or_else(|| panic!("{node} is no worker")).name.clone()
}

/// Loses a worker a second before the end of a job, takes the result, brings the worker back, and
/// compares.
fn heard_afterwards(lose: fn(&mut Cluster, &str), bring_back: fn(&mut Cluster, &str)) {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 2, 1);
    let load = "executor: constant-arrival-rate, rate: 200/s, duration: 6s, max_vus: 60";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(950);
    let worker = worker_of(&cluster, &job);
    lose(&mut cluster, &worker);
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    let (first, early) = results(&cluster, &job);
    assert_ne!(early["requests"]["issued_is"], "exact", "{early:#}");
    assert_eq!((&early["addenda"], &early["corrected"]), (&Value::Array(vec![]), &Value::Null));
    assert_eq!(cluster.status(&job)["unheard"], 1, "{:#}", cluster.status(&job));

    bring_back(&mut cluster, &worker);
    until("its word is in the ledger", || cluster.status(&job)["unheard"] == 0);
    let (second, late) = results(&cluster, &job);
    assert_eq!(second.code, first.code, "{}", second.err);
    for key in ["outcome", "verdict", "exit_code", "requests", "iterations", "dropped"] {
        assert_eq!(late[key], early[key], "{key} is as it was");
    }
    let corrected = &late["corrected"]["requests"];
    let [issued, sent, completed] =
        ["issued", "sent", "completed"].map(|key| corrected[key].as_u64().unwrap());
    let seen = target.total();
    assert_eq!(corrected["issued_is"], "exact", "{late:#}");
    assert!(completed <= seen && sent <= issued && seen <= issued, "{completed} {seen} {issued}");
    assert!(issued <= 1200, "nothing was planned beyond it: {issued}");
    let addenda = late["addenda"].as_array().unwrap();
    assert_eq!(addenda.len(), 1, "{late:#}");
    assert_eq!(addenda[0]["worker"], cluster.place(&worker).node.to_string());
    assert!(addenda[0]["at"].as_str().unwrap() > early["started_at"].as_str().unwrap());
    let text = second.out;
    assert!(text.contains("addenda") && text.contains("is back") && text.contains("with that:"));
    let status = cluster.volley(&["status", &job]).expect(0);
    assert!(status.out.contains("addendum"), "{}", status.out);
    let watched = cluster.volley(&["watch", &job, "--quiet", "--summary", "watched.json"]);
    assert_eq!(watched.code, first.code);
    assert_eq!(cluster.room.json("watched.json")["corrected"], late["corrected"]);

    // Whoever is back has nothing left to say: it was told that it is durable.
    let outbox = cluster.place(&worker).data.join("outbox");
    until("its outbox is empty", || std::fs::read_dir(&outbox).unwrap().next().is_none());
}

/// R17: its process is gone, the file in which it counted is not.
#[test]
fn a_worker_killed_at_the_end_says_afterwards_what_it_had_issued() {
    heard_afterwards(Cluster::kill, Cluster::up);
}

#[test]
fn a_worker_frozen_over_the_end_says_afterwards_what_it_did() {
    heard_afterwards(
        |cluster, worker| cluster.pause(worker),
        |cluster, worker| cluster.resume(worker),
    );
}
