//! Whom TLS trusts, and what is said when it does not.

use crate::common;
use crate::common::certificates::{Authority, Pair, self_signed};
use crate::common::tls_front::tls_front;
use crate::common::{Run, Runner, plan_with, target};
use stats::ErrorKind;

/// Two requests to a server with this certificate, by a plan that trusts `ca`.
fn run(server: &Pair, host: &str, ca: &std::path::Path) -> Run {
    let target = target();
    let port = tls_front(&target, server, &[]);
    let defaults = format!("tls: {{ ca: {} }}, hosts: {{ other.test: 127.0.0.1 }}", ca.display());
    let plan = plan_with(&defaults, "iterations: 2", "{ get: / }");
    Runner::to(format!("https://{host}:{port}")).run(&plan)
}

#[test]
fn a_self_signed_certificate_that_the_plan_names_is_trusted_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let own = self_signed(folder.path(), "localhost", 2090);
    run(&own, "localhost", &own.certificate).assert_clean();
    // The same name and the same shape, another certificate.
    let twin = self_signed(folder.path(), "localhost", 2091);
    let refused = run(&twin, "localhost", &own.certificate);
    assert_eq!(refused.errors(ErrorKind::Tls), 2);
    assert!(!refused.message(ErrorKind::Tls).contains("CaUsedAsEndEntity"));
}

#[test]
fn name_and_dates_of_a_certificate_that_is_trusted_as_it_is_are_still_checked() {
    let folder = tempfile::tempdir().unwrap();
    let own = self_signed(folder.path(), "localhost", 2090);
    let wrong_name = run(&own, "other.test", &own.certificate);
    assert_eq!(wrong_name.errors(ErrorKind::Tls), 2);
    let said = wrong_name.message(ErrorKind::Tls);
    assert!(said.contains("not for `other.test` but for") && said.contains("localhost"), "{said}");
    let old = self_signed(folder.path(), "localhost", 2021);
    let expired = run(&old, "localhost", &old.certificate);
    assert_eq!(expired.errors(ErrorKind::Tls), 2);
    let said = expired.message(ErrorKind::Tls);
    assert!(said.contains("the certificate has expired"), "{said}");
}

#[test]
fn an_authority_vouches_for_others_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let server = authority.issue(&["localhost"]);
    run(&server, "localhost", &authority.file).assert_clean();
    let refused = run(&server, "localhost", &self_signed(folder.path(), "x", 2090).certificate);
    let said = refused.message(ErrorKind::Tls);
    assert!(said.contains("signed by nobody who is trusted here"), "{said}");
}

#[test]
fn ping_over_http_2_says_so_and_shows_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let own = self_signed(folder.path(), "localhost", 2090);
    let target = target();
    let port = tls_front(&target, &own, &["h2", "http/1.1"]);
    let tls = plan::TlsOptions { ca: Some(own.certificate.clone()), ..Default::default() };
    for (version, name) in [(plan::HttpVersion::Auto, "2"), (plan::HttpVersion::Http1, "1.1")] {
        let http = plan::HttpOptions { tls: tls.clone(), version, ..plan::HttpOptions::default() };
        let text = format!(
            "target: https://localhost:{port}\nworkflows: [ {{ name: w, steps: [ {{ get: '/' }} ] }} ]"
        );
        let read = common::read(&text, &format!("https://localhost:{port}"), folder.path());
        let plan::Action::Request(request) = &read.workflows[0].steps[0].action else { panic!() };
        let url = plan::template::Template::literal(format!("https://localhost:{port}/"));
        let request = plan::Request { url, ..(**request).clone() };
        let pong = engine::ping::ping(&http, &request).unwrap_or_else(|said| panic!("{said}"));
        for part in [
            format!("> GET / HTTP/{name}\n"),
            format!("< HTTP/{name} 200"),
            "TLS 1.3, TLS_".to_owned(),
            format!("HTTP/{name} by ALPN"),
            "certificate for localhost; subject CN=localhost; issued by CN=localhost; valid 2020-01-01 \
             to 2090-01-01"
                .to_owned(),
        ] {
            assert!(pong.text.contains(&part), "{part} in\n{}", pong.text);
        }
    }
}
