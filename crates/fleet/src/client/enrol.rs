//! Becoming a worker with a join token: ask a manager, keep what it gives.
//!
//! ```text
//! FOLDER.part/{worker.pem, worker-key.pem, ca.pem, gossip.key, managers}   written and synced, then renamed:
//! FOLDER/...                                                               there is all of it, or nothing
//! ```
//!
//! The key is drawn here and never leaves. A crash at any point is harmless: the next start asks
//! again and becomes another node, and a certificate whose key was lost is of no use to anybody.

use base::clock;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fence::NodeId;
use node::network::{ChannelTiming, ConnectError, Limits, Mutual, Network, channel_on};
use node::secret::GossipKey;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use trust::{
    Credentials, CredentialsError, Expected, FreshKey, Identity, JoinToken, Keeper, KeyError,
    Policy, Role, create_private,
};

use super::Notice;
use super::calls::PAUSE_FIRST;
use super::error::{Failure, Verdict, Why, judge};
use crate::wire::proto;
use crate::wire::proto::enrolment_client::EnrolmentClient;

const CERTIFICATE_FILE: &str = "worker.pem";
const KEY_FILE: &str = "worker-key.pem";
const CA_FILE: &str = "ca.pem";
const GOSSIP_FILE: &str = "gossip.key";
const MANAGERS_FILE: &str = "managers";

/// The largest answer: a certificate, and CAs.
const REPLY_BYTES_MAX: usize = 512 << 10;
/// Managers that are remembered.
const SEEDS_MAX: usize = 64;
const PAUSE_LAST: Duration = Duration::from_secs(5);

/// What it takes to join.
#[derive(Clone)]
pub struct Enrolment {
    /// `host:port`, tried in turn.
    pub managers: Vec<String>,
    pub token: JoinToken,
    /// Where to keep the certificate. It must not be there, or be empty.
    pub folder: PathBuf,
    /// For the manager's log.
    pub cores: u32,
    /// For one connection, and for one answer. 5 s.
    pub deadline: Duration,
    /// How long it is tried while nobody is there. 60 s.
    pub patience: Duration,
    pub notice: Option<Notice>,
}

/// Who one has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    pub identity: Identity,
    /// When the certificate ends, in seconds since 1970.
    pub not_after: u64,
    /// The manager that did it.
    pub manager: String,
}

/// Why one is no worker.
#[derive(Debug)]
pub enum EnrolError {
    /// The token cannot be used any more.
    Token(CredentialsError),
    Key(KeyError),
    NoManagers,
    /// Nobody could be asked, or nobody could do it. The last round over all managers.
    Nobody {
        tried: Vec<(String, String)>,
        tried_for: Duration,
    },
    Refused {
        address: String,
        message: String,
    },
    BadAnswer {
        address: String,
        what: String,
    },
    /// Nothing was changed.
    Taken {
        folder: PathBuf,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for EnrolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(error) => write!(f, "the join token cannot be used: {error}"),
            Self::Key(error) => write!(f, "no key could be made: {error}"),
            Self::NoManagers => f.write_str("no manager is named to join at"),
            Self::Nobody { tried, tried_for } => {
                f.write_str("nobody has made this a worker")?;
                for (_, why) in tried {
                    write!(f, "\n  {why}")?;
                }
                write!(f, "\n(tried for {:.0} s)", tried_for.as_secs_f64())
            }
            Self::Refused { address, message } => write!(f, "{address}: {message}"),
            Self::BadAnswer { address, what } => write!(
                f,
                "{address}: the answer cannot be used ({what}); is the manager of another version?"
            ),
            Self::Taken { folder } => write!(
                f,
                "{} holds something else and is not written over; choose another folder",
                folder.display()
            ),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for EnrolError {}

/// Whether a folder holds what an enlistment has made. Then the token is no longer needed.
#[must_use]
pub fn is_enrolled(folder: &Path) -> bool {
    [CERTIFICATE_FILE, KEY_FILE].iter().all(|name| folder.join(name).exists())
}

/// The managers that were there when the folder was made; none if it was made by other means.
///
/// # Errors
/// If they cannot be read.
pub fn managers_in(folder: &Path) -> Result<Vec<String>, EnrolError> {
    let path = folder.join(MANAGERS_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().take(SEEDS_MAX).map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(EnrolError::Io { path, error }),
    }
}

/// Asks for a worker's certificate and keeps it, with all else that a worker needs, in the folder.
///
/// # Errors
/// With what was tried, and what to do.
pub async fn enrol(of: &Enrolment) -> Result<Enrolled, EnrolError> {
    check_free(&of.folder)?;
    let credentials =
        of.token.credentials(clock::unix_now().as_secs()).map_err(EnrolError::Token)?;
    let limits = Limits { handshake: of.deadline, ..Limits::default() };
    let network = Mutual::new(Keeper::new(credentials), Policy::default(), limits);
    let network: Arc<dyn Network> = Arc::new(network.map_err(EnrolError::Token)?);
    let key = FreshKey::draw().map_err(EnrolError::Key)?;
    let public = Bytes::copy_from_slice(&key.public);
    let (address, reply) = ask_in_turn(of, &network, public).await?;
    let checked = check(&of.token, &key, &reply);
    let (credentials, gossip) =
        checked.map_err(|what| EnrolError::BadAnswer { address: address.clone(), what })?;
    let gossip = format!("{}\n", gossip.to_text());
    let managers: String = seeds(&reply).iter().map(|seed| format!("{seed}\n")).collect();
    keep(
        &of.folder,
        &[
            (KEY_FILE, key.private.as_bytes()),
            (CERTIFICATE_FILE, reply.certificate.as_bytes()),
            (CA_FILE, reply.ca.as_bytes()),
            (GOSSIP_FILE, gossip.as_bytes()),
            (MANAGERS_FILE, managers.as_bytes()),
        ],
    )?;
    let (identity, not_after) = (credentials.identity().clone(), credentials.not_after());
    Ok(Enrolled { identity, not_after, manager: address })
}

/// What became of asking one manager.
struct Tried {
    why: String,
    /// Asking again changes nothing.
    lasting: bool,
}

async fn ask_in_turn(
    of: &Enrolment,
    network: &Arc<dyn Network>,
    public: Bytes,
) -> Result<(String, proto::EnrolReply), EnrolError> {
    if of.managers.is_empty() {
        return Err(EnrolError::NoManagers);
    }
    let begun = Instant::now();
    let mut pause = PAUSE_FIRST;
    loop {
        let mut tried = Vec::new();
        for address in &of.managers {
            match ask(of, network, address, public.clone()).await? {
                Ok(reply) => return Ok((address.clone(), reply)),
                Err(failure) => tried.push((address.clone(), failure)),
            }
        }
        let tried_for = begun.elapsed();
        if tried.iter().all(|(_, tried)| tried.lasting) || tried_for + pause > of.patience {
            let tried = tried.into_iter().map(|(address, tried)| (address, tried.why)).collect();
            return Err(EnrolError::Nobody { tried, tried_for });
        }
        if let (Some(notice), Some((_, first))) = (&of.notice, tried.first()) {
            notice(&format!("{}; trying again", first.why));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

/// One manager's answer; an error that no other manager would change ends it all.
async fn ask(
    of: &Enrolment,
    network: &Arc<dyn Network>,
    address: &str,
    public_key: Bytes,
) -> Result<Result<proto::EnrolReply, Tried>, EnrolError> {
    let failed = |why: Why| {
        let refused_us = matches!(why, Why::RefusedUs { .. });
        let failure = Failure { address: address.to_owned(), why };
        let why = if refused_us {
            format!(
                "{address} refuses the join token: it has expired, or is another cluster's; the manager's log says why"
            )
        } else if failure.is_of_another_authority() {
            let cluster = &of.token.identity().cluster;
            format!(
                "{address} does not belong to the cluster of this join token, `{cluster}`; `volley certs token` makes \
                 one with the CA of the cluster that is to be joined"
            )
        } else {
            failure.to_string()
        };
        Tried { why, lasting: failure.is_lasting() }
    };
    let timing = ChannelTiming { connect: of.deadline, ..ChannelTiming::paced(1.0) };
    let connecting = async {
        let expected = Expected { role: Role::Manager, node: None };
        let connection = network.connect(address, expected).await?;
        channel_on(connection, &timing).await.map_err(|error| ConnectError::Io {
            address: address.to_owned(),
            error: io::Error::other(error),
        })
    };
    let channel = match timeout(of.deadline, connecting).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => return Ok(Err(failed(Why::Connect(error)))),
        Err(_) => return Ok(Err(failed(Why::TimedOut { after: of.deadline }))),
    };
    let mut door = EnrolmentClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX);
    let request = proto::EnrolRequest { public_key, cores: of.cores };
    let status = match timeout(of.deadline, door.enrol(request)).await {
        Ok(Ok(reply)) => return Ok(Ok(reply.into_inner())),
        Ok(Err(status)) => status,
        Err(_) => return Ok(Err(failed(Why::TimedOut { after: of.deadline }))),
    };
    match judge(&status) {
        Verdict::Elsewhere(why) => Ok(Err(failed(why))),
        // Another manager may have the CA.
        Verdict::Final(Code::FailedPrecondition, message) => {
            Ok(Err(Tried { why: format!("{address}: {message}"), lasting: true }))
        }
        Verdict::Final(Code::Unimplemented, _) => {
            let why = format!(
                "{address} does not know join tokens; it is of another version, or no manager of jobs"
            );
            Ok(Err(Tried { why, lasting: true }))
        }
        Verdict::Final(Code::ResourceExhausted, message) => Ok(Err(failed(Why::NotNow(message)))),
        Verdict::Final(_, message) => {
            Err(EnrolError::Refused { address: address.to_owned(), message })
        }
    }
}

fn seeds(reply: &proto::EnrolReply) -> Vec<SocketAddr> {
    reply.seeds.iter().take(SEEDS_MAX).filter_map(|seed| seed.parse().ok()).collect()
}

/// Whether what came would work: for this key, for a worker, where the token is for.
fn check(
    token: &JoinToken,
    key: &FreshKey,
    reply: &proto::EnrolReply,
) -> Result<(Credentials, GossipKey), String> {
    let (certificate, ca) = (reply.certificate.as_bytes(), reply.ca.as_bytes());
    let loaded =
        Credentials::from_pem(certificate, key.private.as_bytes(), ca, clock::unix_now().as_secs());
    let loaded = loaded.map_err(|error| error.to_string())?;
    let node: [u8; 16] = reply.node[..].try_into().map_err(|_| "no node id".to_owned())?;
    let wanted = Identity {
        role: Role::Worker,
        node: NodeId(u128::from_be_bytes(node)),
        ..token.identity().clone()
    };
    if *loaded.identity() != wanted {
        return Err(format!("it is for {}, and {wanted} was asked for", loaded.identity()));
    }
    let gossip = reply.gossip_key[..].try_into().map(GossipKey);
    Ok((loaded, gossip.map_err(|_| "a gossip key has 32 bytes".to_owned())?))
}

/// Before anybody is asked, so that no certificate is made in vain.
fn check_free(folder: &Path) -> Result<(), EnrolError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(EnrolError::Taken { folder: folder.to_path_buf() }),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(EnrolError::Io { path: folder.to_path_buf(), error }),
    }
}

/// All of the files, private and synced, or none.
fn keep(folder: &Path, files: &[(&str, &[u8])]) -> Result<(), EnrolError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| EnrolError::Io { path, error }
    };
    let mut part = folder.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let private = |recursive: bool| {
        let mut builder = DirBuilder::new();
        builder.recursive(recursive).mode(0o700);
        builder
    };
    private(true).create(parent).map_err(at(parent))?;
    match fs::remove_dir_all(&part) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(&part)(error)),
    }
    private(false).create(&part).map_err(at(&part))?;
    for (name, bytes) in files {
        let path = part.join(name);
        create_private(&path, bytes).map_err(at(&path))?;
    }
    let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
    sync(&part).map_err(at(&part))?;
    fs::rename(&part, folder).map_err(at(folder))?;
    sync(parent).map_err(at(parent))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FILES: [(&str, &[u8]); 2] = [(KEY_FILE, b"key"), (CERTIFICATE_FILE, b"certificate")];

    /// A crash before the renaming leaves nothing that would be taken for a certificate, and the
    /// next try succeeds.
    #[test]
    fn a_folder_is_there_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("data/certs");
        let part = temp.path().join("data/certs.part");
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join(KEY_FILE), "of a try that crashed").unwrap();
        assert!(!is_enrolled(&folder));
        keep(&folder, &FILES).unwrap();
        assert!(is_enrolled(&folder) && !part.exists());
        assert_eq!(fs::read(folder.join(KEY_FILE)).unwrap(), b"key");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&folder.join(KEY_FILE))), (0o700, 0o600));
        assert_eq!(managers_in(&folder).unwrap(), Vec::<String>::new());
    }

    /// What is there is never written over.
    #[test]
    fn a_folder_that_holds_something_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("certs");
        assert!(check_free(&folder).is_ok());
        fs::create_dir(&folder).unwrap();
        assert!(check_free(&folder).is_ok());
        fs::write(folder.join("note"), "mine").unwrap();
        assert!(matches!(check_free(&folder), Err(EnrolError::Taken { .. })));
        assert!(matches!(keep(&folder, &FILES), Err(EnrolError::Io { .. })));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}
