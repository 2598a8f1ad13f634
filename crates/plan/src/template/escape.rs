//! How a value is written where its reference stands.
//!
//! Values are bytes: what a response held need not be text.

use std::io::Write as _;

use base64::Engine as _;

use super::{Escape, Filter};

/// Appends a value: filtered, then escaped for its place.
///
/// `raw`, `url` and `json` say themselves how the value is written, so nothing is escaped after
/// them.
pub fn write_value(value: &[u8], filter: Option<Filter>, escape: Escape, into: &mut Vec<u8>) {
    let text = || String::from_utf8_lossy(value);
    match filter {
        None => escape.write(value, into),
        Some(Filter::Raw) => into.extend_from_slice(value),
        Some(Filter::Url) => Escape::Component.write(value, into),
        Some(Filter::Json) => Escape::Json.write(value, into),
        Some(Filter::Base64) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(value);
            escape.write(encoded.as_bytes(), into);
        }
        Some(Filter::Upper) => escape.write(text().to_uppercase().as_bytes(), into),
        Some(Filter::Lower) => escape.write(text().to_lowercase().as_bytes(), into),
    }
}

impl Escape {
    /// Appends `value`, escaped for its place.
    pub fn write(self, value: &[u8], into: &mut Vec<u8>) {
        match self {
            Escape::None => into.extend_from_slice(value),
            Escape::Header => into.extend(value.iter().map(|&byte| match byte {
                b'\t' => byte,
                0..0x20 | 0x7f => b' ',
                _ => byte,
            })),
            Escape::Json => json(value, into),
            Escape::JsonValue => {
                into.push(b'"');
                json(value, into);
                into.push(b'"');
            }
            Escape::Url => percent(value, into, in_url),
            Escape::UrlPath => {
                percent(value, into, |byte| in_url(byte) && !matches!(byte, b'?' | b'#'));
            }
            Escape::UrlQuery => {
                percent(value, into, |byte| in_url(byte) && !matches!(byte, b'&' | b'#' | b'+'));
            }
            Escape::Component => percent(value, into, unreserved),
        }
    }

    /// The same for text: every escape of text is text.
    pub fn write_text(self, value: &str) -> String {
        let mut written = Vec::with_capacity(value.len());
        self.write(value.as_bytes(), &mut written);
        String::from_utf8_lossy(&written).into_owned()
    }
}

fn json(value: &[u8], into: &mut Vec<u8>) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => into.extend([b'\\', byte]),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            b'\t' => into.extend_from_slice(b"\\t"),
            // Writing to a vector cannot fail.
            0..0x20 => drop(write!(into, "\\u{byte:04x}")),
            _ => into.push(byte),
        }
    }
}

fn percent(value: &[u8], into: &mut Vec<u8>, keep: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if keep(byte) {
            into.push(byte);
        } else {
            into.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Characters that may stand in a URL as they are (RFC 3986), `%` included: a value may come
/// encoded already.
fn in_url(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}
