//! `volley submit` and its relatives where nothing is sent: bad plans, bad arguments, clusters that
//! are not there. What needs a cluster is tested with one.

use std::process::Command;

use crate::common::{Done, Room, finish, plan};

const LOAD: &str = "vus: 1, iterations: 1";

/// Nothing of the cluster of whoever runs the tests.
fn volley(room: &Room, args: &[&str]) -> Done {
    finish(&mut command(room, args))
}

fn command(room: &Room, args: &[&str]) -> Command {
    let mut command = room.command(args);
    command.env("XDG_STATE_HOME", room.path("state")).env_remove("HOME");
    command
}

/// A CA and a client's certificate.
fn with_certificate(room: &Room) {
    volley(room, &["certs", "init", "ca"]).expect(0);
    let issue =
        ["certs", "issue", "--ca", "ca", "--role", "client", "--datacenter", "dc1", "--out", "me"];
    volley(room, &issue).expect(0);
}

/// Bad input at submit: the same report as locally, and nothing leaves this machine.
#[test]
fn an_invalid_plan_has_the_same_report_as_a_local_run() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://127.0.0.1:1", LOAD).replace("get:", "gett:"));
    let local = volley(&room, &["run", "plan.yaml"]).expect(104);
    let submitted = volley(&room, &["submit", "plan.yaml"]).expect(104);
    assert_eq!(submitted.err, local.err);
    assert!(submitted.out.is_empty() && local.err.contains("gett"), "{}", local.err);
    volley(&room, &["submit", "none.yaml"]).expect(104).says("volley new none.yaml");
    room.write(
        "plan.yaml",
        &plan("http://127.0.0.1:1", LOAD).replace("get: /", "get: /${env.NOT_SET}"),
    );
    let local = volley(&room, &["run", "plan.yaml"]).expect(104);
    assert_eq!(volley(&room, &["submit", "plan.yaml"]).expect(104).err, local.err);
}

#[test]
fn a_script_that_cannot_run_is_refused_as_a_local_run_refuses_it() {
    let room = Room::new();
    room.write("bad.js", "throw new Error('no good'); export default function () {}");
    let local = volley(&room, &["run", "bad.js", "--log-format", "raw"]);
    let submitted = volley(&room, &["submit", "bad.js", "--log-format", "raw"]);
    assert_eq!((submitted.code, &submitted.err), (local.code, &local.err));
    assert!(submitted.err.contains("no good") && submitted.code == 107, "{}", submitted.err);
}

#[test]
fn flags_that_a_submission_has_no_use_for_are_refused_by_name() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://127.0.0.1:1", LOAD));
    room.write("s.js", "export default function () {}");
    volley(&room, &["submit", "plan.yaml", "--vus", "3"]).expect(2).says("--vus").says("-e");
    volley(&room, &["submit", "plan.yaml", "-i", "3"])
        .expect(2)
        .says("--iterations is for scripts");
    volley(&room, &["submit", "s.js", "--paused"]).expect(2).says("volley ctl --job JOB pause");
    volley(&room, &["submit", "s.js", "--execution-segment", "0:1/2"])
        .expect(2)
        .says("divides the load itself");
    volley(&room, &["submit", "plan.yaml", "--on-worker-loss", "ignore"])
        .expect(2)
        .says("rebalance, continue, fail");
    let streamed = ["submit", "plan.yaml", "--watch", "-o", "csv=samples.csv"];
    volley(&room, &streamed).expect(104).says("stay on its workers");
    volley(&room, &["submit", "plan.yaml", "--watch", "--summary", "no/such/s.json"])
        .expect(104)
        .says("no/such");
}

#[test]
fn without_a_cluster_it_is_said_how_to_name_one() {
    let room = Room::new();
    room.write("plan.yaml", &plan("http://127.0.0.1:1", LOAD));
    for args in [
        &["submit", "plan.yaml"][..],
        &["jobs"],
        &["status"],
        &["cancel", "3f"],
        &["ctl", "--job", "3f", "pause"],
    ] {
        volley(&room, args).expect(1).says("--manager HOST").says("volley up");
    }
    volley(&room, &["jobs", "--manager", "127.0.0.1:1"])
        .expect(1)
        .says("--certs DIR")
        .says("volley certs issue");
    volley(&room, &["watch", "nonsense!"]).expect(2).says("hexadecimal").says("volley jobs");
    volley(&room, &["ctl", "--job", "3f", "scale"])
        .expect(2)
        .says("scale needs --vus, --rate or --by");
    volley(&room, &["ctl", "--job", "3f", "--run", "12", "pause"])
        .expect(2)
        .says("cannot be used with");
}

#[test]
fn managers_that_do_not_answer_are_named_each_with_its_reason() {
    let room = Room::new();
    with_certificate(&room);
    room.write("plan.yaml", &plan("http://127.0.0.1:1", LOAD));
    let two = ["--manager", "127.0.0.1:1", "--manager", "127.0.0.1:2", "--certs", "me"];
    let args = [&["jobs"][..], &two].concat();
    volley(&room, &args)
        .expect(1)
        .says("none of 2 managers")
        .says("127.0.0.1:1: ")
        .says("127.0.0.1:2: ")
        .says("is a manager running there");
    // The variables say the same.
    let mut command = command(&room, &["jobs"]);
    command.env("VOLLEY_MANAGER", "127.0.0.1:1,127.0.0.1:2").env("VOLLEY_CERTS", "me");
    finish(&mut command).expect(1).says("none of 2 managers");
}

/// `volley up` writes down where its cluster is; the nearest one counts.
#[test]
fn the_file_of_a_cluster_stands_for_the_flags() {
    let room = Room::new();
    with_certificate(&room);
    let write = |folder: &str, port: u16| {
        std::fs::create_dir_all(room.path(folder)).unwrap();
        let certs = room.path("me").display().to_string();
        let text = format!("{{\"managers\": [\"127.0.0.1:{port}\"], \"certs\": \"{certs}\"}}");
        std::fs::write(room.path(folder).join("client.json"), text).unwrap();
    };
    write("state/volley/cluster", 1);
    volley(&room, &["jobs"]).expect(1).says("127.0.0.1:1: ");
    write("volley-cluster", 2);
    volley(&room, &["jobs"]).expect(1).says("127.0.0.1:2: ");
    volley(&room, &["jobs", "--manager", "127.0.0.1:3"]).expect(1).says("127.0.0.1:3: ");
    std::fs::write(room.path("volley-cluster/client.json"), "{").unwrap();
    volley(&room, &["jobs"]).expect(1).says("client.json").says("not JSON");
}

#[test]
fn settings_for_clients_can_stand_in_the_file() {
    let room = Room::new();
    with_certificate(&room);
    room.write("volley.toml", "manager = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\ncerts = \"me\"\n");
    volley(&room, &["jobs"]).expect(1).says("none of 2 managers");
    room.write("volley.toml", "[submit]\non-worker-loss = \"maybe\"\n");
    room.write("plan.yaml", &plan("http://127.0.0.1:1", LOAD));
    volley(&room, &["submit", "plan.yaml"]).expect(2).says("volley.toml:2");
}
