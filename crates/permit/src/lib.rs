//! The right to send, as the threads that send see it.
//!
//! ```text
//! lease granted ──▶ SendPermit: until when      ┐
//!                                               ├── SendControl, asked before every request
//! attempt       ──▶ IssuedFile: how many so far ┘
//! ```
//!
//! The lease itself (who grants it, when it may be granted again) is `fence::ExecutionLease`. Here
//! is what a request costs of it: one load and one comparison. Clients of every protocol ask
//! [`SendControl`], so no request leaves this machine beside it.

mod issued;
mod send_control;
mod send_permit;

pub use issued::{IDENTITY_BYTES_MAX, IssuedCounts, IssuedFile};
pub use send_control::SendControl;
pub use send_permit::{PermitState, SendPermit};
