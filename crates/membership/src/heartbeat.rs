//! What a member tells of itself in its probes and answers, by role.
//!
//! Counts and digests only: lists of jobs travel over gRPC. The envelope says whose it is and puts
//! it in order; the sequence number inside lets a consumer that gets it by another way do the same.

use serde::{Deserialize, Serialize};

/// The first byte. Later fields are appended, which older readers do not mind; anything else needs
/// a new version.
const VERSION: u8 = 2;

/// How much a node has to do, by its own overload detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Overload {
    #[default]
    Healthy,
    Busy,
    Stressed,
    Overloaded,
}

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Syncing,
    #[default]
    Active,
    Draining,
}

/// Whether work goes forward: a counter that only rises, and whether there is anything to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Iterations, dispatch attempts ("no capacity" counts), results forwarded and merged.
    pub done: u64,
    /// How much could be worked on now.
    pub runnable: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerBeat {
    pub accepting: bool,
    /// Why it does not accept, unless it drains.
    pub disk_full: bool,
    pub cores_free: u32,
    pub cores: u32,
    pub queued: u32,
    pub cpu_percent: u8,
    pub memory_percent: u8,
    pub shards: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerBeat {
    pub accepting: bool,
    pub is_leader: bool,
    pub has_quorum: bool,
    pub term: u64,
    pub workers: u32,
    pub workers_healthy: u32,
    pub cores_free: u32,
    pub cores: u32,
    pub jobs: u32,
    pub workflows: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBeat {
    pub datacenters_connected: u32,
    pub datacenters: u32,
    pub jobs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beat {
    Worker(WorkerBeat),
    Manager(ManagerBeat),
    Gate(GateBeat),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Rises with every heartbeat of this boot.
    pub sequence: u64,
    pub stage: Stage,
    pub overload: Overload,
    pub work: Work,
    pub beat: Beat,
}

impl Heartbeat {
    /// As bytes for [`Event::Heartbeat`](crate::Event::Heartbeat); always short enough for it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// `None` if it is from another version or no heartbeat at all.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, body) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        postcard::take_from_bytes(body).ok().map(|(heartbeat, _)| heartbeat)
    }

    /// Whether it would take more work (CORE-69, CORE-70, CORE-71).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Active
            && match self.beat {
                Beat::Worker(beat) => beat.accepting && beat.cores_free > 0,
                Beat::Manager(beat) => beat.has_quorum && beat.accepting && beat.workers > 0,
                Beat::Gate(beat) => {
                    beat.datacenters_connected > 0 && self.overload < Overload::Stressed
                }
            }
    }

    /// Whether it could work at all, so that standing still means something.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        match self.beat {
            Beat::Worker(beat) => beat.cores > 0,
            Beat::Manager(beat) => beat.has_quorum && beat.cores > 0,
            Beat::Gate(beat) => beat.datacenters_connected > 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::envelope::HEARTBEAT_BYTES_MAX;

    pub(crate) fn worker(sequence: u64, done: u64, runnable: u32, cores_free: u32) -> Heartbeat {
        let beat = WorkerBeat { accepting: true, cores_free, cores: 4, ..WorkerBeat::default() };
        Heartbeat {
            sequence,
            stage: Stage::Active,
            overload: Overload::Healthy,
            work: Work { done, runnable },
            beat: Beat::Worker(beat),
        }
    }

    fn largest() -> Heartbeat {
        let beat = ManagerBeat {
            accepting: true,
            is_leader: true,
            has_quorum: true,
            term: u64::MAX,
            workers: u32::MAX,
            workers_healthy: u32::MAX,
            cores_free: u32::MAX,
            cores: u32::MAX,
            jobs: u32::MAX,
            workflows: u32::MAX,
        };
        Heartbeat {
            sequence: u64::MAX,
            stage: Stage::Draining,
            overload: Overload::Overloaded,
            work: Work { done: u64::MAX, runnable: u32::MAX },
            beat: Beat::Manager(beat),
        }
    }

    /// CORE-80: even the largest fits; another version is not misread; a newer one with more fields
    /// is read.
    #[test]
    fn a_heartbeat_survives_the_journey() {
        for heartbeat in [worker(1, 2, 3, 4), largest()] {
            let mut bytes = heartbeat.encode();
            assert!(bytes.len() <= HEARTBEAT_BYTES_MAX);
            assert_eq!(Heartbeat::decode(&bytes), Some(heartbeat));
            bytes.extend_from_slice(&[1, 2, 3]);
            assert_eq!(Heartbeat::decode(&bytes), Some(heartbeat));
            bytes[0] = VERSION + 1;
            assert_eq!(Heartbeat::decode(&bytes), None);
        }
        assert_eq!(Heartbeat::decode(&[]), None);
    }

    /// CORE-69, CORE-70, CORE-71: readiness by role.
    #[test]
    fn readiness_follows_the_role() {
        let mut heartbeat = worker(1, 0, 0, 1);
        assert!(heartbeat.is_ready());
        heartbeat.stage = Stage::Draining;
        assert!(!heartbeat.is_ready());
        assert!(!worker(1, 0, 0, 0).is_ready());
        let manager =
            ManagerBeat { accepting: true, has_quorum: true, workers: 1, ..ManagerBeat::default() };
        let with = |beat| Heartbeat { beat, ..worker(1, 0, 0, 1) };
        assert!(with(Beat::Manager(manager)).is_ready());
        assert!(!with(Beat::Manager(ManagerBeat { has_quorum: false, ..manager })).is_ready());
        assert!(!with(Beat::Manager(ManagerBeat { workers: 0, ..manager })).is_ready());
        let gate = GateBeat { datacenters_connected: 1, ..GateBeat::default() };
        assert!(with(Beat::Gate(gate)).is_ready());
        let stressed = Heartbeat { overload: Overload::Stressed, ..with(Beat::Gate(gate)) };
        assert!(!stressed.is_ready());
    }
}
