//! Why a target did not start, in words that say what to change.

use std::fmt;
use std::io;
use std::net::SocketAddr;

#[derive(Debug)]
pub enum Error {
    /// A setting that cannot be meant: what it was and what would be accepted.
    Config(String),
    /// The address is taken, not ours, or not allowed.
    Listen { address: SocketAddr, source: io::Error },
    /// The system refused a thread or an event queue.
    Start(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(problem) => f.write_str(problem),
            Error::Listen { address, source } => {
                write!(f, "cannot listen on {address}: {source}")?;
                if source.kind() == io::ErrorKind::AddrInUse {
                    f.write_str("; choose another port, or port 0 for any free one")?;
                }
                Ok(())
            }
            Error::Start(source) => write!(f, "cannot start the target's threads: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Config(_) => None,
            Error::Listen { source, .. } | Error::Start(source) => Some(source),
        }
    }
}
