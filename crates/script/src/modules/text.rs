//! The globals `TextEncoder` and `TextDecoder`, for UTF-8.
//!
//! k6 v1.1.0 has neither, but libraries that are bundled into scripts expect them, and a script
//! that brings its own still can. (k6 has no `atob` and `btoa` either; QuickJS brings those.)

// QuickJS hands the arguments of native functions over by value.
#![allow(clippy::needless_pass_by_value)]

use rquickjs::convert::List;
use rquickjs::{Ctx, Exception, Function, Result, TypedArray, Value};

use super::bytes::{buffer_from_bytes, with_bytes};

/// The two classes. What touches bytes is native: `encode`, `encodeInto`, `decode`.
const CLASSES: &str = r#"(encode, encodeInto, decode) => {
  const LABELS = ['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8',
    'x-unicode20utf8'];
  class TextEncoder {
    get encoding() { return 'utf-8' }
    encode(input = '') { return encode(`${input}`) }
    encodeInto(source, destination) {
      const [read, written] = encodeInto(`${source}`, destination);
      return { read, written };
    }
  }
  class TextDecoder {
    #fatal; #ignoreBOM; #rest; #begun = false;
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!LABELS.includes(`${label}`.trim().toLowerCase())) {
        throw new RangeError(`TextDecoder knows only utf-8, not ${label}`);
      }
      this.#fatal = !!fatal;
      this.#ignoreBOM = !!ignoreBOM;
    }
    get encoding() { return 'utf-8' }
    get fatal() { return this.#fatal }
    get ignoreBOM() { return this.#ignoreBOM }
    decode(input = new Uint8Array(0), { stream = false } = {}) {
      const bytes = ArrayBuffer.isView(input)
        ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
        : input instanceof ArrayBuffer ? input : undefined;
      if (!bytes) throw new TypeError('TextDecoder.decode takes an ArrayBuffer or a view of one');
      const before = this.#rest;
      const begun = this.#begun;
      this.#rest = undefined;
      this.#begun = false;
      const [text, rest] = decode(bytes, before, this.#fatal, !!stream);
      if (stream) {
        this.#rest = rest;
        this.#begun = begun || text.length > 0;
      }
      return !begun && !this.#ignoreBOM && text[0] === '\uFEFF' ? text.slice(1) : text;
    }
  }
  for (const [name, value] of Object.entries({ TextEncoder, TextDecoder })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
}"#;

/// Puts `TextEncoder` and `TextDecoder` in place.
pub fn install(ctx: &Ctx<'_>) -> Result<()> {
    let classes: Function<'_> = ctx.eval(CLASSES)?;
    classes.call((
        Function::new(ctx.clone(), encode)?,
        Function::new(ctx.clone(), encode_into)?,
        Function::new(ctx.clone(), decode)?,
    ))
}

fn encode<'js>(ctx: Ctx<'js>, text: Value<'js>) -> Result<TypedArray<'js, u8>> {
    let bytes = with_bytes(&ctx, &text, "", <[u8]>::to_vec)?;
    TypedArray::new(ctx, bytes)
}

/// Writes as many whole characters as fit; gives the UTF-16 units read and the bytes written.
fn encode_into<'js>(
    ctx: Ctx<'js>,
    text: Value<'js>,
    destination: Value<'js>,
) -> Result<List<(usize, usize)>> {
    let Some(view) = destination.as_object().and_then(|object| object.as_typed_array::<u8>())
    else {
        return Err(Exception::throw_type(&ctx, "TextEncoder.encodeInto fills a Uint8Array"));
    };
    let target = view.as_raw();
    with_bytes(&ctx, &text, "", |bytes| {
        let room = target.map_or(0, |target| target.len());
        let text = String::from_utf8_lossy(bytes);
        let (mut read, mut written) = (0, 0);
        for character in text.chars() {
            if written + character.len_utf8() > room {
                break;
            }
            read += character.len_utf16();
            written += character.len_utf8();
        }
        if let Some(mut target) = target {
            // SAFETY: no JavaScript runs while the slice lives, and this is the only reference.
            let target = unsafe { target.as_mut() };
            target[..written].copy_from_slice(&text.as_bytes()[..written]);
        }
        List((read, written))
    })
}

/// The text of `before` and `input` together, and the start of a character that is not complete
/// yet (only while streaming).
fn decode<'js>(
    ctx: Ctx<'js>,
    input: Value<'js>,
    before: Value<'js>,
    fatal: bool,
    stream: bool,
) -> Result<List<(String, Value<'js>)>> {
    let mut bytes = match before.is_undefined() {
        true => Vec::new(),
        false => with_bytes(&ctx, &before, "", <[u8]>::to_vec)?,
    };
    with_bytes(&ctx, &input, "", |input| bytes.extend_from_slice(input))?;
    let rest = if stream { bytes.split_off(bytes.len() - incomplete(&bytes)) } else { Vec::new() };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if fatal => {
            let at = error.utf8_error().valid_up_to();
            return Err(Exception::throw_type(&ctx, &format!("byte {at} is not UTF-8")));
        }
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    Ok(List((text, buffer_from_bytes(&ctx, rest)?)))
}

/// How many bytes at the end begin a character without finishing it.
fn incomplete(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so it is enough to look at the last three.
    let mut tail = &bytes[bytes.len().saturating_sub(3)..];
    while let Err(error) = std::str::from_utf8(tail) {
        match error.error_len() {
            None => return tail.len() - error.valid_up_to(),
            Some(bad) => tail = &tail[error.valid_up_to() + bad..],
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::super::bytes::tests::outcome;
    use super::*;

    fn globals(ctx: &Ctx<'_>) -> Result<()> {
        install(ctx)
    }

    /// Outcomes that browsers give.
    #[test]
    fn text_becomes_bytes_and_back() {
        for (expression, expected) in [
            ("new TextEncoder().encode('aé漢😀')", "<97,195,169,230,188,162,240,159,152,128>"),
            ("new TextEncoder().encode('\\ud800')", "<239,191,189>"),
            ("new TextEncoder().encode()", "<>"),
            ("new TextEncoder().encode(null)", "<110,117,108,108>"),
            ("new TextEncoder().encode('x') instanceof Uint8Array", "true"),
            (
                "(() => { const d = new Uint8Array(4);
                    const r = new TextEncoder().encodeInto('a漢😀', d);
                    return JSON.stringify(r) + d.join() })()",
                "{\"read\":2,\"written\":4}97,230,188,162",
            ),
            (
                "JSON.stringify(new TextEncoder().encodeInto('😀', new Uint8Array(9)))",
                "{\"read\":2,\"written\":4}",
            ),
            ("new TextDecoder().decode(new Uint8Array([97, 195, 169]))", "aé"),
            ("new TextDecoder().decode(new Uint8Array([1, 98, 2]).subarray(1, 2))", "b"),
            ("new TextDecoder().decode(new Uint16Array([25185]))", "ab"),
            ("new TextDecoder().decode(new DataView(new Uint8Array([97]).buffer))", "a"),
            ("new TextDecoder().decode()", ""),
            ("new TextDecoder().decode(new Uint8Array([255, 97]))", "\u{FFFD}a"),
            ("new TextDecoder().decode(new Uint8Array([240, 159, 152]))", "\u{FFFD}"),
            ("new TextDecoder().decode(new Uint8Array([239, 187, 191, 97]))", "a"),
            (
                "new TextDecoder('utf8', { ignoreBOM: true })
                    .decode(new Uint8Array([239, 187, 191, 97])).length",
                "2",
            ),
            ("new TextDecoder('UTF-8 ').encoding", "utf-8"),
            ("new TextDecoder('latin1')", "RangeError: TextDecoder knows only utf-8, not latin1"),
            (
                "new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([97, 255]))",
                "TypeError: byte 1 is not UTF-8",
            ),
            (
                "new TextDecoder().decode('x')",
                "TypeError: TextDecoder.decode takes an ArrayBuffer or a view of one",
            ),
            ("Object.keys(globalThis).includes('TextEncoder')", "false"),
        ] {
            assert_eq!(outcome(globals, expression), expected, "{expression}");
        }
    }

    #[test]
    fn a_stream_may_be_cut_anywhere() {
        let source = |options: &str| {
            format!(
                "(() => {{ const all = new TextEncoder().encode('\\uFEFFa é漢😀 z');
                   for (let cut = 0; cut <= all.length; cut++) for (let to = cut; to <= all.length; to++) {{
                     const d = new TextDecoder('utf-8', {options});
                     const text = d.decode(all.subarray(0, cut), {{ stream: true }})
                       + d.decode(all.subarray(cut, to), {{ stream: true }}) + d.decode(all.subarray(to));
                     if (text !== 'a é漢😀 z') return cut + ' ' + to + ' ' + text;
                   }} return 'same' }})()"
            )
        };
        assert_eq!(outcome(globals, &source("{}")), "same");
        assert_eq!(outcome(globals, &source("{ fatal: true }")), "same");
        assert_eq!(
            outcome(
                globals,
                "(() => { const d = new TextDecoder();
                    return d.decode(new Uint8Array([240, 159]), { stream: true }) + '|' + d.decode()
                })()"
            ),
            "|\u{FFFD}"
        );
    }
}
