//! A server of a few lines that writes down every request and answers what the test says.
//!
//! Plain threads and sockets, so that a test can look at what really was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Instant,
    pub peer: SocketAddr,
    pub method: String,
    /// As on the request line: a path, or a whole URL for a proxy.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

type Answer = dyn Fn(&Seen) -> Vec<u8> + Send + Sync;

pub struct Recording {
    pub addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// `answer` makes the bytes of the whole answer; empty: the connection is closed without one.
    pub fn start(answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Recording {
        Recording::at("127.0.0.1:0", answer)
    }

    pub fn at(
        listen: &str,
        answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static,
    ) -> Recording {
        let listener = TcpListener::bind(listen).expect("a free port");
        let addr = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let answer: Arc<Answer> = Arc::new(answer);
        let (log, stopped) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (log, answer) = (log.clone(), answer.clone());
                // Ends with its connection, at the latest when the generator is gone.
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Recording { addr, seen, stop, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Everything received so far, in the order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|one| one.path).collect()
    }

    pub fn connections(&self) -> usize {
        let peers: std::collections::BTreeSet<_> = self.seen().iter().map(|one| one.peer).collect();
        peers.len()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect_timeout(&self.addr, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Seen>>, answer: &Answer) {
    let Ok(peer) = stream.peer_addr() else { return };
    let _ = stream.set_nodelay(true);
    while let Some(request) = read_request(&mut stream, peer) {
        log.lock().unwrap().push(request.clone());
        let bytes = answer(&request);
        if bytes.is_empty() || stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// The next request with its body by content-length; `None` at the end of the connection.
pub fn read_request(stream: &mut impl Read, peer: SocketAddr) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let at = Instant::now();
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut seen = Seen { at, peer, method, path, headers, body: Vec::new() };
    let length = seen.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    seen.body.resize(length, 0);
    stream.read_exact(&mut seen.body).ok()?;
    Some(seen)
}

/// 200 with this body.
pub fn ok(body: &str) -> Vec<u8> {
    respond("200 OK", "", body.as_bytes())
}

/// `headers` are whole lines, each with its `\r\n`.
pub fn respond(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

pub fn moved(status: u16, to: &str) -> Vec<u8> {
    respond(&format!("{status} Moved"), &format!("location: {to}\r\n"), b"")
}
