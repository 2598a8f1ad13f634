//! The wire of the fleet: generated messages, and how ids, blobs and sealed values travel in them.

use bytes::Bytes;
use control::ledger::BlobRef;
use fence::JobId;
use node::network::Caller;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Status};
use trust::{Identity, Role};

/// What `build.rs` makes of `proto/volley/fleet/v1/fleet.proto`.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod proto {
    tonic::include_proto!("volley.fleet.v1");
}

/// The largest message of a service of the fleet: a batch of frames, or an end report with its tail.
pub const MESSAGE_BYTES_MAX: usize = 20 << 20;
/// Content of one chunk of a blob.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Version byte and postcard.
///
/// # Errors
/// If it cannot be written, which is our own mistake.
pub fn seal<T: Serialize>(value: &T) -> Result<proto::Sealed, Status> {
    let sealed = ledger::wire::seal(value).map_err(|error| Status::internal(error.to_string()))?;
    Ok(proto::Sealed { sealed })
}

/// # Errors
/// If the bytes are of a later version, or not what is expected.
pub fn unseal<T: DeserializeOwned>(sealed: &proto::Sealed) -> Result<T, Status> {
    ledger::wire::unseal(&sealed.sealed)
        .map_err(|refusal| Status::invalid_argument(format!("{}: {refusal}", refusal.name())))
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

/// Who calls, if it is one of these roles. `None` only on a simulated network, which has no certificates.
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
