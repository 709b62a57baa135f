//! One fact in and out of bytes. Points in time are written as distances from the moment of the checkpoint.

use std::sync::Arc;

use leasehold_engine::{ClaimFact, Counters, Fact, Fittings, Holds, Lease, Moment, ResourceFact, Time, Token};

use super::bytes::{Reader, put_str, put_varint};
use super::error::{Flaw, RecordError};
use super::numbers::{fact, part, resource_rare};
use super::parts::{self, Rare, Said};

/// Slot, token and lease of a claim that was never granted. They take no bytes in a record.
const NO_GRANT: (u32, Token, Lease) = (0, Token(0), Lease { deadline: Time(0), grace_us: 0 });

pub(super) fn put(out: &mut Vec<u8>, fact: &Fact, base: Moment) {
    match fact {
        Fact::Counters(Counters { last_token, last_order }) => {
            out.push(fact::COUNTERS);
            put_varint(out, last_token.0);
            put_varint(out, *last_order);
        }
        Fact::Resource(ResourceFact { resource, capacity, configured, last_token, label, holds, fittings }) => {
            put_resource_rare(out, label.as_ref(), *holds, fittings.as_deref(), base);
            parts::put_resource(out, resource);
            put_varint(out, u64::from(*capacity));
            out.push(u8::from(*configured));
            put_varint(out, last_token.0);
        }
        Fact::Claim(claim) => {
            out.push(match (claim.particulars.is_empty(), &claim.principal) {
                (false, _) => fact::CLAIM_WITH,
                (true, Some(_)) => fact::CLAIM_BY,
                (true, None) => fact::CLAIM,
            });
            put_claim(out, claim, base);
        }
    }
}

/// Returns whether it has a part that format version 4 does not have.
pub(super) fn is_of_version_5(fact: &Fact) -> bool {
    matches!(fact, Fact::Resource(ResourceFact { fittings: Some(_), .. }))
}

pub(super) fn get(reader: &mut Reader<'_>, base: Moment) -> Result<Fact, RecordError> {
    match reader.u8("fact")? {
        fact::COUNTERS => Ok(Fact::Counters(Counters {
            last_token: Token(reader.varint("last token")?),
            last_order: reader.varint("last order")?,
        })),
        fact::RESOURCE => resource(reader, None, Holds::default(), None),
        fact::RESOURCE_WITH => {
            let flags =
                parts::part_flags(reader, resource_rare::LABEL | resource_rare::HOLDS | resource_rare::FITTINGS)?;
            let has = |flag: u8| flags & flag != 0;
            let label = if has(resource_rare::LABEL) { Some(reader.str("label")?.into()) } else { None };
            let holds = if has(resource_rare::HOLDS) {
                Holds { count: reader.varint_u32("holds")?, mean_us: reader.varint("mean hold")? }
            } else {
                Holds::default()
            };
            let fittings =
                if has(resource_rare::FITTINGS) { Some(Box::new(parts::fittings(reader, base)?)) } else { None };
            resource(reader, label, holds, fittings)
        }
        fact::CLAIM => claim(reader, Rare::default(), base),
        fact::CLAIM_BY => {
            let rare = Rare::signed(reader)?;
            claim(reader, rare, base)
        }
        fact::CLAIM_WITH => {
            let rare = Rare::get(reader)?;
            claim(reader, rare, base)
        }
        unknown => Err(reader.error("fact", Flaw::Unknown(unknown))),
    }
}

/// The number of the variant, and the rare parts that it stands for.
fn put_resource_rare(
    out: &mut Vec<u8>,
    label: Option<&Arc<str>>,
    holds: Holds,
    fittings: Option<&Fittings>,
    base: Moment,
) {
    let has_holds = holds != Holds::default();
    if label.is_none() && !has_holds && fittings.is_none() {
        out.push(fact::RESOURCE);
        return;
    }
    out.push(fact::RESOURCE_WITH);
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    out.push(
        flag(label.is_some(), resource_rare::LABEL)
            | flag(has_holds, resource_rare::HOLDS)
            | flag(fittings.is_some(), resource_rare::FITTINGS),
    );
    if let Some(label) = label {
        put_str(out, label);
    }
    if has_holds {
        let Holds { count, mean_us } = holds;
        put_varint(out, u64::from(count));
        put_varint(out, mean_us);
    }
    if let Some(fittings) = fittings {
        parts::put_fittings(out, fittings, base);
    }
}

fn resource(
    reader: &mut Reader<'_>,
    label: Option<Arc<str>>,
    holds: Holds,
    fittings: Option<Box<Fittings>>,
) -> Result<Fact, RecordError> {
    Ok(Fact::Resource(ResourceFact {
        resource: parts::resource_key(reader)?,
        capacity: reader.varint_u32("capacity")?,
        configured: match reader.u8("configured")? {
            0 => false,
            1 => true,
            unknown => return Err(reader.error("configured", Flaw::Unknown(unknown))),
        },
        last_token: Token(reader.varint("last token")?),
        label,
        holds,
        fittings,
    }))
}

fn put_claim(out: &mut Vec<u8>, fact: &ClaimFact, base: Moment) {
    // Taken apart by name, so that a new field fails to compile here.
    let ClaimFact {
        claim,
        resource,
        order,
        status,
        seen,
        ttl_us,
        wait_until,
        keep_us,
        slot,
        token,
        lease,
        created,
        granted,
        ended,
        client,
        principal,
        key,
        metadata,
        particulars,
    } = fact;
    let said = Said { client, key, metadata };
    parts::put_rare(out, principal.as_ref(), particulars);
    let has_grant = (*slot, *token, *lease) != NO_GRANT;
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    out.push(
        said.flags()
            | flag(*seen, part::SEEN)
            | flag(has_grant, part::GRANT)
            | flag(granted.is_some(), part::GRANTED_AT)
            | flag(ended.is_some(), part::ENDED_AT)
            | flag(*keep_us != 0, part::KEEP),
    );
    parts::put_claim_id(out, *claim);
    parts::put_resource(out, resource);
    put_varint(out, *order);
    parts::put_status(out, *status);
    put_varint(out, *ttl_us);
    parts::put_time(out, *wait_until, base.at);
    parts::put_keep(out, *keep_us);
    if has_grant {
        put_varint(out, u64::from(*slot));
        put_varint(out, token.0);
        parts::put_lease(out, *lease, base.at);
    }
    parts::put_moment(out, *created, base);
    for moment in [granted, ended].into_iter().flatten() {
        parts::put_moment(out, *moment, base);
    }
    said.put(out);
}

fn claim(reader: &mut Reader<'_>, rare: Rare, base: Moment) -> Result<Fact, RecordError> {
    let flags = parts::part_flags(
        reader,
        part::CLIENT
            | part::KEY
            | part::METADATA
            | part::SEEN
            | part::GRANT
            | part::GRANTED_AT
            | part::ENDED_AT
            | part::KEEP,
    )?;
    let claim = parts::claim_id(reader)?;
    let resource = parts::resource_key(reader)?;
    let order = reader.varint("order")?;
    let status = parts::status(reader)?;
    let ttl_us = reader.varint("ttl")?;
    let wait_until = parts::time(reader, "wait until", base.at)?;
    let keep_us = parts::keep(reader, flags)?;
    let (slot, token, lease) = if flags & part::GRANT == 0 {
        NO_GRANT
    } else {
        (reader.varint_u32("slot")?, Token(reader.varint("token")?), parts::lease(reader, base.at)?)
    };
    let created = parts::moment(reader, "created", base)?;
    let mut moment = |flag: u8, field| {
        if flags & flag == 0 { Ok(None) } else { parts::moment(reader, field, base).map(Some) }
    };
    let granted = moment(part::GRANTED_AT, "granted")?;
    let ended = moment(part::ENDED_AT, "ended")?;
    Ok(Fact::Claim(Box::new(ClaimFact {
        claim,
        resource,
        order,
        status,
        seen: flags & part::SEEN != 0,
        ttl_us,
        wait_until,
        keep_us,
        slot,
        token,
        lease,
        created,
        granted,
        ended,
        client: parts::client(reader, flags)?,
        principal: rare.principal,
        key: parts::key(reader, flags)?,
        metadata: parts::metadata(reader, flags)?,
        particulars: rare.particulars,
    })))
}
