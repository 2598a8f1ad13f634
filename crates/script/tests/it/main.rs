//! All integration tests of `script`, in one program: each further program is linked with
//! everything again.

mod common;
mod http_requests;
mod http_responses;
mod http_speed;
mod http_target;
mod life;
