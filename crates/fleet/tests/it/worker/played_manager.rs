//! The manager's side of a worker, as the test wants it: grants or is silent, takes statistics,
//! hands out blobs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::message::{
    EndReport, FrameBatch, FrameBatchAck, RenewRequest, Renewal, ReportAck, WorkerReport,
};
use fence::GroupId;
use fleet::wire::proto::worker_reports_server::{WorkerReports, WorkerReportsServer};
use fleet::wire::proto::{BlobRef, Chunk, Envelope, GroupReply, GroupRequest};
use fleet::wire::{CHUNK_BYTES, MESSAGE_BYTES_MAX, blob_in, caller, seal, unseal};
use futures_util::Stream;
use sha2::{Digest, Sha256};
use stats::merge::{Merge, Settings};
use stats::wire::Schema;
use tonic::{Request, Response, Status};
use trust::Role;

pub struct Book {
    pub tells: Vec<WorkerReport>,
    pub blobs: BTreeMap<[u8; 32], Vec<u8>>,
    pub schema: Option<Schema>,
    pub merge: Option<Merge>,
    /// Whether what was applied is said to be durable.
    pub durable: bool,
    pub posts: u64,
    pub renewals: u64,
    begun: Instant,
}

pub struct PlayedManager {
    pub book: Mutex<Book>,
    /// Nothing is answered.
    pub silent: AtomicBool,
    /// Renewals are refused.
    pub refuses: AtomicBool,
}

impl PlayedManager {
    pub fn new() -> Arc<Self> {
        let book = Book {
            tells: Vec::new(),
            blobs: BTreeMap::new(),
            schema: None,
            merge: None,
            durable: true,
            posts: 0,
            renewals: 0,
            begun: Instant::now(),
        };
        Arc::new(Self {
            book: Mutex::new(book),
            silent: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
        })
    }

    pub fn server(self: &Arc<Self>) -> WorkerReportsServer<AtDesk> {
        WorkerReportsServer::new(AtDesk(Arc::clone(self)))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn put(&self, bytes: Vec<u8>) -> ledger_state::BlobRef {
        let hash: [u8; 32] = Sha256::digest(&bytes).into();
        let blob = ledger_state::BlobRef { hash, bytes: bytes.len() as u64 };
        self.book.lock().unwrap().blobs.insert(hash, bytes);
        blob
    }

    pub fn reports(&self) -> Vec<EndReport> {
        let book = self.book.lock().unwrap();
        let ended = |tell: &WorkerReport| match tell {
            WorkerReport::Ended(report) => Some((**report).clone()),
            _ => None,
        };
        book.tells.iter().filter_map(ended).collect()
    }

    async fn pause(&self) {
        while self.silent.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub struct AtDesk(Arc<PlayedManager>);

#[tonic::async_trait]
impl WorkerReports for AtDesk {
    type GetBlobStream = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

    async fn report(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        caller(&request, &[Role::Worker])?;
        self.0.pause().await;
        let tell: WorkerReport = unseal(request.get_ref())?;
        self.0.book.lock().unwrap().tells.push(tell);
        Ok(Response::new(seal(&ReportAck::Taken)?))
    }

    async fn push_frames(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        self.0.pause().await;
        let frames: FrameBatch = unseal(request.get_ref())?;
        let mut book = self.0.book.lock().unwrap();
        let book = &mut *book;
        book.posts += 1;
        let now = book.begun.elapsed();
        let Some(schema) = &book.schema else {
            return Ok(Response::new(seal(&FrameBatchAck::UnknownJob)?));
        };
        let merge =
            book.merge.get_or_insert_with(|| Merge::new(schema.clone(), &[], Settings::default()));
        let resume = frames
            .open
            .iter()
            .map(|key| (*key, merge.open(*key, now).map_err(|error| error.to_string())));
        let resume = resume.collect();
        let (mut acks, mut refused) = (Vec::new(), Vec::new());
        for bytes in &frames.frames {
            match merge.receive(bytes, now) {
                Ok(ack) => acks.push((ack.key, ack.applied_through, ack.durable_through)),
                Err(error) => panic!("a frame was not taken: {error}"),
            }
        }
        if book.durable {
            let checkpoint = merge.checkpoint(&[]);
            for ack in merge.stored(checkpoint.number) {
                acks.push((ack.key, ack.applied_through, ack.durable_through));
            }
        }
        refused.clear();
        Ok(Response::new(seal(&FrameBatchAck::Taken { resume, acks, refused })?))
    }

    async fn renew(&self, request: Request<Envelope>) -> Result<Response<Envelope>, Status> {
        self.0.pause().await;
        let renew: RenewRequest = unseal(request.get_ref())?;
        self.0.book.lock().unwrap().renewals += 1;
        let answer = |(shard, attempt)| {
            let renewal = match self.0.refuses.load(Ordering::Relaxed) {
                true => Renewal::Refused { why: "revoked".to_owned() },
                false => Renewal::Granted { units_end: None, steering: None },
            };
            (shard, attempt, renewal)
        };
        let answers: Vec<_> = renew.attempts.into_iter().map(answer).collect();
        Ok(Response::new(seal(&answers)?))
    }

    async fn group(&self, request: Request<GroupRequest>) -> Result<Response<GroupReply>, Status> {
        caller(&request, &[Role::Worker])?;
        let members = vec![ledger::wire::node_bytes(crate::worker::harness::id(1))];
        let GroupId { cluster, generation } = crate::worker::harness::GROUP;
        Ok(Response::new(GroupReply { cluster, generation, members }))
    }

    async fn get_blob(
        &self,
        request: Request<BlobRef>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let blob = blob_in(request.get_ref())?;
        let bytes = self.0.book.lock().unwrap().blobs.get(&blob.hash).cloned();
        let bytes = bytes.ok_or_else(|| Status::not_found("no such blob"))?;
        let chunks: Vec<_> = bytes
            .chunks(CHUNK_BYTES)
            .map(|content| Ok(Chunk { blob: None, content: content.to_vec().into() }))
            .collect();
        Ok(Response::new(Box::pin(futures_util::stream::iter(chunks))))
    }
}
