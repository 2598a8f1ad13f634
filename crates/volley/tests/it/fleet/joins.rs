//! Workers that join with a token, as people paste it.

use serde_json::Value;

use crate::common::{Target, plan};
use crate::fleet::cluster::Cluster;

fn token(cluster: &Cluster, valid: &str) -> String {
    let ca = cluster.local.folder.join("ca");
    let ca = ca.to_str().unwrap();
    let args = ["certs", "token", "--ca", ca, "--datacenter", "local", "--valid", valid, "--json"];
    let done = cluster.room.volley(args).expect(0);
    let said: Value = serde_json::from_str(&done.out).unwrap();
    said["token"].as_str().unwrap().to_owned()
}

/// One pasted command makes a worker that runs jobs; the same command starts it again when the
/// token has expired.
#[test]
fn a_worker_joins_with_one_command_and_starts_again_with_it() {
    let target = Target::start();
    let cluster = Cluster::start(1, 0, 1);
    let token = token(&cluster, "20s");
    let manager = cluster.local.addresses()[0].clone();
    let args = ["worker", "--join", &manager, "--token", &token, "--data", "w", "--cores", "1"];
    let args = args.into_iter().chain(["--pace", "0.5"]);
    let worker = cluster.room.start(args.clone());
    cluster.until_ready(1);
    let load = "executor: shared-iterations, vus: 2, iterations: 20, max_duration: 20s";
    let job = cluster.submit(&plan(&target.url(), load), &[]);
    cluster.result(&job, 0);
    assert_eq!(target.total(), 20);
    worker.signal(libc::SIGTERM);
    worker.wait().expect(0).says("joined at").says("drained");
    assert!(cluster.said("m1").contains("a worker has joined"), "it is in the manager's log");

    // A token that says nothing any more: the certificate is in the data folder.
    let stale = args.map(|arg| if arg == token { "volley-join-1.gone" } else { arg });
    let worker = cluster.room.start(stale);
    cluster.until_ready(1);
    worker.signal(libc::SIGTERM);
    let done = worker.wait().expect(0);
    assert!(!done.out.contains("joined at"), "{}", done.out);
}

/// What is wrong with a token, and what to do, is said before anything is written.
#[test]
fn bad_tokens_are_refused_by_name() {
    let cluster = Cluster::start(1, 0, 1);
    let manager = cluster.local.addresses()[0].clone();
    let join = |more: &[&str]| {
        let args = ["worker", "--data", "w", "--join", &manager];
        cluster.room.volley(args.into_iter().chain(more.iter().copied()))
    };
    join(&[]).expect(1).says("needs a token").says("volley certs token");
    join(&["--token", "abc"]).expect(1).says("not a join token");
    let token = token(&cluster, "1h");
    join(&["--token", &token[..200]]).expect(1).says("cut off: 200 of");
    join(&["--token-file", "nothing"]).expect(1).says("--token-file nothing");
    cluster.room.write("token", &format!("{token}\n"));
    let nobody = ["worker", "--data", "w", "--certs", "dc/client", "--join", &manager];
    cluster.room.volley(nobody).expect(1).says("is a client's");
    assert!(!cluster.room.path("w").exists());
    // `certs` without --join is needed as before.
    cluster.room.volley(["worker", "--data", "w"]).expect(2).says("--certs");
}
