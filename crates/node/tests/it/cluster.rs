//! Whole members on real sockets of this machine, with certificates of a development CA.

mod compare;
mod end;
mod exchange;
mod form;
mod harness;
mod operators;
mod raft;
mod strangers;
mod versions;
