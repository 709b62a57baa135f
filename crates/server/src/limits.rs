//! Every bound that a caller can meet and no operator can set, by name. They are part of the documented contract. Those
//! of HTTP itself are in the `limits.rs` of `leasehold-http`, those of the engine in its own. The bounds that can be
//! set are in `settings` and in [`HttpLimits`](leasehold_http::HttpLimits).

use std::time::Duration;

pub use leasehold_http::limits::{BODY_MAX, HEADERS_MAX, PIECE_MAX, URI_MAX};

/// A list ends after about so many bytes, as well as after so many items: callers decide how long an item is.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The most that an operator may set `metadata_max` to, in bytes: a body has to hold it, with its resource and the
/// rest.
pub const METADATA_MAX_MOST: usize = BODY_MAX / 4 * 3;

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

/// A search looks into the beginning of each text, in bytes.
pub const SEARCHED_MAX: usize = 1_024;

/// The longest key of an observed resource, in bytes: a kind, a colon and a name.
pub const KEY_MAX: usize = "claim:".len() + NAME_MAX;

/// Longest metadata that the name of a holder is looked for in, in bytes: a list goes over all resources.
pub const NAMING_METADATA_MAX: usize = 1_024;

/// A text in metadata names a holder up to this length, in bytes; beyond it, it is a story.
pub const NAMING_TEXT_MAX: usize = 80;

/// Seconds of the series for charts.
pub const SERIES_SECONDS: usize = 600;

/// A reader of events that has heard nothing for this long hears at least that the line is open.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

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

/// Addresses whose steps are remembered; those that took one longest ago are forgotten first.
pub const LOGIN_ADDRESSES_MAX: usize = 10_000;

/// Finished logins remembered, for as long as their cookie would be good.
pub const LOGINS_FINISHED_MAX: usize = 100_000;
