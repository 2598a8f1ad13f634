//! From a compiled request to the bytes on the wire.

use std::rc::Rc;

use url::Url;

use super::{Scratch, Vu};
use crate::program::{RequestProgram, TargetProgram, finish_head};
use client::{Failure, Origin, parse_url};

/// A request ready to go: in the scratch buffer, or fixed since the plan was compiled.
pub struct Rendered {
    pub origin: Rc<Origin>,
    /// Offset of the body; `None`: the program's fixed form is sent.
    pub body_at: Option<usize>,
}

/// A redirect's next hop.
pub struct Hop {
    pub url: Url,
    pub method: String,
    pub with_body: bool,
    /// The origin has changed, now or on the way here: credentials stay behind.
    pub foreign: bool,
}

impl Vu {
    /// The first request of a step.
    pub(super) fn render(
        &self,
        request: &RequestProgram,
        scratch: &mut Scratch,
    ) -> Result<Rendered, Failure> {
        scratch.url = None;
        match &request.target {
            TargetProgram::Known { origin, url, head } => {
                let origin = self.context.settings.origins.get(*origin);
                let cookies = self.cookie_header(request, scratch, || {
                    let text = url.to_bytes(&self.vars);
                    parse_url(None, &String::from_utf8_lossy(&text))
                })?;
                scratch.wire.clear();
                let plain = cookies.is_none() && self.proxy_authorization(&origin).is_none();
                if plain && request.fixed.is_some() {
                    return Ok(Rendered { origin, body_at: None });
                }
                head.render(&self.vars, &mut scratch.wire);
                let body_at = self.finish(request, &origin, scratch, cookies.as_deref(), true);
                Ok(Rendered { origin, body_at: Some(body_at) })
            }
            TargetProgram::Unknown { url } => {
                let text = url.to_bytes(&self.vars);
                let text = String::from_utf8_lossy(&text).into_owned();
                let url = crate::program::join(self.context.base_url.as_ref(), &text)?;
                let hop =
                    Hop { url, method: request.method.clone(), with_body: true, foreign: false };
                self.render_hop(request, &hop, scratch)
            }
        }
    }

    /// A request to a URL that was not known before.
    pub(super) fn render_hop(
        &self,
        request: &RequestProgram,
        hop: &Hop,
        scratch: &mut Scratch,
    ) -> Result<Rendered, Failure> {
        let origin = self.context.settings.origins.intern(&hop.url)?;
        let wire = &mut scratch.wire;
        wire.clear();
        wire.extend_from_slice(hop.method.as_bytes());
        wire.push(b' ');
        if self.context.settings.proxy.is_some() && !origin.tls {
            wire.extend_from_slice(format!("http://{}", origin.authority).as_bytes());
        }
        wire.extend_from_slice(hop.url.path().as_bytes());
        if let Some(query) = hop.url.query() {
            wire.push(b'?');
            wire.extend_from_slice(query.as_bytes());
        }
        wire.extend_from_slice(b" HTTP/1.1\r\n");
        // The step's own `host` is meant for the origin that the step names.
        let own_host = !hop.foreign && request.headers.iter().any(|(name, _)| name == "host");
        if !own_host {
            wire.extend_from_slice(format!("host: {}\r\n", origin.authority).as_bytes());
        }
        for (name, value) in &request.headers {
            let secret = matches!(&**name, "authorization" | "cookie");
            let about_body = name.starts_with("content-");
            let stays = secret || name == "host";
            if hop.foreign && stays || about_body && !hop.with_body {
                continue;
            }
            wire.extend_from_slice(name.as_bytes());
            wire.extend_from_slice(b": ");
            value.render(&self.vars, wire);
            wire.extend_from_slice(b"\r\n");
        }
        let cookies = self.cookie_header(request, scratch, || Ok(hop.url.clone()))?;
        scratch.url = Some(hop.url.clone());
        let body_at = self.finish(request, &origin, scratch, cookies.as_deref(), hop.with_body);
        Ok(Rendered { origin, body_at: Some(body_at) })
    }

    /// What the proxy wants to see with each plain request; through a tunnel it would reach the
    /// target, whom it does not concern.
    fn proxy_authorization(&self, origin: &Origin) -> Option<&str> {
        let proxy = self.context.settings.proxy.as_ref()?;
        let reads_requests = !origin.tls && origin.unix.is_none();
        proxy.authorization.as_deref().filter(|_| reads_requests)
    }

    fn finish(
        &self,
        request: &RequestProgram,
        origin: &Origin,
        scratch: &mut Scratch,
        cookies: Option<&str>,
        with_body: bool,
    ) -> usize {
        scratch.body.clear();
        if with_body {
            request.render_body(&self.vars, &mut scratch.body);
        }
        let wire = &mut scratch.wire;
        if let Some(cookies) = cookies {
            wire.extend_from_slice(b"cookie: ");
            wire.extend_from_slice(cookies.as_bytes());
            wire.extend_from_slice(b"\r\n");
        }
        if let Some(authorization) = self.proxy_authorization(origin) {
            wire.extend_from_slice(format!("proxy-authorization: {authorization}\r\n").as_bytes());
        }
        finish_head(wire, scratch.body.len(), with_body && request.sends_length());
        let body_at = wire.len();
        wire.extend_from_slice(&scratch.body);
        body_at
    }

    /// What the jar has for this request; nothing if the step sets the header itself.
    fn cookie_header(
        &self,
        request: &RequestProgram,
        scratch: &mut Scratch,
        url: impl FnOnce() -> Result<Url, Failure>,
    ) -> Result<Option<String>, Failure> {
        let jar = self.jar.borrow();
        if jar.is_empty() || request.headers.iter().any(|(name, _)| name == "cookie") {
            return Ok(None);
        }
        let url = url()?;
        let header = jar.header(&url);
        scratch.url = Some(url);
        Ok(header)
    }
}
