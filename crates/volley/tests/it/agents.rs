//! `volley debug agent` and `volley debug members`, with real processes on loopback: members that
//! find each other, die, come back, leave; strangers, lost folders, new keys, and operators who
//! make mistakes.

pub mod cluster;
pub mod net;

use crate::common;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{Running, until};
use cluster::{Cluster, issue, let_pass, steps};
use serde_json::Value;

/// A watch that has begun: it shows whatever happens from now on.
fn watch(cluster: &Cluster, at: usize) -> Running {
    let address = cluster.agents[at].bind.to_string();
    let args = ["debug", "members", "--certs", "me", "--address", &address, "--watch", "--json"];
    let watch = Running::start(&mut cluster.command(at, &args));
    // Its snapshot comes within a second on any machine that runs these tests.
    let_pass(Duration::from_secs(1));
    watch
}

fn shown(watch: Running) -> String {
    watch.signal(libc::SIGINT);
    watch.wait().expect(0).out
}

/// GATE-110: one address is enough; everybody learns of everybody, and the table says how they are.
#[test]
fn three_agents_find_each_other_from_one_seed() {
    let cluster = Cluster::new(3).formed();
    let table = cluster.table(1).unwrap();
    assert_eq!(table["asked"], cluster.agents[1].node.as_str());
    for row in table["members"].as_array().unwrap() {
        assert_eq!(row["role"], "manager");
        assert_eq!(row["datacenter"], "dc1");
        assert_eq!(row["boot"], 1);
        assert_eq!(row["self"], row["node"] == table["asked"]);
    }
    until("a round-trip time of each peer", || {
        [0, 2].iter().all(|of| cluster.row(1, *of).is_some_and(|row| row["rtt_us"].is_u64()))
    });
    let text = cluster.ask(0, &[]).expect(0);
    assert!(text.out.contains("3 members: 3 confirmed"), "{}", text.out);
    assert!(!text.out.contains('\x1b'), "colours without a terminal");
    let address = cluster.agents[2].bind.to_string();
    assert!(text.out.contains(&address), "{}", text.out);
    cluster.ask(0, &["--state", "dead"]).expect(0).says("(0 shown)");
    assert!(cluster.get(0, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(cluster.get(0, "/livez").starts_with("HTTP/1.1 200"));
}

/// DET-11: `kill -9` is a suspicion first and a death then; the next start is a new life of the
/// same node.
#[test]
fn a_killed_agent_is_suspected_then_dead_and_comes_back_as_a_new_boot() {
    let mut cluster = Cluster::new(3).formed();
    let watch = watch(&cluster, 0);
    cluster.end(2, libc::SIGKILL);
    until("the others hold it for dead", || (0..2).all(|at| cluster.state(at, 2) == "dead"));
    let table = cluster.ask(0, &["--state", "dead"]).expect(0);
    assert!(table.out.contains("dead") && table.out.contains("(1 shown)"), "{}", table.out);
    cluster.start(2);
    until("it is back", || (0..2).all(|at| cluster.state(at, 2) == "confirmed"));
    assert_eq!(cluster.row(0, 2).unwrap()["boot"], 2);
    let steps = steps(&shown(watch), &cluster.agents[2].node);
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(steps[..2], ["suspect", "dead"], "{steps:?}");
    assert_eq!(steps.last(), Some(&"confirmed"), "{steps:?}");
}

/// DET-82: SIGTERM is a farewell, at once, and no death.
#[test]
fn a_terminated_agent_says_goodbye() {
    let mut cluster = Cluster::new(3).formed();
    let watch = watch(&cluster, 0);
    cluster.end(2, libc::SIGTERM).expect(0).says("saying goodbye").says("left");
    until("the others know", || (0..2).all(|at| cluster.state(at, 2) == "left"));
    cluster.end(1, libc::SIGINT).expect(0).says("left");
    until("the last one knows", || cluster.state(0, 1) == "left");
    let shown = shown(watch);
    for of in [1, 2] {
        assert_eq!(steps(&shown, &cluster.agents[of].node), ["left"], "{shown}");
    }
    // It comes back under its name.
    cluster.start(2);
    until("it is back", || cluster.state(0, 2) == "confirmed");
}

/// CORE-122: whoever has another CA gets in nowhere, neither as a member nor as an operator, and is
/// counted.
#[test]
fn a_stranger_is_refused_and_counted() {
    let mut cluster = Cluster::new(2).formed();
    let room = &cluster.room;
    // The same names, and even the same gossip key: only the CA is another.
    room.volley(["certs", "init", "other"]).expect(0);
    let (ours, theirs) = (room.path("ca/gossip.key"), room.path("other/gossip.key"));
    std::fs::copy(ours, theirs).unwrap();
    let node = issue(room, "other", "manager", "c2");
    issue(room, "other", "client", "foreign");
    let (bind, metrics) = (common::closed_port(), common::closed_port());
    cluster.agents.push(cluster::Agent { node, bind, metrics, running: None });
    cluster.start(2);
    let refused = |at: usize| {
        cluster.metric(at, "volley_node_connections_total", "kind=\"unknown_authority\"")
    };
    until("the stranger is refused by name", || refused(0) + refused(2) > 0.0);
    let_pass(Duration::from_secs(2));
    for at in 0..2 {
        assert_eq!(cluster.confirmed(at), 2, "{:?}", cluster.table(at));
    }
    let address = cluster.agents[0].bind.to_string();
    let args = ["debug", "members", "--certs", "foreign", "--address", &address];
    cluster.room.volley(args).expect(1).says("has to be of that cluster");

    // Datagrams without the key are counted, too, and not answered.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    noise.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    noise.send_to(&[7; 200], cluster.agents[0].bind).unwrap();
    assert!(noise.recv_from(&mut [0; 16]).is_err());
    until("the noise is counted", || {
        cluster.metric(0, "volley_membership_refused_total", "kind=\"alien\"") > 0.0
    });
}

/// A node whose data folder is gone would repeat its old lives; it is told so and does not start.
#[test]
fn a_lost_data_folder_is_refused_with_the_reason() {
    let mut cluster = Cluster::new(3).formed();
    cluster.end(2, libc::SIGKILL);
    std::fs::remove_dir_all(cluster.room.path("d2")).unwrap();
    cluster.start(2);
    let done = cluster.agents[2].running.take().unwrap().wait().expect(1);
    assert!(done.err.contains("folder was lost"), "{}", done.err);
    assert!(done.err.contains("certificate with a new node id"), "{}", done.err);
    // The killed one is noticed as any other.
    until("two are left", || cluster.confirmed(0) == 2);
    // Under a new name it is welcome.
    std::fs::remove_dir_all(cluster.room.path("c2")).unwrap();
    std::fs::remove_dir_all(cluster.room.path("d2")).unwrap();
    cluster.agents[2].node = issue(&cluster.room, "ca", "manager", "c2");
    cluster.start(2);
    cluster.wait_until_all_know_all();
}

/// ARCH-20: install, use, remove, while everybody keeps everybody for alive; unsafe steps are
/// refused. A worker, whom operators cannot reach, gets its keys through a manager.
#[test]
fn the_gossip_key_is_rotated_without_a_suspicion() {
    let mut cluster = Cluster::new(2).formed();
    let node = issue(&cluster.room, "ca", "worker", "c2");
    let (bind, metrics) = (common::closed_port(), common::closed_port());
    cluster.agents.push(cluster::Agent { node, bind, metrics, running: None });
    cluster.start(2);
    until("the worker is there", || (0..2).all(|at| cluster.confirmed(at) == 3));
    let watch = watch(&cluster, 0);
    let room = &cluster.room;
    let drawn = room.volley(["certs", "gossip-key", "new.key", "--json"]).expect(0).out;
    let drawn: Value = serde_json::from_str(&drawn).unwrap();
    let new = drawn["gossip_key"].as_str().unwrap();
    let keys = |more: &[&str]| {
        let mut args = vec!["keys"];
        args.extend(more);
        cluster.ask(1, &args)
    };
    let listed =
        |more: &[&str]| -> Value { serde_json::from_str(&keys(more).expect(0).out).unwrap() };
    let before = listed(&["list", "--json"]);
    let old = before["members"][0]["sealing"].as_str().unwrap().to_owned();
    assert_eq!(before["members"].as_array().unwrap().len(), 3);

    keys(&["use", new]).expect(1).says("nothing was changed").says("install");
    keys(&["remove", &old]).expect(1).says("nothing was changed").says("seals with");
    keys(&["use", "xyz"]).expect(2).says("8 hexadecimal digits");
    keys(&["install", "new.key"]).expect(0).says("3 of 3").says("keys use");
    keys(&["install", "new.key"]).expect(0);
    let_pass(Duration::from_secs(1));
    keys(&["use", new]).expect(0).says("keys remove");
    let_pass(Duration::from_secs(1));
    keys(&["remove", &old]).expect(0).says("done");
    keys(&["remove", &old]).expect(0);
    let_pass(Duration::from_secs(1));
    for member in listed(&["list", "--json"])["members"].as_array().unwrap() {
        assert_eq!(member["keys"], serde_json::json!([new]), "{member}");
    }
    assert!((0..2).all(|at| cluster.confirmed(at) == 3));
    let shown = shown(watch);
    assert!(!shown.contains("\"change\""), "somebody was suspected meanwhile: {shown}");

    // A restart remembers the ring, although its certificates' folder still has the old key.
    cluster.end(2, libc::SIGTERM).expect(0);
    cluster.start(2);
    until("it is back", || cluster.state(0, 2) == "confirmed");
}

/// SIGHUP makes an agent look at its certificates at once. What cannot be used is counted, and the
/// old ones stay; a renewed one is taken into use, and everybody goes on.
#[test]
fn a_hangup_takes_new_certificates_into_use() {
    let cluster = Cluster::new(2).formed();
    let hang_up = || cluster.agents[0].running.as_ref().unwrap().signal(libc::SIGHUP);
    let reloads = |result: &str| {
        let label = format!("result=\"{result}\"");
        cluster.metric(0, "volley_node_certificate_reloads_total", &label)
    };
    let begin = Instant::now();
    std::fs::write(cluster.room.path("c0/node.pem"), "half written").unwrap();
    let looks = 6;
    for count in 1..=looks {
        hang_up();
        until("it has looked", || reloads("failed") >= f64::from(count));
    }
    // By itself it looks every ten seconds.
    assert!(begin.elapsed() < Duration::from_secs(9) * looks, "{:?}", begin.elapsed());
    assert_eq!(reloads("done"), 0.0);
    assert_eq!(cluster.confirmed(0), 2, "the old one is in use");
    let node = cluster.agents[0].node.as_str();
    let args = ["certs", "issue", "--ca", "ca", "--role", "manager", "--datacenter", "dc1"];
    let more = ["--node", node, "--out", "renewed", "--name", "node"];
    cluster.room.volley(args.into_iter().chain(more)).expect(0);
    for file in ["node-key.pem", "node.pem"] {
        let (from, to) = (format!("renewed/{file}"), format!("c0/{file}"));
        std::fs::copy(cluster.room.path(&from), cluster.room.path(&to)).unwrap();
    }
    hang_up();
    until("the new one is in use", || reloads("done") >= 1.0);
    assert_eq!(cluster.state(1, 0), "confirmed");
    cluster.ask(0, &[]).expect(0).says("2 members: 2 confirmed");
}

/// The first Ctrl-C says goodbye, which takes its time; the second ends at once.
#[test]
fn a_second_interrupt_ends_an_agent_at_once() {
    let mut cluster = Cluster::new(2);
    for at in 0..2 {
        // A farewell takes six gossips, here some five seconds.
        let mut args = cluster.args(at);
        let pace = args.iter().position(|arg| arg == cluster::PACE).unwrap();
        args[pace] = "4".to_owned();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = cluster.command(at, &args);
        cluster.agents[at].running = Some(Running::start(&mut command));
    }
    until("both are there", || (0..2).all(|at| cluster.confirmed(at) == 2));
    let running = cluster.agents[1].running.take().unwrap();
    running.signal(libc::SIGINT);
    until("it is leaving", || cluster.get(1, "/readyz").contains("leaving"));
    running.signal(libc::SIGINT);
    let done = running.wait().expect(105);
    assert!(done.out.contains("saying goodbye") && !done.out.contains("left\n"), "{}", done.out);
}

/// Each mistake of an operator is said with what to do, and nothing is started.
#[test]
fn mistakes_are_named() {
    let mut cluster = Cluster::new(1);
    let free = common::closed_port().to_string();
    let agent = |more: &[&str]| {
        let mut args = vec!["debug", "agent", "--data", "d", "--certs", "c0", "--bind", &free];
        args.extend(more);
        cluster.room.volley(args)
    };
    agent(&["--role", "worker"]).expect(1).says("is a manager's");
    agent(&["--datacenter", "dc2"]).expect(1).says("is of dc1");
    agent(&["--certs", "me"]).expect(2).says("cannot be used multiple times");
    agent(&["--seed", "1.2.3"]).expect(104).says("looks like an address but is none");
    agent(&["--dns", "127.0.0.1"]).expect(104).says("put it among the seeds");
    assert!(!cluster.room.path("d").exists(), "a refused start leaves nothing behind");
    agent(&["--metrics", "0.0.0.0:0"]).expect(1).says("loopback");
    agent(&["--pace", "0"]).expect(2).says("more than 0");
    let plain = |certs: &str, bind: &str| {
        cluster.room.volley(["debug", "agent", "--data", "d", "--certs", certs, "--bind", bind])
    };
    plain("nowhere", &free).expect(1).says("nowhere");
    plain("c0", "0.0.0.0:0").expect(1).says("advertise");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    plain("c0", &taken.local_addr().unwrap().to_string()).expect(1).says("cannot listen");
    std::fs::copy(cluster.room.path("c0/gossip.key"), cluster.room.path("me/gossip.key")).unwrap();
    plain("me", &free).expect(1).says("client's");
    std::fs::remove_file(cluster.room.path("me/gossip.key")).unwrap();
    plain("me", &free).expect(1).says("gossip.key").says("all members need the same");

    // Nobody there; the wrong folder; the wrong role.
    let members = |more: &[&str]| {
        let mut args = vec!["debug", "members", "--timeout", "2s"];
        args.extend(more);
        cluster.room.volley(args)
    };
    members(&["--certs", "me", "--address", &free]).expect(1).says("is a member running there");
    members(&["--address", &free]).expect(1).says("--certs says which folder");
    members(&["--certs", "me", "--address", "10.0.0.300"]).expect(2).says("looks like an address");
    cluster.start(0);
    until("it answers", || cluster.confirmed(0) == 1);
    cluster.ask(0, &["--role", "gate"]).expect(1).says("manager");
    // The same data folder twice.
    let bind = common::closed_port().to_string();
    let twice =
        cluster.room.volley(["debug", "agent", "--data", "d0", "--certs", "c0", "--bind", &bind]);
    twice.expect(1).says("in use by another process");
}
