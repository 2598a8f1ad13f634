//! What is said for each behaviour, as data: bytes, and what happens after them.

use std::net::SocketAddr;
use std::time::Duration;

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::behaviour::Behaviour;

const DRIP_EVERY: Duration = Duration::from_millis(50);
const HUGE_HEAD_BYTES: usize = 1 << 20;
const FLOW_BYTES: usize = 16 * 1024;
const BOMB_PIECE_BYTES: usize = 1 << 20;
const BOMB_PIECES: usize = 1024;

/// After the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    KeepAlive,
    Close,
    Reset,
    Hang,
}

#[derive(Debug)]
pub(super) enum Script {
    Say(Vec<u8>, Next),
    /// `first` at once, then byte by byte.
    Drip {
        first: Vec<u8>,
        then: Vec<u8>,
        every: Duration,
    },
    /// `first`, then `again` until the client goes away.
    Flow {
        first: Vec<u8>,
        again: Vec<u8>,
    },
}

impl Script {
    /// What to do about a request that is the `served`-th (from 0) of its connection.
    pub(super) fn of(behaviour: Behaviour, head: &str, served: usize, addr: SocketAddr) -> Script {
        use Behaviour as B;
        let port = addr.port();
        match behaviour {
            B::Refuse | B::CloseAtOnce => unreachable!("nothing is read there"),
            B::NeverAnswer => Script::Say(Vec::new(), Next::Hang),
            B::CloseMidHead => say("HTTP/1.1 200 OK\r\ncontent-len", Next::Close),
            B::CloseMidBody => Script::Say(short_body(), Next::Close),
            B::ResetMidBody => Script::Say(short_body(), Next::Reset),
            B::Garbage => Script::Say(garbage(), Next::Close),
            B::EndlessChunked
            | B::EndlessUntilClose
            | B::EndlessHeader
            | B::HugeHead
            | B::SlowDrip => Script::without_end(behaviour),
            B::WrongChunkSize => say(&chunked("5\r\nhello world\r\n0\r\n\r\n"), Next::KeepAlive),
            B::GarbageChunkSize => say(&chunked("zz\r\nhello\r\n0\r\n\r\n"), Next::KeepAlive),
            B::TwoContentLengths => {
                keep("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello!!")
            }
            B::NegativeContentLength => keep("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello"),
            B::Status99999 => keep("HTTP/1.1 99999 Odd\r\ncontent-length: 5\r\n\r\nhello"),
            B::CloseAfterEach => say(OK, Next::Close),
            B::CloseOnReuse if served == 0 => keep(OK),
            B::CloseOnReuse => say("", Next::Close),
            B::Interim => keep(&format!(
                "HTTP/1.1 100 Continue\r\n\r\n\
                 HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n{OK}"
            )),
            B::Http10 => say("HTTP/1.0 200 OK\r\nserver: old\r\n\r\nhello", Next::Close),
            B::BareLineFeed => keep("HTTP/1.1 200 OK\ncontent-length: 5\n\nhello"),
            B::GzipBomb => Script::Say(gzip_answer(&bomb()), Next::KeepAlive),
            B::BadGzip => {
                Script::Say(gzip_answer(b"\x1f\x8b\x08this is not gzip"), Next::KeepAlive)
            }
            B::RedirectLoop => keep(&redirect(&format!("http://{addr}/again"))),
            B::RedirectToScheme => keep(&redirect("ftp://127.0.0.1/file")),
            B::RedirectToHost if head.contains(" /landed ") => keep(OK),
            B::RedirectToHost => keep(&redirect(&format!("http://localhost:{port}/landed"))),
            B::NoContentWithLength => keep("HTTP/1.1 204 No Content\r\ncontent-length: 10\r\n\r\n"),
            B::NotModifiedWithLength => {
                keep("HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n")
            }
            B::HeadWithLength => {
                let body = if head.starts_with("HEAD ") { 0 } else { 1000 };
                Script::Say(promise(1000, body), Next::KeepAlive)
            }
        }
    }

    /// The answers that are long in time or in bytes.
    fn without_end(behaviour: Behaviour) -> Script {
        match behaviour {
            Behaviour::EndlessChunked => {
                let mut again = format!("{FLOW_BYTES:x}\r\n").into_bytes();
                again.resize(again.len() + FLOW_BYTES, b'x');
                again.extend_from_slice(b"\r\n");
                Script::Flow { first: chunked("").into_bytes(), again }
            }
            Behaviour::EndlessUntilClose => Script::Flow {
                first: b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(),
                again: vec![b'x'; FLOW_BYTES],
            },
            Behaviour::EndlessHeader => Script::Flow {
                first: b"HTTP/1.1 200 OK\r\n".to_vec(),
                again: filler_headers(FLOW_BYTES),
            },
            Behaviour::HugeHead => {
                let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n".to_vec();
                bytes.append(&mut filler_headers(HUGE_HEAD_BYTES));
                bytes.extend_from_slice(b"\r\nhello");
                Script::Say(bytes, Next::KeepAlive)
            }
            _ => Script::Drip {
                first: b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n".to_vec(),
                then: b"drip drip drip drip.".to_vec(),
                every: DRIP_EVERY,
            },
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

fn say(text: &str, next: Next) -> Script {
    Script::Say(text.as_bytes().to_vec(), next)
}

fn keep(text: &str) -> Script {
    say(text, Next::KeepAlive)
}

fn chunked(chunks: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

/// A head that promises one length and a body that has another.
fn promise(length: usize, sent: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + sent, b'x');
    bytes
}

fn short_body() -> Vec<u8> {
    promise(1000, 100)
}

/// Unprintable on purpose, and with line ends, so that it looks a little like a head.
fn garbage() -> Vec<u8> {
    (0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).chain(*b"\r\n\r\n").collect()
}

fn filler_headers(length: usize) -> Vec<u8> {
    b"x-filler: abcdefghijklmnopqrstuvwxyz0123456789\r\n".repeat(length.div_ceil(48))
}

fn gzip_answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// 1 GB of zeros in one correct gzip member of about 1 MB. One megabyte is packed and flushed, so
/// that its packed form depends on nothing before it; the rest is the same bytes again.
fn bomb() -> Vec<u8> {
    let zeros = vec![0; BOMB_PIECE_BYTES];
    let mut piece = Vec::with_capacity(16 * 1024);
    let mut compress = Compress::new(Compression::best(), false);
    let packed = compress.compress_vec(&zeros, &mut piece, FlushCompress::Full);
    packed.expect("packing memory into memory");
    assert_eq!(compress.total_in(), zeros.len() as u64, "the piece fits its buffer");

    let mut crc_piece = Crc::new();
    crc_piece.update(&zeros);
    let mut crc = Crc::new();
    let mut bytes = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    for _ in 0..BOMB_PIECES {
        bytes.extend_from_slice(&piece);
        crc.combine(&crc_piece);
    }
    // an empty last block, then the trailer
    bytes.extend_from_slice(&[0x03, 0x00]);
    bytes.extend_from_slice(&crc.sum().to_le_bytes());
    bytes.extend_from_slice(&((BOMB_PIECE_BYTES * BOMB_PIECES) as u32).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_bomb_is_small_packed_correct_and_large_unpacked() {
        let bomb = bomb();
        assert!(bomb.len() < 4 << 20, "{} bytes", bomb.len());
        let mut decoder = flate2::read::GzDecoder::new(&bomb[..]);
        let mut buffer = vec![1; 1 << 20];
        let mut length = 0u64;
        loop {
            match decoder.read(&mut buffer).expect("correct to the last checksum") {
                0 => break,
                read => length += read as u64,
            }
        }
        assert_eq!(length, 1 << 30);
    }
}
