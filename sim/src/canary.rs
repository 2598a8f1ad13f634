//! Known bugs put back on purpose: names on the command line to switches in `fence`.

use fence::canary::Canary;

/// Name and bug.
const NAMES: [(&str, Canary); 4] = [
    ("quorum-counts-self-twice", Canary::QuorumCountsSelfTwice),
    ("ack-before-fsync", Canary::AckBeforeFsync),
    ("reuse-fence-after-restart", Canary::ReuseFenceAfterRestart),
    ("apply-result-twice", Canary::ApplyResultTwice),
];

/// The bugs that `name` stands for: one, or with `all` every one.
///
/// # Errors
/// The name is unknown, or this build has no canaries.
pub fn names(name: &str) -> Result<Vec<String>, String> {
    if !cfg!(feature = "canary") {
        return Err("this build has no canaries: build with `--features canary`".to_owned());
    }
    let known = NAMES.iter().map(|(known, _)| (*known).to_owned());
    let chosen: Vec<String> = known.filter(|known| name == "all" || name == known).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
        return Err(format!("no canary `{name}`; there is: all, {}", known.join(", ")));
    }
    Ok(chosen)
}

/// Puts the bug back on this thread; `None` leaves all as it should be.
///
/// # Errors
/// The name is unknown, or this build has no canaries.
pub fn set(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    names(name)?;
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
