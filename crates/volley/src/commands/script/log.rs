//! The log of a script's run: what it printed, what it threw, what we have to say about it. In k6's
//! forms, because people grep them.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use script::log::{Level, Line, Logger};

/// Lines that are held back while a live view has the terminal; the first of more are kept.
const HELD_LINES_MAX: usize = 10_000;

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
    form: Form,
    least: Level,
    began: Instant,
}

struct State {
    sink: Sink,
    console: Option<File>,
    /// `Some` while nothing may be written to the terminal.
    held: Option<Vec<String>>,
    left_out: u64,
}

impl Log {
    pub fn open(
        output: &str,
        format: &str,
        console: Option<&Path>,
        verbose: bool,
    ) -> Result<Arc<Log>, String> {
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
                    return Err(format!("--log-output: `{other}` is not one of {known}"));
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
                return Err(format!("--log-format: `{other}` is not one of text, json or raw"));
            }
        };
        let console = console.map(create).transpose()?;
        let least = if verbose { Level::Debug } else { Level::Info };
        let state = State { sink, console, held: None, left_out: 0 };
        Ok(Arc::new(Log { state: Mutex::new(state), form, least, began: Instant::now() }))
    }

    pub fn logger(self: &Arc<Self>) -> Logger {
        let log = self.clone();
        Arc::new(move |line| log.write(&line))
    }

    pub fn say(&self, level: Level, message: impl Into<String>) {
        self.write(&Line::new(level, message));
    }

    /// Nothing reaches the terminal until [`Log::release`].
    pub fn hold(&self) {
        self.lock().held = Some(Vec::new());
    }

    pub fn release(&self) {
        let mut state = self.lock();
        for text in state.held.take().unwrap_or_default() {
            state.put(&text);
        }
        if state.left_out > 0 {
            let text = format!("... and {} more lines\n", state.left_out);
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
        let on_terminal = matches!(state.sink, Sink::Stderr | Sink::Stdout);
        if let Some(held) = &mut state.held
            && on_terminal
        {
            if held.len() < HELD_LINES_MAX {
                held.push(text);
            } else {
                state.left_out += 1;
            }
            return;
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

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
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
