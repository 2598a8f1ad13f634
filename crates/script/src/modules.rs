//! The modules that a script can import, in one table. A new module is a new row and a file.

pub mod bytes;
pub mod console;
pub mod core;
pub mod crypto;
pub mod data;
pub mod encoding;
pub mod execution;
pub mod globals;
pub mod http;
pub use http::is_response;
pub mod metrics;
pub mod text;
pub mod timers;

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::{Coerced, Ctx, Exception, Object, Result, Value};

use crate::host::Host;
use crate::source::{BuiltinStatus, Builtins, missing_builtin};

/// A module written in Rust.
pub struct Native {
    pub name: &'static str,
    pub exports: &'static [&'static str],
    pub make: for<'js> fn(&Ctx<'js>, &Rc<Host>) -> Result<Object<'js>>,
}

const TABLE: &[Native] = &[
    Native { name: "k6", exports: core::NAMES, make: core::exports },
    Native { name: "k6/http", exports: http::NAMES, make: http::exports },
    Native { name: "k6/metrics", exports: metrics::NAMES, make: metrics::exports },
    Native { name: "k6/execution", exports: execution::NAMES, make: execution::exports },
    Native { name: "k6/data", exports: data::NAMES, make: data::exports },
    Native { name: "k6/encoding", exports: encoding::NAMES, make: |ctx, _| encoding::exports(ctx) },
    Native { name: "k6/crypto", exports: crypto::NAMES, make: |ctx, _| crypto::exports(ctx) },
    Native { name: "k6/timers", exports: timers::NAMES, make: timers::exports },
];

pub fn find(name: &str) -> Option<&'static Native> {
    TABLE.iter().find(|native| native.name == name)
}

/// All names, for suggestions.
const NAMES: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        names[at] = TABLE[at].name;
        at += 1;
    }
    names
};

/// What a script may import that is no file.
pub fn builtins() -> Builtins {
    Builtins {
        status: |name| match find(name) {
            Some(_) => BuiltinStatus::Here,
            None => missing_builtin(name),
        },
        exports: |name| find(name).map(|native| native.exports),
        names: NAMES,
        library: crate::jslib::find,
        libraries: crate::jslib::URLS,
    }
}

/// Parts of native modules that are easier to say in JavaScript, by internal name.
pub fn glue(name: &str) -> Option<&'static str> {
    [data::GLUE, execution::GLUE].iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}

/// State of native modules that belongs to one virtual user.
#[derive(Default)]
pub struct Cells {
    pub timers: timers::Timers,
    pub http: http::State,
}

/// A copy of the bytes of an ArrayBuffer or a typed array; `None`: it is something else.
pub fn bytes_of(value: &Value<'_>) -> Option<Vec<u8>> {
    let object = value.as_object()?;
    let bytes = match object.as_array_buffer() {
        Some(buffer) => buffer.as_raw(),
        None => bytes::view_of_bytes(object)?,
    };
    // SAFETY: nothing runs between finding the bytes and copying them.
    Some(bytes.map_or_else(Vec::new, |bytes| unsafe { bytes.as_ref() }.to_vec()))
}

/// Tags given by a script, as an object of strings, numbers and booleans.
pub fn tags_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Vec<(Arc<str>, Arc<str>)>> {
    let Some(object) = value.as_object() else { return Ok(Vec::new()) };
    let mut tags = Vec::new();
    for entry in object.props::<String, Value<'js>>() {
        let (key, value) = entry?;
        let text = tag_value(ctx, &key, &value)?;
        tags.push((key.as_str().into(), text.as_str().into()));
    }
    Ok(tags)
}

pub fn tag_value<'js>(ctx: &Ctx<'js>, key: &str, value: &Value<'js>) -> Result<String> {
    if value.is_string() || value.is_bool() || value.is_number() {
        return Ok(value.get::<Coerced<String>>()?.0);
    }
    let message = format!(
        "invalid value for metric tag '{key}': only String, Boolean and Number types are accepted \
         as a metric tag values"
    );
    Err(Exception::throw_type(ctx, &message))
}
