//! `--restart`: a parent that starts a node again when it has crashed, and only then.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::common::{Done, Room, Running, closed_port, until};

fn worker(room: &Room) -> (Running, SocketAddr) {
    room.volley(["certs", "init", "ca"]).expect(0);
    let issue = ["certs", "issue", "--ca", "ca", "--role", "worker", "--datacenter", "dc1"];
    room.volley(issue.into_iter().chain(["--out", "w1", "--name", "node"])).expect(0);
    let bind = closed_port();
    let at = bind.to_string();
    (room.start(["worker", "--restart", "--certs", "w1", "--data", "d", "--bind", &at]), bind)
}

/// The processes whose parent this is.
fn children(pid: u32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Waits for a node that is none of these, and listens.
fn child_of(parent: &Running, at: SocketAddr, not: &[i32]) -> i32 {
    let mut found = 0;
    until("a node runs", || {
        let new = children(parent.pid()).into_iter().find(|pid| !not.contains(pid));
        found = new.unwrap_or_default();
        found != 0 && TcpStream::connect(at).is_ok()
    });
    // What it says when it has started, and its handlers of signals, come a moment after.
    std::thread::sleep(Duration::from_millis(500));
    found
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: a signal to a process that this test has started.
    unsafe { libc::kill(pid, signal) };
}

fn is_gone(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A dead process that nobody has waited for yet is a zombie.
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn a_node_that_was_killed_is_started_again_and_one_that_was_told_to_end_is_not() {
    let room = Room::new();
    let (parent, at) = worker(&room);
    let first = child_of(&parent, at, &[]);
    kill(first, libc::SIGKILL);
    let second = child_of(&parent, at, &[first]);
    kill(second, libc::SIGKILL);
    let third = child_of(&parent, at, &[first, second]);
    // The signal goes to the pid that the user knows, and is passed on.
    parent.signal(libc::SIGTERM);
    let Done { out, err, .. } = parent.wait().expect(0);
    assert!(is_gone(third));
    for start in ["(start 1)", "(start 2)", "(start 3)"] {
        assert!(out.contains(start), "{start}: {out}{err}");
    }
    assert!(out.contains("left"), "{out}");
    assert!(err.contains("started again as process"), "{err}");
}

#[test]
fn a_node_dies_with_its_parent() {
    let room = Room::new();
    let (parent, at) = worker(&room);
    let node = child_of(&parent, at, &[]);
    parent.signal(libc::SIGKILL);
    until("the node is gone, too", || is_gone(node));
    drop(parent);
}

/// The folder belongs to another node: however often it is started, it is refused, so it is started
/// once.
#[test]
fn a_node_that_is_refused_is_not_started_again() {
    let room = Room::new();
    let (parent, at) = worker(&room);
    let node = child_of(&parent, at, &[]);
    parent.signal(libc::SIGKILL);
    until("the node is gone, too", || is_gone(node));
    drop(parent);
    let issue = ["certs", "issue", "--ca", "ca", "--role", "worker", "--datacenter", "dc1"];
    room.volley(issue.into_iter().chain(["--out", "w2", "--name", "node"])).expect(0);
    let bind = closed_port().to_string();
    room.volley(["worker", "--restart", "--certs", "w2", "--data", "d", "--bind", &bind])
        .expect(111)
        .says("belongs to node");
}
