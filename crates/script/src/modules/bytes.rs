//! Bytes from JavaScript values and back, the way k6 sees them.
//!
//! k6 treats a string as its UTF-8 bytes, with U+FFFD for half of a surrogate pair, and turns
//! bytes that are not UTF-8 into one U+FFFD each. Neither QuickJS nor Rust's own conversions do
//! exactly that, so every native module takes its bytes from here.

// QuickJS hands the arguments of native functions over by value.
#![allow(clippy::needless_pass_by_value)]

use std::borrow::Cow;
use std::ptr::NonNull;

use rquickjs::atom::PredefinedAtom;
use rquickjs::{
    ArrayBuffer, CString, Coerced, Ctx, Error, Exception, FromJs, Object, Result, Value,
};

/// The bytes of U+FFFD, which stands for what cannot be said in UTF-8.
const REPLACEMENT: &str = "\u{FFFD}";

/// Throws what k6 throws when a native function refuses its input. The name of the error is
/// k6's too, because scripts print it.
pub fn refuse(ctx: &Ctx<'_>, message: &str) -> Error {
    match Exception::from_message(ctx.clone(), message) {
        Ok(exception) => match exception.as_object().set("name", "GoError") {
            Ok(()) => exception.throw(),
            Err(error) => error,
        },
        Err(error) => error,
    }
}

/// Runs `work` over the bytes of a string, an `ArrayBuffer` or a `Uint8Array`; anything else is
/// refused. `place` comes before the message, such as `"md5 failed: "`.
///
/// The bytes are borrowed from the JavaScript heap, so `work` must not call back into JavaScript.
pub fn with_bytes<R>(
    ctx: &Ctx<'_>,
    value: &Value<'_>,
    place: &str,
    work: impl FnOnce(&[u8]) -> R,
) -> Result<R> {
    if let Some(string) = value.as_string() {
        let held = string.clone().to_cstring()?;
        return Ok(work(&utf8(raw(&held))));
    }
    if let Some(object) = value.as_object() {
        if let Some(buffer) = object.as_array_buffer() {
            return match buffer.as_raw() {
                // SAFETY: no JavaScript runs while the slice lives, so nobody frees or moves it.
                Some(bytes) => Ok(work(unsafe { bytes.as_ref() })),
                None => Err(refuse(ctx, &format!("{place}the ArrayBuffer is detached"))),
            };
        }
        if let Some(view) = view_of_bytes(object) {
            return match view {
                // SAFETY: as above.
                Some(bytes) => Ok(work(unsafe { bytes.as_ref() })),
                None => Err(refuse(ctx, &format!("{place}the buffer of the view is detached"))),
            };
        }
    }
    let given = kind(value);
    let remedy = match given {
        "object" if value.as_object().is_some_and(has_buffer) => "; pass its .buffer",
        _ => "",
    };
    let expected = "expected string, Uint8Array or ArrayBuffer";
    Err(refuse(ctx, &format!("{place}invalid type {given}, {expected}{remedy}")))
}

/// The text of an argument that names something, such as an encoding: absent, `undefined` and
/// `null` are the empty text, everything else is what JavaScript's `String(value)` gives.
pub fn text_of<'js>(ctx: &Ctx<'js>, value: Option<&Value<'js>>) -> Result<String> {
    let Some(value) = value.filter(|value| !value.is_undefined() && !value.is_null()) else {
        return Ok(String::new());
    };
    let string = Coerced::<rquickjs::String<'js>>::from_js(ctx, value.clone())?.0;
    let held = string.to_cstring()?;
    Ok(String::from_utf8_lossy(&utf8(raw(&held))).into_owned())
}

/// A JavaScript string from bytes: each byte that is not part of valid UTF-8 becomes U+FFFD.
pub fn string_from_bytes<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> Result<rquickjs::String<'js>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return rquickjs::String::from_str(ctx.clone(), text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            text.push_str(REPLACEMENT);
        }
    }
    rquickjs::String::from_str(ctx.clone(), &text)
}

/// A new `ArrayBuffer` that owns `bytes`.
pub fn buffer_from_bytes<'js>(ctx: &Ctx<'js>, bytes: Vec<u8>) -> Result<Value<'js>> {
    Ok(ArrayBuffer::new(ctx.clone(), bytes)?.into_value())
}

/// What a value is called in an error message.
pub fn kind(value: &Value<'_>) -> &'static str {
    if value.is_undefined() {
        "undefined"
    } else if value.is_null() {
        "null"
    } else if value.is_bool() {
        "boolean"
    } else if value.is_number() {
        "number"
    } else if value.is_array() {
        "array"
    } else if value.is_function() {
        "function"
    } else if value.is_symbol() {
        "symbol"
    } else {
        value.as_object().map_or("value", |_| "object")
    }
}

/// The memory that a `Uint8Array` or a `Uint8ClampedArray` shows: `None` for any other object,
/// `Some(None)` when its buffer is detached.
pub fn view_of_bytes(object: &Object<'_>) -> Option<Option<NonNull<[u8]>>> {
    if let Some(view) = object.as_typed_array::<u8>() {
        return Some(view.as_raw());
    }
    // The clamped kind has no type of its own here, so its fields are read. Whatever they claim,
    // only memory inside the buffer is given out.
    let tag: Option<String> = object.get(PredefinedAtom::SymbolToStringTag).ok()?;
    if tag.as_deref() != Some("Uint8ClampedArray") {
        return None;
    }
    let buffer: ArrayBuffer<'_> = object.get("buffer").ok()?;
    let start: usize = object.get("byteOffset").ok()?;
    let length: usize = object.get("byteLength").ok()?;
    let Some(memory) = buffer.as_raw() else { return Some(None) };
    let end = start.checked_add(length)?;
    if end > memory.len() {
        return None;
    }
    // SAFETY: `start + length` was found to lie inside the buffer.
    let first = unsafe { memory.cast::<u8>().add(start) };
    Some(Some(NonNull::slice_from_raw_parts(first, length)))
}

fn has_buffer(object: &Object<'_>) -> bool {
    object
        .get::<_, Value<'_>>("buffer")
        .is_ok_and(|buffer| buffer.as_object().is_some_and(Object::is_array_buffer))
}

/// The bytes that QuickJS gives for a string: UTF-8, except that a lone surrogate is written as
/// if it were a character of its own. `CString::as_str` would claim that this is a `str`.
fn raw<'a>(held: &'a CString<'_>) -> &'a [u8] {
    // SAFETY: QuickJS keeps `len` bytes at `as_ptr` until `held` is dropped.
    unsafe { std::slice::from_raw_parts(held.as_ptr().cast::<u8>(), held.len()) }
}

/// Replaces each lone surrogate (`ED A0..BF xx`) by U+FFFD, which has as many bytes.
fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut fixed = bytes.to_vec();
    let mut at = 0;
    while at + 2 < fixed.len() {
        if fixed[at] == 0xED && fixed[at + 1] >= 0xA0 {
            fixed[at..at + 3].copy_from_slice(REPLACEMENT.as_bytes());
            at += 3;
        } else {
            at += 1;
        }
    }
    Cow::Owned(fixed)
}

#[cfg(test)]
pub(crate) mod tests {
    use rquickjs::{Context, Ctx, Function, Runtime, Value};

    use super::*;

    /// Runs an expression against one module's exports, known to it as `m`, and gives what it
    /// yields as text: strings as they are, buffers as `[1,2]`, errors as `name: message`.
    pub(crate) fn outcome(
        install: fn(&Ctx<'_>) -> rquickjs::Result<()>,
        expression: &str,
    ) -> String {
        let runtime = Runtime::new().expect("a runtime");
        let context = Context::full(&runtime).expect("a context");
        context.with(|ctx| {
            install(&ctx).expect("exports");
            let source = format!(
                "(() => {{ try {{ const r = ({expression});
                   return r instanceof ArrayBuffer ? '[' + new Uint8Array(r).join() + ']'
                     : ArrayBuffer.isView(r) ? '<' + r.join() + '>' : String(r);
                 }} catch (e) {{ return `${{e.name}}: ${{e.message}}` }} }})()"
            );
            ctx.eval::<String, _>(source).unwrap_or_else(|error| {
                panic!("{expression}: {error}: {:?}", ctx.catch().as_exception())
            })
        })
    }

    fn install(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
        let bytes = |ctx: Ctx<'_>, value: Value<'_>| {
            with_bytes(&ctx, &value, "", |bytes| {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            })
        };
        fn text<'js>(ctx: Ctx<'js>, value: Value<'js>) -> rquickjs::Result<rquickjs::String<'js>> {
            let bytes = with_bytes(&ctx, &value, "", <[u8]>::to_vec)?;
            string_from_bytes(&ctx, &bytes)
        }
        let globals = ctx.globals();
        globals.set("bytes", Function::new(ctx.clone(), bytes)?)?;
        globals.set("text", Function::new(ctx.clone(), text)?)?;
        Ok(())
    }

    #[test]
    fn strings_are_utf8_and_lone_surrogates_are_replaced() {
        for (expression, hex) in [
            ("bytes('')", ""),
            ("bytes('aé漢😀\\0')", "61c3a9e6bca2f09f988000"),
            ("bytes('\\ud800')", "efbfbd"),
            ("bytes('a\\udc00b\\ud83d')", "61efbfbd62efbfbd"),
            ("bytes('\\ud7ff\\ue000')", "ed9fbfee8080"),
            ("bytes(new Uint8Array([0, 255, 128]).subarray(1))", "ff80"),
            ("bytes(new Uint8ClampedArray([1, 2]))", "0102"),
            ("bytes(new Uint8ClampedArray([1, 2, 3, 4]).subarray(1, 3))", "0203"),
            ("bytes(new Uint8ClampedArray(0))", ""),
            ("bytes(new Uint8Array(0))", ""),
            ("bytes(new Uint8Array([0, 255]).buffer)", "00ff"),
            ("bytes(new ArrayBuffer(0))", ""),
        ] {
            assert_eq!(outcome(install, expression), hex, "{expression}");
        }
    }

    #[test]
    fn each_byte_that_is_not_utf8_becomes_a_replacement() {
        for (expression, expected) in [
            ("text(new Uint8Array([0x61, 0xff, 0xfe]))", "a\u{FFFD}\u{FFFD}"),
            ("text(new Uint8Array([0xf0, 0x9f, 0x98]))", "\u{FFFD}\u{FFFD}\u{FFFD}"),
            ("text(new Uint8Array([0xed, 0xa0, 0x80]))", "\u{FFFD}\u{FFFD}\u{FFFD}"),
            ("text(new Uint8Array([0xf0, 0x9f, 0x98, 0x80]))", "😀"),
        ] {
            assert_eq!(outcome(install, expression), expected, "{expression}");
        }
    }

    #[test]
    fn other_values_are_refused_by_name() {
        for (expression, given) in [
            ("bytes(undefined)", "undefined"),
            ("bytes(null)", "null"),
            ("bytes(1.5)", "number"),
            ("bytes([1])", "array"),
            ("bytes({})", "object"),
            ("bytes(() => 1)", "function"),
            ("bytes(new Uint16Array(1))", "object"),
        ] {
            let refused = outcome(install, expression);
            let expected = format!("GoError: invalid type {given}, expected string");
            assert!(refused.starts_with(&expected), "{expression}: {refused}");
        }
        assert!(outcome(install, "bytes(new Uint16Array(1))").ends_with("pass its .buffer"));
    }
}
