//! HTTP/1.1: one connection, one exchange at a time.
//!
//! The read buffer belongs to the core, not to the connection: an answer is parsed where the kernel
//! wrote it, while it is still in cache, and ten thousand idle connections own no buffers. Only
//! what arrives in pieces is kept by the connection until the rest is there.

use base::clock;
use fence::Moment;
use permit::SendControl;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use stats::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline::Deadline;
use crate::head::{Framing, parse_head, too_long};
use crate::io::Stream;
use crate::peer::Peer;
use crate::response::{Keep, Response};
use crate::{Cause, Failure, Progress};

/// Longest head of an answer; servers commonly stop at 8 to 16 KiB themselves.
const HEAD_BYTES_MAX: usize = 256 << 10;
const READ_BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> =
        RefCell::new(vec![0u8; READ_BUFFER_BYTES].into_boxed_slice());
}

pub struct Connection {
    stream: Stream,
    /// The beginning of a head that has not arrived completely.
    partial: Vec<u8>,
    /// Exchanges completed; the first one is never retried.
    pub exchanges: u64,
    /// May another exchange follow?
    reusable: bool,
    pub peer: Rc<Peer>,
}

/// How far an answer has come.
enum Reading {
    Head,
    /// And the bytes of the body that have come.
    Body(Framing, u64),
}

/// What the caller wants of an exchange.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub keep: Keep,
    /// The request was HEAD: whatever the head says, no body follows.
    pub head_only: bool,
    pub body_limit: u64,
    /// Bytes of a body that may be kept in memory.
    pub kept_limit: u64,
}

/// An exchange that failed, and whether any of the answer had come.
pub struct Broken {
    pub failure: Failure,
    pub answered: bool,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Broken { failure, answered: false }
    }
}

impl Connection {
    pub fn new(stream: Stream) -> Connection {
        let peer = Rc::new(Peer::of(&stream));
        Connection { stream, partial: Vec::new(), exchanges: 0, reusable: true, peer }
    }

    /// False for an idle connection that the server has closed meanwhile, as far as is known
    /// without asking.
    pub fn is_usable(&self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        self.reusable && !self.stream.has_news(&mut context)
    }

    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Writes `request`, reads the answer into `response`. Afterwards `is_reusable` says whether to
    /// keep the connection.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        wanted: Wanted,
        send_control: &SendControl,
        deadline: &Deadline,
        response: &mut Response,
        progress: &Progress,
    ) -> Result<(), Broken> {
        let mut phases = progress.phases.get();
        let reusable = std::mem::replace(&mut self.reusable, false);
        // Whoever found this connection has just read the clock.
        let begun = clock::recent();
        send_control.before_request(begun).await;
        self.write_all(request, send_control, deadline, progress).await?;
        let sent = clock::now();
        phases.sending = sent.nanos_since(begun);
        progress.phases.set(phases);

        let mut first_byte = None;
        let mut reads = 0;
        let mut reading = Reading::Head;
        let outcome = poll_fn(|context| {
            self.poll_answer(
                context,
                &mut reading,
                wanted,
                deadline,
                response,
                progress,
                &mut first_byte,
                &mut reads,
            )
        })
        .await;
        // An answer that came in one piece ended when it began.
        let ended = match first_byte {
            Some(first) if reads == 1 => first,
            _ => clock::now(),
        };
        let first = first_byte.unwrap_or(ended);
        phases.waiting = first.nanos_since(sent);
        phases.receiving = ended.nanos_since(first);
        progress.phases.set(phases);
        match outcome {
            Ok(keep_alive) => {
                self.reusable = reusable && keep_alive;
                self.exchanges += 1;
                Ok(())
            }
            Err(failure) => Err(Broken { failure, answered: first_byte.is_some() }),
        }
    }

    async fn write_all(
        &mut self,
        mut bytes: &[u8],
        send_control: &SendControl,
        deadline: &Deadline,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let mut waited = false;
        poll_fn(|context| {
            // The rest of a request that had to wait for room is a send like any other.
            if waited && !send_control.may_continue() {
                return Poll::Pending;
            }
            waited = true;
            while !bytes.is_empty() {
                match Pin::new(&mut self.stream).poll_write(context, bytes) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(Failure::new(
                            ErrorKind::Reset,
                            "connection closed",
                        )));
                    }
                    Poll::Ready(Ok(written)) => {
                        progress.sent.set(true);
                        progress.bytes_sent.set(progress.bytes_sent.get() + written as u64);
                        bytes = &bytes[written..];
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::from_io(&error))),
                    Poll::Pending => return pending_or_timeout(deadline, context, "sending"),
                }
            }
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::from_io(&error))),
                Poll::Pending => pending_or_timeout(deadline, context, "sending"),
            }
        })
        .await
    }

    /// Reads until the answer is complete; true: the connection may be used again.
    #[allow(clippy::too_many_arguments)]
    fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        reading: &mut Reading,
        wanted: Wanted,
        deadline: &Deadline,
        response: &mut Response,
        progress: &Progress,
        first_byte: &mut Option<Moment>,
        reads: &mut u32,
    ) -> Poll<Result<bool, Failure>> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            // A fast sender must not starve its neighbours, nor outrun its deadline.
            for _ in 0..16 {
                let read = match ready!(self.poll_read_some(context, buffer, deadline)) {
                    Ok(read) => read,
                    Err(failure) => return Poll::Ready(Err(failure)),
                };
                if read == 0 {
                    return Poll::Ready(self.end_of_stream(reading, first_byte.is_some()));
                }
                first_byte.get_or_insert_with(clock::now);
                *reads += 1;
                progress.bytes_received.set(progress.bytes_received.get() + read as u64);
                let taken = self.take(&buffer[..read], reading, wanted, response);
                match taken {
                    Ok(Some(keep_alive)) => return Poll::Ready(Ok(keep_alive)),
                    Ok(None) => {}
                    Err(failure) => return Poll::Ready(Err(failure)),
                }
                if progress.bytes_received.get() > wanted.body_limit + HEAD_BYTES_MAX as u64 {
                    return Poll::Ready(Err(too_long(wanted.body_limit)));
                }
            }
            if deadline.at() <= clock::now() {
                return Poll::Ready(Err(timed_out("receiving")));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn poll_read_some(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Poll<Result<usize, Failure>> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
            // rustls reports a peer that closes without saying goodbye; for HTTP that is an
            // ordinary end of stream.
            Poll::Ready(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(0))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::from_io(&error))),
            Poll::Pending => pending_or_timeout(deadline, context, "waiting for the answer"),
        }
    }

    /// Digests what was read. `Some(keep_alive)`: the answer is complete.
    fn take(
        &mut self,
        fresh: &[u8],
        reading: &mut Reading,
        wanted: Wanted,
        response: &mut Response,
    ) -> Result<Option<bool>, Failure> {
        let joined;
        let mut bytes = fresh;
        if let Reading::Head = reading {
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(bytes);
                joined = std::mem::take(&mut self.partial);
                bytes = &joined;
            }
            loop {
                match parse_head(bytes, wanted, response)? {
                    None if bytes.len() > HEAD_BYTES_MAX => {
                        let message =
                            format!("head of the answer is longer than {HEAD_BYTES_MAX} bytes");
                        return Err(Failure::new(ErrorKind::Protocol, message));
                    }
                    None => {
                        self.partial = bytes.to_vec();
                        return Ok(None);
                    }
                    Some(head) => {
                        bytes = &bytes[head.length..];
                        // 100 Continue and 103 Early Hints announce the real answer.
                        if response.status / 100 == 1 {
                            if response.status == 101 {
                                let message = "101 Switching Protocols, which nobody asked for";
                                return Err(Failure::new(ErrorKind::Protocol, message));
                            }
                            response.clear();
                            if bytes.is_empty() {
                                return Ok(None);
                            }
                            continue;
                        }
                        self.reusable = head.keep_alive;
                        *reading = Reading::Body(head.framing, 0);
                        break;
                    }
                }
            }
        }
        let Reading::Body(framing, received) = reading else { return Ok(None) };
        let complete = take_body(&mut bytes, framing, received, wanted, response)?;
        if !complete {
            return Ok(None);
        }
        // Bytes after the end belong to no request of ours: the connection is out of step.
        let keep_alive = std::mem::replace(&mut self.reusable, false) && bytes.is_empty();
        Ok(Some(keep_alive))
    }

    fn end_of_stream(&self, reading: &Reading, answered: bool) -> Result<bool, Failure> {
        let message = match reading {
            Reading::Body(Framing::UntilClose, _) => return Ok(false),
            Reading::Body(Framing::Length(left), _) => {
                format!("connection closed {left} bytes before the end of the body")
            }
            Reading::Body(Framing::Chunked(_), _) => {
                "connection closed before the last chunk".to_owned()
            }
            Reading::Head if answered => {
                "connection closed inside the head of the answer".to_owned()
            }
            Reading::Head => "connection closed before any answer".to_owned(),
        };
        let midway = answered || matches!(reading, Reading::Body(..));
        Err(Failure::new(ErrorKind::Reset, message).because(Cause::Closed(midway)))
    }
}

fn timed_out(phase: &str) -> Failure {
    Failure::new(ErrorKind::Timeout, format!("no complete answer in time ({phase})"))
}

fn pending_or_timeout<T>(
    deadline: &Deadline,
    context: &mut Context<'_>,
    phase: &str,
) -> Poll<Result<T, Failure>> {
    if deadline.expired_or_register(context) {
        return Poll::Ready(Err(timed_out(phase)));
    }
    Poll::Pending
}

/// True once the body is complete; `bytes` is left with what follows it.
fn take_body(
    bytes: &mut &[u8],
    framing: &mut Framing,
    received: &mut u64,
    wanted: Wanted,
    response: &mut Response,
) -> Result<bool, Failure> {
    let mut overflow = false;
    let mut keep = |data: &[u8]| {
        *received += data.len() as u64;
        if wanted.keep.body {
            overflow |= (response.body.len() + data.len()) as u64 > wanted.kept_limit;
            if !overflow {
                response.body.extend_from_slice(data);
            }
        }
    };
    let complete = match framing {
        Framing::Length(left) => {
            let take = (*left).min(bytes.len() as u64) as usize;
            keep(&bytes[..take]);
            *bytes = &bytes[take..];
            *left -= take as u64;
            *left == 0
        }
        Framing::Chunked(decoder) => {
            let used = decoder
                .feed(bytes, keep)
                .map_err(|bad| Failure::new(ErrorKind::Protocol, bad.0))?;
            *bytes = &bytes[used..];
            decoder.is_done()
        }
        Framing::UntilClose => {
            keep(bytes);
            *bytes = &[];
            false
        }
    };
    if *received > wanted.body_limit {
        return Err(too_long(wanted.body_limit));
    }
    if overflow && !response.for_show {
        return Err(too_long(wanted.kept_limit));
    }
    Ok(complete)
}
