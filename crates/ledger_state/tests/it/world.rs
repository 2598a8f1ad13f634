//! A ledger without a cluster: commands go straight into the state machine, one entry each unless
//! said otherwise.

use std::collections::BTreeMap;

use fence::{Attempt, BootId, Epoch, GroupId, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use ledger_state::{
    AttemptStatus, AttemptTerms, BlobRef, Command, Counters, CreateJob, Grace, IdempotencyKey,
    LapseProof, Limits, Outcome, Proposal, Refusal, Reply, ReportedBy, RequestId, SessionId, State,
    Submission, check_step,
};

pub const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };
pub const ALICE: NodeId = NodeId(0xa);
pub const BOB: NodeId = NodeId(0xb);
pub const WORKER: NodeId = NodeId(0x100);
pub const OTHER_WORKER: NodeId = NodeId(0x101);

pub struct World {
    pub state: State,
    pub index: u64,
    /// The last request of each session.
    seqs: BTreeMap<SessionId, u64>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    /// With the sessions of two managers open.
    pub fn with(limits: Limits) -> Self {
        limits.check().expect("the test's limits go together");
        let mut world = Self { state: State::new(GROUP, limits), index: 0, seqs: BTreeMap::new() };
        for node in [ALICE, BOB] {
            world.open(node, 1);
        }
        world
    }

    pub fn open(&mut self, node: NodeId, boot: u64) -> Reply {
        self.send(Proposal {
            request: RequestId { session: session(node, boot), seq: 0 },
            settled: 0,
            at: Hlc::default(),
            command: Command::OpenSession,
        })
    }

    /// The next proposal of a session, all answers before it settled.
    pub fn proposal(&mut self, session: SessionId, command: Command) -> Proposal {
        let seq = self.seqs.entry(session).or_default();
        *seq += 1;
        Proposal {
            request: RequestId { session, seq: *seq },
            settled: *seq - 1,
            at: Hlc { wall_ms: 1_000 + self.index, logical: 0, node: session.node },
            command,
        }
    }

    /// Applies one proposal as an entry of its own.
    pub fn send(&mut self, proposal: Proposal) -> Reply {
        self.send_all(&[proposal]).remove(0)
    }

    pub fn send_all(&mut self, batch: &[Proposal]) -> Vec<Reply> {
        let before = self.state.clone();
        self.index += 1;
        let replies = self.state.apply(self.index, batch);
        self.state.check().unwrap_or_else(|violation| panic!("{violation}"));
        check_step(&before, &self.state).unwrap_or_else(|violation| panic!("{violation}"));
        replies
    }

    /// A command of a manager's first life.
    pub fn run(&mut self, node: NodeId, command: Command) -> Reply {
        let proposal = self.proposal(session(node, 1), command);
        self.send(proposal)
    }

    /// The epoch that the next entry's first command would grant.
    pub fn next_epoch(&self) -> Epoch {
        Epoch::at(GROUP, self.index + 1, 0)
    }

    pub fn submit(&mut self, create: CreateJob) -> Submission {
        match self.run(ALICE, Command::CreateJob(Box::new(create))) {
            Reply::Submitted(submission) => submission,
            other => panic!("a submission was answered with {other:?}"),
        }
    }

    /// Creates a job of its own.
    pub fn job(&mut self, sequence: u64) -> JobId {
        match self.submit(submission(sequence)) {
            Submission::Accepted { job, duplicate: false, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn claim(&mut self, node: NodeId, job: JobId) -> Epoch {
        let seen = self.state.job(job).and_then(|job| job.epoch);
        match self.run(node, Command::ClaimJob { job, claimant: session(node, 1), seen }) {
            Reply::Claimed { epoch } => epoch,
            other => panic!("{other:?}"),
        }
    }

    /// A job that Alice owns.
    pub fn owned(&mut self, sequence: u64) -> (JobId, Epoch) {
        let job = self.job(sequence);
        (job, self.claim(ALICE, job))
    }

    pub fn start(&mut self, job: JobId, epoch: Epoch, attempt: u32, after: LapseProof) -> Reply {
        self.run(ALICE, start(job, epoch, attempt, after))
    }

    pub fn revoke(&mut self, job: JobId, epoch: Epoch, attempt: u32) -> Reply {
        let reason = "worker lost".to_owned();
        let attempt = Attempt(attempt);
        self.run(
            ALICE,
            Command::RevokeAttempt {
                shard: shard(job),
                epoch,
                attempt,
                reason,
                heard_ms: None,
                suspected: false,
            },
        )
    }

    pub fn end(
        &mut self,
        job: JobId,
        attempt: u32,
        status: AttemptStatus,
        completed: u64,
    ) -> Reply {
        self.run(BOB, end(job, attempt, status, completed))
    }

    /// The same wish each time: what is said again is no second cancel.
    pub fn cancel(&mut self, job: JobId) -> Reply {
        self.run(BOB, cancel(job, 1))
    }

    pub fn finish(&mut self, job: JobId, epoch: Epoch, outcome: Outcome) -> Reply {
        self.run(ALICE, Command::FinishJob { job, epoch, outcome, detail: String::new() })
    }

    /// Lets the ledger's time pass, in steps that it allows.
    pub fn wait(&mut self, ms: u64) {
        let until = self.state.now_ms() + ms;
        while self.state.now_ms() < until {
            let seen_ms = self.state.now_ms();
            self.run(ALICE, Command::Advance { seen_ms, elapsed_ms: until - seen_ms });
        }
    }

    /// As if every member had been restarted from its snapshot.
    pub fn restart(&mut self) {
        let bytes = self.state.encode();
        let decoded = State::decode(&bytes).expect("what was encoded can be decoded");
        assert_eq!(decoded, self.state);
        self.state = decoded;
    }

    pub fn completed(&self, job: JobId) -> u64 {
        self.state.job(job).expect("the job is there").totals.completed
    }
}

pub fn session(node: NodeId, boot: u64) -> SessionId {
    SessionId { node, boot: BootId(boot) }
}

pub fn key(sequence: u64) -> IdempotencyKey {
    IdempotencyKey { client: "host1.dc1:12345".to_owned(), sequence, nonce: [9; 16] }
}

pub fn blob(byte: u8) -> BlobRef {
    BlobRef { hash: [byte; 32], bytes: 1_000 }
}

pub fn submission(sequence: u64) -> CreateJob {
    CreateJob {
        tenant: "acme".to_owned(),
        key: key(sequence),
        fingerprint: [1; 32],
        name: "checkout".to_owned(),
        plan: blob(1),
        age_ms: 0,
        rehearsal: false,
    }
}

pub fn shard(job: JobId) -> ShardKey {
    ShardKey { job, workflow: WorkflowNo(0), shard: 0 }
}

pub fn start(job: JobId, epoch: Epoch, attempt: u32, after: LapseProof) -> Command {
    Command::StartAttempt {
        shard: shard(job),
        epoch,
        attempt: Attempt(attempt),
        worker: if attempt == 1 { WORKER } else { OTHER_WORKER },
        boot: BootId(5),
        after,
        terms: AttemptTerms { lease_ms: 6_000, ..AttemptTerms::default() },
    }
}

pub fn end(job: JobId, attempt: u32, status: AttemptStatus, completed: u64) -> Command {
    Command::EndAttempt {
        shard: shard(job),
        under: None,
        attempt: Attempt(attempt),
        status,
        counters: Counters { completed, ..Counters::default() },
        result: Some(blob(2)),
        sent_until_ms: None,
        word: ReportedBy::Whole,
    }
}

pub fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

/// A cancel that leaves ten seconds to stop and a minute for teardowns, which stand under number 9.
pub fn cancel(job: JobId, nonce: u8) -> Command {
    let grace = Grace { stop_ms: 10_000, teardown_ms: 60_000, hooks: Some(WorkflowNo(9)) };
    let (reason, requestor) = ("enough".to_owned(), "eve".to_owned());
    Command::CancelJob { job, reason, requestor, nonce: [nonce; 16], grace: Some(grace) }
}
