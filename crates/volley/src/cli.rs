//! The command line, defined once: parsing, help and completions come from here.

mod agent;
mod certs;
mod complete;
mod ctl;
mod debug;
mod jobs;
mod k6_only;
mod keep;
mod ledger;
mod members;
mod node;
mod script;
mod values;
mod web;

pub use agent::AgentArgs;
pub use certs::{
    CertsAction, CertsArgs, CertsCheckArgs, CertsGossipKeyArgs, CertsInitArgs, CertsIssueArgs,
    CertsShowArgs, CertsTokenArgs,
};
pub use complete::{CompletionsArgs, ManArgs, Shell};
pub use ctl::{CtlAction, CtlArgs};
pub use debug::{DebugAction, DebugArgs, MOVED};
pub use jobs::{
    CancelArgs, DrainArgs, FleetPlace, FleetStatusArgs, FollowArgs, FullPolicy, JobsArgs,
    LossPolicy, ManagersArgs, ManagersChange, ResultsArgs, SubmitArgs, WatchArgs,
};
pub use keep::{KeepArgs, ReportArgs};
pub use ledger::{
    CheckArgs, InspectArgs, LedgerAction, LedgerArgs, MembersArgs, MembersChange, ResetArgs,
    ServeArgs, StatusArgs, VerifyArgs,
};
pub use members::{AgentMembersArgs, KeysArgs, KeysChange, MemberPlace, MembersAction, StateName};
pub use node::{ManagerArgs, NodeArgs, UpArgs, WorkerArgs};
pub use script::ScriptArgs;
pub use web::{WebArgs, WebCommandArgs};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  volley http://127.0.0.1:8080/           a short, safe test: 10 s, 50 connections
  volley -r 500 -d 30s http://host/       500 requests a second for 30 s
  volley -n 1000 -c 10 http://host/       1,000 requests over 10 connections
  volley demo                             see it work, without a target of your own
  volley new plan.yaml                    write a commented plan to start from
  volley run plan.yaml                    run it
  volley run plan.yaml --debug            one iteration, every exchange shown
  volley run plan.yaml --web --open       watch it in the browser
  volley run plan.yaml --report run.html  the same, with a report to look at and pass on
  volley run script.js                    run a k6 script as it is
  volley ctl scale --by 2                 twice the load of the test that runs now
  volley submit plan.yaml --watch         the same plan on a cluster
";

/// Below the list of commands.
fn after_help() -> String {
    format!("{EXAMPLES}\n{}", report::ExitCode::help())
}

/// Load tests from a plan or a k6 script, on one machine or a fleet, with a result that says
/// whether to trust it.
#[derive(Parser)]
#[command(name = "volley", version, after_help = after_help(), max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings file; default: volley.toml here, then in ~/.config/volley, then in /etc/volley
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    pub settings: Option<PathBuf>,
    #[command(flatten)]
    pub quick: QuickArgs,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a plan (YAML, TOML or JSON) or a k6 script (.js, .ts)
    Run(Box<RunArgs>),
    /// Make the report of a run from its record: one HTML file
    Report(ReportArgs),
    /// Start the built-in target and run the quickstart plan against it
    Demo(DemoArgs),
    /// Show what a plan would do, without doing it
    Plan(PlanArgs),
    /// Write a commented plan to start from
    New(NewArgs),
    /// Make one request and show its phases, headers, TLS and the beginning of its body
    Ping(PingArgs),
    /// Serve the built-in target: something to shoot at, which counts what it has seen
    Target(TargetArgs),
    /// Run a plan or a script on a cluster
    Submit(Box<SubmitArgs>),
    /// Show a job of a cluster until it has ended
    Watch(Box<WatchArgs>),
    /// Show the jobs and nodes of a cluster in a browser of this machine
    Web(WebCommandArgs),
    /// Show how a cluster is, or one of its jobs
    Status(FleetStatusArgs),
    /// List the jobs of a cluster
    Jobs(JobsArgs),
    /// End a job of a cluster
    Cancel(CancelArgs),
    /// Fetch the result, the timeline or the logs of a job
    Results(Box<ResultsArgs>),
    /// Let a node of a cluster finish what it runs, and take no more
    Drain(DrainArgs),
    /// Show who keeps the ledger of a cluster, let a manager in, take one out
    Managers(ManagersArgs),
    /// Steer a running test or a job: pause, resume, scale, stop
    Ctl(CtlArgs),
    /// Run a whole datacenter on this machine: managers and workers, ready for `volley submit`
    Up(UpArgs),
    /// Run a manager: it keeps jobs and leads them
    Manager(ManagerArgs),
    /// Run a worker: it makes the load
    Worker(WorkerArgs),
    /// Make and look at the certificates of a cluster
    Certs(CertsArgs),
    /// Look into one part of a cluster: agent, members, ledger
    Debug(DebugArgs),
    /// Show which settings are in force and where each comes from
    Settings(SettingsArgs),
    /// Print the JSON Schema of plans, for editors
    Schema(SchemaArgs),
    /// Print what a shell needs to complete commands, files, jobs and nodes
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Show the version, and of which source this is a build
    Version,
}

/// `volley URL`
#[derive(Args)]
pub struct QuickArgs {
    /// Where to send requests; `http://` may be left out
    pub url: Option<String>,
    /// Connections (virtual users); with --rate, the most that may be used
    #[arg(short = 'c', long, value_name = "N", value_parser = values::vus())]
    pub connections: Option<u32>,
    /// How long: 10s, 1m30s; 10s if neither this nor --requests is given
    #[arg(short = 'd', long, value_parser = values::length, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// Exactly so many requests, instead of a time
    #[arg(short = 'n', long, value_name = "N", value_parser = values::requests())]
    #[arg(conflicts_with_all = ["duration", "rate"])]
    pub requests: Option<u64>,
    /// Requests per second, at an even pace (open model): 500, 500/s, 90/m
    #[arg(short = 'r', long, value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<plan::Rate>,
    /// HTTP method; GET, or POST where there is a body
    #[arg(short = 'm', long, value_name = "METHOD", value_parser = values::method)]
    pub method: Option<String>,
    /// Header, `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Body, or @FILE
    #[arg(short = 'b', long, value_name = "BODY")]
    pub body: Option<String>,
    /// Accept any TLS certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// HTTP version: auto, 1.1 or 2
    #[arg(long, default_value = "auto", value_name = "VERSION")]
    pub http: String,
    /// Longest wait for an answer
    #[arg(long, default_value = "10s", value_parser = values::length, value_name = "TIME")]
    pub timeout: Duration,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args)]
pub struct SettingsArgs {
    /// Every key that a file may have, with its variable
    #[arg(long)]
    pub keys: bool,
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Default, Clone)]
pub struct RunArgs {
    /// The plan, or the script; `-` is standard input
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Iterations per second at an even pace, instead of the load that the plan has: 500, 500/s,
    /// 90/m
    #[arg(short = 'r', long, env = "VOLLEY_RATE", value_name = "RATE", value_parser = values::rate)]
    #[arg(conflicts_with_all = ["iterations", "stages"])]
    pub rate: Option<plan::Rate>,
    /// Value for `${env.KEY}`, or for __ENV.KEY of a script; may be repeated
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub env: Vec<(String, String)>,
    /// Make one iteration of each workflow and show every exchange in full
    #[arg(long)]
    pub debug: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub script: ScriptArgs,
}

/// What takes the place of a plan's own.
#[derive(Args, Clone, Default)]
pub struct LoadArgs {
    /// Virtual users, instead of the plan's; stages keep their shape, and for a rate it is the most
    #[arg(short = 'u', long, env = "VOLLEY_VUS", value_name = "N", value_parser = values::vus())]
    pub vus: Option<u32>,
    /// Duration of each workflow, instead of the plan's; stages keep their shape
    #[arg(short = 'd', long, env = "VOLLEY_DURATION", value_parser = values::length, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// Target, instead of the plan's: a URL with scheme and host, or unix:PATH
    #[arg(long, env = "VOLLEY_TARGET", value_name = "URL", value_parser = values::target)]
    pub target: Option<String>,
}

#[derive(Args, Clone, Default)]
pub struct OutputArgs {
    /// Write the result as JSON (schema volley.summary/1)
    #[arg(long, env = "VOLLEY_SUMMARY", value_name = "FILE", value_parser = values::summary)]
    pub summary: Option<PathBuf>,
    /// Write json=FILE, csv=FILE (every sample, in k6's formats), junit=FILE or hdr=FILE; may be
    /// repeated
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
    #[command(flatten)]
    pub web: WebArgs,
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
    /// Cores to generate load on; default: all physical ones
    #[arg(long, env = "VOLLEY_CORES", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: Option<u16>,
    /// How progress is shown: full (live view), ci (a line every few seconds) or none
    #[arg(long, value_name = "MODE")]
    pub view: Option<dashboard::Mode>,
}

impl LoadArgs {
    pub fn is_given(&self) -> bool {
        self.vus.is_some() || self.duration.is_some() || self.target.is_some()
    }
}

impl OutputArgs {
    /// Cores to generate load on, not more than there are; it is said if that is fewer than was
    /// asked for.
    pub fn cores_here(&self) -> Option<usize> {
        let asked = usize::from(self.cores?);
        let here = std::thread::available_parallelism().map_or(1, usize::from);
        if asked > here {
            eprintln!("volley: --cores {asked}: this machine has {here}, and {here} are used");
        }
        Some(asked.min(here))
    }

    /// Words for people then go to standard error.
    pub fn data_on_stdout(&self) -> bool {
        self.summary_on_stdout() || self.output.iter().any(|target| target.is_stdout())
    }

    pub fn summary_on_stdout(&self) -> bool {
        self.summary.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

#[derive(Args)]
pub struct DemoArgs {
    /// On a cluster of real processes: a worker and the job's owner are killed during the run
    #[arg(long)]
    pub cluster: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args)]
pub struct PlanArgs {
    /// The plan; `-` is standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Iterations per second at an even pace, instead of the load that the plan has: 500, 500/s,
    /// 90/m
    #[arg(short = 'r', long, env = "VOLLEY_RATE", value_name = "RATE", value_parser = values::rate)]
    pub rate: Option<plan::Rate>,
    /// Value for `${env.KEY}`; may be repeated
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub env: Vec<(String, String)>,
    /// Cores to divide over; default: all physical ones of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: Option<u16>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct NewArgs {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "plan.yaml")]
    pub file: PathBuf,
    /// What it shows: start (one step), login (a token), csv (a data file), open (a fixed rate), k6
    /// (a script)
    #[arg(long, value_name = "NAME", value_enum)]
    pub template: Option<Template>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

/// What `volley new` can write.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Template {
    Start,
    Login,
    Csv,
    Open,
    K6,
}

impl Template {
    /// As `plan::STARTERS` calls it; a script has none there.
    pub fn name(self) -> &'static str {
        match self {
            Template::Start => "start",
            Template::Login => "login",
            Template::Csv => "csv",
            Template::Open => "open",
            Template::K6 => "k6",
        }
    }
}

#[derive(Args)]
pub struct PingArgs {
    /// Where to send the request; `http://` may be left out
    pub url: String,
    /// HTTP method; GET, or POST where there is a body
    #[arg(short = 'm', long, value_name = "METHOD", value_parser = values::method)]
    pub method: Option<String>,
    /// Header, `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Body, or @FILE
    #[arg(short = 'b', long, value_name = "BODY")]
    pub body: Option<String>,
    /// Accept any TLS certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// HTTP version: auto, 1.1 or 2
    #[arg(long, default_value = "auto", value_name = "VERSION")]
    pub http: String,
    /// Longest wait for an answer
    #[arg(long, default_value = "10s", value_parser = values::length, value_name = "TIME")]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct TargetArgs {
    /// Address or port to listen on; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS", value_parser = values::listen)]
    pub listen: SocketAddr,
    /// Added to every answer: 5ms, 5ms..20ms, exp(10ms)
    #[arg(long, default_value = "none", value_name = "LATENCY")]
    pub latency: target::Latency,
    /// Share of answers that are errors (500): 0.05 or 5%
    #[arg(long, default_value = "0", value_name = "SHARE", value_parser = values::share)]
    pub error_rate: f64,
    /// Stand still: `3s+1s` is from 3 s after the first request for 1 s; may be repeated
    #[arg(long = "stall", value_name = "AT+FOR")]
    pub stalls: Vec<target::Stall>,
    /// Size of the answer to `/` in bytes
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub payload: usize,
    /// Threads that serve
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub threads: usize,
}

#[derive(Args)]
pub struct SchemaArgs {
    /// The reference of all keys as Markdown, instead of the JSON Schema
    #[arg(long)]
    pub markdown: bool,
    /// The page for users of other tools as Markdown
    #[arg(long, conflicts_with = "markdown")]
    pub coming_from: bool,
}
