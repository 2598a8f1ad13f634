//! `volley URL`: a short, safe test, and a result of wrk's brevity.

use plan::quick::{self, BadHeader, QuickLoad, absolute_url, literal_request, quick_plan};
use plan::{HttpOptions, HttpVersion, Plan, Request};
use report::ExitCode;

use super::runner::{Style, run_plan, spare_inputs};
use crate::cli::QuickArgs;
use crate::failure::Failure;

pub fn quick(args: &QuickArgs) -> ExitCode {
    let Some(url) = &args.url else {
        return Failure::usage("a URL is needed; see `volley --help`").tell();
    };
    if let Some(problem) = not_a_url(url) {
        return Failure::usage(problem).tell();
    }
    tell_of_file(args.body.as_deref());
    match build(args, &absolute_url(url)) {
        Ok(plan) => {
            let body = args.body.as_deref().and_then(|body| body.strip_prefix('@'));
            let inputs: Vec<(std::path::PathBuf, String)> =
                body.map(|name| (name.into(), "the body".to_owned())).into_iter().collect();
            match spare_inputs(&args.output, &inputs).first() {
                Some(problem) => Failure::invalid(problem).tell(),
                None => run_plan(plan, None, &args.output, Style::Brief, None),
            }
        }
        Err(failure) => failure.tell(),
    }
}

/// A body that is the name of a file which is there: the text is sent, and not the file.
pub fn tell_of_file(body: Option<&str>) {
    let Some(name) = body.filter(|body| !body.starts_with('@') && body.len() < 200) else { return };
    if std::path::Path::new(name).is_file() {
        eprintln!(
            "volley: -b {name}: the text `{name}` is sent; the file of that name is `-b @{name}`"
        );
    }
}

/// What a newcomer may have meant instead.
fn not_a_url(text: &str) -> Option<String> {
    // vegeta's targets.
    if let Some((method, url)) = text.split_once(' ')
        && !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase())
    {
        let url = plan::mask_broken_url(url.trim());
        return Some(format!("the method stands by itself here: `volley -m {method} {url}`"));
    }
    if std::path::Path::new(text).is_file() {
        return Some(format!("`{text}` is a file, not a URL; `volley run {text}` runs it"));
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

fn build(args: &QuickArgs, url: &str) -> Result<Plan, Failure> {
    let http = HttpOptions {
        version: http_version(&args.http)?,
        timeout: args.timeout,
        tls: plan::TlsOptions { insecure: args.insecure, ..Default::default() },
        ..HttpOptions::default()
    };
    let load = QuickLoad {
        connections: args.connections,
        duration: args.duration,
        requests: args.requests,
        rate: args.rate,
    };
    let request = request(url, args.method.as_deref(), &args.headers, args.body.as_deref())?;
    Ok(quick_plan(url, request, http, &load))
}

pub fn http_version(text: &str) -> Result<HttpVersion, Failure> {
    quick::http_version(text).map_err(|wrong| Failure::usage(wrong).at(format!("--http {text}")))
}

/// A request from command-line arguments.
pub fn request(
    url: &str,
    method: Option<&str>,
    headers: &[String],
    body: Option<&str>,
) -> Result<Request, Failure> {
    literal_request(url, method, headers, body).map_err(|BadHeader(header)| {
        Failure::usage(format!("-H `{header}`: expected `Name: value`"))
    })
}
