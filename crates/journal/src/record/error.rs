//! Errors in a record: where, in which field, and how.

use thiserror::Error;

/// An error in a record, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct RecordError {
    /// Counted from the start of the record.
    pub offset: usize,
    /// The field that was being read.
    pub field: &'static str,
    /// The problem with it.
    pub problem: Flaw,
}

/// A problem of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The record ends before the field does.
    #[error("{needed} more bytes were expected, {left} are left")]
    Short {
        /// The bytes that the field needs.
        needed: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// The first bytes are not those of such a record.
    #[error("these are not the bytes such a record begins with")]
    Magic,
    /// A version that this build does not read.
    #[error("format version {found} is not known here, versions 1 to {} are", super::FORMAT_VERSION)]
    Version {
        /// The version in the record.
        found: u16,
    },
    /// The checksum does not fit: the record was damaged.
    #[error("{stored:08x} is stored, the bytes before it give {computed:08x}")]
    Checksum {
        /// The checksum in the record.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A number that stands for no variant.
    #[error("number {0} means nothing")]
    Unknown(u8),
    /// A value outside of its range.
    #[error("out of range")]
    Range,
    /// A text that is no UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// Bytes follow the last field.
    #[error("{left} bytes are left over")]
    Trailing {
        /// How many.
        left: usize,
    },
}
