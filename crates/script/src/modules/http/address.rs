//! URLs the way k6 reads them: what a script writes is what is sent. A general URL parser would
//! resolve `..` and escape characters on the way, and the target would see other paths than k6
//! shows it.

use std::cell::OnceCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

use client::{Origin, OriginTable};
use url::Url;

use super::trouble::{INVALID_URL, Trouble};

/// One URL of a script, taken apart once.
pub struct Address {
    /// As it was written.
    pub text: Rc<str>,
    /// As it is shown: without name and password.
    pub shown: Rc<str>,
    pub scheme: Box<str>,
    /// Value of the `Host` header.
    pub authority: Box<str>,
    /// Path and query, as they are sent.
    pub target: Box<str>,
    pub user: Option<(String, String)>,
    /// Name and password as they were written, with the `@`; or nothing.
    credentials: Box<str>,
    /// `Err`: there is nobody that could be asked; the request fails when it is sent.
    pub origin: Result<Rc<Origin>, Trouble>,
    /// For cookies, which have their own idea of hosts and paths.
    url: OnceCell<Option<Url>>,
    /// A plain GET of it, rendered.
    pub plain: OnceCell<Rc<[u8]>>,
}

impl Address {
    pub fn parse(origins: &OriginTable, text: &str) -> Result<Address, Trouble> {
        let parts = split(text)?;
        let authority = match parts.port {
            "" => parts.host.to_owned(),
            port => format!("{}:{port}", parts.host),
        };
        let shown: Rc<str> = match parts.user {
            Some(user) => {
                let mask = if user.contains(':') { "****:****" } else { "****" };
                text.replacen(user, mask, 1).into()
            }
            None => text.into(),
        };
        let mut target = escape_path(parts.path);
        if target.is_empty() {
            target.push('/');
        }
        if let Some(query) = parts.query {
            target.push('?');
            target.push_str(query);
        }
        let origin = origin(origins, &parts, &authority);
        // A name that is not ASCII is asked for, and announced, in its ASCII form.
        let authority = match &origin {
            Ok(origin) if !authority.is_ascii() => origin.authority.clone(),
            _ => authority,
        };
        let user = parts.user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (unescape(name), unescape(password))
        });
        Ok(Address {
            text: text.into(),
            shown,
            scheme: parts.scheme.to_ascii_lowercase().into(),
            authority: authority.into(),
            target: target.into(),
            user,
            credentials: parts.user.map_or_else(String::new, |user| format!("{user}@")).into(),
            origin,
            url: OnceCell::new(),
            plain: OnceCell::new(),
        })
    }

    /// Where a `Location` leads from here.
    pub fn follow(&self, origins: &OriginTable, location: &str) -> Result<Address, Trouble> {
        let absolute = self.resolve(location);
        Address::parse(origins, &absolute)
    }

    fn resolve(&self, location: &str) -> String {
        let has_scheme = location.find(':').is_some_and(|colon| {
            let scheme = &location[..colon];
            !scheme.is_empty()
                && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
        if has_scheme {
            return location.to_owned();
        }
        if location.starts_with("//") {
            return format!("{}:{location}", self.scheme);
        }
        let path = self.target.split('?').next().unwrap_or("/");
        let (relative, query) = match location.find(['?', '#']) {
            Some(at) => location.split_at(at),
            None => (location, ""),
        };
        let joined = match relative {
            "" => path.to_owned(),
            _ if relative.starts_with('/') => without_dots(relative),
            _ => {
                let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
                without_dots(&format!("{folder}{relative}"))
            }
        };
        // The same place is asked under the same name.
        let Address { scheme, credentials, authority, .. } = self;
        format!("{scheme}://{credentials}{authority}{joined}{query}")
    }

    pub fn url(&self) -> Option<&Url> {
        let parse = || {
            let plain = format!("{}://{}{}", self.scheme, self.authority, self.target);
            Url::parse(&plain).ok()
        };
        self.url.get_or_init(parse).as_ref()
    }

    /// `scheme://host/path` without name, password and fragment: what a `Referer` may say.
    pub fn referer(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.target)
    }

    pub fn host(&self) -> &str {
        match self.authority.rfind(':') {
            Some(colon) if !self.authority[colon..].contains(']') => &self.authority[..colon],
            _ => &self.authority,
        }
    }
}

struct Parts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    port: &'a str,
    path: &'a str,
    query: Option<&'a str>,
}

fn split(text: &str) -> Result<Parts<'_>, Trouble> {
    let bad = |why: &str| {
        let shown = plan::mask_userinfo(text);
        Trouble::refused(INVALID_URL, format!("invalid URL: parse {shown:?}: {why}"))
    };
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(bad("net/url: invalid control character in URL"));
    }
    let rest = text.split('#').next().unwrap_or_default();
    let (scheme, rest) = scheme(rest).map_err(bad)?;
    let (rest, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let (host, port) = host_and_port(host).map_err(|why| bad(&why))?;
    for part in [path, user.unwrap_or_default()] {
        if let Some(escape) = bad_escape(part) {
            return Err(bad(&format!("invalid URL escape {escape:?}")));
        }
    }
    Ok(Parts { scheme, user, host, port, path, query })
}

fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    let Some(colon) = text.find(':') else { return Ok(("", text)) };
    let scheme = &text[..colon];
    if scheme.is_empty() {
        return Err("missing protocol scheme");
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.as_bytes()[0].is_ascii_alphabetic() && scheme.bytes().all(known) {
        return Ok((scheme, &text[colon + 1..]));
    }
    match text.find('/') {
        Some(slash) if slash < colon => Ok(("", text)),
        _ => Err("first path segment in URL cannot contain colon"),
    }
}

fn host_and_port(text: &str) -> Result<(&str, &str), String> {
    let colon = if text.starts_with('[') {
        let Some(close) = text.find(']') else { return Err("missing ']' in host".to_owned()) };
        if !text[close + 1..].is_empty() && !text[close + 1..].starts_with(':') {
            return Err(format!("invalid port {:?} after host", &text[close + 1..]));
        }
        text[close..].find(':').map(|colon| close + colon)
    } else {
        text.rfind(':')
    };
    let Some(colon) = colon else { return host_only(text).map(|host| (host, "")) };
    let port = &text[colon + 1..];
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("invalid port {:?} after host", &text[colon..]));
    }
    Ok((host_only(&text[..colon])?, port))
}

fn host_only(host: &str) -> Result<&str, String> {
    match host.chars().find(|c| " <>\"\\^`{|}".contains(*c)) {
        Some(c) => Err(format!("invalid character {:?} in host name", c.to_string())),
        None => Ok(host),
    }
}

fn bad_escape(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = text[from..].find('%').map(|at| from + at) {
        let digits = bytes.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let mut end = (at + 3).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            return Some(&text[at..end]);
        }
        from = at + 3;
    }
    None
}

/// Who is to be asked.
fn origin(
    origins: &OriginTable,
    parts: &Parts<'_>,
    authority: &str,
) -> Result<Rc<Origin>, Trouble> {
    let scheme = parts.scheme.to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        return Err(Trouble::general(format!("unsupported protocol scheme {scheme:?}")));
    }
    if parts.host.is_empty() {
        return Err(Trouble::general("http: no Host in request URL".to_owned()));
    }
    if !parts.port.is_empty() && parts.port.parse::<u16>().is_err() {
        return Err(Trouble::dial(format!("address {}: invalid port", parts.port)));
    }
    let inside = parts.host.trim_start_matches('[').trim_end_matches(']');
    if parts.host.starts_with('[') && inside.parse::<Ipv6Addr>().is_err() {
        return Err(Trouble::dial(format!("address {authority}: invalid IPv6 address")));
    }
    let parsed = Url::parse(&format!("{scheme}://{authority}/"))
        .map_err(|error| Trouble::general(format!("{authority}: {error}")))?;
    origins.intern(&parsed).map_err(|failure| Trouble::general(failure.message))
}

/// Escapes what a path may not hold, and leaves all else as it is.
fn escape_path(path: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte);
    if path.bytes().all(fits) {
        return path.to_owned();
    }
    let mut out = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        match fits(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Takes `.` and `..` out of a path (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins() -> OriginTable {
        OriginTable::new(&plan::HttpOptions::default(), None)
    }

    /// What k6 v1.1.0 was seen to send.
    #[test]
    fn what_is_written_is_what_is_sent() {
        for (text, authority, target) in [
            ("http://h", "h", "/"),
            ("http://h:80?x", "h:80", "/?x"),
            ("http://h/echo?a b=c d", "h", "/echo?a b=c d"),
            ("http://h/echo/../echo?a|b\"c<d>[e]{f}^`", "h", "/echo/../echo?a|b\"c<d>[e]{f}^`"),
            ("http://h/a b/é?é", "h", "/a%20b/%C3%A9?é"),
            ("http://h/a%2Fb#frag", "h", "/a%2Fb"),
            ("HTTP://u:p@Host:81/x", "Host:81", "/x"),
            ("http://[::1]:90/x", "[::1]:90", "/x"),
        ] {
            let address = Address::parse(&origins(), text).unwrap();
            assert!(address.origin.is_ok(), "{text}");
            assert_eq!((&*address.authority, &*address.target), (authority, target), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_and_what_cannot_be_asked_fails_later() {
        for (text, error) in [
            ("::bad", "invalid URL: parse \"::bad\": missing protocol scheme"),
            (
                " http://127.0.0.1/",
                "invalid URL: parse \" http://127.0.0.1/\": first path segment in URL cannot contain \
                 colon",
            ),
            ("http://[::1/", "invalid URL: parse \"http://[::1/\": missing ']' in host"),
            ("http://h/%zz", "invalid URL: parse \"http://h/%zz\": invalid URL escape \"%zz\""),
        ] {
            let trouble = Address::parse(&origins(), text).err().unwrap();
            assert_eq!((trouble.code, &*trouble.text), (1020, error), "{text}");
        }
        for (text, code, error) in [
            ("", 1000, "unsupported protocol scheme \"\""),
            ("/x", 1000, "unsupported protocol scheme \"\""),
            ("ftp://x/", 1000, "unsupported protocol scheme \"ftp\""),
            ("http:///x", 1000, "http: no Host in request URL"),
            ("http://127.0.0.1:99999/", 1210, "dial tcp: address 99999: invalid port"),
        ] {
            let trouble = Address::parse(&origins(), text).unwrap().origin.unwrap_err();
            assert_eq!((trouble.code, &*trouble.text), (code, error), "{text}");
        }
    }

    #[test]
    fn a_location_leads_on_from_where_it_was_said() {
        let origins = origins();
        let from = Address::parse(&origins, "http://u:p@h:8080/a/b?q").unwrap();
        for (location, expected) in [
            ("http://other/x", "http://other/x"),
            ("//other/x", "http://other/x"),
            ("/x?y", "http://u:p@h:8080/x?y"),
            ("c", "http://u:p@h:8080/a/c"),
            ("../c/./d", "http://u:p@h:8080/c/d"),
            ("?z", "http://u:p@h:8080/a/b?z"),
            ("..", "http://u:p@h:8080/"),
            ("", "http://u:p@h:8080/a/b"),
        ] {
            assert_eq!(&*from.follow(&origins, location).unwrap().text, expected, "{location}");
        }
        assert_eq!(&*from.shown, "http://****:****@h:8080/a/b?q");
        assert_eq!(from.user, Some(("u".to_owned(), "p".to_owned())));
    }
}
