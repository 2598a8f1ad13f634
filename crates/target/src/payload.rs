//! Bodies of answers: one piece of shared memory, or a pattern repeated to any length.
//!
//! No body is ever built to its full size, so that `/bytes/1000000000000` costs no more memory than
//! `/bytes/1`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Letters that can be read in a terminal; a line is 64 bytes with its end.
const LINE: &[u8; 64] = b"volley:abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-01\n";
const PATTERN_BYTES: usize = 64 * 1024;
static PATTERN: [u8; PATTERN_BYTES] = pattern();

const fn pattern() -> [u8; PATTERN_BYTES] {
    let mut bytes = [0; PATTERN_BYTES];
    let mut i = 0;
    while i < PATTERN_BYTES {
        bytes[i] = LINE[i % LINE.len()];
        i += 1;
    }
    bytes
}

pub(crate) enum Payload {
    Empty,
    Once(Bytes),
    /// `left` bytes of the pattern in pieces of `chunk`; `sized` announces the length.
    Pattern {
        left: u64,
        chunk: usize,
        sized: bool,
    },
}

impl Payload {
    /// `length` bytes with a content-length.
    pub(crate) fn bytes(length: u64) -> Self {
        Payload::Pattern { left: length, chunk: PATTERN_BYTES, sized: true }
    }

    /// `length` bytes without one: chunked in HTTP/1.1, one frame per chunk in HTTP/2.
    pub(crate) fn stream(length: u64, chunk: usize) -> Self {
        Payload::Pattern { left: length, chunk: chunk.clamp(1, PATTERN_BYTES), sized: false }
    }

    /// The first `length` bytes of what [`Payload::bytes`] sends, as one piece.
    pub(crate) fn prefix(length: usize) -> Bytes {
        LINE.iter().copied().cycle().take(length).collect()
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Payload::Empty | Payload::Pattern { left: 0, .. } => Poll::Ready(None),
            Payload::Once(_) => {
                let Payload::Once(bytes) = std::mem::replace(&mut *self, Payload::Empty) else {
                    unreachable!("matched just above");
                };
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Payload::Pattern { left, chunk, .. } => {
                let length = usize::try_from(*left).map_or(*chunk, |left| left.min(*chunk));
                *left -= length as u64;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PATTERN[..length])))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // an unsized stream of no bytes still has to be announced as chunked
        matches!(self, Payload::Empty | Payload::Pattern { left: 0, sized: true, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Empty => SizeHint::with_exact(0),
            Payload::Once(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Payload::Pattern { left, sized: true, .. } => SizeHint::with_exact(*left),
            Payload::Pattern { .. } => SizeHint::new(),
        }
    }
}
