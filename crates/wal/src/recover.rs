//! Reading a log that is there already, and deciding whether it may be used.
//!
//! ```text
//! segment 7 (sealed)          segment 8 (sealed)         segment 9 (active)
//! ┌──────────────────┐        ┌──────────────────┐        ┌──────────┬─────────────┬──────────┐
//! │ must be complete │        │ must be complete │        │ durable  │ not certain │ zeros    │
//! └──────────────────┘        └──────────────────┘        └──────────┴─────────────┴──────────┘
//!                                                            watermark ▲ bad record above: torn tail, cut here
//!                                                                        bad record below: damage, refused
//! ```
//!
//! The watermark is the highest LSN that anything vouches for: the witness, and the durable LSN
//! that any valid record carries, those behind a hole included. Pages of an unflushed batch may
//! reach the disk in any order, so whole records behind a hole are a normal result of a crash;
//! above the watermark they are dropped with the hole, for nobody was told that they are there.
//!
//! This file only looks. What has to be changed is done by `Log::open` after everything was found
//! to be good, so that a refused log is left as it is.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::frame::{self, FORMAT, Flaw, HEAD_BYTES, Head, HeadFlaw, Place};
use crate::mark::{self, Found, Mark};
use crate::options::{LogIdentity, Options, Recovery, TornTail};
use crate::scan::{Remnant, Scanner, Step};

/// A segment that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub first_lsn: u64,
    pub limit: u32,
}

/// What recovery has found out.
pub(crate) struct Survey {
    pub found: Found,
    pub recovery: Recovery,
    pub segments: Vec<(u64, Segment)>,
    /// Where the next record goes in the last segment.
    pub end: u64,
    /// The first record that is not known to be durable begins here.
    pub uncertain_from: u64,
    pub last_checksum: u32,
    /// A last segment whose head was never finished. It holds nothing and goes.
    pub unfinished: Option<u64>,
    pub highest_id: u64,
}

/// No segment or record is ever numbered as high as this; a higher number in a file was not written
/// by a log.
const NUMBER_LIMIT: u64 = 1 << 62;

pub(crate) fn segment_path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("segment_{id:08}.wal"))
}

/// The ids of the segment files in a folder, rising. Other names are not ours to judge.
pub(crate) fn segment_ids(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<u64>> {
    let mut ids: Vec<u64> = disk
        .list(folder)?
        .iter()
        .filter_map(|name| {
            let id = name.strip_prefix("segment_")?.strip_suffix(".wal")?.parse().ok()?;
            // Only the name that we would give it ourselves, so that no two files have one id.
            (id < NUMBER_LIMIT && *name == format!("segment_{id:08}.wal")).then_some(id)
        })
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The beginning of a segment file.
pub(crate) fn read_head(file: &dyn DiskFile) -> io::Result<Result<Head, HeadFlaw>> {
    let mut bytes = [0; HEAD_BYTES];
    let read = file.read_full_at(&mut bytes, 0)?;
    Ok(Head::decode(&bytes[..read]))
}

struct Walk<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    identity: LogIdentity,
    survey: Survey,
    mark: Mark,
    /// Highest durable LSN that anything has vouched for so far.
    watermark: u64,
}

/// Reads the whole log. Changes nothing.
pub(crate) fn survey(
    disk: &dyn Disk,
    folder: &Path,
    identity: LogIdentity,
    options: &Options,
) -> Result<Survey, OpenError> {
    let ids = segment_ids(disk, folder).map_err(|e| OpenError::io(folder, "listing", e))?;
    let found = mark::read(disk, folder, identity)?;
    let mark = match &found {
        Found::Mark(mark, _) => *mark,
        _ if ids.is_empty() => Mark { floor: 1, ..Mark::default() },
        other if !options.rebuild_witness => {
            let why = match other {
                Found::Unreadable(why) => {
                    format!("the witness of the log's end is unreadable ({why})")
                }
                _ => "the witness of the log's end is missing".to_owned(),
            };
            return Err(OpenError::Witness { path: folder.join(mark::MARK_FILE), why });
        }
        // Nothing is known, so nothing is demanded.
        _ => Mark { floor: u64::MAX, ..Mark::default() },
    };
    let survey = Survey {
        found,
        recovery: Recovery { first_lsn: 1, ..Recovery::default() },
        segments: Vec::new(),
        end: 0,
        uncertain_from: HEAD_BYTES as u64,
        last_checksum: 0,
        unfinished: None,
        highest_id: ids.last().copied().unwrap_or(0).max(mark.segment.min(NUMBER_LIMIT)),
    };
    let mut walk = Walk { disk, folder, identity, survey, mark, watermark: mark.lsn };
    walk.run(&ids)?;
    Ok(walk.survey)
}

impl Walk<'_> {
    fn run(&mut self, ids: &[u64]) -> Result<(), OpenError> {
        let mut heads = Vec::new();
        for (i, id) in ids.iter().enumerate() {
            match self.head(*id, i + 1 == ids.len())? {
                Some(head) => heads.push(head),
                None => self.survey.unfinished = Some(*id),
            }
        }
        for (i, head) in heads.iter().enumerate() {
            self.begin(head)?;
            match heads.get(i + 1) {
                Some(next) => self.sealed(head, next)?,
                None => self.active(head)?,
            }
        }
        let found = self.survey.recovery.last_lsn;
        if found < self.watermark || (heads.is_empty() && self.floor() > 1) {
            let acknowledged = self.watermark.max(self.floor() - 1);
            return Err(OpenError::AcknowledgedLost { acknowledged, found });
        }
        self.survey.recovery.segments = heads.len() as u64;
        Ok(())
    }

    fn floor(&self) -> u64 {
        if self.mark.floor == u64::MAX { 1 } else { self.mark.floor.max(1) }
    }

    /// Reads the head of a segment; `None` for one that a crash left without a head.
    fn head(&self, id: u64, last: bool) -> Result<Option<Head>, OpenError> {
        let path = segment_path(self.folder, id);
        let io = |error| OpenError::io(&path, "reading", error);
        let file = self.disk.open(&path).map_err(io)?;
        match read_head(&*file).map_err(io)? {
            Ok(head) => {
                let found = LogIdentity { node: head.node, log: head.log };
                if found != self.identity {
                    return Err(mark::other_log(&path, found, self.identity));
                }
                if head.segment != id {
                    let why = format!("its header says segment {}", head.segment);
                    return Err(OpenError::Foreign { path, why });
                }
                Ok(Some(head))
            }
            Err(HeadFlaw::Foreign(why)) => Err(OpenError::Foreign { path, why }),
            Err(HeadFlaw::Version(found)) => {
                Err(OpenError::Version { path, found, supported: FORMAT })
            }
            Err(HeadFlaw::Unfinished(why)) => {
                // No record is written before the head is durable. So bytes behind a bad head mean
                // that it was good once, and in a sealed segment it was in any case.
                let damage =
                    |why| Err(OpenError::Corruption { segment: id, offset: 0, lsn: 0, why });
                if !last {
                    return damage(why);
                }
                let place =
                    Place { log: self.identity.log, segment: id, offset: HEAD_BYTES as u64 };
                let mut rest = Scanner::new(file, place, 0).map_err(io)?;
                let remnant = rest.remnant(0).map_err(io)?;
                if remnant.bytes > 0 { damage(why) } else { Ok(None) }
            }
        }
    }

    /// The segment continues where the one before ended.
    fn begin(&mut self, head: &Head) -> Result<(), OpenError> {
        let recovery = &mut self.survey.recovery;
        let damage = |lsn, why: String| {
            Err(OpenError::Corruption { segment: head.segment, offset: 0, lsn, why })
        };
        if self.survey.segments.is_empty() {
            if head.first_lsn == 0 || head.first_lsn > NUMBER_LIMIT {
                let why = format!("its header says that it begins with LSN {}", head.first_lsn);
                return damage(0, why);
            }
            if head.first_lsn > self.mark.floor {
                let why =
                    format!("the log begins with {}, earlier segments are missing", head.first_lsn);
                return damage(self.mark.floor, why);
            }
            recovery.first_lsn = head.first_lsn;
            recovery.last_lsn = head.first_lsn - 1;
        } else if head.first_lsn != recovery.last_lsn + 1 {
            let why = format!("the segment begins with {}", head.first_lsn);
            return damage(recovery.last_lsn + 1, why);
        }
        let segment = Segment { first_lsn: head.first_lsn, limit: head.limit };
        self.survey.segments.push((head.segment, segment));
        self.survey.uncertain_from = HEAD_BYTES as u64;
        Ok(())
    }

    fn scanner(&self, head: &Head) -> Result<Scanner, OpenError> {
        let path = segment_path(self.folder, head.segment);
        let place = Place { log: head.log, segment: head.segment, offset: HEAD_BYTES as u64 };
        self.disk
            .open(&path)
            .and_then(|file| Scanner::new(file, place, head.limit))
            .map_err(|error| OpenError::io(&path, "reading", error))
    }

    /// Takes in records up to the first place where the next one is not. `None` if zeros or the end
    /// are there.
    fn records(&mut self, head: &Head, scanner: &mut Scanner) -> Result<Option<Flaw>, OpenError> {
        let path = segment_path(self.folder, head.segment);
        loop {
            let at = scanner.offset;
            let step = scanner.step().map_err(|e| OpenError::io(&path, "reading", e))?;
            let (at, frame) = match step {
                Step::Record { at: _, frame } if frame.lsn != self.survey.recovery.last_lsn + 1 => {
                    // It is not moved over: the cut, if there is one, is before it.
                    scanner.offset = at;
                    let expected = self.survey.recovery.last_lsn + 1;
                    return Ok(Some(Flaw::Sequence { expected, found: frame.lsn }));
                }
                Step::Record { at, frame } => (at, frame),
                Step::End => return Ok(None),
                Step::Bad(Flaw::Version(found)) => {
                    return Err(OpenError::Version {
                        path,
                        found: found.into(),
                        supported: FORMAT,
                    });
                }
                Step::Bad(flaw) => return Ok(Some(flaw)),
            };
            if frame.lsn == self.mark.lsn && frame.checksum != self.mark.checksum {
                let why = "it is not the record that was acknowledged".to_owned();
                return Err(OpenError::Corruption {
                    segment: head.segment,
                    offset: at,
                    lsn: frame.lsn,
                    why,
                });
            }
            if frame.lsn <= self.mark.lsn {
                self.survey.uncertain_from = scanner.offset;
            }
            let stamp = frame::stamp(&frame, head.node);
            let recovery = &mut self.survey.recovery;
            recovery.last_lsn = frame.lsn;
            recovery.records += 1;
            recovery.max_hlc = recovery.max_hlc.max(Some(stamp));
            self.survey.last_checksum = frame.checksum;
            self.watermark = self.watermark.max(frame.durable);
        }
    }

    /// A sealed segment was flushed before the next was made: everything must be there, and nothing
    /// else.
    fn sealed(&mut self, head: &Head, next: &Head) -> Result<(), OpenError> {
        let mut scanner = self.scanner(head)?;
        let flaw = self.records(head, &mut scanner)?;
        let lsn = self.survey.recovery.last_lsn + 1;
        let complete = lsn == next.first_lsn;
        let remnant = self.remnant(head, &mut scanner, lsn)?;
        if complete && remnant.bytes == 0 {
            return Ok(());
        }
        let flaw = flaw.unwrap_or(Flaw::Missing);
        let why = format!("{flaw}; the segment is sealed and ends with {}", next.first_lsn - 1);
        Err(OpenError::Corruption { segment: head.segment, offset: scanner.offset, lsn, why })
    }

    fn remnant(
        &self,
        head: &Head,
        scanner: &mut Scanner,
        expected: u64,
    ) -> Result<Remnant, OpenError> {
        let path = segment_path(self.folder, head.segment);
        scanner.remnant(expected).map_err(|error| OpenError::io(&path, "reading", error))
    }

    /// The last segment may end torn, above the watermark.
    fn active(&mut self, head: &Head) -> Result<(), OpenError> {
        let mut scanner = self.scanner(head)?;
        let flaw = self.records(head, &mut scanner)?;
        let lsn = self.survey.recovery.last_lsn + 1;
        let remnant = self.remnant(head, &mut scanner, lsn)?;
        self.watermark = self.watermark.max(remnant.durable);
        self.survey.end = scanner.offset;
        if remnant.bytes == 0 {
            // Nothing at all behind it. Whether that is too little is asked when all is read.
            return Ok(());
        }
        let flaw = flaw.unwrap_or(Flaw::Missing);
        if lsn <= self.watermark {
            let why = format!("{flaw}; records up to {} were acknowledged", self.watermark);
            return Err(OpenError::Corruption {
                segment: head.segment,
                offset: scanner.offset,
                lsn,
                why,
            });
        }
        self.survey.recovery.torn = Some(TornTail {
            segment: head.segment,
            offset: scanner.offset,
            bytes: remnant.bytes,
            records_dropped: remnant.records,
            why: flaw.to_string(),
        });
        Ok(())
    }
}
