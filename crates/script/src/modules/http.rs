//! `k6/http`: requests that look blocking to the script and suspend only its virtual user.
//!
//! ```text
//! http.get(url, params) ─▶ Request ─▶ exchange (hops, cookies, challenges) ─▶ Answer ─▶ Response
//!       batch ────────────▶ many at once ──┘         │                          members made when
//!       asyncRequest ─────▶ later, a promise         └─▶ samples, counts        looked at
//! ```
//!
//! A URL that was asked for before costs no parsing and, without params, no rendering.

// The binding hands arguments to native functions by value.
#![allow(clippy::needless_pass_by_value)]

mod address;
mod batch;
mod blocked;
mod body;
mod cookies;
mod debug;
mod digest;
mod duration;
mod exchange;
mod head;
mod hints;
mod json;
mod judge;
mod render;
mod request;
mod response;
pub use response::is_response;
mod samples;
mod select;
mod trouble;

pub(crate) use self::request::canonical;

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use rquickjs::function::{Opt, Rest};
use rquickjs::{Class, Coerced, Ctx, Function, Object, Persistent, Promise, Result, Value};

use crate::host::{Completion, Host, Phase};
use crate::log::{Level, Line};
use crate::modules::bytes::refuse;
use crate::runtime::interrupt;
use exchange::{Answer, Scratch, send};
use judge::Judge;
use request::{Refusal, Request};
use trouble::Trouble;

pub const NAMES: &[&str] = &[
    "TLS_1_0",
    "TLS_1_1",
    "TLS_1_2",
    "TLS_1_3",
    "OCSP_STATUS_GOOD",
    "OCSP_STATUS_REVOKED",
    "OCSP_STATUS_SERVER_FAILED",
    "OCSP_STATUS_UNKNOWN",
    "OCSP_REASON_UNSPECIFIED",
    "OCSP_REASON_KEY_COMPROMISE",
    "OCSP_REASON_CA_COMPROMISE",
    "OCSP_REASON_AFFILIATION_CHANGED",
    "OCSP_REASON_SUPERSEDED",
    "OCSP_REASON_CESSATION_OF_OPERATION",
    "OCSP_REASON_CERTIFICATE_HOLD",
    "OCSP_REASON_REMOVE_FROM_CRL",
    "OCSP_REASON_PRIVILEGE_WITHDRAWN",
    "OCSP_REASON_AA_COMPROMISE",
    "url",
    "CookieJar",
    "cookieJar",
    "file",
    "get",
    "head",
    "post",
    "put",
    "patch",
    "del",
    "options",
    "request",
    "asyncRequest",
    "batch",
    "setResponseCallback",
    "expectedStatuses",
    "default",
];

/// What a virtual user keeps between requests; nothing of JavaScript.
#[derive(Default)]
pub struct State {
    judge: RefCell<Judge>,
    addresses: RefCell<HashMap<Rc<str>, Rc<address::Address>>>,
    // Boxed: it is held across waits, and what is held there should be small.
    #[allow(clippy::vec_box)]
    scratch: RefCell<Vec<Box<Scratch>>>,
    /// Buffers for heads and bodies.
    spare: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    names: OnceCell<Rc<response::Names>>,
}

pub fn exports<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    for name in &NAMES[..18] {
        exports.set(*name, constant(name))?;
    }
    install_requests(ctx, host, &exports)?;
    install_others(ctx, host, &exports)?;
    let default = Object::new(ctx.clone())?;
    for name in NAMES.iter().filter(|name| **name != "default") {
        default.set(*name, exports.get::<_, Value<'js>>(*name)?)?;
    }
    exports.set("default", default)?;
    Ok(exports)
}

/// `TLS_1_2` is "tls1.2", `OCSP_STATUS_GOOD` is "good".
fn constant(name: &str) -> String {
    match name.strip_prefix("TLS_") {
        Some(version) => format!("tls{}", version.replace('_', ".")),
        None => {
            let rest = name.trim_start_matches("OCSP_STATUS_").trim_start_matches("OCSP_REASON_");
            rest.to_ascii_lowercase()
        }
    }
}

fn install_requests<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, exports: &Object<'js>) -> Result<()> {
    for (name, method) in [("get", "GET"), ("head", "HEAD")] {
        let host = host.clone();
        let call = move |ctx: Ctx<'js>, url: Opt<Value<'js>>, params: Opt<Value<'js>>| {
            let url = url.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
            request(&ctx, &host, Cow::Borrowed(method), &url, None, params.0.as_ref())
        };
        exports.set(name, Function::new(ctx.clone(), call)?.with_name(name)?)?;
    }
    for (name, method) in [
        ("post", "POST"),
        ("put", "PUT"),
        ("patch", "PATCH"),
        ("del", "DELETE"),
        ("options", "OPTIONS"),
    ] {
        let host = host.clone();
        let call = move |ctx: Ctx<'js>,
                         url: Opt<Value<'js>>,
                         body: Opt<Value<'js>>,
                         params: Opt<Value<'js>>| {
            let url = url.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
            let method = Cow::Borrowed(method);
            request(&ctx, &host, method, &url, body.0.as_ref(), params.0.as_ref())
        };
        exports.set(name, Function::new(ctx.clone(), call)?.with_name(name)?)?;
    }
    let held = host.clone();
    let call = move |ctx: Ctx<'js>, args: Rest<Value<'js>>| {
        let (method, url) = method_and_url(&ctx, &args.0)?;
        request(&ctx, &held, method, &url, args.0.get(2), args.0.get(3))
    };
    exports.set("request", Function::new(ctx.clone(), call)?.with_name("request")?)?;
    let held = host.clone();
    let call = move |ctx: Ctx<'js>, args: Rest<Value<'js>>| {
        let (method, url) = method_and_url(&ctx, &args.0)?;
        request_later(&ctx, &held, method, &url, args.0.get(2), args.0.get(3))
    };
    exports.set("asyncRequest", Function::new(ctx.clone(), call)?.with_name("asyncRequest")?)?;
    let held = host.clone();
    let call = move |ctx: Ctx<'js>, args: Rest<Value<'js>>| batch::batch(&ctx, &held, &args.0);
    exports.set("batch", Function::new(ctx.clone(), call)?.with_name("batch")?)
}

fn method_and_url<'js>(
    ctx: &Ctx<'js>,
    args: &[Value<'js>],
) -> Result<(Cow<'static, str>, Value<'js>)> {
    let method = match args.first() {
        Some(method) => method.get::<Coerced<String>>()?.0,
        None => String::new(),
    };
    let url = args.get(1).cloned().unwrap_or_else(|| Value::new_undefined(ctx.clone()));
    Ok((Cow::Owned(method), url))
}

fn install_others<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, exports: &Object<'js>) -> Result<()> {
    let url = Function::new(ctx.clone(), url_template)?.with_name("url")?;
    exports.set("url", url)?;
    Class::<cookies::CookieJar>::define(exports)?;
    let held = host.clone();
    let jar = move |ctx: Ctx<'js>| {
        if held.phase.get() == Phase::Init {
            let message = "http.cookieJar() in the init code: the jar belongs to an iteration; use \
                           it in the functions that are exported, or make a new http.CookieJar()";
            return Err(refuse(&ctx, message));
        }
        Class::instance(ctx, cookies::CookieJar { jar: held.jar.clone() })
    };
    exports.set("cookieJar", Function::new(ctx.clone(), jar)?.with_name("cookieJar")?)?;
    let file = |ctx: Ctx<'js>,
                data: Opt<Value<'js>>,
                name: Opt<Value<'js>>,
                content_type: Opt<Value<'js>>| {
        let data = data.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
        body::file(&ctx, data, name.0, content_type.0)
    };
    exports.set("file", Function::new(ctx.clone(), file)?.with_name("file")?)?;
    let held = host.clone();
    let set = move |ctx: Ctx<'js>, callback: Opt<Value<'js>>| -> Result<()> {
        let callback = callback.0.unwrap_or_else(|| Value::new_null(ctx.clone()));
        let judge = Judge::from_js(&callback)
            .ok_or_else(|| refuse(&ctx, "unsupported argument, expected http.expectedStatuses"))?;
        *held.cells.http.judge.borrow_mut() = judge;
        Ok(())
    };
    let set = Function::new(ctx.clone(), set)?.with_name("setResponseCallback")?;
    exports.set("setResponseCallback", set)?;
    let expected = Function::new(ctx.clone(), judge::expected_statuses)?;
    exports.set("expectedStatuses", expected.with_name("expectedStatuses")?)
}

/// ``http.url`http://host/${id}` ``: the URL, and a name that is the same for all of them.
fn url_template<'js>(
    ctx: Ctx<'js>,
    parts: Opt<Value<'js>>,
    values: Rest<Value<'js>>,
) -> Result<Object<'js>> {
    let Some(parts) = parts.0.as_ref().and_then(Value::as_array).cloned() else {
        let message = "http.url is a template tag: write http.url`http://host/${id}`";
        return Err(rquickjs::Exception::throw_type(&ctx, message));
    };
    let (mut name, mut url) = (String::new(), String::new());
    for (index, part) in parts.iter::<Coerced<String>>().enumerate() {
        let part = part?.0;
        name.push_str(&part);
        url.push_str(&part);
        if let Some(value) = values.0.get(index) {
            name.push_str("${}");
            url.push_str(&value.get::<Coerced<String>>()?.0);
        }
    }
    let object = Object::new(ctx.clone())?;
    object.set("name", name)?;
    object.set("url", url.as_str())?;
    object.set("clean_url", url.as_str())?;
    let clean = move || url.clone();
    object.set("clean", Function::new(ctx.clone(), clean)?.with_name("clean")?)?;
    Ok(object)
}

fn not_in_init(ctx: &Ctx<'_>, host: &Host) -> Result<()> {
    match host.phase.get() {
        Phase::Init => {
            let message = "Making http requests in the init context is not supported: make them in \
                           the functions that are exported (default, setup, teardown, ...)";
            Err(refuse(ctx, message))
        }
        _ => Ok(()),
    }
}

fn request<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    method: Cow<'static, str>,
    url: &Value<'js>,
    body: Option<&Value<'js>>,
    params: Option<&Value<'js>>,
) -> Result<Value<'js>> {
    not_in_init(ctx, host)?;
    match Request::from_js(ctx, host, method, url, body, params) {
        Ok(request) => {
            let answer = host.wait(send(host, request));
            finish(ctx, host, answer.map_err(|_| interrupt(ctx, "interrupted"))?)
        }
        Err(Refusal::Thrown(error)) => Err(error),
        Err(Refusal::Bad(why)) => refused(ctx, host, why),
    }
}

/// From an answer to what the script gets: a response, or an exception.
fn finish<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, answer: Answer) -> Result<Value<'js>> {
    if let Some(trouble) = &answer.trouble {
        let detail = match trouble.code {
            0 => trouble.detail.clone(),
            _ => {
                let method = capitalized(&answer.request.method);
                format!("{method} {:?}: {}", answer.address.shown, trouble.detail)
            }
        };
        if answer.request.throw {
            return Err(refuse(ctx, &detail));
        }
        host.log(Line::new(Level::Warning, "Request Failed").with("error", detail));
    }
    response::from_answer(ctx, host, answer)
}

fn refused<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, why: Trouble) -> Result<Value<'js>> {
    if host.script().rules().throw {
        return Err(refuse(ctx, &why.detail));
    }
    host.log(Line::new(Level::Warning, "Request Failed").with("error", &*why.detail));
    response::from_refusal(ctx, host, why)
}

/// `Get` for `GET`, as Go names operations.
fn capitalized(method: &str) -> String {
    let mut letters = method.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|c| c.to_ascii_lowercase())).collect()
}

type Settle = (Persistent<Function<'static>>, Persistent<Function<'static>>);

fn request_later<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    method: Cow<'static, str>,
    url: &Value<'js>,
    body: Option<&Value<'js>>,
    params: Option<&Value<'js>>,
) -> Result<Promise<'js>> {
    not_in_init(ctx, host)?;
    let (promise, resolve, reject) = Promise::new(ctx)?;
    let request = match Request::from_js(ctx, host, method, url, body, params) {
        Ok(request) => request,
        Err(refusal) => {
            let settled = match refusal {
                Refusal::Thrown(error) => Err(error),
                Refusal::Bad(why) => refused(ctx, host, why),
            };
            settle(ctx, settled, &resolve, &reject)?;
            return Ok(promise);
        }
    };
    let kept: Settle = (Persistent::save(ctx, resolve), Persistent::save(ctx, reject));
    let owner = host.clone();
    host.later(async move {
        let answer = send(&owner, request).await;
        let host = owner.clone();
        let completion: Completion = Box::new(move |ctx| {
            let settled = finish(ctx, &host, answer);
            settle(ctx, settled, &kept.0.restore(ctx)?, &kept.1.restore(ctx)?)
        });
        Some(completion)
    });
    Ok(promise)
}

fn settle<'js>(
    ctx: &Ctx<'js>,
    result: Result<Value<'js>>,
    resolve: &Function<'js>,
    reject: &Function<'js>,
) -> Result<()> {
    match result {
        Ok(value) => resolve.call((value,)),
        Err(rquickjs::Error::Exception) => reject.call((ctx.catch(),)),
        Err(error) => Err(error),
    }
}
