//! What is known of the machine itself.

use std::fs;

/// Changes whenever the machine is started. Empty where the kernel does not say: then no two starts
/// are known to be the same, which costs certainty and nothing else.
pub fn start_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
