//! What a plain GET of a script costs over the client itself. Figures, not promises: run it in a
//! release build on a quiet machine.
//!
//! `cargo test --release -p script --test it http_speed -- --ignored --nocapture`

use base::clock;
use std::io::{Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::{Rig, call, on_core};
use client::{Client, Keep, OriginTable, Outgoing, Progress, Response, Settings, parse_url};

const CALLS: u32 = 10_000;
/// The quickest counts: whatever else the machine does can only slow a round down.
const ROUNDS: u32 = 8;

/// Answers every read with the same bytes: costs as little as a server can.
fn server() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut buffer = [0; 4096];
                let answer =
                    b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: Mon, 16 Nov 2026 04:00:00 GMT\r\n\
                    Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(what: &str, rounds: &[(Duration, Duration)]) {
    let each = |time: Duration| time.as_nanos() as f64 / f64::from(CALLS) / 1e3;
    let cpu = rounds.iter().map(|(cpu, _)| *cpu).min().unwrap_or_default();
    let wall = rounds.iter().map(|(_, wall)| *wall).min().unwrap_or_default();
    println!(
        "{what:34} {:8.0} calls/s  {:6.2} us of CPU each",
        f64::from(CALLS) / wall.as_secs_f64(),
        each(cpu)
    );
}

fn script(what: &str, body: &str) {
    let code = format!(
        "import http from 'k6/http';\nimport {{ check }} from 'k6';\nconst url = 'http://{}/';\n\
         export default function () {{ for (let i = 0; i < {CALLS}; i++) {{ {body} }} }}",
        server()
    );
    let rig = Rig::new(&code, &[]);
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let (begun, before) = (Instant::now(), cpu());
            call(&vu, "default").await.unwrap();
            rounds.push((cpu() - before, begun.elapsed()));
        }
        report(what, &rounds);
    });
}

#[test]
#[ignore = "a measurement"]
fn plain_gets() {
    on_core(async {
        let origins = Rc::new(OriginTable::new(&plan::HttpOptions::default(), None));
        let url = parse_url(None, &format!("http://{}/", server())).unwrap();
        let origin = origins.intern(&url).unwrap();
        let http = plan::HttpOptions::default();
        let settings = Settings {
            http,
            tls: Default::default(),
            origins,
            send_control: permit::SendControl::free(),
        };
        let client = Client::new(Rc::new(settings), None);
        let deadlines = Rc::new(client::Deadlines::default());
        let (deadline, progress) = (deadlines.slot(), Progress::default());
        let mut response = Response::default();
        let wire = format!("GET / HTTP/1.1\r\nhost: {}\r\nuser-agent: x\r\n\r\n", origin.authority);
        let keep = Keep { body: true, ..Keep::default() };
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let (begun, before) = (Instant::now(), cpu());
            for _ in 0..CALLS {
                deadline.arm(clock::now().after(Duration::from_secs(60)));
                response.clear();
                progress.reset();
                let out = Outgoing {
                    origin: &origin,
                    wire: wire.as_bytes(),
                    body_at: wire.len(),
                    head_only: false,
                    idempotent: true,
                    keep,
                };
                client.exchange(out, &deadline, &mut response, &progress).await.unwrap();
            }
            rounds.push((cpu() - before, begun.elapsed()));
        }
        report("the client alone", &rounds);
    });
    script("http.get(url)", "http.get(url);");
    script("... and r.status, r.body", "const r = http.get(url); r.status === 200 && r.body;");
    script(
        "... and check() of both",
        "check(http.get(url), { a: r => r.status === 200, b: r => r.body === 'Hello, world!' });",
    );
    script("http.get(url, { tags })", "http.get(url, { tags: { name: 'x' } });");
    script(
        "http.post(url, json, { headers })",
        "http.post(url, '{}', { headers: { 'Content-Type': 'application/json' } });",
    );
    script("JSON.stringify(r)", "JSON.stringify(http.get(url));");
}
