//! One seed in a process of its own.
//!
//! tokio numbers its tasks with a counter of the process and drops them in an order that follows
//! from the numbers, std and others keep keys per process: a seed that ran second in a process
//! would not be the seed that ran first. A process of its own also makes a hang, an abort or a
//! stack overflow a result like any other.

// The parent lives in the real world: it needs real clocks, threads and processes.
#![allow(clippy::disallowed_methods)]

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;

/// What to run, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct Order {
    pub scenario: String,
    pub canary: Option<String>,
    pub deadline: Duration,
}

/// So much of a child's last words is kept.
const LAST_WORDS: usize = 4_096;

impl Order {
    fn command(&self, seed: u64) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("one").args(["--scenario", &self.scenario]);
        command.arg("--seed").arg(seed.to_string());
        if let Some(canary) = &self.canary {
            command.args(["--canary", canary]);
        }
        Ok(command)
    }

    /// Runs a seed and waits for its report.
    #[must_use]
    pub fn run(&self, seed: u64) -> Outcome {
        let child = self.command(seed).and_then(|mut command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        });
        match child {
            Ok(child) => self.collect(seed, child),
            Err(error) => Outcome::failed(seed, "harness.spawn", error.to_string()),
        }
    }

    /// Runs a seed with its trace on this process's standard error; standard output is its report.
    pub fn run_verbose(&self, seed: u64) -> std::io::Result<Outcome> {
        let mut command = self.command(seed)?;
        command.arg("--verbose").stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(self.collect(seed, command.spawn()?))
    }

    fn collect(&self, seed: u64, mut child: Child) -> Outcome {
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if start.elapsed() > self.deadline => {
                    // It may have ended in between; either way it is gone after this.
                    let _ = child.kill();
                    let _ = child.wait();
                    break Err(format!("no end after {} s of real time", self.deadline.as_secs()));
                }
                Ok(None) => std::thread::sleep(pause),
                Err(error) => break Err(error.to_string()),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let stdout = text(stdout);
        let last_words = tail(&text(stderr));
        let report = stdout.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        match (status, report) {
            (Ok(status), Some(report)) if status.success() => report,
            (Ok(status), _) => {
                Outcome::failed(seed, "harness.died", format!("{status}; last words: {last_words}"))
            }
            (Err(why), _) => {
                Outcome::failed(seed, "harness.hang", format!("{why}; last words: {last_words}"))
            }
        }
    }
}

/// Reads to the end on a thread: a child that fills one pipe while we wait on the other would hang.
fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An error ends the text early; the report is then missing, and that is reported.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn tail(text: &str) -> String {
    let mut start = text.len().saturating_sub(LAST_WORDS);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim().to_owned()
}

/// Processor time that this process has used, in milliseconds.
#[must_use]
pub fn processor_ms() -> u64 {
    // SAFETY: all-zero is a valid rusage, and the call only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as u64 * 1_000 + time.tv_usec as u64 / 1_000;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}
