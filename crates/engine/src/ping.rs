//! One request, shown in full: phases, headers, TLS, the beginning of the body.

use base::clock;
use permit::SendControl;
use std::fmt::Write;
use std::rc::Rc;

use plan::{Body, HttpOptions, Request};

use crate::program::finish_head;
use crate::secrets::Secrets;
use crate::trace;
use client::Deadlines;
use client::{
    Client, Keep, OriginTable, Outgoing, Progress, Response, Settings, decode_body, parse_url,
    take_userinfo,
};

pub struct Pong {
    pub status: u16,
    pub text: String,
}

/// Redirects are shown, not followed.
pub fn ping(http: &HttpOptions, request: &Request) -> Result<Pong, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    tokio::task::LocalSet::new().block_on(&runtime, exchange(http, request))
}

async fn exchange(http: &HttpOptions, request: &Request) -> Result<Pong, String> {
    let url = request.url.as_literal().unwrap_or_default();
    let mut url = parse_url(None, url).map_err(|failure| failure.message)?;
    let authorization = take_userinfo(&mut url);
    let origins = Rc::new(OriginTable::new(http, None));
    let origin = origins.intern(&url).map_err(|failure| failure.message)?;
    let before = clock::now();
    origins.resolve(&origin).await.map_err(|failure| failure.to_string())?;
    let resolving = clock::now().nanos_since(before);
    let tls = Default::default();
    let settings =
        Rc::new(Settings { http: http.clone(), tls, origins, send_control: SendControl::free() });
    let client = Client::new(settings, None);
    client.keep_tls_descriptions();
    let deadlines = Rc::new(Deadlines::default());
    tokio::task::spawn_local(deadlines.clone().sweep_every(std::time::Duration::from_millis(5)));
    let deadline = deadlines.slot();
    deadline.arm(clock::now().after(http.timeout));

    let (wire, body_at) = render(&url, authorization.as_deref(), request)?;
    let keep = Keep { headers: true, body: true, cookies: false, location: false };
    let out = Outgoing {
        origin: &origin,
        wire: &wire,
        body_at,
        head_only: request.method == "HEAD",
        idempotent: false,
        keep,
    };
    let (mut response, progress) = (Response::default(), Progress::default());
    let mut result = client.exchange(out, &deadline, &mut response, &progress).await;
    if let (Ok(()), Some(encoding)) = (&result, response.encoding.take()) {
        result = decode_body(&encoding, &mut response.body, http.body_limit);
    }
    let mut text = String::new();
    let addresses: Vec<_> = origin.addresses().iter().map(ToString::to_string).collect();
    let ms = resolving as f64 / 1e6;
    let _ = writeln!(text, "{} is {} (resolved in {ms:.3} ms)", origin.host, addresses.join(", "));
    if let Some(session) = client.tls_description(&origin) {
        let _ = writeln!(text, "{session}");
    }
    text.push_str(&trace::exchange(
        url.as_str(),
        &wire,
        body_at,
        &response,
        &progress,
        result.as_ref().err(),
        &Secrets::default(),
    ));
    match result {
        Ok(()) => Ok(Pong { status: response.status, text }),
        Err(_) => Err(text.trim_end().to_owned()),
    }
}

fn render(
    url: &url::Url,
    authorization: Option<&str>,
    request: &Request,
) -> Result<(Vec<u8>, usize), String> {
    let body = match &request.body {
        Body::None => Vec::new(),
        Body::Raw(template) => template.as_literal().unwrap_or_default().as_bytes().to_vec(),
        Body::File(path) => std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        _ => return Err("only plain bodies can be pinged".to_owned()),
    };
    let mut head = format!("{} {}", request.method, url.path());
    if let Some(query) = url.query() {
        let _ = write!(head, "?{query}");
    }
    let authority = client::render_authority(url);
    let agent = concat!("volley/", env!("CARGO_PKG_VERSION"));
    let _ =
        write!(head, " HTTP/1.1\r\nhost: {authority}\r\nuser-agent: {agent}\r\naccept: */*\r\n");
    for (name, value) in &request.headers {
        let _ = write!(head, "{name}: {}\r\n", value.as_literal().unwrap_or_default());
    }
    // A header of one's own wins over the user in the URL, as in curl.
    let says_own = request.headers.iter().any(|(name, _)| name == "authorization");
    if let Some(authorization) = authorization.filter(|_| !says_own) {
        let _ = write!(head, "authorization: {authorization}\r\n");
    }
    let mut wire = head.into_bytes();
    let say_length = !matches!(request.body, Body::None) || request.method == "POST";
    finish_head(&mut wire, body.len(), say_length);
    let body_at = wire.len();
    wire.extend_from_slice(&body);
    Ok((wire, body_at))
}
