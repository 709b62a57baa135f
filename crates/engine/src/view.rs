//! Reading state. Views are taken at a moment, copy what they show, and change nothing.

use std::ops::Bound;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::command::{ClaimFilter, ClaimQuery, StatusFilter};
use crate::fact::Status;
use crate::fittings::{NamedSlot, OutOfServiceView, PauseView, SlotView};
use crate::holds::{self, Outlook};
use crate::ids::{Kind, ResourceKey, Token};
use crate::limits::{HOLDERS_SHOWN, HOLDERS_SHOWN_TO_WAITERS, QUEUE_SHOWN};
use crate::reply::{
    ClaimPage, ClaimStatus, ClaimView, History, Holder, HoldingView, LeaseView, LockHolder, LockView, PlaceView, Reply,
    ResourcePage, ResourceView,
};
use crate::state::{Cix, Claim, Rix, State, default_capacity};
use crate::time::{Moment, Wall};

/// A list is made in slices of about so many bytes, as the engine serves no other caller meanwhile.
const SLICE_BYTES_MAX: usize = 256 << 10;

impl State {
    pub(crate) fn view_resource(&self, now: Moment, rix: Rix) -> ResourceView {
        let resource = &self.resources[rix];
        let is_public = resource.key.kind() == Kind::Claim;
        ResourceView {
            resource: resource.key.clone(),
            capacity: resource.capacity,
            configured: resource.configured,
            in_use: resource.slots.used(),
            waiting: resource.waiting,
            holders: if is_public { self.view_holders(rix, HOLDERS_SHOWN) } else { Vec::new() },
            queue: if is_public { self.view_queue(rix) } else { Vec::new() },
            label: resource.label().cloned(),
            fittings: resource.fittings().map(|fittings| Box::new(fittings.view(now.at))),
        }
    }

    /// The reason why nothing is granted, however many slots become free.
    pub(crate) fn standstill(&self, now: Moment, rix: Rix) -> Option<PauseView> {
        let resource = &self.resources[rix];
        resource.fittings()?.standstill(now.at, resource.capacity)
    }

    pub(crate) fn named_slot(&self, claim: &Claim) -> Option<&NamedSlot> {
        self.resources[claim.resource].fittings()?.named(claim.slot)
    }

    fn view_holders(&self, rix: Rix, shown_max: usize) -> Vec<Holder> {
        let held = self.resources[rix].slots.iter().take(shown_max);
        held.map(|(_, cix)| self.view_holder(cix, |extra| extra.granted_wall)).collect()
    }

    fn view_queue(&self, rix: Rix) -> Vec<Holder> {
        self.queue(rix).take(QUEUE_SHOWN).map(|cix| self.view_holder(cix, |extra| extra.created_wall)).collect()
    }

    fn view_holder(&self, cix: Cix, since: fn(&crate::state::Extra) -> Wall) -> Holder {
        let claim = &self.claims[cix];
        Holder { claim: claim.id, since: claim.extra.as_deref().map_or(Wall(0), since) }
    }

    pub(crate) fn view_lease(&self, now: Moment, cix: Cix) -> LeaseView {
        let claim = &self.claims[cix];
        let named = self.named_slot(claim).map(|named| Box::new(named.clone()));
        LeaseView { claim: claim.id, slot: claim.slot, token: claim.token, deadline: claim.deadline, now, named }
    }

    /// The lock of this name, also when no client ever took it.
    pub(crate) fn view_lock(&self, now: Moment, key: &ResourceKey) -> LockView {
        let rix = self.resource(key);
        let holder = rix.and_then(|rix| self.lock_holder(rix)).map(|cix| {
            let claim = &self.claims[cix];
            LockHolder {
                client: Arc::clone(claim.client().expect("a lock's claim has a client")),
                claim: claim.id,
                token: claim.token,
                deadline: claim.deadline,
                grace_until: claim.deadline.plus(claim.grace_us()),
            }
        });
        let job = Arc::clone(key.name().expect("a lock has a name"));
        let pause = rix.and_then(|rix| self.standstill(now, rix)).map(Box::new);
        LockView { job, holder, pause, now }
    }

    /// Where in the queue the caller of this name stands.
    pub(crate) fn view_place(&self, now: Moment, rix: Rix, name: &Arc<str>, seen: Reply) -> PlaceView {
        let found = match self.kind(rix) {
            Kind::Lock => self.waiting_client(rix, name),
            Kind::Pool | Kind::Claim => self.named(rix, name),
        };
        let place = found.filter(|&cix| self.claims[cix].status == Status::Waiting);
        let mut holders = self.resources[rix].slots.iter().map(|(_, cix)| &self.claims[cix]);
        let queue_position = place.map(|cix| self.queue_position(cix));
        PlaceView {
            seen,
            queue_position,
            waiting: self.resources[rix].waiting,
            holder: holders.find_map(|claim| claim.holder().or(claim.client()).cloned()),
            eta_us: queue_position.and_then(|position| Some(self.outlook(now, rix)?.eta_us(position))),
        }
    }

    /// When a claim that waits from now on may expect a slot. An estimate from past holds; `None` while there are too
    /// few of them, and while no slot is given out at all.
    pub(crate) fn eta_of_next_us(&self, now: Moment, rix: Rix) -> Option<u64> {
        Some(self.outlook(now, rix)?.eta_us(self.resources[rix].waiting + 1))
    }

    pub(crate) fn outlook(&self, now: Moment, rix: Rix) -> Option<Outlook> {
        let resource = &self.resources[rix];
        let mean_us = resource.holds().known()?;
        if resource.fittings().is_some() && self.standstill(now, rix).is_some() {
            return None;
        }
        if resource.free_slot().is_some() {
            // No claim waits.
            return Outlook::new(0, resource.capacity, None);
        }
        let rest_us = |cix: Cix| {
            let claim = &self.claims[cix];
            match claim.status {
                Status::Grace => claim.due_at().since(now.at),
                Status::Active => holds::rest_us(mean_us, now.at.since(claim.granted_at)),
                Status::Waiting | Status::Lapsed | Status::Ended(_) => 0,
            }
        };
        let out = resource.fittings().map(|fittings| &fittings.out_of_service);
        let comes_back = |slot: u32| out.is_none_or(|out| !out.contains_key(&slot));
        let are_few = resource.slots.used() <= holds::LOOKED_AT_MAX;
        let holders = || resource.slots.iter().filter(|&(slot, _)| comes_back(slot));
        let remainders = are_few.then(|| holders().map(|(_, cix)| rest_us(cix)).collect());
        Outlook::new(mean_us, resource.in_service(), remainders)
    }

    /// The claim in the lowest slot that is held.
    pub(crate) fn lowest_holder(&self, rix: Rix) -> Option<Cix> {
        self.resources[rix].slots.iter().next().map(|(_, cix)| cix)
    }

    /// A claimed resource as a caller sees it that knows its claim by a key.
    pub(crate) fn view_holding(&self, now: Moment, key: &ResourceKey, name: Option<&Arc<str>>) -> HoldingView {
        assert!(key.kind() == Kind::Claim, "only claims are shown to other callers");
        let rix = self.resource(key);
        let resource = rix.map(|rix| &self.resources[rix]);
        let show = |cix: Cix| self.view_claim(now, cix);
        HoldingView {
            capacity: resource.map_or(default_capacity(Kind::Claim), |resource| resource.capacity),
            in_use: resource.map_or(0, |resource| resource.slots.used()),
            waiting: resource.map_or(0, |resource| resource.waiting),
            latest: resource.map_or(Token(0), |resource| resource.last_token),
            holder: rix.and_then(|rix| self.lowest_holder(rix)).map(show),
            keyed: rix.zip(name).and_then(|(rix, name)| self.named(rix, name)).map(show),
            pause: rix.and_then(|rix| self.standstill(now, rix)),
        }
    }

    pub(crate) fn view_claim(&self, now: Moment, cix: Cix) -> ClaimView {
        let claim = &self.claims[cix];
        let extra = claim.extra.as_deref().expect("a claim of the claims dialect has its history");
        let resource = &self.resources[claim.resource];
        let ended = claim.ended();
        let last_at = ended.unwrap_or(now).at;
        let (status, is_waiting) = match claim.status {
            Status::Waiting => (ClaimStatus::Waiting, true),
            Status::Active | Status::Grace | Status::Lapsed => (ClaimStatus::Active, false),
            Status::Ended(how) => (ClaimStatus::Ended(shown_ending(how)), false),
        };
        let waited_until = if claim.is_granted() { claim.granted_at } else { last_at };
        let queue_position = is_waiting.then(|| self.queue_position(cix));
        ClaimView {
            id: claim.id,
            resource: Arc::clone(resource.key.name().expect("a claimed resource has a name")),
            status,
            timeout_us: claim.ttl_us,
            metadata: extra.metadata.clone(),
            owner: extra.client.clone(),
            history: History {
                created: extra.created_wall,
                // A claim granted in the step that made it never waited. Service time may stand still between two
                // steps; the wall clock hardly ever does.
                waited: !claim.is_granted()
                    || (claim.granted_at, extra.granted_wall) != (claim.created_at, extra.created_wall),
                active: claim.is_granted().then_some(extra.granted_wall),
                ended: match (claim.status, ended) {
                    (Status::Ended(how), Some(ended)) => Some((shown_ending(how), ended.wall)),
                    _ => None,
                },
            },
            waiting_us: waited_until.since(claim.created_at),
            active_us: claim.is_granted().then(|| last_at.since(claim.granted_at)),
            ttl_us: (status == ClaimStatus::Active).then(|| claim.deadline.since(now.at)),
            token: claim.is_granted().then_some(claim.token),
            queue_position,
            holders: if is_waiting { self.view_holders(claim.resource, HOLDERS_SHOWN_TO_WAITERS) } else { Vec::new() },
            holders_in_all: if is_waiting { resource.slots.used() } else { 0 },
            eta_us: queue_position.and_then(|position| Some(self.outlook(now, claim.resource)?.eta_us(position))),
            wait_ttl_us: if is_waiting { claim.wait_ttl_us() } else { 0 },
            confirm_us: claim.confirm_us(),
            pause: if is_waiting { self.standstill(now, claim.resource).map(Box::new) } else { None },
            slot: if status == ClaimStatus::Active { self.view_slot(claim).map(Box::new) } else { None },
            order: claim.order,
            now: now.at,
        }
    }

    fn view_slot(&self, claim: &Claim) -> Option<SlotView> {
        Some(SlotView { number: claim.slot, named: self.named_slot(claim)?.clone() })
    }

    /// A page of claims, oldest first.
    pub(crate) fn view_claims(&self, now: Moment, query: &ClaimQuery) -> ClaimPage {
        let mut claims = Vec::new();
        let mut last_seen = query.after;
        let wanted = match &query.filter.resource {
            Some(name) => match self.resource(&ResourceKey::Claim(Arc::clone(name))) {
                Some(rix) => Some(rix),
                None => return ClaimPage { claims, next: None },
            },
            None => None,
        };
        let later = self.by_order.range((Bound::Excluded(query.after), Bound::Unbounded));
        for (scanned, (&order, &cix)) in later.enumerate() {
            if claims.len() == query.limit || scanned == query.scan_max {
                return ClaimPage { claims, next: Some(last_seen) };
            }
            last_seen = order;
            if wanted.is_none_or(|rix| self.claims[cix].resource == rix) && self.matches(now, cix, &query.filter) {
                claims.push(self.view_claim(now, cix));
            }
        }
        ClaimPage { claims, next: None }
    }

    fn matches(&self, now: Moment, cix: Cix, filter: &ClaimFilter) -> bool {
        let claim = &self.claims[cix];
        let status = match claim.status {
            Status::Waiting => StatusFilter::Waiting,
            Status::Active | Status::Grace | Status::Lapsed => StatusFilter::Active,
            Status::Ended(how) => StatusFilter::Ended(shown_ending(how)),
        };
        let last_at = claim.ended().unwrap_or(now).at;
        let ttl_us = (status == StatusFilter::Active).then(|| claim.deadline.since(now.at));
        let active_us = claim.is_granted().then(|| last_at.since(claim.granted_at));
        let waited_until = if claim.is_granted() { claim.granted_at } else { last_at };
        let created = claim.extra.as_deref().map(|extra| extra.created_wall);
        (filter.statuses.is_empty() || filter.statuses.contains(&status))
            && filter.owner.as_ref().is_none_or(|owner| claim.client() == Some(owner))
            && is_within(filter.ttl_us.as_ref(), ttl_us)
            && is_within(filter.active_us.as_ref(), active_us)
            && is_within(filter.waiting_us.as_ref(), Some(waited_until.since(claim.created_at)))
            && is_within(filter.created.as_ref(), created)
    }

    /// Claimed resources in order of their names.
    pub(crate) fn view_resources(
        &self,
        now: Moment,
        after: Option<&Arc<str>>,
        limit: usize,
        scan_max: usize,
    ) -> ResourcePage {
        let start = match after {
            Some(name) => Bound::Excluded(ResourceKey::Claim(Arc::clone(name))),
            None => Bound::Included(ResourceKey::Claim(Arc::from(""))),
        };
        let mut resources = Vec::new();
        let (mut bytes, mut last_seen) = (0, after);
        let later = self.by_key.range((start, Bound::Unbounded)).take_while(|(key, _)| key.kind() == Kind::Claim);
        for (scanned, (key, &rix)) in later.enumerate() {
            // Resources that only ended claims remember are not shown, and there may be any number of them in a row.
            if resources.len() == limit || scanned == scan_max || bytes >= SLICE_BYTES_MAX {
                return ResourcePage { resources, next: last_seen.cloned() };
            }
            last_seen = key.name();
            if self.is_shown(rix) {
                let mut view = self.view_resource(now, rix);
                // Names and data are shown with one resource, as a list of all of them would be long.
                if let Some(fittings) = &mut view.fittings {
                    fittings.slots = None;
                    bytes += fittings.out_of_service.len() * size_of::<OutOfServiceView>();
                }
                bytes += size_of::<ResourceView>() + key.name().map_or(0, |name| name.len());
                resources.push(view);
            }
        }
        ResourcePage { resources, next: None }
    }

    /// A claimed resource exists for callers while it is configured, paused, held or waited for, but not while only
    /// ended claims remember it.
    pub(crate) fn is_shown(&self, rix: Rix) -> bool {
        let resource = &self.resources[rix];
        resource.configured || resource.slots.used() > 0 || resource.waiting > 0 || resource.fittings().is_some()
    }
}

/// The ending that callers see: a claim handed back without a request of its caller reads as withdrawn.
pub(crate) fn shown_ending(how: crate::change::Ending) -> crate::change::Ending {
    use crate::change::Ending;
    match how {
        Ending::HandedBack => Ending::Withdrawn,
        other => other,
    }
}

fn is_within<T: PartialOrd>(range: Option<&RangeInclusive<T>>, value: Option<T>) -> bool {
    range.is_none_or(|range| value.is_some_and(|value| range.contains(&value)))
}
