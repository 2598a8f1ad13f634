//! The supervisor that every background task runs under.
//!
//! A task has a name and a rule for its end. A panic is reported, never swallowed: the task is
//! started again after a growing pause, or the whole node is ended, because a node with a task
//! missing only looks alive. Shutdown is a request, a deadline, and the names of those who did not
//! end by it.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// What happens when a task ends before it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// The node ends: it cannot do without.
    Fatal,
    /// It is started again, after a pause that doubles up to half a minute and starts over after a
    /// minute of quiet.
    Restart,
    /// It was a single job; only a panic is reported, and ends the node.
    Done,
}

/// The first pause before a restart, and the last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(30);
/// A task that ran for so long starts with the first pause again.
const QUIET: Duration = Duration::from_secs(60);

/// Why the node has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fatal {
    pub task: &'static str,
    pub why: String,
}

impl std::fmt::Display for Fatal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the task `{}` {}", self.task, self.why)
    }
}

impl std::error::Error for Fatal {}

/// Tasks that were still running when their time was over. They were cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub tasks: Vec<&'static str>,
    pub after: Duration,
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not ended within {:?} and cut off: {}", self.after, self.tasks.join(", "))
    }
}

impl std::error::Error for Unfinished {}

/// One task, for metrics and the debug page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    pub running: usize,
    pub restarts: u64,
    pub panics: u64,
}

type Counts = Arc<Mutex<BTreeMap<&'static str, TaskCounts>>>;

/// See the head of this file.
pub struct Supervisor {
    stop: watch::Sender<bool>,
    fatal: watch::Sender<Option<Fatal>>,
    counts: Counts,
    tasks: Mutex<JoinSet<()>>,
    named: Mutex<Vec<(&'static str, AbortHandle)>>,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self {
            stop: watch::Sender::new(false),
            fatal: watch::Sender::new(None),
            counts: Counts::default(),
            tasks: Mutex::default(),
            named: Mutex::default(),
        }
    }
}

impl Supervisor {
    /// Becomes true when everything shall end. Tasks watch it.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Runs a task. `make` is called again for every restart.
    pub fn spawn<F>(
        &self,
        name: &'static str,
        on_end: OnEnd,
        make: impl FnMut(watch::Receiver<bool>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let watched = Watched {
            name,
            on_end,
            stop: self.stop.subscribe(),
            fatal: self.fatal.clone(),
            counts: Arc::clone(&self.counts),
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over give their place back.
        while tasks.try_join_next().is_some() {}
        let handle = tasks.spawn(watched.run(make));
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|(_, handle)| !handle.is_finished());
        named.push((name, handle));
    }

    /// Ends the node for a reason that a task has found.
    pub fn fail(&self, task: &'static str, why: String) {
        report(&self.fatal, Fatal { task, why });
    }

    /// Waits until the node has to end.
    pub async fn failed(&self) -> Fatal {
        let mut fatal = self.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await.map(|fatal| fatal.clone()) {
            Ok(Some(fatal)) => fatal,
            // The sender is ours and lives as long as we do.
            _ => std::future::pending().await,
        }
    }

    #[must_use]
    pub fn failure(&self) -> Option<Fatal> {
        self.fatal.borrow().clone()
    }

    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, TaskCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends every task at once, wherever it is.
    pub fn cut_off(&self) {
        self.stop.send_replace(true);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Asks every task to end, waits until `deadline` has passed, and cuts off the rest.
    ///
    /// # Errors
    /// With the names of those that were cut off.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Unfinished> {
        self.stop.send_replace(true);
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let until = Instant::now() + deadline;
        let ended =
            tokio::time::timeout_at(until, async { while tasks.join_next().await.is_some() {} });
        if ended.await.is_ok() {
            return Ok(());
        }
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let mut late: Vec<_> = named
            .iter()
            .filter(|(_, handle)| !handle.is_finished())
            .map(|(name, _)| *name)
            .collect();
        late.sort_unstable();
        // Dropping the set aborts what is in it.
        Err(Unfinished { tasks: late, after: deadline })
    }
}

fn report(to: &watch::Sender<Option<Fatal>>, fatal: Fatal) {
    tracing::error!(task = fatal.task, why = fatal.why, "the node has to end");
    // The first reason counts.
    to.send_if_modified(|known| {
        let is_first = known.is_none();
        if is_first {
            *known = Some(fatal);
        }
        is_first
    });
}

struct Watched {
    name: &'static str,
    on_end: OnEnd,
    stop: watch::Receiver<bool>,
    fatal: watch::Sender<Option<Fatal>>,
    counts: Counts,
}

impl Watched {
    fn count(&self, change: impl FnOnce(&mut TaskCounts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(counts.entry(self.name).or_default());
    }

    async fn run<F>(mut self, mut make: impl FnMut(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = ()> + Send,
    {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            self.count(|counts| counts.running += 1);
            // A panic while the task is being made is one of the task as well.
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| make(self.stop.clone())));
            let ended = match made {
                Ok(task) => AssertUnwindSafe(task).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            self.count(|counts| counts.running -= 1);
            let why = match &ended {
                Err(panic) => {
                    self.count(|counts| counts.panics += 1);
                    format!("has panicked: {}", message(panic.as_ref()))
                }
                Ok(()) if *self.stop.borrow() => return,
                Ok(()) => "has ended before it was asked to".to_owned(),
            };
            match self.on_end {
                OnEnd::Done if ended.is_ok() => return,
                OnEnd::Fatal | OnEnd::Done => {
                    report(&self.fatal, Fatal { task: self.name, why });
                    return;
                }
                OnEnd::Restart => {
                    failures = if begun.elapsed() >= QUIET { 0 } else { failures };
                    let pause = PAUSE_LAST.min(PAUSE_FIRST * (1 << failures));
                    failures = (failures + 1).min(16);
                    tracing::warn!(task = self.name, ?pause, "a task {why}; it is started again");
                    tokio::select! {
                        biased;
                        _ = self.stop.wait_for(|stop| *stop) => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    self.count(|counts| counts.restarts += 1);
                }
            }
        }
    }
}

/// The words of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    async fn until_stopped(mut stop: watch::Receiver<bool>) {
        let _ = stop.wait_for(|stop| *stop).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_and_counted() {
        let supervisor = Supervisor::default();
        let runs = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&runs);
        supervisor.spawn("shaky", OnEnd::Restart, move |stop| {
            let run = seen.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(run >= 2, "not yet");
                until_stopped(stop).await;
            }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        let counts = supervisor.counts()["shaky"];
        assert_eq!(counts, TaskCounts { running: 1, restarts: 2, panics: 2 });
        assert_eq!(supervisor.failure(), None);
        assert_eq!(supervisor.shutdown(Duration::from_secs(1)).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_fatal_task_ends_the_node_with_its_name() {
        let supervisor = Supervisor::default();
        supervisor.spawn("vital", OnEnd::Fatal, |_| async { panic!("lost {}", "everything") });
        let fatal = supervisor.failed().await;
        assert_eq!(fatal.to_string(), "the task `vital` has panicked: lost everything");
        supervisor.spawn("second", OnEnd::Fatal, |_| async {});
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(supervisor.failed().await, fatal, "the first reason counts");
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_is_bounded_and_names_those_who_did_not_end() {
        let supervisor = Supervisor::default();
        supervisor.spawn("obedient", OnEnd::Fatal, until_stopped);
        supervisor.spawn("deaf", OnEnd::Fatal, |_| std::future::pending());
        supervisor.spawn("single", OnEnd::Done, |_| async {});
        let late = supervisor.shutdown(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(late.tasks, ["deaf"]);
        assert_eq!(supervisor.failure(), None, "an asked-for end is no failure");
    }
}
