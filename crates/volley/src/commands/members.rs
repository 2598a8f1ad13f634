//! `volley debug members ...`: who is in a cluster, as one member sees it, and the keys of its
//! gossip.

mod keys;
mod table;
mod watch;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::{BootId, NodeId};
use membership::{Cause, State};
use node::client::{ClientError, ClientOptions, MembersClient};
use node::config::CredentialFiles;
use node::network::ConnectError;
use report::ExitCode;
use trust::Role;

pub use self::table::brief_age;
use super::certs::folder;
use crate::cli::{AgentMembersArgs, MemberPlace, MembersAction, StateName};
use crate::failure::{Failure, Threads, block_on, told};
use crate::{cluster, print};

/// Where no cluster of `volley up` is known.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7500";
const DEFAULT_CERTS: &str = "certs";

pub fn members(args: &AgentMembersArgs) -> ExitCode {
    match &args.action {
        Some(MembersAction::Keys(keys)) => run(keys::keys(&args.at, keys, args.json)),
        None if args.watch => run(watch::watch(args)),
        None => run(show(args)),
    }
}

fn run(work: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    told(block_on(Threads::This, work))
}

async fn show(args: &AgentMembersArgs) -> Result<ExitCode, Failure> {
    let access = ClusterAccess::open(&args.at)?;
    let client =
        access.connect(&access.address, args.at.role).await.map_err(|e| access.explain(&e))?;
    let snapshot = client.members().await.map_err(|error| access.explain(&error))?;
    let states = wanted(&args.states);
    if args.json {
        print::line(&table::json(&snapshot, &states).to_string());
    } else {
        let colour = table::Colour::of_stdout();
        print::out(&table::text(&snapshot, &states, args.wide, colour, usize::MAX));
    }
    Ok(ExitCode::Passed)
}

/// The states to show; none given means all.
fn wanted(names: &[StateName]) -> Vec<State> {
    let state = |name: &StateName| match name {
        StateName::Unconfirmed => State::Unconfirmed,
        StateName::Confirmed => State::Confirmed,
        StateName::Suspect => State::Suspect,
        StateName::Dead => State::Dead,
        StateName::Left => State::Left,
    };
    if names.is_empty() { State::ALL.to_vec() } else { names.iter().map(state).collect() }
}

/// How this command gets in: with which certificate, and how long it waits.
struct ClusterAccess {
    credentials: CredentialFiles,
    certs: String,
    address: String,
    deadline: Duration,
}

impl ClusterAccess {
    fn open(place: &MemberPlace) -> Result<ClusterAccess, Failure> {
        let known = match (&place.certs, &place.address) {
            (Some(_), Some(_)) => None,
            _ => cluster::find()?.map(|(_, file)| file),
        };
        let of_cluster = known.as_ref().map(|file| file.certs.clone());
        let certs = place.certs.clone().or(of_cluster).unwrap_or_else(|| DEFAULT_CERTS.into());
        let of_cluster = known.and_then(|file| file.managers.into_iter().next());
        let address = place.address.clone().or(of_cluster);
        let address = address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        let files = folder::find(&certs).map_err(|problem| {
            Failure::failed(format!(
                "{problem}\n(--certs says which folder; it is the certificate of whoever asks)"
            ))
        })?;
        Ok(ClusterAccess {
            credentials: CredentialFiles {
                certificate: files.certificate,
                key: files.key,
                ca: files.ca,
            },
            certs: certs.display().to_string(),
            address,
            deadline: place.timeout,
        })
    }

    async fn connect(&self, address: &str, role: Role) -> Result<MembersClient, ClientError> {
        MembersClient::connect(ClientOptions {
            credentials: self.credentials.clone(),
            address: address.to_owned(),
            role,
            deadline: self.deadline,
        })
        .await
    }

    /// What went wrong, and what to do about it.
    fn explain(&self, error: &ClientError) -> Failure {
        let ClusterAccess { certs, address, .. } = self;
        Failure::failed(match error {
            ClientError::Credentials(_) => {
                format!("{certs}: {error}; `volley certs check {certs}` says more")
            }
            ClientError::Connect(why @ ConnectError::Io { .. }) => {
                format!("{why}; is a member running there? (--address says where)")
            }
            // Without a role in common, or without a CA in common, each side refuses the other.
            ClientError::Connect(why) => {
                format!(
                    "{why}; the certificate in {certs} has to be of that cluster (--certs, --role)"
                )
            }
            ClientError::TimedOut { .. } => format!(
                "{address}: {error}; is the address right, and does the network let it through?"
            ),
            ClientError::Refused(_) | ClientError::Malformed(_) | ClientError::CutOff => {
                format!("{address}: {error}")
            }
        })
    }
}

/// One step of one member, in words.
pub struct Step {
    pub role: Role,
    pub node: NodeId,
    pub address: Option<SocketAddr>,
    pub boot: BootId,
    pub from: Option<State>,
    pub to: Option<State>,
    pub cause: Cause,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::Direct => "seen",
            Cause::Gossip => "told by others",
            Cause::Leave => "it said goodbye",
            Cause::NewLife => "a new life of it",
            Cause::NeverConfirmed => "it never answered",
            Cause::Reaped => "gone for so long",
        };
        let id: String = self.node.to_string().chars().take(8).collect();
        write!(f, "{} {id}", self.role)?;
        if let Some(address) = self.address {
            write!(f, " at {address}")?;
        }
        let from = self.from.map_or("unknown", State::name);
        let to = self.to.map_or("forgotten", State::name);
        write!(f, " (boot {}): {from} -> {to}, {cause}", self.boot)
    }
}

/// UTC, because the machines of a cluster may be anywhere.
pub fn time_of_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}", now / 3600, now / 60 % 60, now % 60)
}
