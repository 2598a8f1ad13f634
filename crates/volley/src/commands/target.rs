//! `volley target`

use std::sync::mpsc::channel;

use report::ExitCode;
use report::format;
use target::{Target, TargetConfig};

use crate::cli::TargetArgs;
use crate::failure::Failure;
use crate::{print, signals};

pub fn target(args: &TargetArgs) -> ExitCode {
    engine::machine::raise_descriptor_limit();
    let config = TargetConfig {
        listen: args.listen,
        threads: args.threads,
        latency: args.latency,
        error_rate: args.error_rate,
        stalls: args.stalls.clone(),
        payload_bytes: args.payload,
    };
    let running = match Target::start(config) {
        Ok(running) => running,
        Err(error) => {
            let failure = Failure::failed(&error);
            let privileged = (1..1024).contains(&args.listen.port());
            let denied = error.to_string().contains("ermission denied");
            return match privileged && denied {
                true => failure
                    .help("ports below 1024 need a privilege: choose another, such as 8080")
                    .tell(),
                false => failure.tell(),
            };
        }
    };
    let address = running.addr();
    print::line(&format!(
        "listening on http://{address}; http://{address}/volley/seen tells what it has seen; Ctrl-C ends it"
    ));
    let (stop, stopped) = channel();
    signals::on_interrupt(move || {
        let _ = stop.send(());
    });
    let _ = stopped.recv();
    let counts = running.stop();
    print::line(&format!(
        "saw {} on {}",
        format::plural(counts.total, "request"),
        format::plural(counts.connections, "connection")
    ));
    ExitCode::Passed
}
