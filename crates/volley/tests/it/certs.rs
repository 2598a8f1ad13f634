//! `volley certs`, with real processes and, where it is installed, an openssl that reads what was
//! made.

use crate::common;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Done, Room};
use serde_json::Value;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn json(done: Done) -> Value {
    let done = done.expect(0);
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
}

/// `certs issue` from `ca` into `out`.
fn issue(room: &Room, ca: &str, role: &str, out: &str) -> Done {
    let args = ["certs", "issue", "--ca", ca, "--role", role, "--datacenter", "dc1", "--out", out];
    room.volley(args)
}

/// Three commands make what a node needs, each says what it made and what to do next, and `check`
/// agrees.
#[test]
fn a_ca_is_made_and_nodes_get_their_files() {
    let room = Room::new();
    room.volley(["certs", "init", "ca"]).expect(0).says("next").says("certs issue --ca ca");
    let done =
        issue(&room, "ca", "manager", "m1").expect(0).says("next").says("volley debug agent");
    assert!(done.out.contains("of volley/dev in dc1"), "{}", done.out);
    for (folder, file) in
        [("ca", "ca.pem"), ("ca", "ca-key.pem"), ("ca", "gossip.key"), ("m1", "gossip.key")]
    {
        assert_eq!(mode(&room.path(folder).join(file)), 0o600, "{folder}/{file}");
    }
    assert_eq!(mode(&room.path("ca")), 0o700);
    let secret = |folder: &str| std::fs::read(room.path(folder).join("gossip.key")).unwrap();
    assert_eq!(secret("ca"), secret("m1"));
    assert!(!room.path("m1").join("ca-key.pem").exists(), "the CA's key stays with the CA");
    room.volley(["certs", "check", "m1"]).expect(0).says("usable").says("manager");
    room.volley(["certs", "check", "ca"]).expect(0).says("the CA of volley/dev");

    // A client takes no part in the gossip and does not get its key.
    issue(&room, "ca", "client", "me").expect(0).says("volley debug members --certs me");
    assert!(!room.path("me").join("gossip.key").exists());
    room.volley(["certs", "check", "me"]).expect(0).says("client");
}

/// CORE-123: everything that decides about a peer is in the certificate, and `show` says it.
#[test]
fn a_certificate_says_role_cluster_environment_datacenter_and_node() {
    let room = Room::new();
    let names = ["--cluster", "shop", "--environment", "staging"];
    room.volley(["certs", "init", "ca"].into_iter().chain(names)).expect(0);
    let node = "01234567-89ab-cdef-0123-456789abcdef";
    let args =
        ["certs", "issue", "--ca", "ca", "--role", "worker", "--datacenter", "fra-2", "--out", "w"];
    let extra = ["--node", node, "--days", "7", "--name", "w7", "--json"];
    let made = json(room.volley(args.into_iter().chain(extra)));
    assert_eq!(made["node"], node);
    assert_eq!(made["certificate"], "w/w7.pem");
    let shown = json(room.volley(["certs", "show", "w/w7.pem", "--json"]));
    let identity = &shown[0]["identity"];
    for (claim, value) in [
        ("role", "worker"),
        ("cluster", "shop"),
        ("environment", "staging"),
        ("datacenter", "fra-2"),
        ("node", node),
    ] {
        assert_eq!(identity[claim], value, "{identity}");
    }
    assert_eq!(shown[0]["not_after"], made["not_after"]);
    room.volley(["certs", "show", "w/w7.pem"]).expect(0).says("fra-2").says("days left");
    room.volley(["certs", "show", "w/ca.pem"]).expect(0).says("a CA");
    room.volley(["certs", "show", "w"]).expect(0).says("fra-2");
    room.volley(["certs", "show", "ca"]).expect(0).says("a CA");
    // Seven days are soon.
    room.volley(["certs", "check", "w"]).expect(0).says("warning").says("issue a new one");
}

/// Nothing is ever written over, and a refusal leaves nothing behind.
#[test]
fn nothing_is_written_over() {
    let room = Room::new();
    room.volley(["certs", "init", "ca"]).expect(0);
    let before = std::fs::read(room.path("ca").join("ca-key.pem")).unwrap();
    room.volley(["certs", "init", "ca"]).expect(1).says("not written over");
    assert_eq!(std::fs::read(room.path("ca").join("ca-key.pem")).unwrap(), before);

    issue(&room, "ca", "gate", "g").expect(0);
    let again =
        ["certs", "issue", "--ca", "ca", "--role", "gate", "--datacenter", "dc1", "--out", "g"];
    let name = |name: &'static str| again.into_iter().chain(["--name", name]);
    room.volley(again).expect(1).says("has a certificate already").says("choose another folder");
    room.volley(name("x")).expect(1).says("has a certificate already");
    let fresh = again.into_iter().map(|word| if word == "g" { "h" } else { word });
    room.volley(fresh.chain(["--name", "ca"])).expect(1).says("choose another --name");

    // Another cluster's CA does not mix with this one.
    room.volley(["certs", "init", "other", "--cluster", "other"]).expect(0);
    let count = || std::fs::read_dir(room.path("g")).unwrap().count();
    let files = count();
    issue(&room, "other", "gate", "g").expect(1).says("another cluster");
    assert_eq!(count(), files);

    // A folder that has a gossip key and no CA.
    room.volley(["certs", "gossip-key", "new.key"]).expect(0).says("keys install new.key");
    room.volley(["certs", "gossip-key", "new.key"]).expect(1).says("not written over");
    std::fs::create_dir(room.path("half")).unwrap();
    std::fs::copy(room.path("new.key"), room.path("half").join("gossip.key")).unwrap();
    room.volley(["certs", "init", "half"]).expect(1).says("gossip.key");
    assert!(!room.path("half").join("ca.pem").exists());
}

/// Each mistake is named with its file and what to do.
#[test]
fn what_is_wrong_is_said_with_the_remedy() {
    let room = Room::new();
    issue(&room, "nowhere", "gate", "g").expect(1).says("volley certs init nowhere");
    room.volley(["certs", "init", "ca", "--cluster", "two words"]).expect(1).says("not allowed");
    room.volley(["certs", "init", "ca"]).expect(0);
    issue(&room, "ca", "boss", "g").expect(2).says("client, gate, manager, worker");
    let long =
        ["certs", "issue", "--ca", "ca", "--role", "gate", "--datacenter", "d", "--out", "g"];
    room.volley(long.into_iter().chain(["--days", "9999"])).expect(1).says("outlive its CA");
    room.volley(long.into_iter().chain(["--node", "seven"])).expect(2).says("not a node id");
    assert!(!room.path("g").exists(), "a refusal leaves nothing behind");

    room.volley(["certs", "show", "missing.pem"]).expect(1).says("missing.pem");
    room.volley(["certs", "show", "ca/ca-key.pem"]).expect(1).says("show its certificate instead");
    room.volley(["certs", "show", "ca/gossip.key"]).expect(0).says("gossip key");
    std::fs::create_dir(room.path("empty")).unwrap();
    room.volley(["certs", "check", "empty"]).expect(1).says("certs issue");
    room.volley(["certs", "check", "nowhere"]).expect(1).says("nowhere");

    // The key of another certificate, a readable key, no gossip key, a broken one.
    issue(&room, "ca", "manager", "a").expect(0);
    issue(&room, "ca", "manager", "b").expect(0);
    let key_of = |folder: &str| {
        let entries = std::fs::read_dir(room.path(folder)).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.to_string_lossy().ends_with("-key.pem")).unwrap()
    };
    let good = std::fs::read(key_of("a")).unwrap();
    std::fs::write(key_of("a"), std::fs::read(key_of("b")).unwrap()).unwrap();
    room.volley(["certs", "check", "a"]).expect(1).says("PROBLEM").says("does not belong");
    std::fs::write(key_of("a"), good).unwrap();
    std::fs::set_permissions(key_of("a"), PermissionsExt::from_mode(0o644)).unwrap();
    room.volley(["certs", "check", "a"]).expect(0).says("warning").says("chmod 600");
    let secret = room.path("a").join("gossip.key");
    std::fs::remove_file(&secret).unwrap();
    room.volley(["certs", "check", "a"]).expect(1).says("gossip.key is missing");
    std::fs::write(&secret, "c2hvcnQ=\n").unwrap();
    room.volley(["certs", "check", "a"]).expect(1).says("32 bytes");
    std::fs::write(&secret, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    let problems = room.volley(["certs", "check", "a", "--json"]).expect(1);
    let problems: Value = serde_json::from_str(&problems.out).unwrap();
    assert_eq!(problems["usable"], false);
    assert!(problems["problems"][0].as_str().unwrap().contains("too regular"), "{problems}");
}

/// A certificate of one cluster is not accepted under the CA of another: `check` says what a peer
/// would say.
#[test]
fn a_certificate_of_another_ca_is_not_usable() {
    let room = Room::new();
    room.volley(["certs", "init", "ca"]).expect(0);
    room.volley(["certs", "init", "ca2"]).expect(0);
    issue(&room, "ca", "worker", "w").expect(0);
    std::fs::copy(room.path("ca2").join("ca.pem"), room.path("w").join("ca.pem")).unwrap();
    room.volley(["certs", "check", "w"]).expect(1).says("unknown_authority");
}

/// What nobody here wrote reads it: openssl verifies the chain and finds the names.
#[test]
fn openssl_reads_and_verifies_what_was_made() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let room = Room::new();
    room.volley(["certs", "init", "ca"]).expect(0);
    let args =
        ["certs", "issue", "--ca", "ca", "--role", "gate", "--datacenter", "dc1", "--out", "g"];
    room.volley(args.into_iter().chain(["--name", "g"])).expect(0);
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(args).current_dir(room.path("g"));
        common::finish(&mut command).expect(0)
    };
    openssl(&["verify", "-CAfile", "ca.pem", "-purpose", "sslserver", "g.pem"]).says("OK");
    openssl(&["verify", "-CAfile", "ca.pem", "-purpose", "sslclient", "g.pem"]).says("OK");
    let text = openssl(&["x509", "-in", "g.pem", "-noout", "-text"]);
    for uri in
        ["volley://role/gate", "volley://dc/dc1", "volley://cluster/volley", "volley://env/dev"]
    {
        assert!(text.out.contains(uri), "{uri}: {}", text.out);
    }
    let public = |args: &[&str]| openssl(args).out;
    assert_eq!(
        public(&["pkey", "-in", "g-key.pem", "-pubout"]),
        public(&["x509", "-in", "g.pem", "-noout", "-pubkey"]),
    );
}

/// A token is one line; the output says the one command, and nothing is made that outlives the CA.
#[test]
fn a_join_token_comes_with_the_command_to_paste() {
    let room = Room::new();
    let token = |more: &[&'static str]| {
        let args = ["certs", "token", "--ca", "ca", "--datacenter", "dc1"];
        room.volley(args.into_iter().chain(more.iter().copied()))
    };
    token(&[]).expect(1).says("volley certs init ca");
    room.volley(["certs", "init", "ca", "--days", "1"]).expect(0);
    let done = token(&[]).expect(0).says("secret").says("--ca ca");
    let paste = "volley worker --join MANAGER:7500 --token volley-join-1.";
    assert!(done.out.contains(paste), "{}", done.out);
    let said = json(token(&["--valid", "10m", "--json"]));
    assert!(said["token"].as_str().unwrap().starts_with("volley-join-1."));
    assert_eq!(said["datacenter"], "dc1");
    token(&["--valid", "2d"]).expect(1).says("outlive its CA");
    issue(&room, "ca", "recruit", "r").expect(1).says("volley certs token");
    assert!(!room.path("r").exists());
}
