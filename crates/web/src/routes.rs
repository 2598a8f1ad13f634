//! What is served: the page, the stream that feeds it, downloads, and what it may ask of a run.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::{Value, json};

use crate::access::{Access, Login};
use crate::board::{Board, Cursor, Next};
use crate::frames::{Id, RETRY, STILL_HERE};
use crate::guard::guard;
use crate::viewers::Viewer;
use crate::{Site, Wish, shell};

/// Of a request.
const BODY_BYTES_MAX: usize = 4096;
/// Without news, a stream says that it is there.
const STILL_HERE_EVERY: Duration = Duration::from_secs(15);
/// Scaling by more is a slip of the finger.
const SCALE_MAX: f64 = 100.0;

pub(crate) struct App {
    pub site: Arc<dyn Site>,
    pub access: Access,
    /// Names under which it is reached beside those of loopback.
    pub hosts: Vec<String>,
}

pub(crate) type Shared = State<Arc<App>>;

pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/job/{run}", get(job))
        .route(
            "/assets/app.js",
            get(|| asset("text/javascript; charset=utf-8", report::html::SCRIPT)),
        )
        .route("/assets/app.css", get(|| asset("text/css; charset=utf-8", report::html::STYLE)))
        .route("/licences", get(|| asset("text/plain; charset=utf-8", report::html::NOTICE)))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/login", post(login))
        .route("/api/fleet", get(fleet))
        .route("/api/run/{run}/events", get(events))
        .route("/api/run/{run}/steer", post(steer))
        .route("/api/run/{run}/{what}", get(download))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        // Before routing: also what is not found is told to nobody else.
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

fn html(text: String) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

fn json_answer(status: StatusCode, value: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn problem(status: StatusCode, what: &str) -> Response {
    json_answer(status, &json!({ "problem": what }))
}

async fn front(State(app): Shared) -> Response {
    let is_fleet = app.site.is_fleet();
    html(shell::page((!is_fleet).then_some(crate::THE_RUN), is_fleet))
}

/// The page of one job. Whether there is such a job is asked by the page, which has the cookie.
async fn job(State(app): Shared, Path(run): Path<String>) -> Response {
    let is_id = run.len() <= 64 && run.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_id && app.site.is_fleet() {
        true => html(shell::page(Some(&run), true)),
        false => problem(StatusCode::NOT_FOUND, "there is no such job"),
    }
}

async fn login(State(app): Shared, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match app.access.log_in(body["token"].as_str().unwrap_or_default(), Instant::now()) {
        Login::Welcome(cookie) => match HeaderValue::from_str(&cookie) {
            Ok(cookie) => (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
        Login::Wrong => problem(StatusCode::UNAUTHORIZED, "the token is not that of this server"),
        Login::TooMany => {
            problem(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens; wait a minute")
        }
    }
}

async fn fleet(State(app): Shared) -> Response {
    match app.site.list().await {
        Ok(list) => json_answer(StatusCode::OK, &list),
        Err(why) => problem(StatusCode::BAD_GATEWAY, &why),
    }
}

async fn events(State(app): Shared, Path(run): Path<String>, request: Request) -> Response {
    let Some(board) = app.site.board(&run) else {
        return problem(StatusCode::NOT_FOUND, "there is no such run");
    };
    let Some(viewer) = board.viewers.enter() else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "too many pages show this run already");
    };
    let id = seen(request.headers(), request.uri().query());
    let cursor = board.cursor(id);
    let body = Body::from_stream(stream(board, viewer, cursor));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// What the browser says that it saw last, or what the page says when it opens the stream itself.
fn seen(headers: &HeaderMap, query: Option<&str>) -> Option<Id> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let asked =
        query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("after=")));
    header.or(asked).and_then(Id::parse)
}

struct Looking {
    board: Arc<Board>,
    _viewer: Viewer,
    cursor: Cursor,
    changes: tokio::sync::watch::Receiver<u64>,
    greeted: bool,
    over: bool,
}

fn stream(
    board: Arc<Board>,
    viewer: Viewer,
    cursor: Cursor,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let changes = board.changes();
    let looking = Looking { board, _viewer: viewer, cursor, changes, greeted: false, over: false };
    unfold(looking, |mut it| async move {
        if it.over {
            return None;
        }
        if !std::mem::replace(&mut it.greeted, true) {
            return Some((Ok(RETRY), it));
        }
        loop {
            it.changes.borrow_and_update();
            match it.board.next(&mut it.cursor) {
                Next::Event(frame) => return Some((Ok(frame), it)),
                Next::Last(frame) => {
                    it.over = true;
                    return Some((Ok(frame), it));
                }
                Next::Nothing => {}
            }
            match tokio::time::timeout(STILL_HERE_EVERY, it.changes.changed()).await {
                Ok(Ok(())) => {}
                // The board is held by this stream, so its sender lives.
                Ok(Err(_)) => return None,
                Err(_) => return Some((Ok(STILL_HERE), it)),
            }
        }
    })
}

async fn steer(State(app): Shared, Path(run): Path<String>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let wish = match (body["do"].as_str().unwrap_or_default(), body["by"].as_f64()) {
        ("pause", _) => Wish::Pause,
        ("resume", _) => Wish::Resume,
        ("stop", _) => Wish::Stop,
        ("scale", Some(by)) if by > 0.0 && by <= SCALE_MAX => Wish::Scale(by),
        _ => {
            let what = "expected {\"do\": \"pause\"}, resume, stop, or scale with \"by\" up to 100";
            return problem(StatusCode::BAD_REQUEST, what);
        }
    };
    match app.site.steer(&run, wish).await {
        Ok(done) => json_answer(StatusCode::OK, &json!({ "done": done })),
        Err(why) => problem(StatusCode::CONFLICT, &why),
    }
}

/// The run so far, as a file.
async fn download(State(app): Shared, Path((run, what)): Path<(String, String)>) -> Response {
    let Some(record) = app.site.board(&run).and_then(|board| board.record()) else {
        return problem(StatusCode::NOT_FOUND, "nothing is known of such a run");
    };
    let (kind, name, content) = match what.as_str() {
        "record" => ("application/gzip", "run.volley", record.bytes().to_vec()),
        "report" => {
            ("text/html; charset=utf-8", "run.html", report::html::page(&record).into_bytes())
        }
        "summary" => {
            let summary = format!("{:#}\n", record.document()["summary"]);
            ("application/json", "summary.json", summary.into_bytes())
        }
        _ => return problem(StatusCode::NOT_FOUND, "record, report or summary"),
    };
    // A download is never a page of this origin.
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, disposition)], content).into_response()
}
