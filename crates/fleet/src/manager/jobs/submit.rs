//! A job on its way in: its bundle is stored, then one entry of the ledger makes it.

use control::fleet::owner::{Policy, WhenFull};
use control::ledger::{BlobRef, CreateJob, IdempotencyKey, Rejection, Submission};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status, Streaming};

use super::{BLOB_WITHIN, READ_WITHIN, Service, WRITE_WITHIN, unavailable};
use crate::bundle::{BUNDLE_BYTES_MAX, Bundle};
use crate::wire::proto;
use crate::wire::{blob_in, blob_out, job_bytes};

/// Blobs that are looked for in one call; each may have to be asked for elsewhere.
const MISSING_MAX: usize = 1_000;

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

impl Service {
    fn free_of(&self, policy: &Policy) -> Result<(), Status> {
        let parts = self.0.serving()?;
        let workers = self.0.workers(&parts);
        let ready = workers.iter().filter(|worker| worker.takes_work());
        let total: u32 = ready.map(|worker| worker.total).sum();
        let needs = policy.cores_min.max(1);
        if policy.when_full == WhenFull::Refuse && total < needs {
            return Err(Status::failed_precondition(format!(
                "the plan needs {needs} cores, and the fleet has {total}; start more workers, or submit it with \
                 `--when-full queue`"
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
        for blob in request.into_inner().blobs {
            let known = parts.ledger.get_blob(&blob_in(&blob)?, READ_WITHIN).await;
            if known.is_err() {
                missing.push(blob);
            }
        }
        Ok(Response::new(proto::MissingReply { missing }))
    }

    pub(super) async fn put(
        &self,
        request: Request<Streaming<proto::Chunk>>,
    ) -> Result<Response<proto::BlobRef>, Status> {
        self.who(&request)?;
        let parts = self.0.serving()?;
        let mut stream = request.into_inner();
        let mut named: Option<BlobRef> = None;
        let mut content = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            if let Some(blob) = &chunk.blob {
                named = Some(blob_in(blob)?);
            }
            let limit = named.map_or(BUNDLE_BYTES_MAX as u64, |blob| blob.bytes);
            if (content.len() + chunk.content.len()) as u64 > limit.min(BUNDLE_BYTES_MAX as u64) {
                return Err(Status::resource_exhausted(format!(
                    "a job has at most {BUNDLE_BYTES_MAX} bytes with all its files"
                )));
            }
            content.extend_from_slice(&chunk.content);
        }
        let blob = parts.ledger.put_blob(content, BLOB_WITHIN).await;
        let blob = blob.map_err(|error| unavailable(&error))?;
        if named.is_some_and(|named| named != blob) {
            return Err(Status::data_loss("what arrived is not what was announced; send it again"));
        }
        Ok(Response::new(blob_out(&blob)))
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
        let content = parts.ledger.get_blob(&blob, BLOB_WITHIN).await;
        // Who has it may just be away: another manager, or the next try, may find it.
        let content = content.map_err(|error| {
            Status::unavailable(format!("the plan that was sent before is not found: {error}"))
        })?;
        let bundle = match Bundle::decode(&content) {
            Ok(bundle) => bundle,
            Err(error) => return Ok(Response::new(refuse("invalid_bundle", error.to_string()))),
        };
        if let Err(status) = self.free_of(&bundle.manifest.policy) {
            return Ok(Response::new(refuse("too_few_cores", status.message().to_owned())));
        }
        let mut fingerprint = Sha256::new();
        fingerprint.update((name.len() as u64).to_le_bytes());
        fingerprint.update(&name);
        fingerprint.update(blob.hash);
        let tenant = super::rights::tenant(who.as_ref());
        let fingerprint = fingerprint.finalize().into();
        let create =
            CreateJob { tenant, key, fingerprint, name, plan: blob, age_ms, rehearsal: false };
        let submission = parts.ledger.submit(create, WRITE_WITHIN).await;
        Ok(Response::new(reply(&submission)))
    }
}
