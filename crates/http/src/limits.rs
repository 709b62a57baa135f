//! The bounds of HTTP. A caller can meet all of them. Those with a name of their own are part of the contract; an
//! operator can set those of [`HttpLimits`], and tests set them to milliseconds.

use std::time::Duration;

use super::unsent::Unsent;

/// Longest body read, in bytes. One more is 413.
pub const BODY_MAX: usize = 64 * 1024;

/// The part of a body past [`BODY_MAX`] that is read and thrown away, so that a client that writes before it reads
/// still gets to see its 413. A body announced longer than this is refused unread, and its connection closed.
pub const BODY_DRAIN_MAX: u64 = 1024 * 1024;

/// Longest request target (path and query), in bytes. One more is 414.
pub const URI_MAX: usize = 4 * 1024;

/// Longest name or address in `Host`, in bytes, as DNS has it, and the digits of its port. One more is 400.
pub const HOST_MAX: usize = 255;
pub const PORT_DIGITS_MAX: usize = 5;

/// All header lines together, in bytes as they are on the wire. One more is 431.
pub const HEADERS_MAX: usize = 16 * 1024;

/// The buffer in which hyper looks for the end of a head. Larger than [`URI_MAX`] and [`HEADERS_MAX`] together, so that
/// a head somewhat past either is still parsed and gets an answer with a sentence; far past it hyper answers a bare
/// 431.
pub const HEAD_BUFFER_MAX: usize = 32 * 1024;

const _: () = assert!(HEAD_BUFFER_MAX > URI_MAX + HEADERS_MAX, "an oversized head must still parse");

/// A long body is given to hyper in pieces of this size. On HTTP/1.1 it copies them into a buffer that the connection
/// keeps, and takes no more while there are 32 KiB in it ([`HEAD_BUFFER_MAX`]): in one piece, 100 KiB of answer would
/// be 100 KiB of memory for as long as the connection lives.
pub const PIECE_MAX: usize = 16 * 1024;

/// The bytes of one HTTP/2 stream's answer that hyper takes ahead of the peer's window.
pub const H2_SEND_BUFFER: usize = 32 * 1024;

/// Streams at once on one HTTP/2 connection. Each parked long poll is one.
pub const H2_STREAMS_MAX: u32 = 256;

/// Streams that a connection has in any case, also when its address has used up its share of them.
pub const H2_STREAMS_MIN: u32 = 8;

/// Streams in all, for each connection that there may be. Each connection is promised [`H2_STREAMS_MAX`] of them when
/// it is opened, as long as there are so many.
pub const H2_STREAMS_PER_CONNECTION: u32 = 8;

/// A stream may send this much before we read: one body of the longest kind, and then it waits.
pub const H2_STREAM_WINDOW: u32 = 64 * 1024;

/// The bytes that all streams of one HTTP/2 connection may send before we read.
pub const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Connections over the limit at the same time, for each so many that there may be: until their first bytes have come,
/// in case they ask for the health of the service, or while they are told that there are too many. Past this they are
/// closed without a word. Peers that say nothing are waited for only for [`RESERVE_PATIENCE`]; at most three quarters
/// of those that are waited for have one address.
pub fn beyond_max(connections_max: u32) -> u32 {
    (connections_max / 32).clamp(64, 320)
}

/// Connections past the limit that may still ask for the health of the service.
pub const RESERVED_MAX: u32 = 16;

/// How many of those one address may have.
pub const RESERVED_PER_ADDRESS: u32 = 4;

/// How long a connection past the limit may take to send such a request.
pub const RESERVE_PATIENCE: Duration = Duration::from_millis(250);

/// After the signal to stop: how long a stream may take to end. It is told at once, so this is for a reader that
/// stopped reading.
pub const STREAM_DRAIN: Duration = Duration::from_millis(500);

/// Parameters in one query. Finding one given twice takes time that grows with the square of this.
pub const PARAMETERS_MAX: usize = 64;

/// Longest id of a caller's that is taken over.
pub const REQUEST_ID_MAX: usize = 128;

/// Objects and arrays inside one another. serde's reader is recursive, so there has to be an end.
pub const DEPTH_MAX: usize = 64;

/// The times and counts of the HTTP side that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections open at once. The next one gets a short 503 and is closed.
    pub connections_max: u32,
    /// The part of them that one address may have. `None`: three quarters, for every address but this machine's own.
    pub connections_max_per_address: Option<u32>,
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
    /// Bytes of bodies that have begun to come and have not ended, in the whole process. Past it the next one is a 503.
    /// A body that comes in one piece is not among them.
    pub unended: Unsent,
    /// The same two for operators: what [`Handler::reserved_paths`](super::Handler::reserved_paths) answer, and all of
    /// a listener that is theirs.
    pub unsent_reserved: Unsent,
    pub unended_reserved: Unsent,
    /// After the signal to stop: how long answers under way may take.
    pub drain_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections_max: 16_384,
            connections_max_per_address: None,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(30),
            unsent: Unsent::at_most(64 * 1024 * 1024),
            unended: Unsent::at_most(256 * 1024 * 1024),
            unsent_reserved: Unsent::at_most(8 * 1024 * 1024),
            unended_reserved: Unsent::at_most(4 * 1024 * 1024),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
