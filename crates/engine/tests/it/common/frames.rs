//! An HTTP/2 server that counts requests as they come off the wire.
//!
//! Server libraries forget requests that arrive in one breath with the end of their connection.
//! This one reads frames until there are no more, answers each request with 200, and forgets
//! nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;
/// `:status: 200`, by its number in the static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;

pub struct Frames {
    pub addr: SocketAddr,
    requests: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
}

impl Frames {
    pub fn start() -> Frames {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (requests, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, connections) = (requests.clone(), open.clone());
        // Lives as long as the test's process, and does nothing when nobody asks.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, connections) = (count.clone(), connections.clone());
                connections.fetch_add(1, Relaxed);
                std::thread::spawn(move || {
                    serve(stream, &count);
                    connections.fetch_sub(1, Relaxed);
                });
            }
        });
        Frames { addr, requests, open }
    }

    /// Requests received, once all connections have come to their end.
    pub fn requests(&self) -> u64 {
        let open = super::eventually(|| self.open.load(Relaxed), |open| *open == 0);
        assert_eq!(open, 0, "the client has left connections open");
        self.requests.load(Relaxed)
    }
}

fn serve(mut stream: TcpStream, count: &AtomicU64) -> Option<()> {
    let _ = stream.set_nodelay(true);
    stream.read_exact(&mut [0; PREFACE_BYTES]).ok()?;
    // A client that has gone does not read answers; what it has sent is still here to be counted.
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).ok()?;
        let id = u32::from_be_bytes(id);
        match kind {
            HEADERS => {
                count.fetch_add(1, Relaxed);
                let answer = frame(HEADERS, END_STREAM_AND_HEADERS, id, &[STATUS_200]);
                let _ = stream.write_all(&answer);
            }
            SETTINGS if flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}
