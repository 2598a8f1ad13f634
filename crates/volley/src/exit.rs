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
/// A node must not run: another process runs as it, or its certificate or data folder is not the right one. Starting it
/// again does not help.
pub const NODE_REFUSED: i32 = 111;
/// A node's disk has refused a flush, or what is on it cannot be trusted. Somebody has to look at it first.
pub const DISK_REFUSED: i32 = 112;
/// No manager has answered for long while a job was watched; what became of the job is not known.
pub const CONTROL_PLANE_LOST: i32 = 121;
/// A script threw before its test began.
pub const EXCEPTION: i32 = 107;
/// A script ended its own test before it began.
pub const ABORTED: i32 = 108;
/// A script that cannot be read or has nothing to run; k6's number for it.
pub const FAILED_TO_START: i32 = 255;
