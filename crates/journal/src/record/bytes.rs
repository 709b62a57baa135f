//! Single values in and out of bytes. The reader trusts nothing: it checks every length against the remaining bytes
//! before it allocates anything.

use super::error::{Flaw, RecordError};

/// Appends a number in LEB128: seven bits a byte, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Small numbers of either sign become small varints: 0, -1, 1, -2 … are written 0, 1, 2, 3 …
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends a text behind its length.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads values off bytes, one after the other. An error names the field and its offset.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, offset: 0 }
    }

    /// How many bytes were not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// An error at the place that was reached.
    pub fn error(&self, field: &'static str, problem: Flaw) -> RecordError {
        RecordError { offset: self.offset, field, problem }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], RecordError> {
        match usize::try_from(len) {
            Ok(len) if len <= self.left() => {
                let taken = &self.bytes[self.offset..self.offset + len];
                self.offset += len;
                Ok(taken)
            }
            _ => Err(self.error(field, Flaw::Short { needed: len, left: self.left() })),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let taken = self.take(field, N as u64)?;
        Ok(taken.try_into().expect("take gives as many bytes as were asked for"))
    }

    /// A byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, RecordError> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    /// A little-endian number of two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// A little-endian number of four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// A little-endian number of eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A little-endian number of sixteen bytes.
    pub fn u128(&mut self, field: &'static str) -> Result<u128, RecordError> {
        Ok(u128::from_le_bytes(self.array(field)?))
    }

    /// A number in LEB128.
    pub fn varint(&mut self, field: &'static str) -> Result<u64, RecordError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(field)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if bits << shift >> shift != bits {
                return Err(self.error(field, Flaw::Range));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(field, Flaw::Range))
    }

    /// A number of entries, each of which takes at least one byte.
    pub fn count(&mut self, field: &'static str) -> Result<usize, RecordError> {
        let count = self.varint(field)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => Err(self.error(field, Flaw::Range)),
        }
    }

    pub(super) fn varint_u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        let value = self.varint(field)?;
        u32::try_from(value).map_err(|_| self.error(field, Flaw::Range))
    }

    /// A text behind its length.
    pub fn str(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let len = self.varint(field)?;
        let bytes = self.take(field, len)?;
        str::from_utf8(bytes).map_err(|_| self.error(field, Flaw::Utf8))
    }

    /// Asserts that nothing follows the value that was read.
    pub fn end(&self, field: &'static str) -> Result<(), RecordError> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error(field, Flaw::Trailing { left })),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert!(out.len() <= 10);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint("v"), Ok(value));
            prop_assert_eq!(reader.left(), 0);
        }

        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn small_numbers_of_either_sign_stay_small() {
        assert_eq!([0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag), [0, 1, 2, 3, u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_out_of_range() {
        let mut bytes = [0xff; 10];
        bytes[9] = 0x01;
        assert_eq!(Reader::new(&bytes).varint("v"), Ok(u64::MAX));
        bytes[9] = 0x02;
        assert_eq!(Reader::new(&bytes).varint("v").map_err(|e| e.problem), Err(Flaw::Range));
        assert_eq!(Reader::new(&[0x80; 11]).varint("v").map_err(|e| e.problem), Err(Flaw::Range));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_before_anything_is_allocated() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        let error = Reader::new(&bytes).str("name").unwrap_err();
        assert_eq!(
            error,
            RecordError { offset: 10, field: "name", problem: Flaw::Short { needed: u64::MAX, left: 0 } }
        );
    }
}
