//! All integration tests of `wal`, in one program: each further program is linked with everything
//! again.

mod append;
mod canary;
mod common;
mod exhaustive;
mod faulty;
mod property;
mod reading;
mod real_disk;
mod recovery;
mod space;
