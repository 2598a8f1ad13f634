//! Jobs on a cluster: arguments of `submit`, `watch`, `status`, `jobs`, `cancel`, `results`,
//! `drain` and `managers`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use membership::discovery::Seed;

use super::{KeepArgs, OutputArgs, ScriptArgs, complete, values};

const FINDING: &str = "\
Which cluster: --manager and --certs, VOLLEY_MANAGER and VOLLEY_CERTS, or what `volley up` has written
(./volley-cluster/client.json, then ~/.local/state/volley/cluster/client.json).";

const SUBMIT: &str = "\
Examples:
  volley submit plan.yaml                        hand it in; prints the job's id and ends
  volley submit plan.yaml --watch                and show it like `volley run`, with its exit codes
  volley submit plan.yaml --watch --summary s.json -o junit=report.xml
  volley submit script.js --watch -e BASE=http://shop -u 500 -d 10m
  volley submit plan.yaml --cores-min 8 --when-full refuse
  volley submit plan.yaml --key nightly-2031-05-14     at most one job for this key and certificate

Ctrl-C on --watch leaves the job running (exit code 105) and says how to come back or cancel.
A submission that was cut off before it had an answer has the same key when it is typed again: it becomes one job.

Exit codes: those of `volley run` with --watch, otherwise 0 accepted; 104 bad plan, or rejected; 1 no answer.
121: all managers were lost while the job was watched; it may go on.";

const WATCH: &str = "\
Examples:
  volley watch 3f2a                              from the beginning to the summary; ids may be shortened
  volley watch 3f2a --summary s.json --quiet     wait for the end; exit code as `volley run`
  volley watch 3f2a --json | jq .window          one line for each window, state and note

Ctrl-C ends the watch (exit code 105), not the job.";

const STATUS: &str = "\
Examples:
  volley status                                  managers, workers, cores, what runs
  volley status 3f2a                             one job: workflows, shards and where they run
  volley status 3f2a --json | jq .state";

const JOBS: &str = "\
Examples:
  volley jobs                                    what waits and runs
  volley jobs --ended                            and what has ended
  volley jobs --ended --json | jq -r '.jobs[].job'";

const CANCEL: &str = "\
Examples:
  volley cancel 3f2a                             graceful stop and teardown, as Ctrl-C on `volley run`
  volley cancel 3f2a --now                       at once, without teardown; so does a second cancel

It is written down first, so it holds whoever dies. Whoever watches the job gets exit code 103.";

const RESULTS: &str = "\
Examples:
  volley results 3f2a                            the summary again, with the exit code of `volley run`
  volley results 3f2a --summary s.json -o junit=report.xml --quiet
  volley results 3f2a --timeline                 what happened when
  volley results 3f2a --logs                     the last lines of each attempt on its worker";

/// Which cluster, and as whom.
#[derive(Args, Clone, Default)]
pub struct FleetPlace {
    /// A manager; may be repeated, they are tried in turn
    #[arg(
        long = "manager",
        global = true,
        env = "VOLLEY_MANAGER",
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        value_parser = values::host,
        help_heading = "Cluster"
    )]
    pub managers: Vec<String>,
    /// Folder with the certificate to show, of `volley certs issue --role client`
    #[arg(long, global = true, env = "VOLLEY_CERTS", value_name = "DIR", help_heading = "Cluster")]
    pub certs: Option<PathBuf>,
    /// Longest wait for one answer; 5s if not given
    #[arg(long, global = true, value_parser = values::length, value_name = "TIME", help_heading = "Cluster")]
    pub timeout: Option<Duration>,
}

/// How a job is shown while it runs, and what is written when it has ended.
#[derive(Args, Clone, Default)]
pub struct FollowArgs {
    /// Write the result as JSON (schema volley.summary/1)
    #[arg(long, env = "VOLLEY_SUMMARY", value_name = "FILE", value_parser = values::summary)]
    pub summary: Option<PathBuf>,
    /// Write junit=FILE or hdr=FILE; may be repeated
    #[arg(
        long,
        short = 'o',
        alias = "out",
        env = "VOLLEY_OUTPUT",
        value_delimiter = ',',
        value_name = "FORMAT=FILE"
    )]
    pub output: Vec<report::outputs::Target>,
    #[command(flatten)]
    pub keep: KeepArgs,
    /// No progress, and only the verdict at the end
    #[arg(long, short = 'q', env = "VOLLEY_QUIET", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
    /// Verdict from which a result counts as failed (exit code 120): degraded or invalid, the
    /// default
    #[arg(long, env = "VOLLEY_FAIL_ON", value_name = "VERDICT", value_parser = values::fail_on)]
    pub fail_on: Option<stats::VerdictState>,
    /// No colours (so does NO_COLOR)
    #[arg(long)]
    pub no_color: bool,
    /// How progress is shown: full (live view), ci (a line every few seconds) or none
    #[arg(long, value_name = "MODE")]
    pub view: Option<dashboard::Mode>,
    /// JSON on standard output, a line for each thing that happens; words go to standard error
    #[arg(long)]
    pub json: bool,
}

impl FollowArgs {
    /// The same for what shows local runs.
    pub fn output(&self) -> OutputArgs {
        OutputArgs {
            summary: self.summary.clone(),
            output: self.output.clone(),
            keep: self.keep.clone(),
            web: super::WebArgs::default(),
            quiet: self.quiet,
            fail_on: self.fail_on,
            no_color: self.no_color,
            cores: None,
            view: if self.json { Some(dashboard::Mode::None) } else { self.view },
        }
    }
}

#[derive(Args)]
#[command(after_help = format!("{SUBMIT}\n\n{FINDING}"))]
pub struct SubmitArgs {
    /// The plan, or the script; `-` is a script on standard input
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    /// Show the job until it has ended
    #[arg(long)]
    pub watch: bool,
    /// Name of the job; default: the plan's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Value for `${env.KEY}`, or for __ENV.KEY of a script; may be repeated
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub env: Vec<(String, String)>,
    /// Target, instead of the plan's: a URL with scheme and host, or unix:PATH
    #[arg(long, env = "VOLLEY_TARGET", value_name = "URL", value_parser = values::target)]
    pub target: Option<String>,
    /// Virtual users of a script
    #[arg(short = 'u', long, value_name = "N", value_parser = values::vus())]
    pub vus: Option<u32>,
    /// Duration of a script
    #[arg(short = 'd', long, value_parser = values::length, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// What to do when a worker is lost: rebalance, continue (without its share) or fail
    #[arg(long, env = "VOLLEY_ON_WORKER_LOSS", value_name = "POLICY", default_value = "rebalance")]
    pub on_worker_loss: LossPolicy,
    /// What to do when there are too few cores: queue or refuse
    #[arg(long, env = "VOLLEY_WHEN_FULL", value_name = "POLICY", default_value = "queue")]
    pub when_full: FullPolicy,
    /// Cores that the cluster must have for this job
    #[arg(long, env = "VOLLEY_CORES_MIN", value_name = "N", default_value = "0")]
    pub cores_min: u32,
    /// Longest wait for cores, from the submission
    #[arg(long, env = "VOLLEY_QUEUE_AT_MOST", value_name = "TIME", default_value = "24h")]
    #[arg(value_parser = values::length)]
    pub queue_at_most: Duration,
    /// At most one job for this key and certificate, however often it is submitted
    #[arg(long, value_name = "KEY", value_parser = values::job_key)]
    pub key: Option<ledger_state::IdempotencyKey>,
    /// How long to try while no manager can accept it
    #[arg(long, value_parser = values::length, value_name = "TIME", default_value = "30s")]
    pub patience: Duration,
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub at: FleetPlace,
    #[command(flatten)]
    pub script: ScriptArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossPolicy {
    Rebalance,
    Continue,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FullPolicy {
    Queue,
    Refuse,
}

#[derive(Args)]
#[command(after_help = format!("{WATCH}\n\n{FINDING}"))]
pub struct WatchArgs {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB", value_parser = values::job_prefix, add = ArgValueCompleter::new(complete::jobs))]
    pub job: String,
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Args)]
#[command(after_help = format!("{STATUS}\n\n{FINDING}"))]
pub struct FleetStatusArgs {
    /// The job's id, or its beginning; without it, the cluster
    #[arg(value_name = "JOB", value_parser = values::job_prefix, add = ArgValueCompleter::new(complete::jobs))]
    pub job: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Args)]
#[command(after_help = format!("{JOBS}\n\n{FINDING}"))]
pub struct JobsArgs {
    /// Also those that have ended
    #[arg(long)]
    pub ended: bool,
    /// At most so many, the newest first
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Args)]
#[command(after_help = format!("{CANCEL}\n\n{FINDING}"))]
pub struct CancelArgs {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB", value_parser = values::job_prefix, add = ArgValueCompleter::new(complete::jobs))]
    pub job: String,
    /// Why; it is shown in the job's timeline
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// At once: without the plan's graceful stop and teardown
    #[arg(long)]
    pub now: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Args)]
#[command(after_help = format!("{RESULTS}\n\n{FINDING}"))]
pub struct ResultsArgs {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB", value_parser = values::job_prefix, add = ArgValueCompleter::new(complete::jobs))]
    pub job: String,
    /// The last lines that each attempt has written, instead of the summary
    #[arg(long)]
    pub logs: bool,
    /// What happened when, instead of the summary
    #[arg(long)]
    pub timeline: bool,
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Args)]
#[command(after_help = FINDING)]
pub struct DrainArgs {
    /// The node: its id or the beginning of it, or its address
    #[arg(value_name = "NODE", add = ArgValueCompleter::new(complete::nodes))]
    pub node: String,
    /// Also if too few managers are left to decide anything
    #[arg(long)]
    pub force: bool,
    /// Wait until it has finished, at most so long
    #[arg(long, value_parser = values::length, value_name = "TIME")]
    pub wait: Option<Duration>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub at: FleetPlace,
}

const MANAGERS: &str = "\
Examples:
  volley managers                                who keeps the ledger; how many may be lost
  volley managers add 10.0.0.4                   let in one that was started with --join-group
  volley managers remove 3f2a                    take out one that is gone for good

A manager that has lost its disk comes back as a new one, with a new certificate: start it with
--join-group and --seed, add it, then remove the old one.";

#[derive(Args)]
#[command(after_help = format!("{MANAGERS}\n\n{FINDING}"))]
pub struct ManagersArgs {
    #[command(subcommand)]
    pub change: Option<ManagersChange>,
    /// As JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub at: FleetPlace,
}

#[derive(Subcommand)]
pub enum ManagersChange {
    /// Let in a manager that waits: first it reads the ledger, then it votes
    Add {
        /// Where it listens: a name or an address, as the others shall know it
        #[arg(value_name = "HOST[:PORT]", value_parser = values::node)]
        address: Seed,
    },
    /// Show or change what all managers go by, without a restart
    Limits {
        /// The lease of attempts that are started from now on
        #[arg(long, value_name = "TIME", value_parser = values::length)]
        lease: Option<Duration>,
        /// How long ended jobs are known
        #[arg(long, value_name = "TIME", value_parser = values::length)]
        keep_jobs: Option<Duration>,
        /// How often a lost shard is tried again
        #[arg(long, value_name = "N")]
        retries: Option<u32>,
    },
    /// Take out a manager that is gone; one that runs is drained first (`volley drain`)
    Remove {
        /// Its id or the beginning of it, or its ledger's address
        #[arg(value_name = "NODE", add = ArgValueCompleter::new(complete::nodes))]
        node: String,
    },
}
