//! A worker with real sockets, files and threads, led by a manager that the test plays.

mod course;
mod harness;
mod leases;
mod played_manager;
mod recovery;
mod runs;
mod words;
