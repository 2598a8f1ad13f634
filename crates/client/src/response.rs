//! What an exchange leaves behind: status always, headers and body if somebody reads them.

/// What of an answer is worth copying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    pub headers: bool,
    pub body: bool,
    /// `set-cookie` and, on a redirect status, `location`.
    pub cookies: bool,
    pub location: bool,
}

/// Reused from exchange to exchange; nothing in it is freed between them.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    /// Names in lower case. Filled if headers are kept.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub set_cookies: Vec<String>,
    pub location: Option<String>,
    /// `content-encoding`, if the body is kept and was encoded.
    pub encoding: Option<String>,
    /// The body is kept to be shown, not to be read: what does not fit is left out. Set by whoever
    /// asks, and kept from one try to the next.
    pub for_show: bool,
    /// Keep the head as it came, in `head`. Set and kept like `for_show`.
    pub keep_head: bool,
    /// Bytes of a body that may be kept, if not the usual number. Set and kept like `for_show`.
    pub kept_limit: Option<u64>,
    /// From the status line to the empty line; one of HTTP/2 is written out in the old form.
    pub head: Vec<u8>,
}

impl Response {
    pub fn clear(&mut self) {
        self.status = 0;
        self.headers.clear();
        self.body.clear();
        // A rare huge body must not pin its memory for the rest of the run.
        self.body.shrink_to(64 << 10);
        self.set_cookies.clear();
        self.location = None;
        self.encoding = None;
        self.head.clear();
    }

    pub(crate) fn write_head(&mut self, status: http::StatusCode, headers: &http::HeaderMap) {
        let reason = status.canonical_reason().unwrap_or_default();
        self.head
            .extend_from_slice(format!("HTTP/2.0 {} {reason}\r\n", status.as_u16()).as_bytes());
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                self.head.extend_from_slice(part);
            }
        }
        self.head.extend_from_slice(b"\r\n");
    }

    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }

    pub(crate) fn keep_header(&mut self, name: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        self.headers.push((name, value.to_vec()));
    }

    /// Takes what the client itself needs from a header.
    pub(crate) fn note(&mut self, keep: Keep, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name.len() {
            10 if keep.cookies && name.eq_ignore_ascii_case(b"set-cookie") => {
                self.set_cookies.push(text());
            }
            8 if keep.location && name.eq_ignore_ascii_case(b"location") => {
                self.location = Some(text());
            }
            16 if keep.body && name.eq_ignore_ascii_case(b"content-encoding") => {
                let text = text().trim().to_ascii_lowercase();
                self.encoding = Some(text).filter(|encoding| encoding != "identity");
            }
            _ => {}
        }
    }
}
