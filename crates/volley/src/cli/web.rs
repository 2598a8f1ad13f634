//! `--web`: the run in a browser while it goes on.

use clap::Args;
use web::Listen;

use super::{FleetPlace, values};

#[derive(Args, Clone, Default)]
pub struct WebArgs {
    /// Show the run in a browser of this machine while it goes on: at 127.0.0.1:7600 or the next
    /// free port, or at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", value_parser = values::web)]
    pub web: Option<Listen>,
    /// Open the page of --web
    #[arg(long, requires = "web")]
    pub open: bool,
    /// Another name under which the page is reached, through a tunnel or a proxy; may be repeated
    #[arg(long, value_name = "NAME", requires = "web")]
    pub web_host: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  volley web --open                the cluster that is known here, in the browser
  volley web --manager 10.0.0.1 --certs client/
  ssh -L 7600:127.0.0.1:7600 HOST  to see a page that is served on another machine";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WebCommandArgs {
    /// Address or port to serve the page at, on this machine; default: 127.0.0.1:7600 or the next
    /// free port
    #[arg(long, value_name = "ADDRESS", value_parser = values::web)]
    pub listen: Option<Listen>,
    /// Open the page
    #[arg(long)]
    pub open: bool,
    /// Another name under which the page is reached, through a tunnel or a proxy; may be repeated
    #[arg(long, value_name = "NAME")]
    pub web_host: Vec<String>,
    #[command(flatten)]
    pub at: FleetPlace,
}
