//! `volley certs ...`: arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use fence::NodeId;
use trust::Role;

use super::values;

const EXAMPLES: &str = "\
Examples:
  volley certs init ./ca                                                  a CA and a gossip key
  volley certs issue --ca ./ca --role manager --datacenter dc1 --out ./m1 all that one node needs
  volley certs issue --ca ./ca --role client --datacenter dc1 --out ./me  for `volley debug members`
  volley certs token --ca ./ca --datacenter dc1                           for `volley worker --join`
  volley certs show ./m1/ca.pem                                           what a file says
  volley certs check ./m1                                                 would a node start with it?

Files are made readable for their owner alone (0600), and nothing is ever written over.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CertsArgs {
    #[command(subcommand)]
    pub action: CertsAction,
}

#[derive(Subcommand)]
pub enum CertsAction {
    /// Make a CA for a development cluster, and the key that seals its gossip
    Init(CertsInitArgs),
    /// Issue a certificate for one node or client, with everything else that it needs
    Issue(CertsIssueArgs),
    /// Make a token with which workers join: whoever has it can become one until it expires
    Token(CertsTokenArgs),
    /// Show the certificates in a file, or the name of a gossip key
    Show(CertsShowArgs),
    /// Look at a folder as a starting node does: keys, certificates, dates, permissions
    Check(CertsCheckArgs),
    /// Draw a new gossip key, for `volley debug members keys install`
    GossipKey(CertsGossipKeyArgs),
}

#[derive(Args)]
pub struct CertsInitArgs {
    /// Where to make it; made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name of the cluster; certificates of another one are refused
    #[arg(long, env = "VOLLEY_CLUSTER", value_name = "NAME", default_value = "volley")]
    pub cluster: String,
    /// Name of the environment, such as dev or staging; another one is refused
    #[arg(long, env = "VOLLEY_ENVIRONMENT", value_name = "NAME", default_value = "dev")]
    pub environment: String,
    /// Days until the CA ends; no certificate of it lasts longer
    #[arg(long, value_name = "N", default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CertsIssueArgs {
    /// Folder of the CA (`volley certs init`)
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// manager, worker, gate or client
    #[arg(long, value_name = "ROLE")]
    pub role: Role,
    /// Name of the datacenter
    #[arg(long, env = "VOLLEY_DATACENTER", value_name = "NAME")]
    pub datacenter: String,
    /// Id of the node, to renew its certificate; without it a new one is drawn
    #[arg(long, value_name = "UUID")]
    pub node: Option<NodeId>,
    /// Where to write; made if it is not there. One folder per node, so that `--certs DIR` is
    /// enough
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Days until it ends
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Name of the files: NAME.pem and NAME-key.pem; without it, ROLE-NODE
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CertsTokenArgs {
    /// Folder of the CA (`volley certs init`)
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// Name of the datacenter that the workers are for
    #[arg(long, env = "VOLLEY_DATACENTER", value_name = "NAME")]
    pub datacenter: String,
    /// How long it can be used, any number of times
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = values::length)]
    pub valid: Duration,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CertsShowArgs {
    /// A PEM file, a gossip key, or the folder of a node or CA
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CertsCheckArgs {
    /// Folder of a node (`certs issue --out`) or of a CA (`certs init`)
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CertsGossipKeyArgs {
    /// The file to make
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
