//! `volley run --web`: a page that lives as long as the run, and a browser that keeps its report.

mod browser;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{PATIENCE, Room, Target, plan, until};
use browser::Browser;

/// A run with a page.
struct Shown {
    child: Child,
    host: String,
    link: String,
}

impl Shown {
    fn start(room: &Room, args: &[&str]) -> Shown {
        let err = room.path("err");
        let mut command = room.command([&["run"], args, &["--web=0", "--view", "none"]].concat());
        command.stdout(Stdio::null()).stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        let mut link = String::new();
        until("the link is printed", || {
            let text = std::fs::read_to_string(&err).unwrap();
            let words = text.split_whitespace();
            link = words.filter(|word| word.contains("#token=")).collect();
            !link.is_empty()
        });
        let host = link["http://".len()..].split('/').next().unwrap().to_owned();
        Shown { child, host, link }
    }

    fn ask(&self, what: &str, headers: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (host, length) = (&self.host, body.len());
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\n\
             {headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// The cookie that the token is exchanged for.
    fn log_in(&self) -> String {
        let token = self.link.split_once("#token=").unwrap().1;
        let mut answer = String::new();
        let body = format!("{{\"token\":\"{token}\"}}");
        self.ask("POST /login", "", &body).read_to_string(&mut answer).unwrap();
        let line = answer.lines().find(|line| line.starts_with("set-cookie: ")).expect(&answer);
        line["set-cookie: ".len()..].split(';').next().unwrap().to_owned()
    }

    fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn setting(load: &str) -> (Room, Target) {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), load));
    (room, target)
}

#[test]
fn pages_get_the_report_and_the_command_does_not_wait_for_them() {
    let (room, target) = setting("rate: 50/s, duration: 3s");
    let shown = Shown::start(&room, &["plan.yaml"]);
    let cookie = shown.log_in();
    let head = "GET /api/run/run/events";
    let open = || {
        let mut stream = TcpStream::connect(&shown.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = &shown.host;
        let request = format!("{head} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // One of them never reads.
    let _silent = open();
    let pages: Vec<_> = (0..3)
        .map(|_| {
            let reader = BufReader::new(open());
            std::thread::spawn(move || {
                let (mut updates, mut last, mut ended) = (0, String::new(), None);
                for line in reader.lines().map_while(Result::ok) {
                    updates += usize::from(line == "event: update");
                    if line == "event: end" {
                        ended = Some(Instant::now());
                    } else if ended.is_some() && line.starts_with("data: ") {
                        last = line["data: ".len()..].to_owned();
                        break;
                    }
                }
                (updates, last, ended.expect("the end is told"))
            })
        })
        .collect();
    assert_eq!(shown.wait(), 0);
    let over = Instant::now();
    for page in pages {
        let (updates, data, ended) = page.join().unwrap();
        assert!(updates >= 1, "it was shown while it ran");
        let data: Value = serde_json::from_str(&data).unwrap();
        let record = report::html::record_of(data["report"].as_str().unwrap()).unwrap();
        assert_eq!(record["summary"]["requests"]["count"], target.total());
        let wait = over.saturating_duration_since(ended);
        assert!(wait < Duration::from_secs(1), "the command waited {wait:?}");
    }
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_ends_the_command_before_any_load() {
    let (room, target) = setting("vus: 1, iterations: 3");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("--web={}", taken.local_addr().unwrap());
    room.volley(["run", "plan.yaml", &address]).expect(104).says("is in use");
    let port = format!("--web={}", taken.local_addr().unwrap().port());
    room.volley(["run", "plan.yaml", &port]).expect(104).says("is in use");
    room.volley(["run", "plan.yaml", "--web=0.0.0.0:0"]).expect(104).says("ssh -L");
    room.volley(["run", "plan.yaml", "--open"]).expect(2).says("--web");
    assert_eq!(target.total(), 0);
    room.volley(["run", "plan.yaml", "--web"]).expect(0).says("is shown at http://127.0.0.1:76");
}

#[test]
fn a_page_can_steer_its_run_and_nobody_else_can() {
    let (room, _target) = setting("vus: 1, duration: 60s");
    let shown = Shown::start(&room, &["plan.yaml"]);
    let cookie = shown.log_in();
    let steer = |headers: &str| {
        let mut answer = String::new();
        let body = "{\"do\":\"stop\"}";
        let mut reader = shown.ask("POST /api/run/run/steer", headers, body);
        reader.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(steer("").starts_with("HTTP/1.1 401"));
    assert!(
        steer(&format!("Cookie: {cookie}\r\nSec-Fetch-Site: cross-site\r\n"))
            .starts_with("HTTP/1.1 403")
    );
    assert!(steer(&format!("Cookie: {cookie}\r\n")).contains("stopping"));
    assert_eq!(shown.wait(), 103, "as `volley ctl stop` does");
}

const HOSTILE: &str = "
name: \"</script><img src=x onerror=document.title='pwned'>\"
target: TARGET
workflows:
  - name: main
    load: { executor: ramping-arrival-rate, start_rate: 20/s, stages: [ { to: 40/s, over: 2s }, { to: 40/s, over: 4s } ] }
    steps:
      - { name: home, get: / }
      - { name: \"<img src=x onerror=document.title='pwned'>\", get: /nothing-there }
thresholds: [ { metric: latency, hold: p(99) < 10s }, { metric: http_req_failed, hold: rate < 90% } ]
";

/// Everything that a browser is needed for, in one session: to start one takes seconds.
#[test]
fn a_browser_shows_the_run_zooms_loses_nothing_and_keeps_the_report() {
    let Some(browser) = Browser::start() else {
        eprintln!("skipped: chromium or chromedriver is not installed");
        return;
    };
    let (room, target) = (Room::new(), Target::with(&["--latency", "2ms"]));
    room.write("plan.yaml", &HOSTILE.replace("TARGET", &target.url()));
    let shown = Shown::start(&room, &["plan.yaml", "--summary", "s.json"]);
    browser.open(&shown.link);
    let updates = || browser.number("return Number(document.documentElement.dataset.updates ?? 0)");
    until("the page has news", || updates() >= 2.0);
    let address = browser.text("return location.href");
    assert!(!address.contains("token"), "{address}");
    assert_eq!(
        browser.text("return document.querySelector('.badge').textContent.trim()"),
        "● Running"
    );

    // A reload begins with everything, too.
    browser.open(&format!("http://{}/", shown.host));
    until("the page has news again", || updates() >= 1.0);
    let charts = || browser.number("return document.querySelectorAll('.u-wrap').length");
    until("the charts are drawn", || charts() >= 5.0);

    assert_eq!(shown.wait(), 0);
    until("the page has the report", || {
        browser.text("return document.documentElement.dataset.ended ?? ''") == "yes"
    });
    let summary = room.json("s.json");
    let requests = summary["requests"]["count"].as_u64().unwrap();
    assert_eq!(requests, target.total());
    let card = "return document.querySelector('.card .value').textContent";
    assert_eq!(browser.text(card), report::format::count(requests));
    let row = "return document.querySelector('#steps tbody tr td').textContent";
    let home = summary["steps"]["home"]["requests"]["count"].as_u64().unwrap();
    assert_eq!(browser.text(row), report::format::count(home));

    // Numbers obey the zoom, and a step opens.
    browser.run("location.hash = 'from=0&to=2'");
    until("the table has fewer", || browser.text(row) != report::format::count(home));
    browser.run("location.hash = ''");
    until("the table has all", || browser.text(row) == report::format::count(home));
    browser.run("document.querySelectorAll('#steps tbody button')[1].click()");
    until("the step is open", || {
        browser
            .text("return document.querySelector('#steps .detail')?.textContent ?? ''")
            .contains("404")
    });

    // The saved report is that of the command line.
    browser.run(
        "window.kept = []; URL.createObjectURL = (blob) => { blob.text().then((text) => kept.push(text)); return '#'; }; \
         [...document.querySelectorAll('button')].find((one) => one.textContent === 'Save the report').click()",
    );
    until("the report is saved", || browser.number("return kept.length") == 1.0);
    let record = report::html::record_of(&browser.text("return kept[0]")).unwrap();
    assert_eq!(record["summary"]["requests"], summary["requests"]);

    assert_ne!(browser.text("return document.title"), "pwned");
    assert_eq!(browser.number("return document.querySelectorAll('img').length"), 0.0);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}
