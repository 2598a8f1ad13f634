//! Numbers and texts as bytes, and the envelope around them.

use super::{VERSION, WireError};

const MAGIC: u8 = b'V';
const HEAD: usize = 3;
const CHECKSUM: usize = 4;

/// No counter of an honest run comes near; sums of many stay far from overflow.
pub(crate) const COUNT_MAX: u64 = 1 << 53;

#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    pub fn int(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn len(&mut self, len: usize) {
        self.int(len as u64);
    }

    pub fn long(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn id(&mut self, id: u128) {
        self.0.extend_from_slice(&id.to_le_bytes());
    }

    pub fn float(&mut self, value: f64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Pages of buckets that may still be made: each costs far more memory than bytes.
    pub pages_left: usize,
}

type Read<T> = Result<T, WireError>;

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], pages: usize) -> Reader<'a> {
        Reader { bytes, at: 0, pages_left: pages }
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if rest.len() < count {
            return Err(WireError::Truncated { at: self.at });
        }
        self.at += count;
        Ok(&rest[..count])
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn flag(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            value => {
                Err(WireError::OutOfRange { what: "a flag", value: u64::from(value), limit: 1 })
            }
        }
    }

    pub fn int(&mut self) -> Read<u64> {
        let long = self.long()?;
        u64::try_from(long).map_err(|_| WireError::OutOfRange {
            what: "a number",
            value: u64::MAX,
            limit: u64::MAX,
        })
    }

    pub fn long(&mut self) -> Read<u128> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            // The last byte has room for two bits; zeros at the end would be a second spelling.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Contradiction { what: "a number of too many bytes" })
    }

    /// A number up to `limit`, inclusive.
    pub fn within(&mut self, what: &'static str, limit: u64) -> Read<u64> {
        let value = self.int()?;
        if value > limit {
            return Err(WireError::OutOfRange { what, value, limit });
        }
        Ok(value)
    }

    pub fn counter(&mut self) -> Read<u64> {
        self.within("a counter", COUNT_MAX)
    }

    /// An index below `limit`.
    pub fn index(&mut self, what: &'static str, limit: usize) -> Read<u32> {
        let value = self.int()?;
        if value >= limit as u64 || value > u64::from(u32::MAX) {
            return Err(WireError::OutOfRange { what, value, limit: limit as u64 });
        }
        Ok(value as u32)
    }

    /// How many elements follow: each takes a byte at least.
    pub fn len(&mut self, what: &'static str, limit: usize) -> Read<usize> {
        let value = self.within(what, limit as u64)? as usize;
        if value > self.bytes.len() - self.at {
            return Err(WireError::Truncated { at: self.bytes.len() });
        }
        Ok(value)
    }

    pub fn id(&mut self) -> Read<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub fn float(&mut self) -> Read<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A float that is a number.
    pub fn number(&mut self, what: &'static str) -> Read<f64> {
        let value = self.float()?;
        if value.is_nan() {
            return Err(WireError::Contradiction { what });
        }
        Ok(value)
    }

    pub fn bytes(&mut self, what: &'static str, limit: usize) -> Read<&'a [u8]> {
        let len = self.len(what, limit)?;
        self.take(len)
    }

    pub fn text(&mut self, what: &'static str, limit: usize) -> Read<&'a str> {
        std::str::from_utf8(self.bytes(what, limit)?).map_err(|_| WireError::NotText { what })
    }

    pub fn end(&self) -> Read<()> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            bytes => Err(WireError::Trailing { bytes }),
        }
    }
}

/// Puts a body into its envelope.
pub(crate) fn seal(kind: u8, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer(vec![MAGIC, VERSION, kind]);
    write(&mut writer);
    let checksum = crc32c::crc32c(&writer.0);
    writer.0.extend_from_slice(&checksum.to_le_bytes());
    writer.0
}

/// The body of an envelope that is whole, of this kind, and no larger than allowed.
pub(crate) fn open(kind: u8, bytes: &[u8], limit: usize) -> Result<&[u8], WireError> {
    if bytes.len() > limit {
        return Err(WireError::TooLarge { bytes: bytes.len(), limit });
    }
    if bytes.len() < HEAD + CHECKSUM {
        return Err(WireError::Truncated { at: bytes.len() });
    }
    if bytes[0] != MAGIC {
        return Err(WireError::Foreign);
    }
    // Before the checksum: a later version may have another.
    if bytes[1] > VERSION {
        return Err(WireError::FutureVersion { found: bytes[1] });
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    if crc32c::crc32c(content).to_le_bytes() != checksum {
        return Err(WireError::Checksum);
    }
    if bytes[1] != VERSION || bytes[2] != kind {
        return Err(WireError::Foreign);
    }
    Ok(&content[HEAD..])
}
