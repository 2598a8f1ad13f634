//! `volley ping URL`

use plan::quick::absolute_url;
use report::ExitCode;

use super::quick::{http_version, request};
use crate::cli::PingArgs;
use crate::failure::Failure;
use crate::print;

pub fn ping(args: &PingArgs) -> ExitCode {
    super::quick::tell_of_file(args.body.as_deref());
    let prepare = || {
        let version = http_version(&args.http)?;
        let request = request(
            &absolute_url(&args.url),
            args.method.as_deref(),
            &args.headers,
            args.body.as_deref(),
        )?;
        Ok::<_, Failure>((version, request))
    };
    let (version, request) = match prepare() {
        Ok(ready) => ready,
        Err(failure) => return failure.tell(),
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
            if (200..400).contains(&pong.status) { ExitCode::Passed } else { ExitCode::NotHeld }
        }
        // All there is to see of the exchange; the line with `!` says what went wrong.
        Err(shown) => {
            eprintln!("{shown}");
            ExitCode::NotHeld
        }
    }
}
