//! Whole files on the disk that is handed in: read at once, and replaced so that a crash leaves the
//! old or the new one.

use std::io;
use std::path::Path;

use wal::Disk;

/// The ending of a file that is being written. What is found with it at start was never finished.
pub const UNFINISHED: &str = ".tmp";

/// Everything in a file, refused above `limit` before anything is allocated.
pub fn read_all(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let length = file.len()?;
    if length > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} has {length} bytes, more than the {limit} allowed", path.display()),
        ));
    }
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let read = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Puts `bytes` under `name`, and returns when a power failure can no longer undo it.
pub fn replace(disk: &dyn Disk, folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(format!("{name}{UNFINISHED}"));
    remove_if_there(disk, &unfinished)?;
    let file = disk.create(&unfinished)?;
    let written = file.write_all_at(bytes, 0).and_then(|()| file.sync_data());
    drop(file);
    let finished = written.and_then(|()| disk.rename(&unfinished, &folder.join(name)));
    if let Err(error) = finished {
        // The space is wanted back; the error that counts is the first.
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    disk.sync_folder(folder)
}

/// The names in a folder; none if there is no such folder.
pub fn names(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<String>> {
    match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Moves every file of `folder` into `to`, durably; nothing is deleted. Returns how many.
pub fn move_all(disk: &dyn Disk, folder: &Path, to: &Path) -> io::Result<usize> {
    let names = names(disk, folder)?;
    if names.is_empty() {
        return Ok(0);
    }
    disk.create_folder(to)?;
    for name in &names {
        disk.rename(&folder.join(name), &to.join(name))?;
    }
    disk.sync_folder(to)?;
    disk.sync_folder(folder)?;
    Ok(names.len())
}
