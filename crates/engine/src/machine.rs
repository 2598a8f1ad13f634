//! What this machine has, and what this process has used of it.

use std::time::Duration;

/// Cores to generate load on: physical ones, because two threads of one core share what a generator
/// needs.
pub fn cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().map_or(logical, |physical| physical.min(logical)).max(1)
}

fn physical_cores() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut seen = std::collections::BTreeSet::new();
    let mut package = "0";
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key.trim() {
            "physical id" => package = value.trim(),
            "core id" => {
                seen.insert((package.to_owned(), value.trim().to_owned()));
            }
            _ => {}
        }
    }
    (!seen.is_empty()).then_some(seen.len())
}

/// Raises the limit of open descriptors as far as it goes, and says where it stands.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads into and writes from a structure of ours.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 1024;
        }
        if limit.rlim_cur < limit.rlim_max {
            let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) == 0 {
                limit.rlim_cur = limit.rlim_max;
            }
        }
    }
    limit.rlim_cur
}

pub fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

/// CPU time of the calling thread, in user and kernel mode.
pub fn thread_cpu() -> (Duration, Duration) {
    let usage = usage(libc::RUSAGE_THREAD);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Memory that can still be had without driving others out.
pub fn memory_available_bytes() -> u64 {
    let known = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    // Where nothing is known, a small machine is assumed.
    kib.map_or(2 << 30, |kib| kib * 1024)
}

/// The most memory that the process has had resident.
pub fn memory_max_bytes() -> u64 {
    usage(libc::RUSAGE_SELF).ru_maxrss.max(0) as u64 * 1024
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all zeros is a legal value of this structure of numbers, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    }
}

fn time(value: libc::timeval) -> Duration {
    Duration::new(value.tv_sec.max(0) as u64, value.tv_usec.max(0) as u32 * 1000)
}
