//! Scripts in k6's language: one QuickJS runtime per virtual user, on a stack of its own.
//!
//! ```text
//! Sources ──▶ Script (bytecode, shared) ──▶ Vu: Fiber ─ runtime ─ Host ─ native modules
//!                                            │                     ├─▶ client (HTTP)
//!                                    polled by the engine          └─▶ ScriptRecorder (metrics)
//! ```
//!
//! **Invariant:** a blocking call of a script suspends its virtual user, never the core.
//! **Invariant:** what one virtual user does (loops, recursion, memory, exceptions) costs the
//! others time at most.

mod fiber;
pub mod heap;
pub mod host;
pub mod inspect;
mod jslib;
pub mod lacking;
mod loader;
pub mod log;
pub mod modules;
mod names;
pub mod options;
pub mod program;
pub mod recorder;
mod runtime;
mod said;
mod slab;
pub mod source;
pub mod tags;
pub mod thrown;
pub mod vu;
