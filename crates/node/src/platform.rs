//! What a node stands on: a network, a disk and a host. The simulation brings its own, and runs the
//! same tasks on them.

use std::future::Future;
use std::sync::Arc;

use membership::Role;
use membership::heartbeat::{Beat, GateBeat, ManagerBeat, Overload, Stage, Work, WorkerBeat};
use tokio::task::JoinError;
use trust::Identity;
use wal::Disk;

use crate::network::Network;
use crate::vitals::{self, Report, Vitals};

#[derive(Clone)]
pub struct Platform {
    /// Who the node is; on a real network its certificate says so.
    pub identity: Identity,
    pub network: Arc<dyn Network>,
    pub disk: Arc<dyn Disk>,
    pub host: Host,
}

/// The machine that a node's process runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Real,
    /// Has one thread, which is the simulation's, and nothing that could be measured.
    Simulated,
}

impl Host {
    /// Does something that blocks where it holds nobody up. It is begun at once, whether somebody
    /// waits for it or not.
    pub fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, JoinError>> + Send {
        let begun = match self {
            Self::Real => Begun::Elsewhere(tokio::task::spawn_blocking(work)),
            Self::Simulated => Begun::Done(work()),
        };
        async move {
            match begun {
                Begun::Elsewhere(running) => running.await,
                Begun::Done(made) => Ok(made),
            }
        }
    }

    /// What a bare member of this role reports of its machine.
    #[must_use]
    pub fn vitals(self, role: Role) -> Report {
        match self {
            Self::Real => vitals::of_machine(role),
            Self::Simulated => Arc::new(move || nothing_measured(role)),
        }
    }
}

enum Begun<T> {
    Elsewhere(tokio::task::JoinHandle<T>),
    Done(T),
}

fn nothing_measured(role: Role) -> Vitals {
    let beat = match role {
        Role::Worker | Role::Client | Role::Recruit => Beat::Worker(WorkerBeat::default()),
        Role::Manager => Beat::Manager(ManagerBeat::default()),
        Role::Gate => Beat::Gate(GateBeat::default()),
    };
    Vitals { stage: Stage::Active, overload: Overload::Healthy, work: Work::default(), beat }
}
