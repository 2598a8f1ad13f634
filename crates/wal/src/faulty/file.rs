//! One file of the disk in memory: what is visible, what is durable, and the writes between the
//! two.

/// Bytes with a length of their own: what was allocated and never written costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    data: Vec<u8>,
    pub len: u64,
}

impl Content {
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset as usize..end].copy_from_slice(bytes);
        self.len = self.len.max(end as u64);
    }

    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let n = (self.len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let held = (self.data.len() as u64).saturating_sub(offset).min(n as u64) as usize;
        if held > 0 {
            buffer[..held].copy_from_slice(&self.data[offset as usize..offset as usize + held]);
        }
        buffer[held..n].fill(0);
        n
    }

    pub fn set_len(&mut self, len: u64) {
        self.data.truncate(len as usize);
        self.len = len;
    }

    pub fn flip(&mut self, bit: u64) -> bool {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        if byte >= self.len {
            return false;
        }
        if self.data.len() as u64 <= byte {
            self.data.resize(byte as usize + 1, 0);
        }
        self.data[byte as usize] ^= mask;
        true
    }

    /// The bytes without the zeros at the end.
    pub fn trimmed(&self) -> Vec<u8> {
        let end = self.data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.data[..end].to_vec()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Extend(u64),
}

impl Change {
    pub fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::SetLen(len) => content.set_len(*len),
            Self::Extend(len) => content.len = content.len.max(*len),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub visible: Content,
    pub durable: Content,
    /// What a flush has yet to make durable, in order.
    pub pending: Vec<Change>,
}

impl File {
    pub fn change(&mut self, change: Change) {
        change.apply(&mut self.visible);
        self.pending.push(change);
    }

    /// An honest flush.
    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A failed flush: the system believes the pages to be clean, so no later flush writes them.
    /// They stay readable.
    pub fn lose_pending(&mut self) {
        self.pending.clear();
    }
}
