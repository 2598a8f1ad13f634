//! Where slow file work runs, so that it holds up neither the consensus nor the network: one thread
//! of its own, or, in a simulation, in place, because threads would make a run unrepeatable.

pub use base::lock;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};
use wal::Disk;

use super::WalOwner;

/// Work that waits for the thread. One more than this, and whoever brings it waits.
const QUEUE: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

pub struct Lane {
    disk: Arc<dyn Disk>,
    thread: Option<Mutex<Option<Thread>>>,
}

struct Thread {
    jobs: mpsc::Sender<Job>,
    ended: oneshot::Receiver<()>,
}

fn stopped() -> io::Error {
    io::Error::other("the storage is closed")
}

impl Lane {
    /// `hold` is let go when the last work is done.
    pub fn start(disk: Arc<dyn Disk>, owner: WalOwner, hold: Hold) -> io::Result<Self> {
        let thread = match owner {
            WalOwner::Task => None,
            WalOwner::Thread => {
                let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
                let (end, ended) = oneshot::channel();
                std::thread::Builder::new().name("ledger-files".into()).spawn(move || {
                    while let Some(job) = queue.blocking_recv() {
                        job();
                    }
                    drop(hold);
                    let _ = end.send(());
                })?;
                Some(Mutex::new(Some(Thread { jobs, ended })))
            }
        };
        Ok(Self { disk, thread })
    }

    /// Runs `work` and gives back what it returns. Work is done in the order in which it is
    /// brought.
    pub async fn run<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Disk) -> io::Result<T> + Send + 'static,
    {
        let Some(thread) = &self.thread else {
            let delay = self.disk.pending_delay();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            return work(self.disk.as_ref());
        };
        let jobs = lock(thread).as_ref().map(|thread| thread.jobs.clone()).ok_or_else(stopped)?;
        let (answer, answered) = oneshot::channel();
        let disk = self.disk.clone();
        let job: Job = Box::new(move || {
            let _ = answer.send(work(disk.as_ref()));
        });
        jobs.send(job).await.map_err(|_| stopped())?;
        drop(jobs);
        answered.await.map_err(|_| stopped())?
    }

    /// Takes no more work and waits for what is under way.
    pub async fn close(&self) {
        let Some(thread) = self.thread.as_ref().and_then(|thread| lock(thread).take()) else {
            return;
        };
        drop(thread.jobs);
        let _ = thread.ended.await;
    }
}

/// The lock of the data folder, kept for as long as anybody may write in it.
pub type Hold = Arc<Box<dyn Send + Sync>>;
