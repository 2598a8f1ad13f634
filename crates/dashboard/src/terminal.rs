//! The terminal's state: taken once, given back whatever happens.
//!
//! Raw mode lets single keys through and turns Ctrl-C into a key. It is a property of the terminal,
//! not of the process: left behind, it ruins the user's shell. So one flag remembers that it is on,
//! and four ways lead to [`restore_terminal`]: the guard's drop, the end of the view, a panic hook,
//! and the program itself before it ends by a signal. The first of them acts, the others find
//! nothing to do.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::view::Stream;

const IDLE: u8 = 0;
const ON_STDOUT: u8 = 1;
const ON_STDERR: u8 = 2;

static ACTIVE: AtomicU8 = AtomicU8::new(IDLE);
static PANIC_HOOK: Once = Once::new();

/// Cursor off, no wrapping at the right edge.
const ENTER: &str = "\x1b[?25l\x1b[?7l";
/// End of a synchronised update, wrapping on, colours off, cursor on.
const LEAVE: &str = "\x1b[?2026l\x1b[?7h\x1b[0m\x1b[?25h";

/// Raw mode while it lives.
pub(crate) struct TerminalGuard(());

impl TerminalGuard {
    pub(crate) fn enter(stream: Stream) -> io::Result<TerminalGuard> {
        PANIC_HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // First, or the message would run down the screen like a staircase.
                restore_terminal();
                previous(info);
            }));
        });
        crossterm::terminal::enable_raw_mode()?;
        let active = match stream {
            Stream::Stdout => ON_STDOUT,
            Stream::Stderr => ON_STDERR,
        };
        ACTIVE.store(active, Ordering::Release);
        let guard = TerminalGuard(());
        write_to(active, ENTER)?;
        Ok(guard)
    }

    /// Someone else has given the terminal back: nothing more may be drawn.
    pub(crate) fn is_lost(&self) -> bool {
        ACTIVE.load(Ordering::Acquire) == IDLE
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Gives the terminal back. Harmless if no view is active; may be called from any thread, any
/// number of times.
pub fn restore_terminal() {
    let active = ACTIVE.swap(IDLE, Ordering::AcqRel);
    if active == IDLE {
        return;
    }
    // Nobody is left to tell if this fails: the terminal itself is gone.
    let _ = write_to(active, LEAVE);
    let _ = crossterm::terminal::disable_raw_mode();
}

fn write_to(active: u8, text: &str) -> io::Result<()> {
    match active {
        ON_STDOUT => write_and_flush(&mut io::stdout(), text),
        _ => write_and_flush(&mut io::stderr(), text),
    }
}

fn write_and_flush(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether this process may change the terminal: a job in the background would be stopped for
/// trying.
pub(crate) fn is_ours(stream: Stream) -> bool {
    let (descriptor, is_terminal) = match stream {
        Stream::Stdout => (io::stdout().as_raw_fd(), io::stdout().is_terminal()),
        Stream::Stderr => (io::stderr().as_raw_fd(), io::stderr().is_terminal()),
    };
    // SAFETY: both calls only read kernel state; a descriptor that is not a terminal gives an error
    // (-1).
    is_terminal && unsafe { libc::tcgetpgrp(descriptor) == libc::getpgrp() }
}

/// Columns and rows; a terminal that does not know is taken for the usual one.
pub(crate) fn size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (80, 24),
    }
}
