//! `k6/crypto`: digests, HMACs and random bytes; and the two harmless functions of the global
//! `crypto` object.

// QuickJS hands the arguments of native functions over by value.
#![allow(clippy::needless_pass_by_value)]

mod algorithm;

use base::names::{Likeness, closest};
use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose;
use rquickjs::function::Opt;
use rquickjs::object::Accessor;
use rquickjs::{Coerced, Ctx, Function, Object, Result, TypedArray, Value};

use self::algorithm::{Algorithm, Running};
use super::bytes::{buffer_from_bytes, kind, refuse, text_of, view_of_bytes, with_bytes};
use crate::lacking::{Lacking, SUBTLE};

/// The names that the module exports.
pub const NAMES: &[&str] = &[
    "createHMAC",
    "createHash",
    "default",
    "hexEncode",
    "hmac",
    "md4",
    "md5",
    "randomBytes",
    "ripemd160",
    "sha1",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
];

/// How a digest can be given out.
const ENCODINGS: &[&str] = &["hex", "base64", "base64url", "base64rawurl", "binary"];

/// As many elements as one call of `getRandomValues` fills at most.
const RANDOM_VALUES_MAX: usize = 65_536;

/// More random bytes than this in one call are a mistake in the script.
const RANDOM_BYTES_MAX: f64 = i32::MAX as f64;

/// All exports by name.
pub fn exports<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let (module, default) = (Object::new(ctx.clone())?, Object::new(ctx.clone())?);
    let put = |name: &'static str, function: Function<'js>| {
        let function = function.with_name(name)?;
        default.set(name, function.clone())?;
        module.set(name, function)
    };
    for &algorithm in Algorithm::ALL {
        put(algorithm.name(), digest_function(ctx, algorithm)?)?;
    }
    put("hmac", Function::new(ctx.clone(), hmac)?)?;
    put("createHash", Function::new(ctx.clone(), create_hash)?)?;
    put("createHMAC", Function::new(ctx.clone(), create_hmac)?)?;
    put("hexEncode", Function::new(ctx.clone(), hex_encode)?)?;
    put("randomBytes", Function::new(ctx.clone(), random_bytes)?)?;
    module.set("default", default)?;
    Ok(module)
}

/// Puts the global `crypto` in place: `randomUUID` and `getRandomValues`. Whoever asks for
/// `crypto.subtle` is told what is missing.
pub fn install_global(ctx: &Ctx<'_>) -> Result<()> {
    let crypto = Object::new(ctx.clone())?;
    let values = Function::new(ctx.clone(), get_random_values)?.with_name("getRandomValues")?;
    crypto.set("getRandomValues", values)?;
    crypto.set("randomUUID", Function::new(ctx.clone(), random_uuid)?.with_name("randomUUID")?)?;
    // Not enumerable, so that printing `crypto` does not trip over it.
    crypto.prop("subtle", Accessor::new_get(subtle))?;
    ctx.globals().set("crypto", crypto)
}

fn digest_function<'js>(ctx: &Ctx<'js>, algorithm: Algorithm) -> Result<Function<'js>> {
    Function::new(
        ctx.clone(),
        move |ctx: Ctx<'js>, input: Opt<Value<'js>>, encoding: Opt<Value<'js>>| {
            let mut running = algorithm.start();
            let place = format!("{} failed: ", algorithm.name());
            with_bytes(&ctx, &given(&ctx, input), &place, |bytes| running.update(bytes))?;
            encode(&ctx, running.result(), encoding)
        },
    )
}

fn hmac<'js>(
    ctx: Ctx<'js>,
    algorithm: Opt<Value<'js>>,
    secret: Opt<Value<'js>>,
    data: Opt<Value<'js>>,
    encoding: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let mut running = start_keyed(&ctx, algorithm, secret)?;
    with_bytes(&ctx, &given(&ctx, data), "", |bytes| running.update(bytes))?;
    encode(&ctx, running.result(), encoding)
}

fn create_hash<'js>(ctx: Ctx<'js>, algorithm: Opt<Value<'js>>) -> Result<Object<'js>> {
    let running = algorithm_named(&ctx, algorithm)?.start();
    hasher(&ctx, running)
}

fn create_hmac<'js>(
    ctx: Ctx<'js>,
    algorithm: Opt<Value<'js>>,
    secret: Opt<Value<'js>>,
) -> Result<Object<'js>> {
    let running = start_keyed(&ctx, algorithm, secret)?;
    hasher(&ctx, running)
}

/// The object with `update` and `digest`. A digest may be taken at any time; more may follow.
fn hasher<'js>(ctx: &Ctx<'js>, running: Box<dyn Running>) -> Result<Object<'js>> {
    let running = Rc::new(RefCell::new(running));
    let object = Object::new(ctx.clone())?;
    let updated = Rc::clone(&running);
    let update = move |ctx: Ctx<'js>, input: Opt<Value<'js>>| {
        with_bytes(&ctx, &given(&ctx, input), "", |bytes| updated.borrow_mut().update(bytes))
    };
    let digest = move |ctx: Ctx<'js>, encoding: Opt<Value<'js>>| {
        let result = running.borrow().result();
        encode(&ctx, result, encoding)
    };
    object.set("digest", Function::new(ctx.clone(), digest)?.with_name("digest")?)?;
    object.set("update", Function::new(ctx.clone(), update)?.with_name("update")?)?;
    Ok(object)
}

fn hex_encode<'js>(ctx: Ctx<'js>, input: Opt<Value<'js>>) -> Result<String> {
    with_bytes(&ctx, &given(&ctx, input), "", hex)
}

fn random_bytes<'js>(ctx: Ctx<'js>, size: Opt<Value<'js>>) -> Result<Value<'js>> {
    let size = match size.0 {
        Some(value) => <Coerced<f64> as rquickjs::FromJs<'_>>::from_js(&ctx, value)?.0,
        None => 0.0,
    };
    if !(1.0..=RANDOM_BYTES_MAX).contains(&size) {
        return Err(refuse(&ctx, "invalid size"));
    }
    let mut bytes = vec![0; size as usize];
    fill(&ctx, &mut bytes)?;
    buffer_from_bytes(&ctx, bytes)
}

fn random_uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut bytes = [0; 16];
    fill(&ctx, &mut bytes)?;
    // Version 4, variant 1: RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex(&bytes);
    let part = |from, to| &digits[from..to];
    let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    Ok(parts.join("-"))
}

fn get_random_values<'js>(ctx: Ctx<'js>, array: Opt<Value<'js>>) -> Result<Value<'js>> {
    let value = given(&ctx, array);
    let Some(bytes) = integers(&value) else {
        let message = format!(
            "TypeMismatchError: getRandomValues fills an array of integers such as Uint8Array, \
             not {}",
            kind(&value)
        );
        return Err(refuse(&ctx, &message));
    };
    let elements = value.as_object().map_or(Ok(0), |array| array.get::<_, usize>("length"))?;
    if elements > RANDOM_VALUES_MAX {
        let message = format!(
            "QuotaExceededError: {elements} elements asked for; one call gives at most \
             {RANDOM_VALUES_MAX}"
        );
        return Err(refuse(&ctx, &message));
    }
    if let Some(mut bytes) = bytes {
        // SAFETY: no JavaScript runs while the slice lives, and this is the only reference.
        fill(&ctx, unsafe { bytes.as_mut() })?;
    }
    Ok(value)
}

/// The memory of an array of integers: `None` for any other value, `Some(None)` for an empty one.
fn integers(value: &Value<'_>) -> Option<Option<std::ptr::NonNull<[u8]>>> {
    let object = value.as_object()?;
    macro_rules! first_of {
        ($($kind:ty),*) => {
            $(if let Some(array) = object.as_typed_array::<$kind>() {
                return Some(TypedArray::as_raw(array));
            })*
        };
    }
    first_of!(i8, u16, i16, u32, i32);
    view_of_bytes(object)
}

/// Something to look at, so that a script can ask whether it is there; whoever calls it is told.
fn subtle<'js>(ctx: Ctx<'js>) -> Result<Object<'js>> {
    let subtle = Object::new(ctx.clone())?;
    for name in SUBTLE {
        let missing = move |ctx: Ctx<'js>| -> Result<()> {
            Err(Lacking::subtle(name).expect("from the same list").called(&ctx))
        };
        subtle.set(*name, Function::new(ctx.clone(), missing)?.with_name(name)?)?;
    }
    Ok(subtle)
}

fn fill(ctx: &Ctx<'_>, bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| refuse(ctx, &format!("the system gives no random bytes: {error}")))
}

fn given<'js>(ctx: &Ctx<'js>, argument: Opt<Value<'js>>) -> Value<'js> {
    argument.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()))
}

fn algorithm_named<'js>(ctx: &Ctx<'js>, name: Opt<Value<'js>>) -> Result<Algorithm> {
    let name = text_of(ctx, name.0.as_ref())?;
    Algorithm::named(&name).ok_or_else(|| {
        let known: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        refuse(ctx, &format!("invalid algorithm: {name}{}", nearest(&name, &known)))
    })
}

fn start_keyed<'js>(
    ctx: &Ctx<'js>,
    algorithm: Opt<Value<'js>>,
    secret: Opt<Value<'js>>,
) -> Result<Box<dyn Running>> {
    let algorithm = algorithm_named(ctx, algorithm)?;
    with_bytes(ctx, &given(ctx, secret), "", |secret| algorithm.start_keyed(secret))
}

fn encode<'js>(ctx: &Ctx<'js>, digest: Vec<u8>, encoding: Opt<Value<'js>>) -> Result<Value<'js>> {
    let encoding = text_of(ctx, encoding.0.as_ref())?;
    let text = match encoding.as_str() {
        "hex" => hex(&digest),
        "base64" => general_purpose::STANDARD.encode(&digest),
        "base64url" => general_purpose::URL_SAFE.encode(&digest),
        "base64rawurl" => general_purpose::URL_SAFE_NO_PAD.encode(&digest),
        "binary" => return buffer_from_bytes(ctx, digest),
        _ => {
            let remedy = nearest(&encoding, ENCODINGS);
            return Err(refuse(ctx, &format!("invalid output encoding: {encoding}{remedy}")));
        }
    };
    Ok(rquickjs::String::from_str(ctx.clone(), &text)?.into_value())
}

/// What to write instead of `name`: the nearest known one, or all of them.
fn nearest(name: &str, known: &[&str]) -> String {
    match closest(name, known.iter().copied(), Likeness::Letters(2)) {
        Some(meant) => format!(" (did you mean {meant}?)"),
        None => format!(" (there are {})", known.join(", ")),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests;
