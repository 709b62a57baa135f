//! The naive model's account of bytes: it counts everything again from the rows each time, with the numbers that the
//! design names.

use leasehold_engine::{Acquire, ClaimFact, Kind, Refusal, ResourceKey};

use crate::naive::Naive;

fn text(len: usize) -> u64 {
    32 + len as u64 + len as u64 / 8
}

fn claim(
    kind: Kind,
    client: Option<usize>,
    principal: Option<usize>,
    key: Option<usize>,
    metadata: Option<usize>,
) -> u64 {
    let mut bytes = 280;
    if kind != Kind::Pool || client.or(principal).or(key).or(metadata).is_some() {
        bytes += 160;
    }
    if let Some(len) = client {
        bytes += 80 + 2 * text(len);
    }
    if let Some(len) = principal {
        bytes += 80 + 32 + 2 * text(len);
    }
    // A repeated request finds its claim by its key, and a place in the queue of a lock by its client.
    bytes += 80 * u64::from(key.is_some()) + 80 * u64::from(kind == Kind::Lock && client.is_some());
    bytes + key.map_or(0, text) + metadata.map_or(0, text)
}

fn of_row(row: &ClaimFact) -> u64 {
    let key = row.key.as_ref().map(|key| key.name.len());
    let len = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(|text| text.len());
    claim(row.resource.kind(), len(&row.client), len(&row.principal), key, len(&row.metadata))
}

fn of_resource(key: &ResourceKey) -> u64 {
    224 + key.name().map_or(0, |name| text(name.len()))
}

impl Naive {
    /// The bytes of all rows.
    pub(crate) fn bytes(&self) -> u64 {
        let slots = |key| 8 * u64::from(self.holders(key).map(|row| row.slot).max().unwrap_or(0));
        let resources = self.resources.iter().map(|row| of_resource(&row.resource) + slots(&row.resource));
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
        let key = asked.key.as_ref().map(|key| key.name.len());
        let len = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(|text| text.len());
        let bytes = claim(asked.resource.kind(), len(&asked.client), len(&asked.principal), key, len(&asked.metadata));
        self.make_room(&asked.resource, Some(bytes))
    }

    /// For a claim that only remembers a key.
    pub(crate) fn make_room_for_key(&mut self, resource: &ResourceKey, key: &str) -> Result<(), Refusal> {
        let bytes = claim(resource.kind(), None, None, Some(key.len()), None);
        self.make_room(resource, Some(bytes))
    }

    /// Remembered claims make room, the oldest without a key first; then there is room or a refusal.
    pub(crate) fn make_room(&mut self, key: &ResourceKey, claim_bytes: Option<u64>) -> Result<(), Refusal> {
        loop {
            let is_new = !self.resources.iter().any(|row| row.resource == *key);
            let claims = self.claims.len() + usize::from(claim_bytes.is_some());
            let resources = self.resources.len() + usize::from(is_new);
            let then = self.bytes()
                + claim_bytes.unwrap_or(0)
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
