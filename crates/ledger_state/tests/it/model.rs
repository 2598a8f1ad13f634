//! A model that is simpler than the ledger, and the random histories that both are put through.

use fence::{Attempt, BootId, Epoch};
use ledger_state::{
    AttemptStatus, Command, CreateJob, LapseProof, Outcome, Payload, Reply, State, Submission,
};
use proptest::prelude::*;

use crate::world::{ALICE, GROUP, key, session, shard, start, submission};

/// What somebody does to one of a few jobs. Epochs are chosen from those granted so far, so many
/// are out of date.
#[derive(Clone, Debug)]
pub enum Op {
    Create {
        job: u64,
        body: u8,
    },
    Claim {
        job: u64,
        seen: usize,
    },
    Release {
        job: u64,
        epoch: usize,
    },
    Start {
        job: u64,
        epoch: usize,
        attempt: u32,
        after: LapseProof,
    },
    Revoke {
        job: u64,
        epoch: usize,
        attempt: u32,
    },
    End {
        job: u64,
        attempt: u32,
        status: AttemptStatus,
        completed: u64,
    },
    Context {
        job: u64,
        epoch: usize,
        layer: u32,
    },
    Cancel {
        job: u64,
    },
    Finish {
        job: u64,
        epoch: usize,
        outcome: Outcome,
    },
    /// The network brings an earlier proposal again.
    Repeat {
        back: usize,
    },
}

pub fn op() -> impl Strategy<Value = Op> {
    let job = 0..2u64;
    // 0 is the latest epoch of the job, which is what an owner mostly has.
    let epoch = prop_oneof![4 => Just(0usize), 1 => 1..4usize];
    // 0 is the attempt that is due, see `aimed`.
    let attempt = prop_oneof![3 => Just(0u32), 2 => 1..6u32];
    let after = prop_oneof![
        Just(LapseProof::First),
        Just(LapseProof::Stopped),
        Just(LapseProof::LeaseLapsed),
        (4..7u64).prop_map(|boot| LapseProof::HigherBoot(BootId(boot))),
    ];
    prop_oneof![
        3 => (job.clone(), 0..2u8).prop_map(|(job, body)| Op::Create { job, body }),
        3 => (job.clone(), epoch.clone()).prop_map(|(job, seen)| Op::Claim { job, seen }),
        1 => (job.clone(), epoch.clone()).prop_map(|(job, epoch)| Op::Release { job, epoch }),
        10 => (job.clone(), epoch.clone(), attempt.clone(), after)
            .prop_map(|(job, epoch, attempt, after)| Op::Start { job, epoch, attempt, after }),
        8 => (job.clone(), epoch.clone(), attempt.clone())
            .prop_map(|(job, epoch, attempt)| Op::Revoke { job, epoch, attempt }),
        4 => (job.clone(), attempt, status(), 0..100u64).prop_map(
            |(job, attempt, status, completed)| Op::End { job, attempt, status, completed }
        ),
        2 => (job.clone(), epoch.clone(), 0..3u32)
            .prop_map(|(job, epoch, layer)| Op::Context { job, epoch, layer }),
        1 => job.clone().prop_map(|job| Op::Cancel { job }),
        1 => (job, epoch, outcome()).prop_map(|(job, epoch, outcome)| Op::Finish { job, epoch, outcome }),
        4 => (0..20usize).prop_map(|back| Op::Repeat { back }),
    ]
}

pub fn status() -> impl Strategy<Value = AttemptStatus> {
    prop_oneof![
        1 => Just(AttemptStatus::Completed),
        1 => Just(AttemptStatus::Failed),
        3 => Just(AttemptStatus::Stopped),
        2 => Just(AttemptStatus::Interrupted),
    ]
}

pub fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Completed),
        Just(Outcome::Partial),
        Just(Outcome::Failed),
        Just(Outcome::Cancelled),
        Just(Outcome::Timeout),
    ]
}

/// One job, as simple as it can be said: one shard, flags, and lists.
#[derive(Clone, Debug, Default)]
pub struct Model {
    body: Option<u8>,
    /// Every epoch granted, latest first.
    grants: Vec<Epoch>,
    released: bool,
    attempts: Vec<ModelAttempt>,
    layers: u32,
    cancelled: bool,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug, Default)]
pub struct ModelAttempt {
    revoked: bool,
    end: Option<(AttemptStatus, u64)>,
    under: Epoch,
}

impl Model {
    /// Whether an owner's command under this grant is in order.
    fn may(&self, grant: usize) -> bool {
        !self.grants.is_empty() && grant == 0 && !self.released
    }

    fn epoch(&self, grant: usize) -> Epoch {
        let lowest = Epoch { group: GROUP, number: 0 };
        *self.grants.get(grant).or(self.grants.last()).unwrap_or(&lowest)
    }

    fn index(&self, grant: usize) -> usize {
        grant.min(self.grants.len().saturating_sub(1))
    }

    /// Applies what an op should do; returns whether it should change anything.
    pub fn apply(&mut self, op: &Op, here: Epoch) -> bool {
        let exists = self.body.is_some();
        let open = exists && self.outcome.is_none();
        match *op {
            Op::Create { body, .. } => {
                let new = !exists;
                self.body.get_or_insert(body);
                new
            }
            Op::Claim { seen, .. } => {
                let wins = open && (self.grants.is_empty() || self.index(seen) == 0);
                if wins {
                    self.grants.insert(0, here);
                    self.released = false;
                }
                wins
            }
            Op::Release { epoch, .. } => {
                let may = exists && self.may(self.index(epoch));
                self.released |= may;
                may
            }
            Op::Start { epoch, attempt, after, .. } => {
                let may = open && !self.cancelled && self.may(self.index(epoch));
                let next = attempt as usize == self.attempts.len() + 1 && attempt <= 4;
                let free = match self.attempts.last() {
                    None => after == LapseProof::First,
                    Some(ModelAttempt { end: Some((status, _)), .. }) => {
                        matches!(status, AttemptStatus::Stopped | AttemptStatus::Interrupted)
                    }
                    Some(ModelAttempt { revoked: false, .. }) => false,
                    Some(_) => match after {
                        LapseProof::First => false,
                        LapseProof::HigherBoot(boot) => boot > BootId(5),
                        LapseProof::Stopped | LapseProof::LeaseLapsed => true,
                    },
                };
                if may && next && free {
                    let under = self.grants[0];
                    self.attempts.push(ModelAttempt { under, ..ModelAttempt::default() });
                }
                may && next && free
            }
            Op::Revoke { epoch, attempt, .. } => {
                let may = exists && self.may(self.index(epoch));
                match self.attempts.get_mut(attempt as usize - 1) {
                    Some(record) if may && !record.revoked && record.end.is_none() => {
                        record.revoked = true;
                        true
                    }
                    _ => false,
                }
            }
            Op::End { attempt, status, completed, .. } => {
                match self.attempts.get_mut(attempt as usize - 1) {
                    Some(record) if record.end.is_none() => {
                        record.end = Some((status, completed));
                        true
                    }
                    _ => false,
                }
            }
            Op::Context { epoch, layer, .. } => {
                let next = open && self.may(self.index(epoch)) && layer == self.layers;
                self.layers += u32::from(next);
                next
            }
            Op::Cancel { .. } => {
                let first = open && !self.cancelled;
                self.cancelled |= first;
                first
            }
            Op::Finish { epoch, outcome, .. } => {
                let may = open && self.may(self.index(epoch));
                let legal = self.cancelled || outcome != Outcome::Cancelled;
                if may && legal {
                    self.outcome = Some(if self.cancelled { Outcome::Cancelled } else { outcome });
                }
                may && legal
            }
            Op::Repeat { .. } => false,
        }
    }
}

impl Op {
    /// The same op at the attempt that is due, if it names none: otherwise few histories would get
    /// far.
    pub fn aimed(mut self, model: &Model) -> Self {
        let last = model.attempts.len() as u32;
        match &mut self {
            Self::Start { attempt, after, .. } if *attempt == 0 => {
                *attempt = last + 1;
                match (last, &after) {
                    (0, _) => *after = LapseProof::First,
                    (_, LapseProof::First) => *after = LapseProof::Stopped,
                    _ => {}
                }
            }
            Self::Revoke { attempt, .. } | Self::End { attempt, .. } if *attempt == 0 => {
                *attempt = last.max(1);
            }
            _ => {}
        }
        self
    }

    pub fn job(&self) -> usize {
        match *self {
            Self::Create { job, .. }
            | Self::Claim { job, .. }
            | Self::Release { job, .. }
            | Self::Start { job, .. }
            | Self::Revoke { job, .. }
            | Self::End { job, .. }
            | Self::Context { job, .. }
            | Self::Cancel { job }
            | Self::Finish { job, .. } => job as usize,
            Self::Repeat { .. } => 0,
        }
    }

    pub fn command(&self, model: &Model) -> Command {
        let job = key(self.job() as u64).job_id("acme");
        let (none, shard) = (String::new(), shard(job));
        match *self {
            Self::Create { job, body } => Command::CreateJob(Box::new(CreateJob {
                fingerprint: [body; 32],
                ..submission(job)
            })),
            Self::Claim { seen, .. } => {
                let seen = (!model.grants.is_empty()).then(|| model.epoch(seen));
                Command::ClaimJob { job, claimant: session(ALICE, 1), seen }
            }
            Self::Release { epoch, .. } => Command::ReleaseJob { job, epoch: model.epoch(epoch) },
            Self::Start { epoch, attempt, after, .. } => {
                start(job, model.epoch(epoch), attempt, after)
            }
            Self::Revoke { epoch, attempt, .. } => {
                let (epoch, attempt) = (model.epoch(epoch), Attempt(attempt));
                Command::RevokeAttempt {
                    shard,
                    epoch,
                    attempt,
                    reason: none,
                    heard_ms: None,
                    suspected: false,
                }
            }
            Self::End { attempt, status, completed, .. } => {
                crate::world::end(job, attempt, status, completed)
            }
            Self::Context { epoch, layer, .. } => {
                let context = Payload::Inline(vec![layer as u8]);
                Command::CommitContext { job, epoch: model.epoch(epoch), layer, context }
            }
            Self::Cancel { .. } => crate::world::cancel(job, 1),
            Self::Finish { epoch, outcome, .. } => {
                Command::FinishJob { job, epoch: model.epoch(epoch), outcome, detail: none }
            }
            Self::Repeat { .. } => Command::OpenSession,
        }
    }
}

/// Whether the ledger says that it has changed something.
pub fn changed(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Submitted(Submission::Accepted { duplicate: false, .. })
            | Reply::Claimed { .. }
            | Reply::Done { .. }
            | Reply::Superseded { .. }
            | Reply::Finished { .. }
    )
}

pub fn compare(model: &Model, state: &State, number: u64) {
    let id = key(number).job_id("acme");
    let Some(job) = state.job(id) else {
        assert!(model.body.is_none());
        return;
    };
    assert_eq!(model.body.map(|body| [body; 32]), Some(job.fingerprint));
    assert_eq!(job.epoch, model.grants.first().copied());
    assert_eq!(job.owner.is_some(), !model.grants.is_empty() && !model.released);
    assert_eq!(job.cancel.is_some(), model.cancelled);
    assert_eq!(job.end.as_ref().map(|end| end.outcome), model.outcome);
    assert_eq!(job.contexts.len() as u32, model.layers);
    let attempts: Vec<_> = job
        .attempts()
        .map(|a| {
            (a.under, a.revoked.is_some(), a.end.as_ref().map(|e| (e.status, e.counters.completed)))
        })
        .collect();
    let expected: Vec<_> = model.attempts.iter().map(|a| (a.under, a.revoked, a.end)).collect();
    assert_eq!(attempts, expected);
    let sum: u64 = model.attempts.iter().filter_map(|a| a.end).map(|(_, n)| n).sum();
    assert_eq!(job.totals.completed, sum);
}
