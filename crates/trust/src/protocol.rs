//! Which contract a node speaks, and with whom that works.
//!
//! `MAJOR.MINOR`. Nodes of one major understand each other: what a later minor adds, an earlier one
//! passes over or refuses by name, message by message. Nodes of different majors do not talk at
//! all, and both say so.

use std::fmt;
use std::str::FromStr;

use crate::admit::Refusal;

/// A version of the contract between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol {
    pub major: u16,
    pub minor: u16,
}

/// What this program speaks.
pub const PROTOCOL: Protocol = Protocol { major: 1, minor: 0 };

impl Protocol {
    /// What nodes spoke that do not say it.
    pub const UNSAID: Self = Self { major: 1, minor: 0 };

    /// Whether this node can talk to one that speaks `theirs`.
    ///
    /// # Errors
    /// If they differ in their major.
    pub fn accept(self, theirs: Self) -> Result<(), Refusal> {
        match self.major == theirs.major {
            true => Ok(()),
            false => Err(Refusal::Protocol { ours: self, theirs }),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError;

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a protocol is called MAJOR.MINOR")
    }
}

impl std::error::Error for ProtocolError {}

impl FromStr for Protocol {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, ProtocolError> {
        let (major, minor) = text.split_once('.').ok_or(ProtocolError)?;
        let number = |text: &str| text.parse().map_err(|_| ProtocolError);
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CORE-105: the major decides, and the text says which side has to move.
    #[test]
    fn one_major_talks_and_two_do_not() {
        let of = |major, minor| Protocol { major, minor };
        assert_eq!(of(1, 0).accept(of(1, 2)), Ok(()));
        assert_eq!(of(1, 2).accept(of(1, 0)), Ok(()));
        let newer = of(1, 2).accept(of(2, 0)).unwrap_err();
        assert_eq!(newer.kind(), "protocol_too_new");
        let text = newer.to_string();
        assert!(text.contains("2.0") && text.contains("bring this node up"), "{text}");
        let older = of(2, 0).accept(of(1, 9)).unwrap_err();
        assert_eq!(older.kind(), "protocol_too_old");
        assert!(older.to_string().contains("bring the peer up"), "{older}");
        assert_eq!(PROTOCOL.accept(Protocol::UNSAID), Ok(()), "nodes from before it was said");
    }

    #[test]
    fn a_protocol_is_read_as_it_is_written() {
        let one = Protocol { major: 3, minor: 41 };
        assert_eq!(one.to_string().parse(), Ok(one));
        for bad in ["", "1", "1.", ".1", "1.2.3", "-1.0", "1.70000", "one.two"] {
            assert_eq!(bad.parse::<Protocol>(), Err(ProtocolError), "{bad}");
        }
    }
}
