//! Requests: method, URL, authentication and extractors.

use super::{Context, body, checks, http, on_failure, steps};
use crate::mask_userinfo;
use crate::model::{Auth, Extract, Extractor, Pick, Request};
use crate::template::{Escape, Template};
use crate::tree::{Node, shorten};

/// The method and the URL of a request step.
fn method_and_url(node: &Node) -> Option<(String, &Node)> {
    if let Some(request) = node.get("request") {
        let method = request.get("method").and_then(Node::text).unwrap_or_default();
        return Some((method.to_owned(), request.get("url")?));
    }
    let entry = node.entries().iter().find(|e| steps::METHODS.contains(&e.key.as_str()))?;
    Some((entry.key.to_ascii_uppercase(), &entry.value))
}

/// `GET /cart?region=${env.REGION:-eu}`: the method, and the URL as written.
pub fn default_name(node: &Node) -> String {
    match method_and_url(node) {
        Some((method, url)) => {
            format!("{method} {}", mask_userinfo(url.text().unwrap_or_default()))
        }
        None => "request".into(),
    }
}

pub fn request(cx: &Context<'_>, node: &Node) -> Request {
    let (method, url) = match method_and_url(node) {
        Some((method, url)) => {
            if !method.is_empty() && !http::is_token(&method) {
                let message = format!("`{}` is not a method", shorten(&method));
                cx.report(url.place, message).help("use a word such as GET or PURGE");
            }
            (method, http::url(cx, url))
        }
        None => (String::new(), Template::default()),
    };
    let timeout = cx.duration(node.get("timeout"));
    cx.not_zero(node.get("timeout"), timeout);
    if method.eq_ignore_ascii_case("head") {
        no_body(cx, node);
    }
    Request {
        method,
        url,
        query: cx.templates(node.get("query"), Escape::Component),
        headers: http::headers(cx, node.get("headers")),
        body: body::body(cx, node),
        auth: node.get("auth").and_then(|node| auth(cx, node)),
        timeout,
        redirects: node.get("redirects").and_then(http::redirects),
        tags: cx.shown_templates(node.get("tags"), Escape::None),
        extract: extracts(cx, node.get("extract")),
        checks: cx.after_response(|| checks::checks(cx, node.get("check"))),
        record: cx.after_response(|| steps::records(cx, node)),
        on_failure: on_failure(node),
    }
}

/// An answer to HEAD has no body to look at.
fn no_body(cx: &Context<'_>, step: &Node) {
    let checks = step.get("check").map(Node::one_or_many).unwrap_or_default();
    let never = |check: &&Node| {
        let body = check.get("body").is_some_and(|body| body.get("size").is_none());
        body || check.get("json").is_some()
    };
    for check in checks.iter().filter(never) {
        cx.report(check.place, "an answer to HEAD has no body: this check can never hold")
            .help("write `get` in the place of `head`, or check the status or a header");
    }
    for entry in step.get("extract").map(Node::entries).unwrap_or_default() {
        let from = &entry.value;
        let of_body =
            from.text().is_some() || from.get("json").is_some() || from.get("regex").is_some();
        if of_body && from.get("optional").and_then(Node::flag) != Some(true) {
            cx.report(entry.place, "an answer to HEAD has no body to extract from")
                .help("write `get` in the place of `head`, or extract a `header`");
        }
    }
}

fn auth(cx: &Context<'_>, node: &Node) -> Option<Auth> {
    match (node.get("basic"), node.get("bearer")) {
        (Some(basic), None) => {
            let user = cx.template(basic.get("user")?, Escape::None);
            scheme_of_its_own(cx, basic.get("user")?, &user, "basic", "Basic");
            let password = cx.template(basic.get("password")?, Escape::None);
            Some(Auth::Basic { user, password })
        }
        (None, Some(node)) => {
            let token = cx.template(node, Escape::Header);
            scheme_of_its_own(cx, node, &token, "bearer", "Bearer");
            Some(Auth::Bearer(token))
        }
        (Some(_), Some(_)) => {
            cx.report(node.place, "`basic` and `bearer` cannot both be sent").done();
            None
        }
        (None, None) => {
            let help = "add `bearer: ${token}` or `basic: { user: a, password: b }`";
            cx.report(node.place, "which authentication?").help(help);
            None
        }
    }
}

/// `bearer: "Bearer ${token}"`: the word would be sent twice.
fn scheme_of_its_own(cx: &Context<'_>, node: &Node, value: &Template, key: &str, word: &str) {
    if let Some(written) = http::scheme(value) {
        // A literal token is a secret; a reference is not.
        let rest = node.text().unwrap_or_default().trim_start();
        let rest = rest.strip_prefix(written).unwrap_or_default().trim_start();
        let shown = if rest.starts_with("${") { rest } else { "TOKEN" };
        let right = match key {
            "bearer" => format!("write `bearer: \"{shown}\"`"),
            _ => "write the name of the user alone".to_owned(),
        };
        cx.report(
            node.place,
            format!("`{key}` adds the word `{word}` by itself: it would stand there twice"),
        )
        .help(right);
    }
}

fn extracts(cx: &Context<'_>, node: Option<&Node>) -> Vec<Extract> {
    let entries = node.map(Node::entries).unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            steps::check_variable(cx, entry);
            // The variable is meant to be set, even if it is not clear from what.
            let from = extractor(cx, &entry.value);
            let from = from.unwrap_or_else(|| Extractor::Json("$".into()));
            let pick = match text_of(&entry.value, "match").as_deref() {
                Some("last") => Pick::Last,
                Some("random") => Pick::Random,
                Some("all") => Pick::All,
                Some("count") => Pick::Count,
                _ => Pick::First,
            };
            let optional = entry.value.get("optional").and_then(Node::flag).unwrap_or(false);
            Extract { variable: entry.key.clone(), from, pick, optional }
        })
        .collect()
}

/// A word of a fixed list, which may be written in any case.
fn text_of(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(Node::text).map(str::to_ascii_lowercase)
}

fn extractor(cx: &Context<'_>, node: &Node) -> Option<Extractor> {
    if node.text().is_some() {
        return json_path(cx, node).map(Extractor::Json);
    }
    let kinds = ["json", "regex", "header", "cookie"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| node.get(kind).is_some()).collect();
    let [kind] = given.as_slice() else {
        if !node.entries().is_empty() || !node.items().is_empty() {
            cx.report(node.place, "an extractor has one of json, regex, header and cookie")
                .help("for example `{ header: location }`");
        }
        return None;
    };
    let value = node.get(kind)?;
    if let (Some(group), true) = (node.get("group"), *kind != "regex") {
        cx.report(group.place, "`group` belongs to `regex`").done();
    }
    match *kind {
        "json" => json_path(cx, value).map(Extractor::Json),
        "regex" => {
            let (pattern, groups) = regex(cx, value)?;
            let default = usize::from(groups > 0) as u64;
            let group = node.get("group").and_then(Node::count).unwrap_or(default);
            let group = usize::try_from(group).unwrap_or(usize::MAX);
            if group > groups {
                let place = node.get("group").unwrap_or(node).place;
                cx.report(
                    place,
                    format!("the expression has {}, not {group}", count_of_groups(groups)),
                )
                .help("put round brackets around what you want: `id=([0-9]+)`");
            }
            Some(Extractor::Regex { pattern, group })
        }
        "header" => value.text().map(|name| Extractor::Header(name.to_owned())),
        _ => value.text().map(|name| Extractor::Cookie(name.to_owned())),
    }
}

fn count_of_groups(groups: usize) -> String {
    match groups {
        0 => "no group".to_owned(),
        1 => "1 group".to_owned(),
        many => format!("{many} groups"),
    }
}

/// Brackets in a JSONPath may be nested so deep; the parser recurses.
const PATH_DEPTH_MAX: usize = 16;

/// A valid JSONPath; anything else is reported.
pub fn json_path(cx: &Context<'_>, node: &Node) -> Option<String> {
    let path = node.text()?;
    if !path.starts_with('$') {
        cx.report(node.place, format!("`{}` is not a JSONPath", shorten(path))).help(
            match meant_path(path) {
                Some(meant) => format!("a path begins with `$`: `{meant}`"),
                None => PATHS.to_owned(),
            },
        );
        return None;
    }
    if path.contains("${") {
        let message = "a path is looked up in the body, and no reference can stand in it";
        cx.report(node.place, message).help(
            "write the path itself, for example `json: \"$.items[0].id\"`; a condition on a variable is `when` \
             of a step, or `until` of a `repeat`",
        );
        return None;
    }
    if nesting(path) > PATH_DEPTH_MAX || path.len() > 2000 {
        cx.report(node.place, "this JSONPath is too long or nested too deep").done();
        return None;
    }
    match serde_json_path::JsonPath::parse(path) {
        Ok(_) => Some(path.to_owned()),
        Err(error) => {
            let at = error.position().min(path.len());
            let message = format!("not a valid JSONPath: {}", error.message());
            cx.report(cx.inside(node, at, path.len()), message).help(path_help(path));
            None
        }
    }
}

const PATHS: &str = "for example `$.token`, `$.items[0].id`, `$..price`";

/// A path as others write it (`.[0].id`, `items[0].id`, `/items/0/id`), as JSONPath.
fn meant_path(path: &str) -> Option<String> {
    if path.len() > 200 {
        return None;
    }
    let path = path.strip_suffix("[]").map_or_else(|| path.to_owned(), |list| format!("{list}[*]"));
    let path = path.replace("[].", "[*].").replace(".[", "[");
    let meant = match path.strip_prefix('/') {
        // A JSON pointer.
        Some(pointer) => {
            let part = |part: &str| match part.parse::<u64>() {
                Ok(number) => format!("[{number}]"),
                Err(_) => format!(".{part}"),
            };
            pointer.split('/').map(part).collect()
        }
        // `items.0.id` is k6's and Lodash's.
        None => {
            let part = |part: &str| match part.parse::<u64>() {
                Ok(number) => format!("[{number}]"),
                Err(_) if part.starts_with('[') => part.to_owned(),
                Err(_) => format!(".{part}"),
            };
            path.split('.').filter(|part| !part.is_empty()).map(part).collect::<String>()
        }
    };
    let meant = format!("${meant}");
    serde_json_path::JsonPath::parse(&meant).ok().map(|_| meant)
}

/// What to do about a path that begins well.
fn path_help(path: &str) -> String {
    // `$.total > 0`; in a filter, `[?@.price < 10]`, a comparison is at home.
    if let Some(at) = path.find(['<', '>', '=', '!']).filter(|_| !path.contains("[?")) {
        let (left, right) = (path[..at].trim(), path[at..].trim());
        let left = ["length()", "size()", "count()", "lenght()"]
            .iter()
            .find_map(|end| left.strip_suffix(end))
            .map_or(left, |list| list.trim_end_matches('.'));
        return match crate::units::number_limit(right) {
            Ok(_) => {
                format!("a path has no comparison: write `json: \"{left}\"` and `is: \"{right}\"`")
            }
            Err(_) => format!(
                "a path has no comparison: write `json: \"{left}\"` and `equals`, `contains` or `is`"
            ),
        };
    }
    let function =
        ["length()", "size()", "count()", "first()", "last()", "min()", "max()", "sum()"];
    if let Some(function) = function.iter().find(|function| path.ends_with(**function)) {
        let list = path.strip_suffix(*function).unwrap_or(path).trim_end_matches('.');
        return match *function {
            "first()" => format!("the first one is `{list}[0]`"),
            "last()" => format!("the last one is `{list}[-1]`"),
            _ => format!(
                "a path cannot end with `{function}`; that there is one is `json: \"{list}[0]\", exists: true`, and \
                 `extract: {{ n: {{ json: \"{list}[*]\", match: count }} }}` counts them"
            ),
        };
    }
    match path.strip_prefix("$.").and_then(|rest| meant_path(&format!(".{rest}"))) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => PATHS.to_owned(),
    }
}

/// How deep brackets and negations are nested, at most.
fn nesting(path: &str) -> usize {
    let bytes = path.as_bytes();
    let mut depth = 0usize;
    let mut deepest = 0;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b'!' if bytes.get(index + 1) != Some(&b'=') => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// A valid regular expression and its number of groups; anything else is reported.
pub fn regex(cx: &Context<'_>, node: &Node) -> Option<(String, usize)> {
    let pattern = node.text()?;
    match regex::Regex::new(pattern) {
        Ok(regex) => Some((pattern.to_owned(), regex.captures_len() - 1)),
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            // `*tea` and `*.json` are a shell's patterns.
            let shell = pattern.starts_with(['*', '?']);
            let help = match shell {
                true => format!(
                    "this is a regular expression, in which any characters are `.*`: write `'{}'`",
                    shorten(&pattern.replace('.', "\\.").replace('*', ".*").replace('?', "."))
                ),
                false => "`( ) [ ] { } . * + ? ^ $ | \\` mean something in it: put a `\\` before one that is \
                          meant as it is, or use `contains`"
                    .to_owned(),
            };
            cx.report(node.place, format!("not a regular expression: {reason}")).help(help);
            None
        }
    }
}
