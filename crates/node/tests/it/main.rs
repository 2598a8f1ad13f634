//! All integration tests of `node`, in one program: each further program is linked with everything
//! again.

mod cluster;
mod simulated;
