//! The client against nginx: both versions, TLS with all its settings, compression, connections
//! that end after ten requests. nginx keeps its own log; ours must agree with it.

use crate::common;
use std::path::Path;

use crate::common::servers::{Nginx, page};
use crate::common::{Run, Runner, describe, eventually};
use stats::{ErrorKind, RequestSample, Sample};

const ITERATIONS: u64 = 60;

/// 60 requests by 3 users, whose body must be the page that was configured.
fn plan(defaults: &str, headers: &str) -> String {
    format!(
        "target: TARGET
defaults: {{ timeout: 10s, {defaults} }}
workflows:
  - name: w
    load: {{ vus: 3, iterations: {ITERATIONS} }}
    steps: [ {{ get: /page, headers: {{ {headers} }}, check: [ {{ status: 200 }}, {{ name: whole, body: {{ equals: '{}' }} }} ] }} ]
",
        page()
    )
}

fn run(target: &str, defaults: &str) -> (Run, Vec<RequestSample>) {
    run_with(target, defaults, "")
}

fn run_with(target: &str, defaults: &str, headers: &str) -> (Run, Vec<RequestSample>) {
    let (run, samples) = Runner::to(target).run_sampled(&plan(defaults, headers));
    let requests = samples.into_iter().filter_map(|sample| match sample {
        Sample::Request(request) => Some(request),
        _ => None,
    });
    (run, requests.collect())
}

/// Everything was answered in full, over this version, and nginx has it all in its log.
fn assert_whole(nginx: &Nginx, port: u16, version: u8, run: &Run, requests: &[RequestSample]) {
    let total = run.assert_clean().total();
    assert_eq!(total.completed, ITERATIONS, "{}", describe(&total));
    assert_eq!(run.check("whole").passes, ITERATIONS);
    assert!(requests.iter().all(|request| request.proto == version), "not all are HTTP/{version}");
    // What was written to a connection that nginx had just given up is not in its log.
    let arrived = (total.sent - total.retried) as usize;
    let log = eventually(|| nginx.log(port), |log| log.len() >= arrived);
    assert_eq!(log.len(), arrived, "{}", describe(&total));
}

#[test]
fn http1_agrees_with_nginx_about_every_request() {
    let Some(nginx) = Nginx::start() else { return };
    let (run, requests) = run(&format!("http://127.0.0.1:{}", nginx.plain), "");
    assert_whole(&nginx, nginx.plain, 1, &run, &requests);
    assert_eq!(run.total().retried, 0, "nginx says before it closes");
    let opened = requests.iter().filter(|request| request.connecting_ns > 0).count();
    assert!((6..=9).contains(&opened), "{opened} connections for 60 requests, ten each");
}

#[test]
fn http2_with_prior_knowledge_agrees_with_nginx_about_every_request() {
    let Some(nginx) = Nginx::start() else { return };
    let (run, requests) = run(&format!("http://127.0.0.1:{}", nginx.h2c), "version: 2");
    assert_whole(&nginx, nginx.h2c, 2, &run, &requests);
    assert!(nginx.log(nginx.h2c).iter().all(|line| line.starts_with("HTTP/2.0 ")));
}

#[test]
fn the_version_on_tls_is_what_both_can_speak() {
    let Some(nginx) = Nginx::start() else { return };
    let ca = format!("tls: {{ ca: {} }}", nginx.authority.file.display());
    for (port, defaults, version) in [(nginx.tls, String::new(), 2), (nginx.tls1, String::new(), 1)]
    {
        let (run, requests) = run(&format!("https://localhost:{port}"), &format!("{ca}{defaults}"));
        assert_whole(&nginx, port, version, &run, &requests);
        let handshakes = requests.iter().filter(|request| request.tls_ns > 0).count();
        assert!(handshakes >= 6, "{handshakes} handshakes for 60 requests, ten each");
        assert!(requests.iter().all(|request| request.tls_ns <= request.blocked_ns));
    }
}

#[test]
fn a_version_can_be_insisted_on() {
    let Some(nginx) = Nginx::start() else { return };
    let ca = format!("tls: {{ ca: {} }}", nginx.authority.file.display());
    let (one, requests) =
        run(&format!("https://localhost:{}", nginx.tls), &format!("version: 1.1, {ca}"));
    assert_whole(&nginx, nginx.tls, 1, &one, &requests);
    // A server that cannot is an error, not a silent change of protocol.
    let (two, _) = run(&format!("https://localhost:{}", nginx.tls1), &format!("version: 2, {ca}"));
    assert_eq!(two.total().completed, 0);
    let refused = two.errors(ErrorKind::Protocol) + two.errors(ErrorKind::Tls);
    assert_eq!(refused, ITERATIONS, "{}", describe(&two.total()));
}

#[test]
fn compressed_pages_are_unpacked_where_they_are_read() {
    let Some(nginx) = Nginx::start() else { return };
    for (port, version) in [(nginx.plain, "1.1"), (nginx.h2c, "2")] {
        let url = format!("http://127.0.0.1:{port}");
        let (plain, _) = run(&url, &format!("version: {version}"));
        let (packed, _) = run(&url, &format!("version: {version}, compression: true"));
        packed.assert_clean().assert_checks();
        // The check saw the whole page both times, so the difference is what gzip saved.
        assert!(packed.total().bytes_received * 2 < plain.total().bytes_received);
    }
}

#[test]
fn certificates_are_verified_unless_the_plan_says_otherwise() {
    let Some(nginx) = Nginx::start() else { return };
    let stranger = common::certificates::Authority::new(nginx.server.folder.path(), "stranger");
    let trusted = format!("ca: {}", nginx.authority.file.display());
    let other = format!("ca: {}", stranger.file.display());
    let cases = [
        ("localhost", trusted.clone(), true),
        ("localhost", String::new(), false),
        ("localhost", other, false),
        ("localhost", "insecure: true".to_owned(), true),
        // The certificate is for `localhost`, and for nothing else.
        ("wrong.test", trusted.clone(), false),
        ("127.0.0.1", trusted.clone(), false),
        ("wrong.test", format!("{trusted}, server_name: localhost"), true),
        ("localhost", format!("{trusted}, server_name: wrong.test"), false),
        ("wrong.test", "insecure: true".to_owned(), true),
    ];
    for (host, tls, good) in cases {
        let defaults = format!("hosts: {{ wrong.test: 127.0.0.1 }}, tls: {{ {tls} }}");
        let (run, _) = run(&format!("https://{host}:{}", nginx.tls), &defaults);
        if good {
            run.assert_clean();
        } else {
            let total = run.total();
            assert_eq!(
                run.errors(ErrorKind::Tls),
                ITERATIONS,
                "{host} {tls}: {}",
                describe(&total)
            );
            assert_eq!(total.sent, 0, "{host} {tls}: nothing is told to a stranger");
            assert!(run.message(ErrorKind::Tls).contains("certificate"), "{host} {tls}");
        }
    }
}

#[test]
fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let Some(nginx) = Nginx::start() else { return };
    let url = format!("https://localhost:{}", nginx.mutual);
    let ca = nginx.authority.file.display().to_string();
    let (without, _) = run(&url, &format!("tls: {{ ca: {ca} }}"));
    let refused: Vec<_> = without.total().status.iter().collect();
    assert_eq!(refused, [(400, ITERATIONS)], "nginx asks for a certificate");

    let pair = nginx.authority.issue(&["client"]);
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    let tls = format!("tls: {{ ca: {ca}, certificate: {certificate}, key: {key} }}");
    let (with, _) = run(&url, &tls);
    with.assert_clean().assert_checks();
    let log = eventually(|| nginx.log(nginx.mutual), |log| log.len() as u64 >= 2 * ITERATIONS);
    let shown = log.iter().filter(|line| line.ends_with("CN=client")).count() as u64;
    assert_eq!(shown, ITERATIONS);
}

#[test]
fn a_unix_socket_is_a_target_like_any_other() {
    let Some(nginx) = Nginx::start() else { return };
    let socket = nginx.server.path("nginx.sock");
    let (run, requests) = run(&format!("unix:{}", socket.display()), "");
    let total = run.assert_clean().total();
    assert_eq!(run.check("whole").passes, ITERATIONS);
    assert!(requests.iter().any(|request| request.connecting_ns > 0));
    assert_eq!(total.sent, ITERATIONS);
    let missing = Runner::to("unix:/nowhere/at/all.sock").run(&plan("", ""));
    assert_eq!(missing.errors(ErrorKind::Refused), ITERATIONS);
    assert!(Path::new(&socket).exists());
}

#[test]
fn answers_without_a_body_do_not_confuse_nginx_or_us() {
    let Some(nginx) = Nginx::start() else { return };
    for (port, version) in [(nginx.plain, "1.1"), (nginx.h2c, "2")] {
        let plan = "target: TARGET
defaults: { version: VERSION }
workflows:
  - name: w
    load: { vus: 2, iterations: 20 }
    steps:
      - { get: /none, check: [ { status: 204 }, { body: { size: '== 0B' } } ] }
      - { head: /page, check: [ { status: 200 }, { body: { size: '== 0B' } } ] }
      - { post: /page, body: ignored, check: [ { status: 200 } ] }
      - { get: /page, check: [ { status: 200 }, { body: { contains: 'begin volley' } } ] }
";
        let url = format!("http://127.0.0.1:{port}");
        let run = Runner::to(url).run(&plan.replace("VERSION", version));
        run.assert_clean().assert_checks();
        assert_eq!(run.total().completed, 80);
    }
}
