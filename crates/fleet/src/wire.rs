//! The wire of the fleet: generated messages, and how ids, blobs and sealed messages travel in
//! them.

use bytes::Bytes;
use control::codec::{self, CodecError, Message};
use fence::JobId;
use ledger_state::BlobRef;
use node::network::Caller;
use tonic::{Code, Request, Status};
use trust::{Identity, Role};

/// What `build.rs` makes of `proto/volley/fleet/v1/fleet.proto`.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod proto {
    tonic::include_proto!("volley.fleet.v1");
}

mod states;

/// The largest message of a service of nodes: a sealed one, with what is around it.
pub const MESSAGE_BYTES_MAX: usize = codec::MESSAGE_BYTES_MAX + 64;
/// The largest message of a client: a chunk of a blob. A list in it costs many times its bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Content of one chunk of a blob.
pub const CHUNK_BYTES: usize = 256 << 10;

// What a message may need is what the protocol has come to: a node that says its minor has said
// both.
const _: () = assert!(trust::PROTOCOL.minor as usize + 1 == codec::CONTRACT as usize);

/// A message as [`codec`] writes it.
///
/// Beside a question that a manager passes on: whose it is.
pub const FOR_OWNER: &str = "volley-for-owner";

/// # Errors
/// If it is larger than anybody takes.
pub fn seal<M: Message>(message: &M) -> Result<proto::Envelope, Status> {
    let bytes = codec::encode(message).map_err(|error| refuse(&error))?;
    Ok(proto::Envelope { sealed: bytes.into() })
}

/// # Errors
/// If the bytes need a later contract, are too many, or are not what is expected.
pub fn unseal<M: Message>(sealed: &proto::Envelope) -> Result<M, Status> {
    codec::decode(&sealed.sealed).map_err(|error| refuse(&error))
}

/// What a sender is told; the name travels beside the words.
fn refuse(error: &CodecError) -> Status {
    let code = match error {
        CodecError::FutureVersion { .. } => Code::FailedPrecondition,
        CodecError::Malformed { .. } => Code::InvalidArgument,
        CodecError::TooLarge { .. } => Code::OutOfRange,
    };
    ledger::wire::named(Status::new(code, error.to_string()), error.name())
}

/// Whether somebody of an earlier version has refused a message because it cannot know what is in
/// it.
#[must_use]
pub fn is_too_new(status: &Status) -> bool {
    ledger::wire::refusal_name(status) == Some("future_version")
}

#[must_use]
pub fn job_bytes(job: JobId) -> Bytes {
    Bytes::copy_from_slice(&job.0.to_be_bytes())
}

/// # Errors
/// If it is no id.
pub fn job_from(bytes: &[u8]) -> Result<JobId, Status> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| {
        Status::invalid_argument(format!("a job's id has 16 bytes, not {}", bytes.len()))
    })?;
    Ok(JobId(u128::from_be_bytes(bytes)))
}

#[must_use]
pub fn blob_out(blob: &BlobRef) -> proto::BlobRef {
    proto::BlobRef { hash: Bytes::copy_from_slice(&blob.hash), bytes: blob.bytes }
}

/// # Errors
/// If it is no reference.
pub fn blob_in(blob: &proto::BlobRef) -> Result<BlobRef, Status> {
    let hash: [u8; 32] = blob.hash[..].try_into().map_err(|_| {
        Status::invalid_argument(format!("a blob's hash has 32 bytes, not {}", blob.hash.len()))
    })?;
    Ok(BlobRef { hash, bytes: blob.bytes })
}

/// Who calls, if it is one of these roles. `None` only on a simulated network, which has no
/// certificates.
///
/// # Errors
/// If it is somebody else.
pub fn caller<T>(request: &Request<T>, roles: &[Role]) -> Result<Option<Identity>, Status> {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return Err(Status::unauthenticated("who is calling?"));
    };
    let Some(peer) = &caller.peer else { return Ok(None) };
    let identity = &peer.identity;
    if !roles.contains(&identity.role) {
        let why = format!("this is not for a {}", identity.role);
        return Err(Status::permission_denied(why));
    }
    Ok(Some(identity.clone()))
}
