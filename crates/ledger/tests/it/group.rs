//! Whole members in one process: real sockets on loopback, real files, real time.

mod blobs;
mod bootstrap;
mod harness;
mod leaders;
mod members;
mod silence;
mod space;
mod wire;
mod writes;
