//! A worker as the test wants it: it says that its cores are free, and is silent, or refuses
//! everything by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use control::message::{WorkerInventory, WorkerRefusal, WorkerRequest, WorkerResponse};
use fence::BootId;
use fleet::wire::proto::Envelope;
use fleet::wire::proto::worker_control_server::{WorkerControl, WorkerControlServer};
use fleet::wire::{seal, unseal};
use membership::heartbeat::{Beat, Overload, Stage, Work, WorkerBeat};
use node::vitals::{Report, Vitals};
use tonic::{Request, Response, Status};

pub const CORES: u32 = 2;

#[derive(Default)]
pub struct Played {
    pub silent: AtomicBool,
    /// How often cores were asked for, and how often it was asked what it holds.
    pub reserves: AtomicUsize,
    pub looks: AtomicUsize,
}

pub struct Service(pub Arc<Played>);

impl Service {
    pub fn server(played: &Arc<Played>) -> WorkerControlServer<Self> {
        WorkerControlServer::new(Self(Arc::clone(played)))
    }
}

#[tonic::async_trait]
impl WorkerControl for Service {
    async fn call(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        let ask: WorkerRequest = unseal(request.get_ref())?;
        let count = match &ask {
            WorkerRequest::Reserve { .. } => Some(&self.0.reserves),
            WorkerRequest::Inspect { .. } => Some(&self.0.looks),
            _ => None,
        };
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        while self.0.silent.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let answer = match ask {
            WorkerRequest::Reserve { cores, .. } => {
                WorkerResponse::Refused(WorkerRefusal::NoCores {
                    asked: cores,
                    free: 0,
                    total: CORES,
                })
            }
            WorkerRequest::Inspect { .. } => WorkerResponse::Holding(Box::new(WorkerInventory {
                boot: BootId(1),
                since: BootId(1),
                cores: CORES,
                cores_free: CORES,
                draining: false,
                attempts: Vec::new(),
            })),
            _ => WorkerResponse::Done,
        };
        Ok(Response::new(seal(&answer)?))
    }

    async fn drain(&self, _: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        Ok(Response::new(seal(&())?))
    }
}

/// What it says of itself: all its cores are free.
pub fn report() -> Report {
    let beat = WorkerBeat {
        accepting: true,
        cores_free: CORES,
        cores: CORES,
        // As a generator at its limit has it (R21).
        cpu_percent: 100,
        ..WorkerBeat::default()
    };
    let beat = Beat::Worker(beat);
    let (stage, overload) = (Stage::Active, Overload::Overloaded);
    Arc::new(move || Vitals { stage, overload, work: Work::default(), beat })
}
