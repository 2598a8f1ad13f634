//! All integration tests of `fleet`, in one program: each further program is linked with everything
//! again.

mod client;
mod enrolment;
mod manager;
mod wire;
mod worker;
