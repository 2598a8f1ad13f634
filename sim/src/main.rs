//! `sim`: runs a scenario over many seeds and prints what was done to it and what broke.

// The parent lives in the real world: it needs real clocks and processes.
#![allow(clippy::disallowed_methods)]

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use sim::campaign::{self, Campaign};
use sim::child::{self, Order};
use sim::membership::scoreboard;
use sim::outcome::Totals;
use sim::report;
use sim::scenario::{self, Scenario};

/// Whole nodes on a simulated network and disk, from a seed.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Hidden>,
    #[command(flatten)]
    campaign: CampaignArgs,
}

#[derive(Subcommand)]
enum Hidden {
    /// Runs one seed in this process and prints its report as a line of JSON.
    #[command(hide = true)]
    One(OneArgs),
}

#[derive(Args)]
struct OneArgs {
    #[arg(long)]
    scenario: String,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    canary: Option<String>,
    #[arg(long)]
    verbose: bool,
}

#[derive(Args)]
struct CampaignArgs {
    /// What to put on the simulated network
    #[arg(long, default_value = "ledger")]
    scenario: String,
    /// How many seeds to run; default: 100, 1 for figures, 1,000 for canaries
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed; default: 0, or where the state file says
    #[arg(long)]
    from: Option<u64>,
    /// Runs this seed twice with its trace on standard error, and says whether both runs were equal
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Measures instead of attacking, and says whether every figure is as good as promised;
    /// scenario `membership`
    #[arg(long, value_name = "SIZE", num_args = 0..=1, default_missing_value = "full")]
    figures: Option<Size>,
    /// With `--figures`: only this one
    #[arg(long, value_name = "NAME", requires = "figures")]
    only: Option<scoreboard::Experiment>,
    /// With `--figures`: only with so many members
    #[arg(long, value_name = "N", requires = "figures")]
    members: Option<usize>,
    /// Puts a known bug back (its name, or `all`) and stops when it is found; those of `ledger`
    /// need `--features canary`
    #[arg(long, value_name = "NAME")]
    canary: Option<String>,
    /// Children at a time; default: one per core
    #[arg(long)]
    jobs: Option<usize>,
    /// Totals of earlier campaigns to add to, and where to go on
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Each seed divisible by this runs twice, and the traces are compared; 0: none
    #[arg(long, default_value_t = 32)]
    replay_every: u64,
    /// Real seconds after which a seed counts as hung
    #[arg(long, default_value_t = 120)]
    deadline: u64,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

/// How much is measured.
#[derive(Clone, Copy, ValueEnum)]
enum Size {
    /// Seconds
    Quick,
    /// Ten minutes on one core
    Full,
}

/// A campaign has so many seeds unless told otherwise.
const SEEDS: u64 = 100;
/// Rare bugs need more of them.
const CANARY_SEEDS: u64 = 1_000;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Hidden::One(args)) => one(&args),
        None => parent(&cli.campaign),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(2)
        }
    }
}

fn find(name: &str) -> Result<&'static Scenario, String> {
    scenario::find(name).ok_or_else(|| {
        let known: Vec<&str> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
        format!("no scenario `{name}`; there is: {}", known.join(", "))
    })
}

/// The child. Its exit code says that it came to an end, not that all was well: that is in the
/// report.
fn one(args: &OneArgs) -> Result<bool, String> {
    let scenario = find(&args.scenario)?;
    sim::canary::set(args.canary.as_deref())?;
    let order = scenario::Order { seed: args.seed, verbose: args.verbose };
    let mut outcome = (scenario.run)(&order);
    outcome.core_ms = child::processor_ms();
    let line = serde_json::to_string(&outcome).map_err(|error| error.to_string())?;
    println!("{line}");
    Ok(true)
}

fn parent(args: &CampaignArgs) -> Result<bool, String> {
    let scenario = find(&args.scenario)?;
    let order = Order {
        scenario: args.scenario.clone(),
        canary: args.canary.clone(),
        deadline: Duration::from_secs(args.deadline),
    };
    if let Some(size) = args.figures {
        return figures(args, scenario, size);
    }
    if let Some(canary) = &args.canary {
        // Says now, and once, if the name is wrong or the build has no canaries.
        let names = sim::canary::names(canary, scenario.name)?;
        if args.replay.is_none() {
            return canaries(args, scenario, &order, &names);
        }
    }
    match args.replay {
        Some(seed) => replay(&order, seed),
        None => campaign(args, scenario, order),
    }
}

fn replay(order: &Order, seed: u64) -> Result<bool, String> {
    let first = order.run_verbose(seed).map_err(|error| error.to_string())?;
    let second = order.run(seed);
    let equal = first.trace_hash == second.trace_hash;
    println!("seed {seed}");
    println!("trace {} over {} events", first.trace_hash, first.trace_events);
    let verdict = if equal { "equal" } else { "DIFFERENT" };
    println!("second run: trace {} ({verdict})", second.trace_hash);
    for (name, count) in first.faults.iter().chain(&first.counts) {
        println!("  {name:<26} {count:>9}");
    }
    for violation in &first.violations {
        println!(
            "VIOLATION {} at {} ms: {}",
            violation.invariant, violation.at_ms, violation.detail
        );
    }
    Ok(equal && first.violations.is_empty() && second.violations.is_empty())
}

/// How this build was called, for the line that shows how to see a failure again.
fn invocation(args: &CampaignArgs, canary: Option<&str>) -> String {
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    let features = if cfg!(feature = "canary") { " --features canary" } else { "" };
    let canary = canary.map(|name| format!(" --canary {name}")).unwrap_or_default();
    format!("cargo run{release} -p sim{features} -- --scenario {}{canary}", args.scenario)
}

fn jobs(args: &CampaignArgs) -> usize {
    args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn campaign(args: &CampaignArgs, scenario: &Scenario, order: Order) -> Result<bool, String> {
    let mut totals = match &args.state {
        Some(path) => campaign::load(path, &args.scenario)
            .map_err(|error| format!("{}: {error}", path.display()))?,
        None => Totals { scenario: args.scenario.clone(), ..Totals::default() },
    };
    totals.next_seed = args.from.unwrap_or(totals.next_seed);
    let seeds = args.seeds.unwrap_or(SEEDS);
    let goal = totals.next_seed + seeds;
    let campaign = Campaign {
        order,
        seeds,
        jobs: jobs(args),
        replay_every: args.replay_every,
        stop_at_failure: false,
        state: args.state.as_deref(),
    };
    let mut shown = Instant::now();
    let every = Duration::from_millis(if std::io::stderr().is_terminal() { 200 } else { 10_000 });
    let done = campaign.run(&mut totals, |totals| {
        if shown.elapsed() > every {
            shown = Instant::now();
            let end = if std::io::stderr().is_terminal() { '\r' } else { '\n' };
            eprint!("{}{end}", report::progress(totals, goal));
            let _ = std::io::stderr().flush();
        }
    });
    done.map_err(|error| format!("the state file cannot be written: {error}"))?;
    if args.json {
        let text = serde_json::to_string_pretty(&totals).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        print!("{}", report::text(&totals, scenario, &invocation(args, None)));
    }
    Ok(report::passed(&totals, scenario))
}

fn figures(args: &CampaignArgs, scenario: &Scenario, size: Size) -> Result<bool, String> {
    if scenario.name != sim::membership::SCENARIO.name {
        return Err(format!("`{}` has no figures; `membership` has", scenario.name));
    }
    let mut options = match size {
        Size::Quick => scoreboard::Options::quick(),
        Size::Full => scoreboard::Options::full(),
    };
    options.only = args.only;
    options.only_members = args.members;
    let first = args.from.unwrap_or(0);
    let seeds: Vec<u64> = (first..first + args.seeds.unwrap_or(1)).collect();
    if options.experiments() == 0 {
        return Err("there is no such figure: leave out `--members` or `--only`".to_owned());
    }
    let report = scoreboard::run(&seeds, &options, jobs(args), &|done, of| {
        eprintln!("experiment {done} of {of}");
    });
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        print!("{report}");
    }
    Ok(report.violations().is_empty())
}

/// Each bug that was put back has to be found.
fn canaries(
    args: &CampaignArgs,
    scenario: &Scenario,
    order: &Order,
    names: &[String],
) -> Result<bool, String> {
    let mut all_found = true;
    for name in names {
        let campaign = Campaign {
            order: Order { canary: Some(name.clone()), ..order.clone() },
            seeds: args.seeds.unwrap_or(CANARY_SEEDS),
            jobs: jobs(args),
            replay_every: 0,
            stop_at_failure: true,
            state: None,
        };
        let mut totals = Totals { scenario: scenario.name.to_owned(), ..Totals::default() };
        totals.next_seed = args.from.unwrap_or(0);
        campaign.run(&mut totals, |_| {}).map_err(|error| error.to_string())?;
        let found = totals.failures.first();
        all_found &= found.is_some();
        match found {
            Some(failure) => {
                let why = failure.violations.first().map_or("", |first| &first.invariant);
                println!("{name}: found after {} seeds, by {why}", totals.seeds);
                let again = invocation(args, Some(name));
                println!("  again: {again} --replay {}", failure.seed);
            }
            None => println!("{name}: NOT FOUND in {} seeds", totals.seeds),
        }
    }
    Ok(all_found)
}
