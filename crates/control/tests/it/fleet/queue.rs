//! Whose turn it is: a thousand jobs do not storm the workers, and none waits for ever.

use control::queue::{Turns, turn, waiting, waiting_of};
use fence::{Attempt, BootId, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use ledger_state::{
    BlobRef, Command, CreateJob, IdempotencyKey, LapseProof, Limits, Proposal, Reply, RequestId,
    SessionId, State, Submission,
};

use crate::fleet::world::GROUP;

pub struct Ledger {
    pub state: State,
    pub me: SessionId,
    seq: u64,
}

impl Ledger {
    pub fn new() -> Self {
        let me = SessionId { node: NodeId(1), boot: BootId(1) };
        let limits = Limits { window: 1_000_000, ..Limits::default() };
        let mut ledger = Self { state: State::new(GROUP, limits), me, seq: 0 };
        ledger.run(me, Command::OpenSession);
        ledger
    }

    pub fn run(&mut self, session: SessionId, command: Command) -> Reply {
        self.seq += 1;
        let proposal = Proposal {
            request: RequestId { session, seq: self.seq },
            settled: 0,
            at: Hlc { wall_ms: self.seq, logical: 0, node: session.node },
            command,
        };
        self.state.apply(self.seq, &[proposal]).remove(0)
    }

    pub fn job(&mut self, sequence: u64) -> JobId {
        self.job_of("acme", sequence)
    }

    pub fn job_of(&mut self, tenant: &str, sequence: u64) -> JobId {
        let create = CreateJob {
            tenant: tenant.to_owned(),
            key: IdempotencyKey { client: "host".to_owned(), sequence, nonce: [1; 16] },
            fingerprint: [1; 32],
            name: "job".to_owned(),
            plan: BlobRef { hash: [1; 32], bytes: 1 },
            age_ms: 0,
            rehearsal: false,
        };
        match self.run(self.me, Command::CreateJob(Box::new(create))) {
            Reply::Submitted(Submission::Accepted { job, .. }) => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn claim(&mut self, session: SessionId, job: JobId) -> Reply {
        let seen = self.state.job(job).unwrap().epoch;
        self.run(session, Command::ClaimJob { job, claimant: session, seen })
    }

    fn begin(&mut self, job: JobId) {
        let Reply::Claimed { epoch } = self.claim(self.me, job) else { panic!("not claimed") };
        let shard = ShardKey { job, workflow: WorkflowNo(0), shard: 0 };
        let (attempt, worker, boot, after) = (Attempt(1), NodeId(9), BootId(1), LapseProof::First);
        let terms = ledger_state::AttemptTerms::default();
        let start = Command::StartAttempt { shard, epoch, attempt, worker, boot, after, terms };
        assert!(matches!(self.run(self.me, start), Reply::Done { .. }));
    }

    pub fn pass(&mut self, ms: u64) {
        let seen_ms = self.state.now_ms();
        self.run(self.me, Command::Advance { seen_ms, elapsed_ms: ms });
    }
}

/// R10, the 1,000 queued jobs: only the oldest few try, and the next ones when those have
/// begun.
#[test]
fn the_oldest_few_try() {
    let mut ledger = Ledger::new();
    let jobs: Vec<JobId> = (0..1_000).map(|n| ledger.job(n)).collect();
    assert_eq!(waiting(&ledger.state), jobs);
    let turns = Turns::default();
    let first = turn(&ledger.state, turns);
    assert_eq!(first, jobs[..8].iter().copied().collect());
    ledger.begin(jobs[3]);
    let next = turn(&ledger.state, turns);
    assert!(!next.contains(&jobs[3]) && next.contains(&jobs[8]) && next.len() == 8);
    let (reason, requestor) = (String::new(), String::new());
    let (nonce, grace) = ([1; 16], None);
    ledger.run(ledger.me, Command::CancelJob { job: jobs[0], reason, requestor, nonce, grace });
    assert!(!turn(&ledger.state, turns).contains(&jobs[0]));
}

/// A job that needs much is not overtaken for ever: after its patience it tries alone, for a while.
#[test]
fn the_oldest_is_not_overtaken_for_ever() {
    let mut ledger = Ledger::new();
    let first = ledger.job(0);
    ledger.pass(31_000);
    let second = ledger.job(1);
    let turns = Turns::default();
    assert_eq!(turn(&ledger.state, turns), [first].into());
    // It fits nowhere, and has had its time: the others go on.
    ledger.pass(60_000);
    assert_eq!(turn(&ledger.state, turns), [second].into());
    ledger.pass(60_000);
    assert_eq!(turn(&ledger.state, turns), [first, second].into());
}

/// One client's thousand jobs delay another's by a place each, however old they are.
#[test]
fn one_clients_jobs_do_not_stand_before_all_of_anothers() {
    let mut ledger = Ledger::new();
    let flood: Vec<JobId> = (0..1_000).map(|n| ledger.job_of("eve", n)).collect();
    let (one, two) = (ledger.job_of("ada", 1), ledger.job_of("ada", 2));
    assert_eq!(waiting(&ledger.state)[..4], [flood[0], one, flood[1], two]);
    assert_eq!((waiting_of(&ledger.state, "eve"), waiting_of(&ledger.state, "ada")), (1_000, 2));
    let turns = Turns::default();
    assert!(turn(&ledger.state, turns).is_superset(&[one, two].into()));
    // What has begun counts: who has much already stands behind.
    ledger.begin(flood[0]);
    ledger.begin(flood[1]);
    assert_eq!(waiting(&ledger.state)[..3], [one, two, flood[2]]);
}

/// The flood is old and impatient; a fresh job of another client comes before it all the same.
#[test]
fn an_old_flood_does_not_keep_a_fresh_job_of_another_client_waiting() {
    let mut ledger = Ledger::new();
    let flood: Vec<JobId> = (0..100).map(|n| ledger.job_of("eve", n)).collect();
    ledger.begin(flood[0]);
    ledger.pass(31_000);
    let fresh = ledger.job_of("ada", 1);
    let turns = Turns::default();
    assert_eq!(turn(&ledger.state, turns), [flood[1], fresh].into());
    // Where both have nothing that runs, the one that has lost its patience is first, and alone.
    let mut ledger = Ledger::new();
    let large = ledger.job_of("eve", 1);
    ledger.pass(31_000);
    ledger.job_of("ada", 1);
    assert_eq!(turn(&ledger.state, turns), [large].into());
}
