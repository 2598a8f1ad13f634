//! `volley target`

use std::sync::mpsc::channel;

use target::{Target, TargetConfig};

use crate::cli::TargetArgs;
use crate::{exit, signals};

pub fn target(args: &TargetArgs) -> i32 {
    engine::machine::raise_descriptor_limit();
    let config = TargetConfig {
        listen: args.listen,
        threads: args.threads,
        latency: args.latency.clone(),
        error_rate: args.error_rate,
        stalls: args.stalls.clone(),
        payload_bytes: args.payload,
    };
    let running = match Target::start(config) {
        Ok(running) => running,
        Err(error) => {
            eprintln!("volley: {error}");
            return exit::FAILED;
        }
    };
    let address = running.addr();
    println!(
        "listening on http://{address}; http://{address}/volley/seen tells what it has seen; Ctrl-C ends it"
    );
    let (stop, stopped) = channel();
    signals::on_interrupt(move || {
        let _ = stop.send(());
    });
    let _ = stopped.recv();
    let counts = running.stop();
    println!("saw {} requests on {} connections", counts.total, counts.connections);
    0
}
