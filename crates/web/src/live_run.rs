//! A run of this process, shown while it goes on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use report::{About, Record};
use stats::{Progress, ProgressSink};
use tokio::sync::Notify;

use crate::{Answer, Board, Site, THE_RUN, Wish};

/// The page is made anew only after so many times what making it took: it never takes more than a
/// hundredth of a core.
const REST_FACTOR: u32 = 100;
const REST_MAX: Duration = Duration::from_secs(10);

type Steer = Box<dyn Fn(Wish) -> Answer<String> + Send + Sync>;

/// The engine's side is [`ProgressSink`], the browser's is [`Site`].
pub struct LiveRun {
    board: Arc<Board>,
    /// What the run has handed over and nobody has looked at yet.
    cell: Mutex<Option<Progress>>,
    filled: Notify,
    rest_until: Mutex<Option<Instant>>,
    steer: Steer,
}

impl LiveRun {
    pub fn new(about: About, steer: Steer) -> Arc<LiveRun> {
        Arc::new(LiveRun {
            board: Arc::new(Board::new(about)),
            cell: Mutex::default(),
            filled: Notify::new(),
            rest_until: Mutex::default(),
            steer,
        })
    }

    pub fn finish(&self, record: &Record) {
        self.board.finish(record);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressSink for LiveRun {
    fn is_wanted(&self) -> bool {
        let rests = lock(&self.rest_until).is_some_and(|until| Instant::now() < until);
        !rests && (self.board.viewers() > 0 || self.board.is_empty())
    }

    fn take(&self, progress: Progress) {
        let _old = lock(&self.cell).replace(progress);
        self.filled.notify_one();
    }
}

impl Site for LiveRun {
    fn board(&self, run: &str) -> Option<Arc<Board>> {
        (run == THE_RUN).then(|| self.board.clone())
    }

    fn steer(&self, _: &str, wish: Wish) -> Answer<String> {
        (self.steer)(wish)
    }

    fn work(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            loop {
                self.filled.notified().await;
                let taken = lock(&self.cell).take();
                let Some(progress) = taken.filter(|_| !self.board.is_over()) else { continue };
                let began = Instant::now();
                self.board.publish(progress);
                let took = began.elapsed();
                let rest = (took * REST_FACTOR).min(REST_MAX);
                *lock(&self.rest_until) = Some(Instant::now() + rest.saturating_sub(SLACK));
            }
        })
    }
}

/// The run looks once a second; who rests for a little longer should not miss a whole second.
const SLACK: Duration = Duration::from_millis(200);
