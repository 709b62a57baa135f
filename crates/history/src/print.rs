//! An op as the line that `parse` reads, so that a history that was heard once can be searched again.

use std::fmt;

use super::{Call, End, HeardAnswer, Op, Outcome, Stamp, Status, Taken, Wish};

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, start_us, call) = (&self.client, self.start_us, &self.call);
        match &self.outcome {
            Outcome::Answered { end_us, answer, stamp: Stamp { position, epoch } } => {
                write!(f, "{client} {start_us}-{end_us} {call} -> {answer} @{epoch}.{position}")
            }
            Outcome::Unknown { gone_us: Some(gone_us) } => write!(f, "{client} {start_us}-{gone_us} {call} -> ?"),
            Outcome::Unknown { gone_us: None } => write!(f, "{client} {start_us}- {call} -> ?"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Configure { resource, capacity } => write!(f, "configure {resource} {capacity}"),
            Call::Delete { resource } => write!(f, "delete {resource}"),
            Call::Acquire { resource, ttl_us, .. } => write!(f, "acquire {resource} ttl={ttl_us}"),
            Call::Renew { resource, lease, ttl_us } => write!(f, "renew {resource} {lease} ttl={ttl_us}"),
            Call::Release { resource, lease } => write!(f, "release {resource} {lease}"),
            Call::View { resource } => write!(f, "view {resource}"),
            Call::ViewLease { resource, lease } => write!(f, "view-lease {resource} {lease}"),
            Call::Claim { resource, ttl_us, .. } => write!(f, "claim {resource} ttl={ttl_us}"),
            Call::Update { resource, claim, wish } => write!(f, "update {resource} {claim} {wish}"),
            Call::ViewClaim { resource, claim } => write!(f, "view-claim {resource} {claim}"),
            Call::Lock { resource, client, ttl_us } => write!(f, "lock {resource} {client} ttl={ttl_us}"),
            Call::Unlock { resource, client } => write!(f, "unlock {resource} {client}"),
            Call::ViewLock { resource } => write!(f, "view-lock {resource}"),
        }?;
        self.key().map_or(Ok(()), |key| write!(f, " key={key}"))
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wish::Active => f.write_str("active"),
            Wish::Ttl { ttl_us } => write!(f, "ttl={ttl_us}"),
            Wish::Released => f.write_str("released"),
            Wish::Revoked => f.write_str("revoked"),
        }
    }
}

impl fmt::Display for HeardAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeardAnswer::Configured => f.write_str("ok"),
            HeardAnswer::Deleted(true) => f.write_str("deleted"),
            HeardAnswer::Deleted(false) => f.write_str("nothing-to-delete"),
            HeardAnswer::Held { lease, slot, token } => write!(f, "held {lease} slot={slot} token={token}"),
            HeardAnswer::Waiting { lease } => write!(f, "waiting {lease}"),
            HeardAnswer::Released(true) => f.write_str("released"),
            HeardAnswer::Released(false) => f.write_str("not-released"),
            HeardAnswer::Seen { capacity, in_use } => write!(f, "seen capacity={capacity} in_use={in_use}"),
            HeardAnswer::Full => f.write_str("full"),
            HeardAnswer::NotHeld => f.write_str("not-held"),
            HeardAnswer::NoResource => f.write_str("no-resource"),
            HeardAnswer::Malformed => f.write_str("malformed"),
            HeardAnswer::KeySpent => f.write_str("key-spent"),
            HeardAnswer::Active { claim, token } => write!(f, "active {claim} token={token}"),
            HeardAnswer::InLine { claim, place } => write!(f, "in-line {claim} place={place}"),
            HeardAnswer::Ended { claim, how } => write!(f, "ended {claim} {how}"),
            HeardAnswer::Refused { status } => write!(f, "refused {status}"),
            HeardAnswer::NoClaim => f.write_str("no-claim"),
            HeardAnswer::Locked { token, how: Taken::Renewed } => write!(f, "renewed token={token}"),
            HeardAnswer::Locked { token, how: Taken::Acquired { from: None } } => write!(f, "acquired token={token}"),
            HeardAnswer::Locked { token, how: Taken::Acquired { from: Some(from) } } => {
                write!(f, "acquired from={from} token={token}")
            }
            HeardAnswer::LockedBy { holder, in_grace } => {
                write!(f, "locked-by {holder}{}", if *in_grace { " in-grace" } else { "" })
            }
            HeardAnswer::NotTheHolder => f.write_str("not-the-holder"),
            HeardAnswer::LockSeen { holder: None, .. } => f.write_str("lock-free"),
            HeardAnswer::LockSeen { holder: Some((holder, token)), is_expired } => {
                write!(f, "lock-of {holder} token={token}{}", if *is_expired { " expired" } else { "" })
            }
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Waiting => f.write_str("waiting"),
            Status::Active => f.write_str("active"),
            Status::Ended(how) => how.fmt(f),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Released => "released",
            End::Revoked => "revoked",
            End::Expired => "expired",
            End::Withdrawn => "withdrawn",
        })
    }
}
