//! Enrolment: whoever shows a join token is given a worker's certificate, if this manager has the
//! CA.
//!
//! The token has proved in the handshake that the CA has invited its bearer to this datacenter. The
//! worker keeps its key; only the public half comes here. Whoever is let in is counted and named in
//! the log.

use base::clock;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fence::NodeId;
use node::network::Caller;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use trust::{DevCa, Identity, Role, Utc, Validity};

use super::config::ManagerConfig;
use super::start::StartError;
use super::{Shared, lock, roster};
use crate::wire::proto;
use crate::wire::proto::enrolment_server::Enrolment;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// What makes workers.
pub struct CertificateIssuer {
    ca: DevCa,
    /// Whom this manager trusts; the workers are to trust the same.
    trusted: PathBuf,
    days: u32,
    recent: Mutex<Recent>,
}

impl CertificateIssuer {
    /// The one that the configuration asks for. `own` is this manager.
    pub fn open(config: &ManagerConfig, own: &Identity) -> Result<Option<Self>, StartError> {
        let Some(folder) = &config.ca else { return Ok(None) };
        let ca = DevCa::open(folder).map_err(|error| StartError::Ca(error.to_string()))?;
        let trusted = config.member.credentials.ca.clone();
        let bytes = std::fs::read(&trusted)
            .map_err(|error| StartError::Ca(format!("{}: {error}", trusted.display())))?;
        let is_ours = (ca.cluster(), ca.environment()) == (&own.cluster[..], &own.environment[..]);
        if !is_ours || !ca.is_among(&bytes) {
            return Err(StartError::Ca(format!(
                "the CA in {} is not one that this manager trusts ({}): its workers would be strangers here",
                folder.display(),
                trusted.display()
            )));
        }
        let recent = Mutex::new(Recent::new(config.enlisted_per_minute));
        Ok(Some(Self { ca, trusted, days: config.worker_days, recent }))
    }

    /// The certificate, and whom to trust.
    fn sign(
        &self,
        datacenter: &str,
        node: NodeId,
        public: &[u8],
    ) -> Result<(String, String), Status> {
        let trusted = std::fs::read_to_string(&self.trusted).map_err(|error| {
            Status::internal(format!("this manager cannot read its own CAs: {error}"))
        })?;
        if !self.ca.is_among(trusted.as_bytes()) {
            return Err(Status::failed_precondition(
                "this manager no longer trusts the CA that it was started with; start it with the new one",
            ));
        }
        let mut validity = Validity::starting(clock::unix_now().as_secs(), DAY * self.days);
        validity.not_after = validity.not_after.min(self.ca.validity().not_after);
        let issued = self.ca.issue_for(Role::Worker, datacenter, node, validity, public);
        let certificate = issued.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok((certificate, trusted))
    }
}

/// When the last ones were let in: a bound on what a stolen token can do in a minute, and on the
/// log.
struct Recent {
    max: usize,
    times: VecDeque<Instant>,
}

impl Recent {
    fn new(max: usize) -> Self {
        Self { max, times: VecDeque::new() }
    }

    /// Takes a place, or says when there will be one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        while self.times.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            self.times.pop_front();
        }
        if self.times.len() < self.max {
            self.times.push_back(now);
            return Ok(());
        }
        let first = self.times.front();
        Err(first.map_or(MINUTE, |first| MINUTE.saturating_sub(now.duration_since(*first))))
    }
}

/// A UUID (version 4).
fn draw_node() -> Result<NodeId, Status> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| Status::internal("this machine gives no random numbers"))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(NodeId(u128::from_be_bytes(bytes)))
}

pub struct Service {
    pub shared: Arc<Shared>,
    pub recruiter: Option<CertificateIssuer>,
}

/// Whose certificate was shown, if it is a token that is still good.
fn recruit(caller: &Caller) -> Result<&Identity, (&'static str, Status)> {
    let Some(peer) = &caller.peer else {
        return Err(("no_identity", Status::unauthenticated("who is calling?")));
    };
    let identity = &peer.identity;
    if identity.role != Role::Recruit {
        let why = format!(
            "only who shows a join token becomes a worker, and this is the certificate of a {}; \
             `volley certs token` makes one",
            identity.role
        );
        return Err(("not_a_recruit", Status::permission_denied(why)));
    }
    // The handshake has looked at the date; a connection may have outlived it.
    if peer.not_after < clock::unix_now().as_secs() {
        let why = format!("the join token expired at {}", Utc(peer.not_after));
        return Err(("token_expired", Status::permission_denied(why)));
    }
    Ok(identity)
}

impl Service {
    fn let_in(
        &self,
        identity: &Identity,
    ) -> Result<(&CertificateIssuer, NodeId), (&'static str, Status)> {
        let Some(recruiter) = &self.recruiter else {
            let why = format!(
                "this manager makes no workers: it was started without --ca. Join at one that was started with it, \
                 or issue a certificate (volley certs issue --ca CA --role worker --datacenter {} --out DIR) and \
                 start the worker with --certs DIR",
                identity.datacenter
            );
            return Err(("no_ca", Status::failed_precondition(why)));
        };
        if *self.shared.leaving.borrow() {
            return Err(("leaving", Status::unavailable("this manager is ending")));
        }
        let taken = lock(&recruiter.recent).take(Instant::now());
        if let Err(wait) = taken {
            let why = format!(
                "as many workers have joined here as may within a minute; again in {} s",
                wait.as_secs() + 1
            );
            return Err(("too_many_recruits", Status::resource_exhausted(why)));
        }
        Ok((recruiter, draw_node().map_err(|status| ("no_random", status))?))
    }
}

#[tonic::async_trait]
impl Enrolment for Service {
    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::EnrolReply>, Status> {
        let parts = self.shared.serving()?;
        let Some(caller) = request.extensions().get::<Caller>().cloned() else {
            return Err(Status::unauthenticated("who is calling?"));
        };
        let from = caller.address;
        let refuse = |(kind, status): (&'static str, Status)| {
            parts.member.count_refused(kind);
            tracing::warn!(target: "enrol", %from, kind, "no worker is made: {}", status.message());
            status
        };
        let token = recruit(&caller).map_err(refuse)?;
        let (recruiter, node) = self.let_in(token).map_err(refuse)?;
        let proto::EnrolRequest { public_key, cores } = request.into_inner();
        let signed = recruiter.sign(&token.datacenter, node, &public_key);
        let (certificate, ca) = signed.map_err(|status| refuse(("not_signed", status)))?;
        let key = parts.member.gossip_key().await;
        let key = key.map_err(|_| Status::unavailable("this manager is ending"))?;
        parts.member.count_enlisted();
        let token = token.node;
        tracing::info!(target: "enrol", %node, %token, %from, cores, "a worker has joined");
        Ok(Response::new(proto::EnrolReply {
            certificate,
            ca,
            gossip_key: Bytes::copy_from_slice(&key.0),
            node: Bytes::copy_from_slice(&node.0.to_be_bytes()),
            seeds: roster::seeds(&parts.member.view()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many in any minute, and room again when the first of them is a minute old.
    #[test]
    fn only_so_many_are_let_in_within_a_minute() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut recent = Recent::new(2);
        assert_eq!(recent.take(at(0)), Ok(()));
        assert_eq!(recent.take(at(50)), Ok(()));
        assert_eq!(recent.take(at(59)), Err(Duration::from_secs(1)));
        assert_eq!(recent.take(at(60)), Ok(()));
        assert_eq!(recent.take(at(61)), Err(Duration::from_secs(49)));
        assert_eq!(recent.times.len(), 2);
        assert_eq!(Recent::new(0).take(at(0)), Err(MINUTE));
    }
}
