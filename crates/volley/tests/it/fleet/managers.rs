//! The managers' own group: one is lost for good and replaced while a job runs.

use crate::common::{Target, plan};
use crate::fleet::cluster::Cluster;
use crate::fleet::jobs::requests;

/// ARCH-139, ARCH-141: a manager and its disk are gone. Another takes its place, and from then on
/// the group can lose one of the others as it could before: the job that runs all the time ends
/// with every request made and counted once.
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

/// Two of three managers are killed. Gossip cannot bury them without a majority; nobody is told
/// that they are there, or that the load goes on.
#[test]
fn without_a_majority_managers_and_watch_say_so_and_what_becomes_of_the_load() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    cluster.volley(&["managers"]).expect(0).says("3 of 3 voters are there: 1 of them may be lost");
    let load = "executor: constant-arrival-rate, rate: 40/s, duration: 60s, max_vus: 20";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(20);
    let watch = cluster.begin(&["watch", &job, "--quiet"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    // The one that is left does not own the job, so the watch is broken.
    let owner = cluster.owner(&job);
    let mut others = ["m1", "m2", "m3"].into_iter().filter(|name| *name != owner);
    let other = others.next().unwrap();
    cluster.kill(other);
    // At once, whatever gossip still says of it.
    let two = cluster.volley(&["managers"]).expect(0);
    let two = two.says("2 of 3 voters are there: none of them may be lost");
    assert!(two.out.contains("Connection refused"), "{}", two.out);
    cluster.kill(&owner);
    let one = cluster.volley(&["managers"]).expect(1);
    let one = one.says("1 of 3 voters answers, and 2 are needed: nothing can be decided");
    assert!(!one.out.contains("may be lost") && !one.out.contains("leads"), "{}", one.out);
    let json = cluster.volley(&["managers", "--json"]).expect(1);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["there"], &json["can_decide"]), (&1.into(), &false.into()), "{json:#}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    watch.signal(libc::SIGTERM);
    let done = watch.wait().expect(105);
    for part in [
        "1 of 3 managers answers, and cannot decide anything now",
        "Workers stop when their leases end (2s), and go on when a majority of the managers is back",
        "goes on is not known",
    ] {
        assert!(done.err.contains(part), "nothing says `{part}`: {}", done.err);
    }
    assert_eq!(done.err.matches("their leases end").count(), 1, "once: {}", done.err);
    assert!(!done.err.contains("the job goes on"), "{}", done.err);
}

/// P7: a manager that waits to be let in can own nothing, so no job waits for it.
#[test]
fn jobs_do_not_wait_for_a_manager_that_is_not_in_the_group() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    let fourth = cluster.one_more_manager("m4").node.to_string();
    let knows_it = |cluster: &Cluster| {
        let status = cluster.json(&["status", "--json"]);
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|node| node["node"] == fourth && node["state"] == "alive")
    };
    cluster.until("the fourth is known", || knows_it(&cluster));
    // Of twelve jobs three would be its own, by the hash that spreads them.
    let jobs: Vec<String> = (0..12)
        .map(|_| cluster.submit(&plan(&target.url(), "vus: 1, iterations: 1"), &[]))
        .collect();
    for job in &jobs {
        assert_eq!(requests(&cluster.result(job, 0)), 1);
    }
    assert_eq!(target.total(), 12);
}

/// A voter is there if it answers itself. Another node at its address does not stand in for it.
#[test]
fn a_stranger_at_the_address_of_a_dead_voter_does_not_count_as_that_voter() {
    let mut cluster = Cluster::start(3, 1, 1);
    let dead = cluster.place("m3").clone();
    cluster.kill("m3");
    let stranger = cluster.one_more_manager_at("m4", dead.bind);
    let short = stranger.node.to_string().chars().take(8).collect::<String>();
    let said = format!("another node ({short}) answers at its address");
    cluster.until("the stranger is seen", || cluster.volley(&["managers"]).out.contains(&said));
    cluster
        .volley(&["managers"])
        .expect(0)
        .says("2 of 3 voters are there: none of them may be lost");
    let other = cluster.place("m2").node.to_string();
    cluster.volley(&["drain", &other]).expect(1).says("2 are needed");
}

/// The owner of the job is the one that is left: it still shows the job, and says why its load
/// stops.
#[test]
fn a_watch_at_an_owner_without_a_majority_says_why_the_load_stops() {
    let target = Target::start();
    let mut cluster = Cluster::start(3, 1, 1);
    let load = "executor: constant-arrival-rate, rate: 40/s, duration: 60s, max_vus: 20";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    target.wait_for_requests(20);
    let owner = cluster.owner(&job);
    let watch = cluster.begin(&["watch", &job, "--view", "ci"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    for other in ["m1", "m2", "m3"].into_iter().filter(|name| *name != owner) {
        cluster.kill(other);
    }
    std::thread::sleep(std::time::Duration::from_secs(8));
    watch.signal(libc::SIGINT);
    // By itself, or because it was kept with one of those that are gone.
    watch.wait().expect(105).says("cannot decide anything now");
}
