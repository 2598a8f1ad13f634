//! `volley debug ledger ...`: run a bare member, look into one, look after one.

mod check;
mod folder;
mod serve;
mod status;

use std::future::Future;

use report::ExitCode;

use crate::cli::{LedgerAction, LedgerArgs};
use crate::failure::{Failure, Threads, block_on, told};

pub fn ledger(args: &LedgerArgs) -> ExitCode {
    match &args.action {
        LedgerAction::Serve(args) => serve::serve(args),
        LedgerAction::Status(args) => status::status(args),
        LedgerAction::Members(args) => status::members(args),
        LedgerAction::Check(args) => check::check(args),
        LedgerAction::Inspect(args) => folder::inspect(args),
        LedgerAction::Verify(args) => folder::verify(args),
        LedgerAction::Reset(args) => folder::reset(args),
    }
}

/// Runs a command that talks to members.
fn run(work: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    told(block_on(Threads::This, work))
}

/// Numbers of the operating system, for ids.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    // Without them ids would repeat; there is nothing better to do than to end.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    u64::from_le_bytes(bytes)
}
