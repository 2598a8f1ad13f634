//! The disk of this computer.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::disk::{Disk, DiskFile};

/// Files and folders of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// What may hold secrets of jobs is for its owner alone.
const MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Folders within folders that are looked into; ours have three.
const DEPTH_MAX: usize = 8;

/// Takes from everybody but the owner what they may do with a file or folder, and with everything
/// in it: it may have been made by an earlier program. What is not there is left alone, and no link
/// is followed.
///
/// # Errors
/// If something cannot be looked at or changed, such as what belongs to another user.
pub fn tighten(path: &Path) -> io::Result<()> {
    tighten_within(path, DEPTH_MAX)
}

fn tighten_within(path: &Path, depth: usize) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        // A file that is removed meanwhile is nobody's any more.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let (is_folder, mode) = (found.is_dir(), found.permissions().mode() & 0o7777);
    let wanted = if is_folder { FOLDER_MODE } else { MODE };
    if !is_folder && !found.is_file() {
        return Ok(());
    }
    if mode & !wanted != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & wanted))?;
    }
    if is_folder && depth > 0 {
        for entry in fs::read_dir(path)? {
            tighten_within(&entry?.path(), depth - 1)?;
        }
    }
    Ok(())
}

struct RealFile(File);

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_folder(parent)?;
        }
        match fs::DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            other => other?,
        }
        self.sync_folder(parent.unwrap_or(Path::new(".")))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path ends with a zero byte, and `stat` is large enough to be filled in.
        if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so it has filled the structure.
        let stat = unsafe { stat.assume_init() };
        // The widths of these fields differ between systems.
        #[allow(clippy::unnecessary_cast)]
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The kernel's boot id, and device and inode of the file: as long as a process holds the lock,
    /// the file is open, and its inode is given to no other. A copy of the folder has another
    /// inode.
    fn lock_number(&self, path: &Path) -> Option<u128> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.trim().chars().filter(|digit| *digit != '-').collect();
        let boot = u128::from_str_radix(&digits, 16).ok().filter(|boot| *boot != 0)?;
        let file = fs::metadata(path).ok()?;
        Some(boot ^ (u128::from(file.dev()) << 64 | u128::from(file.ino())))
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, len: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a plain call on a descriptor that `self` keeps open.
        if unsafe { libc::fallocate(self.0.as_raw_fd(), 0, 0, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // This file system cannot. The length is right then, and running out of space is found
            // by the write.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => self.extend(len as u64),
            _ => Err(error),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.extend(len)
    }
}

impl RealFile {
    fn extend(&self, len: u64) -> io::Result<()> {
        if self.0.metadata()?.len() < len { self.0.set_len(len) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_others_could_read_is_for_its_owner_alone_afterwards() {
        let temp = tempfile::TempDir::new().unwrap();
        let outside = temp.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let folder = temp.path().join("data");
        let inner = folder.join("blobs");
        RealDisk.create_folder(&inner).unwrap();
        assert_eq!((mode(&folder), mode(&inner)), (0o700, 0o700), "as it is made");
        let file = inner.join("plan");
        fs::write(&file, "password").unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("link")).unwrap();
        for (path, loose) in [(&folder, 0o755), (&inner, 0o755), (&file, 0o644), (&outside, 0o644)]
        {
            fs::set_permissions(path, fs::Permissions::from_mode(loose)).unwrap();
        }
        tighten(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&inner), mode(&file)), (0o700, 0o700, 0o600));
        assert_eq!(mode(&outside), 0o644, "a link is not followed");
        tighten(&temp.path().join("none")).unwrap();
    }
}
