//! How a record and the head of a segment look on the disk. No I/O here.
//!
//! All numbers are little-endian. A record:
//!
//! | Offset | Size | Field |
//! |---|---|---|
//! | 0 | 4 | CRC32C over the record's place and bytes 4..40+length |
//! | 4 | 2 | magic `WR` |
//! | 6 | 1 | version, 1 |
//! | 7 | 1 | kind, the caller's |
//! | 8 | 4 | payload length |
//! | 12 | 4 | HLC, logical part |
//! | 16 | 8 | LSN, dense, from 1 |
//! | 24 | 8 | HLC, wall part in milliseconds |
//! | 32 | 8 | highest LSN known to be durable when this record was written |
//! | 40 | length | payload, may be empty |
//!
//! The place (log id, segment id, offset, 8 bytes each) goes into the checksum but not to the disk:
//! a record that is read from where it was not written does not verify, whichever way it came
//! there. Nothing is padded and nothing is left out of the checksum, so there is no bit whose
//! change could go unnoticed.
//!
//! The durable LSN is how recovery tells a torn tail from damage: what lies above every watermark
//! was never acknowledged.
//!
//! A segment begins with:
//!
//! | Offset | Size | Field |
//! |---|---|---|
//! | 0 | 8 | magic `VOLLYWAL` |
//! | 8 | 2 | format version, 1 |
//! | 10 | 2 | zero |
//! | 12 | 4 | CRC32C over all other bytes of the head |
//! | 16 | 16 | node id |
//! | 32 | 8 | log id |
//! | 40 | 8 | incarnation: how often the log had been opened |
//! | 48 | 8 | segment id |
//! | 56 | 8 | LSN of the first record |
//! | 64 | 4 | largest payload in this segment |
//! | 68 | 4 | zero |
//!
//! Behind the last record of the active segment are zeros. A sealed segment ends with its last
//! record.

use fence::{Hlc, NodeId};

pub(crate) const FRAME_BYTES: usize = 40;
pub(crate) const HEAD_BYTES: usize = 72;
pub(crate) const FORMAT: u16 = 1;
const RECORD_VERSION: u8 = 1;
const RECORD_MAGIC: [u8; 2] = *b"WR";
const SEGMENT_MAGIC: [u8; 8] = *b"VOLLYWAL";

/// Where a record stands; part of its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub log: u64,
    pub segment: u64,
    pub offset: u64,
}

impl Place {
    fn checksum(self, bytes: &[u8]) -> u32 {
        let mut place = [0; 24];
        place[..8].copy_from_slice(&self.log.to_le_bytes());
        place[8..16].copy_from_slice(&self.segment.to_le_bytes());
        place[16..].copy_from_slice(&self.offset.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&place), bytes)
    }
}

/// The fields before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub checksum: u32,
    pub kind: u8,
    pub length: u32,
    pub lsn: u64,
    pub wall_ms: u64,
    pub logical: u32,
    pub durable: u64,
}

/// Why bytes are not the record that is expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The file ends before the frame does.
    CutHead {
        have: u64,
    },
    /// The file ends before the payload does.
    CutPayload {
        need: u64,
        have: u64,
    },
    /// Not the mark of a record.
    Magic([u8; 2]),
    Checksum {
        stored: u32,
        computed: u32,
    },
    TooLong {
        length: u32,
        limit: u32,
    },
    /// It verifies, but it was made by a later program.
    Version(u8),
    /// It verifies, but it is another record.
    Sequence {
        expected: u64,
        found: u64,
    },
    /// Zeros where a record was expected.
    Missing,
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CutHead { have } => write!(f, "only {have} of {FRAME_BYTES} header bytes"),
            Self::CutPayload { need, have } => write!(f, "only {have} of {need} payload bytes"),
            Self::Magic([a, b]) => write!(f, "no record begins with {a:02x}{b:02x}"),
            Self::Checksum { stored, computed } => {
                write!(f, "checksum {stored:08x} stored, {computed:08x} computed")
            }
            Self::TooLong { length, limit } => {
                write!(f, "length {length} is over the limit of {limit}")
            }
            Self::Version(version) => write!(f, "record version {version}"),
            Self::Sequence { expected, found } => {
                write!(f, "LSN {found} where {expected} was expected")
            }
            Self::Missing => f.write_str("there is nothing"),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Appends a record to `out`. The checksum in `frame` is ignored and the right one returned.
pub(crate) fn encode(out: &mut Vec<u8>, place: Place, frame: &Frame, payload: &[u8]) -> u32 {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&RECORD_MAGIC);
    out.push(RECORD_VERSION);
    out.push(frame.kind);
    out.extend_from_slice(&frame.length.to_le_bytes());
    out.extend_from_slice(&frame.logical.to_le_bytes());
    out.extend_from_slice(&frame.lsn.to_le_bytes());
    out.extend_from_slice(&frame.wall_ms.to_le_bytes());
    out.extend_from_slice(&frame.durable.to_le_bytes());
    out.extend_from_slice(payload);
    let checksum = place.checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Reads the fields of a record's head and checks what can be checked without the payload. `left`
/// is the number of bytes from the record's beginning to the end of the file. `head` holds
/// `FRAME_BYTES` of them.
pub(crate) fn decode_head(head: &[u8], left: u64, limit: u32) -> Result<Frame, Flaw> {
    let magic = [head[4], head[5]];
    if magic != RECORD_MAGIC {
        return Err(Flaw::Magic(magic));
    }
    let frame = Frame {
        checksum: u32_at(head, 0),
        kind: head[7],
        length: u32_at(head, 8),
        logical: u32_at(head, 12),
        lsn: u64_at(head, 16),
        wall_ms: u64_at(head, 24),
        durable: u64_at(head, 32),
    };
    if frame.length > limit {
        return Err(Flaw::TooLong { length: frame.length, limit });
    }
    let have = left - FRAME_BYTES as u64;
    if u64::from(frame.length) > have {
        return Err(Flaw::CutPayload { need: u64::from(frame.length), have });
    }
    Ok(frame)
}

/// Checks a whole record; `bytes` is exactly the record.
pub(crate) fn verify(place: Place, frame: &Frame, bytes: &[u8]) -> Result<(), Flaw> {
    let computed = place.checksum(&bytes[4..]);
    if computed != frame.checksum {
        return Err(Flaw::Checksum { stored: frame.checksum, computed });
    }
    match bytes[6] {
        RECORD_VERSION => Ok(()),
        later => Err(Flaw::Version(later)),
    }
}

/// Whether a record could begin here. Cheap, for looking behind a hole.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes[4..6] == RECORD_MAGIC && bytes[6] == RECORD_VERSION
}

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub node: NodeId,
    pub log: u64,
    pub incarnation: u64,
    pub segment: u64,
    pub first_lsn: u64,
    pub limit: u32,
}

/// What the first bytes of a segment file turn out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadFlaw {
    /// Not of this program.
    Foreign(String),
    /// Of a later one.
    Version(u16),
    /// As a crash leaves it that comes between making the file and flushing its head, or damaged.
    Unfinished(String),
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.node.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.log.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.segment.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.first_lsn.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.limit.to_le_bytes());
        let checksum = sealed_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the head from the beginning of a file; `bytes` may be shorter if the file is.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeadFlaw> {
        check_envelope(bytes, &SEGMENT_MAGIC, HEAD_BYTES)?;
        let mut node = [0; 16];
        node.copy_from_slice(&bytes[16..32]);
        Ok(Self {
            node: NodeId(u128::from_le_bytes(node)),
            log: u64_at(bytes, 32),
            incarnation: u64_at(bytes, 40),
            segment: u64_at(bytes, 48),
            first_lsn: u64_at(bytes, 56),
            limit: u32_at(bytes, 64),
        })
    }
}

/// The checksum of a block that has its own at 12..16.
pub(crate) fn sealed_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// Checks magic, version and checksum of a head. A crash leaves the right bytes, or zeros in place
/// of any of them; it never leaves other bytes in the magic or a higher version, so those are
/// somebody else's.
pub(crate) fn check_envelope(bytes: &[u8], magic: &[u8; 8], size: usize) -> Result<(), HeadFlaw> {
    let seen = &bytes[..bytes.len().min(8)];
    if seen.iter().zip(magic).any(|(byte, right)| byte != right && *byte != 0) {
        return Err(HeadFlaw::Foreign(format!("it begins with {seen:02x?}")));
    }
    if bytes.len() < size {
        return Err(HeadFlaw::Unfinished(format!("only {} of {size} header bytes", bytes.len())));
    }
    if seen != magic {
        return Err(HeadFlaw::Unfinished("its header is incomplete".into()));
    }
    let version = u16_at(bytes, 8);
    if version > FORMAT {
        return Err(HeadFlaw::Version(version));
    }
    let (stored, computed) = (u32_at(bytes, 12), sealed_checksum(bytes));
    if stored != computed || version == 0 {
        let why = format!("header checksum {stored:08x} stored, {computed:08x} computed");
        return Err(HeadFlaw::Unfinished(why));
    }
    Ok(())
}

/// The stamp in a frame; the node comes from the segment's head.
pub(crate) fn stamp(frame: &Frame, node: NodeId) -> Hlc {
    Hlc { wall_ms: frame.wall_ms, logical: frame.logical, node }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { log: 3, segment: 7, offset: 4_096 };

    fn record(payload: &[u8]) -> (Vec<u8>, Frame) {
        let frame = Frame {
            checksum: 0,
            kind: 9,
            length: payload.len() as u32,
            lsn: 1 << 40,
            wall_ms: 1 << 50,
            logical: 77,
            durable: (1 << 40) - 1,
        };
        let mut bytes = Vec::new();
        let checksum = encode(&mut bytes, PLACE, &frame, payload);
        (bytes, Frame { checksum, ..frame })
    }

    fn decode(place: Place, bytes: &[u8]) -> Result<Frame, Flaw> {
        let frame = decode_head(&bytes[..FRAME_BYTES], bytes.len() as u64, 1_000)?;
        verify(place, &frame, &bytes[..FRAME_BYTES + frame.length as usize])?;
        Ok(frame)
    }

    /// WAL-15, LEDG-44.
    #[test]
    fn a_record_reads_back_as_it_was_written() {
        for payload in [&b""[..], b"x", &[0; 1_000]] {
            let (bytes, frame) = record(payload);
            assert_eq!(bytes.len(), FRAME_BYTES + payload.len());
            assert_eq!(decode(PLACE, &bytes), Ok(frame));
            assert_eq!(&bytes[FRAME_BYTES..], payload);
        }
    }

    /// A misdirected read or write is always detected: wherever else the same bytes stand, they do
    /// not verify.
    #[test]
    fn a_record_verifies_only_in_its_place() {
        let (bytes, _) = record(b"here and nowhere else");
        let mut elsewhere = vec![Place { log: 4, ..PLACE }, Place { segment: 8, ..PLACE }];
        let all = (0..64 << 10).filter(|offset| *offset != PLACE.offset);
        elsewhere.extend(all.map(|offset| Place { offset, ..PLACE }));
        for place in elsewhere {
            assert!(matches!(decode(place, &bytes), Err(Flaw::Checksum { .. })), "{place:?}");
        }
    }

    /// WAL-18.
    #[test]
    fn every_flipped_bit_of_a_record_is_detected() {
        let (bytes, _) = record(b"payload");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(PLACE, &bytes).is_err(), "bit {bit}");
        }
    }

    /// WAL-16: what is wrong is said, and a length is compared before it is used.
    #[test]
    fn lengths_are_compared_with_the_limit_and_the_file() {
        let (bytes, _) = record(&[1; 100]);
        let head = &bytes[..FRAME_BYTES];
        assert_eq!(decode_head(head, 140, 99), Err(Flaw::TooLong { length: 100, limit: 99 }));
        assert_eq!(decode_head(head, 139, 100), Err(Flaw::CutPayload { need: 100, have: 99 }));
        assert!(decode_head(head, 140, 100).is_ok());
    }

    /// A record of a later version that verifies is named as such.
    #[test]
    fn a_later_version_is_named() {
        let (mut bytes, _) = record(b"");
        bytes[6] = 2;
        let checksum = PLACE.checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(decode(PLACE, &bytes), Err(Flaw::Version(2)));
    }

    /// LEDG-47: the head of a segment, whole, unfinished, foreign, and of a later version.
    #[test]
    fn the_head_of_a_segment_is_known_from_an_unfinished_or_foreign_one() {
        let head = Head {
            node: NodeId(1 << 100),
            log: 2,
            incarnation: 3,
            segment: 4,
            first_lsn: 5,
            limit: 6,
        };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Ok(head));
        for cut in 0..HEAD_BYTES {
            let unfinished = |flaw| matches!(flaw, Err(HeadFlaw::Unfinished(_)));
            assert!(unfinished(Head::decode(&bytes[..cut])), "cut at {cut}");
            // Either side of a write that was made in two parts may be missing.
            let (mut first, mut second) = ([0; HEAD_BYTES], bytes);
            first[..cut].copy_from_slice(&bytes[..cut]);
            second[..cut].fill(0);
            let same = |half: &[u8; HEAD_BYTES]| *half == bytes;
            assert!(same(&first) || unfinished(Head::decode(&first)), "only the first {cut}");
            assert!(same(&second) || unfinished(Head::decode(&second)), "all but the first {cut}");
        }
        let mut other = bytes;
        other[0] = b'X';
        assert!(matches!(Head::decode(&other), Err(HeadFlaw::Foreign(_))));
        let mut later = bytes;
        later[8] = 2;
        assert_eq!(Head::decode(&later), Err(HeadFlaw::Version(2)));
    }
}
