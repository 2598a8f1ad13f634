//! The client against Caddy (HTTPS by its own authority, HTTP/2, gzip and zstd) and Python's
//! http.server (HTTP/1.0).

use crate::common::servers::{Caddy, page, python};
use crate::common::{Runner, describe, eventually};
use stats::Sample;

fn plan(defaults: &str, path: &str, accept: &str) -> String {
    format!(
        "target: TARGET
defaults: {{ {defaults} }}
workflows:
  - name: w
    load: {{ vus: 2, iterations: 30 }}
    steps:
      - get: {path}
        headers: {{ accept-encoding: '{accept}' }}
        check: [ {{ status: 200 }}, {{ body: {{ equals: '{}' }} }} ]
",
        page()
    )
}

#[test]
fn caddy_is_read_in_every_coding_and_version() {
    let Some(caddy) = Caddy::start() else { return };
    let plain = format!("http://127.0.0.1:{}", caddy.plain);
    let tls = format!("https://localhost:{}", caddy.tls);
    let ca = format!("tls: {{ ca: {} }}", caddy.root().display());
    let cases = [
        (&plain, String::new(), 1),
        (&plain, "version: 2".to_owned(), 2),
        (&tls, ca.clone(), 2),
        (&tls, format!("version: 1.1, {ca}"), 1),
    ];
    for (url, defaults, version) in cases {
        let mut received = Vec::new();
        for accept in ["identity", "gzip", "zstd"] {
            let plan = plan(&defaults, "/", accept);
            let (run, samples) = Runner::to(url.as_str()).run_sampled(&plan);
            run.assert_clean().assert_checks();
            received.push(run.total().bytes_received);
            let version_is = |sample: &Sample| match sample {
                Sample::Request(request) => request.proto == version,
                _ => true,
            };
            assert!(samples.iter().all(version_is), "{url} {defaults} is not HTTP/{version}");
        }
        // The same text each time, and smaller on the wire: so it was packed, and unpacked.
        assert!(received[1] * 2 < received[0] && received[2] * 2 < received[0], "{received:?}");
    }
}

#[test]
fn caddys_own_authority_is_not_trusted_without_being_asked_to() {
    let Some(caddy) = Caddy::start() else { return };
    let run =
        Runner::to(format!("https://localhost:{}", caddy.tls)).run(&plan("", "/", "identity"));
    assert_eq!(run.errors(stats::ErrorKind::Tls), 30, "{}", describe(&run.total()));
    let message = run.message(stats::ErrorKind::Tls);
    assert!(message.contains("signed by nobody who is trusted"), "{message}");
    let run = Runner::to(format!("https://localhost:{}", caddy.tls)).run(&plan(
        "tls: { insecure: true }",
        "/",
        "identity",
    ));
    run.assert_clean().assert_checks();
}

#[test]
fn an_answer_of_http_1_0_ends_with_its_connection() {
    let Some(python) = python() else { return };
    let url = format!("http://127.0.0.1:{}", python.ports[0]);
    let pieces: String = (0..20).map(|piece| format!("piece {piece},")).collect();
    let steps = format!(
        "target: TARGET
workflows:
  - name: w
    load: {{ vus: 2, iterations: 20 }}
    steps:
      - {{ get: /until-close, check: [ {{ status: 200 }}, {{ body: {{ equals: '{pieces}' }} }} ] }}
      - {{ get: /page.txt, check: [ {{ status: 200 }}, {{ body: {{ equals: '{}' }} }} ] }}
      - {{ head: /page.txt, check: [ {{ status: 200 }}, {{ body: {{ size: '== 0B' }} }} ] }}
      - {{ get: /missing, check: [ {{ status: 404 }} ] }}
",
        page()
    );
    let (run, samples) = Runner::to(url).run_sampled(&steps);
    run.assert_clean().assert_checks();
    let total = run.total();
    assert_eq!((total.completed, total.retried), (80, 0), "{}", describe(&total));
    // HTTP/1.0 without keep-alive: each request has a connection of its own.
    let connected = samples.iter().filter(|sample| match sample {
        Sample::Request(request) => request.connecting_ns > 0,
        _ => false,
    });
    assert_eq!(connected.count(), 80);
    let log = || std::fs::read_to_string(python.path("server.log")).unwrap_or_default();
    // Python logs an error line of its own beside the one for a missing page.
    let count = |log: &String| log.lines().filter(|line| line.contains(" /")).count();
    let log = eventually(log, |log| count(log) >= 100);
    assert_eq!(log.lines().filter(|line| line.starts_with("GET /page.txt")).count(), 20);
}
