//! One file per command.

mod agent;
mod certs;
mod complete;
mod ctl;
mod demo;
mod explain;
mod fleet;
mod join;
mod ledger;
mod members;
mod new;
pub mod node;
mod page;
mod ping;
pub mod quick;
mod reach;
mod report;
mod rows;
mod run;
mod runner;
mod script;
pub mod settings;
mod stdin;
mod target;
mod up;

pub use fleet::{known_jobs, known_nodes};

use ::report::ExitCode;

use crate::cli::{Command, DebugAction};
use crate::print;

pub fn dispatch(command: Command) -> ExitCode {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::report(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Plan(args) => explain::explain(&args),
        Command::New(args) => new::new(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::Target(args) => target::target(&args),
        Command::Submit(args) => fleet::submit(&args),
        Command::Watch(args) => fleet::watch(&args),
        Command::Web(args) => fleet::web(&args),
        Command::Status(args) => {
            let code = fleet::status(&args);
            if code != ExitCode::Passed && ctl::is_any_running() {
                eprintln!("  help: a test runs on this machine: `volley ctl status` shows it");
            }
            code
        }
        Command::Jobs(args) => fleet::jobs(&args),
        Command::Cancel(args) => fleet::cancel(&args),
        Command::Results(args) => fleet::results(&args),
        Command::Drain(args) => fleet::drain(&args),
        Command::Managers(args) => fleet::managers(&args),
        Command::Ctl(args) => ctl::ctl(&args),
        Command::Up(args) => up::up(&args),
        Command::Manager(args) => node::manager(&args),
        Command::Worker(args) => node::worker(&args),
        Command::Certs(args) => certs::certs(&args),
        Command::Debug(args) => match &args.action {
            DebugAction::Agent(args) => agent::agent(args),
            DebugAction::Members(args) => members::members(args),
            DebugAction::Ledger(args) => ledger::ledger(args),
        },
        // `main` has read the file and shows it.
        Command::Settings(_) => ExitCode::Passed,
        Command::Completions(args) => complete::completions(args.shell),
        Command::Man(args) => complete::man(args.dir.as_deref()),
        Command::Version => {
            print::line(&format!(
                "volley {} ({})",
                env!("CARGO_PKG_VERSION"),
                env!("BUILD_DESCRIPTION")
            ));
            ExitCode::Passed
        }
        Command::Schema(args) => {
            if args.coming_from {
                print::out(&plan::coming_from());
            } else if args.markdown {
                print::out(&plan::reference());
            } else {
                print::line(&format!("{:#}", plan::schema()));
            }
            ExitCode::Passed
        }
    }
}
