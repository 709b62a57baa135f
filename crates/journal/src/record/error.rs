//! Errors in a record: where, in which field, and how.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct RecordError {
    /// Counted from the start of the record.
    pub offset: usize,
    pub field: &'static str,
    pub problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("{needed} more bytes were expected, {left} are left")]
    Short { needed: u64, left: usize },
    #[error("these are not the bytes such a record begins with")]
    Magic,
    #[error("format version {found} is not known here, versions 1 to {} are", super::FORMAT_VERSION)]
    Version { found: u16 },
    #[error("{stored:08x} is stored, the bytes before it give {computed:08x}")]
    Checksum { stored: u32, computed: u32 },
    #[error("number {0} means nothing")]
    Unknown(u8),
    #[error("out of range")]
    Range,
    #[error("not UTF-8")]
    Utf8,
    #[error("{left} bytes are left over")]
    Trailing { left: usize },
}
