//! From a compiled request to the bytes on the wire.

use std::rc::Rc;

use stats::ErrorKind;
use url::Url;

use super::{Scratch, Vu};
use crate::program::{RequestProgram, TargetProgram, finish_head};
use client::{Failure, Origin, parse_url, take_userinfo};

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
    /// What the user and the password of a URL have become, while they may be sent.
    pub authorization: Option<String>,
}

impl Vu {
    /// The first request of a step.
    pub(super) fn render(
        &self,
        request: &RequestProgram,
        scratch: &mut Scratch,
    ) -> Result<Rendered, Failure> {
        scratch.url = None;
        scratch.authorization = None;
        if let Some(&slot) = request.needs.iter().find(|&&slot| !self.vars.has(slot)) {
            scratch.wire.clear();
            scratch.body.clear();
            return Err(self.no_value(slot));
        }
        match &request.target {
            TargetProgram::Known { origin, url, head } => {
                let origin = self.context.settings.origins.get(*origin);
                let cookies = self.cookie_header(request, scratch, || {
                    let text = url.to_bytes(&self.vars);
                    parse_url(None, &String::from_utf8_lossy(&text))
                })?;
                scratch.wire.clear();
                let plain = cookies.is_none() && proxy_authorization(&origin).is_none();
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
                let mut url = crate::program::join(self.context.base_url.as_ref(), &text)?;
                let said = take_userinfo(&mut url);
                // A header of the plan's own wins.
                let authorization = said.filter(|_| !request.has_header("authorization"));
                let method = request.method.clone();
                let hop = Hop { url, method, with_body: true, foreign: false, authorization };
                self.render_hop(request, &hop, scratch)
            }
        }
    }

    /// Why a request cannot be made.
    fn no_value(&self, slot: usize) -> Failure {
        let workflow = self.context.workflow();
        let name = &workflow.slots[slot];
        let setter = workflow.extracted.iter().find(|(extracted, _)| *extracted == slot);
        let default = format!("`${{{name}:-x}}` would have a default");
        let layout = &self.context.program.layout;
        let own = layout.steps[layout.workflows[workflow.index].steps.clone()].iter();
        let condition = |step: &String| {
            let found = own.clone().find(|other| other.name == *step)?;
            found.when.first().cloned()
        };
        let why = match setter.map(|(_, step)| (step, condition(step))) {
            Some((step, Some(when))) => format!(
                "the step `{step}` was skipped (`when: {when}`) or has not found it. Variables last one \
                 iteration: what is needed once for each user belongs into `vu_setup`; {default}"
            ),
            Some((step, None)) => format!(
                "the step `{step}`, which sets it, has not run in this iteration (another branch of `choose`, a \
                 step before it that failed) or has not found it; {default}"
            ),
            None => format!("nothing has set it; {default}"),
        };
        Failure::new(ErrorKind::NoValue, format!("not sent: `${{{name}}}` has no value, {why}"))
    }

    /// A request to a URL that was not known before.
    pub(super) fn render_hop(
        &self,
        request: &RequestProgram,
        hop: &Hop,
        scratch: &mut Scratch,
    ) -> Result<Rendered, Failure> {
        let origin = self.context.settings.origins.intern(&hop.url)?;
        scratch.authorization.clone_from(&hop.authorization);
        let wire = &mut scratch.wire;
        wire.clear();
        wire.extend_from_slice(hop.method.as_bytes());
        wire.push(b' ');
        if origin.reader().is_some() {
            wire.extend_from_slice(format!("http://{}", origin.authority).as_bytes());
        }
        wire.extend_from_slice(hop.url.path().as_bytes());
        if let Some(query) = hop.url.query() {
            wire.push(b'?');
            wire.extend_from_slice(query.as_bytes());
        }
        wire.extend_from_slice(b" HTTP/1.1\r\n");
        // The step's own `host` is meant for the origin that the step names.
        let own_host = !hop.foreign && request.has_header("host");
        if !own_host {
            wire.extend_from_slice(format!("host: {}\r\n", origin.authority).as_bytes());
        }
        for (name, value) in &request.headers {
            let secret = matches!(&**name, "authorization" | "cookie");
            let about_body = name.starts_with("content-");
            let stays = secret || name == "host";
            let replaced = name == "authorization" && hop.authorization.is_some();
            if replaced || hop.foreign && stays || about_body && !hop.with_body {
                continue;
            }
            wire.extend_from_slice(name.as_bytes());
            wire.extend_from_slice(b": ");
            value.render(&self.vars, wire);
            wire.extend_from_slice(b"\r\n");
        }
        if let Some(authorization) = &hop.authorization {
            wire.extend_from_slice(format!("authorization: {authorization}\r\n").as_bytes());
        }
        let cookies = self.cookie_header(request, scratch, || Ok(hop.url.clone()))?;
        scratch.url = Some(hop.url.clone());
        let body_at = self.finish(request, &origin, scratch, cookies.as_deref(), hop.with_body);
        Ok(Rendered { origin, body_at: Some(body_at) })
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
        if let Some(authorization) = proxy_authorization(origin) {
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
        if jar.is_empty() || request.has_header("cookie") {
            return Ok(None);
        }
        let url = url()?;
        let header = jar.header(&url);
        scratch.url = Some(url);
        Ok(header)
    }
}

/// What the proxy wants to see with each plain request; through a tunnel it would reach the target,
/// whom it does not concern.
fn proxy_authorization(origin: &Origin) -> Option<&str> {
    origin.reader()?.authorization.as_deref()
}
