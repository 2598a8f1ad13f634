//! A plan of one request, for whoever has a URL and no plan.

use std::path::PathBuf;
use std::time::Duration;

use crate::template::Template;
use crate::units::Wrong;
use crate::{
    Action, Body, Executor, HttpOptions, HttpVersion, Load, Plan, Rate, Request, Step, Workflow,
    mask_userinfo,
};

/// Enough to see something, too little to hurt.
const CONNECTIONS: u32 = 50;
const DURATION: Duration = Duration::from_secs(10);
/// A number of requests ends by itself; one that nobody answers must end too.
const REQUESTS_WITHIN: Duration = Duration::from_secs(3600);
/// A short test should end when it says.
const GRACEFUL_STOP_MAX: Duration = Duration::from_secs(2);

/// How much is sent; what is `None` has a safe default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QuickLoad {
    /// With a rate, the most that may be used.
    pub connections: Option<u32>,
    pub duration: Option<Duration>,
    /// Exactly so many, instead of a time.
    pub requests: Option<u64>,
    /// At an even pace.
    pub rate: Option<Rate>,
}

impl QuickLoad {
    fn executor(&self) -> Executor {
        let duration = self.duration.unwrap_or(DURATION);
        let vus = self.connections.unwrap_or(CONNECTIONS);
        match (self.rate, self.requests) {
            (Some(rate), _) => {
                let (vus, max_vus) = (None, self.connections);
                Executor::ConstantArrivalRate { rate, duration, vus, max_vus }
            }
            (None, Some(iterations)) => Executor::SharedIterations {
                vus: vus.min(u32::try_from(iterations).unwrap_or(u32::MAX)),
                iterations,
                max_duration: REQUESTS_WITHIN,
            },
            (None, None) => Executor::ConstantVus { vus, duration },
        }
    }
}

/// A plan that makes this request to `url`, over and over.
pub fn quick_plan(url: &str, request: Request, http: HttpOptions, load: &QuickLoad) -> Plan {
    let step = Step {
        name: format!("{} {}", request.method, mask_userinfo(url)),
        needs: None,
        when: None,
        when_text: None,
        action: Action::Request(Box::new(request)),
    };
    let load = Load {
        executor: load.executor(),
        start_after: Duration::ZERO,
        graceful_stop: GRACEFUL_STOP_MAX.min(http.timeout),
        warmup: None,
        pacing: None,
    };
    let unix = url.starts_with("unix:").then(|| Template::literal(url));
    let workflow = Workflow { steps: vec![step], ..Workflow::bare("quick", load, http.clone()) };
    Plan { target: unix, ..Plan::bare(mask_userinfo(url), http, vec![workflow]) }
}

/// `host:8080/x` is what people type.
pub fn absolute_url(url: &str) -> String {
    if url.contains("://") || url.starts_with("unix:") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

/// `auto`, `1.1` or `2`.
///
/// # Errors
/// If it is none of them.
pub fn http_version(text: &str) -> Result<HttpVersion, Wrong> {
    match text {
        "auto" => Ok(HttpVersion::Auto),
        "1" | "1.1" => Ok(HttpVersion::Http1),
        "2" => Ok(HttpVersion::Http2),
        _ => Err(Wrong::only("choose auto, 1.1 or 2")),
    }
}

/// A request as people write it for curl; braces and dollars in it mean themselves. Whoever gives a
/// body means POST, and a body that is JSON says so. A body that begins with `@` names a file.
///
/// # Errors
/// If a header has no colon: the header itself.
pub fn literal_request<'h>(
    url: &str,
    method: Option<&str>,
    headers: &'h [String],
    body: Option<&str>,
) -> Result<Request, BadHeader<'h>> {
    let mut pairs = Vec::new();
    for header in headers {
        let (name, value) = header.split_once(':').ok_or(BadHeader(header))?;
        pairs.push((name.trim().to_ascii_lowercase(), Template::literal(value.trim())));
    }
    let is_json = |text: &str| {
        text.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok()
    };
    let is_typed = pairs.iter().any(|(name, _)| name == "content-type");
    if body.is_some_and(is_json) && !is_typed {
        pairs.push(("content-type".to_owned(), Template::literal("application/json")));
    }
    let body = match body {
        None => Body::None,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => Body::File(PathBuf::from(path)),
            None => Body::Raw(Template::literal(text)),
        },
    };
    let usual = if matches!(body, Body::None) { "GET" } else { "POST" };
    Ok(Request {
        method: method.unwrap_or(usual).to_owned(),
        url: Template::literal(url),
        query: Vec::new(),
        headers: pairs,
        body,
        auth: None,
        timeout: None,
        redirects: None,
        tags: Vec::new(),
        extract: Vec::new(),
        checks: Vec::new(),
        record: Vec::new(),
        on_failure: None,
    })
}

/// A header that is not written as `Name: value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHeader<'h>(pub &'h str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_method_and_the_type_that_its_body_suggests() {
        for (body, headers, method, typed) in [
            (None, vec![], "GET", None),
            (Some("a=1"), vec![], "POST", None),
            (Some("{\"a\": 1}"), vec![], "POST", Some("application/json")),
            (Some("{a}"), vec![], "POST", None),
            (Some("[1]"), vec!["Content-Type: text/x".to_owned()], "POST", Some("text/x")),
        ] {
            let request = literal_request("http://h/", None, &headers, body).unwrap();
            assert_eq!(request.method, method, "{body:?}");
            let found = request.headers.iter().find(|(name, _)| name == "content-type");
            let expected = typed.map(Template::literal);
            assert_eq!(found.map(|(_, value)| value.clone()), expected, "{body:?}");
        }
        let file = literal_request("http://h/", Some("PUT"), &[], Some("@body.json")).unwrap();
        assert_eq!((file.method.as_str(), file.headers.len()), ("PUT", 0));
        assert!(matches!(file.body, Body::File(path) if path.ends_with("body.json")));
        let headers = ["nonsense".to_owned()];
        assert_eq!(literal_request("h", None, &headers, None).err(), Some(BadHeader("nonsense")));
    }

    #[test]
    fn a_short_test_is_safe_unless_it_is_told_otherwise() {
        let vus = |load: &QuickLoad| match load.executor() {
            Executor::ConstantVus { vus, .. } | Executor::SharedIterations { vus, .. } => vus,
            other => panic!("{other:?}"),
        };
        assert_eq!(vus(&QuickLoad::default()), CONNECTIONS);
        assert_eq!(vus(&QuickLoad { requests: Some(3), ..QuickLoad::default() }), 3);
        let rate = Rate { events: 5, per: DURATION };
        let open = QuickLoad { rate: Some(rate), ..QuickLoad::default() }.executor();
        let (duration, vus, max_vus) = (DURATION, None, None);
        assert_eq!(open, Executor::ConstantArrivalRate { rate, duration, vus, max_vus });
    }

    #[test]
    fn a_url_may_leave_its_scheme_out() {
        for (typed, url) in [
            ("h:80/x", "http://h:80/x"),
            ("https://h/", "https://h/"),
            ("unix:/a.sock", "unix:/a.sock"),
        ] {
            assert_eq!(absolute_url(typed), url);
        }
        assert!(http_version("3").is_err() && http_version("1.1").is_ok());
    }
}
