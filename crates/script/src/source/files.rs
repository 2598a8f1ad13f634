//! Reads files, once each, and keeps them: all virtual users share one copy, and what was read
//! can be sent to other machines, where the same paths are then answered from memory.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{SourceError, SourceErrorKind};

/// A script with everything bundled in has a few megabytes; the engine cannot do much with more.
pub const CODE_BYTES_MAX: u64 = 64 << 20;
/// `open()` holds the whole file in memory, so a device that never ends must end somewhere.
pub const DATA_BYTES_MAX: u64 = 2 << 30;
/// A folder can hold millions of names; suggestions look at this many.
const NAMES_LOOKED_AT_MAX: usize = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    File,
    Folder,
    Nothing,
}

#[derive(Debug, Default)]
pub struct Files {
    /// With `Some`, the disk is never looked at.
    shipped: Option<HashMap<PathBuf, Arc<[u8]>>>,
    read: Mutex<BTreeMap<PathBuf, Arc<[u8]>>>,
}

impl Files {
    pub fn shipped(files: impl IntoIterator<Item = (PathBuf, Arc<[u8]>)>) -> Files {
        Files { shipped: Some(files.into_iter().collect()), read: Mutex::default() }
    }

    /// They came from another machine.
    pub fn are_shipped(&self) -> bool {
        self.shipped.is_some()
    }

    /// Puts a file there that is not on disk under that name, such as the standard input.
    pub fn insert(&self, path: PathBuf, bytes: Arc<[u8]>) {
        self.lock().insert(path, bytes);
    }

    pub fn all(&self) -> Vec<(PathBuf, Arc<[u8]>)> {
        self.lock().iter().map(|(path, bytes)| (path.clone(), Arc::clone(bytes))).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Arc<[u8]>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn existence(&self, path: &Path) -> Existence {
        if self.lock().contains_key(path) {
            return Existence::File;
        }
        match &self.shipped {
            Some(files) if files.contains_key(path) => Existence::File,
            Some(files) if files.keys().any(|file| file.starts_with(path)) => Existence::Folder,
            Some(_) => Existence::Nothing,
            None => match fs::metadata(path) {
                Ok(data) if data.is_dir() => Existence::Folder,
                Ok(_) => Existence::File,
                // A folder that may not be looked into is reported by the read that follows.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Existence::File,
                Err(_) => Existence::Nothing,
            },
        }
    }

    /// The bytes of a file. `shown` is its name for messages. The lock is held while reading, so
    /// that a file which ten cores ask for at once is read once.
    pub fn read(&self, path: &Path, shown: &str, max: u64) -> Result<Arc<[u8]>, SourceError> {
        let mut read = self.lock();
        if let Some(bytes) = read.get(path) {
            return Ok(Arc::clone(bytes));
        }
        let bytes = match &self.shipped {
            Some(files) => files.get(path).cloned().ok_or_else(|| {
                let message = format!("{shown}: the file did not come with the script");
                SourceError::new(SourceErrorKind::NotFound, message)
                    .help("it was not read when the script was sent; open it in the init stage")
            })?,
            None => Arc::from(read_from_disk(path, shown, max)?),
        };
        read.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(bytes)
    }

    /// Names in a folder, for suggestions.
    pub fn names_in(&self, folder: &Path) -> Vec<String> {
        match &self.shipped {
            Some(files) => files
                .keys()
                .filter(|path| path.parent() == Some(folder))
                .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
                .collect(),
            None => fs::read_dir(folder)
                .map(|entries| {
                    let entries = entries.take(NAMES_LOOKED_AT_MAX).flatten();
                    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
                })
                .unwrap_or_default(),
        }
    }
}

fn read_from_disk(path: &Path, shown: &str, max: u64) -> Result<Vec<u8>, SourceError> {
    let unreadable =
        |what: String| SourceError::new(SourceErrorKind::Unreadable, format!("{shown}: {what}"));
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            SourceError::new(SourceErrorKind::NotFound, format!("{shown}: no such file"))
        }
        ErrorKind::IsADirectory => {
            SourceError::new(SourceErrorKind::NotFound, format!("{shown}: is a folder, not a file"))
        }
        ErrorKind::PermissionDenied => unreadable("permission denied".to_owned())
            .help("make it readable for the user who runs the test"),
        _ => unreadable(format!("cannot be read: {error}")),
    };
    let file = fs::File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let too_large = || unreadable(format!("is larger than {} MiB, the limit", max >> 20));
    if size > max {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(size as usize + 1).is_err() {
        return Err(unreadable(format!("its {size} bytes do not fit into memory")));
    }
    // The size is a promise at best: a device or a pipe says zero and goes on.
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(too_large());
    }
    Ok(bytes)
}

/// The text of a code file, without a byte order mark.
pub fn text_of<'b>(bytes: &'b [u8], shown: &str) -> Result<&'b str, SourceError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let at = error.valid_up_to();
            let line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            let byte = bytes[at];
            let message = format!(
                "{shown}:{line}: not UTF-8: byte 0x{byte:02x} at offset {at} begins no character"
            );
            let help = match bytes {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "this looks like UTF-16; save it as UTF-8",
                _ => "save the file as UTF-8",
            };
            Err(SourceError::new(SourceErrorKind::Unreadable, message).help(help))
        }
    }
}

/// Takes `.` and `..` out of an absolute path without asking the disk. A symbolic link keeps its
/// own name, so two names of one file are two modules, as in k6.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
