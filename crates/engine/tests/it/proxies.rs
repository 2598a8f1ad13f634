//! A proxy that nobody here wrote: tinyproxy, for plain requests and for tunnels.

use crate::common;
use std::process::Command;

use crate::common::process::{Server, find, start};
use crate::common::tls_front::tls_front;
use crate::common::{Runner, plan_with, target, url};

fn tinyproxy() -> Option<Server> {
    let program = find("tinyproxy")?;
    Some(start(1, |folder, ports| {
        let file = folder.join("tinyproxy.conf");
        let text = format!(
            "Port {}\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nAllow 127.0.0.1\nBasicAuth ann pw\n\
             LogLevel Connect\n",
            ports[0]
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&program);
        command.arg("-d").arg("-c").arg(file);
        command
    }))
}

#[test]
fn a_real_proxy_passes_plain_requests_on() {
    let Some(proxy) = tinyproxy() else { return };
    let target = target();
    let defaults = format!("proxy: 'http://ann:pw@127.0.0.1:{}'", proxy.ports[0]);
    let plan = plan_with(
        &defaults,
        "vus: 2, iterations: 10",
        "{ get: /echo }, { get: '/echo?q=${vu.id}' }",
    );
    let run = Runner::to(url(&target)).run(&plan);
    run.assert_clean();
    // tinyproxy closes each connection after its answer; what was written to one just then counts
    // as a request of its own that the target never saw.
    assert_eq!((run.total().completed, target.counts().total), (20, 20));
    let wrong = plan_with(&defaults.replace("pw@", "no@"), "iterations: 1", "{ get: / }");
    let run = Runner::to(url(&target)).run(&wrong);
    assert_eq!(run.total().failed, 1, "407 is no answer of the target");
}

#[test]
fn a_real_proxy_opens_a_tunnel_for_tls() {
    let Some(proxy) = tinyproxy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let own = common::certificates::self_signed(folder.path(), "localhost", 2090);
    let target = target();
    let port = tls_front(&target, &own, &["h2", "http/1.1"]);
    let defaults = format!(
        "proxy: 'http://ann:pw@127.0.0.1:{}', tls: {{ ca: {} }}",
        proxy.ports[0],
        own.certificate.display()
    );
    // tinyproxy 1.11 tunnels to any port where no ConnectPort is configured.
    for version in ["1.1", "2"] {
        let defaults = format!("{defaults}, version: {version}");
        let plan = plan_with(&defaults, "vus: 2, iterations: 10", "{ get: / }");
        Runner::to(format!("https://localhost:{port}")).run(&plan).assert_clean();
    }
    assert_eq!(target.counts().total, 20);
}
