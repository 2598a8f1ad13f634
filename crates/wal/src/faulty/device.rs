//! The two disk traits on the disk in memory: the calls, and the faults that hit them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::FaultyDisk;
use super::faults::{Fault, Operation};
use super::file::{Change, File};
use super::state::{Name, State, input_output_error, no_power, no_space};
use crate::disk::{Disk, DiskFile};

struct Handle {
    state: Arc<Mutex<State>>,
    file: u64,
    path: PathBuf,
    generation: u64,
}

struct Lock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
    generation: u64,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // After a crash the lock may belong to the next life already.
        if state.generation == self.generation {
            state.locks.remove(&self.path);
        }
    }
}

impl FaultyDisk {
    fn handle(&self, state: &State, path: &Path, file: u64) -> Box<dyn DiskFile> {
        Box::new(Handle {
            state: Arc::clone(&self.state),
            file,
            path: path.to_path_buf(),
            generation: state.generation,
        })
    }

    /// Makes a call: power, effect, note.
    fn call<T>(
        &self,
        operation: Operation,
        path: &Path,
        effect: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        state.enter(operation)?;
        let result = effect(&mut state);
        state.note(operation, path, 0, 0, result.is_ok());
        result
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.call(Operation::Create, path, |state| {
            if state.visible.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if !path.parent().is_some_and(|folder| state.folders.contains(folder)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            if state.strikes(Fault::NoSpace, path) {
                return Err(no_space());
            }
            let id = state.next_file;
            state.next_file += 1;
            state.files.insert(id, File::default());
            state.visible.insert(path.to_path_buf(), id);
            state.names.push(Name::Link { path: path.to_path_buf(), file: id });
            Ok(self.handle(state, path, id))
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.call(Operation::Open, path, |state| {
            let id = *state.visible.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(self.handle(state, path, id))
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.call(Operation::List, folder, |state| {
            if !state.folders.contains(folder) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let inside = state.visible.keys().filter(|path| path.parent() == Some(folder));
            let mut names: Vec<String> = inside
                .filter_map(|path| path.file_name())
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            names.sort();
            Ok(names)
        })
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.call(Operation::CreateFolder, folder, |state| {
            for folder in folder.ancestors() {
                state.folders.insert(folder.to_path_buf());
            }
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Operation::Rename, to, |state| {
            let file = state.visible.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.visible.insert(to.to_path_buf(), file);
            let (from, to) = (from.to_path_buf(), to.to_path_buf());
            state.names.push(Name::Rename { from, to, file });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Operation::Remove, path, |state| {
            state.visible.remove(path).ok_or(io::ErrorKind::NotFound)?;
            state.names.push(Name::Unlink { path: path.to_path_buf() });
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.call(Operation::SyncFolder, folder, |state| {
            if state.strikes(Fault::SyncError, folder) {
                state.names.retain(|name| name.folder() != Some(folder));
                return Err(input_output_error());
            }
            if state.strikes(Fault::SyncLie, folder) {
                return Ok(());
            }
            let State { names, durable, .. } = state;
            names.retain(|name| {
                let here = name.folder() == Some(folder);
                if here {
                    name.apply(durable);
                }
                !here
            });
            Ok(())
        })
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.call(Operation::FreeBytes, folder, |state| {
            Ok(state.capacity.saturating_sub(state.used()))
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.call(Operation::Lock, path, |state| {
            if !state.locks.insert(path.to_path_buf()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let lock: Box<dyn Send + Sync> = Box::new(Lock {
                state: Arc::clone(&self.state),
                path: path.to_path_buf(),
                generation: state.generation,
            });
            Ok(lock)
        })
    }

    fn pending_delay(&self) -> Duration {
        let mut state = self.state();
        let (shortest, longest) = state.flush_delay;
        if longest.is_zero() || !state.powered {
            return Duration::ZERO;
        }
        state.counts.add(Fault::SlowFlush);
        let spread = (longest - shortest).as_micros() as u64;
        shortest + Duration::from_micros(state.generator.below(spread + 1))
    }
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        effect: impl FnOnce(&mut State, &Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        if state.generation != self.generation {
            return Err(no_power());
        }
        state.enter(operation)?;
        let result = effect(&mut state, &self.path);
        state.note(operation, &self.path, offset, len, result.is_ok());
        result
    }

    fn file<'a>(&self, state: &'a mut State) -> io::Result<&'a mut File> {
        state.files.get_mut(&self.file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether the disk is too full for the file to reach `to`, or a script says so. A file that
    /// was removed but is still open is not counted: it goes when it is closed.
    fn out_of_space(&self, state: &mut State, path: &Path, to: u64) -> bool {
        let len = state.files.get(&self.file).map_or(0, |file| file.visible.len);
        let growth = to.saturating_sub(len);
        let full = growth > 0 && state.used().saturating_add(growth) > state.capacity;
        if full {
            state.counts.add(Fault::NoSpace);
        }
        full || state.strikes(Fault::NoSpace, path)
    }
}

impl DiskFile for Handle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(Operation::Read, offset, buffer.len() as u64, |state, path| {
            if state.strikes(Fault::ReadError, path) {
                return Err(input_output_error());
            }
            let misdirected = state.strikes(Fault::MisdirectedRead, path);
            let other = if misdirected { state.generator.below(offset.max(512)) } else { offset };
            let file = self.file(state)?;
            let read = file.visible.read(offset, buffer);
            if misdirected {
                // The right number of bytes, from a wrong place.
                let wrong = file.visible.read(other, &mut buffer[..read]);
                buffer[wrong..read].fill(0);
            }
            Ok(read)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.call(Operation::Write, offset, bytes.len() as u64, |state, path| {
            if self.out_of_space(state, path, offset + bytes.len() as u64) {
                return Err(no_space());
            }
            let broken = state.strikes(Fault::WriteError, path);
            let short = broken || (bytes.len() > 1 && state.strikes(Fault::ShortWrite, path));
            let made = match short {
                true => 1 + state.generator.below((bytes.len() as u64).saturating_sub(1)) as usize,
                false => bytes.len(),
            };
            let bytes = bytes[..made].to_vec();
            self.file(state)?.change(Change::Write { offset, bytes });
            if broken { Err(input_output_error()) } else { Ok(made) }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Operation::Sync, 0, 0, |state, path| {
            if state.strikes(Fault::SyncError, path) {
                self.file(state)?.lose_pending();
                return Err(input_output_error());
            }
            if state.strikes(Fault::SyncLie, path) {
                return Ok(());
            }
            self.file(state)?.sync();
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Operation::SetLen, len, 0, |state, path| {
            if self.out_of_space(state, path, len) {
                return Err(no_space());
            }
            self.file(state)?.change(Change::SetLen(len));
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.call(Operation::Len, 0, 0, |state, _| Ok(self.file(state)?.visible.len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.call(Operation::Allocate, len, 0, |state, path| {
            if self.out_of_space(state, path, len) {
                return Err(no_space());
            }
            self.file(state)?.change(Change::Extend(len));
            Ok(())
        })
    }
}
