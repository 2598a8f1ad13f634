//! A client of a few lines on a plain socket, so that nothing clever stands between test and
//! server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Client {
    pub fn to(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).expect("the server reads");
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, "", "")
    }

    /// `headers` are whole lines, each with its `\r\n`.
    pub fn request(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let length = match body.len() {
            0 => String::new(),
            length => format!("content-length: {length}\r\n"),
        };
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: t\r\n{headers}{length}\r\n{body}"));
        self.answer(method == "HEAD")
    }

    pub fn answer(&mut self, no_body: bool) -> Answer {
        let end = self.until(b"\r\n\r\n");
        let head = String::from_utf8(self.take(end)).expect("heads are text");
        let status = head[9..12].parse().expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        if no_body || matches!(status, 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let end = self.until(b"\r\n");
                let size = String::from_utf8(self.take(end)).unwrap();
                let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
                self.at_least(size + 2);
                answer.body.extend_from_slice(&self.take(size + 2)[..size]);
                if size == 0 {
                    return answer;
                }
            }
        }
        let length = answer.header("content-length").map_or(0, |n| n.parse().unwrap());
        self.at_least(length);
        answer.body = self.take(length);
        answer
    }

    /// Everything until the server closes, and whether it did so in order.
    pub fn rest(&mut self) -> (Vec<u8>, std::io::Result<()>) {
        let end = self.stream.read_to_end(&mut self.received).map(|_| ());
        (std::mem::take(&mut self.received), end)
    }

    pub fn at_least(&mut self, length: usize) {
        while self.received.len() < length {
            let mut buffer = [0; 64 * 1024];
            let read = self.stream.read(&mut buffer).expect("the server answers");
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&buffer[..read]);
        }
    }

    pub fn take(&mut self, length: usize) -> Vec<u8> {
        self.received.drain(..length).collect()
    }

    fn until(&mut self, mark: &[u8]) -> usize {
        loop {
            let found = self.received.windows(mark.len()).position(|part| part == mark);
            if let Some(at) = found {
                return at + mark.len();
            }
            self.at_least(self.received.len() + 1);
        }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}
