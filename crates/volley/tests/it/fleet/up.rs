//! `volley up` and `volley demo --cluster`: what they start serves, can be taken apart, and goes
//! with them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Done, Room, Running, Target, finish, plan, until};

fn command(room: &Room, args: &[&str]) -> Command {
    let mut command = room.command(args);
    // Where clients find the cluster, and where the demo puts its own.
    command.env("XDG_STATE_HOME", room.path("state")).env("TMPDIR", room.path(""));
    command
}

fn volley(room: &Room, args: &[&str]) -> Done {
    finish(&mut command(room, args))
}

/// The nodes as a client sees them, once there are so many workers with cores.
fn nodes(room: &Room, workers: usize) -> Vec<Value> {
    let look = || {
        let status: Value = serde_json::from_str(&volley(room, &["status", "--json"]).out).ok()?;
        let nodes = status["nodes"].as_array()?.clone();
        let ready = |node: &&Value| node["state"] == "alive" && node["cores"] != 0;
        (nodes.iter().filter(ready).count() == workers).then_some(nodes)
    };
    until("the datacenter is ready", || look().is_some());
    look().unwrap_or_default()
}

fn id_of(nodes: &[Value], is_it: impl Fn(&&Value) -> bool) -> String {
    let node = nodes.iter().find(is_it).expect("such a node");
    node["node"].as_str().unwrap().to_owned()
}

/// Nodes in one process are drained one by one like any others, and the rest goes on.
#[test]
fn a_datacenter_in_one_process_runs_jobs_and_loses_what_is_drained() {
    let (room, target) = (Room::new(), Target::start());
    let args = ["up", "--managers", "3", "--workers", "2", "--cores", "1", "--pace", "0.5"];
    let up = Running::start(&mut command(&room, &args));
    let all = nodes(&room, 2);
    let text = plan(&target.url(), "executor: shared-iterations, vus: 2, iterations: 20");
    let path = room.write("plan.yaml", &text);
    let submit = ["submit", path.to_str().unwrap(), "--watch", "--quiet"];
    volley(&room, &submit).expect(0);
    let worker = id_of(&all, |node| node["role"] == "worker");
    volley(&room, &["drain", &worker, "--wait", "40s"]).expect(0).says("left");
    let leader = id_of(&all, |node| node["leads"] == true);
    volley(&room, &["drain", &leader, "--wait", "40s"]).expect(0).says("left");
    volley(&room, &submit).expect(0);
    assert_eq!(target.total(), 40);
    up.signal(libc::SIGINT);
    let done = up.wait().expect(0);
    assert!(done.err.contains("w1 has ended") || done.err.contains("w2 has ended"), "{done:?}");
    volley(&room, &["jobs"]).expect(1).says("no cluster is known here");
}

/// Each node has a line of its own, so that people can kill it; its end is said, and the others go
/// on.
#[test]
fn a_datacenter_of_processes_says_who_is_who() {
    let room = Room::new();
    let args = ["up", "--processes", "--json", "--managers", "1", "--workers", "2", "--cores", "1"];
    let mut up = command(&room, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let up = up.as_mut().unwrap();
    let lines = BufReader::new(up.stdout.take().unwrap()).lines();
    let said: Vec<Value> =
        lines.take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let roles: Vec<&str> = said.iter().map(|node| node["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["manager", "worker", "worker"]);
    nodes(&room, 2);
    let pid = |node: &Value| i32::try_from(node["pid"].as_i64().unwrap()).unwrap();
    // SAFETY: processes that were started for this test.
    let kill = |pid: i32, signal| unsafe { libc::kill(pid, signal) };
    assert_eq!(kill(pid(&said[2]), libc::SIGKILL), 0);
    let mut words = BufReader::new(up.stderr.take().unwrap()).lines();
    let word = words.next().unwrap().unwrap();
    assert!(word.contains("w2 has ended; the others go on"), "{word}");
    nodes(&room, 1);
    assert_eq!(kill(i32::try_from(up.id()).unwrap(), libc::SIGTERM), 0);
    assert!(up.wait().unwrap().success());
    let gone = |node: &Value| !Path::new(&format!("/proc/{}", pid(node))).exists();
    assert!(said.iter().all(gone), "they go with whoever started them");
}

/// Processes in whose command line this text is.
fn processes_with(text: &str) -> usize {
    let has = |entry: std::io::Result<std::fs::DirEntry>| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(text).then_some(())
    };
    std::fs::read_dir("/proc").unwrap().filter_map(has).count()
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let room = Room::new();
    let demo = Running::start(&mut command(&room, &["demo", "--cluster", "--quiet"]));
    let folder = room.path(&format!("volley-demo-{}", demo.pid()));
    let name = folder.to_str().unwrap().to_owned();
    until("its nodes have started", || processes_with(&name) == 6);
    demo.signal(libc::SIGINT);
    demo.wait().expect(105);
    assert_eq!(processes_with(&name), 0);
    assert!(!folder.exists());
}
