//! How a run is asked for, and how it is steered while it runs.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use plan::Rate;
use stats::SampleSink;

use crate::conductor::Input;
use crate::secrets::SecretLookup;
use crate::shard::Trace;

#[derive(Default)]
pub struct RunOptions {
    /// Cores to use; `None`: all physical ones.
    pub cores: Option<usize>,
    /// Gets every request, iteration and check, where an output wants them.
    pub sample_sink: Option<SampleSink>,
    /// Gets every exchange as text (`--debug`).
    pub trace: Option<Trace>,
    /// Where `${secret.NAME}` comes from; `None`: from the environment.
    pub secrets: Option<SecretLookup>,
    /// Begin with the schedule standing still.
    pub paused: bool,
}

/// What a user can do to a running test. Each deed is in the result's timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    Pause,
    Resume,
    /// All running workflows, relative to what they do now.
    Scale(f64),
    /// `None`: all running workflows that have virtual users to set.
    SetVus {
        workflow: Option<String>,
        vus: u32,
    },
    SetRate {
        workflow: Option<String>,
        rate: Rate,
    },
    /// Ends gracefully, by `volley ctl` or a key.
    Stop,
    /// Ctrl-C: gracefully the first time, at once the second time.
    Interrupt,
}

/// A deed and where its answer goes.
pub struct Request {
    pub control: Control,
    pub answer: Option<Sender<Result<String, String>>>,
}

/// Steers a run from any thread.
#[derive(Clone)]
pub struct Controller {
    inbox: Sender<Input>,
}

impl Controller {
    pub(crate) fn new(inbox: Sender<Input>) -> Controller {
        Controller { inbox }
    }

    /// Without waiting for what comes of it.
    pub fn send(&self, control: Control) {
        // A run that is over needs no steering.
        let _ = self.inbox.send(Input::Request(Request { control, answer: None }));
    }

    /// Says what was done, or why not.
    pub fn ask(&self, control: Control, patience: Duration) -> Result<String, String> {
        let (answer, answers) = channel();
        let request = Request { control, answer: Some(answer) };
        self.inbox.send(Input::Request(request)).map_err(|_| "the run is over".to_owned())?;
        answers.recv_timeout(patience).map_err(|_| "the run did not answer in time".to_owned())?
    }
}
