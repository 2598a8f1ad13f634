//! What has to be done now and then: the ledger's own time, snapshots by size, blobs, half-done
//! changes of the members.

use std::sync::Arc;

use fence::canary::{self, Canary};
use ledger_state::Command;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::answer::ReadLevel;
use crate::core::Core;
use crate::node::Node;
use crate::{copies, members, reads};

/// Ended jobs that a leader forgets in one round while its disk is nearly full.
const FORGET_AT_ONCE: u32 = 64;

/// Moves the ledger's time while this node leads, and counts it while nobody does (see
/// [`crate::timekeeper`]). A wall clock that jumps moves nothing (R9).
pub(crate) async fn advance(core: Arc<Core>) {
    let node = Node::of(Arc::clone(&core));
    let mut ticks = interval(core.timing.advance);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut standing = core.standing.clone();
    let mut applied = core.applied.watch();
    let mut led = false;
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {}
            // Entries carry their leader's time. Who reads it when it comes knows it to the
            // millisecond, should it lead next.
            changed = applied.changed() => {
                if changed.is_err() {
                    return;
                }
                applied.borrow_and_update();
                core.time.read(core.applied.read(ledger_state::State::now_ms));
                continue;
            }
            // A new leader says at once how much time has passed: owners go by it.
            changed = standing.changed() => {
                if changed.is_err() {
                    return;
                }
                standing.borrow_and_update();
                let leads = core.claims();
                if std::mem::replace(&mut led, leads) || !leads {
                    continue;
                }
            }
        }
        if core.serving().is_err() {
            return;
        }
        let now_ms = core.applied.read(ledger_state::State::now_ms);
        let behind = core.time.read(now_ms);
        if behind > 0 && core.claims() && core.group().is_some() {
            let command = Command::Advance { seen_ms: now_ms, elapsed_ms: behind };
            node.propose_and_forget(command, core.timing.advance).await;
        }
    }
}

/// Everything that is not in a hurry.
pub(crate) async fn tidy(core: Arc<Core>) {
    let node = Node::of(Arc::clone(&core));
    let mut ticks = interval(core.timing.housekeeping);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rounds = 0u64;
    let mut read_at = Instant::now();
    loop {
        ticks.tick().await;
        if core.serving().is_err() {
            return;
        }
        if let Some(why) = core.storage.poisoned() {
            core.fail(&format!("the log takes nothing more: {why}"));
            return;
        }
        rounds += 1;
        if core.storage.log_bytes_since_snapshot() > core.config.limits.snapshot_log_bytes
            && let Err(error) = core.raft.trigger().snapshot().await
        {
            tracing::warn!(%error, "a snapshot could not be started");
        }
        if core.claims() {
            members::finish(&core).await;
            if core.storage.space_is_low() && core.applied.read(ledger_state::State::can_make_room)
            {
                // Old results must not keep new jobs out; their blobs go in the next rounds, on all
                // members.
                let command = Command::MakeRoom { jobs: FORGET_AT_ONCE };
                node.propose_and_forget(command, core.timing.request).await;
            }
        }
        blobs(&core, &mut read_at).await;
        // A session that is silent for an hour may be closed to make room.
        if rounds.is_multiple_of(30) {
            node.refresh_session(core.timing.request).await;
        }
    }
}

/// Fetches blobs that are missing here and removes those that nothing refers to. `read_at`: when
/// the state was last known to be current.
async fn blobs(core: &Core, read_at: &mut Instant) {
    if core.group().is_none() || core.standing.borrow().configs().is_empty() {
        return;
    }
    let began = Instant::now();
    // Only a state that is up to date may say what is not needed.
    let in_use =
        reads::read(core, ReadLevel::Strong, core.timing.request, |state| state.blobs_in_use());
    let Ok(in_use) = in_use.await else { return };
    let mut in_use = in_use.value;
    if canary::active(Canary::CollectsInUse) {
        in_use.clear();
    }
    let gap = began.saturating_duration_since(std::mem::replace(read_at, began));
    if gap > core.timing.housekeeping * 3 {
        // A majority was missing. A submission that has waited for it must find its blobs when it
        // is back.
        core.blobs.not_counted(gap);
    }
    let missing = in_use.iter().filter(|blob| !core.blobs.has(blob));
    for blob in missing.take(core.config.limits.blobs_per_round) {
        if let Err(error) = copies::bring(core, blob, core.timing.request).await {
            tracing::warn!(%error, "a blob that is in use is missing here");
        }
    }
    match core.blobs.collect(&in_use, began).await {
        Ok(collected) => core.metrics.blobs_collected.add(collected.blobs),
        Err(error) => tracing::warn!(%error, "unused blobs could not be removed"),
    }
}
