//! Why a command did not do what was asked, and with which exit code it ends because of that.
//!
//! Every command that can fail returns `Result<ExitCode, Failure>`, and [`told`] prints the
//! failure. Whoever has to decide something looks at the code, never at the words.

use std::fmt::{self, Display};
use std::future::Future;

use report::ExitCode;

/// What went wrong, and with which code the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: ExitCode,
    /// A sentence without a full stop.
    pub message: String,
    /// What the reader can do about it.
    pub help: Option<String>,
}

impl Failure {
    pub fn new(exit: ExitCode, message: impl Display) -> Failure {
        Failure { exit, message: message.to_string(), help: None }
    }

    /// Something on this machine, or at the other end, failed.
    pub fn failed(message: impl Display) -> Failure {
        Failure::new(ExitCode::Failed, message)
    }

    /// The arguments contradict each other, or something that is needed is missing.
    pub fn usage(message: impl Display) -> Failure {
        Failure::new(ExitCode::Usage, message)
    }

    /// A plan, a script or a setting is wrong.
    pub fn invalid(message: impl Display) -> Failure {
        Failure::new(ExitCode::InvalidPlan, message)
    }

    #[must_use]
    pub fn help(mut self, help: impl Display) -> Failure {
        self.help = Some(help.to_string());
        self
    }

    /// The same failure with a word in front that says where it happened.
    #[must_use]
    pub fn at(mut self, place: impl Display) -> Failure {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Prints the failure and gives its code.
    pub fn tell(&self) -> ExitCode {
        eprintln!("volley: {self}");
        self.exit
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}; {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The code of a command that has ended; what went wrong is printed.
pub fn told(done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| failure.tell())
}

/// Which threads a command's own work runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This one: a command that asks and prints needs no more.
    This,
    /// Two, so that a node goes on while one of them is busy.
    Two,
    /// One for each core.
    PerCore,
}

/// Runs what waits for the network.
pub fn block_on<T>(
    threads: Threads,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut builder = match threads {
        Threads::This => tokio::runtime::Builder::new_current_thread(),
        Threads::Two | Threads::PerCore => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads == Threads::Two {
        builder.worker_threads(2);
    }
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("no runtime: {error}")))?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_with_its_place_and_its_help() {
        let failure = Failure::failed("no such file").at("plan.yaml").help("name another");
        assert_eq!(failure.to_string(), "plan.yaml: no such file; name another");
        assert_eq!(told(Err(failure)), ExitCode::Failed);
        assert_eq!(told(Ok(ExitCode::Stopped)), ExitCode::Stopped);
    }
}
