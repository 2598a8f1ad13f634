//! What every request has to show before anything is looked up, and what every answer carries.
//!
//! ```text
//! Host is one of ours ── no ──▶ 421     a page elsewhere that points its name at 127.0.0.1
//! POST from our page  ── no ──▶ 403     another origin that makes the browser ask
//! GET /api from ours  ── no ──▶ 403
//! cookie, beyond / and assets ─▶ 401
//! ```
//!
//! Loopback alone protects from none of this: whatever runs in the user's browser reaches it. No
//! answer ever has a CORS header, so no other origin can read one.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::routes::Shared;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Names that lead to this machine from itself and nowhere else.
const OWN_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

pub(crate) async fn guard(State(shared): Shared, request: Request, next: Next) -> Response {
    let refused = refusal(&shared.hosts, request.method(), request.uri(), request.headers());
    let mut response = match refused {
        Some((status, why)) => (status, why).into_response(),
        None if !is_open(request.uri().path()) && !is_known(&shared.access, request.headers()) => {
            let why = "open the link that the command has printed: it has the token\n";
            (StatusCode::UNAUTHORIZED, why).into_response()
        }
        None => next.run(request).await,
    };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What is in these is in the program, and the same for everybody.
fn is_open(path: &str) -> bool {
    path == "/"
        || ["/assets/", "/job/"].iter().any(|start| path.starts_with(start))
        || ["/licences", "/login", "/favicon.ico"].contains(&path)
}

fn is_known(access: &crate::access::Access, headers: &HeaderMap) -> bool {
    let mut cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.any(|cookies| access.knows(cookies))
}

/// Why a request is not even looked at.
fn refusal(
    hosts: &[String],
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<(StatusCode, &'static str)> {
    let host = match single(headers, &HOST) {
        Some(host) if is_ours(hosts, host) => host,
        _ => return Some((StatusCode::MISDIRECTED_REQUEST, "this host is not served here\n")),
    };
    // `GET http://elsewhere/ HTTP/1.1`
    if uri.authority().is_some_and(|authority| !is_ours(hosts, authority.as_str())) {
        return Some((StatusCode::MISDIRECTED_REQUEST, "this host is not served here\n"));
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let same_site = site.map(|site| site == b"same-origin");
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    let own = [format!("http://{host}"), format!("https://{host}")];
    let same_origin = origin.map(|origin| own.iter().any(|own| own.as_bytes() == origin));
    let elsewhere = Some((StatusCode::FORBIDDEN, "only the page itself may ask this\n"));
    match *method {
        Method::GET | Method::HEAD => {
            let typed = site.is_none_or(|site| site == b"none" || site == b"same-origin");
            let is_data = uri.path().starts_with("/api");
            if is_data && !(typed && same_origin != Some(false)) { elsewhere } else { None }
        }
        Method::POST => {
            let json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let is_json =
                json.is_some_and(|kind| kind.split(';').next() == Some("application/json"));
            match [same_site, same_origin] {
                [None, None] => elsewhere,
                said if said.contains(&Some(false)) => elsewhere,
                _ if !is_json => Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "JSON is expected\n")),
                _ => None,
            }
        }
        _ => Some((StatusCode::METHOD_NOT_ALLOWED, "GET or POST\n")),
    }
}

/// `None` also if there are several.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

fn is_ours(hosts: &[String], authority: &str) -> bool {
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(inner, _)| &authority[..inner.len() + 2]),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let port = &authority[name.len()..];
    let is_port = port.is_empty() || port[1..].bytes().all(|byte| byte.is_ascii_digit());
    let mut known = OWN_NAMES.into_iter().chain(hosts.iter().map(String::as_str));
    is_port && known.any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_ours() {
        let hosts = ["runner.example".to_owned()];
        for ours in ["127.0.0.1", "localhost:7600", "[::1]:7600", "LOCALHOST", "runner.example:1"] {
            assert!(is_ours(&hosts, ours), "{ours}");
        }
        for not in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.",
            "[::2]",
            "::1",
            "localhost:evil",
            "user@localhost",
            "[::1]evil",
            "[",
            "127.0.0.2",
            "0.0.0.0",
        ] {
            assert!(!is_ours(&hosts, not), "{not}");
        }
    }

    fn check(method: &Method, path: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        map.insert("host", HeaderValue::from_static("127.0.0.1:7600"));
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.insert(name, HeaderValue::from_str(value).unwrap());
        }
        refusal(&[], method, &path.parse().unwrap(), &map).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn a_change_comes_from_the_page_itself_and_is_json() {
        let post = |headers: &[(&str, &str)]| check(&Method::POST, "/api/run/run/steer", headers);
        let json = ("content-type", "application/json");
        let own = ("origin", "http://127.0.0.1:7600");
        assert_eq!(post(&[json, own]), None);
        assert_eq!(post(&[json, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(post(&[json, own, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(post(&[json]), Some(403));
        assert_eq!(post(&[own]), Some(415));
        assert_eq!(post(&[("content-type", "text/plain"), own]), Some(415));
        assert_eq!(post(&[json, ("origin", "null")]), Some(403));
        assert_eq!(post(&[json, ("origin", "http://127.0.0.1:7601")]), Some(403));
        assert_eq!(post(&[json, own, ("sec-fetch-site", "same-site")]), Some(403));
        assert_eq!(check(&Method::DELETE, "/", &[]), Some(405));
        assert_eq!(check(&Method::OPTIONS, "/", &[own]), Some(405));
    }

    #[test]
    fn data_is_for_the_page_itself() {
        let get = |headers: &[(&str, &str)]| check(&Method::GET, "/api/run/run/events", headers);
        assert_eq!(get(&[]), None);
        assert_eq!(get(&[("sec-fetch-site", "same-origin")]), None);
        assert_eq!(get(&[("sec-fetch-site", "none")]), None);
        assert_eq!(get(&[("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(get(&[("sec-fetch-site", "same-site")]), Some(403));
        assert_eq!(get(&[("origin", "http://evil.example")]), Some(403));
        assert_eq!(check(&Method::GET, "/", &[("sec-fetch-site", "cross-site")]), None);
        assert_eq!(check(&Method::GET, "http://evil.example/api", &[]), Some(421));
    }
}
