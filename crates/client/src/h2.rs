//! HTTP/2: one connection of a virtual user, shared by all its streams, on the crate `h2`.

use base::clock;
use permit::SendControl;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use stats::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline::Deadline;
use crate::h1::{Broken, Wanted};
use crate::io::Stream;
use crate::peer::Peer;
use crate::pool::Outgoing;
use crate::response::Response;
use crate::{Cause, Failure, Progress};

/// Big enough that a body of usual size never waits for a window update.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

pub struct Http2 {
    send: SendRequest<Bytes>,
    closed: Rc<Cell<bool>>,
    traffic: Rc<Traffic>,
    driver: tokio::task::JoinHandle<()>,
    pub peer: Rc<Peer>,
}

/// Bytes on the wire. Streams share a connection, so each exchange takes what has passed since the
/// last one looked: single exchanges are approximate, sums are exact.
#[derive(Default)]
struct Traffic {
    read: Cell<u64>,
    written: Cell<u64>,
    /// Something was written since the last flush.
    unflushed: Cell<bool>,
    flushes: Cell<u64>,
}

/// Knows at its end whether a request has left this process: the crate queues it, and the
/// connection's own task writes it, which it may not get to if the virtual user is cut off.
struct Departure<'a> {
    traffic: &'a Traffic,
    progress: &'a Progress,
    /// Flushes when the request was queued; `None`: it was not.
    queued_at: Cell<Option<u64>>,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        if self.queued_at.get().is_some_and(|at| self.traffic.flushes.get() > at) {
            self.progress.sent.set(true);
        }
    }
}

impl Http2 {
    pub async fn start(stream: Stream, send_control: SendControl) -> Result<Http2, Failure> {
        let peer = Rc::new(Peer::of(&stream));
        let traffic = Rc::new(Traffic::default());
        let counted = Counted { stream, send_control, traffic: traffic.clone() };
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .enable_push(false);
        let (send, connection) =
            builder.handshake::<_, Bytes>(counted).await.map_err(|error| failure(&error))?;
        let closed = Rc::new(Cell::new(false));
        let flag = closed.clone();
        let driver = tokio::task::spawn_local(async move {
            // Errors reach the streams that they concern.
            let _ = connection.await;
            flag.set(true);
        });
        Ok(Http2 { send, closed, traffic, driver, peer })
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub async fn exchange(
        &self,
        out: Outgoing<'_>,
        wanted: Wanted,
        send_control: &SendControl,
        deadline: &Deadline,
        response: &mut Response,
        progress: &Progress,
    ) -> Result<(), Broken> {
        let request = translate(out)?;
        let body = &out.wire[out.body_at..];
        let mut answered = false;
        let result = {
            let exchange =
                self.run(request, body, wanted, send_control, response, progress, &mut answered);
            let mut exchange = std::pin::pin!(exchange);
            poll_fn(|context| match exchange.as_mut().poll(context) {
                Poll::Pending if deadline.expired_or_register(context) => {
                    Poll::Ready(Err(Failure::new(ErrorKind::Timeout, "no complete answer in time")))
                }
                other => other,
            })
            .await
        };
        progress.bytes_sent.set(progress.bytes_sent.get() + self.traffic.written.take());
        progress.bytes_received.set(progress.bytes_received.get() + self.traffic.read.take());
        result.map_err(|failure| {
            if failure.kind == ErrorKind::Reset {
                self.closed.set(true);
            }
            Broken { failure, answered }
        })
    }

    #[allow(clippy::too_many_arguments)]
    async fn run(
        &self,
        request: Request<()>,
        body: &[u8],
        wanted: Wanted,
        send_control: &SendControl,
        response: &mut Response,
        progress: &Progress,
        answered: &mut bool,
    ) -> Result<(), Failure> {
        let departure = Departure { traffic: &self.traffic, progress, queued_at: Cell::new(None) };
        let mut send = self.send.clone().ready().await.map_err(|error| failure(&error))?;
        let begun = clock::now();
        send_control.before_request(begun).await;
        let (answer, mut stream) =
            send.send_request(request, body.is_empty()).map_err(|error| failure(&error))?;
        departure.queued_at.set(Some(self.traffic.flushes.get()));
        if !body.is_empty() {
            send_body(&mut stream, body).await?;
        }
        let sent = clock::now();
        let mut phases = progress.phases.get();
        phases.sending = sent.nanos_since(begun);
        let answer = answer.await.map_err(|error| failure(&error))?;
        *answered = true;
        progress.sent.set(true);
        let first = clock::now();
        phases.waiting = first.nanos_since(sent);
        progress.phases.set(phases);
        let (head, mut incoming) = answer.into_parts();
        response.status = head.status.as_u16();
        if response.keep_head {
            response.write_head(head.status, &head.headers);
        }
        for (name, value) in &head.headers {
            response.note(wanted.keep, name.as_str().as_bytes(), value.as_bytes());
            if wanted.keep.headers {
                response.keep_header(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        let mut received = 0u64;
        while let Some(data) = incoming.data().await {
            let data = data.map_err(|error| failure(&error))?;
            received += data.len() as u64;
            let reads = wanted.keep.body && !response.for_show;
            let limit = if reads { wanted.kept_limit } else { wanted.body_limit };
            if received > limit {
                let message = format!("body is longer than {limit} bytes");
                return Err(Failure::new(ErrorKind::Body, message));
            }
            if wanted.keep.body && received <= wanted.kept_limit {
                response.body.extend_from_slice(&data);
            }
            incoming
                .flow_control()
                .release_capacity(data.len())
                .map_err(|error| failure(&error))?;
        }
        phases.receiving = clock::now().nanos_since(first);
        progress.phases.set(phases);
        Ok(())
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        // The virtual user is gone, and nobody else has a share in this connection.
        self.driver.abort();
    }
}

async fn send_body(stream: &mut h2::SendStream<Bytes>, body: &[u8]) -> Result<(), Failure> {
    let mut left = Bytes::copy_from_slice(body);
    while !left.is_empty() {
        stream.reserve_capacity(left.len());
        let granted = poll_fn(|context| stream.poll_capacity(context)).await;
        let granted = match granted {
            Some(granted) => granted.map_err(|error| failure(&error))?,
            None => return Err(Failure::new(ErrorKind::Reset, "stream closed while sending")),
        };
        let part = left.split_to(granted.min(left.len()));
        stream.send_data(part, left.is_empty()).map_err(|error| failure(&error))?;
    }
    Ok(())
}

fn failure(error: &h2::Error) -> Failure {
    let protocol = error.reason().is_some_and(|reason| {
        !matches!(reason, h2::Reason::NO_ERROR | h2::Reason::REFUSED_STREAM | h2::Reason::CANCEL)
    });
    let kind = if protocol && !error.is_remote() { ErrorKind::Protocol } else { ErrorKind::Reset };
    let cause = match () {
        () if error.is_go_away() => Cause::GoAway,
        () if error.is_reset() => Cause::StreamReset,
        () => error
            .get_io()
            .and_then(std::io::Error::raw_os_error)
            .map_or(Cause::Unsaid, Cause::System),
    };
    let words = error.get_io().map_or_else(|| error.to_string(), crate::words::io_words);
    Failure::new(kind, format!("HTTP/2: {words}")).because(cause)
}

/// The HTTP/1.1 form holds all that HTTP/2 needs.
fn translate(out: Outgoing<'_>) -> Result<Request<()>, Failure> {
    let bad = |message: String| Failure::new(ErrorKind::Protocol, message);
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(&out.wire[..out.body_at]) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(_) => return Err(bad("request has no end of headers".to_owned())),
        Err(error) => return Err(bad(format!("request cannot be sent: {error}"))),
    }
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = Method::from_bytes(parsed.method.unwrap_or("GET").as_bytes())
        .map_err(|error| bad(error.to_string()))?;
    let scheme = if out.origin.tls { "https" } else { "http" };
    let path = parsed.path.unwrap_or("/");
    let host = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    let host = host.map_or(out.origin.authority.as_bytes(), |header| header.value);
    *request.uri_mut() = Uri::builder()
        .scheme(scheme)
        .authority(host)
        .path_and_query(path)
        .build()
        .map_err(|error| bad(format!("bad path `{path}`: {error}")))?;
    let map = request.headers_mut();
    map.reserve(parsed.headers.len());
    for header in parsed.headers.iter() {
        // Connection-specific fields have no place in HTTP/2 (RFC 9113, section 8.2.2); `host`
        // becomes :authority.
        if ["host", "connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"]
            .iter()
            .any(|name| header.name.eq_ignore_ascii_case(name))
        {
            continue;
        }
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value);
        if let (Ok(name), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
    Ok(request)
}

struct Counted {
    stream: Stream,
    send_control: SendControl,
    traffic: Rc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = (buffer.filled().len() - before) as u64;
        self.traffic.read.set(self.traffic.read.get() + read);
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        // What was queued before the gate was shut does not leave afterwards. Nobody wakes this
        // task again; it ends with its virtual user.
        if !self.send_control.may_continue() {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = result {
            self.traffic.written.set(self.traffic.written.get() + written as u64);
            self.traffic.unflushed.set(true);
        }
        result
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Ok(())) = result
            && self.traffic.unflushed.take()
        {
            self.traffic.flushes.set(self.traffic.flushes.get() + 1);
        }
        result
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
