//! What a node tells the others of itself: may it be offered work, does its work go forward, how
//! loaded is the machine.
//!
//! A manager, worker or gate hands in a [`Report`] of its own. A bare member has no work; its
//! report says what the machine shows, and that there is nothing to do.

use std::sync::{Arc, Mutex, PoisonError};

use membership::Role;
use membership::heartbeat::{Beat, GateBeat, ManagerBeat, Overload, Stage, Work, WorkerBeat};

/// What goes into the next heartbeat. Until the node has joined, the member says "syncing" whatever
/// stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    pub stage: Stage,
    pub overload: Overload,
    pub work: Work,
    pub beat: Beat,
}

/// Asked before every heartbeat; must not block.
pub type Report = Arc<dyn Fn() -> Vitals + Send + Sync>;

/// Above this share of the processor a member without work calls itself busy.
const BUSY_PERCENT: u8 = 80;
const STRESSED_PERCENT: u8 = 95;

/// What a bare member of this role reports: the load of the machine, and that there is nothing to
/// do.
#[must_use]
pub fn of_machine(role: Role) -> Report {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let cpu = Mutex::new(CpuMeter::default());
    Arc::new(move || {
        let cpu_percent = cpu
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .percent(read("/proc/stat").as_deref());
        let memory_percent = memory_percent(read("/proc/meminfo").as_deref().unwrap_or_default());
        let overload = match cpu_percent.max(memory_percent) {
            load if load >= STRESSED_PERCENT => Overload::Stressed,
            load if load >= BUSY_PERCENT => Overload::Busy,
            _ => Overload::Healthy,
        };
        let busy = (u32::from(cpu_percent) * cores).div_ceil(100);
        let cores_free = cores.saturating_sub(busy);
        let beat = match role {
            // It runs nothing, so it takes nothing: nobody may offer work to a bare member.
            Role::Worker | Role::Client | Role::Recruit => Beat::Worker(WorkerBeat {
                accepting: false,
                disk_full: false,
                cores_free,
                cores,
                queued: 0,
                cpu_percent,
                memory_percent,
                shards: 0,
            }),
            Role::Manager => Beat::Manager(ManagerBeat::default()),
            Role::Gate => Beat::Gate(GateBeat::default()),
        };
        Vitals { stage: Stage::Active, overload, work: Work::default(), beat }
    })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The share of the processors in use since the last look.
#[derive(Default)]
struct CpuMeter {
    last: Option<(u64, u64)>,
}

impl CpuMeter {
    /// `stat` is the text of `/proc/stat`. The first look, and a system without that file, say 0.
    fn percent(&mut self, stat: Option<&str>) -> u8 {
        let Some(now) = stat.and_then(cpu_times) else { return 0 };
        let Some((busy, all)) = self.last.replace(now) else { return 0 };
        let (busy, all) = (now.0.saturating_sub(busy), now.1.saturating_sub(all));
        u8::try_from((busy * 100).checked_div(all).unwrap_or(0)).unwrap_or(100).min(100)
    }
}

/// (busy, all) ticks of all processors.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are counted in user already.
    let all: u64 = ticks.iter().take(8).sum();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    Some((all.saturating_sub(idle), all))
}

fn memory_percent(meminfo: &str) -> u8 {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (Some(all), Some(free)) = (of("MemTotal:"), of("MemAvailable:")) else { return 0 };
    let used = (all.saturating_sub(free) * 100).checked_div(all).unwrap_or(0);
    u8::try_from(used).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_measured_between_two_looks() {
        let mut meter = CpuMeter::default();
        assert_eq!(meter.percent(Some("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1")), 0);
        assert_eq!(meter.percent(Some("cpu  160 0 100 840 0 0 0 0 0 0\n")), 60);
        assert_eq!(meter.percent(Some("cpu  160 0 100 840 0 0 0 0 0 0\n")), 0, "no time passed");
        assert_eq!(meter.percent(Some("nonsense")), 0);
        assert_eq!(meter.percent(None), 0);
    }

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let text = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    250 kB\n";
        assert_eq!(memory_percent(text), 75);
        assert_eq!(memory_percent(""), 0);
    }

    /// A bare member never offers itself for work.
    #[test]
    fn a_bare_worker_takes_no_work() {
        let Vitals { beat: Beat::Worker(beat), work, .. } = of_machine(Role::Worker)() else {
            panic!("a worker's beat")
        };
        assert!(!beat.accepting);
        assert!(beat.cores >= 1 && beat.cores_free <= beat.cores);
        assert_eq!(work.runnable, 0);
    }
}
