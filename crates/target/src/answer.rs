//! What each route answers. Everything here is pure: a head and a body in, an answer out.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use std::io::Write;

use crate::payload::Payload;
use crate::route::Route;

pub(crate) type Answer = Response<Payload>;

const STREAM_CHUNK_BYTES: usize = 1024;
const REDIRECTS_MAX: u32 = 1000;

/// The answer of every route but `/`, which the server gives by itself.
pub(crate) fn answer(route: Route, parameter: &str, head: &Parts, body: &Bytes) -> Answer {
    let query = head.uri.query().unwrap_or("");
    match route {
        Route::Root => unreachable!("the server answers `/` by itself"),
        Route::Login => login(body),
        Route::Cart => cart(&head.headers, query),
        Route::Search => search(query),
        Route::Bytes => match parameter.parse() {
            Ok(length) => binary(Payload::bytes(length)),
            Err(_) => problem(StatusCode::BAD_REQUEST, "/bytes/N: N is a number of bytes"),
        },
        Route::Stream => stream(parameter, query),
        Route::Status => status(parameter),
        // the waiting has been done by the server
        Route::Delay => match parameter.parse::<u64>() {
            Ok(ms) => json_answer(StatusCode::OK, &json!({ "delay_ms": ms })),
            Err(_) => problem(StatusCode::BAD_REQUEST, "/delay/MS: MS is a number of milliseconds"),
        },
        Route::Redirect => redirect(parameter),
        Route::CookiesSet => cookies_set(query),
        Route::Cookies => cookies(&head.headers),
        Route::Echo => echo(head, body),
        Route::Gzip => gzip(),
        Route::Unknown => problem(StatusCode::NOT_FOUND, "there is nothing at this path"),
    }
}

fn login(body: &[u8]) -> Answer {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let (Some(user), Some(_)) = (body["user"].as_str(), body["password"].as_str()) else {
        let wanted = "the body must be JSON with the strings `user` and `password`";
        return problem(StatusCode::BAD_REQUEST, wanted);
    };
    // not a secret: it only has to be different each time
    let token = format!("{:032x}", fastrand::u128(..));
    json_answer(StatusCode::OK, &json!({ "token": token, "user": user }))
}

fn cart(headers: &HeaderMap, query: &str) -> Answer {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.split_once(' ')).map(|(scheme, token)| {
        if scheme.eq_ignore_ascii_case("bearer") { token.trim() } else { "" }
    });
    if token.is_none_or(str::is_empty) {
        let wanted = "send `authorization: Bearer TOKEN` with a token from /login";
        let answer = problem(StatusCode::UNAUTHORIZED, wanted);
        return with(answer, header::WWW_AUTHENTICATE, "Bearer");
    }
    let region = parameter(query, "region").unwrap_or_else(|| "eu".to_owned());
    let items = json!([
        { "id": 1, "name": "kettle", "price": 24.5 },
        { "id": 2, "name": "teapot", "price": 12.0 },
    ]);
    json_answer(StatusCode::OK, &json!({ "region": region, "items": items }))
}

fn search(query: &str) -> Answer {
    let wanted = parameter(query, "q").unwrap_or_default();
    let hits: Vec<Value> = match wanted.as_str() {
        "" => Vec::new(),
        q => (1..=3).map(|id| json!({ "id": id, "title": format!("{q} {id}") })).collect(),
    };
    json_answer(StatusCode::OK, &Value::from(hits))
}

fn stream(length: &str, query: &str) -> Answer {
    let chunk = match parameter(query, "chunk") {
        Some(chunk) => chunk.parse().ok().filter(|&chunk| chunk > 0),
        None => Some(STREAM_CHUNK_BYTES),
    };
    match (length.parse(), chunk) {
        (Ok(length), Some(chunk)) => binary(Payload::stream(length, chunk)),
        _ => {
            let wanted = "/stream/N?chunk=C: N bytes in chunks of C bytes, C at least 1";
            problem(StatusCode::BAD_REQUEST, wanted)
        }
    }
}

fn status(code: &str) -> Answer {
    // 1xx are not answers but announcements of one
    let code = code.parse().ok().filter(|code| *code >= 200);
    match code.and_then(|code| StatusCode::from_u16(code).ok()) {
        Some(code @ (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)) => empty(code),
        Some(code) => json_answer(code, &json!({ "status": code.as_u16() })),
        None => problem(StatusCode::BAD_REQUEST, "/status/CODE: CODE is a number from 200 to 999"),
    }
}

fn redirect(left: &str) -> Answer {
    match left.parse::<u32>() {
        Ok(0) => json_answer(StatusCode::OK, &json!({ "arrived": true })),
        Ok(left) if left <= REDIRECTS_MAX => {
            let next = format!("/redirect/{}", left - 1);
            with(empty(StatusCode::FOUND), header::LOCATION, &next)
        }
        _ => {
            let wanted = format!("/redirect/N: N is a number up to {REDIRECTS_MAX}");
            problem(StatusCode::BAD_REQUEST, &wanted)
        }
    }
}

fn cookies_set(query: &str) -> Answer {
    let mut answer = json_answer(StatusCode::OK, &json!({ "set": object(pairs(query)) }));
    // as written in the query, not decoded: what a URI may hold, a cookie may hold
    for pair in query.split('&').filter(|pair| pair.contains('=')) {
        if let Ok(value) = HeaderValue::from_str(&format!("{pair}; Path=/")) {
            answer.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    answer
}

fn cookies(headers: &HeaderMap) -> Answer {
    // HTTP/2 clients may send one field per cookie
    let fields = headers.get_all(header::COOKIE).iter();
    let all: Vec<_> = fields.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let all = all.join("; ");
    let each = all.split(';').filter_map(|pair| pair.trim().split_once('='));
    let each = each.map(|(name, value)| (name.to_owned(), value.to_owned()));
    json_answer(StatusCode::OK, &json!({ "cookie": all, "cookies": object(each) }))
}

fn echo(head: &Parts, body: &Bytes) -> Answer {
    let mut headers: Map<String, Value> = Map::new();
    for name in head.headers.keys() {
        let values = head.headers.get_all(name).iter();
        let values: Vec<_> = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        headers.insert(name.as_str().to_owned(), values.join(", ").into());
    }
    let seen = json!({
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "query": object(pairs(head.uri.query().unwrap_or(""))),
        "version": format!("{:?}", head.version),
        "headers": headers,
        "body": String::from_utf8_lossy(body),
        "body_bytes": body.len(),
    });
    json_answer(StatusCode::OK, &seen)
}

/// Always compressed, whatever the client accepts: that is what the route is for.
fn gzip() -> Answer {
    let text = json!({ "gzipped": true, "filler": "volley ".repeat(64) }).to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    let packed = packed.expect("memory takes every write");
    let mut answer = Response::new(Payload::Once(packed.into()));
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Payload::Once(value.to_string().into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer
}

/// An answer that says what was wrong with the request.
pub(crate) fn problem(status: StatusCode, text: &str) -> Answer {
    json_answer(status, &json!({ "error": text }))
}

pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Payload::Empty);
    *answer.status_mut() = status;
    answer
}

fn binary(payload: Payload) -> Answer {
    with(Response::new(payload), header::CONTENT_TYPE, "application/octet-stream")
}

pub(crate) fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    let value = HeaderValue::from_str(value).expect("our own header values are printable");
    answer.headers_mut().insert(name, value);
    answer
}

fn object(pairs: impl Iterator<Item = (String, String)>) -> Value {
    pairs.map(|(name, value)| (name, Value::from(value))).collect::<Map<_, _>>().into()
}

fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

fn parameter(query: &str, name: &str) -> Option<String> {
    pairs(query).find(|(key, _)| key == name).map(|(_, value)| value)
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
