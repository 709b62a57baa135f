//! Single values in and out of bytes, as the journal's records have them. The reader trusts nothing: it checks every
//! length against the remaining bytes before it allocates.

use leasehold_journal::record::{Flaw, RecordError};

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

pub(super) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, offset: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(super) fn error(&self, field: &'static str, problem: Flaw) -> RecordError {
        RecordError { offset: self.offset, field, problem }
    }

    pub(super) fn take(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], RecordError> {
        match usize::try_from(len) {
            Ok(len) if len <= self.left() => {
                let taken = &self.bytes[self.offset..self.offset + len];
                self.offset += len;
                Ok(taken)
            }
            _ => Err(self.error(field, Flaw::Short { needed: len, left: self.left() })),
        }
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let taken = self.take(field, N as u64)?;
        Ok(taken.try_into().expect("take gives as many bytes as were asked for"))
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, RecordError> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self, field: &'static str) -> Result<u128, RecordError> {
        self.array(field).map(u128::from_le_bytes)
    }

    pub(super) fn varint(&mut self, field: &'static str) -> Result<u64, RecordError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(field)?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(field, Flaw::Range))
    }

    /// A number of entries, each of which takes at least one byte.
    pub(super) fn count(&mut self, field: &'static str) -> Result<usize, RecordError> {
        let count = self.varint(field)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => Err(self.error(field, Flaw::Range)),
        }
    }

    pub(super) fn str(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let len = self.varint(field)?;
        let bytes = self.take(field, len)?;
        str::from_utf8(bytes).map_err(|_| self.error(field, Flaw::Utf8))
    }

    pub(super) fn end(&self, field: &'static str) -> Result<(), RecordError> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error(field, Flaw::Trailing { left })),
        }
    }
}
