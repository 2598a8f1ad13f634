//! The path of a request through counting, stalls, latency and errors to its answer.
//!
//! `/` is the route that throughput is measured with. Without latency, errors or stalls it is
//! answered from shared memory, without a header map, before anything else is looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{self, Answer};
use crate::config::{Latency, TargetConfig};
use crate::counts::{Counters, Counts};
use crate::payload::Payload;
use crate::route::Route;
use crate::stall::Stalls;

/// Longest request body that is read; more is answered with 413.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Longest `/delay`.
const DELAY_MAX: Duration = Duration::from_secs(3600);
/// A generator may hold far more streams open, and abandon far more, than a browser would.
const STREAMS_MAX: u32 = 10_000;
const GREETING: Bytes = Bytes::from_static(b"Hello from the target of Volley.\n");

/// What all threads have in common.
pub(crate) struct Shared {
    latency: Latency,
    error_rate: f64,
    stalls: Stalls,
    /// The answer of `/`.
    root: Bytes,
    /// Neither latency nor errors nor stalls: `/` takes the short way.
    plain: bool,
    counters: Vec<Counters>,
}

impl Shared {
    pub(crate) fn new(config: TargetConfig) -> Self {
        let stalls = Stalls::new(config.stalls, Instant::now());
        Shared {
            latency: config.latency,
            error_rate: config.error_rate,
            root: match config.payload_bytes {
                0 => GREETING,
                length => Payload::prefix(length),
            },
            plain: config.latency == Latency::None && config.error_rate == 0.0 && stalls.is_empty(),
            stalls,
            counters: (0..config.threads).map(|_| Counters::default()).collect(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts::sum(&self.counters)
    }

    pub(crate) fn reset(&self) {
        self.counters.iter().for_each(Counters::reset);
        self.stalls.reset();
    }
}

/// Serves connections of any kind; what it serves is counted by the target it came from.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    thread: usize,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>, thread: usize) -> Self {
        Handle { shared, thread }
    }

    /// Serves one connection, HTTP/1.1 or HTTP/2 with prior knowledge, until it ends.
    pub async fn serve<I>(&self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _open = self.counters().connection();
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http2()
            .max_concurrent_streams(STREAMS_MAX)
            .max_pending_accept_reset_streams(STREAMS_MAX as usize);
        let handle = self.clone();
        let service = service_fn(move |request| respond(handle.clone(), request));
        // how a connection ends is the client's affair
        let _ = builder.serve_connection(TokioIo::new(io), service).await;
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.thread]
    }
}

fn respond(
    handle: Handle,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Answer, Infallible>> + Send + 'static {
    let path = request.uri().path();
    let control = path.starts_with("/volley/");
    let (route, _) = Route::of(path);
    if !control {
        // here, not in the future: hyper may drop that before it has run at all
        handle.counters().request(route, request.method());
    }
    async move {
        let shared = &*handle.shared;
        if control {
            return Ok(control_answer(shared, &request));
        }
        let counters = handle.counters();
        let _in_flight = counters.in_flight();
        let plain_get = shared.plain && request.method() == Method::GET;
        if route == Route::Root && plain_get && request.body().is_end_stream() {
            return Ok(Response::new(Payload::Once(shared.root.clone())));
        }
        // boxed, so that the short way above does not carry the long one's state around
        Ok(Box::pin(respond_slowly(shared, counters, route, request)).await)
    }
}

async fn respond_slowly(
    shared: &Shared,
    counters: &Counters,
    route: Route,
    request: Request<Incoming>,
) -> Answer {
    let stalls = &shared.stalls;
    if !stalls.is_empty() {
        stalls.start_clock(Instant::now());
    }
    let mut stalled = stalls.pass().await;
    let (head, body) = request.into_parts();
    let parameter = Route::of(head.uri.path()).1;
    let delay = match route {
        Route::Delay => parameter.parse().map_or(Duration::ZERO, Duration::from_millis),
        _ => Duration::ZERO,
    };
    let latency = shared.latency.draw() + delay.min(DELAY_MAX);
    if latency > Duration::ZERO {
        tokio::time::sleep(latency).await;
    }
    // read to its end even where it is not wanted, or the connection could not be used again
    let body = match read(body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    stalled |= stalls.pass().await;
    if stalled {
        counters.stalled();
    }
    if shared.error_rate > 0.0 && fastrand::f64() < shared.error_rate {
        return answer::problem(StatusCode::INTERNAL_SERVER_ERROR, "an error was asked for");
    }
    let answer = if !route.allows(&head.method) {
        let allowed = route.methods().unwrap_or_default();
        let answer = answer::problem(StatusCode::METHOD_NOT_ALLOWED, "see the header `allow`");
        answer::with(answer, header::ALLOW, allowed)
    } else if route == Route::Root {
        Response::new(Payload::Once(shared.root.clone()))
    } else {
        answer::answer(route, parameter, &head, &body)
    };
    if head.method == Method::HEAD { without_body(answer) } else { answer }
}

async fn read(body: Incoming) -> Result<Bytes, Answer> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let limit = format!("bodies of more than {BODY_BYTES_MAX} bytes are not read");
            Err(answer::problem(StatusCode::PAYLOAD_TOO_LARGE, &limit))
        }
        // the client broke off or sent nonsense; it is unlikely to read this
        Err(error) => Err(answer::problem(StatusCode::BAD_REQUEST, &error.to_string())),
    }
}

/// To HEAD: the same head, the length included, and nothing after it.
fn without_body(answer: Answer) -> Answer {
    let length = answer.body().size_hint().exact();
    let answer = answer.map(|_| Payload::Empty);
    match length {
        Some(length) => answer::with(answer, header::CONTENT_LENGTH, &length.to_string()),
        None => answer,
    }
}

fn control_answer(shared: &Shared, request: &Request<Incoming>) -> Answer {
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/volley/seen") => answer::json_answer(StatusCode::OK, &shared.counts().to_json()),
        ("POST", "/volley/reset") => {
            shared.reset();
            answer::json_answer(StatusCode::OK, &json!({ "reset": true }))
        }
        _ => {
            let routes = "there are GET /volley/seen and POST /volley/reset";
            answer::problem(StatusCode::NOT_FOUND, routes)
        }
    }
}
