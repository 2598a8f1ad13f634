//! A real manager, a worker that works, and one that the test plays.

mod crew;
mod silence;
