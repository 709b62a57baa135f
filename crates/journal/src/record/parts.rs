//! The parts that changes and facts have in common: resource keys, endings, statuses, leases, points in time, optional
//! texts.

use std::sync::Arc;

use leasehold_engine::{
    ClaimId, Ending, Fittings, IdempotencyKey, Lease, Moment, NamedSlot, OutOfService, Particulars, Pause, ResourceKey,
    Status, Time, Wall,
};

use super::bytes::{Reader, put_str, put_varint, unzigzag, zigzag};
use super::error::{Flaw, RecordError};
use super::numbers::{ending, fitting, part, point, rare, resource, status};

/// Distances beyond this are written as absolute values, so that adding `point::RELATIVE` cannot overflow.
const DISTANCE_MAX: u64 = 1 << 62;

fn put_point(out: &mut Vec<u8>, value: u64, base: u64, none: u64) {
    if value == none {
        put_varint(out, point::NONE);
    } else if value.abs_diff(base) < DISTANCE_MAX {
        put_varint(out, point::RELATIVE + zigzag(value.wrapping_sub(base).cast_signed()));
    } else {
        put_varint(out, point::ABSOLUTE);
        put_varint(out, value);
    }
}

fn point(reader: &mut Reader<'_>, field: &'static str, base: u64, none: u64) -> Result<u64, RecordError> {
    match reader.varint(field)? {
        point::NONE => Ok(none),
        point::ABSOLUTE => reader.varint(field),
        relative => base
            .checked_add_signed(unzigzag(relative - point::RELATIVE))
            .ok_or_else(|| reader.error(field, Flaw::Range)),
    }
}

pub(super) fn put_time(out: &mut Vec<u8>, time: Time, base: Time) {
    put_point(out, time.0, base.0, Time::NEVER.0);
}

pub(super) fn time(reader: &mut Reader<'_>, field: &'static str, base: Time) -> Result<Time, RecordError> {
    point(reader, field, base.0, Time::NEVER.0).map(Time)
}

pub(super) fn put_moment(out: &mut Vec<u8>, moment: Moment, base: Moment) {
    put_time(out, moment.at, base.at);
    put_point(out, moment.wall.0, base.wall.0, 0);
}

pub(super) fn moment(reader: &mut Reader<'_>, field: &'static str, base: Moment) -> Result<Moment, RecordError> {
    Ok(Moment { at: time(reader, field, base.at)?, wall: Wall(point(reader, field, base.wall.0, 0)?) })
}

pub(super) fn put_lease(out: &mut Vec<u8>, lease: Lease, base: Time) {
    put_time(out, lease.deadline, base);
    put_varint(out, lease.grace_us);
}

pub(super) fn lease(reader: &mut Reader<'_>, base: Time) -> Result<Lease, RecordError> {
    Ok(Lease { deadline: time(reader, "deadline", base)?, grace_us: reader.varint("grace")? })
}

pub(super) fn put_claim_id(out: &mut Vec<u8>, claim: ClaimId) {
    out.extend_from_slice(&claim.0.to_le_bytes());
}

pub(super) fn claim_id(reader: &mut Reader<'_>) -> Result<ClaimId, RecordError> {
    reader.u128("claim").map(ClaimId)
}

pub(super) fn put_resource(out: &mut Vec<u8>, key: &ResourceKey) {
    match key {
        ResourceKey::Pool(id) => {
            out.push(resource::POOL);
            out.extend_from_slice(&id.to_le_bytes());
        }
        ResourceKey::Claim(name) => {
            out.push(resource::CLAIM);
            put_str(out, name);
        }
        ResourceKey::Lock(name) => {
            out.push(resource::LOCK);
            put_str(out, name);
        }
    }
}

pub(super) fn resource_key(reader: &mut Reader<'_>) -> Result<ResourceKey, RecordError> {
    match reader.u8("resource kind")? {
        resource::POOL => Ok(ResourceKey::Pool(reader.u128("pool")?)),
        resource::CLAIM => Ok(ResourceKey::Claim(reader.str("resource name")?.into())),
        resource::LOCK => Ok(ResourceKey::Lock(reader.str("lock name")?.into())),
        unknown => Err(reader.error("resource kind", Flaw::Unknown(unknown))),
    }
}

pub(super) fn ending_number(how: Ending) -> u8 {
    match how {
        Ending::Released => ending::RELEASED,
        Ending::Expired => ending::EXPIRED,
        Ending::Revoked => ending::REVOKED,
        Ending::Aborted => ending::ABORTED,
        Ending::Withdrawn => ending::WITHDRAWN,
        Ending::TimedOut => ending::TIMED_OUT,
        Ending::Deleted => ending::DELETED,
        Ending::HandedBack => ending::HANDED_BACK,
        Ending::Superseded => ending::SUPERSEDED,
    }
}

fn ending_of(number: u8) -> Option<Ending> {
    match number {
        ending::RELEASED => Some(Ending::Released),
        ending::EXPIRED => Some(Ending::Expired),
        ending::REVOKED => Some(Ending::Revoked),
        ending::ABORTED => Some(Ending::Aborted),
        ending::WITHDRAWN => Some(Ending::Withdrawn),
        ending::TIMED_OUT => Some(Ending::TimedOut),
        ending::DELETED => Some(Ending::Deleted),
        ending::HANDED_BACK => Some(Ending::HandedBack),
        ending::SUPERSEDED => Some(Ending::Superseded),
        _ => None,
    }
}

pub(super) fn ending(reader: &mut Reader<'_>) -> Result<Ending, RecordError> {
    let number = reader.u8("ending")?;
    ending_of(number).ok_or_else(|| reader.error("ending", Flaw::Unknown(number)))
}

pub(super) fn put_status(out: &mut Vec<u8>, status: Status) {
    out.push(match status {
        Status::Waiting => status::WAITING,
        Status::Active => status::ACTIVE,
        Status::Grace => status::GRACE,
        Status::Lapsed => status::LAPSED,
        Status::Ended(how) => ending_number(how),
    });
}

pub(super) fn status(reader: &mut Reader<'_>) -> Result<Status, RecordError> {
    match reader.u8("status")? {
        status::WAITING => Ok(Status::Waiting),
        status::ACTIVE => Ok(Status::Active),
        status::GRACE => Ok(Status::Grace),
        status::LAPSED => Ok(Status::Lapsed),
        number => match ending_of(number) {
            Some(how) => Ok(Status::Ended(how)),
            None => Err(reader.error("status", Flaw::Unknown(number))),
        },
    }
}

/// The optional parts that a caller may give a claim, borrowed from a change or a fact.
pub(super) struct Said<'a> {
    pub(super) client: &'a Option<Arc<str>>,
    pub(super) key: &'a Option<IdempotencyKey>,
    pub(super) metadata: &'a Option<Arc<str>>,
}

impl Said<'_> {
    /// The `part` flags that say which of them are present.
    pub(super) fn flags(&self) -> u8 {
        let flag = |there: bool, flag: u8| if there { flag } else { 0 };
        flag(self.client.is_some(), part::CLIENT)
            | flag(self.key.is_some(), part::KEY)
            | flag(self.metadata.is_some(), part::METADATA)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        if let Some(client) = self.client {
            put_str(out, client);
        }
        if let Some(key) = self.key {
            put_str(out, &key.name);
            out.extend_from_slice(&key.fingerprint.to_le_bytes());
        }
        if let Some(metadata) = self.metadata {
            put_str(out, metadata);
        }
    }
}

/// Reads the flags of optional parts, of which only `known` can be set.
pub(super) fn part_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, RecordError> {
    let flags = reader.u8("parts")?;
    if flags & !known == 0 { Ok(flags) } else { Err(reader.error("parts", Flaw::Unknown(flags))) }
}

/// How long a place is kept, if it is kept.
pub(super) fn put_keep(out: &mut Vec<u8>, keep_us: u64) {
    if keep_us != 0 {
        put_varint(out, keep_us);
    }
}

pub(super) fn keep(reader: &mut Reader<'_>, flags: u8) -> Result<u64, RecordError> {
    if flags & part::KEEP == 0 { Ok(0) } else { reader.varint("keep") }
}

/// The rare parts of a claim: ahead of it, where it has any; the number of its variant says so.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) principal: Option<Arc<str>>,
    pub(super) particulars: Particulars,
}

/// Writes them as the variant demands: without particulars, only the principal, if there is one.
pub(super) fn put_rare(out: &mut Vec<u8>, principal: Option<&Arc<str>>, particulars: &Particulars) {
    let Particulars { holder, wait_ttl_us, confirm_us } = particulars;
    if !particulars.is_empty() {
        let flag = |there: bool, flag: u8| if there { flag } else { 0 };
        out.push(
            flag(principal.is_some(), rare::PRINCIPAL)
                | flag(holder.is_some(), rare::HOLDER)
                | flag(*wait_ttl_us != 0, rare::WAIT_TTL)
                | flag(*confirm_us != 0, rare::CONFIRM),
        );
    }
    for text in [principal, holder.as_ref()].into_iter().flatten() {
        put_str(out, text);
    }
    for &number in [wait_ttl_us, confirm_us].into_iter().filter(|&&number| number != 0) {
        put_varint(out, number);
    }
}

impl Rare {
    /// Only a principal.
    pub(super) fn signed(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(Rare { principal: Some(reader.str("principal")?.into()), particulars: Particulars::default() })
    }

    /// Those that the flags name.
    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let known = rare::PRINCIPAL | rare::HOLDER | rare::WAIT_TTL | rare::CONFIRM;
        let flags = part_flags(reader, known)?;
        let mut text = |flag: u8, field| {
            if flags & flag == 0 { Ok(None) } else { reader.str(field).map(|text| Some(Arc::<str>::from(text))) }
        };
        let principal = text(rare::PRINCIPAL, "principal")?;
        let holder = text(rare::HOLDER, "holder")?;
        let mut number = |flag: u8, field| if flags & flag == 0 { Ok(0) } else { reader.varint(field) };
        let wait_ttl_us = number(rare::WAIT_TTL, "wait ttl")?;
        let confirm_us = number(rare::CONFIRM, "confirm")?;
        Ok(Rare { principal, particulars: Particulars { holder, wait_ttl_us, confirm_us } })
    }
}

/// A text that may be missing.
pub(super) fn put_optional(out: &mut Vec<u8>, text: Option<&Arc<str>>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_str(out, text);
    }
}

pub(super) fn optional(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<Arc<str>>, RecordError> {
    match reader.u8(field)? {
        0 => Ok(None),
        1 => reader.str(field).map(|text| Some(text.into())),
        unknown => Err(reader.error(field, Flaw::Unknown(unknown))),
    }
}

/// The names of slots: their number plus one, or zero where slots have no names.
pub(super) fn put_slots(out: &mut Vec<u8>, slots: Option<&[NamedSlot]>) {
    put_varint(out, slots.map_or(0, |slots| slots.len() as u64 + 1));
    for NamedSlot { name, data } in slots.unwrap_or_default() {
        put_str(out, name);
        put_optional(out, data.as_ref());
    }
}

pub(super) fn slots(reader: &mut Reader<'_>) -> Result<Option<Arc<[NamedSlot]>>, RecordError> {
    let Some(count) = reader.varint_u32("named slots")?.checked_sub(1) else { return Ok(None) };
    // Every slot has bytes of its own, so that a damaged number is noticed before memory is taken for it.
    let slot = |reader: &mut Reader<'_>| {
        let name = reader.str("slot name")?.into();
        Ok(NamedSlot { name, data: optional(reader, "slot data")? })
    };
    let mut slots = Vec::new();
    for _ in 0..count {
        slots.push(slot(reader)?);
    }
    Ok(Some(slots.into()))
}

/// The fittings that operators set.
pub(super) fn put_fittings(out: &mut Vec<u8>, fittings: &Fittings, base: Moment) {
    let Fittings { pause, out_of_service, slots } = fittings;
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    out.push(
        flag(pause.is_some(), fitting::PAUSE)
            | flag(!out_of_service.is_empty(), fitting::OUT_OF_SERVICE)
            | flag(slots.is_some(), fitting::SLOTS),
    );
    if let Some(Pause { reason, since, until }) = pause {
        put_str(out, reason);
        put_moment(out, *since, base);
        put_time(out, *until, base.at);
    }
    if !out_of_service.is_empty() {
        put_varint(out, out_of_service.len() as u64);
        for (slot, OutOfService { reason, since }) in out_of_service {
            put_varint(out, u64::from(*slot));
            put_str(out, reason);
            put_moment(out, *since, base);
        }
    }
    if slots.is_some() {
        put_slots(out, slots.as_deref());
    }
}

pub(super) fn fittings(reader: &mut Reader<'_>, base: Moment) -> Result<Fittings, RecordError> {
    let flags = part_flags(reader, fitting::PAUSE | fitting::OUT_OF_SERVICE | fitting::SLOTS)?;
    let mut fittings = Fittings::default();
    if flags & fitting::PAUSE != 0 {
        fittings.pause = Some(Pause {
            reason: reader.str("reason")?.into(),
            since: moment(reader, "since", base)?,
            until: time(reader, "until", base.at)?,
        });
    }
    if flags & fitting::OUT_OF_SERVICE != 0 {
        for _ in 0..reader.varint_u32("slots out of service")? {
            let slot = reader.varint_u32("slot")?;
            let out = OutOfService { reason: reader.str("reason")?.into(), since: moment(reader, "since", base)? };
            fittings.out_of_service.insert(slot, out);
        }
    }
    if flags & fitting::SLOTS != 0 {
        fittings.slots = slots(reader)?;
    }
    Ok(fittings)
}

pub(super) fn client(reader: &mut Reader<'_>, flags: u8) -> Result<Option<Arc<str>>, RecordError> {
    if flags & part::CLIENT == 0 { Ok(None) } else { reader.str("client").map(|text| Some(text.into())) }
}

pub(super) fn key(reader: &mut Reader<'_>, flags: u8) -> Result<Option<IdempotencyKey>, RecordError> {
    if flags & part::KEY == 0 {
        return Ok(None);
    }
    let name = reader.str("idempotency key")?.into();
    Ok(Some(IdempotencyKey { name, fingerprint: reader.u64("fingerprint")? }))
}

pub(super) fn metadata(reader: &mut Reader<'_>, flags: u8) -> Result<Option<Arc<str>>, RecordError> {
    if flags & part::METADATA == 0 { Ok(None) } else { reader.str("metadata").map(|text| Some(text.into())) }
}
