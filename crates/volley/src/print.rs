//! Standard output, for readers that may go away: `volley plan FILE | head` is no error.

use std::io::Write;

/// Writes all of it, or as much as anybody wants to read.
pub fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// The same for a line.
pub fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// What people read, in the letters that their locale has. Not for JSON, whose readers are programs.
pub fn page(text: &str) {
    out(&shown(text));
}

/// The same text without characters that the locale does not have.
pub fn shown(text: &str) -> String {
    if dashboard::wants_ascii() { report::format::ascii(text) } else { text.to_owned() }
}
