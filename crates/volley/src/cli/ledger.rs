//! `volley debug ledger ...`: arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values;

const EXAMPLES: &str = "\
Examples:
  volley debug ledger serve ./a --listen 127.0.0.1:7101             a group of one, for trying out
  volley debug ledger serve ./a --listen 127.0.0.1:7101 \\
      --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103          one of three
  volley debug ledger status 127.0.0.1:7101                         who leads, who is behind
  volley debug ledger check 127.0.0.1:7101 --clients 16 -d 10s      write, measure, then audit
  volley debug ledger verify ./a                                    is the log sound? also while it runs
  volley debug ledger inspect ./a --limit 20                        what is in it";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LedgerArgs {
    #[command(subcommand)]
    pub action: LedgerAction,
}

#[derive(Subcommand)]
pub enum LedgerAction {
    /// Run one member of a ledger by itself (loopback only)
    Serve(ServeArgs),
    /// Show what a member knows of its group
    Status(StatusArgs),
    /// Write to a ledger, measure it, and audit that every acknowledged write is there exactly once
    Check(CheckArgs),
    /// Change who belongs to the group
    Members(MembersArgs),
    /// Print the records of a data folder, the newest last; reads only
    Inspect(InspectArgs),
    /// Check a data folder completely and say what a start would cut off; reads only
    Verify(VerifyArgs),
    /// Put a damaged log aside, so that the member can be admitted again with an empty one
    Reset(ResetArgs),
}

#[derive(Args)]
pub struct ServeArgs {
    /// Data folder; made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Address to listen on, which the others reach it by
    #[arg(long, value_name = "ADDRESS", value_parser = values::listen)]
    pub listen: SocketAddr,
    /// All voters of a new group, this one included, the same list on each; without it, a group of
    /// one
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', value_parser = values::listen)]
    pub peers: Vec<SocketAddr>,
    /// Wait to be admitted to a group that exists (`volley debug ledger members add`)
    #[arg(long, conflicts_with = "peers")]
    pub join: bool,
    /// Multiplies all times of the protocol: 2 for slow networks
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = values::factor)]
    pub pace: f64,
}

#[derive(Args)]
pub struct StatusArgs {
    /// A member
    #[arg(value_name = "ADDRESS", value_parser = values::listen)]
    pub member: SocketAddr,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    /// Members to write through
    #[arg(value_name = "ADDRESS", required = true, num_args = 1.., value_parser = values::listen)]
    pub members: Vec<SocketAddr>,
    /// Writers at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
    /// How long to write
    #[arg(long, short = 'd', default_value = "10s", value_parser = values::length, value_name = "TIME")]
    pub duration: Duration,
    /// Longest wait for one write, retries included
    #[arg(long, default_value = "30s", value_parser = values::length, value_name = "TIME")]
    pub deadline: Duration,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct MembersArgs {
    /// A member to ask
    #[arg(value_name = "ADDRESS", value_parser = values::listen)]
    pub member: SocketAddr,
    #[command(subcommand)]
    pub change: MembersChange,
}

#[derive(Subcommand)]
pub enum MembersChange {
    /// Let a waiting member in: first it learns, then it votes
    Add {
        #[arg(value_name = "ADDRESS", value_parser = values::listen)]
        address: SocketAddr,
    },
    /// Remove a member for good
    Remove {
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Let a member in again that has lost its disk
    Readmit {
        #[arg(value_name = "ADDRESS", value_parser = values::listen)]
        address: SocketAddr,
    },
}

#[derive(Args)]
pub struct InspectArgs {
    /// Data folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// First record to show
    #[arg(long, value_name = "LSN")]
    pub from: Option<u64>,
    /// Show at most this many, the last ones unless --from is given
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct VerifyArgs {
    /// Data folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ResetArgs {
    /// Data folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Why; it is noted in the folder
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}
