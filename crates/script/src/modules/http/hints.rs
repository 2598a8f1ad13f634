//! What is said once about requests that are surely not what their author meant. k6 sends them
//! without a word, and so do we; a warning comes with the first.

use rquickjs::{Ctx, Value};

use super::response::MEMBERS;
use crate::host::{Host, HostRef};
use crate::lacking::Lacking;
use crate::options::nearest;
use crate::said::Said;

/// Keys of params.
const PARAMS: &[&str] = &[
    "auth",
    "compression",
    "cookies",
    "headers",
    "jar",
    "redirects",
    "responseCallback",
    "responseType",
    "tags",
    "throw",
    "timeout",
];

const IS_THE_BODY: &str = "the body is an argument of its own: http.post(url, body, params)";
const IN_THE_URL: &str = "write the query into the URL";

/// Words of other tools.
const ELSEWHERE: &[(&str, &str)] = &[
    ("body", IS_THE_BODY),
    ("data", IS_THE_BODY),
    (
        "json",
        "a JSON body is an argument of its own: http.post(url, JSON.stringify(value), params)",
    ),
    ("query", IN_THE_URL),
    ("params", IN_THE_URL),
    ("qs", IN_THE_URL),
    ("followRedirects", "`redirects: 0` follows none"),
    ("allowRedirects", "`redirects: 0` follows none"),
    ("discardResponseBodies", "`responseType: 'none'` does that for one request"),
    ("contentType", "write `headers: { 'Content-Type': '...' }`"),
    ("content-type", "write `headers: { 'Content-Type': '...' }`"),
    ("Content-Type", "write `headers: { 'Content-Type': '...' }`"),
    ("Authorization", "write `headers: { Authorization: '...' }`"),
];

/// k6 passes over keys that it does not know. One that is nearly a known one is a mistake.
pub fn unknown_param(ctx: &Ctx<'_>, key: &str) {
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    if !host.script().said.may_look(Said::Param) {
        return;
    }
    let known = ELSEWHERE.iter().find(|(word, _)| *word == key);
    let advice = match known {
        Some((_, advice)) => Some((*advice).to_owned()),
        None => nearest(key, PARAMS).map(|meant| format!("did you mean `{meant}`?")),
    };
    if let Some(advice) = advice {
        let text = format!("params of a request have no `{key}`, so it has no effect; {advice}");
        host.warn_once(ctx, Said::Param, &text);
    }
}

/// A URL into which a value was put that is not there. Asked only of URLs that are seen for the
/// first time.
pub fn look_at_url(ctx: &Ctx<'_>, host: &Host, url: &str) {
    if !host.script().said.may_look(Said::Url) {
        return;
    }
    let Some(what) = missing_value(url) else {
        let begins = |c: char| c == '/' || c.is_ascii_alphanumeric();
        if !url.contains("://") && url.starts_with(begins) {
            let shown: String = url.chars().take(200).collect();
            let text =
                format!("the URL \"{shown}\" has no scheme; write it whole: http://host:port/path");
            host.warn_once(ctx, Said::Url, &text);
        }
        return;
    };
    let shown: String = plan::mask_broken_url(url).chars().take(200).collect();
    let mut text =
        format!("the URL \"{shown}\" has `{what}` in it: a value that it is made of is missing");
    let unset = host.script().unset_environment();
    if !unset.is_empty() {
        let names: Vec<String> = unset.iter().map(|name| format!("__ENV.{name}")).collect();
        let flags: Vec<String> = unset.iter().map(|name| format!("-e {name}=...")).collect();
        text += &format!("; not set: {} (give it with {})", names.join(", "), flags.join(" "));
    }
    host.warn_once(ctx, Said::Url, &text);
}

/// `undefined`, `null`, `NaN` or an object in the place of a part of the URL.
fn missing_value(url: &str) -> Option<&'static str> {
    let missing = ["undefined", "null", "NaN", "[object Object]"];
    missing.into_iter().find(|word| {
        url.match_indices(word).any(|(at, _)| {
            let before = url[..at].chars().next_back();
            let after = url[at + word.len()..].chars().next();
            // `null-and-void` is a name; `undefined.json` is none.
            let more = if *word == "undefined" { ".-_" } else { "" };
            let is_edge = |edge: Option<char>, marks: &str| {
                edge.is_none_or(|c| marks.contains(c) || more.contains(c))
            };
            is_edge(before, "/=:@?&") && is_edge(after, "/?&#:;,")
        })
    })
}

/// `headers: 'Accept: text/plain'` and the like, which k6 passes over.
pub fn no_object(ctx: &Ctx<'_>, key: &str, value: &Value<'_>) {
    if value.is_object() || value.is_undefined() || value.is_null() {
        return;
    }
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let text = format!(
        "`{key}` in the params of a request is no object, so it has no effect; write {key}: {{ name: 'value' }}"
    );
    host.warn_once(ctx, Said::Param, &text);
}

/// An object as body is sent as a form, whatever the headers say.
pub fn form_as_json(ctx: &Ctx<'_>, host: &Host) {
    let text = "the body is an object, which is sent as a form (a=1&b=2), and its Content-Type says \
                JSON; write JSON.stringify(body)";
    host.warn_once(ctx, Said::FormAsJson, text);
}

/// Words of other tools for what a response has.
const MEMBERS_ELSEWHERE: &[(&str, &str)] = &[
    ("statusCode", "status"),
    ("status_code", "status"),
    ("code", "status"),
    ("statusText", "status_text"),
    ("statusMessage", "status_text"),
    ("ok", "status === 200"),
    ("text", "body"),
    ("content", "body"),
    ("data", "json()"),
    ("responseText", "body"),
    ("responseBody", "body"),
    ("header", "headers['Name']"),
    ("getHeader", "headers['Name']"),
    ("cookie", "cookies"),
    ("time", "timings.duration"),
    ("elapsed", "timings.duration"),
    ("duration", "timings.duration"),
    ("responseTime", "timings.duration"),
    ("latency", "timings.duration"),
    ("ttfb", "timings.waiting"),
    ("method", "request.method"),
];

/// What is asked of any value, by the language and by libraries.
const OF_ANY: &[&str] = &[
    "then",
    "catch",
    "toJSON",
    "inspect",
    "constructor",
    "length",
    "size",
    "nodeType",
    "message",
    "stack",
    "name",
    "splice",
    "prototype",
];

/// `response.statusCode`, which is undefined.
pub fn no_member(ctx: &Ctx<'_>, host: &Host, name: &str) {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !is_name || OF_ANY.contains(&name) || !host.script().said.may_look(Said::Member) {
        return;
    }
    let known = MEMBERS_ELSEWHERE.iter().find(|(word, _)| *word == name);
    let advice = match known.map(|(_, is)| *is).or_else(|| nearest(name, &MEMBERS)) {
        Some(is) => format!("it is `response.{is}`"),
        None => {
            let there = MEMBERS.iter().filter(|name| Lacking::response(name).is_none());
            format!("it has {}", there.copied().collect::<Vec<_>>().join(", "))
        }
    };
    let text = format!("a response has no `{name}`, so it is undefined; {advice}");
    host.warn_once(ctx, Said::Member, &text);
}

/// `response.body` with `discardResponseBodies`.
pub fn no_body(ctx: &Ctx<'_>, host: &Host) {
    let text = "the body of this response is null, because `discardResponseBodies` is set; a request whose body is \
                looked at has `{ responseType: 'text' }` in its params";
    host.warn_once(ctx, Said::NoBody, text);
}

/// `Bearer undefined`
pub fn look_at_header(ctx: &Ctx<'_>, name: &str, value: &str) {
    let missing = ["undefined", "null", "NaN", "[object Object]"];
    let is_part = |word: &&str| match *word {
        // `Origin: null` is meant.
        "null" => value.ends_with(" null"),
        "[object Object]" => value.contains(word),
        word => value.split([' ', '=', ':', '-', ';', ',']).any(|part| part == word),
    };
    let found = missing.iter().find(|word| is_part(word));
    let Some(what) = found else { return };
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let mut text =
        format!("the header `{name}` has `{what}` in it: a value that it is made of is missing");
    let unset = host.script().unset_environment();
    if !unset.is_empty() {
        let flags: Vec<String> = unset.iter().map(|name| format!("-e {name}=...")).collect();
        text += &format!("; not set in __ENV: {} ({})", unset.join(", "), flags.join(" "));
    }
    host.warn_once(ctx, Said::Header, &text);
}

/// `{ address: { city: 'Oslo' } }` as a form.
pub fn nested_form(ctx: &Ctx<'_>, name: &str, sent: &str) {
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let sent: String = sent.chars().take(60).collect();
    let text = format!(
        "the field `{name}` of the form is an object, and a form has only texts: `{name}={sent}` is sent; for JSON \
         write JSON.stringify(body) and headers: {{ 'Content-Type': 'application/json' }}"
    );
    host.warn_once(ctx, Said::NestedForm, &text);
}

/// `auth: { username, password }`
pub fn no_auth(ctx: &Ctx<'_>) {
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let text = "`auth` in the params of a request is the name of a method ('basic' or 'digest'), so that this object \
                has no effect; write name and password into the URL, http://user:password@host/, or a header: \
                headers: { Authorization: `Basic ${encoding.b64encode('user:password')}` }";
    host.warn_once(ctx, Said::Auth, text);
}

/// `response.json('$.token')`: a path as others write it, which has found nothing.
pub fn no_match(ctx: &Ctx<'_>, path: &str) {
    let Some((language, right)) = as_gjson(path) else { return };
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let path: String = path.chars().take(60).collect();
    let text = format!(
        "json('{path}') found nothing, so it is undefined: that is {language}, and the paths of json() are GJSON's; \
         write json('{right}')"
    );
    host.warn_once(ctx, Said::Selector, &text);
}

/// A path of another language, and how it is written here.
fn as_gjson(path: &str) -> Option<(&'static str, String)> {
    let dotted = |path: &str| {
        let path = path.replace("[*]", ".#").replace("['", ".").replace("[\"", ".");
        let path: String =
            path.chars().filter(|c| !"]'\"".contains(*c)).collect::<String>().replace('[', ".");
        path.trim_matches('.').to_owned()
    };
    let is_index = |path: &str| {
        path.match_indices('[').any(|(at, _)| {
            path[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '*' || c == '\'')
        })
    };
    if path.starts_with("$.") || path.starts_with("$[") {
        return Some(("JSONPath", dotted(&path[1..])));
    }
    if path.starts_with('/') && path.len() > 1 {
        return Some(("a JSON pointer", path[1..].replace('/', ".")));
    }
    if path.starts_with('.') && path.len() > 1 {
        return Some(("a path of jq", dotted(path)));
    }
    is_index(path).then(|| ("JavaScript", dotted(path)))
}

/// Longer texts are contents.
const PATH_CHARS_MAX: usize = 200;

/// `http.file('./users.csv', 'users.csv')`
pub fn file_is_path(ctx: &Ctx<'_>, data: &Value<'_>, name: &str) {
    let Some(text) = data.as_string().and_then(|text| text.to_string().ok()) else { return };
    let looks = ["./", "../", "/"].iter().any(|begin| text.starts_with(begin))
        && text.rsplit('/').next().is_some_and(|last| last.contains('.'));
    let is_name = text.contains('.') && (text == name || text.ends_with(&format!("/{name}")));
    let is_one = text.len() < PATH_CHARS_MAX && !text.contains(['\n', ' ', ',', '<', '{']);
    if !is_one || !(looks || is_name) {
        return;
    }
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let said = format!(
        "http.file() takes the content of a file, so that the text `{text}` is sent; read it in the init code, const \
         file = open('{text}', 'b'), and write http.file(file, '{name}')"
    );
    host.warn_once(ctx, Said::FilePath, &said);
}

/// `http.batch([http.get(a), http.get(b)])`
pub fn response_in_batch(ctx: &Ctx<'_>, host: &Host) {
    let text = "http.batch() was given responses: these requests have been made already, and are made again; give it \
                what is to be requested: http.batch([['GET', url], ['GET', url2]])";
    host.warn_once(ctx, Said::Batch, text);
}

/// So short a time limit was meant in seconds.
const TIMEOUT_MS: f64 = 100.0;

/// `timeout: 10`, `timeout: '10'`
pub fn short_timeout(ctx: &Ctx<'_>, value: &Value<'_>) {
    let text = value.as_string().and_then(|text| text.to_string().ok());
    let Some(ms) = value.as_number().or_else(|| text?.trim().parse().ok()) else { return };
    if !(ms > 0.0 && ms < TIMEOUT_MS) {
        return;
    }
    let Some(host) = ctx.userdata::<HostRef>().map(|host| host.0.clone()) else { return };
    let text = format!(
        "`timeout: {ms}` is {ms} milliseconds; {ms} seconds are `timeout: '{ms}s'` (or, if it is meant, '{ms}ms')"
    );
    host.warn_once(ctx, Said::Timeout, &text);
}

#[cfg(test)]
mod tests {
    use super::{as_gjson, missing_value};

    #[test]
    fn paths_of_other_languages_are_written_as_json_wants_them() {
        for (path, right) in [
            ("$.token", "token"),
            ("$['a'].b[0]", "a.b.0"),
            ("$.items[*].id", "items.#.id"),
            ("/data/id", "data.id"),
            (".data.id", "data.id"),
            ("data[0].id", "data.0.id"),
        ] {
            assert_eq!(as_gjson(path).map(|(_, right)| right).as_deref(), Some(right), "{path}");
        }
        for path in ["token", "a.0.b", "items.#.id", "a.#(b==1)#.c", "@this", "$", "/"] {
            assert_eq!(as_gjson(path), None, "{path}");
        }
    }

    #[test]
    fn a_value_that_is_missing_in_a_url_is_seen() {
        for url in [
            "undefined/search",
            "http://undefined/search",
            "http://a/users/undefined",
            "http://a/users/null/orders",
            "http://a/?id=undefined&x=1",
            "http://a:NaN/",
            "http://a/[object Object]",
        ] {
            assert!(missing_value(url).is_some(), "{url}");
        }
        for url in [
            "http://a/nullable",
            "http://a/undefinedness",
            "http://a/annull",
            "http://a/null-and-void",
        ] {
            assert_eq!(missing_value(url), None, "{url}");
        }
    }
}
