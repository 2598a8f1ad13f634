//! The owner of a job in a small world: the ledger's state machine, model workers, and a network
//! that loses, repeats and delays. Every effect is checked against the ledger when it is carried
//! out, and so is every state.

mod addenda;
mod cancel;
mod claims;
mod execution;
mod failures;
mod lifecycle;
mod losses;
mod open;
mod probes;
mod properties;
mod queue;
mod rates;
mod rows;
mod steering;
mod takeover;
mod verdicts;
mod worker;
mod world;
