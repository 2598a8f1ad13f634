//! All integration tests of `target`, in one program: each further program is linked with
//! everything again.

mod common;
mod faults;
mod hostile;
mod http2;
mod routes;
