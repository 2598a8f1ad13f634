//! `volley debug members ...`: arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use trust::Role;

use super::values;

const EXAMPLES: &str = "\
Examples:
  volley debug members --certs ./me                              who is there, as one member sees it
  volley debug members --certs ./me --watch                      and every change, until Ctrl-C
  volley debug members --certs ./me --address 10.0.0.7:7500 --json
  volley debug members --certs ./me --state dead --state suspect only those
  volley debug members --certs ./me keys list                    which gossip keys, at which members

--certs is a folder of `volley certs issue`: a client's, or for looking only a node's own.";

const KEYS_HELP: &str = "\
A rotation, without downtime; each step reaches all live members, and the next is refused until it has:
  volley certs gossip-key new.key                                draw a key
  volley debug members --certs ./me keys install new.key         all can open it, the old one still seals
  volley debug members --certs ./me keys use 1a2b3c4d            it seals, the old one still opens
  volley debug members --certs ./me keys remove 5e6f7a8b         the old one is gone
Then put the new key into the CA's folder as gossip.key, for the nodes to come.

It takes a client's certificate, on the machine of each member, or named there with `--operator`.";

#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = false)]
pub struct AgentMembersArgs {
    #[command(subcommand)]
    pub action: Option<MembersAction>,
    #[command(flatten)]
    pub at: MemberPlace,
    /// Show what changes, until Ctrl-C
    #[arg(long, short = 'w')]
    pub watch: bool,
    /// As JSON; with --watch, one line for each change
    #[arg(long, global = true)]
    pub json: bool,
    /// Only members in this state; may be repeated
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub states: Vec<StateName>,
    /// Node ids in full
    #[arg(long)]
    pub wide: bool,
}

/// Which member to ask, and as whom.
#[derive(Args)]
pub struct MemberPlace {
    /// The member to ask; default: a manager of the cluster that `volley up` runs here, or
    /// 127.0.0.1:7500
    #[arg(
        long,
        short = 'a',
        global = true,
        env = "VOLLEY_ADDRESS",
        value_name = "HOST[:PORT]",
        value_parser = values::host
    )]
    pub address: Option<String>,
    /// Folder with the certificate to show; default: that of the cluster that `volley up` runs
    /// here, or ./certs
    #[arg(long, global = true, env = "VOLLEY_CERTS", value_name = "DIR")]
    pub certs: Option<PathBuf>,
    /// Role of the member that is asked
    #[arg(long, global = true, value_name = "ROLE", default_value = "manager")]
    pub role: Role,
    /// Longest wait for an answer
    #[arg(long, global = true, default_value = "5s", value_parser = values::length, value_name = "TIME")]
    pub timeout: Duration,
}

#[derive(Subcommand)]
pub enum MembersAction {
    /// The keys that seal the gossip: list, install, use, remove
    Keys(KeysArgs),
}

#[derive(Args)]
#[command(after_help = KEYS_HELP)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub change: KeysChange,
}

#[derive(Subcommand)]
pub enum KeysChange {
    /// Which keys, at which members
    List,
    /// Let every member open what the key in FILE seals
    Install {
        /// A gossip key (`volley certs gossip-key`)
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Let every member seal with this key from now on; refused if one does not have it yet
    Use {
        /// Name of the key, as `keys list` shows it
        #[arg(value_name = "KEY", value_parser = values::key_id)]
        key: u32,
    },
    /// Take a key away from every member; refused if one still seals with it
    Remove {
        /// Name of the key, as `keys list` shows it
        #[arg(value_name = "KEY", value_parser = values::key_id)]
        key: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    Unconfirmed,
    Confirmed,
    Suspect,
    Dead,
    Left,
}
