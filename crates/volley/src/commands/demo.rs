//! `volley demo`: the built-in target and the quickstart plan, so that a newcomer needs nothing
//! else.

use std::net::SocketAddr;
use std::path::Path;

use report::ExitCode;
use target::{Target, TargetConfig};

use super::runner::{Style, run_plan};
use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::print;

const PLAN: &str = include_str!("../../../../examples/quickstart.yaml");
const USERS: &str = include_str!("../../../../examples/users.csv");

mod cluster;

pub fn demo(args: &DemoArgs) -> ExitCode {
    if args.cluster {
        return cluster::demo(args);
    }
    engine::machine::raise_descriptor_limit();
    let config = TargetConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        latency: target::Latency::Uniform(
            std::time::Duration::from_millis(2),
            std::time::Duration::from_millis(12),
        ),
        ..TargetConfig::default()
    };
    let running = match Target::start(config) {
        Ok(running) => running,
        Err(error) => return Failure::failed(error).tell(),
    };
    let folder = std::env::temp_dir().join(format!("volley-demo-{}", std::process::id()));
    let plan = read_plan(&folder);
    let mut plan = match plan {
        Ok(plan) => plan,
        Err(failure) => return failure.tell(),
    };
    let address = running.addr();
    plan.target = Some(plan::template::Template::literal(format!("http://{address}")));
    if !args.output.quiet {
        eprintln!(
            "The built-in target listens on http://{address}; the plan is examples/quickstart.yaml.\n"
        );
    }
    let code = run_plan(plan, None, &args.output, Style::Full, None);
    let _ = std::fs::remove_dir_all(&folder);
    let seen = running.stop().total;
    if !args.output.quiet {
        let last = format!(
            "\nThe target counted {seen} requests. Next: `volley new plan.yaml`, `volley run plan.yaml`."
        );
        if args.output.data_on_stdout() { eprintln!("{last}") } else { print::line(&last) }
    }
    code
}

/// The plan and its data are part of the binary; a plan reads its data from a folder, so they get
/// one.
fn read_plan(folder: &Path) -> Result<plan::Plan, Failure> {
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(name), text)
    };
    write("quickstart.yaml", PLAN).and_then(|()| write("users.csv", USERS)).map_err(|error| {
        Failure::failed(error).at(format!("cannot write to {}", folder.display()))
    })?;
    super::run::read(&folder.join("quickstart.yaml"), &[], None).map_err(Failure::failed)
}
