//! The hard stop is bounded, and what was issued is known after a death (R4, R17).

use base::clock;
use permit::{IssuedFile, PermitState};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::attempt::{Ending, LoadOptions, Loaded, Report, ShardControl, ShardSpec, Stop};

use super::loading::script;
use super::{Led, load, open_permit};
use crate::common::{eventually, plan, target, url};

const GRACE: Duration = Duration::from_secs(10);

#[test]
fn a_stuck_request_does_not_outlive_the_kill() {
    let target = target();
    let text = plan("vus: 3, duration: 60s, graceful_stop: 60s", "{ get: /delay/60000 }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 1));
    let led = led.ready();
    led.run.start_at(clock::now());
    eventually(|| target.counts().total, |seen| *seen == 3);
    let begun = Instant::now();
    led.run.kill(GRACE);
    let whole = led.finish();
    assert_eq!(whole.how, Ending::Killed);
    assert!(begun.elapsed() < GRACE);
    assert_eq!((whole.total().sent, whole.total().interrupted), (3, 3), "and it is counted");
}

/// A script in an endless loop, in an iteration and in its init code.
#[test]
fn an_endless_script_does_not_outlive_the_kill() {
    let target = target();
    for code in [
        "import http from 'k6/http'; export default () => { http.get('TARGET/'); while (true) {} }",
        "let n = 0; export default () => { for (;;) { n += Math.sqrt(n + 1) } }",
        "if (__VU > 0) { for (;;) {} } export default () => {}",
    ] {
        let code = code.replace("TARGET", &url(&target));
        let options = r#"{ "vus": 2, "duration": "60s" }"#;
        let loaded = script(&code, options, LoadOptions::default());
        let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1));
        if code.contains("__VU") {
            std::thread::sleep(Duration::from_millis(300));
        } else {
            assert!(matches!(led.next(), Report::Ready));
            led.run.start_at(clock::now());
            std::thread::sleep(Duration::from_millis(500));
        }
        let begun = Instant::now();
        led.run.kill(GRACE);
        let (permit, whole) = (led.permit.clone(), led.finish());
        assert_eq!(whole.how, Ending::Killed, "{code}");
        assert!(begun.elapsed() < GRACE, "{code}: {:?}", begun.elapsed());
        assert_eq!(permit.standing(clock::now()), PermitState::Closed);
    }
}

/// A thread that hangs in native code is left to itself; it cannot send any more.
#[test]
fn a_thread_that_does_not_end_is_abandoned_and_shut_out() {
    let target = target();
    let hang = Arc::new(AtomicBool::new(true));
    let hanging = hang.clone();
    let options = LoadOptions {
        // `console.log` is native code here, and this one takes its time.
        logger: Arc::new(move |_| {
            while hanging.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }),
        ..LoadOptions::default()
    };
    let code = "import http from 'k6/http';
        export default () => { http.get('TARGET/'); console.log('x'); http.get('TARGET/'); }";
    let code = code.replace("TARGET", &url(&target));
    let loaded = script(&code, r#"{ "vus": 1, "iterations": 5 }"#, options);
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.start_at(clock::now());
    eventually(|| target.counts().total, |seen| *seen == 1);
    led.run.kill(Duration::from_millis(300));
    let Report::Ended(ended) = led.next() else { panic!("the end is told") };
    assert_eq!(ended.how, Ending::Abandoned);
    assert!(ended.last.is_none() && !led.run.is_finished());
    // It wakes up and wants to go on.
    hang.store(false, Ordering::Relaxed);
    let finished = eventually(|| led.run.is_finished(), |finished| *finished);
    assert!(finished, "what was left to itself ends when it can");
    assert_eq!(target.counts().total, 1, "and has sent nothing more");
    assert!(led.reports.try_recv().is_err(), "nothing is told after the end");
}

#[test]
fn an_attempt_that_is_dropped_ends() {
    let target = target();
    let text = plan("vus: 3, duration: 60s", "{ get: / }");
    let led = Led::prepare(&load(&text, &url(&target), Path::new(".")), ShardSpec::new(0, 0, 1));
    let led = led.ready();
    led.run.start_at(clock::now());
    eventually(|| target.counts().total, |seen| *seen > 10);
    let Led { run, reports, permit, .. } = led;
    drop(run);
    assert_eq!(permit.standing(clock::now()), PermitState::Closed);
    let end = std::iter::from_fn(|| reports.recv_timeout(GRACE).ok());
    let how = end.filter_map(|report| match report {
        Report::Ended(ended) => Some(ended.how),
        _ => None,
    });
    assert_eq!(how.collect::<Vec<_>>(), [Ending::Killed]);
}

/// What the script itself asks of the whole job reaches whoever leads it.
#[test]
fn a_script_that_aborts_says_so() {
    let code = "import exec from 'k6/execution'; export default () => exec.test.abort('enough')";
    let loaded = script(code, r#"{ "vus": 1, "duration": "60s" }"#, LoadOptions::default());
    let led = Led::prepare(&loaded, ShardSpec::new(0, 0, 1)).ready();
    led.run.start_at(clock::now());
    let Report::Wish(wish) = led.next() else { panic!("a wish comes first") };
    assert!(format!("{wish:?}").contains("enough"));
    led.run.stop(Stop::Now);
    assert_eq!(led.finish().how, Ending::Stopped);
}

const CHILD: &str = "VOLLEY_TEST_KILLED_CHILD";

/// R17: after `kill -9`, reported <= seen by the target <= issued, and the gap is what was under
/// way.
#[test]
fn issued_counts_outlive_a_kill() {
    if let Ok(text) = std::env::var(CHILD) {
        return child(&text);
    }
    for round in 0..3 {
        let target = target();
        let folder = tempfile::tempdir().unwrap();
        let counts = folder.path().join("issued");
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attempts::killing::issued_counts_outlive_a_kill"])
            .env(CHILD, format!("{} {}", url(&target), counts.display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually(|| target.counts().total, |seen| *seen > 100 + round * 61);
        process.kill().unwrap();
        process.wait().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let seen = target.counts().total;
        let (_, issued) = IssuedFile::read(&counts).unwrap();
        assert!(issued.sent <= seen && seen <= issued.issued, "{issued:?}, seen {seen}");
        assert!(issued.issued - issued.sent <= 6, "at most one of each user: {issued:?}");
        assert!(issued.taken >= issued.sent, "{issued:?}");
    }
}

fn child(text: &str) {
    let (target, counts) = text.split_once(' ').unwrap();
    let loaded = load(&plan("vus: 6, duration: 60s", "{ get: / }"), target, Path::new("."));
    let file = Arc::new(IssuedFile::create(Path::new(counts), b"killed").unwrap());
    let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), open_permit(), Some(file)).ready();
    led.run.start_at(clock::now());
    led.finish();
}

/// Without a kill the counts agree to the request, setup, redirects and interrupted ones included.
#[test]
fn issued_counts_equal_what_was_sent() {
    let target = target();
    let folder = tempfile::tempdir().unwrap();
    for version in ["1.1", "2"] {
        let before = target.counts().total;
        let path = folder.path().join(version);
        let text = format!(
            "target: TARGET\ndefaults: {{ version: {version} }}\nworkflows: [ {{ name: w, \
             load: {{ vus: 3, duration: 400ms, graceful_stop: 0s }}, vu_setup: [ {{ get: /bytes/1 }} ], \
             steps: [ {{ get: /redirect/2 }}, {{ post: /, body: x }}, {{ get: /delay/30 }} ] }} ]\n"
        );
        let loaded: Arc<Loaded> = load(&text, &url(&target), Path::new("."));
        let file = Arc::new(IssuedFile::create(&path, b"").unwrap());
        let led = Led::with(&loaded, ShardSpec::new(0, 0, 1), open_permit(), Some(file)).ready();
        led.run.start_at(clock::now());
        let whole = led.finish().completed();
        let sent = whole.total().sent;
        let issued = IssuedFile::read(&path).unwrap().1;
        assert_eq!((issued.sent, issued.issued), (sent, sent), "{version}");
        assert_eq!(whole.last.as_ref().unwrap().issued, Some(issued));
        let seen = eventually(|| target.counts().total - before, |seen| *seen >= sent);
        assert_eq!(seen, sent, "{version}");
    }
}
