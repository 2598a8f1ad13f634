//! `volley agent`: arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;
use fence::NodeId;
use trust::Role;

use super::values;

const EXAMPLES: &str = "\
Examples, three members on one machine:
  volley certs init ./ca
  for n in 1 2 3; do volley certs issue --ca ./ca --role manager --datacenter dc1 --out ./m$n; done
  volley agent --certs ./m1 --data ./d1 --bind 127.0.0.1:7501 --metrics 127.0.0.1:7601
  volley agent --certs ./m2 --data ./d2 --bind 127.0.0.1:7502 --seed 127.0.0.1:7501
  volley agent --certs ./m3 --data ./d3 --bind 127.0.0.1:7503 --seed 127.0.0.1:7501
  volley members --certs ./m1 --address 127.0.0.1:7501 --watch

Ctrl-C or SIGTERM once says goodbye to the others and ends, twice ends at once.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Data folder; made if it is not there. It holds who this node is: never copy or share it
    #[arg(long, env = "VOLLEY_DATA", value_name = "DIR")]
    pub data: PathBuf,
    /// Folder of its certificate (`volley certs issue --out`)
    #[arg(long, env = "VOLLEY_CERTS", value_name = "DIR")]
    pub certs: PathBuf,
    /// Address to listen on, for UDP and TCP; port 0 is any free one
    #[arg(
        long,
        env = "VOLLEY_BIND",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7500",
        value_parser = values::listen
    )]
    pub bind: SocketAddr,
    /// Address that others are told; needed where --bind has none of its own (0.0.0.0)
    #[arg(long, env = "VOLLEY_ADVERTISE", value_name = "ADDRESS", value_parser = values::listen)]
    pub advertise: Option<SocketAddr>,
    /// A member to find the others by: HOST, HOST:PORT; may be repeated
    #[arg(long = "seed", env = "VOLLEY_SEEDS", value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub seeds: Vec<String>,
    /// A name that stands for all of them: a headless service, or _volley._udp.NAME for SRV; may be
    /// repeated
    #[arg(long = "dns", env = "VOLLEY_DNS", value_name = "NAME[:PORT]", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Role that the certificate must have, as a safeguard
    #[arg(long, env = "VOLLEY_ROLE", value_name = "ROLE")]
    pub role: Option<Role>,
    /// Datacenter that the certificate must have, as a safeguard
    #[arg(long, env = "VOLLEY_DATACENTER", value_name = "NAME")]
    pub datacenter: Option<String>,
    /// Serve /metrics, /livez, /readyz and /debug here
    #[arg(long, env = "VOLLEY_METRICS", value_name = "ADDRESS", value_parser = values::listen)]
    pub metrics: Option<SocketAddr>,
    /// Let --metrics be reached from other machines; it shows who is in the cluster, and changes nothing
    #[arg(long, env = "VOLLEY_METRICS_BEYOND_LOOPBACK", value_parser = FalseyValueParser::new())]
    pub metrics_beyond_loopback: bool,
    /// Multiplies all times of the protocol: 2 for slow networks, 0.1 for tests; the same everywhere
    #[arg(long, env = "VOLLEY_PACE", value_name = "FACTOR", default_value = "1", value_parser = values::factor)]
    pub pace: f64,
    /// Node id of a client certificate that may rotate the gossip key from another machine; may be
    /// repeated. From this machine every client may
    #[arg(long = "operator", env = "VOLLEY_OPERATORS", value_name = "UUID", value_delimiter = ',')]
    pub operators: Vec<NodeId>,
    /// This cluster has gates; clients may then ask only those
    #[arg(long, env = "VOLLEY_GATES", value_parser = FalseyValueParser::new())]
    pub gates: bool,
}
