//! Requests as templates of bytes (EXEC-20 to EXEC-27): what the plan fixes is rendered here, once.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use plan::template::{Escape, Part, Source, Template};
use plan::{Auth, Body, MultipartField, MultipartValue, OnFailure, Request, StatusRange};
use stats::{CheckLayout, StepLayout};
use url::Url;

use super::block::compile_records;
use super::check::{CheckProgram, Probe};
use super::extract::{ExtractFrom, ExtractProgram};
use super::workflow::Scope;
use super::{CompileError, Compiler};
use crate::text::Text;
use crate::vars::Vars;
use client::{Keep, ProxyRules, parse_url, render_authority, take_userinfo};

/// Between the parts of a multipart body; fixed, so that bodies can be rendered before the run.
const BOUNDARY: &str = "volley-7d1f3c5b9a2e4680";

pub struct RequestProgram {
    pub name: String,
    /// Number within the workflow.
    pub step: usize,
    pub method: String,
    pub head_only: bool,
    pub idempotent: bool,
    pub target: TargetProgram,
    /// Slots without a value of which the request cannot be made.
    pub needs: Vec<usize>,
    /// Names in lower case.
    pub headers: Vec<(String, Text)>,
    pub body: BodyProgram,
    /// The whole request, if nothing in it changes from one iteration to the next.
    pub fixed: Option<(Arc<[u8]>, usize)>,
    pub keep: Keep,
    pub timeout: Duration,
    pub redirects: u32,
    /// Tags whose values change.
    pub tags: Vec<(String, Text)>,
    pub extract: Vec<ExtractProgram>,
    pub checks: Vec<CheckProgram>,
    /// Statuses that are no failure; `None`: 200 to 399.
    pub expected: Option<Vec<StatusRange>>,
    pub record: Vec<(usize, Text)>,
    pub on_failure: OnFailure,
    pub status_slot: Option<usize>,
    pub body_slot: Option<usize>,
    pub latency_slot: Option<usize>,
}

pub enum TargetProgram {
    /// The origin is known: everything from the request line to the last header that the plan
    /// gives.
    Known { origin: usize, url: Text, head: Text },
    /// The URL is known only when it is rendered.
    Unknown { url: Text },
}

pub enum BodyProgram {
    None,
    Fixed(Arc<[u8]>),
    Text(Text),
}

impl RequestProgram {
    pub(super) fn compile(
        name: &str,
        request: &Request,
        scope: &mut Scope<'_, '_>,
    ) -> Result<RequestProgram, CompileError> {
        let http = scope.workflow.http.clone();
        let (body, content_type) = compile_body(&request.body, scope)?;
        let mut headers = compile_headers(request, content_type, &http, scope);
        let target = compile_target(request, &mut headers, &http, scope)?;
        let step = add_step(name, request, scope);
        let mut checks = Vec::new();
        for check in &request.checks {
            let first = scope.compiler.layout.workflows.last().map_or(0, |w| w.checks.end);
            let id = scope.compiler.layout.checks.len() - first;
            let name = check.name.clone();
            let step = scope.compiler.layout.steps.len() - 1;
            scope.compiler.layout.checks.push(CheckLayout { name, step });
            checks.push(CheckProgram::compile(check, id, scope));
        }
        let extract: Vec<_> =
            request.extract.iter().map(|one| ExtractProgram::compile(one, scope)).collect();
        let expected: Vec<_> = checks
            .iter()
            .filter_map(|check| match &check.probe {
                Probe::Status(ranges) => Some(ranges.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        let reads_cookie = extract.iter().any(|one| matches!(one.from, ExtractFrom::Cookie(_)));
        let redirects = request.redirects.unwrap_or(http.redirects);
        let keep = Keep {
            headers: checks.iter().any(CheckProgram::reads_headers)
                || extract.iter().any(ExtractProgram::reads_headers),
            body: checks.iter().any(CheckProgram::reads_body)
                || extract.iter().any(ExtractProgram::reads_body),
            cookies: http.cookies || reads_cookie,
            location: redirects > 0,
        };
        let record = compile_records(&request.record, scope);
        let tags = all_tags(request, scope)
            .into_iter()
            .filter(|(_, text)| text.constant().is_none())
            .collect();
        let mut program = RequestProgram {
            name: name.to_owned(),
            step,
            head_only: request.method == "HEAD",
            idempotent: matches!(&*request.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS"),
            method: request.method.clone(),
            target,
            needs: Vec::new(),
            headers,
            body,
            fixed: None,
            keep,
            timeout: request.timeout.unwrap_or(http.timeout),
            redirects,
            tags,
            extract,
            checks,
            expected: (!expected.is_empty()).then_some(expected),
            record,
            on_failure: request.on_failure.unwrap_or(scope.workflow.on_failure),
            status_slot: None,
            body_slot: None,
            latency_slot: None,
        };
        program.fixed = program.render_fixed();
        program.needs = program.slots_needed();
        Ok(program)
    }

    /// Whether the plan says this header; `name` in lower case.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }

    fn render_fixed(&self) -> Option<(Arc<[u8]>, usize)> {
        let TargetProgram::Known { head, .. } = &self.target else { return None };
        let mut wire = head.constant()?.to_vec();
        let body: &[u8] = match &self.body {
            BodyProgram::None => &[],
            BodyProgram::Fixed(bytes) => bytes,
            BodyProgram::Text(text) => text.constant()?,
        };
        finish_head(&mut wire, body.len(), self.sends_length());
        let body_at = wire.len();
        wire.extend_from_slice(body);
        Some((wire.into(), body_at))
    }

    fn slots_needed(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        match &self.target {
            TargetProgram::Known { url, .. } | TargetProgram::Unknown { url } => {
                url.needs(&mut slots);
            }
        }
        self.headers.iter().for_each(|(_, text)| text.needs(&mut slots));
        if let BodyProgram::Text(text) = &self.body {
            text.needs(&mut slots);
        }
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// A request with a method that may carry a body says its length even if it is zero.
    pub fn sends_length(&self) -> bool {
        !matches!(self.body, BodyProgram::None) || matches!(&*self.method, "POST" | "PUT" | "PATCH")
    }

    /// Appends the body and says how long it was.
    pub fn render_body(&self, vars: &Vars, out: &mut Vec<u8>) {
        match &self.body {
            BodyProgram::None => {}
            BodyProgram::Fixed(bytes) => out.extend_from_slice(bytes),
            BodyProgram::Text(text) => text.render(vars, out),
        }
    }
}

/// `content-length` and the empty line.
pub fn finish_head(wire: &mut Vec<u8>, body_length: usize, say_length: bool) {
    if say_length {
        // Writing to a vector cannot fail.
        let _ = write!(wire, "content-length: {body_length}\r\n");
    }
    wire.extend_from_slice(b"\r\n");
}

fn add_step(name: &str, request: &Request, scope: &mut Scope<'_, '_>) -> usize {
    let tags = all_tags(request, scope);
    let fixed = tags.iter().filter_map(|(key, text)| {
        let value = String::from_utf8_lossy(text.constant()?).into_owned();
        Some((key.clone(), crate::secrets::mask_userinfo(value)))
    });
    let layout = &mut scope.compiler.layout;
    let first = layout.workflows.last().map_or(0, |workflow| workflow.steps.end);
    layout.steps.push(StepLayout {
        name: format!("{}{name}", scope.prefix),
        workflow: scope.index,
        method: request.method.clone(),
        route: plan::mask_userinfo(&route(&request.url)).into_owned(),
        tags: fixed.collect(),
        when: scope.when.clone(),
    });
    layout.steps.len() - 1 - first
}

/// The URL as the plan wrote it, more or less: references stand for themselves.
fn route(url: &Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Reference(reference) => match &reference.source {
            Source::Variable(name) => format!("${{{name}}}"),
            Source::Data { set, column } => format!("${{data.{set}.{column}}}"),
            Source::Secret(name) => format!("${{secret.{name}}}"),
            _ => "${…}".to_owned(),
        },
    };
    url.parts.iter().map(part).collect()
}

/// The plan's, the workflow's and the step's own tags; the innermost wins.
fn all_tags(request: &Request, scope: &mut Scope<'_, '_>) -> Vec<(String, Text)> {
    let plan_tags = &scope.compiler.plan.tags;
    let mut all: Vec<(String, Text)> = Vec::new();
    for (key, template) in plan_tags.iter().chain(&scope.workflow.tags).chain(&request.tags) {
        all.retain(|(known, _)| known != key);
        all.push((key.clone(), Text::compile(template, scope)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn compile_body(
    body: &Body,
    scope: &mut Scope<'_, '_>,
) -> Result<(BodyProgram, Option<String>), CompileError> {
    let text = |text: Text| match text.constant() {
        Some(bytes) => BodyProgram::Fixed(bytes.into()),
        None => BodyProgram::Text(text),
    };
    Ok(match body {
        Body::None => (BodyProgram::None, None),
        Body::Json(template) => {
            let json = Text::compile(template, scope);
            (text(json), Some("application/json".to_owned()))
        }
        Body::Raw(template) => (text(Text::compile(template, scope)), None),
        Body::Form(fields) => {
            let form = compile_pairs(fields, scope);
            (text(form), Some("application/x-www-form-urlencoded".to_owned()))
        }
        Body::Multipart(fields) => {
            let multipart = compile_multipart(fields, scope)?;
            (text(multipart), Some(format!("multipart/form-data; boundary={BOUNDARY}")))
        }
        Body::File(path) => (BodyProgram::Fixed(read(path)?.into()), None),
    })
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, CompileError> {
    std::fs::read(path)
        .map_err(|error| CompileError(format!("cannot read {}: {error}", path.display())))
}

/// `a=1&b=2`, keys and values encoded.
fn compile_pairs(fields: &[(String, Template)], scope: &mut Scope<'_, '_>) -> Text {
    let mut out = Text::default();
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push_literal(b"&");
        }
        out.push_literal(Escape::Component.write_text(key).as_bytes());
        out.push_literal(b"=");
        out.push(&Text::compile(value, scope));
    }
    out
}

fn compile_multipart(
    fields: &[MultipartField],
    scope: &mut Scope<'_, '_>,
) -> Result<Text, CompileError> {
    let mut out = Text::default();
    let quoted = |text: &str| text.replace('"', "%22").replace(['\r', '\n'], " ");
    for field in fields {
        let mut head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{}\"",
            quoted(&field.name)
        );
        if let MultipartValue::File(path) = &field.value {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            head.push_str(&format!("; filename=\"{}\"", quoted(&name)));
        }
        let is_file = matches!(field.value, MultipartValue::File(_));
        let default = is_file.then(|| "application/octet-stream".to_owned());
        if let Some(content_type) = field.content_type.clone().or(default) {
            head.push_str(&format!("\r\ncontent-type: {content_type}"));
        }
        out.push_literal(head.as_bytes());
        out.push_literal(b"\r\n\r\n");
        match &field.value {
            MultipartValue::Text(template) => {
                out.push(&Text::compile(template, scope));
            }
            MultipartValue::File(path) => out.push_literal(&read(path)?),
        }
        out.push_literal(b"\r\n");
    }
    out.push_literal(format!("--{BOUNDARY}--\r\n").as_bytes());
    Ok(out)
}

/// Header lines: the step's own win over the workflow's, those over the plan's.
fn compile_headers(
    request: &Request,
    content_type: Option<String>,
    http: &plan::HttpOptions,
    scope: &mut Scope<'_, '_>,
) -> Vec<(String, Text)> {
    let mut lines: Vec<(String, Text)> = Vec::new();
    let set = |lines: &mut Vec<(String, Text)>, name: &str, text: Text| {
        lines.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        lines.push((name.to_ascii_lowercase(), text));
    };
    let agent = concat!("volley/", env!("CARGO_PKG_VERSION"));
    set(&mut lines, "user-agent", Text::literal(agent));
    if http.compression {
        set(&mut lines, "accept-encoding", Text::literal("gzip, deflate, br, zstd"));
    }
    if let Some(content_type) = content_type {
        set(&mut lines, "content-type", Text::literal(content_type));
    }
    let plan_headers = &scope.compiler.plan.headers;
    for (name, template) in
        plan_headers.iter().chain(&scope.workflow.headers).chain(&request.headers)
    {
        let text = Text::compile(template, scope);
        set(&mut lines, name, text);
    }
    if let Some(auth) = &request.auth {
        let mut compile = |template| Text::compile(template, scope);
        let (scheme, credentials) = match auth {
            Auth::Basic { user, password } => {
                ("Basic ", Text::basic(compile(user), compile(password)))
            }
            Auth::Bearer(token) => ("Bearer ", compile(token)),
        };
        let mut value = Text::literal(scheme);
        value.push(&credentials);
        set(&mut lines, "authorization", value);
    }
    if !http.keep_alive {
        set(&mut lines, "connection", Text::literal("close"));
    }
    lines
}

fn header_lines(headers: &[(String, Text)]) -> Text {
    let mut out = Text::default();
    for (name, value) in headers {
        out.push_literal(name.as_bytes());
        out.push_literal(b": ");
        out.push(value);
        out.push_literal(b"\r\n");
    }
    out
}

fn compile_target(
    request: &Request,
    headers: &mut Vec<(String, Text)>,
    http: &plan::HttpOptions,
    scope: &mut Scope<'_, '_>,
) -> Result<TargetProgram, CompileError> {
    let mut url = Text::compile(&request.url, scope);
    if !request.query.is_empty() {
        let has_query =
            request.url.parts.iter().any(|p| matches!(p, Part::Text(t) if t.contains('?')));
        url.push_literal(if has_query { b"&" } else { b"?" });
        url.push(&compile_pairs(&request.query, scope));
    }
    let Some((mut origin_url, path)) = split_origin(&request.url, &url, scope.compiler)? else {
        return Ok(TargetProgram::Unknown { url });
    };
    // A header of the plan's own wins over the user in its URL, as in curl and k6.
    if let Some(authorization) = take_userinfo(&mut origin_url)
        && !headers.iter().any(|(name, _)| name == "authorization")
    {
        headers.push(("authorization".to_owned(), Text::literal(authorization)));
    }
    let origin = scope.compiler.origin(&origin_url);
    if !scope.warm_origins.contains(&origin) {
        scope.warm_origins.push(origin);
    }
    let authority = render_authority(&origin_url);
    let mut head = Text::literal(format!("{} ", request.method));
    if ProxyRules::of_process(http.proxy.as_ref()).reads(&origin_url) {
        head.push_literal(format!("http://{authority}").as_bytes());
    }
    head.push(&path);
    head.push_literal(b" HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name == "host") {
        head.push_literal(format!("host: {authority}\r\n").as_bytes());
    }
    head.push(&header_lines(headers));
    let mut full = Text::literal(origin_url.origin().ascii_serialization());
    full.push(&path);
    Ok(TargetProgram::Known { origin, url: full, head })
}

/// The origin and the path after it, if the origin does not depend on the iteration.
fn split_origin(
    written: &Template,
    url: &Text,
    compiler: &Compiler<'_>,
) -> Result<Option<(Url, Text)>, CompileError> {
    let bad = |failure: client::Failure| CompileError(failure.message);
    if let Some(constant) = url.constant() {
        let text = String::from_utf8_lossy(constant);
        let url = join(compiler.base.as_ref(), &text).map_err(bad)?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        return Ok(Some((url, Text::literal(path))));
    }
    let Some(Part::Text(start)) = written.parts.first() else { return Ok(None) };
    if start.starts_with('/') && !start.starts_with("//") {
        let Some(base) = &compiler.base else { return Ok(None) };
        let prefix = base.path().trim_end_matches('/');
        let mut path = Text::literal(prefix);
        path.push(url);
        return Ok(Some((base.clone(), path)));
    }
    // `http://host/x/${id}`: the origin ends at the third slash.
    let Some(after) = start.find("://").map(|at| at + 3) else { return Ok(None) };
    let Some(slash) = start[after..].find('/').map(|at| at + after) else { return Ok(None) };
    let origin = parse_url(None, &start[..slash]).map_err(bad)?;
    Ok(Some((origin, url.without_prefix(slash))))
}

/// Paths are appended to the base's path, as a user expects of `target: http://host/api`.
pub fn join(base: Option<&Url>, text: &str) -> Result<Url, client::Failure> {
    match base {
        Some(base) if text.starts_with('/') && !text.starts_with("//") => {
            let prefix = base.path().trim_end_matches('/');
            parse_url(Some(base), &format!("{prefix}{text}"))
        }
        base => parse_url(base, text),
    }
}
