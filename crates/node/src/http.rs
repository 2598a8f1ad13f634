//! Metrics, health and debug endpoints, on a listener of their own. They only read.
//!
//! The listener has neither certificates nor passwords, so it stays on loopback unless the operator
//! says otherwise: who reaches it learns addresses, roles and counters, and can change nothing.

mod bounded;
mod debug;
mod metrics;
mod text;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;

use self::bounded::Bounded;
use crate::member::{Inner, StartError};
use crate::supervise::OnEnd;

/// Where to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// 127.0.0.1:7501.
    pub bind: SocketAddr,
    /// Allows an address that other machines reach.
    pub beyond_loopback: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { bind: SocketAddr::from(([127, 0, 0, 1], 7501)), beyond_loopback: false }
    }
}

pub(crate) async fn bind(config: &HttpConfig) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = config.bind;
    if !address.ip().is_loopback() {
        if !config.beyond_loopback {
            return Err(StartError::HttpBeyondLoopback { address });
        }
        tracing::warn!(%address, "metrics and debug endpoints can be read by everybody who reaches this address");
    }
    let failed = |error| StartError::Listen { address, what: "metrics, TCP", error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves as one of the member's tasks. Losing it is not worth a node: it is reported and that is
/// all.
pub(crate) fn serve(inner: &Arc<Inner>, listener: TcpListener) {
    let routes = router(Arc::clone(inner));
    let refused = Arc::clone(&inner.numbers.http_refused);
    let mut listener = Some(Bounded::new(listener, refused));
    inner.supervisor.spawn("http", OnEnd::Done, move |mut stop| {
        let (listener, routes) = (listener.take(), routes.clone());
        async move {
            let Some(listener) = listener else { return };
            let stopped = async move {
                let _ = stop.wait_for(|stop| *stop).await;
            };
            let served = axum::serve(listener, routes).with_graceful_shutdown(stopped).await;
            if let Err(error) = served {
                tracing::error!(%error, "metrics and debug endpoints have ended");
            }
        }
    });
}

type Shared = State<Arc<Inner>>;

fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route("/metrics", get(|State(inner): Shared| async move { metrics_page(&inner) }))
        .route("/livez", get(|State(inner): Shared| async move { livez(&inner) }))
        .route("/readyz", get(|State(inner): Shared| async move { readyz(&inner) }))
        .route(
            "/debug/membership",
            get(|State(i): Shared| async move { json(&debug::membership(&i)) }),
        )
        .route("/debug/members", get(|State(i): Shared| async move { json(&debug::members(&i)) }))
        .route(
            "/debug/peers/unconfirmed",
            get(|State(i): Shared| async move { json(&debug::unconfirmed(&i)) }),
        )
        .route(
            "/debug/discovery",
            get(|State(i): Shared| async move { json(&debug::discovery(&i)) }),
        )
        .route("/debug/tasks", get(|State(i): Shared| async move { json(&debug::tasks(&i)) }))
        .with_state(inner)
}

fn page(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

fn json(value: &Value) -> Response {
    page(StatusCode::OK, "application/json", format!("{value:#}\n"))
}

fn metrics_page(inner: &Inner) -> Response {
    page(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics::render(inner))
}

/// Alive: nothing fatal has happened. Whoever gets a 503 here should restart the process.
fn livez(inner: &Inner) -> Response {
    let end = inner.end.borrow().as_ref().map(ToString::to_string);
    let fatal = inner.supervisor.failure().map(|fatal| fatal.to_string());
    match end.or(fatal) {
        None => page(StatusCode::OK, "text/plain", "ok\n"),
        Some(why) => page(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{why}\n")),
    }
}

/// Ready: it has joined, or is the first, and is not leaving.
fn readyz(inner: &Inner) -> Response {
    if inner.is_ready() && inner.supervisor.failure().is_none() {
        return page(StatusCode::OK, "text/plain", "ready\n");
    }
    let why = if *inner.leaving.borrow() {
        "leaving".to_owned()
    } else {
        format!("not yet joined: {:?}", inner.search.borrow().phase)
    };
    page(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{why}\n"))
}
