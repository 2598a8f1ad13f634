//! Managers that are real members with real certificates, and whose service of jobs is scripted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fence::{JobId, NodeId};
use fleet::client::{ClientOptions, FleetClient};
use fleet::wire::proto::jobs_server::{Jobs, JobsServer};
use fleet::wire::{self, proto};
use futures_util::{Stream, StreamExt, stream};
use node::secret::GossipKey;
use node::{Config, CredentialFiles, Member};
use stats::feed::Event;
use tempfile::TempDir;
use tonic::{Request, Response, Status, Streaming};
use trust::{DevCa, Gates, Role, Validity};

pub const JOB: JobId = JobId(0x3f2a_1111_2222_3333_4444_5555_6666_7777);

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn days(count: u64) -> Validity {
    Validity::starting(now(), Duration::from_secs(count * 86_400))
}

/// What a manager is to do, and what it was asked.
#[derive(Default)]
pub struct Part {
    /// One for each question of this kind; when they are used up, the last.
    pub submits: VecDeque<Result<proto::SubmitReply, Status>>,
    /// One for each watch. A stream that stays open ends with `None`.
    pub watches: VecDeque<Vec<Option<Result<Event, Status>>>>,
    pub jobs: Vec<proto::JobStatus>,
    pub result: Option<Vec<u8>>,
    /// Damages the result on its way, so often.
    pub damages: usize,
    pub blobs: Vec<Vec<u8>>,
    pub refuses: Option<Status>,
    pub keys: Vec<(String, u64)>,
    pub positions: Vec<(u64, u64, u64)>,
    pub asked: usize,
}

#[derive(Clone, Default)]
pub struct Fake(pub Arc<Mutex<Part>>);

impl Fake {
    pub fn part(&self) -> MutexGuard<'_, Part> {
        self.0.lock().unwrap()
    }

    fn enter(&self) -> Result<MutexGuard<'_, Part>, Status> {
        let mut part = self.part();
        part.asked += 1;
        match &part.refuses {
            Some(status) => Err(status.clone()),
            None => Ok(part),
        }
    }
}

fn next<T: Clone>(queue: &mut VecDeque<T>) -> Option<T> {
    if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() }
}

type Reply<T> = Result<Response<T>, Status>;
type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Jobs for Fake {
    type WatchStream = Boxed<proto::WatchEvent>;
    type ResultStream = Boxed<proto::Chunk>;

    async fn missing(&self, request: Request<proto::MissingRequest>) -> Reply<proto::MissingReply> {
        let part = self.enter()?;
        let has = |blob: &proto::BlobRef| {
            part.blobs.iter().any(|bytes| wire::blob_out(&fleet::client::blob_of(bytes)) == *blob)
        };
        let missing = request.into_inner().blobs.into_iter().filter(|blob| !has(blob)).collect();
        Ok(Response::new(proto::MissingReply { missing }))
    }

    async fn put(&self, request: Request<Streaming<proto::Chunk>>) -> Reply<proto::BlobRef> {
        let mut chunks = request.into_inner();
        let (mut named, mut bytes) = (None, Vec::new());
        while let Some(chunk) = chunks.message().await? {
            named = named.or(chunk.blob);
            bytes.extend_from_slice(&chunk.content);
        }
        self.enter()?.blobs.push(bytes);
        Ok(Response::new(named.unwrap()))
    }

    async fn submit(&self, request: Request<proto::SubmitRequest>) -> Reply<proto::SubmitReply> {
        let mut part = self.enter()?;
        let request = request.into_inner();
        part.keys.push((request.key, request.age_ms));
        next(&mut part.submits).unwrap().map(Response::new)
    }

    async fn cancel(&self, _: Request<proto::CancelRequest>) -> Reply<proto::CancelReply> {
        drop(self.enter()?);
        Ok(Response::new(proto::CancelReply::default()))
    }

    async fn status(&self, request: Request<proto::StatusRequest>) -> Reply<proto::JobStatus> {
        let (part, job) = (self.enter()?, request.into_inner().job);
        let found = part.jobs.iter().find(|one| one.job == job).cloned();
        let unknown = || Status::not_found("no such job was ever created here");
        found.map(Response::new).ok_or_else(unknown)
    }

    async fn list(&self, request: Request<proto::ListRequest>) -> Reply<proto::ListReply> {
        let proto::ListRequest { limit, prefix, .. } = request.into_inner();
        let mut jobs = self.enter()?.jobs.clone();
        let digits = |job: &[u8]| job.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        jobs.retain(|one| digits(&one.job).starts_with(&prefix));
        // As many as a manager puts into one list.
        let limit = limit.min(1_000) as usize;
        let more = jobs.len().saturating_sub(limit);
        jobs.truncate(limit);
        Ok(Response::new(proto::ListReply { jobs, more: u32::try_from(more).unwrap() }))
    }

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Reply<Self::WatchStream> {
        let mut part = self.enter()?;
        let request = request.into_inner();
        part.positions.push((request.epoch, request.seq, request.window));
        let script = next(&mut part.watches).unwrap();
        let events = stream::iter(script).flat_map(|item| match item {
            Some(Ok(event)) => {
                let event = proto::WatchEvent { event: event.encode().into() };
                stream::iter([Ok(event)]).boxed()
            }
            Some(Err(status)) => stream::iter([Err(status)]).boxed(),
            None => stream::pending().boxed(),
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn steer(&self, _: Request<proto::SteerRequest>) -> Reply<proto::SteerReply> {
        drop(self.enter()?);
        let said = "paused".to_owned();
        Ok(Response::new(proto::SteerReply { said, missed: Vec::new() }))
    }

    async fn result(&self, _: Request<proto::JobRequest>) -> Reply<Self::ResultStream> {
        let mut part = self.enter()?;
        let Some(bytes) = part.result.clone() else {
            return Err(Status::failed_precondition("the job has not ended"));
        };
        let blob = Some(wire::blob_out(&fleet::client::blob_of(&bytes)));
        let damaged = part.damages > 0;
        part.damages = part.damages.saturating_sub(1);
        let keep = if damaged { bytes.len() / 2 } else { bytes.len() };
        let chunks: Vec<_> = bytes[..keep]
            .chunks(100)
            .enumerate()
            .map(|(number, content)| {
                let blob = blob.clone().filter(|_| number == 0);
                Ok(proto::Chunk { blob, content: Bytes::copy_from_slice(content) })
            })
            .collect();
        Ok(Response::new(Box::pin(stream::iter(chunks))))
    }

    async fn logs(&self, _: Request<proto::JobRequest>) -> Reply<proto::LogsReply> {
        drop(self.enter()?);
        Ok(Response::new(Default::default()))
    }

    async fn drain(&self, _: Request<proto::DrainRequest>) -> Reply<proto::DrainReply> {
        drop(self.enter()?);
        Ok(Response::new(Default::default()))
    }

    async fn fleet(&self, _: Request<proto::FleetRequest>) -> Reply<proto::FleetReply> {
        drop(self.enter()?);
        Ok(Response::new(Default::default()))
    }

    async fn managers(&self, _: Request<proto::ManagersRequest>) -> Reply<proto::ManagersReply> {
        drop(self.enter()?);
        Ok(Response::new(Default::default()))
    }

    async fn change_managers(
        &self,
        _: Request<proto::ChangeManagersRequest>,
    ) -> Reply<proto::ChangeManagersReply> {
        drop(self.enter()?);
        Ok(Response::new(Default::default()))
    }
}

pub struct World {
    temp: TempDir,
    ca: DevCa,
}

impl World {
    pub fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let ca = DevCa::create(&temp.path().join("ca"), "test", "ci", days(365)).unwrap();
        Self { temp, ca }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn files(&self, role: Role, number: u128, validity: Validity) -> CredentialFiles {
        let folder = self.path(&format!("certs-{number}"));
        let node = NodeId(number << 96 | 0xabcd);
        let stem = folder.join(format!("{role}-{node}"));
        let file = |ending: &str| PathBuf::from(format!("{}{ending}", stem.display()));
        let (certificate, key, ca) = (file(".pem"), file("-key.pem"), folder.join("ca.pem"));
        if !certificate.exists() {
            let issued = self.ca.issue(role, "fra", node, validity).unwrap();
            issued.write(&folder).unwrap();
            std::fs::write(&ca, self.ca.certificate()).unwrap();
        }
        CredentialFiles { certificate, key, ca }
    }

    /// A manager that plays this part.
    pub async fn manager(&self, number: u128, fake: &Fake) -> Member {
        self.manager_at(number, fake, ([127, 0, 0, 1], 0).into()).await
    }

    pub async fn manager_at(&self, number: u128, fake: &Fake, bind: SocketAddr) -> Member {
        let files = self.files(Role::Manager, number, days(30));
        let key = GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(3)));
        let mut config = Config::new(self.path(&format!("data-{number}")), files, key);
        config.bind = bind;
        config.gates = Gates::None;
        config.pace = 0.2;
        let service = JobsServer::new(fake.clone())
            .max_decoding_message_size(wire::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(wire::MESSAGE_BYTES_MAX);
        config.routes = Some(tonic::service::Routes::new(service));
        Member::start(config).await.unwrap()
    }

    pub fn options(&self, managers: &[SocketAddr]) -> ClientOptions {
        let managers = managers.iter().map(ToString::to_string).collect();
        let mut options = ClientOptions::new(self.files(Role::Client, 900, days(30)), managers);
        options.patience = Duration::from_secs(20);
        options
    }

    pub async fn client(&self, managers: &[SocketAddr]) -> FleetClient {
        FleetClient::connect(self.options(managers)).await.unwrap()
    }
}

pub fn accepted() -> Result<proto::SubmitReply, Status> {
    use proto::submit_reply::{Accepted, Answer};
    let accepted = Accepted { job: wire::job_bytes(JOB), repeated: false };
    Ok(proto::SubmitReply { answer: Some(Answer::Accepted(accepted)) })
}

/// Nobody listens there.
pub fn nowhere() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
