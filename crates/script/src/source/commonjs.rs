//! A CommonJS file as an ES module, and `require` in files of either kind.
//!
//! The file becomes the body of a function that `commonjs.js` calls with `exports`, `require` and
//! `module`. The opening stands on the file's first line, so no line moves:
//!
//! ```text
//! const $volley = __volley_commonjs("file:///a.js", function (exports, require, module) {…
//! …
//! });
//! export default $volley.default; const $0 = $volley.view["x"]; export { $0 as "x" };
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

/// Evaluated once per VU before any module; see the file for what it is called with.
pub const COMMONJS_RUNTIME: &str = include_str!("commonjs.js");

/// Under this name a CommonJS module also exports its whole `module.exports`, as in Node.
pub const WHOLE_EXPORTS: &str = "module.exports";

/// The wrapped code, and how many columns its first line was moved.
pub fn wrap(name: &str, code: &str, exports: &BTreeSet<String>) -> (String, u32) {
    let mut wrapped = format!(
        "const $volley = __volley_commonjs({}, function (exports, require, module) {{",
        quoted(name)
    );
    let shift = wrapped.len() as u32;
    wrapped.push_str(code);
    wrapped.push_str("\n});\nexport default $volley.default;\nconst $exports = $volley.exports");
    let names: Vec<&String> = exports.iter().filter(|name| *name != "default").collect();
    for (index, name) in names.iter().enumerate() {
        let _ = write!(wrapped, ", ${index} = $volley.view[{}]", quoted(name));
    }
    let _ = write!(wrapped, ";\nexport {{ $exports as {}", quoted(WHOLE_EXPORTS));
    for (index, name) in names.iter().enumerate() {
        let _ = write!(wrapped, ", ${index} as {}", quoted(name));
    }
    wrapped.push_str(" };\n");
    (wrapped, shift)
}

/// Gives an ES module a `require` of its own. A function declaration works from the first line on
/// wherever it stands, so it stands last and moves nothing.
pub fn add_require(name: &str, code: &str) -> String {
    let name = quoted(name);
    format!(
        "{code}\n;function require(specifier) {{ return __volley_require({name}, specifier); }}\n"
    )
}

/// A module that fetches another for `require()`. Its namespace is handed over while the module
/// runs, because the promise of an evaluation is settled by jobs, and no job may run inside a
/// `require()`.
pub fn require_module(name: &str) -> String {
    format!("import * as namespace from {};\n__volley_deliver(namespace);\n", quoted(name))
}

/// A string literal of JavaScript; JSON is a subset of it.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
