//! What is left when a run is over: words for people, documents for machines.
//!
//! ```text
//!                 ┌─▶ exit_code   one number and why          (CI)
//! RunResult ──────┼─▶ text        the summary on the terminal (people)
//!                 ├─▶ summary     `--summary FILE.json`       (programs)
//!                 ├─▶ record      `--record FILE`             (everything, to be read again)
//!                 │     └─▶ html  `--report FILE.html`        (people, in a browser)
//!                 ├─▶ live        the same page while it runs (`--web`)
//!                 └─▶ outputs     junit=, hdr=                (other people's tools)
//!
//! samples, during the run ──▶ outputs::SampleWriter ──▶ json=, csv= (k6's formats)
//! ```
//!
//! **Invariant:** nothing here can slow a run down: samples are handed over without waiting, and
//! what does not fit is dropped and counted.
//!
//! **Invariant:** every reader sees the same numbers: text, JSON and JUnit are made from one
//! [`Rollup`], and "passed" means the same in all of them, because [`exit_code()`] decides it.

pub mod addenda;
pub mod exit_code;
pub mod format;
pub mod html;
pub mod k6;
pub mod live;
pub mod outputs;
pub mod record;
mod rollup;
pub mod summary;
pub mod text;
mod unrun;

pub use exit_code::{Exit, ExitCode, exit_code};
pub use record::{About, Record, RecordError};
pub use rollup::{CheckTotal, Rollup, StepTotal};
pub use summary::{Summary, replace as write_whole};
