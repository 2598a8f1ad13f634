//! `volley ping URL`

use super::quick::{absolute, http_version, request};
use crate::cli::PingArgs;
use crate::{exit, print};

pub fn ping(args: &PingArgs) -> i32 {
    let prepare = || {
        let version = http_version(&args.http)?;
        let request = request(
            &absolute(&args.url),
            args.method.as_deref(),
            &args.headers,
            args.body.as_deref(),
        )?;
        Ok::<_, String>((version, request))
    };
    let (version, request) = match prepare() {
        Ok(ready) => ready,
        Err(problem) => {
            eprintln!("volley: {problem}");
            return exit::USAGE;
        }
    };
    let http = plan::HttpOptions {
        version,
        timeout: args.timeout,
        connect_timeout: args.timeout,
        tls: plan::TlsOptions { insecure: args.insecure, ..Default::default() },
        ..plan::HttpOptions::default()
    };
    match engine::ping::ping(&http, &request) {
        Ok(pong) => {
            print::out(&pong.text);
            if (200..400).contains(&pong.status) { 0 } else { exit::UNANSWERED }
        }
        // All there is to see of the exchange; the line with `!` says what went wrong.
        Err(shown) => {
            eprintln!("{shown}");
            exit::UNANSWERED
        }
    }
}
