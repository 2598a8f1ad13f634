//! `volley debug agent`: arguments.

use std::path::PathBuf;

use clap::Args;
use trust::Role;

use super::NodeArgs;

const EXAMPLES: &str = "\
Examples, three members on one machine:
  volley certs init ./ca
  for n in 1 2 3; do volley certs issue --ca ./ca --role manager --datacenter dc1 --out ./m$n; done
  volley debug agent --certs ./m1 --data ./d1 --bind 127.0.0.1:7501 --metrics 127.0.0.1:7601
  volley debug agent --certs ./m2 --data ./d2 --bind 127.0.0.1:7502 --seed 127.0.0.1:7501
  volley debug agent --certs ./m3 --data ./d3 --bind 127.0.0.1:7503 --seed 127.0.0.1:7501
  volley debug members --certs ./m1 --address 127.0.0.1:7501 --watch

Ctrl-C or SIGTERM once says goodbye to the others and ends, twice ends at once.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Folder of its certificate (`volley certs issue --out`)
    #[arg(long, env = "VOLLEY_CERTS", value_name = "DIR")]
    pub certs: PathBuf,
    /// Role that the certificate must have, as a safeguard
    #[arg(long, env = "VOLLEY_ROLE", value_name = "ROLE")]
    pub role: Option<Role>,
    /// Datacenter that the certificate must have, as a safeguard
    #[arg(long, env = "VOLLEY_DATACENTER", value_name = "NAME")]
    pub datacenter: Option<String>,
}
