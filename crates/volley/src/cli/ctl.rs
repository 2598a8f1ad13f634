//! `volley ctl ...`: arguments.

use clap::{Args, Subcommand};

use super::{FleetPlace, values};

const CTL: &str = "\
Examples:
  volley ctl pause                               the test that runs on this machine
  volley ctl scale --by 2 --run 4711             one of several
  volley ctl --job 3f2a scale --rate 500/s       a job of a cluster; --vus and --by as well
  volley ctl --job 3f2a stop                     end it, with a summary";

#[derive(Args)]
#[command(after_help = CTL)]
pub struct CtlArgs {
    #[command(subcommand)]
    pub action: CtlAction,
    /// Which run, if there are several: its process id
    #[arg(long, global = true, value_name = "PID")]
    pub run: Option<u32>,
    /// A job of a cluster, instead of a run on this machine: its id, or its beginning
    #[arg(long, global = true, value_name = "JOB", value_parser = values::job_prefix)]
    #[arg(conflicts_with = "run")]
    pub job: Option<String>,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Subcommand)]
pub enum CtlAction {
    /// Show what runs
    Status {
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Start no new iterations; the schedule stands still
    Pause,
    /// Go on
    Resume,
    /// Set virtual users or rate, or multiply both
    Scale {
        /// Virtual users of closed models
        #[arg(long, value_name = "N", group = "what", value_parser = values::vus_or_none())]
        vus: Option<u32>,
        /// Arrivals of open models: 500/s
        #[arg(long, value_name = "RATE", value_parser = values::rate, group = "what")]
        rate: Option<plan::Rate>,
        /// Multiply what runs now
        #[arg(long, value_name = "FACTOR", group = "what", allow_negative_numbers = true)]
        #[arg(value_parser = values::factor)]
        by: Option<f64>,
        /// Only this workflow
        #[arg(long, value_name = "NAME")]
        workflow: Option<String>,
    },
    /// End gracefully, with a summary (exit code 103)
    Stop,
}
