//! Jobs on a datacenter of real processes: submitted, watched, cancelled, drained, and with its
//! parts killed.

mod back;
mod cluster;
mod jobs;
mod joins;
mod kills;
mod managers;
mod recorder;
mod rights;
mod sharing;
mod slips;
mod up;
