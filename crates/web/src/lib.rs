//! The live page: what a run does now, in a browser on this machine.
//!
//! ```text
//! run ──Progress──▶ LiveRun (one cell) ──▶ Board ──since(n)──▶ viewer's stream ──▶ browser
//!                   is_wanted() ◀── viewers       numbered changes, nothing queued
//! ```
//!
//! - The page is the report's application, fed by server-sent events. A [`Board`] holds the newest
//!   state only and knows when each part of it changed. A viewer that comes back says how far it
//!   had come (`Last-Event-ID`) and gets what changed since; a slow one gets fewer, larger steps.
//! - When the run has ended, every viewer is sent the finished report and keeps it. No process has
//!   to stay for that.
//!
//! **Invariant:** a viewer can never hold up a run. The run asks whether somebody looks, puts one
//! value into one cell and goes on; everything else happens on the server's own thread.
//!
//! **Invariant:** nothing is served to whoever lacks the token, names another host or comes from
//! another origin; see `guard`.

mod access;
mod board;
mod frames;
mod guard;
mod live_run;
mod place;
mod routes;
mod server;
mod shell;
mod viewers;

pub use board::Board;
pub use live_run::LiveRun;
pub use place::{Listen, PORT};
pub use server::{Options, Server, StartError};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

/// An answer that may take its time.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// The name of the only run of a server that shows no fleet.
pub const THE_RUN: &str = "run";

/// What a page may ask of a run. Whether it is obeyed is decided elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wish {
    Pause,
    Resume,
    /// Multiply virtual users or rate by this.
    Scale(f64),
    Stop,
}

/// What a server shows. All calls are made on the server's thread and must not block it.
pub trait Site: Send + Sync + 'static {
    /// Many runs, with a list of them as the first page.
    fn is_fleet(&self) -> bool {
        false
    }

    /// The run with this name. `None`: there is none.
    fn board(&self, run: &str) -> Option<Arc<Board>>;

    /// What was done, in words; or why it was not.
    fn steer(&self, run: &str, wish: Wish) -> Answer<String>;

    /// What has to happen meanwhile, as a task of the server.
    fn work(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Jobs and nodes of a fleet.
    fn list(&self) -> Answer<Value> {
        Box::pin(async { Err("this is no fleet".to_owned()) })
    }
}
