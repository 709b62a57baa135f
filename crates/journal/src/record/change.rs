//! One change in and out of bytes. The batch writes time, claim and tag, relative to the previous change; this file
//! writes the fields of each variant.

use leasehold_engine::{Change, ClaimId, Claimed, Time, Token, planted};

use super::bytes::{Reader, put_str, put_varint};
use super::error::{Flaw, RecordError};
use super::numbers::{change, part};
use super::parts::{self, Rare, Said};

pub(super) fn number(change: &Change) -> u8 {
    match change {
        Change::Marked => change::MARKED,
        Change::Jumped { .. } => change::JUMPED,
        Change::Configured { .. } => change::CONFIGURED,
        Change::Unconfigured { .. } => change::UNCONFIGURED,
        Change::Labeled { .. } => change::LABELED,
        Change::Claimed(claimed) if !claimed.particulars.is_empty() => change::CLAIMED_WITH,
        Change::Claimed(claimed) if claimed.principal.is_some() => change::CLAIMED_BY,
        Change::Claimed(_) => change::CLAIMED,
        Change::Joined { .. } => change::JOINED,
        Change::Kept { .. } => change::KEPT,
        Change::Granted { .. } => change::GRANTED,
        Change::Confirmed { .. } => change::CONFIRMED,
        Change::Renewed { .. } => change::RENEWED,
        Change::Retimed { .. } => change::RETIMED,
        Change::GraceBegan { .. } => change::GRACE_BEGAN,
        Change::GraceOver { .. } => change::GRACE_OVER,
        Change::Ended { .. } => change::ENDED,
        Change::Forgotten { .. } => change::FORGOTTEN,
        Change::Paused { .. } => change::PAUSED,
        Change::Resumed { .. } => change::RESUMED,
        Change::SlotServed { .. } => change::SLOT_SERVED,
        Change::SlotsNamed { .. } => change::SLOTS_NAMED,
    }
}

/// Returns whether changes of this number name a claim.
pub(super) fn names_claim(number: u8) -> bool {
    !matches!(
        number,
        change::MARKED
            | change::JUMPED
            | change::CONFIGURED
            | change::UNCONFIGURED
            | change::LABELED
            | change::PAUSED
            | change::RESUMED
            | change::SLOT_SERVED
            | change::SLOTS_NAMED
    )
}

pub(super) fn claim_of(change: &Change) -> Option<ClaimId> {
    match change {
        Change::Marked
        | Change::Jumped { .. }
        | Change::Configured { .. }
        | Change::Unconfigured { .. }
        | Change::Labeled { .. }
        | Change::Paused { .. }
        | Change::Resumed { .. }
        | Change::SlotServed { .. }
        | Change::SlotsNamed { .. } => None,
        Change::Claimed(claimed) => Some(claimed.claim),
        Change::Joined { claim, .. }
        | Change::Kept { claim, .. }
        | Change::Granted { claim, .. }
        | Change::Confirmed { claim }
        | Change::Renewed { claim, .. }
        | Change::Retimed { claim, .. }
        | Change::GraceBegan { claim }
        | Change::GraceOver { claim }
        | Change::Ended { claim, .. }
        | Change::Forgotten { claim } => Some(*claim),
    }
}

/// Writes the fields that follow tag, time and claim.
pub(super) fn put_fields(out: &mut Vec<u8>, change: &Change, at: Time) {
    match change {
        Change::Marked
        | Change::Confirmed { claim: _ }
        | Change::GraceBegan { claim: _ }
        | Change::GraceOver { claim: _ }
        | Change::Forgotten { claim: _ } => {}
        Change::Jumped { last_token } => put_varint(out, last_token.0),
        Change::Configured { resource, capacity } => {
            parts::put_resource(out, resource);
            put_varint(out, u64::from(*capacity));
        }
        Change::Unconfigured { resource } | Change::Resumed { resource } => parts::put_resource(out, resource),
        Change::Paused { resource, reason, until } => {
            parts::put_resource(out, resource);
            put_str(out, reason);
            parts::put_time(out, *until, at);
        }
        Change::SlotServed { resource, slot, out: reason } => {
            parts::put_resource(out, resource);
            put_varint(out, u64::from(*slot));
            parts::put_optional(out, reason.as_ref());
        }
        Change::SlotsNamed { resource, slots } => {
            parts::put_resource(out, resource);
            parts::put_slots(out, slots.as_deref());
        }
        Change::Labeled { resource, label } => {
            parts::put_resource(out, resource);
            parts::put_optional(out, label.as_ref());
        }
        Change::Claimed(claimed) => put_claimed(out, claimed, at),
        Change::Joined { claim: _, wait_until } | Change::Kept { claim: _, wait_until } => {
            parts::put_time(out, *wait_until, at);
        }
        Change::Granted { claim: _, slot, token, lease } => {
            put_varint(out, u64::from(*slot));
            put_varint(out, token.0);
            parts::put_lease(out, *lease, at);
        }
        Change::Renewed { claim: _, lease } => parts::put_lease(out, *lease, at),
        Change::Retimed { claim: _, ttl_us } => put_varint(out, *ttl_us),
        Change::Ended { claim: _, how } => out.push(parts::ending_number(*how)),
    }
}

/// Reads the fields of a change of this number. `claim` is `Some` exactly when `names_claim(number)`.
pub(super) fn fields(
    reader: &mut Reader<'_>,
    number: u8,
    claim: Option<ClaimId>,
    at: Time,
) -> Result<Change, RecordError> {
    match (number, claim) {
        (change::MARKED, None) => Ok(Change::Marked),
        (change::JUMPED, None) => Ok(Change::Jumped { last_token: Token(reader.varint("token")?) }),
        (change::CONFIGURED, None) => {
            let resource = parts::resource_key(reader)?;
            Ok(Change::Configured { resource, capacity: reader.varint_u32("capacity")? })
        }
        (change::UNCONFIGURED, None) => Ok(Change::Unconfigured { resource: parts::resource_key(reader)? }),
        (change::PAUSED, None) => {
            let resource = parts::resource_key(reader)?;
            let reason = reader.str("reason")?.into();
            Ok(Change::Paused { resource, reason, until: parts::time(reader, "until", at)? })
        }
        (change::RESUMED, None) => Ok(Change::Resumed { resource: parts::resource_key(reader)? }),
        (change::SLOT_SERVED, None) => {
            let resource = parts::resource_key(reader)?;
            let slot = reader.varint_u32("slot")?;
            Ok(Change::SlotServed { resource, slot, out: parts::optional(reader, "reason")? })
        }
        (change::SLOTS_NAMED, None) => {
            let resource = parts::resource_key(reader)?;
            Ok(Change::SlotsNamed { resource, slots: parts::slots(reader)? })
        }
        (change::LABELED, None) => {
            let resource = parts::resource_key(reader)?;
            Ok(Change::Labeled { resource, label: parts::optional(reader, "label")? })
        }
        (change::CLAIMED, Some(claim)) => claimed(reader, claim, Rare::default(), at),
        (change::CLAIMED_BY, Some(claim)) => {
            let rare = Rare::signed(reader)?;
            claimed(reader, claim, rare, at)
        }
        (change::CLAIMED_WITH, Some(claim)) => {
            let rare = Rare::get(reader)?;
            claimed(reader, claim, rare, at)
        }
        (change::CONFIRMED, Some(claim)) => Ok(Change::Confirmed { claim }),
        (change::JOINED, Some(claim)) => {
            Ok(Change::Joined { claim, wait_until: parts::time(reader, "wait until", at)? })
        }
        (change::KEPT, Some(claim)) => Ok(Change::Kept { claim, wait_until: parts::time(reader, "wait until", at)? }),
        (change::GRANTED, Some(claim)) => {
            let slot = reader.varint_u32("slot")?;
            let token = Token(reader.varint("token")?);
            Ok(Change::Granted { claim, slot, token, lease: parts::lease(reader, at)? })
        }
        (change::RENEWED, Some(claim)) => Ok(Change::Renewed { claim, lease: parts::lease(reader, at)? }),
        (change::RETIMED, Some(claim)) => Ok(Change::Retimed { claim, ttl_us: reader.varint("ttl")? }),
        (change::GRACE_BEGAN, Some(claim)) => Ok(Change::GraceBegan { claim }),
        (change::GRACE_OVER, Some(claim)) => Ok(Change::GraceOver { claim }),
        (change::ENDED, Some(claim)) => Ok(Change::Ended { claim, how: parts::ending(reader)? }),
        (change::FORGOTTEN, Some(claim)) => Ok(Change::Forgotten { claim }),
        (unknown, _) => Err(reader.error("change", Flaw::Unknown(unknown))),
    }
}

fn put_claimed(out: &mut Vec<u8>, claimed: &Claimed, at: Time) {
    let Claimed { claim: _, resource, ttl_us, wait_until, keep_us, client, principal, key, metadata, particulars } =
        claimed;
    let said = Said { client, key: if planted!(KeyNotInBatch) { &None } else { key }, metadata };
    parts::put_rare(out, principal.as_ref(), particulars);
    out.push(said.flags() | if *keep_us == 0 { 0 } else { part::KEEP });
    parts::put_resource(out, resource);
    put_varint(out, *ttl_us);
    parts::put_time(out, *wait_until, at);
    parts::put_keep(out, *keep_us);
    said.put(out);
}

fn claimed(reader: &mut Reader<'_>, claim: ClaimId, rare: Rare, at: Time) -> Result<Change, RecordError> {
    let flags = parts::part_flags(reader, part::CLIENT | part::KEY | part::METADATA | part::KEEP)?;
    Ok(Change::Claimed(Box::new(Claimed {
        claim,
        resource: parts::resource_key(reader)?,
        ttl_us: reader.varint("ttl")?,
        wait_until: parts::time(reader, "wait until", at)?,
        keep_us: parts::keep(reader, flags)?,
        client: parts::client(reader, flags)?,
        principal: rare.principal,
        key: parts::key(reader, flags)?,
        metadata: parts::metadata(reader, flags)?,
        particulars: rare.particulars,
    })))
}
