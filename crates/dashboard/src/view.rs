//! The thread that shows a run.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use stats::{RunState, Snapshot};

use crate::canvas::Canvas;
use crate::latest::Latest;
use crate::mode::Mode;
use crate::terminal::{self, TerminalGuard};
use crate::words::Words;
use crate::{Command, Runs, keys, plain, screen};

/// How long [`View::finish`] waits for a terminal that takes nothing.
const FINISH_WAIT: Duration = Duration::from_secs(1);
/// Shorter than a frame, so that the end of a run is noticed at once.
const STOP_POLL: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    /// Leaves standard output to results: `volley run ... > file` still shows the view.
    Stderr,
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub stream: Stream,
    pub color: bool,
    /// Nothing but ASCII: see [`crate::wants_ascii`].
    pub ascii: bool,
    pub frames_per_second: u32,
    pub runs: Runs,
    /// Between two plain lines.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            stream: Stream::Stderr,
            color: true,
            ascii: crate::wants_ascii(),
            frames_per_second: 8,
            runs: Runs::default(),
            interval: Duration::from_secs(3),
        }
    }
}

/// A running view; dropping it ends it too.
pub struct View {
    mode: Mode,
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl View {
    /// Falls back to plain lines where the terminal cannot be drawn on: a background job, a failing
    /// ioctl.
    pub fn start(
        mode: Mode,
        latest: Latest,
        commands: Sender<Command>,
        options: Options,
        words: Words,
    ) -> View {
        let (stop, stopped) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let mut guard = None;
        let mode = match mode {
            Mode::Full if terminal::is_ours(options.stream) => {
                guard = TerminalGuard::enter(options.stream).ok();
                if guard.is_some() {
                    words.open();
                }
                if guard.is_some() { Mode::Full } else { Mode::Ci }
            }
            Mode::Full => Mode::Ci,
            other => other,
        };
        let body = move || {
            // A view that fails has ended; the run goes on without it.
            let _ = match (mode, guard) {
                (Mode::Full, Some(guard)) => {
                    Live { latest, commands, stopped, options, guard, words }.run()
                }
                (Mode::Ci, _) => print_lines(&latest, &stopped, options),
                _ => Ok(()),
            };
            let _ = end.send(());
        };
        // Without a thread there is no view, and nothing else is lost.
        if std::thread::Builder::new().name("volley-view".into()).spawn(body).is_err() {
            terminal::restore_terminal();
        }
        View { mode, stop: Some(stop), ended }
    }

    /// What is really shown, after fallbacks.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Removes the view and restores the terminal; afterwards the summary can be printed.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.stop.take().is_some() {
            let _ = self.ended.recv_timeout(FINISH_WAIT);
            terminal::restore_terminal();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.end();
    }
}

struct Live {
    latest: Latest,
    commands: Sender<Command>,
    stopped: Receiver<()>,
    options: Options,
    guard: TerminalGuard,
    words: Words,
}

impl Live {
    fn run(self) -> io::Result<()> {
        let out: Box<dyn Write> = match self.options.stream {
            Stream::Stdout => Box::new(io::stdout()),
            Stream::Stderr => Box::new(io::stderr()),
        };
        let mut canvas = Canvas::new(out, self.options.color);
        let frame = Duration::from_secs(1) / self.options.frames_per_second.clamp(1, 60);
        let mut drawn_at: Option<Instant> = None;
        let (mut seen, mut shown) = (0, None::<Arc<Snapshot>>);
        let mut dirty = false;
        while !is_stopped(&self.stopped) && !self.guard.is_lost() {
            let state = shown.as_ref().map_or(RunState::Preparing, |snapshot| snapshot.state);
            if let Some((width, _)) = self.wait_for_input(state) {
                canvas.resized(width)?;
                dirty = true;
            }
            if drawn_at.is_some_and(|at| at.elapsed() < frame) {
                continue;
            }
            let said = self.words.take();
            if !said.is_empty() {
                canvas.above(&said)?;
                dirty = true;
            }
            if let Some(snapshot) = self.latest.newer(&mut seen) {
                shown = Some(snapshot);
                dirty = true;
            }
            if let (true, Some(snapshot)) = (dirty, &shown) {
                let (width, height) = terminal::size();
                let height = height.saturating_sub(1);
                let picture = screen::screen(snapshot, self.options.runs, width, height);
                let ascii = self.options.ascii;
                canvas.draw(&if ascii { screen::ascii(picture) } else { picture })?;
                drawn_at = Some(Instant::now());
                dirty = false;
            }
        }
        if self.guard.is_lost() { Ok(()) } else { canvas.clear() }
    }

    /// Waits a moment for keys, hands them on; the new size if the terminal was resized.
    fn wait_for_input(&self, state: RunState) -> Option<(u16, u16)> {
        let mut resized = None;
        let mut wait = STOP_POLL;
        loop {
            match event::poll(wait) {
                Ok(true) => {}
                Ok(false) => return resized,
                Err(_) => {
                    // No keys to be had: go on showing.
                    std::thread::sleep(wait);
                    return resized;
                }
            }
            match event::read() {
                Ok(Event::Key(key)) => {
                    if let Some(command) = keys::command(key, state) {
                        let _ = self.commands.send(command);
                    }
                }
                Ok(Event::Resize(width, height)) => resized = Some((width, height)),
                Ok(_) => {}
                Err(_) => return resized,
            }
            // Everything that is there already, but nothing more.
            wait = Duration::ZERO;
        }
    }
}

/// The sender is dropped to stop; nothing is ever sent.
fn is_stopped(stopped: &Receiver<()>) -> bool {
    matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Disconnected))
}

fn print_lines(latest: &Latest, stopped: &Receiver<()>, options: Options) -> io::Result<()> {
    let mut seen = 0;
    while stopped.recv_timeout(options.interval) == Err(RecvTimeoutError::Timeout) {
        if let Some(snapshot) = latest.newer(&mut seen) {
            let line = plain::plain_line(&snapshot) + "\n";
            let line = if options.ascii { report::format::ascii(&line) } else { line };
            match options.stream {
                Stream::Stdout => io::stdout().write_all(line.as_bytes())?,
                Stream::Stderr => io::stderr().write_all(line.as_bytes())?,
            }
        }
    }
    Ok(())
}
