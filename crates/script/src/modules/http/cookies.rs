//! `http.cookieJar()` and `new http.CookieJar()`, and the cookies of answers.

use std::cell::RefCell;
use std::rc::Rc;

use client::{Jar, SetCookie};
use rquickjs::class::{JsClass, Readable, Trace, Tracer};
use rquickjs::function::{Constructor, Opt, This};
use rquickjs::{Array, Class, Coerced, Ctx, Function, JsLifetime, Object, Result, Value};
use url::Url;

use super::request::is_given;
use crate::modules::bytes::refuse;

/// What k6 gives for a cookie without a date: the zero of Go's clock, as far as it fits.
const NO_DATE_UNIX_MS: f64 = -6_795_364_578_871.0;

pub struct CookieJar {
    pub jar: Rc<RefCell<Jar>>,
}

// SAFETY: holds no JavaScript values.
unsafe impl<'js> JsLifetime<'js> for CookieJar {
    type Changed<'to> = CookieJar;
}

impl<'js> Trace<'js> for CookieJar {
    fn trace<'a>(&self, _tracer: Tracer<'a, 'js>) {}
}

impl<'js> JsClass<'js> for CookieJar {
    const NAME: &'static str = "CookieJar";
    type Mutable = Readable;

    fn prototype(ctx: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        let prototype = Object::new(ctx.clone())?;
        prototype.set("clear", Function::new(ctx.clone(), clear)?.with_name("clear")?)?;
        let cookies_for = Function::new(ctx.clone(), cookies_for)?.with_name("cookiesForURL")?;
        prototype.set("cookiesForURL", cookies_for)?;
        prototype.set("delete", Function::new(ctx.clone(), delete)?.with_name("delete")?)?;
        prototype.set("set", Function::new(ctx.clone(), set)?.with_name("set")?)?;
        Ok(Some(prototype))
    }

    fn constructor(ctx: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        let make = |ctx: Ctx<'js>| Class::instance(ctx, CookieJar { jar: Rc::default() });
        Constructor::new_class::<CookieJar, _, _>(ctx.clone(), make).map(Some)
    }
}

type ThisJar<'js> = This<Class<'js, CookieJar>>;

fn parse(ctx: &Ctx<'_>, url: &str) -> Result<Url> {
    Url::parse(url).map_err(|error| {
        refuse(
            ctx,
            &format!("cookie jar: {url:?} is no URL ({error}); pass one like http://host/path"),
        )
    })
}

fn clear<'js>(ctx: Ctx<'js>, this: ThisJar<'js>, url: Coerced<String>) -> Result<()> {
    let url = parse(&ctx, &url.0)?;
    this.borrow().jar.borrow_mut().clear_for(&url);
    Ok(())
}

fn delete<'js>(
    ctx: Ctx<'js>,
    this: ThisJar<'js>,
    url: Coerced<String>,
    name: Coerced<String>,
) -> Result<()> {
    let url = parse(&ctx, &url.0)?;
    this.borrow().jar.borrow_mut().delete(&url, &name.0);
    Ok(())
}

fn cookies_for<'js>(
    ctx: Ctx<'js>,
    this: ThisJar<'js>,
    url: Coerced<String>,
) -> Result<Object<'js>> {
    let url = parse(&ctx, &url.0)?;
    let pairs = this.borrow().jar.borrow().pairs(&url);
    let found = Object::new(ctx.clone())?;
    for (name, value) in pairs {
        append(&ctx, &found, &name, value)?;
    }
    Ok(found)
}

/// Adds to the list under `name`.
fn append<'js, V: rquickjs::IntoJs<'js>>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    name: &str,
    value: V,
) -> Result<()> {
    let list = match object.get::<_, Option<Array<'js>>>(name)? {
        Some(list) => list,
        None => {
            let list = Array::new(ctx.clone())?;
            object.set(name, list.clone())?;
            list
        }
    };
    list.set(list.len(), value)
}

fn set<'js>(
    ctx: Ctx<'js>,
    this: ThisJar<'js>,
    url: Coerced<String>,
    name: Coerced<String>,
    value: Opt<Coerced<String>>,
    options: Opt<Value<'js>>,
) -> Result<bool> {
    let Some(value) = value.0 else {
        let message =
            "jar.set() takes a URL, a name and a value: jar.set('http://host/', 'name', 'value')";
        return Err(refuse(&ctx, message));
    };
    let url = parse(&ctx, &url.0)?;
    let mut cookie = SetCookie { name: name.0, value: value.0, ..SetCookie::default() };
    if let Some(options) = options.0.as_ref().and_then(Value::as_object) {
        for entry in options.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            if !is_given(&value) {
                continue;
            }
            let text = || value.get::<Coerced<String>>().map(|text| text.0);
            match key.as_str() {
                "domain" => cookie.domain = text()?.trim_start_matches('.').to_owned(),
                "path" => cookie.path = text()?,
                "secure" => cookie.secure = crate::modules::core::truthy(&value),
                "http_only" => cookie.http_only = crate::modules::core::truthy(&value),
                "max_age" => cookie.max_age = value.get::<Coerced<f64>>()?.0 as i64,
                "expires" => {
                    let text = text()?;
                    cookie.expires_unix_s = Some(SetCookie::parse_date(&text).ok_or_else(|| {
                        let message = format!(
                            "unable to parse \"expires\" date string {text:?}; write it like \"Wed, \
                             21 Oct 2037 07:28:00 GMT\""
                        );
                        refuse(&ctx, &message)
                    })?);
                }
                _ => {}
            }
        }
    }
    this.borrow().jar.borrow_mut().set(&url, &cookie);
    Ok(true)
}

/// `cookies` of a response, from the lines that set them.
pub fn of_answer<'js, 'a>(
    ctx: &Ctx<'js>,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Result<Object<'js>> {
    let all = Object::new(ctx.clone())?;
    for line in lines {
        let Some(cookie) = SetCookie::parse(&String::from_utf8_lossy(line)) else { continue };
        let one = Object::new(ctx.clone())?;
        one.set("name", cookie.name.as_str())?;
        one.set("value", cookie.value)?;
        one.set("domain", cookie.domain)?;
        one.set("path", cookie.path)?;
        one.set("http_only", cookie.http_only)?;
        one.set("secure", cookie.secure)?;
        one.set("max_age", cookie.max_age as f64)?;
        let expires = cookie.expires_unix_s.map_or(NO_DATE_UNIX_MS, |seconds| seconds as f64 * 1e3);
        one.set("expires", expires)?;
        append(ctx, &all, &cookie.name, one)?;
    }
    Ok(all)
}

/// `request.cookies` of a response: what the header `Cookie` said.
pub fn of_request<'js>(ctx: &Ctx<'js>, header: &str) -> Result<Object<'js>> {
    let all = Object::new(ctx.clone())?;
    for pair in header.split("; ").filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let one = Object::new(ctx.clone())?;
        one.set("name", name)?;
        one.set("value", value)?;
        one.set("replace", false)?;
        append(ctx, &all, name, one)?;
    }
    Ok(all)
}

/// A value as it may stand in a header: quoted if it must, without what cannot be said at all.
pub fn header_value(value: &str) -> String {
    let fits = |c: &char| (' '..='~').contains(c) && !matches!(c, '"' | ';' | '\\');
    let kept: String = value.chars().filter(fits).collect();
    match kept.contains([' ', ',']) {
        true => format!("\"{kept}\""),
        false => kept,
    }
}
