//! One record of the log, in words.

use std::fmt;

use fence::{Hlc, JobId, ShardKey};
use ledger_state::{Command, Proposal, RequestId};

use crate::store::record::{Base, Content, Members, Record, Stored};
use crate::store::{Ballot, Position};

/// A record and what it says.
#[derive(Clone, Debug)]
pub struct RecordLine {
    pub lsn: u64,
    pub hlc: Hlc,
    /// Bytes of the payload.
    pub bytes: usize,
    pub words: RecordWords,
}

#[derive(Clone, Debug)]
pub enum RecordWords {
    Entry {
        position: Position,
        content: ContentLine,
    },
    Truncate {
        from: u64,
    },
    Base {
        purged: Option<Position>,
        vote: Option<Ballot>,
        committed: Option<Position>,
    },
    Vote(Ballot),
    Committed(Position),
    /// Verified, and not understood by this program.
    Unknown {
        kind: u8,
        why: String,
    },
}

#[derive(Clone, Debug)]
pub enum ContentLine {
    Blank,
    Commands(Vec<CommandLine>),
    Members { voters: Vec<String>, learners: Vec<String> },
    Unreadable(String),
}

/// A command: who asks, for what, about which job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub request: RequestId,
    pub name: &'static str,
    pub job: Option<JobId>,
    pub shard: Option<ShardKey>,
}

impl CommandLine {
    fn new(proposal: &Proposal) -> Self {
        let (name, job, shard) = match &proposal.command {
            Command::OpenSession => ("OpenSession", None, None),
            Command::CreateJob(create) => {
                ("CreateJob", Some(create.key.job_id(&create.tenant)), None)
            }
            Command::ClaimJob { job, .. } => ("ClaimJob", Some(*job), None),
            Command::ReleaseJob { job, .. } => ("ReleaseJob", Some(*job), None),
            Command::StartAttempt { shard, .. } => ("StartAttempt", None, Some(*shard)),
            Command::RevokeAttempt { shard, .. } => ("RevokeAttempt", None, Some(*shard)),
            Command::EndAttempt { shard, .. } => ("EndAttempt", None, Some(*shard)),
            Command::CommitContext { job, .. } => ("CommitContext", Some(*job), None),
            Command::CancelJob { job, .. } => ("CancelJob", Some(*job), None),
            Command::FinishJob { job, .. } => ("FinishJob", Some(*job), None),
            Command::Advance { .. } => ("Advance", None, None),
            Command::Provision { job, .. } => ("Provision", Some(*job), None),
            Command::BeginLoad { job, .. } => ("BeginLoad", Some(*job), None),
            Command::GrantUnits { job, .. } => ("GrantUnits", Some(*job), None),
            Command::SetLimits { .. } => ("SetLimits", None, None),
            Command::GrantRows { shard, .. } => ("GrantRows", None, Some(*shard)),
            Command::StopJob { job, .. } => ("StopJob", Some(*job), None),
            Command::SteerJob { job, .. } => ("SteerJob", Some(*job), None),
            Command::ExtendJob { job, .. } => ("ExtendJob", Some(*job), None),
            Command::RecordResult { job, .. } => ("RecordResult", Some(*job), None),
            Command::MakeRoom { .. } => ("MakeRoom", None, None),
        };
        let job = job.or(shard.map(|shard| shard.job));
        Self { request: proposal.request, name, job, shard }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match (self.shard, self.job) {
            (Some(shard), _) => write!(f, " {shard}"),
            (None, Some(job)) => write!(f, " {job}"),
            (None, None) => Ok(()),
        }
    }
}

impl RecordLine {
    /// Decodes a record; whatever is in it, this does not fail.
    #[must_use]
    pub fn new(record: &wal::Record) -> Self {
        let words = match Record::from_wal(record.kind, &record.payload) {
            Ok(decoded) => RecordWords::new(decoded),
            Err(error) => RecordWords::Unknown { kind: record.kind, why: error.to_string() },
        };
        Self { lsn: record.lsn, hlc: record.hlc, bytes: record.payload.len(), words }
    }
}

impl RecordWords {
    fn new(record: Record) -> Self {
        match record {
            Record::Entry(stored) => {
                Self::Entry { position: stored.position, content: ContentLine::new(&stored) }
            }
            Record::Truncate { from } => Self::Truncate { from },
            Record::Base(Base { purged, vote, committed }) => {
                Self::Base { purged, vote, committed }
            }
            Record::Vote(ballot) => Self::Vote(ballot),
            Record::Committed(position) => Self::Committed(position),
        }
    }

    /// The kind, in one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Entry { .. } => "entry",
            Self::Truncate { .. } => "truncate",
            Self::Base { .. } => "base",
            Self::Vote(_) => "vote",
            Self::Committed(_) => "committed",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl ContentLine {
    fn new(stored: &Stored) -> Self {
        match stored.decode() {
            Ok(Content::Blank) => Self::Blank,
            Ok(Content::Commands(batch)) => {
                Self::Commands(batch.proposals.iter().map(CommandLine::new).collect())
            }
            Ok(Content::Members(members)) => Self::members(&members),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    fn members(members: &Members) -> Self {
        let votes = |id| members.configs.iter().any(|config| config.contains(id));
        let (mut voters, mut learners) = (Vec::new(), Vec::new());
        for (id, member) in &members.nodes {
            let line = format!("{id} at {member}");
            if votes(id) { voters.push(line) } else { learners.push(line) }
        }
        Self::Members { voters, learners }
    }
}

impl fmt::Display for ContentLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("blank"),
            Self::Commands(commands) => {
                for (position, command) in commands.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{command}")?;
                }
                Ok(())
            }
            Self::Members { voters, learners } => {
                write!(f, "members: {}", voters.join(", "))?;
                if !learners.is_empty() {
                    write!(f, "; learners: {}", learners.join(", "))?;
                }
                Ok(())
            }
            Self::Unreadable(why) => write!(f, "unreadable: {why}"),
        }
    }
}

impl fmt::Display for RecordWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { position, content } => write!(f, "entry {position}: {content}"),
            Self::Truncate { from } => write!(f, "entries from {from} on were replaced"),
            Self::Base { purged, vote, committed } => {
                f.write_str("base:")?;
                if let Some(purged) = purged {
                    write!(f, " entries up to {purged} are in a snapshot,")?;
                }
                if let Some(vote) = vote {
                    write!(f, " {vote},")?;
                }
                match committed {
                    Some(committed) => write!(f, " committed up to {committed}"),
                    None => f.write_str(" nothing committed"),
                }
            }
            Self::Vote(ballot) => ballot.fmt(f),
            Self::Committed(position) => write!(f, "committed up to {position}"),
            Self::Unknown { kind, why } => write!(f, "record of kind {kind}: {why}"),
        }
    }
}

impl fmt::Display for RecordLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lsn, hlc, bytes, words } = self;
        write!(f, "{lsn}  {hlc}  {bytes} bytes  {words}")
    }
}
