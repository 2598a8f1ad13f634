//! After the end of a lease not one request goes out, whatever the attempt is doing (R4).

use base::clock;
use permit::{IssuedFile, PermitState, SendPermit};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::attempt::{Ending, ShardControl, ShardSpec};

use super::{Led, load};
use crate::common::{eventually, plan, plan_with, target, url};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// R4: the attempt ends by itself, and the target has seen nothing after the lease's end.
#[test]
fn a_lapsed_lease_ends_the_attempt_and_nothing_is_sent_after_it() {
    for (defaults, load_text, steps) in [
        ("", "vus: 4, duration: 60s", "{ get: / }"),
        ("", "rate: 500/s, duration: 60s, max_vus: 50", "{ get: / }"),
        ("version: 2", "vus: 4, duration: 60s", "{ get: / }"),
        ("keep_alive: false", "vus: 4, duration: 60s", "{ get: / }"),
        ("", "vus: 4, duration: 60s", "{ post: /echo, body: hello }, { get: /redirect/2 }"),
        ("", "vus: 4, duration: 60s, graceful_stop: 30s", "{ get: /delay/5000 }"),
    ] {
        let target = target();
        let text = plan_with(defaults, load_text, steps);
        let permit = SendPermit::leased();
        let spec = ShardSpec::new(0, 0, 1);
        let loaded = load(&text, &url(&target), Path::new("."));
        let led = Led::with(&loaded, spec, permit.clone(), None).ready();
        let until = clock::now().after(ms(400));
        permit.extend(until, clock::now());
        led.run.start_at(clock::now());
        let whole = led.finish();
        let late = clock::now().nanos_since(until);
        assert_eq!(whole.how, Ending::LeaseLapsed, "{text}");
        assert!(late < 2_000_000_000, "it ends soon after: {} ms late", late / 1_000_000);
        let total = whole.total();
        assert!(total.sent > 0, "{text}");
        assert_eq!(total.failed, 0, "what was not sent is no failure: {text}");
        assert_eq!(total.requests, total.completed + total.interrupted + total.retried, "{text}");
        assert_eq!(
            total.requests, total.sent,
            "what the permit has kept back is no request: {text}"
        );
        // Everything that was sent was sent before: the target's count stands still from here on.
        let seen = eventually(|| target.counts().total, |seen| *seen >= total.sent);
        assert_eq!(seen, total.sent, "{text}");
        std::thread::sleep(ms(150));
        assert_eq!(target.counts().total, seen, "{text}");
        assert_eq!(
            permit.extend(clock::now().after(ms(60_000)), clock::now()),
            PermitState::Lapsed
        );
    }
}

/// Renewals keep it open, and one that comes too late does not open it again.
#[test]
fn renewals_keep_an_attempt_alive() {
    let target = target();
    let permit = SendPermit::leased();
    let text = plan("vus: 2, duration: 900ms", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), permit.clone(), None).ready();
    permit.extend(clock::now().after(ms(400)), clock::now());
    led.run.start_at(clock::now());
    for _ in 0..12 {
        std::thread::sleep(ms(75));
        permit.extend(clock::now().after(ms(400)), clock::now());
    }
    let whole = led.finish().completed();
    assert!(whole.iterations().iterations > 0);
    assert!(
        permit.standing(clock::now()).is_final(),
        "an attempt that has ended sends nothing more"
    );
}

/// Nothing leaves before the first grant, not even a connection.
#[test]
fn without_a_grant_nothing_is_sent() {
    let target = target();
    let permit = SendPermit::leased();
    let text = plan_with("warm: true", "vus: 3, iterations: 9", "{ get: / }");
    let loaded = load(&text, &url(&target), Path::new("."));
    let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), permit.clone(), None).ready();
    led.run.start_at(clock::now());
    std::thread::sleep(ms(300));
    assert_eq!((target.counts().total, target.counts().connections), (0, 0));
    led.run.kill(ms(5_000));
    let whole = led.finish();
    assert_eq!(whole.how, Ending::Killed);
    assert_eq!(target.counts().connections, 0);
}

/// A large body that is under way when the lease ends is not sent to its end.
#[test]
fn the_rest_of_a_request_is_a_send_like_any_other() {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("big"), vec![b'x'; 64 << 20]).unwrap();
    let permit = SendPermit::leased();
    let text = plan("vus: 1, iterations: 1", "{ post: /, file: big }");
    let loaded = load(&text, &format!("http://{address}"), folder.path());
    let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), permit.clone(), None).ready();
    permit.extend(clock::now().after(ms(400)), clock::now());
    led.run.start_at(clock::now());
    let (mut stream, _) = listener.accept().unwrap();
    // The server reads nothing until the lease is over, so the generator has to wait for room.
    std::thread::sleep(ms(600));
    let whole = led.finish();
    assert_eq!(whole.how, Ending::LeaseLapsed);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert!(all.len() < 32 << 20, "{} bytes came after the end", all.len());
    assert_eq!((whole.total().interrupted, whole.total().sent), (1, 1));
}

const CHILD: &str = "VOLLEY_TEST_STOPPED_CHILD";

/// R4: a process that stood still across the end of its lease sends at most what it had checked
/// before.
#[test]
fn a_process_that_was_stopped_across_the_end_sends_nothing() {
    if let Ok(text) = std::env::var(CHILD) {
        return child(&text);
    }
    let target = target();
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("issued");
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "attempts::permits::a_process_that_was_stopped_across_the_end_sends_nothing",
        ])
        .env(CHILD, format!("{} {}", url(&target), counts.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = process.id() as libc::pid_t;
    let signal = |number| assert_eq!(unsafe { libc::kill(pid, number) }, 0);
    eventually(|| target.counts().total, |seen| *seen > 50);
    signal(libc::SIGSTOP);
    std::thread::sleep(ms(200));
    let before = target.counts().total;
    assert!(before > 50, "it was sending");
    // The child's lease is of 1.5 s at most.
    std::thread::sleep(ms(1_800));
    signal(libc::SIGCONT);
    let begun = Instant::now();
    let status = process.wait().unwrap();
    assert!(status.success(), "it says that its lease has lapsed: {status}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let after = target.counts().total;
    assert!(after <= before + 1, "{before} before, {after} after");
    // What it issued was written down where its death could not reach.
    let (identity, issued) = IssuedFile::read(&counts).unwrap();
    assert_eq!(identity, b"child");
    assert!(issued.issued >= after && issued.issued >= issued.sent, "{issued:?} {after}");
}

/// One attempt under a lease that nobody renews.
fn child(text: &str) {
    let (target, counts) = text.split_once(' ').unwrap();
    let loaded = load(&plan("vus: 8, duration: 60s", "{ get: / }"), target, Path::new("."));
    let file = Arc::new(IssuedFile::create(Path::new(counts), b"child").unwrap());
    let permit = SendPermit::leased();
    let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), permit.clone(), Some(file)).ready();
    permit.extend(clock::now().after(ms(1_500)), clock::now());
    led.run.start_at(clock::now());
    assert_eq!(led.finish().how, Ending::LeaseLapsed);
}
