//! Whole managers in this process, on real sockets with real certificates: what they say to whom.

mod doors;
mod harness;
