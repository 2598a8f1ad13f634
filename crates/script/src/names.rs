//! Names that scripts use without having them: what k6 and its libraries export, with the line that
//! imports it, and what browsers and Node.js have, with what to use instead.

use crate::options::nearest;

const UTILS: &str = "https://jslib.k6.io/k6-utils/1.4.0/index.js";
const SUMMARY: &str = "https://jslib.k6.io/k6-summary/0.1.0/index.js";

/// Names of single exports, by the module that has them.
const EXPORTS: &[(&str, &[&str])] = &[
    ("k6", &["check", "fail", "group", "randomSeed", "sleep"]),
    ("k6/metrics", &["Counter", "Gauge", "Rate", "Trend"]),
    ("k6/data", &["SharedArray"]),
    ("k6/encoding", &["b64decode", "b64encode"]),
    ("k6/crypto", &["createHMAC", "createHash", "hmac", "md5", "sha1", "sha256", "sha512"]),
    (UTILS, &["findBetween", "randomIntBetween", "randomItem", "randomString", "uuidv4"]),
    (SUMMARY, &["textSummary"]),
];

/// The usual names of whole modules.
const MODULES: &[(&str, &str)] = &[
    ("http", "k6/http"),
    ("encoding", "k6/encoding"),
    ("exec", "k6/execution"),
    ("execution", "k6/execution"),
    ("papaparse", "https://jslib.k6.io/papaparse/5.1.1/index.js"),
];

const NO_BROWSER: &str = "scripts do not run in a browser; requests are sent with `k6/http`";

/// What other places have where JavaScript runs.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "fetch",
        "requests are sent with `http.get(url)` and `http.asyncRequest('GET', url)` of `k6/http`",
    ),
    ("XMLHttpRequest", NO_BROWSER),
    ("axios", "requests are sent with `http.get(url)` and `http.post(url, body)` of `k6/http`"),
    ("process", "scripts do not run in Node.js; the environment is in `__ENV`, as in `__ENV.NAME`"),
    ("Buffer", "scripts do not run in Node.js; see `k6/encoding`, ArrayBuffer and Uint8Array"),
    ("fs", "scripts do not run in Node.js; files are read with `open(path)` in the init code"),
    ("__dirname", "scripts do not run in Node.js; paths start at the script's folder"),
    ("__filename", "scripts do not run in Node.js; paths start at the script's folder"),
    ("window", NO_BROWSER),
    ("document", NO_BROWSER),
    ("localStorage", NO_BROWSER),
    ("URLSearchParams", "it is in `https://jslib.k6.io/url/1.0.0/index.js`"),
    ("URL", "it is in `https://jslib.k6.io/url/1.0.0/index.js`"),
    ("env", "the environment is in `__ENV`, as in `__ENV.NAME`"),
];

/// The line that makes a name known.
pub fn import_of(name: &str) -> Option<String> {
    if let Some((_, module)) = MODULES.iter().find(|(known, _)| *known == name) {
        return Some(format!("import {name} from '{module}';"));
    }
    let (module, _) = EXPORTS.iter().find(|(_, names)| names.contains(&name))?;
    Some(format!("import {{ {name} }} from '{module}';"))
}

/// What to do about a name that is not defined. `own`: names that the file has.
pub fn advice(name: &str, own: &[&str]) -> Option<String> {
    if let Some(line) = import_of(name) {
        return Some(format!("an import is missing: {line}"));
    }
    if let Some((_, advice)) = ELSEWHERE.iter().find(|(known, _)| *known == name) {
        return Some((*advice).to_owned());
    }
    if let Some(meant) = nearest(name, own) {
        return Some(format!("did you mean `{meant}`?"));
    }
    let exported = EXPORTS.iter().flat_map(|(_, names)| *names);
    let known: Vec<&str> =
        MODULES.iter().map(|(name, _)| *name).chain(exported.copied()).chain(GLOBALS).collect();
    let meant = nearest(name, &known)?;
    Some(match import_of(meant) {
        Some(line) => format!("did you mean `{meant}`? ({line})"),
        None => format!("did you mean `{meant}`?"),
    })
}

/// Globals that are often misspelt.
const GLOBALS: [&str; 8] =
    ["__ENV", "__VU", "__ITER", "console", "open", "JSON", "Math", "undefined"];

/// Methods of responses, strings and arrays: what somebody means who calls what is not there.
pub const METHODS: &[&str] = &[
    "json",
    "concat",
    "endsWith",
    "entries",
    "filter",
    "find",
    "findIndex",
    "flat",
    "flatMap",
    "forEach",
    "includes",
    "indexOf",
    "join",
    "keys",
    "lastIndexOf",
    "length",
    "map",
    "match",
    "padEnd",
    "padStart",
    "parse",
    "pop",
    "push",
    "random",
    "reduce",
    "repeat",
    "replace",
    "replaceAll",
    "reverse",
    "shift",
    "slice",
    "some",
    "sort",
    "splice",
    "split",
    "startsWith",
    "stringify",
    "substring",
    "toFixed",
    "toLowerCase",
    "toString",
    "toUpperCase",
    "trim",
    "unshift",
    "values",
    "add",
    "log",
    "floor",
    "round",
    "ceil",
];

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn a_name_of_k6_is_answered_with_the_line_that_imports_it() {
        let table = [
            ("http", "import http from 'k6/http';"),
            ("check", "import { check } from 'k6';"),
            ("Trend", "import { Trend } from 'k6/metrics';"),
            ("SharedArray", "import { SharedArray } from 'k6/data';"),
            ("Countr", "did you mean `Counter`? (import { Counter } from 'k6/metrics';)"),
            ("process", "`__ENV`"),
            ("fetch", "http.get(url)"),
            ("usres", "did you mean `users`?"),
        ];
        for (name, expected) in table {
            let said = advice(name, &["users"]).unwrap_or_default();
            assert!(said.contains(expected), "{name}: {said}");
        }
        assert_eq!(advice("somethingElse", &["users"]), None);
    }
}
