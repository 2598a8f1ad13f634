//! Why a client has no answer: who said what, and what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use fence::JobId;
use node::network::ConnectError;
use tonic::{Code, Status};
use trust::{CredentialsError, HandshakeError, Refusal};

/// What became of asking one manager.
#[derive(Debug)]
pub struct Failure {
    pub address: String,
    pub why: Why,
}

#[derive(Debug)]
pub enum Why {
    Connect(ConnectError),
    /// It closed the connection because of the certificate that we showed.
    RefusedUs {
        alert: String,
    },
    TimedOut {
        after: Duration,
    },
    /// It is there and cannot do it now: nobody leads, it is cut off from the others, it is ending.
    NotNow(String),
    /// The connection broke under the question.
    Broke(String),
}

impl Failure {
    /// Trying again changes nothing: one side does not accept the other.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match &self.why {
            Why::RefusedUs { .. } => true,
            Why::Connect(ConnectError::Handshake { error, .. }) => matches!(
                error,
                HandshakeError::Refused(_)
                    | HandshakeError::RefusedByPeer { .. }
                    | HandshakeError::Protocol { .. }
            ),
            _ => false,
        }
    }

    /// One side does not accept the other's certificate.
    fn is_refusal(&self) -> bool {
        let spoke = |error: &HandshakeError| !matches!(error, HandshakeError::Protocol { .. });
        match &self.why {
            Why::Connect(ConnectError::Handshake { error, .. }) => {
                self.is_lasting() && spoke(error)
            }
            _ => self.is_lasting(),
        }
    }

    fn refused(&self) -> Option<&Refusal> {
        match &self.why {
            Why::Connect(ConnectError::Handshake {
                error: HandshakeError::Refused(refusal),
                ..
            }) => Some(refusal),
            _ => None,
        }
    }

    /// Nothing is wrong with our certificate: somebody else is at that address.
    #[must_use]
    pub fn is_of_another_role(&self) -> bool {
        matches!(self.refused(), Some(Refusal::Role { .. }))
    }

    #[must_use]
    pub fn is_of_another_authority(&self) -> bool {
        matches!(self.refused(), Some(Refusal::UnknownAuthority))
    }

    /// The port before that of somebody who ended the connection at once: a manager's ledger does
    /// that.
    #[must_use]
    pub fn broken_port(&self) -> Option<u16> {
        let Why::Broke(_) = &self.why else { return None };
        self.address.rsplit_once(':')?.1.parse::<u16>().ok()?.checked_sub(1)
    }

    fn is_absence(&self) -> bool {
        matches!(
            &self.why,
            Why::Connect(ConnectError::Io { .. } | ConnectError::Resting { .. })
                | Why::TimedOut { .. }
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match &self.why {
            // These name the address themselves.
            Why::Connect(error) => error.fmt(f),
            Why::RefusedUs { alert } => write!(
                f,
                "{address} refuses this client's certificate (TLS alert {alert}); its log says why"
            ),
            Why::TimedOut { after } => write!(f, "{address}: no answer within {after:?}"),
            Why::NotNow(reason) => write!(f, "{address}: {reason}"),
            Why::Broke(reason) => {
                // Some libraries add where their manual is.
                let reason = reason.split(": https://").next().unwrap_or(reason);
                write!(f, "{address}: the connection broke ({reason})")
            }
        }
    }
}

/// Why something was not done.
#[derive(Debug)]
pub enum FleetError {
    Credentials(CredentialsError),
    NoManagers,
    /// Nobody could be asked, or nobody could do it. The last round over all managers.
    Nobody {
        failures: Vec<Failure>,
        tried_for: Duration,
    },
    /// A manager has answered, and said no.
    Refused {
        address: String,
        code: Code,
        message: String,
    },
    /// The job will never be accepted as it stands.
    Rejected {
        address: String,
        kind: String,
        reason: String,
    },
    /// The managers are there and take no jobs at the moment.
    NotAccepted {
        address: String,
        reason: String,
        tried_for: Duration,
    },
    /// It may have been accepted or not; the same submission with the same key has the answer.
    Undecided {
        job: Option<JobId>,
        reason: String,
        tried_for: Duration,
    },
    Malformed {
        address: String,
        what: String,
    },
    /// No job's id begins so.
    NoSuchJob {
        prefix: String,
    },
    Ambiguous {
        prefix: String,
        jobs: Vec<JobId>,
        /// So many that are not among these.
        more: u32,
    },
    /// Nothing runs that a factor could be applied to.
    NotScaled {
        why: String,
    },
    /// This machine gives no random numbers.
    Random,
}

impl FleetError {
    /// A manager knows who asks, and does not let them.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { code: Code::PermissionDenied, .. })
    }

    #[must_use]
    pub fn is_unknown_job(&self) -> bool {
        matches!(self, Self::NoSuchJob { .. } | Self::Refused { code: Code::NotFound, .. })
    }
}

/// As many as a person reads.
const SHOWN_MAX: usize = 8;

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials(error) => error.fmt(f),
            Self::NoManagers => f.write_str("no manager is named to ask"),
            Self::Nobody { failures, tried_for } => nobody(f, failures, *tried_for),
            Self::Refused { address, code: Code::Unimplemented, .. } => write!(
                f,
                "{address} does not know this question; it is of another version, or no manager of jobs"
            ),
            Self::Refused { address, message, .. } => write!(f, "{address}: {message}"),
            Self::Rejected { kind, reason, .. } if reason.is_empty() => {
                write!(f, "the job was rejected: {kind}")
            }
            Self::Rejected { reason, .. } => write!(f, "the job was rejected: {reason}"),
            Self::NotAccepted { address, reason, tried_for } => write!(
                f,
                "the job was not accepted within {tried_for:.0?}: {address}: {reason}; submit it again later"
            ),
            Self::Undecided { reason, tried_for, .. } => write!(
                f,
                "not known after {tried_for:.0?} whether the job was accepted ({reason}); submit it again as it is: \
                 it has the same key, and becomes one job"
            ),
            Self::Malformed { address, what } => {
                write!(
                    f,
                    "{address}: the answer cannot be read ({what}); is it of a newer version?"
                )
            }
            Self::NoSuchJob { prefix } => write!(
                f,
                "no job's id begins with `{prefix}`; it was never created here, or ended so long ago that it is \
                 forgotten"
            ),
            Self::Ambiguous { prefix, jobs, more } => {
                let count = jobs.len() as u64 + u64::from(*more);
                write!(f, "`{prefix}` is the beginning of {count} jobs:")?;
                jobs.iter().take(SHOWN_MAX).try_for_each(|job| write!(f, " {job}"))?;
                f.write_str("; write more of it")
            }
            Self::NotScaled { why } => f.write_str(why),
            Self::Random => f.write_str("this machine gives no random numbers"),
        }
    }
}

impl Error for FleetError {}

/// What each manager said, for somebody who waits.
pub(super) fn in_a_line(failures: &[Failure]) -> String {
    let shown: Vec<String> = failures.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    shown.join("; ")
}

/// Some answer that they cannot, and the others do not answer: waiting alone will not help.
fn too_few(failures: &[Failure]) -> Option<String> {
    let away: Vec<&str> =
        failures.iter().filter(|one| one.is_absence()).map(|one| &*one.address).collect();
    let (gone, all) = (away.len(), failures.len());
    (gone > 0 && (all - gone) * 2 <= all).then(|| {
        format!(
            "{gone} of {all} managers do not answer, and {} are needed: start {} again (`volley managers` shows more)",
            all / 2 + 1,
            away.join(", ")
        )
    })
}

fn nobody(f: &mut fmt::Formatter<'_>, failures: &[Failure], tried_for: Duration) -> fmt::Result {
    match failures {
        [] => f.write_str("no manager was asked")?,
        [one] => write!(f, "{one}")?,
        several => {
            write!(f, "none of {} managers can do it", several.len())?;
            for failure in several.iter().take(SHOWN_MAX) {
                write!(f, "\n  {failure}")?;
            }
        }
    }
    let mut rest = Vec::new();
    if tried_for >= Duration::from_secs(1) {
        rest.push(format!("tried for {:.0?}", Duration::from_secs(tried_for.as_secs())));
    }
    // The others say themselves what to do.
    if failures.iter().any(Failure::is_of_another_role) {
        // It says itself what to do.
    } else if failures.iter().all(Failure::is_refusal) {
        rest.push("the certificate has to be a client's of that cluster, and valid".to_owned());
    } else if failures.iter().all(Failure::is_absence) {
        rest.push("is a manager running there, and does the network let it through?".to_owned());
    } else if let Some(few) = too_few(failures) {
        rest.push(few);
    }
    match (rest.is_empty(), failures.len()) {
        (true, _) => Ok(()),
        (false, ..=1) => write!(f, "; {}", rest.join("; ")),
        (false, _) => write!(f, "\n{}", rest.join("; ")),
    }
}

/// What a status means for somebody who could ask another manager.
pub(super) enum Verdict {
    Elsewhere(Why),
    Final(Code, String),
}

pub(super) fn judge(status: &Status) -> Verdict {
    let message = || match status.message() {
        "" => status.code().to_string(),
        text => text.to_owned(),
    };
    if let Some(alert) = alert_in(status) {
        return Verdict::Elsewhere(Why::RefusedUs { alert });
    }
    // What tonic says of a connection that broke has a source; what a manager says has none.
    let broke = status.source().is_some();
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Aborted | Code::Internal
            if broke =>
        {
            Verdict::Elsewhere(Why::Broke(deepest(status)))
        }
        Code::Unavailable | Code::Aborted | Code::Cancelled | Code::DeadlineExceeded => {
            Verdict::Elsewhere(Why::NotNow(message()))
        }
        code => Verdict::Final(code, message()),
    }
}

/// With TLS 1.3 the other side's refusal of our certificate comes with the first bytes that we
/// read.
fn alert_in(status: &Status) -> Option<String> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(alert) = error.downcast_ref().and_then(trust::refused_by_peer) {
            return Some(alert);
        }
        source = error.source();
    }
    None
}

fn deepest(status: &Status) -> String {
    let mut deepest: &dyn Error = status;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
