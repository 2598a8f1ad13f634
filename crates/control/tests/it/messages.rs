//! The fleet's wire contract: every message survives its codec, and what is no message is refused
//! by name.

mod codec;
mod every;
mod golden;
mod kinds;
