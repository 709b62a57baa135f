//! Deciding: a command and the state come in; changes, effects and an answer come out. Every decision goes through
//! `commit` (in `tell`), which applies the change at once, so that the rest of the step sees it.

mod acquire;
mod attention;
mod clock;
mod fittings;
mod lock;
mod resource;
mod room;
mod spend;
mod update;

use std::sync::Arc;

use crate::change::{Change, Claimed, Ending, Lease};
use crate::command::{Acquire, Command};
use crate::fact::Status;
use crate::ids::{ClaimId, Kind, ResourceKey, Token};
use crate::limits::TOKEN_MAX;
use crate::reply::{Answer, LockNews, PlaceView, Refusal, Reply};
use crate::state::{Cix, Rix};
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn decide(&mut self, now: Moment, command: Command, out: &mut Outbox) -> Answer {
        match command {
            Command::Configure { resource, capacity, label } => self.configure(now, &resource, capacity, label, out),
            Command::Unconfigure { resource } => Ok(self.unconfigure(now, resource, out)),
            Command::NameSlots(naming) => self.name_slots(now, *naming, out),
            Command::Pause { resource, reason, for_us } => self.pause(now, &resource, reason, for_us, out),
            Command::Resume { resource } => self.resume(now, &resource, out),
            Command::ServeSlot { resource, slot, out: reason } => self.serve_slot(now, resource, slot, reason, out),
            Command::Acquire(acquire) => match acquire.resource.kind() {
                Kind::Pool | Kind::Claim => self.acquire(now, *acquire, out),
                Kind::Lock => self.lock(now, *acquire, out),
            },
            Command::Renew { resource, claim, ttl_us } => self.renew(now, &resource, claim, ttl_us, out),
            Command::Return { resource, claim } => Ok(self.give_back(now, &resource, claim, out)),
            Command::Unlock { resource, client, token } => self.unlock(now, &resource, &client, token, out),
            Command::Spend(spend) => self.spend(now, *spend, out),
            Command::Update { claim, update } => self.update(now, claim, update, out),
            Command::Mark => {
                self.commit(now, Change::Marked, out);
                Ok(Reply::Done)
            }
            Command::Attend { claim, is_attended } => Ok(self.attend(now, claim, is_attended, out)),
            Command::Withdraw { claim } => Ok(self.withdraw(now, claim, out)),
            Command::HandBack { claim, heard_by_nobody } => Ok(self.hand_back(now, claim, heard_by_nobody, out)),
            Command::ViewResource { resource } => self.answer_resource(now, &resource),
            Command::ViewPlace { resource, name } => self.answer_place(now, &resource, &name),
            Command::ViewHolding { resource, key } => {
                Ok(Reply::Holding(Box::new(self.state.view_holding(now, &resource, key.as_ref()))))
            }
            Command::ViewLease { resource, claim } => {
                let cix = self.held_lease(now, &resource, claim).map_err(|_| Refusal::NoSuchClaim)?;
                Ok(Reply::Lease(self.state.view_lease(now, cix)))
            }
            Command::ViewClaim { claim } => {
                let cix = self.touched_claim(now, claim)?;
                self.heed(now, cix, out);
                Ok(Reply::Claim(Box::new(self.state.view_claim(now, cix))))
            }
            Command::Revoke { resource, which } => Ok(Reply::Revoked(self.revoke(now, &resource, which, out))),
            Command::ViewFence { resource, token } => Ok(Reply::Fence(self.state.view_fence(now, &resource, token))),
            Command::Survey { after, scan_max, with_texts } => {
                Ok(Reply::Survey(self.state.view_survey(now, after.as_ref(), scan_max, with_texts)))
            }
            Command::Inspect { resource } => {
                let rix = self.state.resource(&resource).filter(|&rix| self.state.is_shown(rix));
                let rix = rix.ok_or(Refusal::NoSuchResource)?;
                Ok(Reply::Inspection(Box::new(self.state.view_inspection(now, rix))))
            }
            Command::ListClaims(query) => Ok(Reply::Claims(self.state.view_claims(now, &query))),
            Command::ListResources { after, limit, scan_max } => {
                Ok(Reply::Resources(self.state.view_resources(now, after.as_ref(), limit, scan_max)))
            }
        }
    }

    /// Puts a new claim at the end of the queue.
    pub(crate) fn enqueue(&mut self, now: Moment, acquire: Acquire, wait_until: Time, out: &mut Outbox) -> Cix {
        let id = acquire.id;
        let claimed = Claimed {
            claim: id,
            resource: acquire.resource,
            ttl_us: acquire.ttl_us,
            wait_until,
            keep_us: if wait_until == Time::NEVER { 0 } else { acquire.options.keep_us },
            client: acquire.client,
            principal: acquire.principal,
            key: acquire.key,
            metadata: acquire.metadata,
            particulars: acquire.options.particulars,
        };
        self.commit(now, Change::Claimed(Box::new(claimed)), out);
        self.state.expect_claim(id)
    }

    /// Gives a slot to a waiting claim.
    pub(crate) fn grant(
        &mut self,
        now: Moment,
        cix: Cix,
        slot: u32,
        ttl_us: u64,
        from: Option<Arc<str>>,
        out: &mut Outbox,
    ) {
        let claim = &self.state.claims[cix];
        let id = claim.id;
        let last_token = if planted!(TokenFromRow) {
            self.state.resources[claim.resource].last_token
        } else {
            self.state.counters.last_token
        };
        let token = Token(last_token.0 + 1);
        assert!(token.0 <= TOKEN_MAX, "tokens stay below 2^53");
        let lease = self.lease_from(now, self.state.kind(claim.resource), ttl_us);
        self.commit_after(now, Change::Granted { claim: id, slot, token, lease }, from, out);
    }

    /// A lease that starts now. Only locks have a grace.
    pub(crate) fn lease_from(&self, now: Moment, kind: Kind, ttl_us: u64) -> Lease {
        let grace_us = if kind == Kind::Lock { self.limits.grace_us } else { 0 };
        Lease { deadline: now.at.plus(ttl_us), grace_us }
    }

    pub(crate) fn extend(&mut self, now: Moment, cix: Cix, ttl_us: u64, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        let id = claim.id;
        let lease = self.lease_from(now, self.state.kind(claim.resource), ttl_us);
        self.commit(now, Change::Renewed { claim: id, lease }, out);
    }

    /// Ends a claim and grants its slot to the next in line.
    pub(crate) fn end(&mut self, now: Moment, cix: Cix, how: Ending, out: &mut Outbox) {
        let rix = self.state.claims[cix].resource;
        self.end_only(now, cix, how, out);
        self.settle(now, rix, out);
    }

    pub(crate) fn end_only(&mut self, now: Moment, cix: Cix, how: Ending, out: &mut Outbox) {
        let claim = self.state.claims[cix].id;
        self.commit(now, Change::Ended { claim, how }, out);
    }

    /// Grants while there are both a free slot and a waiter. Afterwards no claim waits while a slot is free (L1),
    /// unless the resource is paused.
    pub(crate) fn settle(&mut self, now: Moment, rix: Rix, out: &mut Outbox) {
        // The resource may have been dropped with its last claim. Its index is then unused or belongs to another
        // resource, and that one is settled already.
        while let Some(resource) = self.state.resources.get(rix) {
            let next = if planted!(LastInFirstOut) { resource.queue_tail } else { resource.queue_head };
            let Some(head) = next.some() else { return };
            let lapsed = self.lapsed_holder(rix).filter(|_| !resource.is_paused());
            let slot = match lapsed {
                Some(_) => Some(0),
                None => resource.free_slot(),
            };
            let Some(slot) = slot else { return };
            let from = lapsed.and_then(|holder| self.supersede(now, holder, out));
            let ttl_us = self.first_ttl_us(now, head);
            let is_met = self.state.claims[head].is_attended() || planted!(UnattendedGrantConfirmed);
            self.grant(now, head, slot, ttl_us, from, out);
            if is_met {
                self.confirm(now, head, out);
            }
        }
    }

    /// A caller learns of the grant in this very step.
    pub(crate) fn confirm(&mut self, now: Moment, cix: Cix, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        if claim.confirm_us() > 0 {
            let claim = claim.id;
            self.commit(now, Change::Confirmed { claim }, out);
        }
    }

    /// The ttl that a waiting claim is granted. While none of its calls is connected, the grant lasts only as long as
    /// the place in the queue would have, or as the caller has to confirm it: a slot is not lost for a whole ttl to a
    /// caller that does not come back.
    fn first_ttl_us(&self, now: Moment, cix: Cix) -> u64 {
        let claim = &self.state.claims[cix];
        if claim.confirm_us() > 0 && !claim.is_attended() && !planted!(ConfirmIgnored) {
            return claim.confirm_us();
        }
        let rest_us = claim.deadline.since(now.at);
        let is_away = claim.keep_us() > 0 && rest_us <= claim.keep_us();
        if is_away { claim.ttl_us.min(rest_us) } else { claim.ttl_us }
    }

    /// A caller that was away when its claim was granted is back: from now on it has its whole ttl.
    pub(crate) fn take_up(&mut self, now: Moment, cix: Cix, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        let was_short = claim.deadline.since(claim.granted_at) < claim.ttl_us;
        if claim.status == Status::Active && claim.keep_us() > 0 && was_short {
            self.extend(now, cix, claim.ttl_us, out);
        }
    }

    /// The last holder of a lapsed lock, which any client may take.
    pub(crate) fn lapsed_holder(&self, rix: Rix) -> Option<Cix> {
        let holder = self.state.lock_holder(rix)?;
        (self.state.claims[holder].status == Status::Lapsed).then_some(holder)
    }

    /// A lapsed lock goes to another client; returns the name of the client that let it lapse.
    pub(crate) fn supersede(&mut self, now: Moment, holder: Cix, out: &mut Outbox) -> Option<Arc<str>> {
        let client = self.state.claims[holder].client().cloned();
        self.end_only(now, holder, Ending::Superseded, out);
        client
    }

    /// A pool's claim that holds its slot right now.
    pub(crate) fn held_lease(&self, now: Moment, resource: &ResourceKey, claim: ClaimId) -> Result<Cix, Refusal> {
        let rix = self.known(resource)?;
        let cix = self.state.claim(claim).filter(|&cix| self.state.claims[cix].resource == rix);
        let cix = cix.ok_or(Refusal::NotHeld { how: None })?;
        self.assert_touched(now, cix);
        let is_held = self.state.claims[cix].status == Status::Active || planted!(RenewalOfTheEnded);
        is_held.then_some(cix).ok_or_else(|| Refusal::NotHeld { how: self.state.claims[cix].ending() })
    }

    /// A claim of the claims dialect.
    pub(crate) fn touched_claim(&self, now: Moment, claim: ClaimId) -> Result<Cix, Refusal> {
        let cix = self.state.claim(claim).ok_or(Refusal::NoSuchClaim)?;
        if self.state.kind(self.state.claims[cix].resource) != Kind::Claim {
            return Err(Refusal::NoSuchClaim);
        }
        self.assert_touched(now, cix);
        Ok(cix)
    }

    /// A resource that exists for callers.
    pub(crate) fn known(&self, resource: &ResourceKey) -> Result<Rix, Refusal> {
        let rix = self.state.resource(resource).ok_or(Refusal::NoSuchResource)?;
        let is_known = match resource.kind() {
            Kind::Pool => self.state.resources[rix].configured,
            Kind::Claim => self.state.is_shown(rix),
            Kind::Lock => true,
        };
        is_known.then_some(rix).ok_or(Refusal::NoSuchResource)
    }

    fn answer_place(&self, now: Moment, resource: &ResourceKey, name: &Arc<str>) -> Answer {
        let seen = self.answer_resource(now, resource)?;
        let place = match self.state.resource(resource) {
            Some(rix) => self.state.view_place(now, rix, name, seen),
            None => PlaceView { seen, queue_position: None, waiting: 0, holder: None, eta_us: None },
        };
        Ok(Reply::Place(Box::new(place)))
    }

    pub(crate) fn answer_resource(&self, now: Moment, resource: &ResourceKey) -> Answer {
        match resource.kind() {
            Kind::Lock => Ok(Reply::Lock(self.state.view_lock(now, resource), LockNews::Seen)),
            Kind::Pool | Kind::Claim => Ok(Reply::Resource(self.state.view_resource(now, self.known(resource)?))),
        }
    }
}
