//! What a script asks for, taken out of its arguments. Nothing in here refers to JavaScript any
//! more, so that a request can be sent while the script goes on.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use client::Jar;
use rquickjs::{Class, Coerced, Ctx, Object, Value};

use super::address::Address;
use super::body::{self, Body};
use super::cookies::CookieJar;
use super::duration::parse_timeout;
use super::hints;
use super::judge::Judge;
use super::trouble::{INVALID_URL, Trouble};
use crate::host::Host;
use crate::modules::bytes::{kind, with_bytes};
use crate::modules::tag_value;

const TIMEOUT: Duration = Duration::from_secs(60);
/// URLs that a virtual user is remembered to have asked for. Scripts that make up new ones all the
/// time must not fill the memory.
const KNOWN_ADDRESSES_MAX: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseType {
    Text,
    Binary,
    None,
}

/// A cookie of `params.cookies`.
pub struct OwnCookie {
    pub name: String,
    pub value: String,
    /// In place of the jar's cookie of that name, not beside it.
    pub replace: bool,
}

pub struct Request {
    pub method: Cow<'static, str>,
    pub address: Rc<Address>,
    /// `http.url` or `tags.name`: stands for the URL in tags.
    pub name: Option<Arc<str>>,
    /// Names as Go writes them (`Content-Type`), sorted, each once.
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub timeout: Duration,
    pub redirects: Option<u32>,
    pub jar: Option<Rc<RefCell<Jar>>>,
    pub cookies: Vec<OwnCookie>,
    pub tags: Vec<(Arc<str>, Arc<str>)>,
    pub response_type: ResponseType,
    pub digest: bool,
    pub judge: Judge,
    /// A failure throws.
    pub throw: bool,
    /// It can be said already that this cannot be sent.
    pub broken: Option<Trouble>,
}

/// Why there is no request.
pub enum Refusal {
    /// The script's own code threw while it was asked for a value.
    Thrown(rquickjs::Error),
    Bad(Trouble),
}

impl From<rquickjs::Error> for Refusal {
    fn from(error: rquickjs::Error) -> Refusal {
        Refusal::Thrown(error)
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        Refusal::Bad(trouble)
    }
}

fn wrong(text: impl Into<String>) -> Refusal {
    Refusal::Bad(Trouble::refused(0, text))
}

pub fn is_given(value: &Value<'_>) -> bool {
    !value.is_undefined() && !value.is_null()
}

impl Request {
    pub fn from_js<'js>(
        ctx: &Ctx<'js>,
        host: &Host,
        method: Cow<'static, str>,
        url: &Value<'js>,
        body: Option<&Value<'js>>,
        params: Option<&Value<'js>>,
    ) -> Result<Request, Refusal> {
        let (address, name) = address(ctx, host, url)?;
        let rules = host.script().rules();
        let response_type =
            if rules.discard_response_bodies { ResponseType::None } else { ResponseType::Text };
        let mut request = Request {
            method,
            address,
            name,
            headers: Vec::new(),
            body: None,
            timeout: TIMEOUT,
            redirects: None,
            jar: None,
            cookies: Vec::new(),
            tags: Vec::new(),
            response_type,
            digest: false,
            judge: host.cells.http.judge.borrow().clone(),
            throw: host.script().rules().throw,
            broken: None,
        };
        if !is_token(&request.method) {
            let text = format!("net/http: invalid method {:?}", &*request.method);
            request.broken = Some(Trouble::general(text));
        }
        let mut content_type = None;
        if let Some(body) = body.filter(|body| is_given(body)) {
            let Body { bytes, kind } = body::from_js(ctx, body)?;
            request.body = Some(bytes);
            content_type = kind;
        }
        let mut compression = String::new();
        if let Some(params) = params.and_then(Value::as_object) {
            request.take_params(ctx, params, &mut compression)?;
        }
        if let Some(content_type) = content_type {
            match request.header("Content-Type") {
                None => request.set_header("Content-Type".to_owned(), content_type),
                Some(own) if own.contains("json") && content_type.contains("form") => {
                    hints::form_as_json(ctx, host);
                }
                Some(_) => {}
            }
        }
        request.compress(host, &compression)?;
        request.check_length(host);
        Ok(request)
    }

    fn take_params<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        params: &Object<'js>,
        compression: &mut String,
    ) -> Result<(), Refusal> {
        for entry in params.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            if !value.is_object() && matches!(key.as_str(), "headers" | "tags" | "cookies") {
                hints::no_object(ctx, &key, &value);
            }
            match key.as_str() {
                "headers" => self.take_headers(ctx, &value)?,
                "tags" => self.take_tags(ctx, &value)?,
                "cookies" => self.take_cookies(&value)?,
                "timeout" => {
                    hints::short_timeout(ctx, &value);
                    self.timeout = timeout(&value)?;
                }
                "redirects" if is_given(&value) => {
                    let number = value.get::<Coerced<f64>>()?.0;
                    self.redirects = Some(if number > 0.0 { number as u32 } else { 0 });
                }
                "jar" => {
                    let class = value.as_object().and_then(Class::<CookieJar>::from_object);
                    if let Some(class) = class {
                        self.jar = Some(class.borrow().jar.clone());
                    }
                }
                "compression" => {
                    *compression = value.get::<Coerced<String>>()?.0;
                }
                "auth" if value.is_object() => hints::no_auth(ctx),
                "auth" if is_given(&value) => {
                    let auth = value.get::<Coerced<String>>()?.0;
                    self.digest = auth.eq_ignore_ascii_case("digest");
                    if auth.eq_ignore_ascii_case("ntlm") && self.address.user.is_some() {
                        let text = "auth: 'ntlm' is not supported; 'basic' and 'digest' are";
                        return Err(wrong(text));
                    }
                }
                "throw" if is_given(&value) => self.throw = crate::modules::core::truthy(&value),
                "responseType" => self.response_type = response_type(&value)?,
                "responseCallback" => {
                    self.judge = match value.is_undefined() {
                        true => self.judge.clone(),
                        false => Judge::from_js(&value).ok_or_else(|| {
                            wrong(
                                "unsupported responseCallback: pass http.expectedStatuses(...), or \
                                 null",
                            )
                        })?,
                    };
                }
                "redirects" | "auth" | "throw" => {}
                unknown => hints::unknown_param(ctx, unknown),
            }
        }
        Ok(())
    }

    fn take_headers<'js>(&mut self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<(), Refusal> {
        let Some(object) = value.as_object() else { return Ok(()) };
        for entry in object.props::<String, Value<'js>>() {
            let (name, value) = entry?;
            let value = value.get::<Coerced<String>>()?.0;
            hints::look_at_header(ctx, &name, &value);
            if !is_token(&name) {
                let text = format!("net/http: invalid header field name {name:?}");
                self.broken = Some(Trouble::general(text));
            } else if value.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f) {
                let text =
                    format!("net/http: invalid header field value for {:?}", canonical(&name));
                self.broken = Some(Trouble::general(text));
            }
            self.set_header(canonical(&name), value);
        }
        Ok(())
    }

    pub fn set_header(&mut self, name: String, value: String) {
        match self.headers.binary_search_by(|(known, _)| known.as_str().cmp(&name)) {
            Ok(at) => self.headers[at].1 = value,
            Err(at) => self.headers.insert(at, (name, value)),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let at = self.headers.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.headers[at].1)
    }

    fn take_tags<'js>(&mut self, ctx: &Ctx<'js>, value: &Value<'js>) -> Result<(), Refusal> {
        let Some(object) = value.as_object() else { return Ok(()) };
        for entry in object.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            if !(value.is_string() || value.is_bool() || value.is_number()) {
                return Err(wrong(format!(
                    "invalid HTTP request metric tags: invalid value for metric tag '{key}': only \
                     String, Boolean and Number types are accepted as a metric tag values"
                )));
            }
            let text = tag_value(ctx, &key, &value)?;
            match key.as_str() {
                "name" => self.name = Some(text.into()),
                _ => self.tags.push((key.into(), text.into())),
            }
        }
        Ok(())
    }

    fn take_cookies(&mut self, value: &Value<'_>) -> Result<(), Refusal> {
        let Some(object) = value.as_object() else { return Ok(()) };
        for entry in object.props::<String, Value<'_>>() {
            let (name, value) = entry?;
            let mut replace = false;
            let text = match value.as_object() {
                Some(object) => {
                    replace = object.get::<_, Option<bool>>("replace").ok().flatten() == Some(true);
                    let inner: Value<'_> = object.get("value")?;
                    is_given(&inner).then(|| inner.get::<Coerced<String>>()).transpose()?
                }
                None if !is_given(&value) => continue,
                None => Some(value.get::<Coerced<String>>()?),
            };
            let value = text.map_or_else(String::new, |text| text.0);
            self.cookies.push(OwnCookie { name, value, replace });
        }
        Ok(())
    }

    fn compress(&mut self, host: &Host, wanted: &str) -> Result<(), Refusal> {
        if wanted.is_empty() {
            return Ok(());
        }
        let codings: Vec<String> =
            wanted.split(',').map(|coding| coding.trim().to_ascii_lowercase()).collect();
        if let Some(unknown) = codings.iter().find(|c| !client::CODINGS.contains(&c.as_str())) {
            let known = client::CODINGS.join(" ");
            return Err(wrong(format!(
                "unknown compression algorithm {unknown}, supported algorithms are [{known}]"
            )));
        }
        let Some(body) = &mut self.body else { return Ok(()) };
        for coding in &codings {
            if let Some(encoded) = client::encode_body(coding, body) {
                *body = encoded;
            }
        }
        let joined = codings.join(", ");
        match self.header("Content-Encoding") {
            None => self.set_header("Content-Encoding".to_owned(), joined),
            Some(own) if own != joined => host.warn(format!(
                "`compression` is {joined}, but the header `Content-Encoding` of the {} request for \
                 {} says {own}: the header is sent as it is, and may not fit the body",
                self.method, self.address.shown
            )),
            Some(_) => {}
        }
        Ok(())
    }

    /// How long the body is, is not for the script to say.
    fn check_length(&mut self, host: &Host) {
        let actual = self.body.as_ref().map_or(0, Vec::len);
        if let Some(said) = self.header("Content-Length")
            && said.trim().parse() != Ok(actual)
        {
            host.warn(format!(
                "the header `Content-Length: {said}` of the {} request for {} is ignored: the body \
                 has {actual} bytes",
                self.method, self.address.shown
            ));
            self.headers.retain(|(name, _)| name != "Content-Length");
        }
    }
}

/// The URL argument: a text, or what `http.url` makes.
fn address<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    url: &Value<'js>,
) -> Result<(Rc<Address>, Option<Arc<str>>), Refusal> {
    if url.is_string() {
        return Ok((known_address(ctx, host, url)?, None));
    }
    if let Some(object) = url.as_object() {
        let inner: Value<'js> = object.get("url")?;
        let name: Value<'js> = object.get("name")?;
        if inner.is_string() && name.is_string() {
            let name = name.get::<Coerced<String>>()?.0;
            return Ok((known_address(ctx, host, &inner)?, Some(name.into())));
        }
    }
    let shown = match url.is_object() {
        true => kind(url).to_owned(),
        false => crate::thrown::describe(url),
    };
    let text = format!("invalid URL: '{shown}' is no text; pass a string, or http.url`...`");
    Err(Refusal::Bad(Trouble::refused(INVALID_URL, text)))
}

fn known_address<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    url: &Value<'js>,
) -> Result<Rc<Address>, Refusal> {
    let addresses = &host.cells.http.addresses;
    let found = with_bytes(ctx, url, "", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match addresses.borrow().get(&*text) {
            Some(address) => Ok(address.clone()),
            None => Err(text.into_owned()),
        }
    })?;
    let text = match found {
        Ok(address) => return Ok(address),
        Err(text) => text,
    };
    hints::look_at_url(ctx, host, &text);
    let address = Rc::new(Address::parse(&host.setup.settings.origins, &text)?);
    let mut addresses = addresses.borrow_mut();
    if addresses.len() >= KNOWN_ADDRESSES_MAX {
        addresses.clear();
    }
    addresses.insert(address.text.clone(), address.clone());
    Ok(address)
}

fn timeout(value: &Value<'_>) -> Result<Duration, Refusal> {
    if let Some(ms) = value.as_number() {
        return Ok(Duration::try_from_secs_f64(ms / 1e3).unwrap_or(match ms > 0.0 {
            true => Duration::MAX,
            false => Duration::ZERO,
        }));
    }
    let parsed = match value.as_string() {
        Some(text) => parse_timeout(&text.to_string()?),
        None => Err(format!("unable to use a value of type {} as a duration", kind(value))),
    };
    parsed.map_err(|why| wrong(format!("invalid timeout value: {why}")))
}

fn response_type(value: &Value<'_>) -> Result<ResponseType, Refusal> {
    let text = value.get::<Coerced<String>>()?.0;
    match text.as_str() {
        "text" => Ok(ResponseType::Text),
        "binary" => Ok(ResponseType::Binary),
        "none" => Ok(ResponseType::None),
        _ => Err(wrong(format!(
            "{text} does not belong to ResponseType values: 'text', 'binary', 'none'"
        ))),
    }
}

/// Characters that a method or the name of a header may have.
pub fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// `content-type` as `Content-Type`; what is no name stays as it is.
pub fn canonical(name: &str) -> String {
    if !is_token(name) {
        return name.to_owned();
    }
    let mut upper = true;
    let letter = |c: char| {
        let written = if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        upper = c == '-';
        written
    };
    name.chars().map(letter).collect()
}
