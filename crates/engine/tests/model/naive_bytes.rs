//! The naive model's account of bytes: it counts everything again from the rows each time, with the numbers that the
//! design names.

use std::sync::Arc;

use leasehold_engine::{Acquire, ClaimFact, Fittings, Kind, Labeling, Refusal, ResourceKey};

use crate::naive::Naive;

fn text(len: usize) -> u64 {
    32 + len as u64 + len as u64 / 8
}

/// The texts of a claim by their lengths.
#[derive(Default)]
struct Lengths {
    client: Option<usize>,
    principal: Option<usize>,
    holder: Option<usize>,
    key: Option<usize>,
    metadata: Option<usize>,
    has_terms: bool,
}

fn claim(kind: Kind, of: &Lengths) -> u64 {
    let mut bytes = 280;
    let is_rare = of.principal.is_some() || of.holder.is_some() || of.has_terms;
    if kind != Kind::Pool || is_rare || of.client.or(of.key).or(of.metadata).is_some() {
        bytes += 160;
    }
    if let Some(len) = of.client {
        bytes += 80 + 2 * text(len);
    }
    if let Some(len) = of.principal {
        bytes += 80 + 2 * text(len);
    }
    if is_rare {
        bytes += 80 + of.holder.map_or(0, text);
    }
    // A repeated request finds its claim by its key, and a place in the queue of a lock by its client.
    bytes += 80 * u64::from(of.key.is_some()) + 80 * u64::from(kind == Kind::Lock && of.client.is_some());
    bytes + of.key.map_or(0, text) + of.metadata.map_or(0, text)
}

fn len(text: Option<&Arc<str>>) -> Option<usize> {
    text.map(|text| text.len())
}

fn of_row(row: &ClaimFact) -> u64 {
    let lengths = Lengths {
        client: len(row.client.as_ref()),
        principal: len(row.principal.as_ref()),
        holder: len(row.particulars.holder.as_ref()),
        key: row.key.as_ref().map(|key| key.name.len()),
        metadata: len(row.metadata.as_ref()),
        has_terms: row.particulars.wait_ttl_us + row.particulars.confirm_us > 0,
    };
    claim(row.resource.kind(), &lengths)
}

fn of_resource(key: &ResourceKey) -> u64 {
    224 + key.name().map_or(0, |name| text(name.len()))
}

fn of_label(label: Option<&Arc<str>>) -> u64 {
    len(label).map_or(0, |len| 48 + text(len))
}

fn of_fittings(fittings: &Fittings) -> u64 {
    if *fittings == Fittings::default() {
        return 0;
    }
    let mut bytes = 208 + fittings.pause.as_ref().map_or(0, |pause| text(pause.reason.len()));
    bytes += fittings.out_of_service.values().map(|out| 96 + text(out.reason.len())).sum::<u64>();
    if let Some(slots) = &fittings.slots {
        bytes += 32;
        for slot in slots.iter() {
            bytes += 32 + text(slot.name.len()) + slot.data.as_ref().map_or(0, |data| text(data.len()));
        }
    }
    bytes
}

impl Naive {
    /// The bytes of all rows.
    pub(crate) fn bytes(&self) -> u64 {
        let slots = |key| 8 * u64::from(self.holders(key).map(|row| row.slot).max().unwrap_or(0));
        let resources = self
            .resources
            .iter()
            .map(|row| of_resource(&row.resource) + of_label(row.label.as_ref()) + slots(&row.resource))
            .chain(self.resources.iter().filter_map(|row| Some(of_fittings(row.fittings.as_ref()?))));
        self.claims.iter().map(of_row).sum::<u64>() + resources.sum::<u64>()
    }

    /// The same, and the entries freed since the highest number.
    pub(crate) fn bytes_used(&self) -> u64 {
        let claims = self.claims_most - self.claims.len();
        let resources = self.resources_most - self.resources.len();
        self.bytes() + 208 * claims as u64 + 128 * resources as u64
    }

    pub(crate) fn has_too_much_remembered(&self) -> bool {
        let bytes = self.remembered().map(of_row).sum::<u64>();
        self.remembered().count() > self.limits.retained_max
            || bytes > self.limits.state_bytes_max / 4
            || self.bytes_used() > self.limits.state_bytes_max
    }

    pub(crate) fn make_room_for_claim(&mut self, asked: &Acquire) -> Result<(), Refusal> {
        let particulars = &asked.options.particulars;
        let lengths = Lengths {
            client: len(asked.client.as_ref()),
            principal: len(asked.principal.as_ref()),
            holder: len(particulars.holder.as_ref()),
            key: asked.key.as_ref().map(|key| key.name.len()),
            metadata: len(asked.metadata.as_ref()),
            has_terms: particulars.wait_ttl_us + particulars.confirm_us > 0,
        };
        self.make_room(&asked.resource, Some(claim(asked.resource.kind(), &lengths)), 0)
    }

    /// For a resource that may be new, and a label that may be longer.
    pub(crate) fn make_room_for_label(
        &mut self,
        key: &ResourceKey,
        label: &Labeling,
        fittings: u64,
    ) -> Result<(), Refusal> {
        let known = self.resources.iter().find(|row| row.resource == *key);
        let more = match label {
            Labeling::Kept => 0,
            Labeling::Set(label) => {
                of_label(label.as_ref()).saturating_sub(known.map_or(0, |row| of_label(row.label.as_ref())))
            }
        };
        let more = more + fittings;
        if known.is_some() && more == 0 { Ok(()) } else { self.make_room(key, None, more) }
    }

    pub(crate) fn make_room_for_fittings(&mut self, key: &ResourceKey, then: &Fittings) -> Result<(), Refusal> {
        let more = self.more_for_fittings(key, then);
        self.make_room_for_label(key, &Labeling::Kept, more)
    }

    /// How many bytes more these fittings are than those that the resource has.
    pub(crate) fn more_for_fittings(&self, key: &ResourceKey, then: &Fittings) -> u64 {
        of_fittings(then).saturating_sub(of_fittings(&self.fittings(key)))
    }

    /// For a claim that only remembers a key.
    pub(crate) fn make_room_for_key(&mut self, resource: &ResourceKey, key: &str) -> Result<(), Refusal> {
        let bytes = claim(resource.kind(), &Lengths { key: Some(key.len()), ..Lengths::default() });
        self.make_room(resource, Some(bytes), 0)
    }

    /// Remembered claims make room, the oldest without a key first; then there is room or a refusal.
    fn make_room(&mut self, key: &ResourceKey, claim_bytes: Option<u64>, label_bytes: u64) -> Result<(), Refusal> {
        loop {
            let is_new = !self.resources.iter().any(|row| row.resource == *key);
            let claims = self.claims.len() + usize::from(claim_bytes.is_some());
            let resources = self.resources.len() + usize::from(is_new);
            let then = self.bytes()
                + claim_bytes.unwrap_or(0)
                + label_bytes
                + if is_new { of_resource(key) } else { 0 }
                + 208 * self.claims_most.saturating_sub(claims) as u64
                + 128 * self.resources_most.saturating_sub(resources) as u64;
            let limit_bytes = self.limits.state_bytes_max;
            if then <= limit_bytes {
                return Ok(());
            }
            let Some(id) = self.oldest(true).map(|row| row.claim) else {
                return Err(Refusal::StateFull { limit_bytes });
            };
            self.forget(id);
        }
    }
}
