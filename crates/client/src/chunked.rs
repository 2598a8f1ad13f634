//! Chunked transfer coding, decoded piece by piece as it arrives.

/// Where the decoder stands between two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Reading the hexadecimal size; the digits seen so far.
    Size {
        value: u64,
        digits: u8,
    },
    /// After the size: an extension is skipped up to the line's end.
    Extension {
        value: u64,
    },
    Data {
        left: u64,
    },
    /// The line end after a chunk's data.
    DataEnd,
    /// Trailer lines; `empty` while nothing but line-end characters was seen in this one.
    Trailer {
        empty: bool,
    },
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunked {
    state: State,
    trailer_bytes: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub struct BadChunk(pub &'static str);

/// Trailers are of no use to a load test; more of them than this is an attack or a mistake.
const TRAILER_BYTES_MAX: u32 = 16 << 10;

impl Chunked {
    pub fn new() -> Chunked {
        Chunked { state: State::Size { value: 0, digits: 0 }, trailer_bytes: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what it can from `input`, hands data to `sink`, and says how much it took. Stops at
    /// the end of the body.
    pub fn feed(&mut self, input: &[u8], mut sink: impl FnMut(&[u8])) -> Result<usize, BadChunk> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if let State::Data { left } = self.state {
                let take = left.min((input.len() - at) as u64) as usize;
                sink(&input[at..at + take]);
                at += take;
                let left = left - take as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data { left } };
                continue;
            }
            self.step(input[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<(), BadChunk> {
        self.state = match (self.state, byte) {
            (State::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == 16 {
                    return Err(BadChunk("chunk size is too long"));
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                State::Size { value: value << 4 | u64::from(digit), digits: digits + 1 }
            }
            (State::Size { digits: 0, .. }, _) => {
                return Err(BadChunk("chunk size is not a number"));
            }
            (State::Size { value, .. } | State::Extension { value }, b'\n') => {
                if value == 0 {
                    State::Trailer { empty: true }
                } else {
                    State::Data { left: value }
                }
            }
            (State::Size { value, .. }, b';' | b' ' | b'\t' | b'\r') => State::Extension { value },
            (State::Size { .. }, _) => return Err(BadChunk("chunk size is not a number")),
            (State::Extension { value }, _) => State::Extension { value },
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Size { value: 0, digits: 0 },
            (State::DataEnd, _) => return Err(BadChunk("chunk is longer than its size")),
            (State::Trailer { empty: true }, b'\n') => State::Done,
            (State::Trailer { .. }, b'\n') => State::Trailer { empty: true },
            (State::Trailer { empty }, byte) => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > TRAILER_BYTES_MAX {
                    return Err(BadChunk("trailers are too long"));
                }
                State::Trailer { empty: empty && byte == b'\r' }
            }
            (State::Data { .. } | State::Done, _) => unreachable!("handled by the caller"),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), BadChunk> {
        let mut decoder = Chunked::new();
        let (mut out, mut used) = (Vec::new(), 0);
        for part in input.chunks(piece) {
            let took = decoder.feed(part, |data| out.extend_from_slice(data))?;
            used += took;
            if took < part.len() {
                break;
            }
        }
        Ok((out, used, decoder.is_done()))
    }

    #[test]
    fn decodes_alike_however_the_bytes_are_cut() {
        let input = b"4\r\nWiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nx: y\r\n\r\nNEXT";
        for piece in 1..input.len() {
            let (out, used, done) = decode(input, piece).unwrap();
            assert_eq!(out, b"Wikipedia in \r\n\r\nchunks.");
            assert!(done);
            assert_eq!(&input[used..], b"NEXT");
        }
    }

    #[test]
    fn refuses_what_is_not_chunked() {
        for bad in [&b"xyz\r\n"[..], b"\r\n", b"2\r\nabcd", b"11111111111111111\r\n", b"-1\r\n"] {
            assert!(decode(bad, 1).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
