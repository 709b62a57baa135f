//! Every bound that a caller can meet and no operator can set, by name. They are part of the documented contract. The
//! bounds that can be set are in `settings` and `http/limits.rs`; those of the engine, in its own `limits.rs`.

use std::time::Duration;

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

/// Streams that a connection has in any case, also when its address has used up its share of them.
pub const H2_STREAMS_MIN: u32 = 8;

/// Streams in all, for each connection that there may be. Each connection is promised [`H2_STREAMS_MAX`] of them when it
/// is opened, as long as there are so many.
pub const H2_STREAMS_PER_CONNECTION: u32 = 8;

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

/// Longest name of a resource, a job or a client, in bytes.
pub const NAME_MAX: usize = 1024;

/// Longest name that a borrower gives itself, in bytes.
pub const HOLDER_MAX: usize = 255;

/// Longest reason of a pause, or of a slot that is out of service, in bytes.
pub const REASON_MAX: usize = 200;

/// Most slots of one resource that may have names.
pub const NAMED_SLOTS_MAX: usize = 1_000;

/// Longest name of a slot, in bytes.
pub const SLOT_NAME_MAX: usize = 100;

/// Most data of all slots of one resource together, in bytes as it was sent.
pub const SLOT_DATA_MAX: usize = 16 << 10;

/// Longest label of a pool, in bytes.
pub const LABEL_MAX: usize = 255;

/// The least and the most seconds after which a claim that is not asked about is withdrawn.
pub const WAIT_TTL_S: std::ops::RangeInclusive<u64> = 5..=86_400;

/// The least and the most seconds that a caller may have to confirm a grant.
pub const CONFIRM_S: std::ops::RangeInclusive<u64> = 5..=3_600;
/// Longest name of a Terraform lock, in bytes. With its prefix it is the name of a resource.
pub const TERRAFORM_NAME_MAX: usize = 1_000;

/// Longest group of machines that reboot in turn, in bytes. With its prefix it is the name of a resource.
pub const FLEETLOCK_GROUP_MAX: usize = 1_000;

/// Longest time that a place in line outlives the last call that waits there.
pub const KEEP_MAX_US: u64 = 300_000_000;

/// Longest `Idempotency-Key`, in bytes.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// Parameters in one query. Finding one given twice takes time that grows with the square of this.
pub const PARAMETERS_MAX: usize = 64;

/// Longest id of a caller's that is taken over.
pub const REQUEST_ID_MAX: usize = 128;

/// Objects and arrays inside one another. serde's reader is recursive, so there has to be an end.
pub const DEPTH_MAX: usize = 64;

/// Claims and resources on a page, unless the caller says how many …
pub const CLAIMS_LIMIT_DEFAULT: usize = 100;

/// … and at most.
pub const CLAIMS_LIMIT_MAX: usize = 1_000;

/// How far a page of claims or resources can begin from the first.
pub const CLAIMS_OFFSET_MAX: usize = 10_000_000;

/// Lines of an observed list on a page, unless the caller says how many …
pub const WATCH_LIMIT_DEFAULT: usize = 100;

/// … and at most.
pub const WATCH_LIMIT_MAX: usize = 500;

/// How far a page of an observed list can begin from its cursor.
pub const WATCH_OFFSET_MAX: usize = 100_000_000;

/// Longest text to look for.
pub const SEARCH_MAX: usize = 1_024;

/// Events of a history, unless the caller says how many …
pub const HISTORY_DEFAULT: usize = 1_000;

/// … and at most.
pub const HISTORY_MAX: usize = 10_000;

/// Readers at the same time. The next one gets a 503.
pub const READERS_MAX: usize = 1_024;

/// Callers that look out for a change of a lock, at the same time. The next one gets a 503.
pub const LOOKOUTS_MAX: usize = 16_384;

/// Longest `aud` of a proof, in bytes.
pub const AUDIENCE_MAX: usize = 200;

/// Longest life of a proof: it cannot know of a release.
pub const PROOF_MAX_US: u64 = 300_000_000;

/// How long a public key stays in the set after another took its place.
pub const PROOF_KEY_RETIRED_S: u64 = 86_400;

/// Keys of proofs at the same time, and so rotations in a day.
pub const PROOF_KEYS_MAX: usize = 8;

/// Surveys at the same time: each goes over everything there is, so they queue up.
pub const SURVEYS_MAX: usize = 2;

/// The order of a list that is paged through is kept this long after it was last used.
pub const ORDER_KEPT_US: u64 = 5 * 60 * 1_000_000;

/// Most resources in one kept order; fewer where their names are long.
pub const ORDER_LENGTH_MAX: usize = 100_000;

/// Steps of logins that an address may take at once …
pub const LOGIN_STEPS_AT_ONCE: u64 = 60;

/// … and how long it takes until it may take one more.
pub const LOGIN_STEP_EVERY_US: u64 = 1_000_000;
