//! Known bugs put back on purpose: names on the command line to switches in `fence`, and in the
//! model of the engine.

use std::cell::RefCell;

use fence::canary::Canary;

/// Names and bugs of the ledger.
const IN_THE_LEDGER: [(&str, Canary); 4] = [
    ("quorum-counts-self-twice", Canary::QuorumCountsSelfTwice),
    ("ack-before-fsync", Canary::AckBeforeFsync),
    ("reuse-fence-after-restart", Canary::ReuseFenceAfterRestart),
    ("apply-result-twice", Canary::ApplyResultTwice),
];

/// Names and bugs of managers and workers, which the scenario `cluster` finds.
const IN_THE_CLUSTER: [(&str, Canary); 17] = [
    ("no-wait-for-lease", Canary::NoWaitForLease),
    ("other-lease", Canary::OtherLease),
    ("stale-renewal", Canary::StaleRenewal),
    ("frame-twice", Canary::FrameTwice),
    ("no-promise", Canary::NoPromise),
    ("damage-is-nothing", Canary::DamageIsNothing),
    ("drops-silently", Canary::DropsSilently),
    ("no-relay", Canary::NoRelay),
    ("last-counts-lost", Canary::LastCountsLost),
    ("loss-not-told", Canary::LossNotTold),
    ("error-retried", Canary::ErrorRetried),
    ("abort-ignored", Canary::AbortIgnored),
    ("rows-overlap", Canary::RowsOverlap),
    ("pause-lost", Canary::PauseLost),
    ("voters-unsettled", Canary::VotersUnsettled),
    ("blob-not-sought", Canary::BlobNotSought),
    ("collects-in-use", Canary::CollectsInUse),
];

/// Bugs of the engine, which is a model in the scenario `cluster`.
const IN_THE_ENGINE: [&str; 3] = ["ignores-lease", "runs-ahead", "sends-after-kill"];

thread_local! {
    static IN_A_MODEL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The bug that a model has in this run.
#[must_use]
pub fn in_a_model() -> Option<String> {
    IN_A_MODEL.with_borrow(Clone::clone)
}

/// The bugs that `name` stands for in a scenario: one, or with `all` every one.
///
/// # Errors
/// The name is unknown, or this build has no such canaries.
pub fn names(name: &str, scenario: &str) -> Result<Vec<String>, String> {
    let of = |bugs: &[(&'static str, Canary)]| -> Vec<&str> {
        bugs.iter().map(|(name, _)| *name).collect()
    };
    let known: Vec<&str> = match scenario {
        "cluster" | "cluster-large" | "cluster-lossy" => {
            [&of(&IN_THE_CLUSTER)[..], &IN_THE_ENGINE].concat()
        }
        _ => of(&IN_THE_LEDGER),
    };
    let chosen = known.iter().filter(|known| name == "all" || name == **known);
    let chosen: Vec<String> = chosen.map(|known| (*known).to_owned()).collect();
    if chosen.is_empty() {
        return Err(format!("no canary `{name}`; there is: all, {}", known.join(", ")));
    }
    if chosen.iter().any(|name| product(name).is_some()) {
        is_built()?;
    }
    Ok(chosen)
}

/// Bugs that are in the product itself are only in builds that ask for them.
fn is_built() -> Result<(), String> {
    if !cfg!(feature = "canary") {
        return Err("this build has no canaries: build with `--features canary`".to_owned());
    }
    Ok(())
}

/// The product's bug of this name.
fn product(name: &str) -> Option<Canary> {
    let all = IN_THE_LEDGER.iter().chain(&IN_THE_CLUSTER);
    all.into_iter().find(|(known, _)| *known == name).map(|(_, bug)| *bug)
}

/// Puts the bug back on this thread; `None` leaves all as it should be.
///
/// # Errors
/// The name is unknown, or this build has no canaries.
pub fn set(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    let Some(bug) = product(name) else {
        IN_A_MODEL.set(Some(name.to_owned()));
        return Ok(());
    };
    is_built()?;
    put_back(bug);
    Ok(())
}

#[cfg(feature = "canary")]
fn put_back(bug: Canary) {
    fence::canary::set(Some(bug));
    if bug == Canary::FrameTwice {
        stats::stream::canary::count_repeats();
    }
}

#[cfg(not(feature = "canary"))]
fn put_back(_: Canary) {}
