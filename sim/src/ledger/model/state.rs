//! The state of one job as the model sees it, and what each command does to it.

use std::collections::BTreeMap;

use fence::{Attempt, Epoch, ShardKey, WorkflowNo};
use ledger_state::{AttemptStatus, BlobRef, Command, Outcome, Rejection, Submission};

use super::{Seen, SeenCourse};

/// Where in the log something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    At(u64),
    /// The answer never came: somewhere after this.
    Hidden {
        after: u64,
    },
}

impl Place {
    /// Whether this is that place; learns it if it was hidden.
    pub(super) fn learn(&mut self, epoch: Epoch) -> bool {
        match *self {
            Self::At(number) => number == epoch.number,
            Self::Hidden { after } => {
                let fits = epoch.number > after;
                if fits {
                    *self = Self::At(epoch.number);
                }
                fits
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Try {
    pub(super) started: Place,
    pub(super) revoked: Option<Place>,
    pub(super) ended: Option<(AttemptStatus, Place)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    pub(super) created: Option<(Place, [u8; 32])>,
    /// The last epoch granted.
    pub(super) granted: Option<Place>,
    pub(super) released: bool,
    pub(super) cancelled: Option<Place>,
    /// Which wish it was, and the one that made it a hard cancel.
    pub(super) cancel_nonce: [u8; 16],
    pub(super) hard: Option<Place>,
    pub(super) ended: Option<(Outcome, Place)>,
    pub(super) layers: Vec<Place>,
    pub(super) shards: BTreeMap<ShardKey, Vec<Try>>,
    pub(super) course: Course,
    /// The highest place that is known.
    pub(super) latest: u64,
}

/// What the owner has decided about the job's course.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Course {
    pub(super) divisions: BTreeMap<WorkflowNo, Division>,
    /// The next row of each data set.
    pub(super) rows: BTreeMap<u32, u64>,
    pub(super) stopped: Option<Place>,
    pub(super) extended_ms: u64,
    pub(super) result: Option<BlobRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Division {
    pub(super) made: Place,
    pub(super) shards: u32,
    pub(super) begun: bool,
}

/// Shard and attempt of a command that has them.
pub(super) fn attempt_of(command: &Command) -> Option<(ShardKey, Attempt)> {
    match command {
        Command::StartAttempt { shard, attempt, .. }
        | Command::RevokeAttempt { shard, attempt, .. }
        | Command::EndAttempt { shard, attempt, .. }
        | Command::GrantRows { shard, attempt, .. } => Some((*shard, *attempt)),
        _ => None,
    }
}

impl Course {
    fn shows(&self, seen: &SeenCourse) -> bool {
        let divisions =
            self.divisions.iter().map(|(workflow, it)| (*workflow, (it.shards, it.begun)));
        let rows = self.rows.iter().map(|(set, next)| (*set, *next));
        seen.divisions == divisions.collect()
            && seen.rows == rows.collect()
            && seen.stopped == self.stopped.is_some()
            && seen.extended_ms == self.extended_ms
            && seen.result == self.result
    }
}

/// Number of an attempt as an index; attempts count from 1.
fn index(attempt: Attempt) -> Option<usize> {
    (attempt.0 as usize).checked_sub(1)
}

impl State {
    /// A new effect comes after all that are known.
    pub(super) fn fresh(&mut self, epoch: Epoch) -> bool {
        let later = epoch.number > self.latest;
        self.latest = self.latest.max(epoch.number);
        later
    }

    pub(super) fn tries(&self, command: &Command) -> Option<&[Try]> {
        let (shard, _) = attempt_of(command)?;
        Some(self.shards.get(&shard).map_or(&[], Vec::as_slice))
    }

    pub(super) fn next_attempt(&self, command: &Command) -> Option<Attempt> {
        Some(Attempt(self.tries(command)?.len() as u32 + 1))
    }

    pub(super) fn last_try(&self, command: &Command) -> Option<(Attempt, &Try)> {
        let tries = self.tries(command)?;
        Some((Attempt(tries.len() as u32), tries.last()?))
    }

    pub(super) fn try_of(&self, command: &Command, attempt: Attempt) -> Option<&Try> {
        self.tries(command)?.get(index(attempt)?)
    }

    /// The attempt that has replaced the one this command ends, if one has.
    pub(super) fn superseded(&self, command: &Command) -> Option<Attempt> {
        let Command::EndAttempt { attempt, .. } = command else { return None };
        let (last, _) = self.last_try(command)?;
        (last > *attempt).then_some(attempt.next())
    }

    /// What finishing would come to: a cancel that came first wins.
    pub(super) fn outcome_of(&self, command: &Command) -> Option<Outcome> {
        match command {
            Command::FinishJob { .. } if self.cancelled.is_some() => Some(Outcome::Cancelled),
            Command::FinishJob { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }

    pub(super) fn submitted(&mut self, command: &Command, submission: &Submission) -> bool {
        let Command::CreateJob(create) = command else { return false };
        match submission {
            Submission::Accepted { duplicate: false, created, .. } => {
                self.created.is_none() && self.fresh(*created) && {
                    self.created = Some((Place::At(created.number), create.fingerprint));
                    true
                }
            }
            Submission::Accepted { duplicate: true, created, .. } => {
                self.created.as_mut().is_some_and(|(place, fingerprint)| {
                    *fingerprint == create.fingerprint && place.learn(*created)
                })
            }
            Submission::Rejected(Rejection::KeyReused { .. }) => {
                self.created.is_some_and(|(_, fingerprint)| fingerprint != create.fingerprint)
            }
            // Nothing has changed, and it is not held against the key.
            Submission::RetryLater { .. } => true,
            // The workload sends none that would deserve it; `Pending` is no answer and is not
            // recorded as one.
            Submission::Rejected(_) | Submission::Pending { .. } => false,
        }
    }

    /// The effect of a command whose answer never came, if it can have one here.
    pub(super) fn takes_silently(&mut self, command: &Command) -> bool {
        let place = Place::Hidden { after: self.latest };
        match command {
            Command::CreateJob(create) => {
                self.created.is_none() && {
                    self.created = Some((place, create.fingerprint));
                    true
                }
            }
            _ => self.take(command, place),
        }
    }

    /// Whether this is the epoch under which the job is held.
    pub(super) fn holds(&mut self, epoch: Epoch) -> bool {
        !self.released && self.granted.as_mut().is_some_and(|granted| granted.learn(epoch))
    }

    /// The command's effect at this place, if it can have one.
    pub(super) fn take(&mut self, command: &Command, place: Place) -> bool {
        // What has ended takes reports, and lets go of what it held; nothing else.
        let winding_up = matches!(
            command,
            Command::EndAttempt { .. } | Command::ReleaseJob { .. } | Command::RevokeAttempt { .. }
        );
        if self.created.is_none() || self.ended.is_some() && !winding_up {
            return false;
        }
        match command {
            Command::ClaimJob { seen, .. } => {
                let expected = match (&mut self.granted, seen) {
                    (None, None) => true,
                    (Some(granted), Some(seen)) => granted.learn(*seen),
                    _ => false,
                };
                (self.granted, self.released) = (Some(place), false);
                expected
            }
            Command::ReleaseJob { epoch, .. } => {
                let holds = self.holds(*epoch);
                self.released = true;
                holds
            }
            Command::StartAttempt { shard, epoch, attempt, .. } => {
                let lapsed = self.last_try(command).is_none_or(|(_, last)| {
                    (last.revoked.is_some() || last.ended.is_some())
                        && !last.ended.is_some_and(|(status, _)| status.is_final())
                });
                let fits = self.cancelled.is_none()
                    && lapsed
                    && self.next_attempt(command) == Some(*attempt)
                    && self.holds(*epoch);
                let started = Try { started: place, revoked: None, ended: None };
                self.shards.entry(*shard).or_default().push(started);
                fits
            }
            Command::RevokeAttempt { epoch, .. } => {
                let holds = self.holds(*epoch);
                self.try_mut(command).is_some_and(|it| {
                    holds && it.ended.is_none() && it.revoked.replace(place).is_none()
                })
            }
            Command::EndAttempt { status, under, .. } => {
                let may = under.is_none_or(|under| self.holds(under));
                let ended = |it: &mut Try| it.ended.replace((*status, place)).is_none();
                may && self.try_mut(command).is_some_and(ended)
            }
            Command::CommitContext { epoch, layer, .. } => {
                let next = self.layers.len() == *layer as usize;
                self.layers.push(place);
                next && self.holds(*epoch)
            }
            Command::CancelJob { nonce, grace, .. } => match &self.cancelled {
                None => {
                    self.cancelled = Some(place);
                    self.cancel_nonce = *nonce;
                    self.hard = grace.is_none().then_some(place);
                    true
                }
                // Another wish makes it a hard one, once.
                Some(_) if self.hard.is_none() && self.cancel_nonce != *nonce => {
                    self.hard = Some(place);
                    true
                }
                Some(_) => false,
            },
            Command::FinishJob { epoch, .. } => {
                let outcome = self.outcome_of(command);
                self.ended = outcome.map(|outcome| (outcome, place));
                self.holds(*epoch)
            }
            Command::Provision { epoch, shards, .. } => {
                let mut new = false;
                let mut same = true;
                for (workflow, count) in shards {
                    let division = self.course.divisions.entry(*workflow).or_insert_with(|| {
                        new = true;
                        Division { made: place, shards: *count, begun: false }
                    });
                    same &= division.shards == *count;
                }
                new && same && self.goes_on(*epoch)
            }
            Command::BeginLoad { epoch, workflows, .. } => {
                let mut new = false;
                let mut known = true;
                for workflow in workflows {
                    match self.course.divisions.get_mut(workflow) {
                        Some(division) => new |= !std::mem::replace(&mut division.begun, true),
                        None => known = false,
                    }
                }
                new && known && self.goes_on(*epoch)
            }
            Command::GrantRows { epoch, .. } => {
                self.grant(command).is_some() && self.is_live(command) && self.goes_on(*epoch)
            }
            Command::StopJob { epoch, .. } => {
                self.course.stopped.replace(place).is_none() && self.holds(*epoch)
            }
            Command::SteerJob { epoch, .. } => self.goes_on(*epoch),
            Command::ExtendJob { epoch, total_ms, .. } => {
                let longer = *total_ms > self.course.extended_ms;
                self.course.extended_ms = *total_ms;
                longer && self.holds(*epoch)
            }
            Command::RecordResult { epoch, result, .. } => {
                self.course.result.replace(*result).is_none() && self.holds(*epoch)
            }
            Command::OpenSession
            | Command::GrantUnits { .. }
            | Command::SetLimits { .. }
            | Command::CreateJob(_)
            | Command::Advance { .. }
            | Command::MakeRoom { .. } => false,
        }
    }

    /// Held under this epoch, and nobody has cancelled it: something new may begin.
    fn goes_on(&mut self, epoch: Epoch) -> bool {
        self.cancelled.is_none() && self.holds(epoch)
    }

    /// Whether the attempt that a command names is its shard's last one, neither ended nor revoked.
    pub(super) fn is_live(&self, command: &Command) -> bool {
        let asked = attempt_of(command).map(|(_, attempt)| attempt);
        self.last_try(command).is_some_and(|(last, it)| {
            Some(last) == asked && it.revoked.is_none() && it.ended.is_none()
        })
    }

    /// The rows that such a command is given here: the next ones that nobody was given.
    pub(super) fn grant(&mut self, command: &Command) -> Option<(u64, u64)> {
        let Command::GrantRows { set, count, of, .. } = command else { return None };
        let next = self.course.rows.entry(*set).or_default();
        let first = (*next).min(*of);
        let end = first.saturating_add(*count).min(*of);
        *next = end.max(*next);
        Some((first, end))
    }

    pub(super) fn try_mut(&mut self, command: &Command) -> Option<&mut Try> {
        let (shard, attempt) = attempt_of(command)?;
        self.shards.get_mut(&shard)?.get_mut(index(attempt)?)
    }

    /// Whether the command's effect was had before, at that place.
    pub(super) fn had(&mut self, command: &Command, epoch: Epoch) -> bool {
        match command {
            Command::ClaimJob { .. } => self.holds(epoch),
            Command::ReleaseJob { .. } => self.released,
            Command::StartAttempt { .. } => {
                self.try_mut(command).is_some_and(|it| it.started.learn(epoch))
            }
            // Revoked before, or ended before: either way there was nothing left to take away.
            Command::RevokeAttempt { .. } => self.try_mut(command).is_some_and(|it| {
                it.revoked.as_mut().is_some_and(|place| place.learn(epoch))
                    || it.ended.as_mut().is_some_and(|(_, place)| place.learn(epoch))
            }),
            Command::EndAttempt { .. } => self
                .try_mut(command)
                .and_then(|it| it.ended.as_mut())
                .is_some_and(|(_, place)| place.learn(epoch)),
            Command::CommitContext { layer, .. } => {
                self.layers.get_mut(*layer as usize).is_some_and(|place| place.learn(epoch))
            }
            Command::CancelJob { nonce, .. } => match &mut self.hard {
                Some(hard) => hard.learn(epoch),
                None if self.cancel_nonce != *nonce => false,
                None => self.cancelled.as_mut().is_some_and(|cancelled| cancelled.learn(epoch)),
            },
            Command::Provision { shards, .. } => {
                let divisions = &mut self.course.divisions;
                let all = shards.iter().all(|(workflow, count)| {
                    divisions.get(workflow).is_some_and(|it| it.shards == *count)
                });
                let first = shards.first().and_then(|(workflow, _)| divisions.get_mut(workflow));
                all && first.is_some_and(|division| division.made.learn(epoch))
            }
            // Where these were done is not kept.
            Command::BeginLoad { workflows, .. } => {
                let divisions = &self.course.divisions;
                workflows.iter().all(|workflow| divisions.get(workflow).is_some_and(|it| it.begun))
            }
            Command::ExtendJob { total_ms, .. } => *total_ms <= self.course.extended_ms,
            Command::RecordResult { .. } => self.course.result.is_some(),
            Command::StopJob { .. } => {
                self.course.stopped.as_mut().is_some_and(|stopped| stopped.learn(epoch))
            }
            Command::FinishJob { .. }
            | Command::GrantRows { .. }
            | Command::SteerJob { .. }
            | Command::GrantUnits { .. }
            | Command::SetLimits { .. }
            | Command::OpenSession
            | Command::CreateJob(_)
            | Command::Advance { .. }
            | Command::MakeRoom { .. } => false,
        }
    }

    pub(super) fn ended_at(&mut self, outcome: Outcome, epoch: Epoch) -> bool {
        self.ended.as_mut().is_some_and(|(ended, place)| *ended == outcome && place.learn(epoch))
    }

    /// Whether a strong read can show this.
    pub(super) fn shows(&mut self, seen: Option<&Seen>) -> bool {
        let (Some(seen), Some((created, _))) = (seen, &mut self.created) else {
            return seen.is_none() && self.created.is_none();
        };
        let same = |place: &mut Option<Place>, number: Option<u64>| match (place, number) {
            (None, None) => true,
            (Some(place), Some(number)) => place.learn(Epoch { number, ..Epoch::default() }),
            _ => false,
        };
        let mut ended = self.ended.map(|(_, place)| place);
        let fits = created.learn(Epoch { number: seen.created, ..Epoch::default() })
            && same(&mut self.granted, seen.granted)
            && self.released == seen.released
            && same(&mut self.cancelled, seen.cancelled)
            && self.ended.map(|(outcome, _)| outcome) == seen.ended.map(|(outcome, _)| outcome)
            && same(&mut ended, seen.ended.map(|(_, place)| place))
            && self.layers.len() == seen.layers as usize
            && self.course.shows(&seen.course)
            && self.shards.len() == seen.shards.len();
        self.ended = self.ended.zip(ended).map(|((outcome, _), place)| (outcome, place));
        fits && self.shards.iter_mut().all(|(shard, tries)| {
            seen.shards.get(shard).is_some_and(|seen| {
                tries.len() == seen.len()
                    && tries.iter_mut().zip(seen).all(|(it, seen)| {
                        it.started.learn(Epoch { number: seen.started, ..Epoch::default() })
                            && it.revoked.is_some() == seen.revoked
                            && it.ended.map(|(status, _)| status) == seen.ended
                    })
            })
        })
    }
}
