//! What must hold of every state: plain functions with ids, for the simulator, for tests, and for
//! `verify`.
//!
//! | Id | Promise |
//! |---|---|
//! | P1 | at most one attempt of a shard is live, and each follows one that has provably stopped |
//! | P2 | a job is where its key says, and nowhere else |
//! | P4 | epochs rise: an owner's is the last granted, attempts and events are in the order of the log |
//! | P5 | totals are the sum over all attempts |
//! | LEDG-28 | cancel and outcome agree, nothing but teardowns was started after a cancel, nothing after an end |
//! | IDEM-2 | everything is within its limits, and what is counted is counted right |
//! | IDEM-20 | exactly the ended jobs wait for retirement |
//! | R27 | an addendum is a worker's word, after one that its owner had written for it |
//! | R3 | answers kept are within the session's window |

use std::fmt;

use fence::{Epoch, JobId};

use super::command::{Counters, LapseProof, Outcome, ReportedBy};
use super::job::{AttemptEnd, AttemptRecord, Job, Shard};
use super::limits::RETRIES_MAX;
use super::{Limits, State};

/// A promise that a state breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The id of the promise: `P1`, `P4`, `P5`, `LEDG-28` ...
    pub id: &'static str,
    pub job: Option<JobId>,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.detail)?;
        self.job.map_or(Ok(()), |job| write!(f, " (job {job})"))
    }
}

impl std::error::Error for Violation {}

/// Breaks the promise `id` unless `holds`.
pub(super) fn demand(
    holds: bool,
    id: &'static str,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { id, job: None, detail: detail() }) }
}

impl State {
    /// Checks the whole state. Reads all of it.
    pub fn check(&self) -> Result<(), Violation> {
        for (id, job) in self.jobs() {
            check_job(id, job, self.applied)
                .map_err(|violation| Violation { job: Some(id), ..violation })?;
        }
        self.check_sessions()?;
        self.check_bounds()?;
        let derived = self.derive();
        demand(derived.expiry == self.derived.expiry, "IDEM-20", || {
            "the queue of ended jobs is not that of the ended jobs".to_owned()
        })?;
        demand(derived.active == self.derived.active, "IDEM-20", || {
            "the jobs that have not ended are not those that are noted".to_owned()
        })?;
        demand(
            (derived.attempts, derived.bytes) == (self.derived.attempts, self.derived.bytes),
            "IDEM-2",
            || {
                let Self { derived: counted, .. } = self;
                format!(
                    "{} attempts and {} bytes were counted, {} and {} are there",
                    counted.attempts, counted.bytes, derived.attempts, derived.bytes
                )
            },
        )?;
        demand(derived.addenda_bytes == self.derived.addenda_bytes, "IDEM-2", || {
            "the bytes of addenda are not those that were counted".to_owned()
        })?;
        demand(self.recent.epochs().is_sorted(), "P4", || {
            "the events for watchers are not in the order of the log".to_owned()
        })
    }

    fn check_sessions(&self) -> Result<(), Violation> {
        let window = u64::from(self.limits.window);
        for (node, session) in self.sessions.iter() {
            let settled = session.settled;
            let outside =
                session.answers.keys().find(|seq| **seq <= settled || **seq - settled > window);
            demand(outside.is_none(), "R3", || {
                format!("node {node} has answer {outside:?} kept, with {settled} settled")
            })?;
            demand(!session.closed || session.answers.is_empty(), "R3", || {
                format!("node {node} has answers kept in a closed session")
            })?;
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), Violation> {
        let Limits { jobs, attempts, sessions, session_records, .. } = self.limits;
        let open = self.sessions.iter().filter(|(_, session)| !session.closed).count();
        let bounds = [
            ("jobs", self.jobs.len(), jobs),
            ("attempts", self.derived.attempts as usize, attempts),
            ("open sessions", open, sessions),
            ("sessions", self.sessions.iter().count(), session_records),
        ];
        for (what, there, limit) in bounds {
            demand(there <= limit as usize, "IDEM-2", || {
                format!("{there} {what}, {limit} are allowed")
            })?;
        }
        Ok(())
    }
}

fn check_job(id: JobId, job: &Job, applied: u64) -> Result<(), Violation> {
    demand(job.id() == id, "P2", || format!("its key belongs to job {}", job.id()))?;
    check_epochs(job, applied)?;
    check_end(job)?;
    let mut sum = Counters::default();
    for end in job.attempts().filter_map(|record| record.end.as_ref()) {
        sum.add(&end.counters);
    }
    demand(sum == job.totals, "P5", || {
        format!("the totals are {:?}, the attempts add up to {sum:?}", job.totals)
    })?;
    for ((workflow, number), shard) in &job.shards {
        check_shard(shard).map_err(|violation| Violation {
            detail: format!("shard {}/{number}: {}", workflow.0, violation.detail),
            ..violation
        })?;
    }
    Ok(())
}

/// P4: every epoch is a place in the log that was applied, and later things have higher ones.
fn check_epochs(job: &Job, applied: u64) -> Result<(), Violation> {
    let events: Vec<Epoch> = job.history.events().map(|event| event.epoch).collect();
    demand(events.is_sorted_by(|a, b| a < b), "P4", || {
        format!("its events are not in the order of the log: {}", list(&events))
    })?;
    let claimed = job.epoch.is_none_or(|epoch| job.created < epoch);
    demand(claimed && (job.owner.is_none() || job.epoch.is_some()), "P4", || {
        format!("created at {}, held under {:?}", job.created, job.epoch)
    })?;
    let grants = std::iter::once(job.created).chain(job.epoch).chain(events);
    let future = grants.into_iter().find(|epoch| epoch.index() > applied);
    demand(future.is_none(), "P4", || format!("{future:?} is beyond the log, {applied}"))?;
    let above = job.attempts().find(|record| !job.epoch.is_some_and(|held| record.under <= held));
    demand(above.is_none(), "P4", || {
        format!("an attempt was started under {:?}, the job is held under {:?}", above, job.epoch)
    })?;
    let contexts: Vec<Epoch> = job.contexts.iter().map(|context| context.epoch).collect();
    demand(contexts.is_sorted_by(|a, b| a < b), "P4", || {
        format!("contexts are not in the order of the log: {}", list(&contexts))
    })
}

/// LEDG-28, LEDG-29, R28: a cancel before the end decides the outcome; after it only teardowns
/// start, and nothing at all after the end.
fn check_end(job: &Job) -> Result<(), Violation> {
    let cancelled = job.cancel.as_ref().map(|cancel| cancel.epoch);
    if let Some(end) = &job.end {
        let agree = (end.outcome == Outcome::Cancelled) == cancelled.is_some();
        demand(agree, "LEDG-28", || {
            format!("the outcome is {}, cancelled: {}", end.outcome, cancelled.is_some())
        })?;
        demand(agree && (end.outcome == end.found || cancelled.is_some()), "LEDG-28", || {
            format!("the owner found {}, the outcome is {}", end.found, end.outcome)
        })?;
        demand(cancelled.is_none_or(|cancel| cancel < end.epoch), "LEDG-28", || {
            "cancelled after its end".to_owned()
        })?;
        let by_owner = job.epoch.is_some_and(|held| held < end.epoch);
        let rehearsed = job.rehearsal && job.epoch.is_none() && end.epoch == job.created;
        demand(by_owner || rehearsed, "LEDG-28", || "ended by nobody who held it".to_owned())?;
    }
    if let Some(end) = &job.end {
        let late = job.attempts().find(|record| record.started > end.epoch);
        demand(late.is_none(), "LEDG-28", || format!("{late:?} was started after its end"))?;
    }
    let Some(cancel) = &job.cancel else { return Ok(()) };
    demand(cancel.stop_until_ms <= cancel.teardown_until_ms, "R28", || {
        format!("teardown ends before the graceful stop: {cancel:?}")
    })?;
    for ((workflow, number), shard) in &job.shards {
        // Nothing starts after a hard cancel, not even a teardown.
        let last = match cancel.is_teardown(*workflow, *number) {
            true => cancel.hard,
            false => Some(cancel.epoch),
        };
        let late = shard.attempts.iter().find(|record| last.is_some_and(|at| record.started > at));
        demand(late.is_none(), "LEDG-28", || {
            format!("{late:?} of {}/{number} was started after its cancel", workflow.0)
        })?;
    }
    Ok(())
}

fn check_shard(shard: &Shard) -> Result<(), Violation> {
    let attempts = &shard.attempts;
    demand(!attempts.is_empty(), "P1", || "no attempt".to_owned())?;
    demand(attempts[0].after == LapseProof::First, "P1", || "no first attempt".to_owned())?;
    // The limit may have been lowered since they were started.
    let most = RETRIES_MAX as usize + 1;
    demand(attempts.len() <= most, "R5", || format!("{} attempts of {most}", attempts.len()))?;
    for pair in attempts.windows(2) {
        check_pair(&pair[0], &pair[1])?;
    }
    for record in attempts {
        let by_owner = |end: &&AttemptEnd| end.word == ReportedBy::Owner;
        let owners = record.end.as_ref().filter(by_owner).map(|end| end.epoch);
        let sound = record.addendum.as_ref().is_none_or(|addendum| {
            addendum.word != ReportedBy::Owner && owners.is_some_and(|end| end < addendum.epoch)
        });
        demand(sound, "R27", || format!("an addendum to what was no owner's word: {record:?}"))?;
    }
    let last = &attempts[attempts.len() - 1];
    demand(last.sealed.is_none(), "R17", || "the last attempt is sealed".to_owned())?;
    let live = attempts.iter().filter(|record| record.is_live()).count();
    demand(live <= 1, "P1", || format!("{live} attempts are live"))
}

/// An attempt and the one that replaced it.
fn check_pair(old: &AttemptRecord, new: &AttemptRecord) -> Result<(), Violation> {
    demand(old.started < new.started && old.under <= new.under, "P4", || {
        format!(
            "started at {} under {}, then at {} under {}",
            old.started, old.under, new.started, new.under
        )
    })?;
    demand(old.sealed == Some(new.started), "R17", || {
        format!("sealed at {:?}, but replaced at {}", old.sealed, new.started)
    })?;
    let ended = old.end.as_ref().filter(|end| end.epoch < new.started);
    demand(ended.is_none_or(|end| !end.status.is_final()), "R5", || {
        "replaced although its result is final".to_owned()
    })?;
    let revoked = old.revoked.as_ref().is_some_and(|revoked| revoked.epoch < new.started);
    let proven = match new.after {
        LapseProof::First => false,
        LapseProof::HigherBoot(boot) => boot > old.boot,
        LapseProof::Stopped | LapseProof::LeaseLapsed => true,
    };
    demand(ended.is_some() || (revoked && proven), "P1", || {
        format!("{old:?} was replaced by {new:?} without proof that it had stopped")
    })
}

fn list(epochs: &[Epoch]) -> String {
    epochs.iter().map(Epoch::to_string).collect::<Vec<_>>().join(", ")
}
