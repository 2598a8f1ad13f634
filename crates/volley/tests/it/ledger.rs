//! `volley debug ledger`, with real processes: members that are killed while others write, folders
//! that are damaged, operators who make mistakes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Done, Room, Running, closed_port, until};
use serde_json::Value;

/// Members of one group, each a process with a folder of its own.
struct Group {
    room: Room,
    addresses: Vec<SocketAddr>,
    running: Vec<Option<Running>>,
}

impl Group {
    fn start(size: usize) -> Group {
        let addresses: Vec<SocketAddr> = (0..size).map(|_| closed_port()).collect();
        let running = (0..size).map(|_| None).collect();
        let mut group = Group { room: Room::new(), addresses, running };
        (0..size).for_each(|member| group.run(member));
        group.wait_for_leader();
        group
    }

    fn run(&mut self, member: usize) {
        let peers: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let (folder, listen) = (format!("m{member}"), self.addresses[member].to_string());
        let mut args = vec!["debug", "ledger", "serve", &folder, "--listen", &listen];
        let peers = peers.join(",");
        if self.addresses.len() > 1 {
            args.extend(["--peers", &peers]);
        }
        self.running[member] = Some(self.room.start(args));
    }

    /// `kill -9`.
    fn kill(&mut self, member: usize) {
        let running = self.running[member].take().unwrap();
        running.signal(libc::SIGKILL);
        let _ = running.wait();
    }

    fn status(&self, member: usize) -> Option<Value> {
        let address = self.addresses[member].to_string();
        let done = self.room.volley(["debug", "ledger", "status", &address, "--json"]);
        serde_json::from_str(&done.out).ok()
    }

    /// Who leads with a majority behind it.
    fn leader(&self) -> Option<usize> {
        (0..self.addresses.len()).find(|member| {
            self.running[*member].is_some()
                && self.status(*member).is_some_and(|status| status["leads"] == true)
        })
    }

    fn wait_for_leader(&self) -> usize {
        let mut leader = None;
        until("somebody leads", || {
            leader = self.leader();
            leader.is_some()
        });
        leader.unwrap()
    }

    fn check(&self, duration: &str) -> Running {
        let mut args = vec!["debug".to_owned(), "ledger".to_owned(), "check".to_owned()];
        args.extend(self.addresses.iter().map(ToString::to_string));
        args.extend(["--duration", duration, "--clients", "8", "--json"].map(str::to_owned));
        self.room.start(args)
    }

    fn verify(&self, member: usize) -> Done {
        self.room.volley(["debug", "ledger", "verify", &format!("m{member}")])
    }
}

fn figures(done: Done) -> Value {
    let done = done.expect(0);
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
}

/// LEDG-152: the leader is killed again and again while clients write; every acknowledged write is
/// there exactly once, and every folder is sound.
#[test]
fn leaders_are_killed_and_every_acknowledged_write_is_there_once() {
    let mut group = Group::start(3);
    let check = group.check("12s");
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(1200));
        let leader = group.wait_for_leader();
        group.kill(leader);
        group.wait_for_leader();
        group.run(leader);
    }
    let figures = figures(check.wait());
    assert!(figures["acknowledged"].as_u64().unwrap() > 100, "{figures}");
    assert!(figures["retried"].as_u64().unwrap() > 0, "no kill was noticed: {figures}");
    assert_eq!(figures["wrong"], serde_json::json!([]), "{figures}");
    for member in 0..3 {
        group.verify(member).expect(0).says("sound");
    }
}

/// R4 of the operator's life: all members are killed at once, and come back with everything.
#[test]
fn all_members_are_killed_at_once_and_nothing_is_lost() {
    let mut group = Group::start(3);
    let check = group.check("6s");
    std::thread::sleep(Duration::from_secs(2));
    (0..3).for_each(|member| group.kill(member));
    (0..3).for_each(|member| group.run(member));
    let figures = figures(check.wait());
    assert_eq!(figures["wrong"], serde_json::json!([]), "{figures}");
    assert!(figures["acknowledged"].as_u64().unwrap() > 10, "{figures}");
}

/// LEDG-117: a member that lost its disk does not vote, is told how to come back, and comes back.
#[test]
fn a_member_without_its_log_votes_again_only_when_it_was_admitted() {
    let mut group = Group::start(3);
    figures(group.check("1s").wait());
    let lost = (group.wait_for_leader() + 1) % 3;
    group.kill(lost);
    std::fs::remove_dir_all(group.room.path(&format!("m{lost}")).join("wal")).unwrap();
    group.run(lost);
    // With only one other member up, nobody has a majority: the member that forgot does not count.
    let other = (0..3).find(|member| *member != lost && group.leader() != Some(*member)).unwrap();
    group.kill(other);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(group.leader(), None, "a member that lost its log has voted");
    group.run(other);
    let leader = group.wait_for_leader();

    let (at, back) = (group.addresses[leader].to_string(), group.addresses[lost].to_string());
    group
        .room
        .volley(["debug", "ledger", "members", &at, "readmit", &back])
        .expect(0)
        .says("votes");
    group.kill(other);
    group.wait_for_leader();
    figures(group.check("1s").wait());
}

/// WAL-79, LEDG-61: a record that was acknowledged and has changed is refused by place, nothing is
/// overwritten, and the operator is told the way out.
#[test]
fn a_damaged_log_is_named_and_kept() {
    let mut group = Group::start(1);
    figures(group.check("1s").wait());
    let running = group.running[0].take().unwrap();
    running.signal(libc::SIGINT);
    running.wait().expect(0).says("everything that was acknowledged is on the disk");
    group.verify(0).expect(0).says("sound");

    let segment = group.room.path("m0").join("wal").join("segment_00000001.wal");
    let segment = if segment.exists() {
        segment
    } else {
        group.room.path("m0").join("wal").join("segment_00000000.wal")
    };
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[400] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    group.verify(0).expect(1).says("segment").says("PROBLEM");
    let address = group.addresses[0].to_string();
    group
        .room
        .volley(["debug", "ledger", "serve", "m0", "--listen", &address])
        .expect(1)
        .says("segment");
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "the damaged file was changed");
    group
        .room
        .volley(["debug", "ledger", "reset", "m0", "--reason", "test"])
        .expect(0)
        .says("put aside");
}

/// Records are shown as words and as JSON, and what is not a data folder is said to be none.
#[test]
fn a_folder_can_be_looked_into_while_its_member_runs() {
    let group = Group::start(1);
    figures(group.check("1s").wait());
    group
        .room
        .volley(["debug", "ledger", "inspect", "m0", "--limit", "5"])
        .expect(0)
        .says("CreateJob");
    let lines = group
        .room
        .volley(["debug", "ledger", "inspect", "m0", "--from", "1", "--limit", "3", "--json"]);
    for line in lines.expect(0).out.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(record["lsn"].as_u64().unwrap() <= 3, "{line}");
    }
    group.verify(0).expect(0);
    group.room.volley(["debug", "ledger", "verify", "."]).expect(1).says("not a data folder");
    // A second process on the same folder, and a listener beyond loopback.
    let free = closed_port().to_string();
    group.room.volley(["debug", "ledger", "serve", "m0", "--listen", &free]).expect(1).says("m0");
    group
        .room
        .volley(["debug", "ledger", "serve", "x", "--listen", "0.0.0.0:7999"])
        .expect(1)
        .says("loopback");
    group
        .room
        .volley(["debug", "ledger", "serve", "y", "--listen", &free, "--peers", "127.0.0.1:1"])
        .expect(1)
        .says("is missing");
    group
        .room
        .volley(["debug", "ledger", "status", &free])
        .expect(1)
        .says("is a member running there?");
}
