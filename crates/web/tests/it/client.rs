//! A server with a made-up run, and the smallest browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use report::{About, Record};
use serde_json::Value;
use stats::history::{History, TickFacts};
use stats::{Progress, ProgressSink, RunResult, RunState, Window};
use web::{Listen, LiveRun, Options, Server, Site, THE_RUN, Wish};

use crate::fake;

pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Served {
    pub server: Server,
    pub live: Arc<LiveRun>,
    pub asked: Arc<Mutex<Vec<Wish>>>,
    pub address: SocketAddr,
    pub cookie: String,
}

pub fn any_port() -> Options {
    Options { listen: Listen::At(SocketAddr::from(([127, 0, 0, 1], 0))), hosts: Vec::new() }
}

/// A server that this browser is logged in at.
pub fn serve() -> Served {
    let asked: Arc<Mutex<Vec<Wish>>> = Arc::default();
    let wishes = asked.clone();
    let steer = Box::new(move |wish| {
        wishes.lock().unwrap().push(wish);
        let answer =
            if wish == Wish::Resume { Err("not paused".into()) } else { Ok("done".into()) };
        Box::pin(async move { answer }) as web::Answer<String>
    });
    let live = LiveRun::new(About { version: "0.0.0".into(), ..About::default() }, steer);
    let server = Server::start(&any_port(), live.clone()).unwrap();
    let address = server.address();
    let token = server.link().split_once("#token=").unwrap().1.to_owned();
    let answer = post(address, "/login", "", &format!("{{\"token\":\"{token}\"}}"));
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    Served { server, live, asked, address, cookie }
}

impl Served {
    /// Hands a progress over as a run does, and waits until it is shown.
    pub fn show(&self, progress: Progress) {
        self.live.take(progress);
        let board = self.live.board(THE_RUN).unwrap();
        let until = Instant::now() + PATIENCE;
        while board.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn finish(&self, result: &RunResult) {
        self.live.finish(&Record::new(result, &About::default()));
    }

    pub fn get(&self, path: &str) -> Answer {
        get(self.address, path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// Opens the stream; `seen`: the id of the last event.
    pub fn events(&self, seen: Option<&str>) -> Events {
        let seen = seen.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        Events::open(self.address, &format!("Cookie: {}\r\n{seen}", self.cookie))
    }
}

/// A run of so many seconds; second `n` has `n + 1` requests of the first step.
pub fn seconds(count: u64) -> Progress {
    let mut result = fake::good();
    let layout = result.layout.clone();
    let mut history = History::new(&layout, None);
    for second in 0..count {
        let mut window = Window::new(&layout);
        let step = &mut window.block(&layout, 0).steps[0];
        for _ in 0..=second {
            step.requests += 1;
            step.latency.record_ns(1_000_000 * (1 + second % 50));
        }
        let facts = TickFacts {
            at_ns: (second + 1) * 1_000_000_000,
            over_ns: 1_000_000_000,
            vus: second,
            ..TickFacts::default()
        };
        history.close_tick(&layout, &window, None, facts);
    }
    result.history = history;
    result.elapsed = Duration::from_secs(count);
    let planned = Some(Duration::from_secs(600));
    Progress { state: RunState::Running, planned, result }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    let host =
        if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    raw(address, &format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n"))
}

/// As the page itself would, unless `headers` says otherwise.
pub fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> Answer {
    let mut all = headers.to_owned();
    for (name, value) in [
        ("Host", address.to_string()),
        ("Origin", format!("http://{address}")),
        ("Content-Type", "application/json".to_owned()),
    ] {
        if !headers.contains(&format!("{name}:")) {
            all += &format!("{name}: {value}\r\n");
        }
    }
    let length = body.len();
    raw(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\n{all}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
    )
}

pub fn raw(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// An open stream of events.
pub struct Events {
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Events {
    pub fn open(address: SocketAddr, headers: &str) -> Events {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET /api/run/run/events HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        Events { reader }
    }

    /// `None`: the server has ended it.
    pub fn next(&mut self) -> Option<Event> {
        let mut event = Event { name: String::new(), id: None, data: Value::Null };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                event.id = Some(id.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                event.data = serde_json::from_str(data).unwrap();
                return Some(event);
            }
        }
    }

    /// Events up to the next one that has an id.
    pub fn step(&mut self) -> (Vec<Event>, String) {
        let mut events = Vec::new();
        loop {
            let event = self.next().expect("the stream goes on");
            let id = event.id.clone();
            events.push(event);
            if let Some(id) = id {
                return (events, id);
            }
        }
    }
}
