//! Blobs in parts: written to and read from files, so that the size of a blob is never a size in
//! memory.
//!
//! A blob that is being written has a file of its own with an unfinished name. It gets its name
//! when all of it is on the disk and its hash fits; a writer that is dropped before leaves nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ledger_state::BlobRef;
use sha2::{Digest, Sha256};
use wal::DiskFile;

use super::{BlobError, Blobs, files, folder_of, lock, name};

/// What was written is flushed this often, so that the last flush does not hold up everybody else's
/// files.
const FLUSH_BYTES: u64 = 8 << 20;

/// Tells apart the files of one blob that two callers write at once.
static WRITERS: AtomicU64 = AtomicU64::new(0);

type File = Arc<Box<dyn DiskFile>>;

fn storing(error: io::Error) -> BlobError {
    BlobError::Io { doing: "storing", error }
}

/// A blob on its way to the disk.
pub struct BlobWriter {
    blobs: Blobs,
    blob: BlobRef,
    path: PathBuf,
    /// None before it was made.
    file: Option<File>,
    /// None while a part is being written.
    hash: Option<Sha256>,
    written: u64,
    flushed: u64,
    done: bool,
}

impl Blobs {
    /// Takes room for a blob that was announced, and a file to write it to.
    pub async fn begin(&self, blob: BlobRef) -> Result<BlobWriter, BlobError> {
        self.check_size(&blob)?;
        self.make_room(&blob)?;
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        let folder = folder_of(&self.root, &blob);
        let path = folder.join(format!("{}.{number}{}", name(&blob), files::UNFINISHED));
        // From here on the room is given back, and the file removed, if this is dropped.
        let mut writer = BlobWriter {
            blobs: self.clone(),
            blob,
            path: path.clone(),
            file: None,
            hash: Some(Sha256::new()),
            written: 0,
            flushed: 0,
            done: false,
        };
        let made = self.lane.run(move |disk| {
            disk.create_folder(&folder)?;
            files::remove_if_there(disk, &path)?;
            disk.create(&path)
        });
        writer.file = Some(Arc::new(made.await.map_err(storing)?));
        Ok(writer)
    }

    /// Opens a blob to be read in parts.
    pub async fn reader(&self, blob: &BlobRef) -> Result<BlobReader, BlobError> {
        if self.lookup(blob).is_none() {
            return Err(BlobError::Missing(*blob));
        }
        let (path, blob) = (folder_of(&self.root, blob).join(name(blob)), *blob);
        let opened = self.lane.run(move |disk| {
            let file = disk.open(&path)?;
            let bytes = file.len()?;
            Ok((file, bytes))
        });
        match opened.await {
            Ok((file, bytes)) if bytes == blob.bytes => Ok(BlobReader {
                blobs: self.clone(),
                blob,
                file: Arc::new(file),
                hash: Some(Sha256::new()),
                read: 0,
                done: false,
            }),
            Ok((_, bytes)) => {
                let why = format!("it has {bytes} of {} bytes", blob.bytes);
                Err(BlobError::Damaged { blob, why })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody has removed the file: whoever looks for the blob is no longer told that
                // it is here.
                self.forget(&blob);
                Err(BlobError::Missing(blob))
            }
            Err(error) => Err(BlobError::Io { doing: "reading", error }),
        }
    }

    /// The first bytes of a blob, at most so many. They are not verified: the hash is that of the
    /// whole.
    pub async fn head(&self, blob: &BlobRef, most: usize) -> Result<Vec<u8>, BlobError> {
        let reader = self.reader(blob).await?;
        let bytes = usize::try_from(blob.bytes).unwrap_or(usize::MAX).min(most);
        let file = Arc::clone(&reader.file);
        let read = self.lane.run(move |_| {
            let mut head = vec![0; bytes];
            let read = file.read_full_at(&mut head, 0)?;
            head.truncate(read);
            Ok(head)
        });
        read.await.map_err(|error| BlobError::Io { doing: "reading", error })
    }

    fn forget(&self, blob: &BlobRef) {
        let mut index = lock(&self.index);
        if index.blobs.remove(blob).is_some() {
            index.used -= blob.bytes;
        }
    }
}

impl BlobWriter {
    #[must_use]
    pub fn blob(&self) -> BlobRef {
        self.blob
    }

    /// Adds a part. More than was announced is refused.
    pub async fn write(&mut self, part: Bytes) -> Result<(), BlobError> {
        let (offset, bytes) = (self.written, part.len() as u64);
        let limit = self.blob.bytes;
        if offset.saturating_add(bytes) > limit {
            return Err(BlobError::TooLarge { bytes: offset.saturating_add(bytes), limit });
        }
        let (Some(file), Some(mut hash)) = (self.file.clone(), self.hash.take()) else {
            return Err(storing(io::Error::other("a part before this one was not written")));
        };
        let flush = offset + bytes - self.flushed >= FLUSH_BYTES;
        let written = self.blobs.lane.run(move |_| {
            hash.update(&part);
            file.write_all_at(&part, offset)?;
            if flush {
                file.sync_data()?;
            }
            Ok(hash)
        });
        self.hash = Some(written.await.map_err(storing)?);
        self.written += bytes;
        if flush {
            self.flushed = self.written;
        }
        Ok(())
    }

    /// Gives it its name, if it is what was announced. When this returns it survives a power
    /// failure of this node.
    pub async fn finish(mut self) -> Result<(), BlobError> {
        let (Some(file), Some(hash)) = (self.file.take(), self.hash.take()) else {
            return Err(storing(io::Error::other("a part of it was not written")));
        };
        let found = BlobRef { hash: hash.finalize().into(), bytes: self.written };
        if found != self.blob {
            return Err(BlobError::Mismatch { wanted: self.blob, found });
        }
        let (root, blob, path) = (self.blobs.root.clone(), self.blob, self.path.clone());
        let named = self.blobs.lane.run(move |disk| {
            file.sync_data()?;
            drop(file);
            let folder = folder_of(&root, &blob);
            disk.rename(&path, &folder.join(name(&blob)))?;
            disk.sync_folder(&folder)
        });
        named.await.map_err(storing)?;
        self.done = true;
        lock(&self.blobs.index).end(self.blob, true);
        Ok(())
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        lock(&self.blobs.index).end(self.blob, false);
        let (lane, path) = (Arc::clone(&self.blobs.lane), std::mem::take(&mut self.path));
        // Without a runtime the process ends; what is unfinished is removed at the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let removed = lane.run(move |disk| files::remove_if_there(disk, &path)).await;
                if let Err(error) = removed {
                    tracing::warn!(%error, "half a blob could not be removed");
                }
            });
        }
    }
}

/// A blob on its way from the disk.
pub struct BlobReader {
    blobs: Blobs,
    blob: BlobRef,
    file: File,
    /// None after an error.
    hash: Option<Sha256>,
    read: u64,
    done: bool,
}

impl BlobReader {
    #[must_use]
    pub fn blob(&self) -> BlobRef {
        self.blob
    }

    /// The next part; none after the last. The last one is given only if the hash of the whole
    /// fits.
    pub async fn next(&mut self, most: usize) -> Result<Option<Bytes>, BlobError> {
        if self.done {
            return Ok(None);
        }
        let left = self.blob.bytes - self.read;
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(most.max(1));
        let Some(mut hash) = self.hash.take() else {
            return Err(self.damaged("a part of it could not be read"));
        };
        let (file, offset) = (Arc::clone(&self.file), self.read);
        let read = self.blobs.lane.run(move |_| {
            let mut part = vec![0; bytes];
            let read = file.read_full_at(&mut part, offset)?;
            part.truncate(read);
            hash.update(&part);
            Ok((part, hash))
        });
        let (part, hash) = read.await.map_err(|error| BlobError::Io { doing: "reading", error })?;
        if part.len() < bytes {
            return Err(self.damaged("it is shorter than it was"));
        }
        self.read += part.len() as u64;
        if self.read == self.blob.bytes {
            if hash.finalize()[..] != self.blob.hash {
                return Err(self.damaged("the hash does not fit"));
            }
            self.done = true;
        } else {
            self.hash = Some(hash);
        }
        Ok(Some(Bytes::from(part)))
    }

    fn damaged(&self, why: &str) -> BlobError {
        BlobError::Damaged { blob: self.blob, why: why.to_owned() }
    }
}
