//! Templates, compiled: literal bytes and numbered sources, rendered straight into a buffer.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use plan::template::{Escape, Filter, Part, Source, StepField, Template, TimestampForm};

use crate::vars::Vars;
use crate::words::WORDS;

/// Adjacent literals are merged, so a constant text is one literal.
#[derive(Debug, Clone, Default)]
pub struct Text {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Literal(Vec<u8>),
    Value {
        from: Feed,
        escape: Place,
        filter: Option<Filter>,
        default: Option<Box<[u8]>>,
    },
    /// `user:password` in base64.
    Basic {
        user: Text,
        password: Text,
    },
}

/// Where a value comes from at run time.
#[derive(Debug, Clone)]
enum Feed {
    Slot(usize),
    Data { set: usize, column: usize },
    Uuid,
    Int { min: i64, max: i64 },
    Letters(u32),
    Word,
    Timestamp(TimestampForm),
    VuId,
    VuIteration,
    Iteration,
}

/// Where a value goes, and so what must be escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Plain,
    /// A line break would end the header, so control characters become spaces.
    Header,
    Json,
    UrlPath,
    UrlQuery,
    Component,
}

/// Finds the numbers of names while a plan is compiled.
pub trait Names {
    fn slot(&mut self, name: &str) -> usize;
    fn data(&mut self, set: &str, column: &str) -> Option<(usize, usize)>;
}

/// The slot name of `${use.KEY}`; cannot clash with a variable.
pub fn use_slot(key: &str) -> String {
    format!("use.{key}")
}

/// The slot name of `${steps.NAME.FIELD}`.
pub fn step_slot(name: &str, field: StepField) -> String {
    format!("steps.{name}.{field:?}")
}

impl Text {
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Text {
        let mut text = Text::default();
        text.push_literal(&bytes.into());
        text
    }

    pub fn basic(user: Text, password: Text) -> Text {
        match (user.constant(), password.constant()) {
            (Some(user), Some(password)) => {
                let pair = [user, b":", password].concat();
                Text::literal(base64::engine::general_purpose::STANDARD.encode(pair))
            }
            _ => Text { pieces: vec![Piece::Basic { user, password }] },
        }
    }

    /// `place` is used where the template itself does not say how to escape.
    pub fn compile(template: &Template, place: Place, names: &mut dyn Names) -> Text {
        let mut text = Text::default();
        for part in &template.parts {
            match part {
                Part::Text(literal) => text.push_literal(literal.as_bytes()),
                Part::Reference(reference) => {
                    let escape = match reference.escape {
                        Escape::None => place,
                        Escape::Json => Place::Json,
                        Escape::UrlPath => Place::UrlPath,
                        Escape::UrlQuery => Place::UrlQuery,
                        Escape::Component => Place::Component,
                    };
                    let default = reference.default.as_ref().map(|text| text.as_bytes().into());
                    match feed(&reference.source, names) {
                        Some(from) => {
                            let filter = reference.filter;
                            text.pieces.push(Piece::Value { from, escape, filter, default });
                        }
                        // Resolved when the plan was read; what is left is its default.
                        None => {
                            let mut rendered = Vec::new();
                            let value = reference.default.as_deref().unwrap_or_default();
                            finish(value.as_bytes(), escape, reference.filter, &mut rendered);
                            text.push_literal(&rendered);
                        }
                    }
                }
            }
        }
        text
    }

    pub fn push(&mut self, other: &Text) {
        for piece in &other.pieces {
            match piece {
                Piece::Literal(bytes) => self.push_literal(bytes),
                other => self.pieces.push(other.clone()),
            }
        }
    }

    pub fn push_literal(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Literal(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Literal(bytes.to_vec())),
        }
    }

    /// The text after its first `length` bytes, which must be literal.
    pub fn without_prefix(&self, length: usize) -> Text {
        let mut pieces = self.pieces.clone();
        if let Some(Piece::Literal(first)) = pieces.first_mut() {
            first.drain(..length.min(first.len()));
        }
        Text { pieces }
    }

    /// The whole text, if nothing in it changes.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [Piece::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    pub fn render(&self, vars: &Vars, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Value { from, escape, filter, default } => {
                    from.render(vars, default.as_deref(), *escape, *filter, out);
                }
                Piece::Basic { user, password } => {
                    let mut pair = Vec::new();
                    user.render(vars, &mut pair);
                    pair.push(b':');
                    password.render(vars, &mut pair);
                    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                    out.extend_from_slice(encoded.as_bytes());
                }
            }
        }
    }

    pub fn to_bytes(&self, vars: &Vars) -> Vec<u8> {
        let mut out = Vec::new();
        self.render(vars, &mut out);
        out
    }
}

fn feed(source: &Source, names: &mut dyn Names) -> Option<Feed> {
    Some(match source {
        Source::Env(_) => return None,
        Source::Data { set, column } => {
            let (set, column) = names.data(set, column)?;
            Feed::Data { set, column }
        }
        Source::Use(key) => Feed::Slot(names.slot(&use_slot(key))),
        Source::Step { name, field } => Feed::Slot(names.slot(&step_slot(name, *field))),
        Source::Variable(name) => Feed::Slot(names.slot(name)),
        Source::Uuid => Feed::Uuid,
        Source::RandomInt { min, max } => Feed::Int { min: *min, max: *max },
        Source::RandomString { length } => Feed::Letters(*length),
        Source::RandomWord => Feed::Word,
        Source::Timestamp(form) => Feed::Timestamp(*form),
        Source::VuId => Feed::VuId,
        Source::VuIteration => Feed::VuIteration,
        Source::Iteration => Feed::Iteration,
    })
}

impl Feed {
    fn render(
        &self,
        vars: &Vars,
        default: Option<&[u8]>,
        escape: Place,
        filter: Option<Filter>,
        out: &mut Vec<u8>,
    ) {
        use std::io::Write;
        // Writing to a vector cannot fail.
        let number = |value: u64, out: &mut Vec<u8>| drop(write!(out, "{value}"));
        match self {
            Feed::Slot(slot) => vars.with(*slot, |value| {
                let value = value.filter(|value| !value.is_empty() || default.is_none());
                finish(value.or(default).unwrap_or_default(), escape, filter, out);
            }),
            Feed::Data { set, column } => {
                let rows = &vars.data[*set];
                let at = vars.rows.borrow()[*set] * rows.columns.len() + column;
                finish(rows.cells[at].as_bytes(), escape, filter, out);
            }
            // What follows never needs escaping; a filter may still apply.
            Feed::VuId => number(vars.vu_id.get(), out),
            Feed::VuIteration => number(vars.vu_iteration.get(), out),
            Feed::Iteration => number(vars.iteration.get(), out),
            Feed::Int { min, max } => {
                let drawn = vars.rng.borrow_mut().i64(*min..=*max);
                let _ = write!(out, "{drawn}");
            }
            Feed::Letters(length) => {
                let mut rng = vars.rng.borrow_mut();
                out.extend((0..*length).map(|_| rng.alphanumeric() as u8));
            }
            Feed::Word => {
                let word = WORDS[vars.rng.borrow_mut().usize(..WORDS.len())];
                finish(word.as_bytes(), escape, filter, out);
            }
            Feed::Uuid => out.extend_from_slice(uuid(&mut vars.rng.borrow_mut()).as_bytes()),
            Feed::Timestamp(form) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                match form {
                    TimestampForm::Seconds => number(now.as_secs(), out),
                    TimestampForm::Milliseconds => number(now.as_millis() as u64, out),
                    TimestampForm::Iso => {
                        let text = stats::time::rfc3339_ms(now.as_millis() as u64);
                        finish(text.as_bytes(), escape, filter, out);
                    }
                }
            }
        }
    }
}

/// Version 4, from a generator that is not fit for secrets.
fn uuid(rng: &mut fastrand::Rng) -> String {
    let bits = rng.u128(..) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Filters, then escapes for the place.
fn finish(value: &[u8], escape: Place, filter: Option<Filter>, out: &mut Vec<u8>) {
    let filtered: Vec<u8>;
    let value = match filter {
        None => value,
        Some(Filter::Raw) => return out.extend_from_slice(value),
        Some(Filter::Url) => return escape_into(value, Place::Component, out),
        Some(Filter::Json) => return escape_into(value, Place::Json, out),
        Some(Filter::Base64) => {
            filtered = base64::engine::general_purpose::STANDARD.encode(value).into_bytes();
            &filtered
        }
        Some(Filter::Upper) => {
            filtered = String::from_utf8_lossy(value).to_uppercase().into_bytes();
            &filtered
        }
        Some(Filter::Lower) => {
            filtered = String::from_utf8_lossy(value).to_lowercase().into_bytes();
            &filtered
        }
    };
    escape_into(value, escape, out);
}

fn escape_into(value: &[u8], place: Place, out: &mut Vec<u8>) {
    match place {
        Place::Plain => out.extend_from_slice(value),
        Place::Header => {
            let clean =
                |&byte: &u8| if byte < 0x20 && byte != b'\t' || byte == 0x7f { b' ' } else { byte };
            out.extend(value.iter().map(clean));
        }
        Place::Json => escape_json(value, out),
        Place::UrlPath => percent(value, out, |byte| b" \"<>\\^`{|}#?".contains(&byte)),
        Place::UrlQuery => percent(value, out, |byte| b" \"<>\\^`{|}#&+".contains(&byte)),
        Place::Component => {
            percent(value, out, |byte| !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)));
        }
    }
}

fn percent(value: &[u8], out: &mut Vec<u8>, needs: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if byte <= 0x20 || byte >= 0x7f || needs(byte) {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

fn escape_json(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_for_their_place() {
        let table: &[(Place, &str, &str)] = &[
            (Place::Plain, "a\"b c", "a\"b c"),
            (Place::Header, "a\r\nx: y", "a  x: y"),
            (Place::Json, "a\"\\\n\u{1}é", "a\\\"\\\\\\n\\u0001é"),
            (Place::UrlPath, "a/b c?d", "a/b%20c%3Fd"),
            (Place::UrlQuery, "a/b&c=d+e", "a/b%26c=d%2Be"),
            (Place::Component, "a/b&c=é", "a%2Fb%26c%3D%C3%A9"),
        ];
        for (place, input, expected) in table {
            let mut out = Vec::new();
            escape_into(input.as_bytes(), *place, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), *expected, "{place:?}");
        }
    }

    #[test]
    fn a_uuid_is_of_version_four() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let text = uuid(&mut rng);
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4");
            assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        }
    }
}
