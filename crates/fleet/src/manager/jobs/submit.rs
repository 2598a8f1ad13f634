//! A job on its way in: its bundle is stored, then one entry of the ledger makes it.

use std::time::Duration;

use control::owner::{Manifest, WhenFull};
use control::queue;
use fence::NodeId;
use futures_util::StreamExt;
use ledger::blobs::BlobError;
use ledger::{CopyError, ReadLevel};
use ledger_state::{BlobRef, CreateJob, IdempotencyKey, Rejection, State, Submission};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status, Streaming};

use super::{BLOB_WITHIN, READ_WITHIN, Service, WRITE_WITHIN, unavailable};
use crate::bundle::{BUNDLE_BYTES_MAX, BundleHead, HEAD_BYTES_MAX};
use crate::manager::Parts;
use crate::manager::transfers::{Transfers, UPLOAD_HOLDS};
use crate::wire::proto;
use crate::wire::{CHUNK_BYTES, blob_in, blob_out, job_bytes};

/// Blobs that are looked for in one call.
const MISSING_MAX: usize = 1_000;
/// Jobs of one client that wait for their first cores.
pub(super) const WAITING_PER_CLIENT_MAX: usize = 1_000;
/// When a client that has too many may come again.
const RETRY_AFTER_MS: u64 = 2_000;
/// From one chunk of an upload to the next.
const CHUNK_WITHIN: Duration = Duration::from_secs(10);
/// For an upload, and for every so many bytes of it a second more: no network that carries load is
/// slower.
const UPLOAD_WITHIN: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: u64 = 128 << 10;
/// No network between managers is slower.
const SPREAD_BYTES_PER_SECOND: u64 = 4 << 20;

fn rejected(rejection: &Rejection) -> proto::submit_reply::Rejected {
    let (kind, reason) = match rejection {
        Rejection::KeyReused { job } => (
            "key_reused",
            format!("the key was used for another submission, job {job}; take a new key"),
        ),
        Rejection::InvalidKey(problem) => ("invalid_key", problem.to_string()),
        Rejection::TooLate { age_ms, retention_ms } => (
            "too_late",
            format!(
                "the first try was {} s ago, and jobs are remembered for {} s: it may have run; take a new key",
                age_ms / 1_000,
                retention_ms / 1_000
            ),
        ),
        Rejection::Invalid(problem) => ("invalid", problem.to_string()),
        Rejection::IdTaken { job } => ("id_taken", format!("another key has the id {job}")),
    };
    proto::submit_reply::Rejected { kind: kind.to_owned(), reason }
}

fn reply(submission: &Submission) -> proto::SubmitReply {
    use proto::submit_reply::{Accepted, Answer, Pending, RetryLater};
    let answer = match submission {
        Submission::Accepted { job, duplicate, .. } => {
            Answer::Accepted(Accepted { job: job_bytes(*job), repeated: *duplicate })
        }
        Submission::Rejected(rejection) => Answer::Rejected(rejected(rejection)),
        Submission::Pending { job } => Answer::Pending(Pending { job: job_bytes(*job) }),
        Submission::RetryLater { after_ms, why } => {
            Answer::Retry(RetryLater { after_ms: *after_ms, reason: why.to_string() })
        }
    };
    proto::SubmitReply { answer: Some(answer) }
}

fn refuse(kind: &str, reason: String) -> proto::SubmitReply {
    let rejected = proto::submit_reply::Rejected { kind: kind.to_owned(), reason };
    proto::SubmitReply { answer: Some(proto::submit_reply::Answer::Rejected(rejected)) }
}

/// The next chunk. A client that falls silent, or sends drop by drop, is not waited for.
async fn next(
    stream: &mut Streaming<proto::Chunk>,
    until: Instant,
) -> Result<Option<proto::Chunk>, Status> {
    let by = until.min(Instant::now() + CHUNK_WITHIN);
    timeout_at(by, stream.next())
        .await
        .map_err(|_| Status::deadline_exceeded("the upload is too slow; it was given up"))?
        .transpose()
}

fn not_stored(error: &BlobError) -> Status {
    match error {
        BlobError::TooLarge { .. } | BlobError::Mismatch { .. } => {
            Status::data_loss("what arrived is not what was announced; send it again")
        }
        error => Status::unavailable(error.to_string()),
    }
}

/// Verifies a blob without holding it.
async fn read_all(ledger: &ledger::Node, blob: &BlobRef) -> Result<(), Status> {
    let reader = ledger.blob_reader(blob, BLOB_WITHIN).await;
    let mut reader = reader.map_err(|error| unavailable(&error))?;
    while reader.next(CHUNK_BYTES).await.map_err(|error| unavailable(&error))?.is_some() {}
    Ok(())
}

/// An upload that has left nothing here does not count against its client.
struct Failed<'a> {
    transfers: &'a Transfers,
    client: Option<NodeId>,
    blob: BlobRef,
    stored: bool,
}

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.filter(|_| !self.stored) {
            self.transfers.upload_failed(client, &self.blob);
        }
    }
}

impl Service {
    /// Tells a client to come later that has as many jobs waiting as it may. One that was accepted
    /// before is not new.
    async fn too_many(
        &self,
        parts: &Parts,
        tenant: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<proto::SubmitReply>, Status> {
        let known = key.job_id(tenant);
        let count = |state: &State| match state.job(known) {
            Some(_) => 0,
            None => queue::waiting_of(state, tenant),
        };
        let read = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, count).await;
        let waiting = read.map_err(|error| unavailable(&error))?.value;
        if waiting < WAITING_PER_CLIENT_MAX {
            return Ok(None);
        }
        parts.member.count_refused("jobs_waiting");
        let reason = format!(
            "{waiting} jobs of this client wait for cores already, and at most {WAITING_PER_CLIENT_MAX} may; submit it \
             again when some of them have begun, or cancel some"
        );
        let later = proto::submit_reply::RetryLater { after_ms: RETRY_AFTER_MS, reason };
        let answer = Some(proto::submit_reply::Answer::Retry(later));
        Ok(Some(proto::SubmitReply { answer }))
    }

    fn free_of(&self, manifest: &Manifest) -> Result<(), Status> {
        let parts = self.0.serving()?;
        let workers = self.0.workers(&parts);
        let ready = workers.iter().filter(|worker| worker.takes_work());
        let total: u32 = ready.map(|worker| worker.total).sum();
        let needs = manifest.cores_min();
        if manifest.policy.when_full == WhenFull::Refuse && total < needs {
            return Err(Status::failed_precondition(format!(
                "{} {needs} cores, and the fleet has {total}; start more workers, or submit it with \
                 `--when-full queue`",
                manifest.who_needs(needs)
            )));
        }
        Ok(())
    }

    pub(super) async fn missing(
        &self,
        request: Request<proto::MissingRequest>,
    ) -> Result<Response<proto::MissingReply>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let asked = request.get_ref().blobs.len();
        if asked > MISSING_MAX {
            return Err(Status::invalid_argument(format!(
                "{asked} blobs are asked for at once; at most {MISSING_MAX} are looked for"
            )));
        }
        let mut missing = Vec::new();
        // By look-up: what is not here is sent again, which costs less than reading it all to find
        // out.
        for blob in request.into_inner().blobs {
            if !parts.ledger.has_blob(&blob_in(&blob)?) {
                missing.push(blob);
            }
        }
        Ok(Response::new(proto::MissingReply { missing }))
    }

    pub(super) async fn put(
        &self,
        request: Request<Streaming<proto::Chunk>>,
    ) -> Result<Response<proto::BlobRef>, Status> {
        let client = self.who(&request)?.map(|who| who.node);
        let parts = self.0.serving()?;
        let mut stream = request.into_inner();
        let begun = Instant::now();
        let Some(first) = next(&mut stream, begun + CHUNK_WITHIN).await? else {
            return Err(Status::invalid_argument("nothing was sent"));
        };
        let Some(named) = &first.blob else {
            return Err(Status::invalid_argument("the first chunk has to name the blob"));
        };
        let blob = blob_in(named)?;
        if blob.bytes > BUNDLE_BYTES_MAX as u64 {
            return Err(Status::resource_exhausted(format!(
                "a job has at most {BUNDLE_BYTES_MAX} bytes with all its files"
            )));
        }
        let transfers = &self.0.transfers;
        let _room = transfers.room(&parts, client, UPLOAD_HOLDS).await?;
        if let Some(client) = client {
            let in_use = parts.ledger.read(ReadLevel::Eventual, READ_WITHIN, State::blobs_in_use);
            let in_use = in_use.await.map_err(|error| unavailable(&error))?.value;
            let begun =
                transfers.begin_upload(client, blob, Instant::now(), |blob| in_use.contains(blob));
            begun.inspect_err(|_| parts.member.count_refused("uploads_full"))?;
        }
        // Until it is stored: also if the client goes away, and this is dropped.
        let mut failed = Failed { transfers, client, blob, stored: false };
        let mut writer = parts.ledger.begin_blob(blob).await.map_err(|error| not_stored(&error))?;
        writer.write(first.content).await.map_err(|error| not_stored(&error))?;
        let until = begun + UPLOAD_WITHIN + Duration::from_secs(blob.bytes / BYTES_PER_SECOND_MIN);
        while let Some(chunk) = next(&mut stream, until).await? {
            writer.write(chunk.content).await.map_err(|error| not_stored(&error))?;
        }
        let within = BLOB_WITHIN + Duration::from_secs(blob.bytes / SPREAD_BYTES_PER_SECOND);
        // From here on there may be something, however the rest goes.
        failed.stored = true;
        let stored = parts.ledger.put_written(writer, within).await;
        let stored = stored.map_err(|error| match error {
            CopyError::Here(error) => {
                failed.stored = false;
                not_stored(&error)
            }
            error => unavailable(&error),
        })?;
        Ok(Response::new(blob_out(&stored)))
    }

    pub(super) async fn submit(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::SubmitReply>, Status> {
        let who = self.who(&request)?;
        let parts = self.0.serving()?;
        let proto::SubmitRequest { key, name, bundle, age_ms } = request.into_inner();
        let key: IdempotencyKey = match key.parse() {
            Ok(key) => key,
            Err(error) => return Ok(Response::new(refuse("invalid_key", format!("{error}")))),
        };
        let bundle = bundle.ok_or_else(|| Status::invalid_argument("no plan is named"))?;
        let blob = blob_in(&bundle)?;
        if blob.bytes > BUNDLE_BYTES_MAX as u64 {
            let why = format!("a job has at most {BUNDLE_BYTES_MAX} bytes with all its files");
            return Ok(Response::new(refuse("invalid_bundle", why)));
        }
        let client = who.as_ref().map(|who| who.node);
        let room = self.0.transfers.room(&parts, client, HEAD_BYTES_MAX as u64).await?;
        let first = parts.ledger.blob_head(&blob, HEAD_BYTES_MAX, BLOB_WITHIN).await;
        // Who has it may just be away: another manager, or the next try, may find it.
        let first = first.map_err(|error| {
            Status::unavailable(format!("the plan that was sent before is not found: {error}"))
        })?;
        let bundle = match BundleHead::decode(&first) {
            Ok(bundle) => bundle,
            Err(error) => {
                // The file here may be damaged, which is not the client's fault.
                read_all(&parts.ledger, &blob).await?;
                return Ok(Response::new(refuse("invalid_bundle", error.to_string())));
            }
        };
        drop((first, room));
        if let Err(status) = self.free_of(&bundle.manifest) {
            return Ok(Response::new(refuse("too_few_cores", status.message().to_owned())));
        }
        let mut fingerprint = Sha256::new();
        fingerprint.update((name.len() as u64).to_le_bytes());
        fingerprint.update(&name);
        fingerprint.update(blob.hash);
        let tenant = super::rights::tenant(who.as_ref());
        if let Some(later) = self.too_many(&parts, &tenant, &key).await? {
            return Ok(Response::new(later));
        }
        let fingerprint = fingerprint.finalize().into();
        let create =
            CreateJob { tenant, key, fingerprint, name, plan: blob, age_ms, rehearsal: false };
        let submission = parts.ledger.submit(create, WRITE_WITHIN).await;
        Ok(Response::new(reply(&submission)))
    }
}
