//! The simulator as a user calls it: seeds run, replay with an equal trace, add up, and a bug that
//! was put back is found.

// Tests live in the real world.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output();
    output.expect("the simulator starts")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

/// P1 to P5, P7: three seeds hold, and each gives the same trace twice.
#[test]
fn three_seeds_hold_and_replay_with_an_equal_trace() {
    let output = sim(&["--scenario", "ledger", "--seeds", "3", "--replay-every", "1", "--json"]);
    let totals = json(&output);
    assert_eq!(totals["seeds"], 3);
    assert_eq!(totals["failed"], 0, "{totals:#}");
    assert_eq!((&totals["replayed"], &totals["replayed_equal"]), (&3.into(), &3.into()));
    assert!(totals["histories"]["checked"].as_u64() > Some(0));
    assert!(output.status.success());
}

/// P8, DET-1: members under every class of faults keep the rules, find each other again, and do so
/// twice in the same way.
#[test]
fn members_keep_the_rules_and_find_each_other_again() {
    let arguments = ["--scenario", "membership", "--seeds", "24", "--replay-every", "8", "--json"];
    let output = sim(&arguments);
    let totals = json(&output);
    assert_eq!(totals["seeds"], 24);
    assert_eq!(totals["failed"], 0, "{totals:#}");
    assert_eq!((&totals["replayed"], &totals["replayed_equal"]), (&3.into(), &3.into()));
    assert!(totals["counts"]["deaths recorded"].as_u64() > Some(0), "{totals:#}");
    assert!(output.status.success());
}

/// P1, P2, P5, R5, R26, R27, EXEC-143, LIFE-30: the product's own managers, workers and clients, whose every result is
/// compared with what the target has seen; twice in the same way.
#[test]
fn jobs_of_a_whole_cluster_count_what_the_target_has_seen() {
    let arguments = ["--scenario", "cluster", "--seeds", "16", "--replay-every", "8", "--json"];
    let output = sim(&arguments);
    let totals = json(&output);
    assert_eq!(totals["seeds"], 16);
    assert_eq!(totals["failed"], 0, "{totals:#}");
    assert_eq!((&totals["replayed"], &totals["replayed_equal"]), (&2.into(), &2.into()));
    assert!(totals["counts"]["requests at the target"].as_u64() > Some(0), "{totals:#}");
    assert!(output.status.success());
}

/// R4, R6, R26: a fifth of all packets is lost and hosts stand still for a second; nobody who lives
/// is taken for dead.
#[test]
fn loss_and_pauses_replace_nobody() {
    let output = sim(&["--scenario", "cluster-lossy", "--seeds", "1", "--json"]);
    let totals = json(&output);
    assert_eq!((&totals["seeds"], &totals["failed"]), (&1.into(), &0.into()), "{totals:#}");
    assert!(totals["faults"]["worker: pause"].as_u64() > Some(0), "{totals:#}");
}

/// What would go wrong without a fence is found: an engine that sends whatever its permit says. It
/// is in the model, so that every build has it.
#[test]
fn an_engine_that_ignores_its_lease_is_found() {
    let arguments = ["--scenario", "cluster", "--canary", "ignores-lease", "--seeds", "256"];
    let output = sim(&arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("found after"), "{text}");
}

#[test]
fn figures_are_measured_where_there_are_any() {
    let output = sim(&["--scenario", "ledger", "--figures", "quick"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`membership` has"));
}

/// Campaigns resume and add up.
#[test]
fn a_campaign_goes_on_where_it_stopped() {
    let state = Scratch::new("state.json");
    let path = state.0.to_str().expect("a plain path");
    for call in 1..=2 {
        let output = sim(&["--seeds", "2", "--replay-every", "0", "--json", "--state", path]);
        let totals = json(&output);
        assert_eq!(totals["seeds"], call * 2);
        assert_eq!(totals["next_seed"], call * 2);
    }
}

#[test]
fn a_wrong_name_is_refused_with_the_right_ones() {
    let output = sim(&["--scenario", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is: ledger"));
}

/// A build without canaries says so; one with them finds the quickest one at once.
#[test]
fn a_bug_that_was_put_back_is_found() {
    let output = sim(&["--canary", "apply-result-twice", "--seeds", "20"]);
    if cfg!(feature = "canary") {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("found after"), "{text}");
    } else {
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--features canary"));
    }
}

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
