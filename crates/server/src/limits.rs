//! Every bound of the HTTP side, by name. The constants are part of the documented contract; the fields of
//! [`HttpLimits`] may be set, and tests set them to milliseconds.

use std::time::Duration;

use super::unsent::Unsent;

/// Longest body read, in bytes. One more is 413.
pub const BODY_MAX: usize = 64 * 1024;

/// The part of a body past [`BODY_MAX`] that is read and thrown away, so that a client that writes before it reads
/// still gets to see its 413. A body announced longer than this is refused unread, and its connection closed.
pub const BODY_DRAIN_MAX: u64 = 1024 * 1024;

/// Longest request target (path and query), in bytes. One more is 414.
pub const URI_MAX: usize = 4 * 1024;

/// All header lines together, in bytes as they are on the wire. One more is 431.
pub const HEADERS_MAX: usize = 16 * 1024;

/// The buffer in which hyper looks for the end of a head. Larger than [`URI_MAX`] and [`HEADERS_MAX`] together, so that
/// a head somewhat past either is still parsed and gets an answer with a sentence; far past it hyper answers a bare 431.
pub const HEAD_BUFFER_MAX: usize = 32 * 1024;

const _: () = assert!(HEAD_BUFFER_MAX > URI_MAX + HEADERS_MAX, "an oversized head must still parse");

/// A long body is given to hyper in pieces of this size. On HTTP/1.1 it copies them into a buffer that the connection
/// keeps, and takes no more while there are 32 KiB in it ([`HEAD_BUFFER_MAX`]): in one piece, 100 KiB of answer would
/// be 100 KiB of memory for as long as the connection lives.
pub const PIECE_MAX: usize = 16 * 1024;

/// A list ends after about so many bytes, as well as after so many items: callers decide how long an item is.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The bytes of one HTTP/2 stream's answer that hyper takes ahead of the peer's window.
pub const H2_SEND_BUFFER: usize = 32 * 1024;

/// Streams at once on one HTTP/2 connection. Each parked long poll is one.
pub const H2_STREAMS_MAX: u32 = 256;

/// A stream may send this much before we read: one body of the longest kind, and then it waits.
pub const H2_STREAM_WINDOW: u32 = 64 * 1024;

/// The bytes that all streams of one HTTP/2 connection may send before we read.
pub const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Connections over the limit that are told so at the same time. Past this they are closed without a word.
pub const REFUSALS_MAX: usize = 64;

/// Connections past the limit that may still ask for the health of the service.
pub const RESERVED_MAX: u32 = 16;

/// How many of those one address may have.
pub const RESERVED_PER_ADDRESS: u32 = 4;

/// How long a connection past the limit may take to send such a request.
pub const RESERVE_PATIENCE: Duration = Duration::from_millis(250);

/// After the signal to stop: how long a stream may take to end. It is told at once, so this is for a reader that
/// stopped reading.
pub const STREAM_DRAIN: Duration = Duration::from_millis(500);

/// The times and counts of the HTTP side that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections open at once. The next one gets a short 503 and is closed.
    pub connections_max: u32,
    /// The part of them that one address may have. `None`: three quarters, for every address but this machine's own.
    pub connections_per_address: Option<u32>,
    /// From the first byte of a request (or from connecting) until its head is complete.
    pub head_timeout: Duration,
    /// Between requests of a kept connection.
    pub idle_timeout: Duration,
    /// From the end of a head until the end of its body.
    pub body_timeout: Duration,
    /// An HTTP/2 peer that has said nothing for this long is asked for a sign of life …
    pub ping_interval: Duration,
    /// … and is given up after this long without one.
    pub ping_timeout: Duration,
    /// A client that has taken nothing of an answer for this long has stopped reading it.
    pub stall_timeout: Duration,
    /// Bytes of answers that may wait for their clients, in the whole process. Past it a long answer becomes a 503.
    pub unsent: Unsent,
    /// After the signal to stop: how long answers under way may take.
    pub drain_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 16_384,
            connections_per_address: None,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(30),
            unsent: Unsent::at_most(64 * 1024 * 1024),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
