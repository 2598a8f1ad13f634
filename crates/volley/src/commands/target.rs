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
        Err(error) => return Failure::failed(error).tell(),
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
