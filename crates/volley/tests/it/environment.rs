//! What the environment says about the way to a target: proxies and trusted certificates.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::common::{Room, closed_port, finish, until};

/// Answers plain requests by itself, refuses tunnels, and writes down each request line and the
/// credentials with it.
struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                std::thread::spawn(move || serve(&stream, &log));
            }
        });
        Proxy { address, seen }
    }

    fn url(&self) -> String {
        format!("http://ann:p%40w@{}", self.address)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let first = lines.next()?.ok()?;
        let mut shown = first.clone();
        for line in lines.by_ref() {
            let line = line.ok()?;
            if line.is_empty() {
                break;
            }
            if let Some((_, value)) = line.split_once(": ")
                && line.to_ascii_lowercase().starts_with("proxy-authorization")
            {
                shown = format!("{shown} {value}");
            }
        }
        log.lock().unwrap().push(shown);
        let answer: &[u8] = match first.starts_with("CONNECT") {
            true => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            false => b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nproxied",
        };
        (&mut &*stream).write_all(answer).ok()?;
    }
}

const SCRIPT: &str = "import http from 'k6/http';
const show = (answer) => `${answer.body} ${answer.error}`;
export default function () {
  for (const url of __ENV.URLS.split(' ')) console.log(show(http.get(url)));
}
";

#[test]
fn a_script_asks_through_the_proxies_of_the_environment_as_in_k6() {
    let (room, proxy) = (Room::new(), Proxy::start());
    room.write("s.js", SCRIPT);
    let run = |urls: &str, vars: &[(&str, &str)]| {
        let urls = format!("URLS={urls}");
        let mut command = room.command(["run", "-q", "s.js", "-e", &urls]);
        command.envs(vars.iter().copied());
        finish(&mut command).expect(0)
    };
    let basic = "Basic YW5uOnBAdw==";
    let url = proxy.url();
    let done = run("http://shop.test/a?b=1", &[("HTTP_PROXY", &url)]);
    assert!(done.err.contains("proxied"), "{}", done.err);
    assert_eq!(proxy.take(), [format!("GET http://shop.test/a?b=1 HTTP/1.1 {basic}")]);
    let done = run("https://shop.test/", &[("https_proxy", &url)]);
    assert_eq!(proxy.take(), [format!("CONNECT shop.test:443 HTTP/1.1 {basic}")]);
    assert!(done.err.contains("403") && !done.err.contains("p%40w"), "{}", done.err);
    // Loopback and what NO_PROXY names are asked directly.
    let here = format!("http://{}/", closed_port());
    run(&here, &[("HTTP_PROXY", &url)]);
    run("http://x.direct.invalid/", &[("HTTP_PROXY", &url), ("NO_PROXY", "direct.invalid")]);
    assert_eq!(proxy.take(), [""; 0]);
}

#[test]
fn a_plan_asks_through_the_proxies_of_the_environment_if_it_says_so() {
    let (room, proxy) = (Room::new(), Proxy::start());
    let plan = |defaults: &str| {
        format!(
            "target: http://shop.test\ndefaults: {{ {defaults} }}\nworkflows:\n  - name: w\n    load: {{ iterations: 2 }}\n    \
             steps: [ {{ get: /fixed }}, {{ get: '/x/${{vu.id}}' }} ]\n"
        )
    };
    room.write("p.yaml", &plan("proxy: environment"));
    let mut command = room.command(["run", "p.yaml", "-q"]);
    finish(command.env("HTTP_PROXY", proxy.url())).expect(0);
    let seen = proxy.take();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen[0].starts_with("GET http://shop.test/fixed HTTP/1.1 Basic "), "{seen:?}");
    // One that does not say so is not touched by it.
    room.write("p.yaml", &plan("timeout: 1s, hosts: { shop.test: 127.0.0.1:1 }"));
    let mut command = room.command(["run", "p.yaml", "-q"]);
    assert_ne!(finish(command.env("HTTP_PROXY", proxy.url())).code, 0);
    assert_eq!(proxy.take(), [""; 0]);
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_with_its_variable() {
    let room = Room::new();
    room.write("s.js", SCRIPT);
    let mut command = room.command(["run", "s.js", "-e", "URLS=http://shop.test/"]);
    let done = finish(command.env("HTTP_PROXY", "socks5://me:hidden@127.0.0.1:1")).expect(104);
    let said = format!("{}{}", done.out, done.err);
    assert!(said.contains("HTTP_PROXY") && said.contains("only http:// proxies"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
}

/// `openssl s_server` with a certificate as `openssl req -x509` makes it.
struct SelfSigned(Child);

impl Drop for SelfSigned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl SelfSigned {
    fn start(room: &Room, port: u16) -> Option<SelfSigned> {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"])
            .args(["/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout"])
            .args([room.path("key.pem"), "-out".into(), room.path("cert.pem")])
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            eprintln!("SKIPPED: openssl is not installed; `./test` installs it");
            return None;
        }
        let child = Command::new("openssl")
            .args(["s_server", "-quiet", "-www", "-accept", &format!("127.0.0.1:{port}")])
            .args(["-cert".into(), room.path("cert.pem"), "-key".into(), room.path("key.pem")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = SelfSigned(child);
        until("openssl listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }
}

#[test]
fn ssl_cert_file_and_the_plans_ca_are_trusted_as_curl_trusts_them() {
    let room = Room::new();
    let port = closed_port().port();
    let Some(_server) = SelfSigned::start(&room, port) else { return };
    let url = format!("https://localhost:{port}/");
    let ping = |variable: Option<(&str, &str)>| {
        let mut command = room.command(["ping", &url]);
        command.envs(variable);
        finish(&mut command)
    };
    let refused = ping(None).expect(99);
    assert!(!refused.err.contains("CaUsedAsEndEntity"), "{}", refused.err);
    let done = ping(Some(("SSL_CERT_FILE", "cert.pem"))).expect(0);
    assert!(done.out.contains("certificate for localhost"), "{}", done.out);
    ping(Some(("SSL_CERT_FILE", "absent.pem"))).expect(99).says("SSL_CERT_FILE=absent.pem");
    let plan = format!(
        "target: {url}\ndefaults: {{ tls: {{ ca: cert.pem }} }}\nworkflows:\n  - {{ name: w, load: {{ iterations: 1 }}, steps: [ {{ get: / }} ] }}\n"
    );
    room.write("p.yaml", &plan);
    room.volley(["run", "p.yaml", "-q"]).expect(0);
}
