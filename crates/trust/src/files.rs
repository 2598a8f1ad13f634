//! Certificate files: private from the first byte, never written over, never read without a bound.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The largest PEM file that is read; a chain of ten certificates has a twentieth of it.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Creates a file that only its owner may read, and fails if there is one already.
///
/// # Errors
/// If it exists, or cannot be written; half a file is never left.
pub fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // The file is ours, made two lines above; half a key is worse than none.
        let _ = fs::remove_file(path);
    }
    written
}

/// Creates both files or neither. The key comes first, so that a certificate is never there without
/// it.
pub(crate) fn create_pair(key: (&Path, &[u8]), certificate: (&Path, &[u8])) -> io::Result<()> {
    if certificate.0.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    create_private(key.0, key.1)?;
    let made = create_private(certificate.0, certificate.1);
    if made.is_err() {
        let _ = fs::remove_file(key.0);
    }
    made
}

/// Creates a folder that only its owner may enter. An existing one is left as it is.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file is larger than {FILE_BYTES_MAX} bytes, too large for certificates"),
        ));
    }
    Ok(bytes)
}
