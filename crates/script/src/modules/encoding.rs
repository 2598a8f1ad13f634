//! `k6/encoding`: base64 as k6 writes and reads it.
//!
//! Reading follows Go's rules, since scripts see them: line ends are skipped, bits after the last
//! byte are ignored, padding is required by the padded alphabets and refused by the raw ones, and
//! an error names the byte where the input went wrong.

// QuickJS hands the arguments of native functions over by value.
#![allow(clippy::needless_pass_by_value)]

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rquickjs::function::Opt;
use rquickjs::{Ctx, Function, Object, Result, Value};

use super::bytes::{buffer_from_bytes, refuse, string_from_bytes, text_of, with_bytes};

/// The names that the module exports.
pub const NAMES: &[&str] = &["b64decode", "b64encode", "default"];

const PADDED: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
const RAW: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone);

/// One of k6's four ways to write base64.
struct Variant {
    engine: GeneralPurpose,
    alphabet: &'static alphabet::Alphabet,
    padded: bool,
}

static STD: Variant = variant(&alphabet::STANDARD, true);
static RAW_STD: Variant = variant(&alphabet::STANDARD, false);
static URL: Variant = variant(&alphabet::URL_SAFE, true);
static RAW_URL: Variant = variant(&alphabet::URL_SAFE, false);

const fn variant(alphabet: &'static alphabet::Alphabet, padded: bool) -> Variant {
    let config = if padded { PADDED } else { RAW };
    Variant { engine: GeneralPurpose::new(alphabet, config), alphabet, padded }
}

/// k6 takes an unknown name for the standard alphabet, silently; so must we.
fn variant_named(name: &str) -> &'static Variant {
    match name {
        "rawstd" => &RAW_STD,
        "url" => &URL,
        "rawurl" => &RAW_URL,
        _ => &STD,
    }
}

/// All exports by name.
pub fn exports<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let functions = [
        ("b64encode", Function::new(ctx.clone(), b64encode)?.with_name("b64encode")?),
        ("b64decode", Function::new(ctx.clone(), b64decode)?.with_name("b64decode")?),
    ];
    let (module, default) = (Object::new(ctx.clone())?, Object::new(ctx.clone())?);
    for (name, function) in functions {
        default.set(name, function.clone())?;
        module.set(name, function)?;
    }
    module.set("default", default)?;
    Ok(module)
}

fn b64encode<'js>(
    ctx: Ctx<'js>,
    input: Opt<Value<'js>>,
    encoding: Opt<Value<'js>>,
) -> Result<String> {
    let input = input.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
    let variant = variant_named(&text_of(&ctx, encoding.0.as_ref())?);
    with_bytes(&ctx, &input, "", |bytes| variant.engine.encode(bytes))
}

fn b64decode<'js>(
    ctx: Ctx<'js>,
    input: Opt<Value<'js>>,
    encoding: Opt<Value<'js>>,
    format: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let input = text_of(&ctx, input.0.as_ref())?;
    let variant = variant_named(&text_of(&ctx, encoding.0.as_ref())?);
    let bytes = decode(variant, input.as_bytes())
        .map_err(|at| refuse(&ctx, &format!("illegal base64 data at input byte {at}")))?;
    if text_of(&ctx, format.0.as_ref())? == "s" {
        return Ok(string_from_bytes(&ctx, &bytes)?.into_value());
    }
    buffer_from_bytes(&ctx, bytes)
}

/// The bytes behind `input`, or the place of the error. The fast decoder knows no line ends and
/// counts errors in another way, so whatever it refuses is read again, slowly.
fn decode(variant: &Variant, input: &[u8]) -> std::result::Result<Vec<u8>, usize> {
    variant.engine.decode(input).or_else(|_| decode_slowly(variant, input))
}

fn decode_slowly(variant: &Variant, input: &[u8]) -> std::result::Result<Vec<u8>, usize> {
    let letters = variant.alphabet.as_str().as_bytes();
    let value_of = |byte: u8| letters.iter().position(|&letter| letter == byte);
    let after_line_ends = |mut at: usize| {
        while at < input.len() && matches!(input[at], b'\r' | b'\n') {
            at += 1;
        }
        at
    };
    let mut output = Vec::with_capacity(input.len() / 4 * 3 + 2);
    // Up to four letters that make up to three bytes.
    let (mut bits, mut letters_held) = (0usize, 0usize);
    let mut at = 0;
    loop {
        at = after_line_ends(at);
        let Some(&byte) = input.get(at) else {
            if letters_held == 1 || (letters_held > 0 && variant.padded) {
                return Err(at - letters_held);
            }
            break;
        };
        at += 1;
        if let Some(value) = value_of(byte) {
            bits = bits << 6 | value;
            letters_held += 1;
            if letters_held == 4 {
                output.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
                (bits, letters_held) = (0, 0);
            }
            continue;
        }
        if !(variant.padded && byte == b'=') || letters_held < 2 {
            return Err(at - 1);
        }
        if letters_held == 2 {
            at = after_line_ends(at);
            match input.get(at) {
                None => return Err(input.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        at = after_line_ends(at);
        if at < input.len() {
            return Err(at);
        }
        break;
    }
    match letters_held {
        2 => output.push((bits >> 4) as u8),
        3 => output.extend([(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::super::bytes::tests::outcome;
    use super::*;

    fn install(ctx: &Ctx<'_>) -> Result<()> {
        ctx.globals().set("m", exports(ctx)?)
    }

    /// Pairs of expression and outcome, as k6 v1.1.0 gives them.
    #[test]
    fn base64_reads_and_writes_as_k6_does() {
        for (expression, expected) in [
            ("m.b64encode('')", ""),
            ("m.b64encode('hello?>>~~')", "aGVsbG8/Pj5+fg=="),
            ("m.b64encode('hello?>>~~', 'rawstd')", "aGVsbG8/Pj5+fg"),
            ("m.b64encode('hello?>>~~', 'url')", "aGVsbG8_Pj5-fg=="),
            ("m.b64encode('hello?>>~~', 'rawurl')", "aGVsbG8_Pj5-fg"),
            ("m.b64encode('hello?>>~~', 'bogus')", "aGVsbG8/Pj5+fg=="),
            ("m.b64encode('hello?>>~~', null)", "aGVsbG8/Pj5+fg=="),
            ("m.b64encode('é漢😀')", "w6nmvKLwn5iA"),
            ("m.b64encode('a\\udc00b')", "Ye+/vWI="),
            ("m.b64encode(new Uint8Array([0,255,254,128]).buffer)", "AP/+gA=="),
            ("m.b64encode(new Uint8Array([0,255,254,128]).subarray(1))", "//6A"),
            ("m.default.b64decode('aGVsbG8=')", "[104,101,108,108,111]"),
            ("m.b64decode('aGVsbG8=', 'std', 's')", "hello"),
            ("m.b64decode('aGVsbG8', 'rawstd', 's')", "hello"),
            ("m.b64decode('aGV\\r\\nsbG8=\\n', 'std', 's')", "hello"),
            ("m.b64decode('aGVsbG9=', 'std', 's')", "hello"),
            ("m.b64decode('_-_-', 'url')", "[255,239,254]"),
            ("m.b64decode('/////w==', 'std', 'b')", "[255,255,255,255]"),
            ("m.b64decode('8J+YgP8=', 'std', 's')", "😀\u{FFFD}"),
            ("m.b64decode('7aCA', 'std', 's')", "\u{FFFD}\u{FFFD}\u{FFFD}"),
            ("m.b64decode()", "[]"),
            ("m.b64decode(null)", "[]"),
            ("m.b64decode(true)", "[182,187,158]"),
            ("m.b64decode(['aGVsbG8='], undefined, 's')", "hello"),
        ] {
            assert_eq!(outcome(install, expression), expected, "{expression}");
        }
    }

    #[test]
    fn an_error_names_the_byte() {
        for (expression, at) in [
            ("m.b64decode('aGVsbG8', 'std')", 4),
            ("m.b64decode('aGVsbG8=', 'rawstd')", 7),
            ("m.b64decode('aGV sbG8=')", 3),
            ("m.b64decode('!!!!')", 0),
            ("m.b64decode('aGVs!G8=')", 4),
            ("m.b64decode('_-_-', 'std')", 0),
            ("m.b64decode('+/+/', 'url')", 0),
            ("m.b64decode('aGVsbG8=trailing')", 8),
            ("m.b64decode('aGVsbG8==')", 8),
            ("m.b64decode('a')", 0),
            ("m.b64decode(5)", 0),
        ] {
            let expected = format!("GoError: illegal base64 data at input byte {at}");
            assert_eq!(outcome(install, expression), expected, "{expression}");
        }
        let refused = outcome(install, "m.b64encode(5)");
        assert!(refused.starts_with("GoError: invalid type number"), "{refused}");
    }

    #[test]
    fn both_decoders_agree_on_what_they_both_read() {
        let mut random = fastrand::Rng::with_seed(7);
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            for variant in [&STD, &RAW_STD, &URL, &RAW_URL] {
                let written = variant.engine.encode(&bytes);
                assert_eq!(decode_slowly(variant, written.as_bytes()).as_deref(), Ok(&bytes[..]));
                assert_eq!(decode(variant, written.as_bytes()).as_deref(), Ok(&bytes[..]));
            }
        }
    }

    #[test]
    fn the_names_are_the_exports() {
        assert_eq!(outcome(install, "Object.keys(m).sort().join()"), NAMES.join(","));
    }
}
