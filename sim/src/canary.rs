//! Known bugs put back on purpose: names on the command line to switches in `fence`, and in the models of the fleet.

use std::cell::RefCell;

use fence::canary::Canary;

/// Name and bug.
const NAMES: [(&str, Canary); 4] = [
    ("quorum-counts-self-twice", Canary::QuorumCountsSelfTwice),
    ("ack-before-fsync", Canary::AckBeforeFsync),
    ("reuse-fence-after-restart", Canary::ReuseFenceAfterRestart),
    ("apply-result-twice", Canary::ApplyResultTwice),
];

/// Bugs of the fleet's shells, which the scenario `fleet` has itself.
const IN_THE_FLEET: [&str; 8] = [
    "fleet-ignores-lease",
    "fleet-does-not-wait",
    "fleet-stale-renewal",
    "fleet-counts-twice",
    "fleet-checkpoint-no-promise",
    "fleet-runs-ahead",
    "fleet-drops-silently",
    "fleet-no-relay",
];

thread_local! {
    static FLEET: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The bug that the fleet has in this run.
#[must_use]
pub fn in_the_fleet() -> Option<String> {
    FLEET.with_borrow(Clone::clone)
}

/// The bugs that `name` stands for in a scenario: one, or with `all` every one.
///
/// # Errors
/// The name is unknown, or this build has no such canaries.
pub fn names(name: &str, scenario: &str) -> Result<Vec<String>, String> {
    let known: Vec<&str> =
        if scenario.starts_with("fleet") { IN_THE_FLEET.to_vec() } else { product()? };
    let chosen = known.iter().filter(|known| name == "all" || name == **known);
    let chosen: Vec<String> = chosen.map(|known| (*known).to_owned()).collect();
    if chosen.is_empty() {
        return Err(format!("no canary `{name}`; there is: all, {}", known.join(", ")));
    }
    Ok(chosen)
}

/// Those that are in the product itself, and only in builds that ask for them.
fn product() -> Result<Vec<&'static str>, String> {
    if !cfg!(feature = "canary") {
        return Err("this build has no canaries: build with `--features canary`".to_owned());
    }
    Ok(NAMES.iter().map(|(known, _)| *known).collect())
}

/// Puts the bug back on this thread; `None` leaves all as it should be.
///
/// # Errors
/// The name is unknown, or this build has no canaries.
pub fn set(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    if IN_THE_FLEET.contains(&name) {
        FLEET.set(Some(name.to_owned()));
        return Ok(());
    }
    product()?;
    let bug = NAMES.iter().find(|(known, _)| *known == name).map(|(_, bug)| *bug);
    put_back(bug);
    Ok(())
}

#[cfg(feature = "canary")]
fn put_back(bug: Option<Canary>) {
    fence::canary::set(bug);
}

#[cfg(not(feature = "canary"))]
fn put_back(_: Option<Canary>) {}
