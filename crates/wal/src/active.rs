//! The segment that is being written: making it, taking it up again, and making certain what an
//! earlier life left in it.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::frame::{HEAD_BYTES, Head, Place};
use crate::log::Failure;
use crate::recover::{Segment, read_head, segment_path};
use crate::scan::{CHUNK, Scanner, Step};

pub(crate) struct Active {
    pub file: Box<dyn DiskFile>,
    pub id: u64,
    pub path: PathBuf,
    /// Where the next write goes.
    pub end: u64,
    /// Up to here the file has its space.
    pub len: u64,
    pub limit: u32,
    /// Whether something was written since the last flush.
    pub dirty: bool,
}

impl Active {
    pub fn create(
        disk: &dyn Disk,
        folder: &Path,
        head: &Head,
        bytes: u64,
    ) -> Result<Self, Failure> {
        let path = segment_path(folder, head.segment);
        let file = disk.create(&path).map_err(Failure::at(&path, "making"))?;
        file.allocate(bytes).map_err(Failure::at(&path, "allocating"))?;
        file.write_all_at(&head.encode(), 0).map_err(Failure::at(&path, "writing"))?;
        file.sync_data().map_err(Failure::at(&path, "flushing"))?;
        disk.sync_folder(folder).map_err(Failure::at(folder, "flushing"))?;
        let (id, limit) = (head.segment, head.limit);
        Ok(Self { file, id, path, end: HEAD_BYTES as u64, len: bytes, limit, dirty: false })
    }

    /// Makes the name of a segment without records certain. If the flush of its name has failed,
    /// the name can be seen and is not on the disk, and another flush would not put it there. So
    /// the file is made again beside it, and takes its place. One that has records has a certain
    /// name: none is written before.
    pub fn make_again(disk: &dyn Disk, folder: &Path, id: u64) -> Result<(), Failure> {
        let path = segment_path(folder, id);
        let fresh = path.with_extension("new");
        let again = || {
            let head = read_head(&*disk.open(&path)?)?.map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "it reads differently now")
            })?;
            match disk.remove(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.create(&fresh)?;
            file.write_all_at(&head.encode(), 0)?;
            file.sync_data()?;
            disk.rename(&fresh, &path)
        };
        again().map_err(Failure::at(&path, "making again"))
    }

    pub fn reopen(
        disk: &dyn Disk,
        folder: &Path,
        id: u64,
        segment: Segment,
        end: u64,
    ) -> Result<Self, Failure> {
        let path = segment_path(folder, id);
        let file = disk.open(&path).map_err(Failure::at(&path, "opening"))?;
        let len = file.len().map_err(Failure::at(&path, "measuring"))?;
        Ok(Self { file, id, path, end, len, limit: segment.limit, dirty: false })
    }

    /// Makes what was recovered durable. Records that nobody vouches for are written once more: if
    /// an earlier flush of them failed, the system holds their pages for clean, and a flush alone
    /// would confirm what is not on the disk. Each is verified again on the way, for a bad read
    /// here would become a bad record. A torn tail is cut off, so that nothing of it can be taken
    /// for a record later.
    pub fn settle(
        &mut self,
        disk: &dyn Disk,
        log: u64,
        from: u64,
        torn: bool,
    ) -> Result<(), Failure> {
        if torn {
            self.file.set_len(self.end).map_err(Failure::at(&self.path, "cutting"))?;
            self.len = self.end;
        }
        self.write_again(disk, log, from).map_err(Failure::at(&self.path, "writing again"))?;
        self.file.sync_data().map_err(Failure::at(&self.path, "flushing"))
    }

    fn write_again(&self, disk: &dyn Disk, log: u64, from: u64) -> io::Result<()> {
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "it reads differently now");
        if from == HEAD_BYTES as u64 {
            // Not even one record of this segment is vouched for, so its head is not either.
            let head = read_head(&*self.file)?.map_err(|_| changed())?;
            self.file.write_all_at(&head.encode(), 0)?;
        }
        let place = Place { log, segment: self.id, offset: from };
        let mut scanner = Scanner::new(disk.open(&self.path)?, place, self.limit)?;
        let (mut verified, mut start) = (Vec::new(), from);
        while scanner.offset < self.end {
            let Step::Record { .. } = scanner.step()? else { return Err(changed()) };
            verified.extend_from_slice(scanner.record());
            if verified.len() >= CHUNK || scanner.offset >= self.end {
                self.file.write_all_at(&verified, start)?;
                start = scanner.offset;
                verified.clear();
            }
        }
        Ok(())
    }
}
