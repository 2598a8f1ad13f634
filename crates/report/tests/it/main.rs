//! All integration tests of `report`, in one program: each further program is linked with
//! everything again.

mod common;
mod exit_codes;
#[path = "../../examples/fake/mod.rs"]
mod fake;
mod html;
mod k6_replay;
mod outputs;
mod summary;
mod text;
