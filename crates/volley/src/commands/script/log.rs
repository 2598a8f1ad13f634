//! The log of a script's run: what it printed, what it threw, what we have to say about it. In k6's
//! forms, because people grep them.

use crate::cli::ScriptArgs;
use crate::failure::Failure;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use script::log::{Level, Line, Logger};

use super::repeats::{Repeat, Repeats, more};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// For people at a terminal: `INFO[0001] text  source=console`.
    Terminal,
    /// `time="..." level=info msg="..." source=console`
    Logfmt,
    Json,
    Raw,
}

enum Sink {
    Stderr,
    Stdout,
    File(File),
    Nowhere,
}

pub struct Log {
    state: Mutex<State>,
    /// What is said while a live view has the terminal goes above it.
    pub words: dashboard::Words,
    form: Form,
    least: Level,
    began: Instant,
}

struct State {
    sink: Sink,
    console: Option<File>,
    /// The sink is a terminal, which a live view may have.
    on_terminal: bool,
    repeats: Repeats,
}

impl Log {
    /// The log that the arguments ask for.
    pub fn of_arguments(args: &ScriptArgs) -> Result<Arc<Log>, Failure> {
        Log::open(
            args.log_output.as_deref().unwrap_or("stderr"),
            args.log_format.as_deref().unwrap_or("text"),
            args.console_output.as_deref(),
            args.verbose,
        )
    }

    fn open(
        output: &str,
        format: &str,
        console: Option<&Path>,
        verbose: bool,
    ) -> Result<Arc<Log>, Failure> {
        let sink = match output {
            "stderr" => Sink::Stderr,
            "stdout" => Sink::Stdout,
            "none" => Sink::Nowhere,
            other => match other.strip_prefix("file=") {
                // k6 allows settings after the path; the level is `--verbose` here.
                Some(path) => {
                    let path = path.split(',').next().unwrap_or(path);
                    Sink::File(create(Path::new(path))?)
                }
                None => {
                    let known = "stderr, stdout, none or file=PATH";
                    let what = format!("--log-output: `{other}` is not one of {known}");
                    return Err(Failure::invalid(what));
                }
            },
        };
        let on_terminal = match sink {
            Sink::Stderr => std::io::stderr().is_terminal(),
            Sink::Stdout => std::io::stdout().is_terminal(),
            _ => false,
        };
        let form = match format {
            "raw" => Form::Raw,
            "json" => Form::Json,
            "text" | "" if on_terminal => Form::Terminal,
            "text" | "" => Form::Logfmt,
            other => {
                let what = format!("--log-format: `{other}` is not one of text, json or raw");
                return Err(Failure::invalid(what));
            }
        };
        let console = console.map(create).transpose()?;
        let least = if verbose { Level::Debug } else { Level::Info };
        let state = Mutex::new(State { sink, console, on_terminal, repeats: Repeats::default() });
        let words = dashboard::Words::default();
        Ok(Arc::new(Log { state, words, form, least, began: Instant::now() }))
    }

    pub fn logger(self: &Arc<Self>) -> Logger {
        let log = self.clone();
        Arc::new(move |line| log.write(&line))
    }

    pub fn say(&self, level: Level, message: impl Into<String>) {
        self.write(&Line::new(level, message));
    }

    /// Why a script does not run. Where there is no terminal its first line is one of the log, as
    /// in k6, and what belongs to it (the line of code, a mark below it) stands under it as people
    /// can read it.
    pub fn refuse(&self, message: impl Into<String>) {
        let message = message.into();
        match message.trim_end().split_once('\n').filter(|_| self.form == Form::Logfmt) {
            Some((first, rest)) => {
                self.say(Level::Error, first);
                self.lock().put(&format!("{rest}\n"));
            }
            None => self.say(Level::Error, message),
        }
    }

    /// The live view has ended: what it did not come to show is printed.
    pub fn release(&self) {
        let mut state = self.lock();
        for text in self.words.close() {
            state.put(&text);
        }
        for (message, count) in state.repeats.drain() {
            let text = self.shape(&Line::new(Level::Info, more(count, &message)));
            state.put(&text);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &Line) {
        if line.level < self.least {
            return;
        }
        let text = self.shape(line);
        let mut state = self.lock();
        if line.source == Some("console")
            && let Some(file) = &mut state.console
        {
            let _ = file.write_all(text.replace(" source=console", "").as_bytes());
            return;
        }
        let text = match state.on_terminal {
            true => match self.words.offer(text) {
                Ok(()) => return,
                Err(text) => text,
            },
            false => text,
        };
        // Files keep everything; a stream that somebody reads has the first of what repeats itself.
        if matches!(state.sink, Sink::Stderr | Sink::Stdout) && line.level >= Level::Info {
            match state.repeats.judge(line, Instant::now()) {
                Repeat::Shown => {}
                Repeat::Counted => return,
                Repeat::ShownWith(count) => {
                    let line = Line::new(Level::Info, more(count, &line.message));
                    let text = self.shape(&line);
                    state.put(&text);
                    return;
                }
            }
        }
        state.put(&text);
    }

    fn shape(&self, line: &Line) -> String {
        let source = line.source.map(|source| ("source", source.to_owned()));
        let fields = line.fields.iter().map(|(key, value)| (*key, value.clone())).chain(source);
        match self.form {
            Form::Raw => format!("{}\n", line.message),
            Form::Terminal => {
                let seconds = self.began.elapsed().as_secs();
                let pairs: String =
                    fields.map(|(key, value)| format!(" {key}={}", quoted(&value))).collect();
                format!("{}[{seconds:04}] {:<44}{pairs}\n", short(line.level), line.message)
            }
            Form::Logfmt => {
                let pairs: String =
                    fields.map(|(key, value)| format!(" {key}={}", quoted(&value))).collect();
                let (time, level) = (now(), name(line.level));
                format!("time=\"{time}\" level={level} msg={}{pairs}\n", quoted(&line.message))
            }
            Form::Json => {
                let mut pairs: Vec<(&str, String)> = fields.collect();
                pairs.push(("level", name(line.level).to_owned()));
                pairs.push(("msg", line.message.clone()));
                pairs.push(("time", now()));
                pairs.sort_unstable();
                let object: serde_json::Map<_, _> =
                    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
                format!("{}\n", serde_json::Value::Object(object))
            }
        }
    }
}

impl State {
    /// A log that cannot be written is no reason to stop a test.
    fn put(&mut self, text: &str) {
        let _ = match &mut self.sink {
            Sink::Stderr => std::io::stderr().write_all(text.as_bytes()),
            Sink::Stdout => std::io::stdout().write_all(text.as_bytes()),
            Sink::File(file) => file.write_all(text.as_bytes()),
            Sink::Nowhere => Ok(()),
        };
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::invalid(error).at(path.display()))
}

fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let text = stats::time::rfc3339_ms(now.as_millis() as u64);
    // Whole seconds, as in k6.
    text.split('.').next().unwrap_or_default().to_owned() + "Z"
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

fn short(level: Level) -> &'static str {
    match level {
        Level::Debug => "DEBU",
        Level::Info => "INFO",
        Level::Warning => "WARN",
        Level::Error => "ERRO",
    }
}

/// Bare words stay bare.
fn quoted(text: &str) -> String {
    let bare = |character: char| character.is_ascii_alphanumeric() || "-._/@^+".contains(character);
    if !text.is_empty() && text.chars().all(bare) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control < ' ' || control == '\u{7f}' => {
                quoted.push_str(&format!("\\x{:02x}", control as u32));
            }
            // Line and paragraph separators, and the byte-order mark, would break lines or hide.
            hidden @ ('\u{80}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\u{:04x}", hidden as u32));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
