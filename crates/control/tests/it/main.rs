//! All integration tests of `control`, in one program: each further program is linked with
//! everything again.

mod fleet;
mod messages;
