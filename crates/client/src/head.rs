//! The head of an HTTP/1.1 answer: what its status is, and where its body ends.
//!
//! Nearly every head has one plain form: `HTTP/1.1 200 OK`, lines of `name: value`, CRLF all over.
//! Such a head is cut into lines by vector searches, at a fifth of the cost of a full parser.
//! Whatever looks different in any way is left to `httparse`, whose judgement counts.

use std::mem::MaybeUninit;

use stats::ErrorKind;

use super::Failure;
use super::chunked::Chunked;
use super::h1::Wanted;
use super::response::Response;

const HEADERS_MAX: usize = 128;
/// Headers that the plain form may have.
const PLAIN_HEADERS_MAX: usize = 32;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head, the empty line included.
    pub length: usize,
    pub framing: Framing,
    pub keep_alive: bool,
}

/// `None`: the rest of the head has not come yet.
pub fn parse_head(
    bytes: &[u8],
    wanted: Wanted,
    response: &mut Response,
) -> Result<Option<Head>, Failure> {
    let mut lines = [(0, 0, 0); PLAIN_HEADERS_MAX];
    if let Some(plain) = scan(bytes, &mut lines) {
        let headers = lines[..plain.headers]
            .iter()
            .map(|&(start, colon, end)| (&bytes[start..colon], bytes[colon + 1..end].trim_ascii()));
        let head = digest(plain.length, plain.status, plain.minor, headers, wanted, response)?;
        return Ok(Some(kept(head, bytes, response)));
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let status = config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut headers);
    let length = match status {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(protocol(format!("answer is not HTTP/1.1: {error}"))),
    };
    let (status, minor) = (parsed.code.unwrap_or(0), parsed.version.unwrap_or(0));
    let headers = parsed.headers.iter().map(|header| (header.name.as_bytes(), header.value));
    let head = digest(length, status, minor, headers, wanted, response)?;
    Ok(Some(kept(head, bytes, response)))
}

fn kept(head: Head, bytes: &[u8], response: &mut Response) -> Head {
    if response.keep_head {
        response.head.extend_from_slice(&bytes[..head.length]);
    }
    head
}

struct Plain {
    length: usize,
    status: u16,
    minor: u8,
    headers: usize,
}

/// Cuts a plain head into (start, colon, end) of its lines; `None` for anything else.
fn scan(bytes: &[u8], lines: &mut [(usize, usize, usize); PLAIN_HEADERS_MAX]) -> Option<Plain> {
    let first = bytes.get(..13)?;
    let minor = match &first[..9] {
        b"HTTP/1.1 " => 1,
        b"HTTP/1.0 " => 0,
        _ => return None,
    };
    let digit = |at: usize| first[at].is_ascii_digit().then(|| u16::from(first[at] - b'0'));
    let status = digit(9)? * 100 + digit(10)? * 10 + digit(11)?;
    if first[12] != b' ' && first[12] != b'\r' {
        return None;
    }
    let mut at = line_end(bytes, 12)?;
    let mut headers = 0;
    while bytes.get(at..at + 2)? != b"\r\n" {
        let next = line_end(bytes, at)?;
        let end = next - 2;
        let colon = at + memchr::memchr(b':', &bytes[at..end])?;
        // A name is one word; a line that begins with a space continues the one above.
        if colon == at || memchr::memchr(b' ', &bytes[at..colon]).is_some() {
            return None;
        }
        *lines.get_mut(headers)? = (at, colon, end);
        headers += 1;
        at = next;
    }
    let length = at + 2;
    // The line ends are all the control characters there are: two for each line and the last.
    let control = bytes[..length].iter().filter(|&&byte| byte < 0x20 || byte == 0x7f).count();
    (control == 2 * (headers + 2)).then_some(Plain { length, status, minor, headers })
}

/// Where the line after the one at `from` begins; `None` unless it ends with CRLF.
fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let end = from + memchr::memchr(b'\n', &bytes[from..])?;
    (end > from && bytes[end - 1] == b'\r').then_some(end + 1)
}

/// Draws the conclusions from a head.
fn digest<'h>(
    length: usize,
    status: u16,
    minor: u8,
    headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    wanted: Wanted,
    response: &mut Response,
) -> Result<Head, Failure> {
    response.status = status;
    let mut keep_alive = minor == 1;
    let mut content_length = None;
    let mut chunked = false;
    for (name, value) in headers {
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let number = parse_length(value).ok_or_else(|| {
                    protocol(format!("bad content-length `{}`", String::from_utf8_lossy(value)))
                })?;
                if content_length.is_some_and(|known| known != number) {
                    return Err(protocol("two different content-lengths".to_owned()));
                }
                content_length = Some(number);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let last = value.rsplit(|&byte| byte == b',').next().unwrap_or(value);
                chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    if word.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") {
                        keep_alive = true;
                    }
                }
            }
            // `location`, `set-cookie`, `content-encoding`: the response sorts them out.
            8 | 10 | 16 => response.note(wanted.keep, name, value),
            _ => {}
        }
        if wanted.keep.headers {
            response.keep_header(name, value);
        }
    }
    let bodiless = wanted.head_only || matches!(status, 100..=199 | 204 | 304);
    let framing = match (bodiless, chunked, content_length) {
        (true, ..) => Framing::Length(0),
        (_, true, _) => Framing::Chunked(Chunked::new()),
        (_, _, Some(length)) if length > wanted.body_limit => {
            return Err(too_long(wanted.body_limit));
        }
        (_, _, Some(length)) => Framing::Length(length),
        (..) => {
            keep_alive = false;
            Framing::UntilClose
        }
    };
    Ok(Head { length, framing, keep_alive })
}

fn protocol(message: String) -> Failure {
    Failure::new(ErrorKind::Protocol, message)
}

pub fn too_long(limit: u64) -> Failure {
    Failure::new(ErrorKind::Body, format!("body is longer than body_limit ({limit} bytes)"))
}

fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keep;

    const WANTED: Wanted = Wanted {
        keep: Keep { headers: true, body: true, cookies: true, location: true },
        head_only: false,
        body_limit: 1 << 20,
        kept_limit: 1 << 20,
    };

    type Headers = Vec<(String, Vec<u8>)>;

    /// What `httparse` makes of it, the short way shut.
    fn slowly(bytes: &[u8]) -> Option<(usize, u16, Headers)> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = parsed.parse(bytes) else { return None };
        let pairs = parsed.headers.iter().map(|h| (h.name.to_lowercase(), h.value.to_vec()));
        Some((length, parsed.code?, pairs.collect()))
    }

    #[test]
    fn the_short_way_and_the_full_parser_agree() {
        let heads: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: nginx/1.22\r\n\r\nhello",
            b"HTTP/1.0 404 Not Found\r\nX:  spaced out \r\nEmpty:\r\n\r\n",
            b"HTTP/1.1 204\r\n\r\n",
            b"HTTP/1.1 200 \r\na: b: c\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n\r\n",
            b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Encoding: gzip\r\n\r\n",
        ];
        for head in heads {
            let mut lines = [(0, 0, 0); PLAIN_HEADERS_MAX];
            assert!(scan(head, &mut lines).is_some(), "{}", String::from_utf8_lossy(head));
            let mut response = Response::default();
            let parsed = parse_head(head, WANTED, &mut response).unwrap().unwrap();
            let (length, status, headers) = slowly(head).unwrap();
            assert_eq!((parsed.length, response.status), (length, status));
            assert_eq!(response.headers, headers);
            // Cut anywhere, it is a head that has not come completely.
            for cut in 0..length {
                assert!(
                    parse_head(&head[..cut], WANTED, &mut Response::default()).unwrap().is_none()
                );
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_full_parser() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(33));
        let heads: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\nContent-Length: 5\n\n",
            b"HTTP/1.1 200 OK\r\nfolded: a\r\n b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: b\tc\r\n\r\n",
            b"HTTP/1.1 20x OK\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"garbage",
            many.as_bytes(),
        ];
        for head in heads {
            let mut lines = [(0, 0, 0); PLAIN_HEADERS_MAX];
            assert!(scan(head, &mut lines).is_none(), "{}", String::from_utf8_lossy(head));
        }
    }
}
