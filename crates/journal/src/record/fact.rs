//! One fact in and out of bytes. Points in time are written as distances from the moment of the checkpoint.

use std::sync::Arc;

use leasehold_engine::{ClaimFact, Counters, Fact, Lease, Moment, ResourceFact, Time, Token};

use super::bytes::{Reader, put_varint};
use super::error::{Problem, RecordError};
use super::numbers::{fact, part};
use super::parts::{self, Said};

/// Slot, token and lease of a claim that was never granted. They take no bytes in a record.
const NO_GRANT: (u32, Token, Lease) = (0, Token(0), Lease { deadline: Time(0), grace_us: 0 });

pub(super) fn put(out: &mut Vec<u8>, fact: &Fact, base: Moment) {
    match fact {
        Fact::Counters(Counters { last_token, last_order }) => {
            out.push(fact::COUNTERS);
            put_varint(out, last_token.0);
            put_varint(out, *last_order);
        }
        Fact::Resource(ResourceFact { resource, capacity, configured, last_token }) => {
            out.push(fact::RESOURCE);
            parts::put_resource(out, resource);
            put_varint(out, u64::from(*capacity));
            out.push(u8::from(*configured));
            put_varint(out, last_token.0);
        }
        Fact::Claim(claim) => {
            out.push(if claim.principal.is_some() { fact::CLAIM_BY } else { fact::CLAIM });
            put_claim(out, claim, base);
        }
    }
}

pub(super) fn get(reader: &mut Reader<'_>, base: Moment) -> Result<Fact, RecordError> {
    match reader.u8("fact")? {
        fact::COUNTERS => Ok(Fact::Counters(Counters {
            last_token: Token(reader.varint("last token")?),
            last_order: reader.varint("last order")?,
        })),
        fact::RESOURCE => Ok(Fact::Resource(ResourceFact {
            resource: parts::resource_key(reader)?,
            capacity: reader.varint_u32("capacity")?,
            configured: match reader.u8("configured")? {
                0 => false,
                1 => true,
                unknown => return Err(reader.error("configured", Problem::Unknown(unknown))),
            },
            last_token: Token(reader.varint("last token")?),
        })),
        fact::CLAIM => claim(reader, None, base),
        fact::CLAIM_BY => {
            let principal = parts::principal(reader)?;
            claim(reader, Some(principal), base)
        }
        unknown => Err(reader.error("fact", Problem::Unknown(unknown))),
    }
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
    } = fact;
    let said = Said { client, key, metadata };
    parts::put_principal(out, principal.as_ref());
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

fn claim(reader: &mut Reader<'_>, principal: Option<Arc<str>>, base: Moment) -> Result<Fact, RecordError> {
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
        principal,
        key: parts::key(reader, flags)?,
        metadata: parts::metadata(reader, flags)?,
    })))
}
