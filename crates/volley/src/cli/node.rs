//! Arguments of everything that is a member of a cluster: `volley manager`, `worker`, `agent`; and
//! of `volley up`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use fence::NodeId;
use membership::discovery::Seed;

use super::values;

/// Who a node is and how it finds the others.
#[derive(Args)]
pub struct NodeArgs {
    /// Data folder; made if it is not there. It holds who this node is: never copy or share it
    #[arg(long, env = "VOLLEY_DATA", value_name = "DIR")]
    pub data: PathBuf,
    /// Address to listen on, for UDP and TCP; port 0 is any free one. Default: 127.0.0.1:7500; with
    /// --advertise every address of this machine; with `worker --join` the one by which the manager
    /// is reached
    #[arg(long, env = "VOLLEY_BIND", value_name = "ADDRESS", value_parser = values::listen)]
    pub bind: Option<SocketAddr>,
    /// How others reach it, a name or an address; needed where --bind has none of its own
    /// (0.0.0.0). A name is asked for at the start
    #[arg(long, env = "VOLLEY_ADVERTISE", value_name = "HOST[:PORT]", value_parser = values::node)]
    pub advertise: Option<Seed>,
    /// A member to find the others by: HOST, HOST:PORT; may be repeated
    #[arg(long = "seed", env = "VOLLEY_SEEDS", value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub seeds: Vec<String>,
    /// A name that stands for all of them: a headless service, or _volley._udp.NAME for SRV; may be
    /// repeated
    #[arg(long = "dns", env = "VOLLEY_DNS", value_name = "NAME[:PORT]", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Serve /metrics, /livez, /readyz and /debug here
    #[arg(long, env = "VOLLEY_METRICS", value_name = "ADDRESS", value_parser = values::listen)]
    pub metrics: Option<SocketAddr>,
    /// Let --metrics be reached from other machines; it shows who is in the cluster, and changes
    /// nothing
    #[arg(long, env = "VOLLEY_METRICS_BEYOND_LOOPBACK", value_parser = FalseyValueParser::new())]
    pub metrics_beyond_loopback: bool,
    /// Multiplies all times of the protocol: 2 for slow networks, 0.1 for tests; the same
    /// everywhere
    #[arg(long, env = "VOLLEY_PACE", value_name = "FACTOR", default_value = "1", value_parser = values::factor)]
    pub pace: f64,
    /// Client that may change more than its own, by the node id in its certificate; may be
    /// repeated. See `docs/security.md`
    #[arg(long = "operator", env = "VOLLEY_OPERATORS", value_name = "NODE", value_delimiter = ',')]
    pub operators: Vec<NodeId>,
    /// This cluster has gates; clients may then ask only those
    #[arg(long, env = "VOLLEY_GATES", value_parser = FalseyValueParser::new())]
    pub gates: bool,
}

impl NodeArgs {
    /// Where it listens.
    pub fn bind(&self) -> SocketAddr {
        self.bind.unwrap_or(SocketAddr::from(([127, 0, 0, 1], node::config::PORT)))
    }
}

const MANAGER_EXAMPLES: &str = "\
Examples:
  volley manager --certs ./m1 --data ./d1                      alone, for a small fleet
  volley manager --certs ./m1 --data ./d1 --bind 10.0.0.1:7500 \\
    --peers 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500          one of three
  volley manager --certs ./m1 --data ./d1 --advertise m1.example.org \\
    --peers m1.example.org,m2.example.org,m3.example.org       by names, whose addresses may change
  volley manager --certs ./m1 --data ./d1 --ca ./ca            lets workers join with tokens

Its ledger listens on the next port (7501). Ctrl-C or SIGTERM once gives its jobs to the other managers and
ends, twice ends at once; running load is not touched either way. `volley up` starts a whole cluster here.";

#[derive(Args)]
#[command(after_help = MANAGER_EXAMPLES)]
pub struct ManagerArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Folder of its certificate (`volley certs issue --out`)
    #[arg(long, env = "VOLLEY_CERTS", value_name = "DIR")]
    pub certs: PathBuf,
    /// All founding managers, this one included, the same list on each; without it this one is
    /// alone
    #[arg(long, env = "VOLLEY_PEERS", value_name = "HOST[:PORT]", value_delimiter = ',', value_parser = values::node)]
    pub peers: Vec<Seed>,
    /// Become a member of a group that exists: wait until `volley managers add` lets it in
    #[arg(long, env = "VOLLEY_JOIN_GROUP", conflicts_with = "peers", value_parser = FalseyValueParser::new())]
    pub join_group: bool,
    /// When the cluster is founded: how long a worker may go on without a manager, its lease on
    /// each attempt [default: 6s]; later `volley managers limits` changes it
    #[arg(long, env = "VOLLEY_LEASE", value_name = "TIME", value_parser = values::length)]
    pub lease: Option<Duration>,
    /// When the cluster is founded: how long ended jobs are known, with their results [default:
    /// 7d]; later `volley managers limits` changes it
    #[arg(long, env = "VOLLEY_KEEP_JOBS", value_name = "TIME", value_parser = values::length)]
    pub keep_jobs: Option<Duration>,
    /// Folder of the CA (`volley certs init`): makes workers of those who show a join token
    #[arg(long, env = "VOLLEY_CA", value_name = "DIR")]
    pub ca: Option<PathBuf>,
    /// Days until the certificates of workers that join end; never beyond the CA
    #[arg(
        long,
        env = "VOLLEY_WORKER_DAYS",
        value_name = "N",
        default_value_t = 90,
        value_parser = clap::value_parser!(u32).range(1..=36_500)
    )]
    pub worker_days: u32,
    /// Start the node again when it has crashed: this process is then only its parent, and passes
    /// signals on
    #[arg(long, env = "VOLLEY_RESTART", value_parser = FalseyValueParser::new())]
    pub restart: bool,
}

const WORKER_EXAMPLES: &str = "\
Examples:
  volley worker --certs ./w1 --data ./d --seed 10.0.0.1:7500
  volley worker --certs ./w1 --data ./d --seed 10.0.0.1:7500 --cores 4
  volley worker --join 10.0.0.1:7500 --token volley-join-1... --data ./d    with a token of `volley certs token`

With --join the worker draws a key, has its certificate made by a manager that has --ca, and keeps both in
DATA/certs. Later starts find it there: the same command works again, and the token is not needed any more.

Secrets that plans refer to as ${secret.NAME} are taken from VOLLEY_SECRET_NAME of this process.
Ctrl-C or SIGTERM once drains it (what runs is finished, nothing new is taken), twice stops what runs.";

#[derive(Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub struct WorkerArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Folder of its certificate (`volley certs issue --out`); with --join it is kept there, by
    /// default in DATA/certs
    #[arg(long, env = "VOLLEY_CERTS", value_name = "DIR", required_unless_present = "join")]
    pub certs: Option<PathBuf>,
    /// A manager to join at, and to find the others by; may be repeated, they are tried in turn
    #[arg(long, env = "VOLLEY_JOIN", value_name = "HOST[:PORT]", value_delimiter = ',', value_parser = values::host)]
    pub join: Vec<String>,
    /// The join token. Others on this machine see it in the list of processes: the variable is
    /// better
    #[arg(long, env = "VOLLEY_JOIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// A file that holds the join token, - for the standard input; wins over --token
    #[arg(long, env = "VOLLEY_JOIN_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Cores that load may use, each by one shard at a time; default: all of this machine
    #[arg(long, env = "VOLLEY_CORES", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cores: Option<u32>,
    /// Start the node again when it has crashed: this process is then only its parent, and passes
    /// signals on
    #[arg(long, env = "VOLLEY_RESTART", value_parser = FalseyValueParser::new())]
    pub restart: bool,
}

const UP_EXAMPLES: &str = "\
Examples:
  volley up                                      three managers, two workers, in this process
  volley up --workers 4 --cores 1                four workers of one core each
  volley up --processes --json                   each node its own process: kill some, and watch
  volley up --processes --restart --json         and see them come back
  volley submit plan.yaml --watch                in another terminal

Everything listens on 127.0.0.1. Ctrl-C ends it all; what is in --dir is kept if you chose the folder.";

#[derive(Args)]
#[command(after_help = UP_EXAMPLES)]
pub struct UpArgs {
    /// Managers: 1, 3 or 5; an even number is taken, and lets no more be lost than one less
    #[arg(
        long,
        env = "VOLLEY_UP_MANAGERS",
        value_name = "N",
        default_value = "3",
        value_parser = clap::value_parser!(u8).range(1..=9)
    )]
    pub managers: u8,
    #[arg(
        long,
        env = "VOLLEY_UP_WORKERS",
        value_name = "N",
        default_value = "2",
        value_parser = clap::value_parser!(u8).range(0..=64)
    )]
    /// Workers
    pub workers: u8,
    /// Cores of each worker; default: this machine's, divided
    #[arg(long, env = "VOLLEY_CORES", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cores: Option<u32>,
    /// Folder for certificates and data, started again as it was left; default: one that is removed
    /// at the end
    #[arg(long, env = "VOLLEY_UP_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Each node as a process of its own
    #[arg(long)]
    pub processes: bool,
    /// Nodes that crash are started again, each by a parent of its own
    #[arg(long, requires = "processes")]
    pub restart: bool,
    /// One JSON object per node: role, pid, address, node; with --restart also its parent
    #[arg(long)]
    pub json: bool,
    /// Multiplies all times of membership and ledger: 0.2 for quick tests
    #[arg(long, env = "VOLLEY_PACE", value_name = "FACTOR", default_value = "1", value_parser = values::factor)]
    pub pace: f64,
    /// Lease of attempts
    #[arg(long, env = "VOLLEY_LEASE", value_name = "TIME", default_value = "6s", value_parser = values::length)]
    pub lease: Duration,
}
