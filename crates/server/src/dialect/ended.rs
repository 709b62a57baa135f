//! How a lease or a claim ended, in one word for whoever lost it, the same in every dialect.

use leasehold_engine::Ending;

pub(crate) const WORDS: [&str; 5] = ["returned", "expired", "revoked", "withdrawn", "deleted"];

pub(crate) fn word(how: Ending) -> &'static str {
    match how {
        Ending::Released => "returned",
        Ending::Expired | Ending::Superseded => "expired",
        Ending::Revoked | Ending::Aborted => "revoked",
        Ending::Withdrawn | Ending::TimedOut | Ending::HandedBack => "withdrawn",
        Ending::Deleted => "deleted",
    }
}
