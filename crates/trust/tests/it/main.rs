//! All integration tests of `trust`, in one program: each further program is linked with everything
//! again.

mod common;
mod handshake;
mod impostor;
mod stranger;
