//! Exit codes that do not come from a result (those are `report::exit_code`'s).

/// The command line was wrong.
pub const USAGE: i32 = 2;
/// The plan or a setting is wrong; nothing was sent.
pub const INVALID: i32 = 104;
/// Something on this machine failed before or beside the run.
pub const FAILED: i32 = 1;
/// `ping` got no answer, or not a good one.
pub const UNANSWERED: i32 = 99;
pub const INTERRUPTED: i32 = 105;
