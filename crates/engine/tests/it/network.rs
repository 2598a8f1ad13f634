//! How connections are made: timeouts, keep-alive, names, source addresses, families, proxies,
//! warm-up.

use crate::common;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::recording::{Recording, Seen, ok, read_request};
use crate::common::tls_front::tls_front;
use crate::common::{Runner, describe, plan, plan_with, target, url};
use stats::{ErrorKind, Sample};

#[test]
fn a_request_has_its_time_and_no_more() {
    for version in ["1.1", "2"] {
        let target = target();
        let steps = "{ get: /delay/10000, timeout: 150ms }, { get: /delay/10000 }, { get: / }";
        let defaults = format!("version: {version}, timeout: 300ms");
        let run = Runner::to(url(&target)).run(&plan_with(&defaults, "iterations: 2", steps));
        let total = run.total();
        assert_eq!(run.errors(ErrorKind::Timeout), 4, "{}", describe(&total));
        assert_eq!(total.completed, 2, "the next request is not the worse for it");
        run.assert_seen_by(&target);
        let took = run.iterations().duration;
        assert!(took.min_ms() >= 450.0 && took.max_ms() < 900.0, "{} ms", took.max_ms());
    }
}

#[test]
fn a_slow_answer_does_not_begin_the_time_anew_with_each_byte() {
    let hostile = target::hostile::Hostile::start(target::hostile::Behaviour::SlowDrip).unwrap();
    // 20 bytes, 50 ms each.
    let steps = "{ get: /, timeout: 300ms }, { get: /, timeout: 5s }";
    let run = Runner::to(hostile.url()).run(&plan("iterations: 1", steps));
    let total = run.total();
    assert_eq!((run.errors(ErrorKind::Timeout), total.completed), (1, 1), "{}", describe(&total));
}

#[test]
fn connecting_has_a_time_of_its_own() {
    // A listener that is never accepted from: when its queue is full, nobody gets through any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // SAFETY: a plain system call on a descriptor that lives through it.
    let shrunk = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
    assert_eq!(shrunk, 0);
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        held.push(stream);
        assert!(held.len() < 100, "the queue is never full");
    }
    let defaults = "connect_timeout: 200ms, timeout: 20s";
    let run = Runner::to(format!("http://{address}")).run(&plan_with(
        defaults,
        "vus: 2, iterations: 4",
        "{ get: / }",
    ));
    let total = run.total();
    assert_eq!(run.errors(ErrorKind::Timeout), 4, "{}", describe(&total));
    assert_eq!(total.sent, 0);
    assert!(run.0.elapsed < Duration::from_secs(2), "{:?}", run.0.elapsed);
}

#[test]
fn without_keep_alive_each_request_has_a_connection_of_its_own() {
    for version in ["1.1", "2"] {
        let target = target();
        let defaults = format!("keep_alive: false, version: {version}");
        let run = Runner::to(url(&target)).run(&plan_with(
            &defaults,
            "vus: 2, iterations: 20",
            "{ get: / }",
        ));
        run.assert_clean().assert_seen_by(&target);
        assert_eq!(target.counts().connections, 20, "HTTP/{version}");
    }
    let server = Recording::start(|_| ok(""));
    let plan = plan_with("keep_alive: false", "iterations: 1", "{ get: / }");
    Runner::to(server.url()).run(&plan).assert_clean();
    assert_eq!(server.seen()[0].header("connection"), Some("close"));
}

#[test]
fn names_can_be_given_addresses_in_the_plan() {
    let server = Recording::start(|_| ok(""));
    let port = server.addr.port();
    for hosts in
        [format!("shop.test: 127.0.0.1:{port}"), format!("'shop.test:8080': 127.0.0.1:{port}")]
    {
        let defaults = format!("hosts: {{ {hosts} }}");
        let plan = plan_with(&defaults, "iterations: 1", "{ get: / }");
        Runner::to("http://shop.test:8080").run(&plan).assert_clean();
    }
    assert_eq!(server.seen().len(), 2);
    assert!(server.seen().iter().all(|one| one.header("host") == Some("shop.test:8080")));
}

#[test]
fn source_addresses_are_used_in_turn() {
    let server = Recording::start(|_| ok(""));
    let load = "executor: per-vu-iterations, vus: 4, iterations: 3";
    let defaults = "local_addresses: [127.0.0.2, 127.0.0.3]";
    Runner::to(server.url()).cores(2).run(&plan_with(defaults, load, "{ get: / }")).assert_clean();
    let from =
        |ip: &str| server.seen().iter().filter(|one| one.peer.ip().to_string() == ip).count();
    assert_eq!((from("127.0.0.2"), from("127.0.0.3")), (6, 6));
}

#[test]
fn ipv6_is_a_target_like_any_other() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: this machine has no IPv6 loopback");
        return;
    }
    let server = Recording::at("[::1]:0", |_| ok(""));
    Runner::to(server.url()).run(&plan("iterations: 3", "{ get: / }")).assert_clean();
    let host = format!("[::1]:{}", server.addr.port());
    assert_eq!(server.seen()[0].header("host"), Some(host.as_str()));
    // By name and family, over a path that is known only when it is rendered.
    let defaults = format!("ip: v6, hosts: {{ six.test: '[::1]:{}' }}", server.addr.port());
    let steps = "{ get: '/${vu.id}' }";
    Runner::to("http://six.test").run(&plan_with(&defaults, "iterations: 2", steps)).assert_clean();
    assert_eq!(server.seen().len(), 5);
}

#[test]
fn warm_connections_cost_the_first_request_nothing() {
    for (warm, blocked) in [("warm: true", 0), ("warm: false", 3)] {
        let target = target();
        let load = "executor: per-vu-iterations, vus: 3, iterations: 4";
        let (run, samples) =
            Runner::to(url(&target)).run_sampled(&plan_with(warm, load, "{ get: / }"));
        run.assert_clean().assert_seen_by(&target);
        let waited = samples.iter().filter(|sample| match sample {
            Sample::Request(request) => request.blocked_ns > 0,
            _ => false,
        });
        assert_eq!(waited.count(), blocked, "{warm}");
        assert_eq!(target.counts().connections, 3, "{warm}");
    }
}

#[test]
fn phases_add_up_to_what_they_are_parts_of() {
    let target = target();
    let steps = "{ get: /delay/80 }, { get: /stream/200000 }";
    let (run, samples) =
        Runner::to(url(&target)).run_sampled(&plan("vus: 2, iterations: 20", steps));
    run.assert_clean();
    let mut waited = 0;
    for sample in &samples {
        let Sample::Request(request) = sample else { continue };
        let sum = request.sending_ns + request.waiting_ns + request.receiving_ns;
        assert_eq!(request.duration_ns, sum);
        assert!(request.connecting_ns <= request.blocked_ns, "{request:?}");
        assert!(request.latency_ns >= request.duration_ns, "{request:?}");
        waited += u32::from(request.waiting_ns >= 50_000_000);
    }
    assert_eq!(waited, 20, "what the server waits for is waiting, not sending or receiving");
}

/// A proxy of a few lines: CONNECT tunnels, and plain requests in absolute form.
struct Proxy {
    addr: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Proxy {
    fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        // Lives as long as the test's process, and does nothing when nobody asks.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                std::thread::spawn(move || Proxy::serve(stream, &log));
            }
        });
        Proxy { addr, seen }
    }

    fn serve(mut stream: TcpStream, log: &Mutex<Vec<Seen>>) -> Option<()> {
        let peer = stream.peer_addr().ok()?;
        while let Some(request) = read_request(&mut stream, peer) {
            log.lock().unwrap().push(request.clone());
            if request.method == "CONNECT" {
                let port = request.path.rsplit(':').next()?.to_owned();
                let mut upstream = TcpStream::connect(format!("127.0.0.1:{port}")).ok()?;
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
                let (mut from, mut to) = (stream.try_clone().ok()?, upstream.try_clone().ok()?);
                std::thread::spawn(move || pump(&mut from, &mut to));
                pump(&mut upstream, &mut stream);
                return None;
            }
            stream.write_all(&ok("through the proxy")).ok()?;
        }
        None
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn pump(from: &mut TcpStream, to: &mut TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn plain_requests_go_to_the_proxy_in_absolute_form() {
    let proxy = Proxy::start();
    let defaults = format!("proxy: 'http://ann:pw@{}'", proxy.addr);
    // A fixed request, one with a reference, and one whose URL is known only when it is rendered.
    let steps = "{ get: '/fixed?q=1', check: [ { body: { equals: through the proxy } } ] }, { get: '/${vu.id}' }, \
         { set: { base: 'http://other.test' } }, { get: '${base}/late' }";
    let run =
        Runner::to("http://nowhere.test:81").run(&plan_with(&defaults, "iterations: 2", steps));
    run.assert_clean().assert_checks();
    let seen = proxy.seen();
    let paths: Vec<_> = seen.iter().map(|one| one.path.as_str()).collect();
    let once =
        ["http://nowhere.test:81/fixed?q=1", "http://nowhere.test:81/1", "http://other.test/late"];
    assert_eq!(paths, [once, once].concat());
    for request in &seen {
        let authorization = request.header("proxy-authorization");
        assert_eq!(authorization, Some("Basic YW5uOnB3"), "{}", request.path);
    }
}

#[test]
fn tls_goes_through_a_tunnel_that_keeps_the_proxys_secrets() {
    let Some(nginx) = common::servers::Nginx::start() else { return };
    let proxy = Proxy::start();
    let target = target();
    // TLS in front of the built-in target, so that its echo shows what came through the tunnel.
    let front = tls_front(&target, &nginx.authority.issue(&["localhost"]), &[]);
    let defaults = format!(
        "proxy: 'http://ann:pw@{}', tls: {{ ca: {} }}",
        proxy.addr,
        nginx.authority.file.display()
    );
    let steps = "{ get: /echo, check: [ { json: \"$.headers['proxy-authorization']\", exists: false }, { status: 200 } ] }, \
         { get: '/echo?q=${vu.id}', check: [ { json: \"$.headers['proxy-authorization']\", exists: false } ] }";
    let run = Runner::to(format!("https://localhost:{front}")).run(&plan_with(
        &defaults,
        "iterations: 2",
        steps,
    ));
    run.assert_clean().assert_checks();
    let seen = proxy.seen();
    assert_eq!(seen.len(), 1, "one tunnel, kept alive");
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.clone()),
        ("CONNECT", format!("localhost:{front}"))
    );
    assert_eq!(seen[0].header("proxy-authorization"), Some("Basic YW5uOnB3"));
}

#[test]
fn a_proxy_that_is_not_there_or_refuses_is_said_so() {
    let closed = target::hostile::Hostile::start(target::hostile::Behaviour::Refuse).unwrap();
    let defaults = format!("proxy: '{}'", closed.url());
    let run =
        Runner::to("http://nowhere.test").run(&plan_with(&defaults, "iterations: 2", "{ get: / }"));
    assert_eq!(run.errors(ErrorKind::Refused), 2, "{}", describe(&run.total()));
    let refusing = Recording::start(|_| common::recording::respond("403 Forbidden", "", b""));
    let defaults = format!("proxy: '{}'", refusing.url());
    let run = Runner::to("https://nowhere.test").run(&plan_with(
        &defaults,
        "iterations: 2",
        "{ get: / }",
    ));
    assert_eq!(run.errors(ErrorKind::Connect), 2, "{}", describe(&run.total()));
    assert!(run.message(ErrorKind::Connect).contains("403"), "{}", run.message(ErrorKind::Connect));
}
