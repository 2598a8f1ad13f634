//! The cost of a command does not grow with the number of jobs (IDEM-5). Figures:
//! `cargo test --release -p control --test it ledger::speed -- --ignored --nocapture`

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::time::Instant;

use fence::Hlc;
use ledger_state::{
    AttemptStatus, Command, LapseProof, Limits, Outcome, Proposal, Reply, RequestId, State,
};

use crate::world::{ALICE, GROUP, cancel, end, key, session, start, submission};

/// A state with `jobs` active jobs, and the next index and request.
fn filled(jobs: u64) -> (State, u64) {
    let limits = Limits { jobs: 2_000_000, bytes: 1 << 32, ..Limits::default() };
    let mut state = State::new(GROUP, limits);
    state.apply(1, &[proposal(0, Command::OpenSession)]);
    let mut seq = 0;
    while seq < jobs {
        let batch: Vec<Proposal> =
            (seq..jobs.min(seq + 100)).map(|n| proposal(n + 1, create(n))).collect();
        seq += batch.len() as u64;
        state.apply(1 + seq, &batch);
    }
    (state, seq)
}

fn create(n: u64) -> Command {
    Command::CreateJob(Box::new(submission(n)))
}

fn proposal(seq: u64, command: Command) -> Proposal {
    let request = RequestId { session: session(ALICE, 1), seq };
    let at = Hlc { wall_ms: seq, logical: 0, node: ALICE };
    Proposal { request, settled: seq.saturating_sub(128), at, command }
}

/// Six commands on each of up to 5,000 of the jobs, and a new job each time: the median of both, in
/// nanoseconds.
fn measure(jobs: u64) -> (u64, u64) {
    let (mut state, mut seq) = filled(jobs);
    let (mut commands, mut creates) = (Vec::new(), Vec::new());
    let mut run = |state: &mut State, command: Command| {
        seq += 1;
        let batch = [proposal(seq, command)];
        let begun = Instant::now();
        let reply = state.apply(2 + seq, &batch).remove(0);
        (reply, begun.elapsed().as_nanos() as u64)
    };
    for n in 0..jobs.min(5_000) {
        let job = key(n * (jobs / 5_000).max(1)).job_id("acme");
        let claim = Command::ClaimJob { job, claimant: session(ALICE, 1), seen: None };
        let (reply, took) = run(&mut state, claim);
        let Reply::Claimed { epoch } = reply else { panic!("{reply:?}") };
        commands.push(took);
        let (outcome, detail) = (Outcome::Completed, String::new());
        let rest = [
            start(job, epoch, 1, LapseProof::First),
            end(job, 1, AttemptStatus::Completed, 5),
            end(job, 1, AttemptStatus::Completed, 5),
            cancel(job, 1),
            Command::FinishJob { job, epoch, outcome, detail },
        ];
        commands.extend(rest.map(|command| run(&mut state, command).1));
        creates.push(run(&mut state, create(1 << 40 | n)).1);
    }
    (median(commands), median(creates))
}

fn median(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// The memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4_096
}

#[test]
#[ignore = "measures; run it in a release build"]
fn speed() {
    let before = resident();
    let (state, _) = filled(500_000);
    let each = resident().saturating_sub(before) / 500_000;
    let begun = Instant::now();
    let bytes = state.encode();
    let encoded = begun.elapsed();
    let begun = Instant::now();
    let decoded = State::decode(&bytes).map(|state| state.jobs().len());
    println!(
        "idle job: {each} bytes in memory, {} encoded; 500,000 encoded in {encoded:?}, decoded ({decoded:?}) in {:?}",
        bytes.len() / 500_000,
        begun.elapsed()
    );
    drop((state, bytes));
    for jobs in [1_000, 10_000, 100_000, 1_000_000] {
        let (command, create) = measure(jobs);
        println!("{jobs:>9} jobs: {command} ns per command, {create} ns per new job (medians)");
    }
}

/// IDEM-5: a hundred times the jobs cost less than four times the time.
#[test]
fn the_cost_does_not_follow_the_number_of_jobs() {
    let best = |jobs| (0..3).map(|_| measure(jobs).0).min().unwrap();
    let (few, many) = (best(500), best(50_000));
    assert!(many < few * 4, "{few} ns with 500 jobs, {many} ns with 50,000");
}
