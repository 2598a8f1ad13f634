//! Slips of people who set up or use a fleet: each is answered with what is wrong and what to do.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Done, Room, Running, Target, finish, plan, until};
use crate::fleet::cluster::Cluster;

const SHORT: &str = "executor: constant-arrival-rate, rate: 20/s, duration: 20s, max_vus: 5";

/// A CA in `ca`, and a folder with a certificate for each name, by its first letter.
fn certs(room: &Room, names: &[&str]) {
    room.volley(["certs", "init", "ca", "--cluster", "shop"]).expect(0);
    for name in names {
        let role = if name.starts_with('m') { "manager" } else { "worker" };
        let issue = ["certs", "issue", "--ca", "ca", "--role", role, "--datacenter", "dc1"];
        room.volley(issue.into_iter().chain(["--out", name])).expect(0);
    }
}

/// What a node says in its first seconds.
fn first_words(room: &Room, args: &[&str]) -> Done {
    let node = room.start(args);
    std::thread::sleep(Duration::from_secs(4));
    node.signal(libc::SIGKILL);
    node.wait()
}

#[test]
fn what_is_given_in_the_wrong_place_is_said_before_a_node_starts() {
    let room = Room::new();
    certs(&room, &["m1", "w1"]);
    let issue = ["certs", "issue", "--ca", "m1", "--role", "worker", "--datacenter", "dc1"];
    let done = room.volley(issue.into_iter().chain(["--out", "w9"])).expect(1);
    let done = done.says("m1 is the folder of manager").says("not of a CA");
    assert!(!done.err.contains("make a CA first"), "{}", done.err);

    let peers = "127.0.0.1:17500,127.0.0.1:17501";
    let manager = ["manager", "--certs", "m1", "--data", "d", "--bind", "127.0.0.1:17500"];
    room.volley(manager.into_iter().chain(["--peers", peers]))
        .expect(104)
        .says("127.0.0.1:17501 is the port of the first one's ledger")
        .says("leave a port free between them");

    room.write("file", "x");
    room.volley(["worker", "--certs", "w1", "--data", "file"]).expect(1).says("file is a file");
    let join = ["worker", "--join", "127.0.0.1:9", "--data", "d2", "--token", "file"];
    room.volley(join).expect(1).says("--token-file file");

    let text = plan("http://127.0.0.1:9", SHORT);
    let path = room.write("plan.yaml", &text);
    let mut command: Command = room.command(["submit", "-"]);
    command.stdin(Stdio::from(std::fs::File::open(&path).unwrap()));
    finish(&mut command).expect(2).says("a plan is submitted from a file").says("plan.yaml");
}

#[test]
fn a_worker_that_nobody_can_give_work_says_so() {
    let room = Room::new();
    certs(&room, &["m1", "w1"]);
    let alone = ["worker", "--certs", "w1", "--data", "dw", "--bind", "127.0.0.1:0"];
    first_words(&room, &alone).says("knows no manager").says("--seed MANAGER");
}

#[test]
fn a_data_folder_is_one_nodes() {
    let mut cluster = Cluster::start(1, 1, 1);
    let (manager, worker) = (cluster.place("m1").clone(), cluster.place("w1").clone());
    let (w2, _) = node_of(&cluster, "w2", "worker");
    let run = |role: &str, certs: &str, data: &std::path::Path| {
        let args = [role, "--certs", certs, "--bind", "127.0.0.1:0", "--data"];
        cluster.room.volley(args.into_iter().chain([data.to_str().unwrap()]))
    };
    run("worker", &w2, &manager.data).expect(111).says("is the data folder of a manager");
    run("worker", &w2, &worker.data).expect(111).says("give each node a data folder of its own");
    let (m2, _) = node_of(&cluster, "m2", "manager");
    run("manager", &m2, &worker.data).expect(111).says("is the data folder of a worker");
    cluster.kill("m1");
    let done = cluster.room.volley([
        "manager",
        "--certs",
        &m2,
        "--bind",
        "127.0.0.1:0",
        "--data",
        manager.data.to_str().unwrap(),
    ]);
    done.expect(111).says("belongs to node").says("give each node, and each cluster");
}

/// The folder of a certificate that the cluster's CA has made, and whose it is.
fn node_of(cluster: &Cluster, name: &str, role: &str) -> (String, String) {
    let (out, ca) = (cluster.room.path(name), cluster.local.folder.join("ca"));
    let (out, ca) = (out.to_str().unwrap(), ca.to_str().unwrap());
    let issue = ["certs", "issue", "--ca", ca, "--role", role, "--datacenter", "local", "--out"];
    cluster.room.volley(issue.into_iter().chain([out])).expect(0);
    (out.to_owned(), ca.to_owned())
}

#[test]
fn slips_at_a_running_cluster_are_answered_with_what_to_do() {
    let cluster = Cluster::start(1, 1, 1);
    let manager = cluster.place("m1").bind;
    let ledger = format!("127.0.0.1:{}", manager.port() + 1);
    let (w2, _) = node_of(&cluster, "w2", "worker");
    let worker = ["worker", "--certs", &w2, "--bind", "127.0.0.1:0", "--data", "d2", "--seed"];
    let args: Vec<&str> = worker.iter().copied().chain([ledger.as_str()]).collect();
    let done = first_words(&cluster.room, &args);
    assert!(done.err.contains("port of a manager's ledger"), "{}", done.err);
    assert!(done.err.contains(&format!("one below, at {manager}")), "{}", done.err);

    let manager = manager.to_string();
    let paced = [manager.as_str(), "--pace", "0.1"];
    let args: Vec<&str> = worker.iter().copied().chain(paced).collect();
    let done = first_words(&cluster.room, &args);
    assert!(done.err.contains("this node's --pace is 0.1"), "{}", done.err);
    assert!(done.err.contains("is 0.5: it has to be the same on all"), "{}", done.err);

    let (m2, _) = node_of(&cluster, "m2", "manager");
    let done = cluster.volley_as(std::path::Path::new(&m2), &["status"]).expect(1);
    done.says("is a manager's that the cluster has not admitted").says("--role client");
    let done = cluster.volley(&["managers", "limits", "--keep-jobs", "1s"]).expect(1);
    let done = done.says("--keep-jobs is too short: at least 10m");
    assert!(!done.err.contains("a lease has"), "{}", done.err);
    cluster.volley(&["managers", "limits", "--keep-jobs", "48h"]).expect(0).says("2d");
    cluster.volley(&["watch", "--job", "3f2a"]).expect(2).says("volley watch JOB");
}

/// `volley up` was killed: its file leads nowhere, and the same folder is the same cluster.
#[test]
fn an_up_that_was_killed_is_said_to_be_gone_and_starts_again() {
    let (room, target) = (Room::new(), Target::start());
    let command = |args: &[&str]| {
        let mut command = room.command(args);
        command.env("XDG_STATE_HOME", room.path("state")).env("TMPDIR", room.path(""));
        command
    };
    let volley = |args: &[&str]| finish(&mut command(args));
    let up = ["up", "--managers", "1", "--workers", "1", "--cores", "1", "--dir", "updir"];
    let first = Running::start(&mut command(&up));
    let is_ready = || volley(&["status"]).out.contains("worker");
    until("it is ready", is_ready);
    first.signal(libc::SIGKILL);
    let _ = first.wait();
    let done = volley(&["status"]).expect(1).says("does not run any more");
    assert!(done.err.contains("volley up --dir") && done.err.contains("updir"), "{}", done.err);

    let again = Running::start(&mut command(&up));
    until("it is ready again", is_ready);
    let path = room.write("plan.yaml", &plan(&target.url(), SHORT));
    volley(&["submit", path.to_str().unwrap()]).expect(0);
    volley(&["ctl", "pause"]).expect(1).says("volley ctl --job");
    again.signal(libc::SIGINT);
    let done = again.wait();
    assert!(!done.err.contains("another cluster runs here"), "{}", done.err);
}
