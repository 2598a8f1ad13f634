//! All integration tests of `fence`, in one program: each further program is linked with everything
//! again.

mod basics;
mod clock;
mod fencing_table;
mod handover;
mod lease;
