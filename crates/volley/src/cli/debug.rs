//! `volley debug ...`: arguments of the commands that look into one part of a cluster.

use clap::{Args, Subcommand};

use super::{AgentArgs, AgentMembersArgs, LedgerArgs};

/// Words that were commands of their own before they moved here.
pub const MOVED: [&str; 3] = ["agent", "members", "ledger"];

#[derive(Args)]
pub struct DebugArgs {
    #[command(subcommand)]
    pub action: DebugAction,
}

#[derive(Subcommand)]
pub enum DebugAction {
    /// Run a bare member of a cluster, for trying out
    Agent(Box<AgentArgs>),
    /// Show who is in a cluster, and look after the keys of its gossip
    Members(AgentMembersArgs),
    /// Run, check and look after a member of the replicated ledger
    Ledger(LedgerArgs),
}
