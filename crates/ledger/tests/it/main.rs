//! All integration tests of `ledger`, in one program: each further program is linked with
//! everything again.

mod group;
mod store_blobs;
mod store_conformance;
mod store_crash;
mod store_identity;
mod store_inspect;
mod store_measure;
mod store_model;
mod store_snapshots;
mod store_support;
