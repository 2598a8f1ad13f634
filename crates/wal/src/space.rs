//! What to do when the disk runs full: stop early, keep a reserve for what must still be said, go
//! on by itself.
//!
//! ```text
//! plenty ──free space below the low water──▶ low: only essential records, counted against room that is certain
//!    ▲                                         │ a new segment is needed: the reserve file is given up for it
//!    └──────── free space is back, reserve file made again ◀──┘
//! ```
//!
//! Space is taken from the disk when a segment is made, so that is when it is looked at; and
//! regularly, because others take space from the same disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::log::Failure;
use crate::options::Options;

const RESERVE_FILE: &str = "wal.reserve";

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Only essential records are taken.
    pub low: bool,
    /// The reserve file is there in full.
    pub reserved: bool,
    /// Free bytes when last asked.
    pub free: u64,
}

fn reserve_path(folder: &Path) -> PathBuf {
    folder.join(RESERVE_FILE)
}

impl Space {
    pub fn open(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        options: &Options,
    ) -> Result<(), Failure> {
        if options.reserve_bytes > 0 {
            let path = reserve_path(folder);
            let file = match disk.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                other => Some(other.map_err(Failure::at(&path, "opening"))?),
            };
            if let Some(file) = file {
                let len = file.len().map_err(Failure::at(&path, "measuring"))?;
                self.reserved = len >= options.reserve_bytes;
                if !self.reserved {
                    disk.remove(&path).map_err(Failure::at(&path, "removing"))?;
                }
            }
        }
        self.look(disk, folder, options)
    }

    /// Looks at the free space: decides whether it is low, and makes the reserve again when it is
    /// not.
    pub fn look(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        options: &Options,
    ) -> Result<(), Failure> {
        self.free = disk.free_bytes(folder).map_err(Failure::at(folder, "measuring"))?;
        let missing = if self.reserved { 0 } else { options.reserve_bytes };
        self.low = self.free < options.low_water_bytes.saturating_add(missing);
        if !self.low && !self.reserved && options.reserve_bytes > 0 {
            self.reserved = self.make_reserve(disk, folder, options)?;
            self.low = !self.reserved;
        }
        Ok(())
    }

    fn make_reserve(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        options: &Options,
    ) -> Result<bool, Failure> {
        let path = reserve_path(folder);
        let file = match disk.create(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(false),
            Err(error) => return Err(Failure::at(&path, "making")(error)),
        };
        match file.allocate(options.reserve_bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                disk.remove(&path).map_err(Failure::at(&path, "removing"))?;
                Ok(false)
            }
            Err(error) => Err(Failure::at(&path, "allocating")(error)),
        }
    }

    /// A segment is about to be made: gives up the reserve for it if there is no other room.
    pub fn before_roll(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        options: &Options,
    ) -> Result<(), Failure> {
        self.free = disk.free_bytes(folder).map_err(Failure::at(folder, "measuring"))?;
        if self.free < options.segment_bytes && self.reserved {
            let path = reserve_path(folder);
            disk.remove(&path).map_err(Failure::at(&path, "removing"))?;
            self.reserved = false;
        }
        let after = self.free.saturating_sub(options.segment_bytes);
        if after < options.low_water_bytes || (!self.reserved && options.reserve_bytes > 0) {
            self.low = true;
        }
        Ok(())
    }

    /// A segment was made: what is left may be counted on.
    pub fn after_roll(&mut self, disk: &dyn Disk, folder: &Path) -> Result<(), Failure> {
        self.free = disk.free_bytes(folder).map_err(Failure::at(folder, "measuring"))?;
        Ok(())
    }

    /// How many more whole segments are certain while space is low.
    pub fn segments_left(&self, options: &Options) -> u64 {
        let reserve = if self.reserved { options.reserve_bytes } else { self.free };
        reserve / options.segment_bytes
    }
}
