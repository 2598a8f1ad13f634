//! One exchange's bytes: the request of a script, or what a redirect makes of it.

use std::borrow::Cow;
use std::io::Write;
use std::rc::Rc;

use base64::Engine as _;
use client::Origin;

use super::address::Address;
use super::cookies::header_value;
use super::request::Request;
use crate::host::Host;

/// Where the next exchange goes, and as what.
pub struct Hop {
    pub address: Rc<Address>,
    pub method: Cow<'static, str>,
    with_body: bool,
    /// The host has changed, now or before: credentials stay behind.
    foreign: bool,
    /// The script's own `Host` header is meant for this one, too.
    own_host: bool,
    referer: Option<String>,
    /// An answer to a challenge.
    pub authorization: Option<String>,
    /// What stands for the URL in tags, if not what the script wrote: a request that is to be
    /// challenged goes without its name and password.
    bare: Option<String>,
}

impl Hop {
    pub fn first(request: &Request) -> Hop {
        Hop {
            address: request.address.clone(),
            method: request.method.clone(),
            with_body: true,
            foreign: false,
            own_host: true,
            referer: None,
            authorization: None,
            bare: request.digest.then(|| request.address.referer()),
        }
    }

    /// The URL as tags have it.
    pub fn shown(&self) -> &str {
        self.bare.as_deref().unwrap_or(&self.address.shown)
    }

    pub fn redirected(
        &self,
        request: &Request,
        status: u16,
        there: Address,
        location: &str,
    ) -> Hop {
        let keeps = matches!(status, 307 | 308);
        let method = match &*self.method {
            "GET" | "HEAD" => self.method.clone(),
            _ if keeps => self.method.clone(),
            _ => Cow::Borrowed("GET"),
        };
        let same = |address: &Address| {
            let (first, now) = (request.address.host(), address.host());
            now.eq_ignore_ascii_case(first)
                || now.len() > first.len()
                    && now[now.len() - first.len()..].eq_ignore_ascii_case(first)
                    && now.as_bytes()[now.len() - first.len() - 1] == b'.'
        };
        let to_plain = &*self.address.scheme == "https" && &*there.scheme == "http";
        Hop {
            foreign: self.foreign || !same(&there),
            address: Rc::new(there),
            method,
            with_body: self.with_body && keeps,
            own_host: self.own_host && !location.contains("//"),
            referer: (!to_plain).then(|| self.address.referer()),
            authorization: None,
            bare: None,
        }
    }

    pub fn body<'a>(&self, request: &'a Request) -> Option<&'a [u8]> {
        request.body.as_deref().filter(|_| self.with_body)
    }
}

pub struct Rendered {
    /// The bytes, if they were rendered before; else they are in the buffer.
    pub plain: Option<Rc<[u8]>>,
    pub body_at: usize,
    /// The header `Cookie`, if one was sent.
    pub cookie: Option<String>,
}

pub fn render(
    host: &Host,
    request: &Request,
    hop: &Hop,
    origin: &Rc<Origin>,
    wire: &mut Vec<u8>,
) -> Rendered {
    let jar = request.jar.as_ref().unwrap_or(&host.jar);
    let plain = hop.method == "GET"
        && request.headers.is_empty()
        && request.body.is_none()
        && request.cookies.is_empty()
        && hop.referer.is_none()
        && hop.authorization.is_none()
        && !request.digest
        && jar.borrow().is_empty();
    if plain {
        let address = &hop.address;
        let rendered = address.plain.get_or_init(|| {
            wire.clear();
            write_head(host, request, hop, origin, None, wire);
            wire.as_slice().into()
        });
        let body_at = rendered.len();
        return Rendered { plain: Some(rendered.clone()), body_at, cookie: None };
    }
    let cookie = cookie(host, request, hop);
    wire.clear();
    write_head(host, request, hop, origin, cookie.as_deref(), wire);
    let body_at = wire.len();
    wire.extend_from_slice(hop.body(request).unwrap_or_default());
    Rendered { plain: None, body_at, cookie }
}

/// The script's header, its `cookies`, the jar's, in this order.
fn cookie(host: &Host, request: &Request, hop: &Hop) -> Option<String> {
    let mut text = String::new();
    let mut add = |pair: &str| {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(pair);
    };
    if !hop.foreign {
        if let Some(own) = request.header("Cookie") {
            add(own);
        }
        for cookie in &request.cookies {
            add(&format!("{}={}", cookie.name, header_value(&cookie.value)));
        }
    }
    let jar = request.jar.as_ref().unwrap_or(&host.jar).borrow();
    if !jar.is_empty()
        && let Some(url) = hop.address.url()
    {
        for (name, value) in jar.pairs(url) {
            let replaced = request.cookies.iter().any(|own| own.replace && own.name == name);
            if !replaced {
                add(&format!("{name}={}", header_value(&value)));
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

fn write_head(
    host: &Host,
    request: &Request,
    hop: &Hop,
    origin: &Origin,
    cookie: Option<&str>,
    wire: &mut Vec<u8>,
) {
    let settings = &host.setup.settings;
    let address = &hop.address;
    let proxied = origin.reader();
    let own_host = request.header("Host").filter(|host| hop.own_host && !host.is_empty());
    let authority = own_host.unwrap_or(&address.authority);
    let line = |name: &str, value: &str, wire: &mut Vec<u8>| {
        for part in [name, ": ", value, "\r\n"] {
            wire.extend_from_slice(part.as_bytes());
        }
    };
    wire.extend_from_slice(hop.method.as_bytes());
    wire.push(b' ');
    if proxied.is_some() {
        wire.extend_from_slice(b"http://");
        wire.extend_from_slice(address.authority.as_bytes());
    }
    wire.extend_from_slice(address.target.as_bytes());
    wire.extend_from_slice(b" HTTP/1.1\r\n");
    line("Host", authority, wire);
    let agent = request.header("User-Agent").unwrap_or(&host.script().rules().user_agent);
    if !agent.is_empty() {
        line("User-Agent", agent, wire);
    }
    let body = hop.body(request);
    let says_length = body.is_some_and(|body| !body.is_empty())
        || matches!(&*hop.method, "POST" | "PUT" | "PATCH");
    if says_length {
        // Writing to a vector cannot fail.
        let _ = write!(wire, "Content-Length: {}\r\n", body.map_or(0, <[u8]>::len));
    }
    let basic = (!hop.foreign).then(|| authorization(request, hop)).flatten();
    let close = !settings.http.keep_alive;
    let extra = [
        ("Authorization", basic.as_deref()),
        ("Connection", close.then_some("close")),
        ("Cookie", cookie),
        ("Proxy-Authorization", proxied.and_then(|proxy| proxy.authorization.as_deref())),
        ("Referer", hop.referer.as_deref()),
    ];
    let own = request.headers.iter().filter(|(name, _)| !hop.drops(name));
    let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
    let extra = extra.into_iter().filter_map(|(name, value)| Some((name, value?)));
    // The script's own word counts, except for cookies, which were put together with it.
    let extra: Vec<_> = extra
        .filter(|(name, _)| *name == "Cookie" || !own.clone().any(|(known, _)| known == *name))
        .collect();
    if extra.is_empty() {
        for (name, value) in own {
            line(name, value, wire);
        }
    } else {
        let mut all: Vec<_> = own.chain(extra).collect();
        all.sort_by_key(|(name, _)| *name);
        for (name, value) in all {
            line(name, value, wire);
        }
    }
    wire.extend_from_slice(b"\r\n");
}

fn authorization(request: &Request, hop: &Hop) -> Option<String> {
    if hop.authorization.is_some() || request.digest {
        return hop.authorization.clone();
    }
    let (user, password) = hop.address.user.as_ref()?;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    Some(format!("Basic {pair}"))
}

impl Hop {
    /// Headers of the script that are not sent as they are.
    fn drops(&self, name: &str) -> bool {
        match name {
            "Host" | "User-Agent" | "Content-Length" | "Transfer-Encoding" | "Cookie" => true,
            "Authorization" | "Www-Authenticate" => self.foreign,
            _ => false,
        }
    }
}
