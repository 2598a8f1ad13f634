//! Standard output, for readers that may go away: `volley plan FILE | head` is no error. A disk
//! that is full is one.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use report::ExitCode;

/// Something that was to be told is lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes all of it, or as much as anybody wants to read.
pub fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            lost(&format!("could not write to standard output: {error}"));
        }
        _ => {}
    }
}

/// Says that something could not be written; the process does not end with 0 then.
pub fn lost(what: &str) {
    if !LOST.swap(true, Ordering::Relaxed) {
        // Standard error may be gone as well.
        let _ = writeln!(std::io::stderr(), "volley: {what}");
    }
}

/// The exit code of a command: what is lost is not passed.
pub fn judged(code: ExitCode) -> ExitCode {
    match LOST.load(Ordering::Relaxed) && code == ExitCode::Passed {
        true => ExitCode::Failed,
        false => code,
    }
}

/// The same for a line.
pub fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// What people read, in the letters that their locale has. Not for JSON, whose readers are
/// programs.
pub fn page(text: &str) {
    out(&shown(text));
}

/// The same text without characters that the locale does not have.
pub fn shown(text: &str) -> String {
    if dashboard::wants_ascii() { report::format::ascii(text) } else { text.to_owned() }
}
