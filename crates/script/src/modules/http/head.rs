//! The head of an answer, read when somebody asks.

/// `HTTP/1.1`
pub fn protocol(head: &[u8]) -> &'static str {
    match head.get(..8) {
        Some(b"HTTP/1.0") => "HTTP/1.0",
        Some(b"HTTP/2.0") => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// `200 OK`
pub fn status_text(head: &[u8]) -> String {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line.get(9..).unwrap_or_default());
    text.trim().to_owned()
}

/// Names and values, as they came.
pub fn lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|&byte| byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = line.trim_ascii();
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

pub fn all<'a>(head: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let fits = move |line: &(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name.as_bytes());
    lines(head).filter(fits).map(|(_, value)| value)
}

pub fn find<'a>(head: &'a [u8], name: &'a str) -> Option<&'a [u8]> {
    all(head, name).next()
}
