//! How a value is written where its reference stands.

use std::fmt::Write as _;

use base64::Engine as _;

use super::Escape;

pub fn base64(value: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(value)
}

impl Escape {
    /// Appends `value`, escaped for its place.
    pub fn write(self, value: &str, into: &mut String) {
        match self {
            Escape::None => into.push_str(value),
            Escape::Json => json(value, into),
            Escape::UrlPath => percent(value, into, in_url),
            Escape::UrlQuery => {
                percent(value, into, |byte| in_url(byte) && !matches!(byte, b'&' | b'#' | b'+'));
            }
            Escape::Component => percent(value, into, unreserved),
        }
    }
}

fn json(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(into, "\\u{:04x}", c as u32);
            }
            c => into.push(c),
        }
    }
}

fn percent(value: &str, into: &mut String, keep: impl Fn(u8) -> bool) {
    for byte in value.bytes() {
        if keep(byte) {
            into.push(byte as char);
        } else {
            let _ = write!(into, "%{byte:02X}");
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
