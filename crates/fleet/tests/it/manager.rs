//! Whole managers in this process, on real sockets with real certificates: what they say to whom,
//! and what they do about a worker that the test plays.

mod harness;
mod played_worker;
mod services;
mod silence;
mod strangers;
mod uploads;
mod watches;
