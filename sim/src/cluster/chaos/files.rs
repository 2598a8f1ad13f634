//! What happens to files on managers' disks.

use std::path::PathBuf;

use membership::Role;

use super::Chaos;
use crate::event;

/// More than a part of a checkpoint has on its way between managers.
const TOO_LONG_BY: usize = 3 << 20;

impl Chaos {
    /// A manager's files of statistics: checkpoints and promises.
    fn checkpoints(&self, host: usize) -> Vec<PathBuf> {
        let folder = self.world.hosts[host].data.join("checkpoints");
        let files = std::fs::read_dir(folder).into_iter().flatten();
        let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
        files.sort();
        files
    }

    /// Damages a file of statistics.
    pub(super) fn damage(&mut self, host: usize) {
        let files = self.checkpoints(host);
        if !files.is_empty() {
            let path = &files[self.rng.usize(..files.len())];
            self.damage_file(path);
        }
    }

    /// Damages all checkpoints of a manager, and leaves its promises alone.
    pub(super) fn damage_all(&mut self, host: usize) {
        for path in self.checkpoints(host) {
            if path.extension().is_some_and(|name| name == "checkpoint") {
                self.damage_file(&path);
            }
        }
    }

    /// As a bad sector or a bad repair would: another byte, too few, or too many.
    fn damage_file(&mut self, path: &PathBuf) {
        let how = self.rng.u8(..3);
        let Ok(mut bytes) = std::fs::read(path) else { return };
        let middle = bytes.len() / 2;
        match how {
            0 => bytes.truncate(middle),
            1 => bytes.resize(bytes.len() + TOO_LONG_BY, 0x55),
            _ => bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x55),
        }
        event!("{} is damaged ({how})", path.display());
        let _ = std::fs::write(path, bytes);
    }

    /// Takes a blob from the disks of all managers but one that has it.
    pub(super) fn lose_blob(&mut self, spared: usize) {
        let mut blobs = self.world.hosts[spared].disk.files();
        blobs.retain(|path| path.iter().any(|part| part == "blobs"));
        if blobs.is_empty() {
            return;
        }
        let path = &blobs[self.rng.usize(..blobs.len())];
        let Some(name) = path.file_name() else { return };
        for host in self.world.of_role(Role::Manager) {
            let disk = &self.world.hosts[host].disk;
            let copies = disk.files().into_iter().filter(|path| path.file_name() == Some(name));
            for copy in copies.filter(|_| host != spared) {
                let erased = disk.erase(&copy);
                event!("{} is gone: {erased}", copy.display());
            }
        }
    }
}
