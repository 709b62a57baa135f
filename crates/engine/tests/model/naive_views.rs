//! The naive model's views: every view of the engine, computed from the rows each time.

use std::sync::Arc;

use leasehold_engine::{
    Answer, ClaimFact, ClaimPage, ClaimQuery, ClaimStatus, ClaimView, Fittings, FittingsView, History, Holder,
    HoldingView, Kind, LeaseView, LockHolder, LockNews, LockView, Moment, OutOfService, OutOfServiceView, PlaceView,
    Refusal, Reply, ResourceKey, ResourcePage, ResourceView, SlotView, Status, StatusFilter, Token, Wall,
};

use crate::naive::Naive;
use crate::naive_rows::{holds, shown};

impl Naive {
    /// The answer for the caller parked on this claim once it is granted, or the claim's news.
    pub(crate) fn view_for_waiter(&self, now: Moment, at: usize) -> Reply {
        let key = &self.claims[at].resource;
        match key.kind() {
            Kind::Lock => Reply::Lock(self.view_lock(now, key), LockNews::Seen),
            Kind::Pool | Kind::Claim => self.reply_to_claimant(now, at),
        }
    }

    /// The answer for the caller whose wait for this resource came to nothing.
    pub(crate) fn refusal_for_waiter(&self, now: Moment, key: &ResourceKey) -> Refusal {
        match key.kind() {
            Kind::Lock => self.locked(now, key),
            Kind::Pool | Kind::Claim => self.none_free(now, key),
        }
    }

    pub(crate) fn none_free(&self, now: Moment, key: &ResourceKey) -> Refusal {
        let pause = self.standstill(now, key).map(Box::new);
        Refusal::NoneFree { waiting: self.waiting_for(key), eta_us: self.eta_us(now, key, None), pause }
    }

    /// When this waiter, or one that comes now, gets a slot, if all hold theirs for as long as is usual: the waiters
    /// ahead take the slots one after the other, each the one that is free first.
    pub(crate) fn eta_us(&self, now: Moment, key: &ResourceKey, waiter: Option<u64>) -> Option<u64> {
        let row = self.resources.iter().find(|row| row.resource == *key)?;
        let fittings = self.fittings(key);
        let in_service = row.capacity as usize - fittings.out_of_service.len();
        if row.holds.count < 5 || in_service == 0 || fittings.pause.is_some() {
            return None;
        }
        let mean_us = row.holds.mean_us;
        let rest_us = |row: &ClaimFact| match row.status {
            Status::Active => {
                let held_us = now.at.since(row.granted.expect("it holds").at);
                mean_us.saturating_sub(held_us).max(mean_us / 8)
            }
            Status::Grace => row.lease.deadline.plus(row.lease.grace_us).since(now.at),
            _ => 0,
        };
        let mut free_us: Vec<u64> =
            self.holders(key).filter(|row| !fittings.out_of_service.contains_key(&row.slot)).map(rest_us).collect();
        if free_us.len() < in_service {
            return Some(0);
        }
        while free_us.len() > in_service {
            // More are held than there are slots now: the first of them is not given out again.
            let first = free_us.iter().enumerate().min_by_key(|(_, at)| **at).expect("there are some").0;
            free_us.remove(first);
        }
        for ahead in self.queue(key).map(Some).chain([None]) {
            let first = free_us.iter_mut().min().expect("all slots are held");
            if ahead.is_none() || ahead.map(|row| row.order) == waiter {
                return Some(*first);
            }
            *first += mean_us;
        }
        unreachable!("the list ends with a newcomer")
    }

    pub(crate) fn reply_to_claimant(&self, now: Moment, at: usize) -> Reply {
        match self.claims[at].resource.kind() {
            Kind::Pool => Reply::Lease(self.view_lease(now, at)),
            Kind::Claim => Reply::Claim(Box::new(self.view_claim(now, at))),
            Kind::Lock => unreachable!("a lock is answered with itself"),
        }
    }

    pub(crate) fn answer_resource(&self, now: Moment, key: &ResourceKey) -> Answer {
        if key.kind() == Kind::Lock {
            return Ok(Reply::Lock(self.view_lock(now, key), LockNews::Seen));
        }
        if self.is_shown(key) {
            Ok(Reply::Resource(self.view_resource(now, key)))
        } else {
            Err(Refusal::NoSuchResource)
        }
    }

    /// A caller configured it, or (claims only) it is paused, or a claim holds it or waits for it.
    fn is_shown(&self, key: &ResourceKey) -> bool {
        let is_configured = self.resources.iter().any(|row| row.resource == *key && row.configured);
        let is_wanted = |row: &ClaimFact| row.resource == *key && (holds(row) || row.status == Status::Waiting);
        let is_fitted = self.fittings(key) != Fittings::default();
        is_configured || (key.kind() == Kind::Claim && (is_fitted || self.claims.iter().any(is_wanted)))
    }

    pub(crate) fn view_holding(&self, now: Moment, key: &ResourceKey, name: Option<&Arc<str>>) -> HoldingView {
        let row = self.resources.iter().find(|row| row.resource == *key);
        let holder = self.holders(key).min_by_key(|row| row.slot).map(|row| row.claim);
        let keyed = name.and_then(|name| self.find_key(key, name));
        HoldingView {
            capacity: row.map_or(1, |row| row.capacity),
            in_use: u32::try_from(self.holders(key).count()).expect("few hold"),
            waiting: self.waiting_for(key),
            latest: row.map_or(Token(0), |row| row.last_token),
            holder: holder.and_then(|id| self.find(id)).map(|at| self.view_claim(now, at)),
            keyed: keyed.map(|at| self.view_claim(now, at)),
            pause: self.standstill(now, key),
        }
    }

    pub(crate) fn waiting_for(&self, key: &ResourceKey) -> u32 {
        u32::try_from(self.queue(key).count()).expect("few wait")
    }

    fn queue(&self, key: &ResourceKey) -> impl Iterator<Item = &ClaimFact> {
        self.claims.iter().filter(move |row| row.resource == *key && row.status == Status::Waiting)
    }

    fn named_slot(&self, row: &ClaimFact) -> Option<SlotView> {
        let slots = self.fittings(&row.resource).slots?;
        Some(SlotView { number: row.slot, named: slots.get(row.slot as usize)?.clone() })
    }

    pub(crate) fn view_resource(&self, now: Moment, key: &ResourceKey) -> ResourceView {
        let fittings = self.fittings(key);
        let out = |(slot, out): (&u32, &OutOfService)| OutOfServiceView {
            slot: *slot,
            reason: out.reason.clone(),
            since: out.since.wall,
        };
        let shown = FittingsView {
            pause: self.standstill(now, key).filter(|pause| !pause.is_by_slots),
            out_of_service: fittings.out_of_service.iter().map(out).collect(),
            slots: fittings.slots.clone(),
        };
        let is_secret = key.kind() == Kind::Pool;
        let since_created = |row: &ClaimFact| Holder { claim: row.claim, since: row.created.wall };
        ResourceView {
            resource: key.clone(),
            capacity: self.capacity(key),
            configured: self.resources.iter().any(|row| row.resource == *key && row.configured),
            in_use: u32::try_from(self.holders(key).count()).expect("few hold"),
            waiting: self.waiting_for(key),
            holders: if is_secret { Vec::new() } else { self.view_holders(key) },
            queue: if is_secret { Vec::new() } else { self.queue(key).map(since_created).collect() },
            label: self.resources.iter().find(|row| row.resource == *key).and_then(|row| row.label.clone()),
            fittings: (fittings != Fittings::default()).then(|| Box::new(shown)),
        }
    }

    fn view_holders(&self, key: &ResourceKey) -> Vec<Holder> {
        let mut holders: Vec<&ClaimFact> = self.holders(key).collect();
        holders.sort_by_key(|row| row.slot);
        let since = |row: &ClaimFact| row.granted.map_or(Wall(0), |granted| granted.wall);
        holders.into_iter().map(|row| Holder { claim: row.claim, since: since(row) }).collect()
    }

    /// A pool or a lock, and where this caller stands.
    pub(crate) fn answer_place(&self, now: Moment, key: &ResourceKey, name: &Arc<str>) -> Answer {
        let seen = self.answer_resource(now, key)?;
        let is_its = |row: &&ClaimFact| match key.kind() {
            Kind::Lock => row.client.as_ref() == Some(name),
            Kind::Pool | Kind::Claim => row.key.as_ref().is_some_and(|key| key.name == *name),
        };
        let mut holders: Vec<&ClaimFact> = self.holders(key).collect();
        holders.sort_by_key(|row| row.slot);
        let place = self.queue(key).find(is_its).map(|row| row.order);
        let ahead = |order| self.queue(key).filter(|row| row.order <= order).count();
        Ok(Reply::Place(Box::new(PlaceView {
            seen,
            queue_position: place.map(|order| u32::try_from(ahead(order)).expect("few wait")),
            waiting: u32::try_from(self.queue(key).count()).expect("few wait"),
            holder: holders.into_iter().find_map(|row| row.particulars.holder.clone().or(row.client.clone())),
            eta_us: place.and_then(|order| self.eta_us(now, key, Some(order))),
        })))
    }

    pub(crate) fn view_lease(&self, now: Moment, at: usize) -> LeaseView {
        let row = &self.claims[at];
        let named = self.named_slot(row).map(|slot| Box::new(slot.named));
        LeaseView { claim: row.claim, slot: row.slot, token: row.token, deadline: row.lease.deadline, now, named }
    }

    pub(crate) fn view_lock(&self, now: Moment, key: &ResourceKey) -> LockView {
        let holder = self.lock_holder(key).map(|at| &self.claims[at]).map(|row| LockHolder {
            client: Arc::clone(row.client.as_ref().expect("locks have clients")),
            claim: row.claim,
            token: row.token,
            deadline: row.lease.deadline,
            grace_until: row.lease.deadline.plus(self.limits.grace_us),
        });
        let pause = self.standstill(now, key).map(Box::new);
        LockView { job: Arc::clone(key.name().expect("locks have names")), holder, pause, now }
    }

    pub(crate) fn view_claim(&self, now: Moment, at: usize) -> ClaimView {
        let row = &self.claims[at];
        let waits = row.status == Status::Waiting;
        let last_at = row.ended.map_or(now.at, |ended| ended.at);
        let position = || self.queue(&row.resource).take_while(|other| other.order <= row.order).count();
        ClaimView {
            id: row.claim,
            resource: Arc::clone(row.resource.name().expect("claimed resources have names")),
            status: match row.status {
                Status::Waiting => ClaimStatus::Waiting,
                Status::Active | Status::Grace | Status::Lapsed => ClaimStatus::Active,
                Status::Ended(how) => ClaimStatus::Ended(shown(how)),
            },
            timeout_us: row.ttl_us,
            metadata: row.metadata.clone(),
            owner: row.client.clone(),
            history: History {
                created: row.created.wall,
                waited: row.granted != Some(row.created),
                active: row.granted.map(|granted| granted.wall),
                ended: match row.status {
                    Status::Ended(how) => row.ended.map(|ended| (shown(how), ended.wall)),
                    _ => None,
                },
            },
            waiting_us: row.granted.map_or(last_at, |granted| granted.at).since(row.created.at),
            active_us: row.granted.map(|granted| last_at.since(granted.at)),
            ttl_us: (row.status == Status::Active).then(|| row.lease.deadline.since(now.at)),
            token: row.granted.map(|_| row.token),
            queue_position: waits.then(|| u32::try_from(position()).expect("few wait")),
            // Sixteen are shown, and scripts have no resource with more slots.
            holders: if waits { self.view_holders(&row.resource) } else { Vec::new() },
            holders_in_all: if waits {
                u32::try_from(self.holders(&row.resource).count()).expect("few hold")
            } else {
                0
            },
            eta_us: if waits { self.eta_us(now, &row.resource, Some(row.order)) } else { None },
            wait_ttl_us: if waits { row.particulars.wait_ttl_us } else { 0 },
            confirm_us: row.particulars.confirm_us,
            pause: if waits { self.standstill(now, &row.resource).map(Box::new) } else { None },
            slot: if holds(row) { self.named_slot(row).map(Box::new) } else { None },
            order: row.order,
            now: now.at,
        }
    }

    pub(crate) fn list_claims(&self, now: Moment, query: &ClaimQuery) -> ClaimPage {
        let mut page = ClaimPage { claims: Vec::new(), next: None };
        if let Some(name) = &query.filter.resource
            && !self.claims.iter().any(|row| row.resource == ResourceKey::Claim(Arc::clone(name)))
            && !self.resources.iter().any(|row| row.resource == ResourceKey::Claim(Arc::clone(name)))
        {
            return page;
        }
        let mut looked_at = 0;
        let mut last = query.after;
        for at in 0..self.claims.len() {
            let row = &self.claims[at];
            if row.resource.kind() != Kind::Claim || row.order <= query.after {
                continue;
            }
            if page.claims.len() == query.limit || looked_at == query.scan_max {
                page.next = Some(last);
                return page;
            }
            looked_at += 1;
            last = row.order;
            let view = self.view_claim(now, at);
            if matches(&view, query) {
                page.claims.push(view);
            }
        }
        page
    }

    pub(crate) fn list_resources(
        &self,
        now: Moment,
        after: Option<&Arc<str>>,
        limit: usize,
        scan_max: usize,
    ) -> ResourcePage {
        let mut names: Vec<&ResourceKey> = self.resources.iter().map(|row| &row.resource).collect();
        names.retain(|key| key.kind() == Kind::Claim);
        names.retain(|key| after.is_none_or(|after| key.name() > Some(after)));
        names.sort();
        let (mut resources, mut last_seen) = (Vec::new(), after.cloned());
        for (looked_at, key) in names.into_iter().enumerate() {
            if looked_at == scan_max || resources.len() == limit {
                return ResourcePage { resources, next: last_seen };
            }
            last_seen = key.name().cloned();
            if self.is_shown(key) {
                let mut view = self.view_resource(now, key);
                view.fittings.iter_mut().for_each(|fittings| fittings.slots = None);
                resources.push(view);
            }
        }
        ResourcePage { resources, next: None }
    }
}

/// A filter applies to what the view shows.
fn matches(view: &ClaimView, query: &ClaimQuery) -> bool {
    let filter = &query.filter;
    let status = match view.status {
        ClaimStatus::Waiting => StatusFilter::Waiting,
        ClaimStatus::Active => StatusFilter::Active,
        ClaimStatus::Ended(how) => StatusFilter::Ended(how),
    };
    filter.resource.as_ref().is_none_or(|name| *name == view.resource)
        && (filter.statuses.is_empty() || filter.statuses.contains(&status))
        && filter.owner.as_ref().is_none_or(|owner| view.owner.as_ref() == Some(owner))
        && filter.ttl_us.as_ref().is_none_or(|range| view.ttl_us.is_some_and(|ttl| range.contains(&ttl)))
        && filter.created.as_ref().is_none_or(|range| range.contains(&view.history.created))
        && filter.active_us.as_ref().is_none_or(|range| view.active_us.is_some_and(|active| range.contains(&active)))
        && filter.waiting_us.as_ref().is_none_or(|range| range.contains(&view.waiting_us))
}
