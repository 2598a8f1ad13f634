//! Walking over the records of one segment, each verified before it is shown.
//!
//! Recovery and readers share this, so that what one accepts the other does. It reads in chunks; a
//! record that crosses a border is completed by the next chunk, and no length is believed before it
//! was compared with the file and the limit.

use std::io;

use crate::disk::DiskFile;
use crate::frame::{self, FRAME_BYTES, Flaw, Frame, Place};

pub(crate) const CHUNK: usize = 64 << 10;

/// What stands at a position.
#[derive(Debug)]
pub(crate) enum Step {
    /// A verified record; its payload is `Scanner::payload`.
    Record {
        at: u64,
        frame: Frame,
    },
    /// The file ends here, or zeros begin.
    End,
    Bad(Flaw),
}

pub(crate) struct Scanner {
    file: Box<dyn DiskFile>,
    /// Length of the file; a live one may grow, see `refresh`.
    pub len: u64,
    log: u64,
    segment: u64,
    limit: u32,
    /// Where the next record begins.
    pub offset: u64,
    buffer: Vec<u8>,
    /// How much of the buffer holds bytes of the file.
    filled: usize,
    /// Position of the buffer's first byte in the file.
    start: u64,
    payload: std::ops::Range<usize>,
    pub bytes_read: u64,
}

impl Scanner {
    pub fn new(file: Box<dyn DiskFile>, place: Place, limit: u32) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self {
            file,
            len,
            log: place.log,
            segment: place.segment,
            limit,
            offset: place.offset,
            buffer: Vec::new(),
            filled: 0,
            start: place.offset,
            payload: 0..0,
            bytes_read: 0,
        })
    }

    /// The payload of the record that was shown last.
    pub fn payload(&self) -> &[u8] {
        &self.buffer[self.payload.clone()]
    }

    /// All bytes of the record that was shown last.
    pub fn record(&self) -> &[u8] {
        &self.buffer[self.payload.start - FRAME_BYTES..self.payload.end]
    }

    /// Forgets what was read ahead: the end of a live file may have been read before it was
    /// written.
    pub fn refresh(&mut self) -> io::Result<()> {
        self.len = self.file.len()?;
        self.filled = 0;
        self.start = self.offset;
        Ok(())
    }

    /// Makes `need` bytes from `offset` available, or fewer if the file ends before. The caller has
    /// bounded `need`.
    fn fill(&mut self, need: usize) -> io::Result<&[u8]> {
        let mut skip = (self.offset - self.start) as usize;
        if self.filled < skip + need {
            let have = self.filled.saturating_sub(skip);
            let size = need.max(CHUNK);
            if self.buffer.len() < size {
                let mut larger = vec![0; size];
                larger[..have].copy_from_slice(&self.buffer[self.filled - have..self.filled]);
                self.buffer = larger;
            } else {
                self.buffer.copy_within(self.filled - have..self.filled, 0);
            }
            self.start = self.offset;
            skip = 0;
            let from = self.offset + have as u64;
            let want = self.len.saturating_sub(from).min((size - have) as u64) as usize;
            let read = self.file.read_full_at(&mut self.buffer[have..have + want], from)?;
            self.filled = have + read;
            self.bytes_read += read as u64;
        }
        let end = self.filled.min(skip + need);
        Ok(&self.buffer[skip.min(end)..end])
    }

    /// Looks at what stands at `offset`, and moves behind it if it is a record.
    pub fn step(&mut self) -> io::Result<Step> {
        let left = self.len.saturating_sub(self.offset);
        let head = self.fill(FRAME_BYTES)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Step::End);
        }
        if head.len() < FRAME_BYTES {
            return Ok(Step::Bad(Flaw::CutHead { have: head.len() as u64 }));
        }
        let limit = self.limit;
        let frame = match frame::decode_head(self.fill(FRAME_BYTES)?, left, limit) {
            Ok(frame) => frame,
            Err(flaw) => return Ok(Step::Bad(flaw)),
        };
        let size = FRAME_BYTES + frame.length as usize;
        let place = Place { log: self.log, segment: self.segment, offset: self.offset };
        let bytes = self.fill(size)?;
        if bytes.len() < size {
            let (need, have) = (frame.length.into(), (bytes.len() - FRAME_BYTES) as u64);
            return Ok(Step::Bad(Flaw::CutPayload { need, have }));
        }
        if let Err(flaw) = frame::verify(place, &frame, bytes) {
            return Ok(Step::Bad(flaw));
        }
        let at = self.offset;
        let begin = (at - self.start) as usize;
        self.payload = begin + FRAME_BYTES..begin + size;
        self.offset += size as u64;
        Ok(Step::Record { at, frame })
    }
}

/// What lies behind the last good record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Remnant {
    /// From the beginning of the look to the last byte that is not zero.
    pub bytes: u64,
    /// Whole records.
    pub records: u64,
    /// The highest durable LSN that any of them carries.
    pub durable: u64,
}

impl Scanner {
    /// Looks over the rest of the file, byte by byte, for anything that is not zero and for records
    /// behind a hole. `expected` is the LSN that should have stood here; a record with a lower one
    /// is a leftover that says nothing.
    pub fn remnant(&mut self, expected: u64) -> io::Result<Remnant> {
        let begin = self.offset;
        let mut found = Remnant::default();
        while self.offset < self.len {
            if self.fill(1)?.is_empty() {
                break;
            }
            let buffered = &self.buffer[(self.offset - self.start) as usize..self.filled];
            // Zeros are the usual case and are passed over in one go. A record may begin with up to
            // four of them (its checksum), so four are looked at again unless the file ends here.
            let zeros = leading_zeros(buffered) as u64;
            let back = if self.offset + zeros >= self.len { 0 } else { zeros.min(4) };
            if zeros > back {
                self.offset += zeros - back;
                continue;
            }
            let head = self.fill(FRAME_BYTES)?;
            let record = head.len() == FRAME_BYTES
                && frame::may_begin(head)
                && frame::u64_at(head, 16) >= expected;
            if record && let Step::Record { frame, .. } = self.step()? {
                found.records += 1;
                found.durable = found.durable.max(frame.durable);
                found.bytes = self.offset - begin;
                continue;
            }
            if self.fill(1)?.iter().any(|byte| *byte != 0) {
                found.bytes = self.offset + 1 - begin;
            }
            self.offset += 1;
        }
        self.offset = begin;
        self.filled = 0;
        self.start = begin;
        Ok(found)
    }
}

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Number of zeros at the beginning. Whole chunks of them are the usual case, so those are compared
/// in one go.
fn leading_zeros(bytes: &[u8]) -> usize {
    if bytes.len() <= CHUNK && *bytes == ZEROS[..bytes.len()] {
        return bytes.len();
    }
    bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())
}
