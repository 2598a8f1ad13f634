//! What a job survives: its worker, its owner, the ledger's leader, all managers.

use std::time::{Duration, Instant};

use crate::common::{Target, plan, plan_on, until};
use crate::fleet::cluster::Cluster;
use crate::fleet::jobs::requests;

/// R4, R5a, R19: one of three workers dies; its share is taken over, nothing runs twice, and the
/// result says so.
#[test]
fn a_killed_worker_is_replaced_and_the_result_says_so() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 3, 1);
    let load = "executor: constant-arrival-rate, rate: 300/s, duration: 15s, max_vus: 60";
    let job = cluster.submit(&plan_on(3, &target.url(), load), &[]);
    target.wait_for_requests(300);
    cluster.kill("w2");
    let job_ended = Instant::now();
    until("it has ended", || cluster.status(&job)["state"] == "ended");
    assert!(job_ended.elapsed() < Duration::from_secs(40));
    cluster.volley(&["results", &job, "--quiet", "--summary", "summary.json"]);
    let summary = cluster.room.json("summary.json");
    let (seen, completed) = (target.total(), requests(&summary));
    let status = cluster.status(&job);
    assert_eq!(status["outcome"], "COMPLETED", "{status:#}");
    assert!(completed <= seen, "{completed} <= {seen}");
    // At most 300 a second were planned: whatever ran twice would be beyond it.
    assert!(seen <= 300 * 15, "{seen}");
    assert!(seen >= 300 * 15 * 6 / 10, "the lost third came back: {seen}");
    let verdict = summary["verdict"].to_string();
    assert!(verdict.contains("degraded"), "{verdict}");
}

/// R8, R6: another manager takes the job up; what runs is not touched, and every request is
/// counted.
#[test]
fn a_killed_owner_costs_no_request() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 2, 1);
    let load = "executor: constant-arrival-rate, rate: 200/s, duration: 12s, max_vus: 200";
    let job = cluster.submit(&plan_on(2, &target.url(), load), &[]);
    target.wait_for_requests(200);
    let watch = cluster.begin(&["watch", &job, "--json"]);
    let owner = cluster.owner(&job);
    cluster.kill(&owner);
    let done = watch.wait();
    let summary = cluster.result(&job, 0);
    // On a busy machine some may be dropped for want of a free user; none is lost.
    let dropped = summary["dropped_iterations"].as_u64().unwrap();
    assert_eq!(requests(&summary) + dropped, 2400, "{summary:#}");
    assert_eq!(target.total(), requests(&summary));
    assert_eq!(summary["dropped"]["worker_lost"], serde_json::Value::Null, "{summary:#}");
    // The watch went on with another manager: no window twice, none missing, the gap in one that is
    // marked.
    let mut next = 0.0;
    let mut counted = 0;
    for line in done.out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let Some(window) = line.get("window") else { continue };
        let from = window["from_s"].as_f64().unwrap();
        assert!((from - next).abs() < 0.001, "window from {from}, expected {next}");
        next = window["to_s"].as_f64().unwrap();
        counted += window["counted"]["requests"].as_u64().unwrap();
    }
    assert_eq!(counted, target.total(), "{}", done.err);
}

/// LEDG-: without a leader no job moves, and none is lost.
#[test]
fn a_killed_leader_is_not_noticed_by_the_load() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 2);
    let load = "executor: constant-arrival-rate, rate: 100/s, duration: 8s, max_vus: 100";
    let job = cluster.submit(&plan_on(2, &target.url(), load), &[]);
    target.wait_for_requests(50);
    let leader = cluster.leader();
    cluster.kill(&leader);
    let summary = cluster.result(&job, 0);
    let dropped = summary["dropped_iterations"].as_u64().unwrap();
    assert_eq!((requests(&summary), requests(&summary) + dropped), (target.total(), 800));
}

/// All managers at once, started again within the lease: running attempts go on, and all jobs are
/// known.
#[test]
fn all_managers_restart_and_no_job_is_lost() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 2, 1);
    let load = "executor: constant-arrival-rate, rate: 100/s, duration: 12s, max_vus: 200";
    let running = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(50);
    let waiting = cluster
        .submit(&plan(&target.url(), "executor: shared-iterations, vus: 1, iterations: 7"), &[]);
    let managers = ["m1", "m2", "m3"];
    managers.iter().for_each(|name| cluster.kill(name));
    managers.iter().for_each(|name| cluster.up(name));
    until("both have ended", || {
        [&running, &waiting].iter().all(|job| {
            let done = cluster.volley(&["status", job, "--json"]);
            done.code == 0 && done.out.contains("\"ended\"")
        })
    });
    let status = cluster.status(&running);
    assert_eq!(status["outcome"], "COMPLETED", "{status:#}");
    assert_eq!(cluster.status(&waiting)["outcome"], "COMPLETED");
    let counters = |job: &str, what: &str| cluster.status(job)["counters"][what].as_u64().unwrap();
    let completed = counters(&running, "completed") + counters(&waiting, "completed");
    let issued = counters(&running, "issued") + counters(&waiting, "issued");
    let seen = target.total();
    assert_eq!((completed, seen), (issued, issued), "nothing was interrupted");
    assert!(seen >= 1200, "and nothing left out: {seen}");
    assert_eq!(counters(&waiting, "completed"), 7);
}

/// A minority refuses with the reason, within about a second.
#[test]
fn a_minority_refuses_with_the_reason() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    cluster.kill("m2");
    cluster.kill("m3");
    let path = cluster
        .room
        .write("plan.yaml", &plan(&target.url(), "executor: constant-vus, vus: 1, duration: 1s"));
    std::thread::sleep(Duration::from_millis(800));
    let begin = Instant::now();
    let address = cluster.place("m1").bind.to_string();
    let certs = cluster.local.client.display().to_string();
    let done = cluster.room.volley(["jobs", "--manager", &address, "--certs", &certs]);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("majority") || done.err.contains("nobody leads"), "{}", done.err);
    drop(path);
}
