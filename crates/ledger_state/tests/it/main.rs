//! The ledger's state machine, through its public face alone. Every state that a test reaches is
//! checked against the invariants, and so is every step.

mod addenda;
mod attempts;
mod contexts;
mod course;
mod golden;
mod history;
mod idempotency;
mod keys;
mod lifecycle;
mod limits;
mod model;
mod ownership;
mod properties;
mod retention;
mod sessions;
mod speed;
mod world;
