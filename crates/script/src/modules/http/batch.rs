//! `http.batch`: several requests at once, at most so many in all and for each host.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;
use rquickjs::{Array, Coerced, Ctx, Object, Result, Value};
use tokio::sync::Semaphore;

use super::exchange::send;
use super::request::{Refusal, Request, is_given};
use super::trouble::Trouble;
use super::{hints, response};
use crate::host::{Host, Phase};
use crate::log::{Level, Line};
use crate::modules::bytes::{kind, refuse};
use crate::runtime::interrupt;

pub fn batch<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, args: &[Value<'js>]) -> Result<Value<'js>> {
    if host.phase.get() == Phase::Init {
        let message = "http.batch() in the init code: requests can be made in the functions that \
                       are exported only";
        return Err(refuse(ctx, message));
    }
    let wanted = match args {
        [] => return Err(refuse(ctx, "no argument was provided to http.batch()")),
        [one] => one,
        _ => {
            let message = "http.batch() accepts only an array or an object of requests";
            return Err(refuse(ctx, message));
        }
    };
    let mut entries: Vec<(Option<String>, Value<'js>)> = Vec::new();
    match (wanted.as_array(), wanted.as_object()) {
        (Some(list), _) => {
            for entry in list.iter::<Value<'js>>() {
                entries.push((None, entry?));
            }
        }
        (None, Some(object)) if !wanted.is_function() => {
            for entry in object.props::<String, Value<'js>>() {
                let (key, value) = entry?;
                entries.push((Some(key), value));
            }
        }
        _ => {
            let given = if wanted.is_string() { "string" } else { kind(wanted) };
            let message = format!("invalid http.batch() argument type {given}");
            return Err(refuse(ctx, &message));
        }
    }
    let is_list = wanted.is_array();
    let mut requests = Vec::with_capacity(entries.len());
    for (index, (_, entry)) in entries.iter().enumerate() {
        match request(ctx, host, entry) {
            Ok(request) => requests.push(request),
            Err(Refusal::Thrown(error)) => return Err(error),
            Err(Refusal::Bad(why)) => {
                return wrong(ctx, host, &entries, is_list, index, why);
            }
        }
    }
    let answers = host.wait(send_all(host, requests));
    let answers = answers.map_err(|_| interrupt(ctx, "interrupted"))?;
    let mut values = Vec::with_capacity(answers.len());
    let mut thrown = None;
    for answer in answers {
        match super::finish(ctx, host, answer) {
            Ok(value) => values.push(value),
            Err(error) => thrown = Some(error),
        }
    }
    match thrown {
        Some(error) => Err(error),
        None => collect(ctx, &entries, is_list, values),
    }
}

/// One wrong request spoils the batch: nothing is sent, and the wrong one says why.
fn wrong<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    entries: &[(Option<String>, Value<'js>)],
    is_list: bool,
    index: usize,
    why: Trouble,
) -> Result<Value<'js>> {
    if host.script().rules().throw {
        return Err(refuse(ctx, &why.detail));
    }
    let line = Line::new(Level::Warning, "A batch request failed").with("error", &*why.detail);
    host.log(line.with("request", index.to_string()));
    let mut values = Vec::with_capacity(entries.len());
    for at in 0..entries.len() {
        values.push(match at == index {
            true => response::from_refusal(ctx, host, why.clone())?,
            false => response::unsent(ctx, host)?,
        });
    }
    collect(ctx, entries, is_list, values)
}

fn collect<'js>(
    ctx: &Ctx<'js>,
    entries: &[(Option<String>, Value<'js>)],
    is_list: bool,
    values: Vec<Value<'js>>,
) -> Result<Value<'js>> {
    if is_list {
        let list = Array::new(ctx.clone())?;
        for (index, value) in values.into_iter().enumerate() {
            list.set(index, value)?;
        }
        return Ok(list.into_value());
    }
    let object = Object::new(ctx.clone())?;
    for ((key, _), value) in entries.iter().zip(values) {
        object.set(key.as_deref().unwrap_or_default(), value)?;
    }
    Ok(object.into_value())
}

/// A URL, `[method, url, body, params]` or `{method, url, body, params}`.
fn request<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    entry: &Value<'js>,
) -> std::result::Result<Request, Refusal> {
    let method = |value: Value<'js>| -> Result<String> {
        match is_given(&value) {
            true => Ok(value.get::<Coerced<String>>()?.0),
            false => Ok("GET".to_owned()),
        }
    };
    if let Some(list) = entry.as_array() {
        if list.len() < 2 {
            let text = "invalid batch request: an array must be [method, url, body, params]";
            return Err(Refusal::Bad(Trouble::refused(0, text)));
        }
        let part = |index| list.get::<Value<'js>>(index);
        let (url, body, params) = (part(1)?, part(2)?, part(3)?);
        let method = method(part(0)?)?;
        return Request::from_js(ctx, host, method.into(), &url, Some(&body), Some(&params));
    }
    let object = entry.as_object().filter(|object| {
        // What `http.url` makes has a URL as well, but stands for itself.
        !object.contains_key("clean_url").unwrap_or(false)
    });
    if let Some(object) = object {
        let is_answer = response::is_response(object);
        if is_answer {
            hints::response_in_batch(ctx, host);
        }
        let part = |name: &str| object.get::<_, Value<'js>>(name);
        let none = || Value::new_undefined(ctx.clone());
        let (url, body) = (part("url")?, part("body")?);
        if !is_given(&url) {
            let keys: Vec<String> = object.keys::<String>().flatten().collect();
            return Err(Refusal::Bad(Trouble::refused(0, no_url(&keys))));
        }
        // A response has none, and would say so.
        let params = if is_answer { none() } else { part("params")? };
        // In this form k6 writes methods large, and has no body for these two.
        let written = if is_answer { none() } else { part("method")? };
        let method = method(written)?.to_ascii_uppercase();
        let body = Some(&body).filter(|_| method != "GET" && method != "HEAD");
        return Request::from_js(ctx, host, method.into(), &url, body, Some(&params));
    }
    Request::from_js(ctx, host, "GET".into(), entry, None, None)
}

/// For `{ method: 'GET', uri: '...' }`.
fn no_url(keys: &[String]) -> String {
    let near = |key: &&String| matches!(key.to_lowercase().as_str(), "uri" | "href" | "address");
    let named = keys.iter().find(near).or_else(|| {
        keys.iter()
            .find(|key| base::names::closest(key, ["url"], base::names::Likeness::Third).is_some())
    });
    match named {
        Some(key) => format!("it has no `url`; `{key}` is called `url` here"),
        None => "it has no `url`; write { method: 'GET', url: '...' }".to_owned(),
    }
}

/// Answers in the order of the requests.
async fn send_all(host: &Host, requests: Vec<Request>) -> Vec<super::exchange::Answer> {
    let rules = host.script().rules();
    let count = requests.len().max(1);
    let limit = |limit: usize| if limit == 0 { count } else { limit };
    let all = Rc::new(Semaphore::new(limit(rules.batch)));
    let hosts: RefCell<Vec<(Box<str>, Rc<Semaphore>)>> = RefCell::default();
    let one = |request: Request| {
        let name = &request.address.authority;
        let mut hosts = hosts.borrow_mut();
        let known = hosts.iter().find(|(known, _)| known == name).map(|(_, host)| host.clone());
        let per_host = known.unwrap_or_else(|| {
            let permits = Rc::new(Semaphore::new(limit(rules.batch_per_host)));
            hosts.push((name.clone(), permits.clone()));
            permits
        });
        drop(hosts);
        let all = all.clone();
        async move {
            // Nobody closes these; without a permit the request would only come earlier.
            let _of_host = per_host.acquire().await;
            let _of_all = all.acquire().await;
            send(host, request).await
        }
    };
    join_all(requests.into_iter().map(one)).await
}
