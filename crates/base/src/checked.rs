//! Small files that say what they are: a magic number, a version, fields, a checksum over all of
//! it.
//!
//! ```text
//! magic, 8 bytes │ version, 1 byte │ fields (postcard) │ CRC-32C of everything before it, 4 bytes
//! ```

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Which kind of file it is.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub magic: [u8; 8],
    pub version: u8,
}

/// Why a file was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The magic number is another one: somebody else's file.
    Foreign,
    /// A version that this program does not know.
    Version(u8),
    /// It was this kind of file once.
    Damaged(&'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is another kind of file"),
            Self::Version(found) => write!(f, "it has format version {found}"),
            Self::Damaged(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Unreadable {}

impl Format {
    #[must_use]
    pub fn encode(self, fields: &impl Serialize) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.push(self.version);
        // Plain fields into a vector: there is nothing in it that could fail.
        let mut bytes = postcard::to_extend(fields, bytes).unwrap_or_default();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// # Errors
    /// If the file is of another kind, of another version, or damaged.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, Unreadable> {
        let rest = bytes.strip_prefix(&self.magic).ok_or(Unreadable::Foreign)?;
        match rest.first() {
            None => return Err(Unreadable::Damaged("it ends after the magic number")),
            Some(version) if *version == self.version => {}
            Some(found) => return Err(Unreadable::Version(*found)),
        }
        let (content, sum) =
            bytes.split_last_chunk::<4>().ok_or(Unreadable::Damaged("it has no checksum"))?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
            return Err(Unreadable::Damaged("the checksum does not fit"));
        }
        let fields =
            content.get(self.magic.len() + 1..).ok_or(Unreadable::Damaged("it is cut off"))?;
        match postcard::take_from_bytes(fields) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(Unreadable::Damaged("bytes follow the last field")),
            Err(_) => Err(Unreadable::Damaged("its fields cannot be read")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { magic: *b"VLLYTEST", version: 3 };

    #[test]
    fn what_was_written_is_read_again() {
        let bytes = FORMAT.encode(&(7_u64, "name".to_owned()));
        assert_eq!(FORMAT.decode::<(u64, String)>(&bytes), Ok((7, "name".to_owned())));
    }

    /// Every cut and every changed bit is noticed, and no file is taken for another kind's.
    #[test]
    fn damage_anywhere_is_refused() {
        let bytes = FORMAT.encode(&(7_u64, "name".to_owned()));
        for end in 0..bytes.len() {
            assert!(FORMAT.decode::<(u64, String)>(&bytes[..end]).is_err(), "cut at {end}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(FORMAT.decode::<(u64, String)>(&changed).is_err(), "bit {bit}");
        }
        let newer = Format { version: 4, ..FORMAT }.encode(&1_u64);
        assert_eq!(FORMAT.decode::<u64>(&newer), Err(Unreadable::Version(4)));
        assert_eq!(FORMAT.decode::<u64>(b"hello"), Err(Unreadable::Foreign));
    }
}
