//! `volley URL`: a short, safe test, and a result of wrk's brevity.

use std::path::PathBuf;
use std::time::Duration;

use plan::template::Template;
use plan::{Action, Body, Executor, HttpOptions, HttpVersion, Load, Plan, Request, Step, Workflow};

use super::runner::{Style, run_plan};
use crate::cli::QuickArgs;
use crate::exit;

/// Enough to see something, too little to hurt.
const CONNECTIONS: u32 = 50;
const DURATION: Duration = Duration::from_secs(10);
/// A number of requests ends by itself; one that nobody answers must end too.
const REQUESTS_WITHIN: Duration = Duration::from_secs(3600);

pub fn quick(args: &QuickArgs) -> i32 {
    let Some(url) = &args.url else {
        eprintln!("volley: a URL is needed; see `volley --help`");
        return exit::USAGE;
    };
    if let Some(problem) = not_a_url(url) {
        eprintln!("volley: {problem}");
        return exit::USAGE;
    }
    match build(args, &absolute(url)) {
        Ok(plan) => run_plan(plan, &args.output, Style::Brief, None),
        Err(problem) => {
            eprintln!("volley: {problem}");
            exit::USAGE
        }
    }
}

/// `host:8080/x` is what people type.
pub fn absolute(url: &str) -> String {
    if url.contains("://") || url.starts_with("unix:") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

/// What a newcomer may have meant instead.
fn not_a_url(text: &str) -> Option<String> {
    if std::path::Path::new(text).is_file() {
        return Some(format!("`{text}` is a file, not a URL; `volley run {text}` runs a plan"));
    }
    if let Some((scheme, _)) = text.split_once("://")
        && !matches!(scheme, "http" | "https")
    {
        return Some(format!(
            "`{scheme}` is not a scheme that Volley speaks: http, https or unix:PATH"
        ));
    }
    let ending = text.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    if matches!(ending, "yaml" | "yml" | "toml" | "json") && !text.contains('/') {
        return Some(format!(
            "there is no file `{text}`; `volley new {text}` writes a plan to start from"
        ));
    }
    if matches!(ending, "js" | "ts" | "mjs" | "cjs" | "lua" | "py" | "jmx" | "scala") {
        return Some(format!(
            "there is no file `{text}`; `volley run FILE` runs a plan or a script"
        ));
    }
    // A host without a dot, a port or a path is a slip more often than a target.
    crate::habits::no_command(text)
}

fn build(args: &QuickArgs, url: &str) -> Result<Plan, String> {
    let http = HttpOptions {
        version: http_version(&args.http)?,
        timeout: args.timeout,
        tls: plan::TlsOptions { insecure: args.insecure, ..Default::default() },
        ..HttpOptions::default()
    };
    let duration = args.duration.unwrap_or(DURATION);
    let vus = args.connections.unwrap_or(CONNECTIONS);
    let executor = match (args.rate, args.requests) {
        (Some(rate), _) => {
            Executor::ConstantArrivalRate { rate, duration, vus: None, max_vus: args.connections }
        }
        (None, Some(iterations)) => Executor::SharedIterations {
            vus: vus.min(u32::try_from(iterations).unwrap_or(u32::MAX)),
            iterations,
            max_duration: REQUESTS_WITHIN,
        },
        (None, None) => Executor::ConstantVus { vus, duration },
    };
    let request = request(url, args.method.as_deref(), &args.headers, args.body.as_deref())?;
    let step = Step {
        name: format!("{} {}", request.method, plan::mask_userinfo(url)),
        needs: None,
        when: None,
        when_text: None,
        action: Action::Request(Box::new(request)),
    };
    let load = Load {
        executor,
        start_after: Duration::ZERO,
        // A short test should end when it says.
        graceful_stop: Duration::from_secs(2).min(args.timeout),
        warmup: None,
        pacing: None,
    };
    Ok(one_step_plan(url, http, load, step))
}

pub fn http_version(text: &str) -> Result<HttpVersion, String> {
    match text {
        "auto" => Ok(HttpVersion::Auto),
        "1" | "1.1" => Ok(HttpVersion::Http1),
        "2" => Ok(HttpVersion::Http2),
        other => Err(format!("--http {other}: choose auto, 1.1 or 2")),
    }
}

/// A request from command-line arguments; braces and dollars in them mean themselves. As people expect from curl,
/// whoever gives a body means POST; and a body that is JSON says so.
pub fn request(
    url: &str,
    method: Option<&str>,
    headers: &[String],
    body: Option<&str>,
) -> Result<Request, String> {
    let mut pairs = Vec::new();
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(format!("-H `{header}`: expected `Name: value`"));
        };
        pairs.push((name.trim().to_ascii_lowercase(), Template::literal(value.trim())));
    }
    let given = body;
    let body = match given {
        None => Body::None,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => Body::File(PathBuf::from(path)),
            None => Body::Raw(Template::literal(text)),
        },
    };
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let typed = pairs.iter().any(|(name, _)| name == "content-type");
    if given.is_some_and(|text| text.starts_with(['{', '[']) && is_json(text)) && !typed {
        pairs.push(("content-type".to_owned(), Template::literal("application/json")));
    }
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

fn one_step_plan(url: &str, http: HttpOptions, load: Load, step: Step) -> Plan {
    let unix = url.starts_with("unix:").then(|| Template::literal(url));
    let workflow = Workflow { steps: vec![step], ..Workflow::bare("quick", load, http.clone()) };
    Plan { target: unix, ..Plan::bare(plan::mask_userinfo(url), http, vec![workflow]) }
}
