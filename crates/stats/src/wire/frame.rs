//! One message of a stream: a stretch of its sequence, and what was counted in it.

use super::content::Content;
use serde::{Deserialize, Serialize};

use super::{Reader, Schema, WireError, Writer, open, read_content, seal, write_content};

/// A frame beyond this is not sent, and one received is refused.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
const KIND: u8 = 1;
/// Pages of folded values in one frame: 8 MiB.
const PAGES_MAX: usize = 4 << 10;

/// Which stream: one sequence of frames of one attempt at a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey {
    pub workflow: u32,
    pub shard: u32,
    pub attempt: u32,
    /// Drawn by the shard when it begins to count: equal ids mean the same numbers (BAR-35).
    pub id: u128,
}

/// A stretch of a stream. Its bounds never change once it was sent.
#[derive(Debug, Clone)]
pub struct Frame {
    pub key: StreamKey,
    /// Sequence numbers, from 1, both inclusive.
    pub first: u64,
    pub last: u64,
    /// The windows of schedule time in which this was counted, both inclusive. Nothing of windows
    /// up to the last one will follow.
    pub windows: (u64, u64),
    /// No frame follows.
    pub end: bool,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub enum Body {
    Content(Box<Content>),
    /// This stretch was shed (BAR-115).
    Gap(GapReason),
}

/// Why a stretch of a stream is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GapReason {
    /// One window alone was too large for a frame.
    TooLarge,
    /// Nobody took frames for so long that even joined ones no longer fit.
    NoRoom,
    /// A receiver had said that it keeps these, and asked for them again later.
    Forgotten,
    /// The thread that had counted them has gone without handing them over.
    NotHandedOver,
}

impl GapReason {
    const ALL: [GapReason; 4] =
        [GapReason::TooLarge, GapReason::NoRoom, GapReason::Forgotten, GapReason::NotHandedOver];

    pub fn name(self) -> &'static str {
        match self {
            GapReason::TooLarge => "too large for a frame",
            GapReason::NoRoom => "no room at the sender",
            GapReason::Forgotten => "lost by a receiver that had acknowledged them",
            GapReason::NotHandedOver => "the thread that counted them has gone",
        }
    }
}

impl Frame {
    pub fn encode(&self, schema: &Schema) -> Vec<u8> {
        seal(KIND, |writer| {
            writer.int(u64::from(schema.fingerprint()));
            write_key(writer, &self.key);
            writer.int(self.first);
            writer.int(self.last - self.first);
            writer.int(self.windows.0);
            writer.int(self.windows.1 - self.windows.0);
            writer.flag(self.end);
            match &self.body {
                Body::Content(content) => {
                    writer.byte(0);
                    write_content(writer, content);
                }
                Body::Gap(reason) => writer.byte(1 + *reason as u8),
            }
        })
    }

    /// Whose frame this is, without reading the rest: a receiver asks before it lets the frame
    /// count.
    pub fn key_of(bytes: &[u8]) -> Result<StreamKey, WireError> {
        let mut reader = Reader::new(open(KIND, bytes, FRAME_BYTES_MAX)?, PAGES_MAX);
        reader.within("a fingerprint", u64::from(u32::MAX))?;
        read_key(&mut reader)
    }

    pub fn decode(bytes: &[u8], schema: &Schema) -> Result<Frame, WireError> {
        let mut reader = Reader::new(open(KIND, bytes, FRAME_BYTES_MAX)?, PAGES_MAX);
        read_fingerprint(&mut reader, schema)?;
        let key = read_key(&mut reader)?;
        let (first, last) = read_range(&mut reader, 1)?;
        let windows = read_range(&mut reader, 0)?;
        let end = reader.flag()?;
        let body = match reader.byte()? {
            0 => Body::Content(Box::new(read_content(&mut reader, schema)?)),
            reason => match GapReason::ALL.get(usize::from(reason) - 1) {
                Some(reason) => Body::Gap(*reason),
                None => {
                    let (value, limit) = (u64::from(reason), GapReason::ALL.len() as u64);
                    return Err(WireError::OutOfRange { what: "a reason", value, limit });
                }
            },
        };
        reader.end()?;
        Ok(Frame { key, first, last, windows, end, body })
    }
}

pub(crate) fn write_key(writer: &mut Writer, key: &StreamKey) {
    writer.int(u64::from(key.workflow));
    writer.int(u64::from(key.shard));
    writer.int(u64::from(key.attempt));
    writer.id(key.id);
}

pub(crate) fn read_key(reader: &mut Reader<'_>) -> Result<StreamKey, WireError> {
    let limit = u64::from(u32::MAX);
    Ok(StreamKey {
        workflow: reader.within("a workflow", limit)? as u32,
        shard: reader.within("a shard", limit)? as u32,
        attempt: reader.within("an attempt", limit)? as u32,
        id: reader.id()?,
    })
}

pub(crate) fn read_fingerprint(reader: &mut Reader<'_>, schema: &Schema) -> Result<(), WireError> {
    let found = reader.within("a fingerprint", u64::from(u32::MAX))? as u32;
    let expected = schema.fingerprint();
    if found != expected {
        return Err(WireError::OtherSchema { found, expected });
    }
    Ok(())
}

fn read_range(reader: &mut Reader<'_>, least: u64) -> Result<(u64, u64), WireError> {
    // So far from the end of numbers that adding to them never overflows.
    let limit = u64::MAX >> 8;
    let first = reader.within("the start of a range", limit)?;
    let length = reader.within("the length of a range", limit)?;
    if first < least {
        return Err(WireError::OutOfRange { what: "a sequence number", value: first, limit });
    }
    Ok((first, first + length))
}
