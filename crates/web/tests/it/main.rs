//! All integration tests of `web`, in one program: a real server, asked over real connections.

mod client;
#[path = "../../../report/examples/fake/mod.rs"]
mod fake;
mod security;
mod streams;
mod viewers;
