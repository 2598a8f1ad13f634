//! What must hold between a state and a later one of the same group: what is final has not changed,
//! what rises has not fallen. Any number of entries may lie between.

use fence::JobId;

use super::State;
use super::command::Outcome;
use super::invariant::{Violation, demand};
use super::job::{AttemptRecord, Cancel, Job, Phase, Shard};

/// Checks that `after` can have come from `before`.
pub fn check_step(before: &State, after: &State) -> Result<(), Violation> {
    demand(before.group.cluster == after.group.cluster, "P3", || {
        format!("group {} became {}", before.group, after.group)
    })?;
    demand(before.applied <= after.applied, "P3", || {
        format!("applied up to {}, then up to {}", before.applied, after.applied)
    })?;
    demand(before.now_ms <= after.now_ms, "IDEM-19", || {
        format!("time went back from {} to {}", before.now_ms, after.now_ms)
    })?;
    check_sessions(before, after)?;
    for (id, old) in before.jobs() {
        let new = after.job(id).filter(|new| new.created == old.created);
        let checked = match new {
            Some(new) => check_job(old, new),
            None => check_gone(before, after, id, old),
        };
        checked.map_err(|violation| Violation { job: Some(id), ..violation })?;
    }
    Ok(())
}

fn check_sessions(before: &State, after: &State) -> Result<(), Violation> {
    for (node, old) in before.sessions.iter() {
        let Some(new) = after.sessions.get(node) else {
            let detail = format!("the session of node {node} is forgotten");
            return Err(Violation { id: "R3", job: None, detail });
        };
        demand(old.boot <= new.boot, "R3", || {
            format!("node {node} went back from start {} to {}", old.boot, new.boot)
        })?;
        if old.boot < new.boot {
            continue;
        }
        demand(old.settled <= new.settled && (!old.closed || new.closed), "R3", || {
            format!("the session of node {node} went back")
        })?;
        for (seq, answer) in &old.answers {
            let kept = new.answers.get(seq);
            let gone = kept.is_none() && (new.closed || *seq <= new.settled);
            demand(gone || kept == Some(answer), "R3", || {
                format!("the answer to request {seq} of node {node} was {answer:?}, then {kept:?}")
            })?;
        }
    }
    Ok(())
}

/// IDEM-19: a job that is gone had ended, and its key was kept for as long as was promised.
fn check_gone(before: &State, after: &State, id: JobId, old: &Job) -> Result<(), Violation> {
    let kept_until = before.key_needed_until_ms(id).unwrap_or_else(|| {
        // It was active, so it can have ended at the earliest then.
        before.now_ms.saturating_add(before.limits.committed_ttl_ms)
    });
    demand(after.now_ms > kept_until, "IDEM-19", || {
        format!(
            "gone at {}, was to be kept until {kept_until}; it was {:?}",
            after.now_ms,
            old.phase()
        )
    })
}

fn check_job(old: &Job, new: &Job) -> Result<(), Violation> {
    let same = (&old.tenant, &old.key, old.fingerprint, &old.name, old.plan, old.created_ms)
        == (&new.tenant, &new.key, new.fingerprint, &new.name, new.plan, new.created_ms);
    demand(same, "P2", || "what was submitted has changed".to_owned())?;

    demand(may_become(old.phase(), new.phase()), "LEDG-28", || {
        format!("went from {:?} to {:?}", old.phase(), new.phase())
    })?;
    demand(old.end.is_none() || old.end == new.end, "R5", || {
        format!("the outcome was {:?}, then {:?}", old.end, new.end)
    })?;
    if let Some(cancel) = &old.cancel {
        let kept = new.cancel.as_ref().is_some_and(|new| may_harden(cancel, new));
        demand(kept, "LEDG-29", || format!("{cancel:?} became {:?}", new.cancel))?;
    }

    let rising = match (old.epoch, new.epoch) {
        (None, _) => true,
        (Some(old), Some(new)) => old <= new,
        (Some(_), None) => false,
    };
    demand(rising, "P4", || format!("held under {:?}, then under {:?}", old.epoch, new.epoch))?;
    let handed_over = old.owner == new.owner || old.epoch < new.epoch || new.owner.is_none();
    demand(handed_over, "P4", || {
        format!("the owner {:?} became {:?} under the same epoch", old.owner, new.owner)
    })?;

    check_course(old, new)?;
    let kept = new.contexts.starts_with(&old.contexts);
    demand(kept, "LEDG-28", || "a committed context has changed".to_owned())?;
    let falls = old.totals.fields().into_iter().zip(new.totals.fields()).any(|(a, b)| a > b);
    demand(!falls, "P5", || format!("totals fell from {:?} to {:?}", old.totals, new.totals))?;
    for (key, shard) in &old.shards {
        let Some(later) = new.shards.get(key) else {
            let detail = format!("shard {}/{} is gone", key.0.0, key.1);
            return Err(Violation { id: "P1", job: None, detail });
        };
        check_shard(shard, later)?;
    }
    Ok(())
}

/// R28: a cancel stays as it is, but a second one may take away the time that the first had left.
fn may_harden(old: &Cancel, new: &Cancel) -> bool {
    let softened = Cancel {
        stop_until_ms: old.stop_until_ms,
        teardown_until_ms: old.teardown_until_ms,
        hard: old.hard,
        ..new.clone()
    };
    let shorter = new.stop_until_ms <= old.stop_until_ms
        && new.teardown_until_ms <= old.teardown_until_ms
        && old.hard.is_none_or(|hard| new.hard == Some(hard));
    softened == *old && shorter && (new == old || new.hard.is_some())
}

/// EXEC-66, R5a: how a workflow is divided stays, its load begins once, and no row is given out
/// again.
fn check_course(old: &Job, new: &Job) -> Result<(), Violation> {
    for (workflow, old) in &old.provisioned {
        let same = new.provisioned.get(workflow).is_some_and(|new| {
            (new.epoch, new.shards) == (old.epoch, old.shards)
                && (old.begun_ms.is_none() || old.begun_ms == new.begun_ms)
        });
        demand(same, "EXEC-66", || format!("the division of workflow {} has changed", workflow.0))?;
    }
    for (set, old) in &old.rows {
        let risen = new.rows.get(set).is_some_and(|new| new >= old);
        demand(risen, "R5a", || format!("rows of data set {set} are given out again"))?;
    }
    let kept = (old.stop.is_none() || old.stop == new.stop)
        && (old.result.is_none() || old.result == new.result)
        && old.extended_ms <= new.extended_ms
        && old.paused_ms <= new.paused_ms;
    demand(kept, "LEDG-28", || "a stop, a result or an extension was taken back".to_owned())
}

/// LEDG-28, over any number of commands.
fn may_become(old: Phase, new: Phase) -> bool {
    match (old, new) {
        (Phase::Ended(a), Phase::Ended(b)) => a == b,
        (Phase::Ended(_), _) => false,
        (Phase::Cancelling, new) => {
            matches!(new, Phase::Cancelling | Phase::Ended(Outcome::Cancelled))
        }
        (Phase::Running, Phase::Created) => false,
        (Phase::Running | Phase::Created, _) => true,
    }
}

fn check_shard(old: &Shard, new: &Shard) -> Result<(), Violation> {
    demand(old.attempts.len() <= new.attempts.len(), "P1", || {
        format!("there were {} attempts, then {}", old.attempts.len(), new.attempts.len())
    })?;
    for (old, new) in old.attempts.iter().zip(&new.attempts) {
        let same = started(old) == started(new)
            && old.terms.units_end <= new.terms.units_end
            && (old.revoked.is_none() || old.revoked == new.revoked)
            && (old.end.is_none() || old.end == new.end)
            && (old.addendum.is_none() || old.addendum == new.addendum)
            && (old.sealed.is_none() || old.sealed == new.sealed);
        demand(same, "R17", || format!("{old:?} became {new:?}"))?;
    }
    Ok(())
}

fn started(record: &AttemptRecord) -> impl PartialEq {
    let AttemptRecord { worker, boot, under, started, after, terms, .. } = *record;
    (worker, boot, under, started, after, terms.lease_ms, terms.units_before)
}
