//! `volley ledger ...`: run a bare member, look into one, look after one.

mod check;
mod folder;
mod serve;
mod status;

use std::future::Future;

use crate::cli::{LedgerAction, LedgerArgs};
use crate::exit;

pub fn ledger(args: &LedgerArgs) -> i32 {
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
fn run(work: impl Future<Output = Result<i32, String>>) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(format!("no runtime: {error}")),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("volley: {problem}");
        exit::FAILED
    })
}

/// Numbers of the operating system, for ids.
fn draw() -> u64 {
    let mut bytes = [0; 8];
    // Without them ids would repeat; there is nothing better to do than to end.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    u64::from_le_bytes(bytes)
}
