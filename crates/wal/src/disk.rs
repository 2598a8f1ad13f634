//! Everything the kernel does with files, behind two small traits.
//!
//! The log, the snapshots and the blobs ask for files only here, so that a simulation can hand in a
//! disk in memory that loses, tears and rots what it was given (`FaultyDisk`), and the same code
//! runs on a real one (`RealDisk`).
//!
//! Rules of the contract: what was written is durable after `sync_data` of its file has returned
//! `Ok`; that a name exists, was replaced or is gone is durable after `sync_folder` of its folder
//! has returned `Ok`. After a failed `sync_data` nothing is known about what was written since the
//! last good one, and asking again proves nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

/// A disk. All paths are whole paths; nothing depends on a current folder.
pub trait Disk: Send + Sync + 'static {
    /// Makes a file that must not exist yet, readable and writable by its owner only.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// The names in a folder, sorted. A missing folder is `NotFound`.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder and its parents, durably; an existing one is left alone.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Gives a file another name, replacing what had that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in this folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// How much may still be written in this folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// Takes an advisory lock for this process; the file is made if missing. Dropping the guard
    /// gives it back. A lock that another holds is `WouldBlock`.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Which lock this is: a number that two locks on one running system never share, and that no
    /// lock on another system or after a restart of this one has. So who holds a lock of some
    /// number knows that all who held it before are gone. `None`: this disk cannot tell.
    fn lock_number(&self, _path: &Path) -> Option<u128> {
        None
    }

    /// Simulated disks: how long the next flush takes. The owner of a log waits that long before it
    /// flushes.
    fn pending_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// An open file. Positions are given with each call, so one handle may be shared.
pub trait DiskFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file or when interrupted, 0
    /// at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes and says how many, at least one.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes all that was written to this file durable, its length included.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Takes space for the file up to `len`, so that writing there cannot run out of it. What is
    /// new reads as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Writes all of the bytes. A short write is continued; on an error any part of them may have
    /// been written.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffer as far as the file reaches, and says how far that was.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
