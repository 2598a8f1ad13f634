//! What the attempts of one job share on this worker: the loaded plan or script, its log, and the
//! streams of statistics.

pub(super) use base::lock;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use engine::attempt::{LoadError, LoadOptions, Loaded};
use engine::secrets::{self, Secrets};
use fence::{JobId, NodeId};
use ledger_state::BlobRef;
use script::log::{Level, Line, Logger};
use sha2::{Digest, Sha256};
use stats::stream::Sender;
use stats::wire::StreamKey;
use tokio::sync::Notify;

use super::blobs::discard;
use crate::bundle::{Bundle, Packed};

/// Of what scripts have said, the last of it.
pub(super) const LOG_BYTES_MAX: usize = 64 << 10;
/// One line of a log.
const LINE_BYTES_MAX: usize = 4 << 10;

pub(super) struct Job {
    pub id: JobId,
    pub bundle: BlobRef,
    loaded: Mutex<Option<Result<Arc<Loaded>, String>>>,
    log: Arc<Mutex<Log>>,
    pub streams: Mutex<BTreeMap<StreamKey, Sender>>,
    /// Who last led the job here; frames go there.
    pub owner: Mutex<Option<NodeId>>,
    /// Something is to be sent at once.
    pub nudge: Arc<Notify>,
}

/// Why a job was not loaded.
pub(super) enum NotLoaded {
    /// The copy here is damaged: fetch it again.
    Damaged,
    /// Final (R5).
    Error(String),
    /// Not the job's fault; the next attempt tries again.
    Machine(String),
}

impl Job {
    pub fn new(id: JobId, bundle: BlobRef) -> Self {
        Self {
            id,
            bundle,
            loaded: Mutex::default(),
            log: Arc::default(),
            streams: Mutex::default(),
            owner: Mutex::default(),
            nudge: Arc::default(),
        }
    }

    /// Loads it, or waits until another attempt has. Blocks.
    pub fn load(&self, path: &Path, options: &LoadOptions) -> Result<Arc<Loaded>, NotLoaded> {
        let mut loaded = lock(&self.loaded);
        if let Some(known) = &*loaded {
            return known.clone().map_err(NotLoaded::Error);
        }
        let Ok(bytes) = std::fs::read(path) else { return Err(NotLoaded::Damaged) };
        if Sha256::digest(&bytes)[..] != self.bundle.hash {
            discard(path);
            return Err(NotLoaded::Damaged);
        }
        let options = LoadOptions { logger: self.logger(), ..options.clone() };
        let made = Bundle::decode(&bytes).map_err(|error| LoadError::new(error.to_string()));
        drop(bytes);
        let made = made.and_then(|bundle| {
            let packed = bundle.into_packed();
            let env = match &packed {
                Packed::Plan(packed) => &packed.env,
                Packed::Script(packed) => &packed.env,
            };
            // Before anything of it runs: its log is read by others than its writer.
            lock(&self.log).hidden = Secrets::new(&secrets::credentials_in(env));
            match packed {
                Packed::Plan(packed) => Loaded::plan(&packed, options),
                Packed::Script(packed) => Loaded::script(&packed, options),
            }
        });
        let made = match made {
            Err(error) if error.of_machine => return Err(NotLoaded::Machine(error.text)),
            made => made.map_err(|error| error.text),
        };
        *loaded = Some(made.clone());
        made.map_err(NotLoaded::Error)
    }

    /// Lets the plan or script go; the next attempt loads it again.
    pub fn unload(&self) {
        let loaded = lock(&self.loaded).take();
        drop(loaded);
    }

    fn logger(&self) -> Logger {
        let log = Arc::clone(&self.log);
        Arc::new(move |line| lock(&log).put(&line))
    }

    /// A message without what looks like a credential.
    pub fn masked(&self, text: String) -> String {
        lock(&self.log).masked(text)
    }

    pub fn log(&self) -> String {
        lock(&self.log).text()
    }

    /// Works on one attempt's stream, if it is still there.
    pub fn stream<T>(&self, key: StreamKey, work: impl FnOnce(&mut Sender) -> T) -> Option<T> {
        lock(&self.streams).get_mut(&key).map(work)
    }
}

/// The last lines, within [`LOG_BYTES_MAX`].
#[derive(Default)]
struct Log {
    /// What looks like a credential in the job's environment.
    hidden: Secrets,
    lines: VecDeque<String>,
    bytes: usize,
    left_out: u64,
}

impl Log {
    fn masked(&self, text: String) -> String {
        secrets::mask_credentials(self.hidden.redact(text))
    }

    fn put(&mut self, line: &Line) {
        let level = match line.level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let mut text = format!("{level}: {}", line.message);
        for (key, value) in &line.fields {
            // A string takes anything.
            let _ = write!(text, " {key}={value}");
        }
        // Before it is cut: the beginning of a credential is as bad as all of it.
        let mut text = self.masked(text);
        if text.len() > LINE_BYTES_MAX {
            let end = (0..=LINE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or_default());
        }
        self.bytes += text.len() + 1;
        self.lines.push_back(text);
        while self.bytes > LOG_BYTES_MAX
            && let Some(first) = self.lines.pop_front()
        {
            self.bytes -= first.len() + 1;
            self.left_out += 1;
        }
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes + 64);
        if self.left_out > 0 {
            let _ = writeln!(text, "({} earlier lines are not kept)", self.left_out);
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_shows_no_credentials() {
        let env = BTreeMap::from([("API_TOKEN".to_owned(), "tok-123456".to_owned())]);
        let mut log =
            Log { hidden: Secrets::new(&secrets::credentials_in(&env)), ..Log::default() };
        log.put(&Line::new(Level::Info, "sent tok-123456 to http://me:pw@host/".to_owned()));
        assert_eq!(log.text(), "info: sent ••• to http://•••@host/\n");
    }

    /// However much a script says, a bounded end of it is kept, in whole lines.
    #[test]
    fn a_log_keeps_its_last_lines() {
        let mut log = Log::default();
        for number in 0..10_000 {
            log.put(&Line::new(Level::Info, format!("line {number}")));
        }
        log.put(&Line::new(Level::Error, "ä".repeat(LINE_BYTES_MAX)));
        let text = log.text();
        assert!(text.len() <= LOG_BYTES_MAX + 64, "{}", text.len());
        assert!(text.contains("info: line 9999\n"), "the last ones are there");
        assert!(!text.contains("info: line 1\n"), "the first ones are not");
        assert!(text.starts_with('('), "and it says so");
    }
}
