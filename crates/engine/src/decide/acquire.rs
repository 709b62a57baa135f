//! Borrowing a pool's slot and claiming a resource; giving either back. Locks have their own rules in `lock`.

use super::attention::kept_us;
use crate::change::{Change, Ending};
use crate::command::{Acquire, KeyReuse, Patience};
use crate::fact::Status;
use crate::ids::{ClaimId, Kind, ResourceKey};
use crate::reply::{Answer, LockNews, Refusal, Reply};
use crate::state::{Cix, Rix};
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn acquire(&mut self, now: Moment, mut acquire: Acquire, out: &mut Outbox) -> Answer {
        if let Some(cix) = self.state.claim(acquire.id) {
            return self.asked_again(now, cix);
        }
        let kind = acquire.resource.kind();
        if kind == Kind::Pool {
            self.known(&acquire.resource)?;
        }
        let rix = self.state.resource(&acquire.resource);
        if let Some(repeated) = self.repeated(rix, &acquire)? {
            self.assert_touched(now, repeated);
            if self.is_store_full && planted!(FullDiskRefusesRepeats) {
                return Err(Refusal::StoreFull);
            }
            return self.join(now, repeated, &acquire, out);
        }
        self.refuse_past_limits(&acquire.resource)?;
        self.refuse_past_quota(&acquire)?;

        let free_slot = match rix {
            None => Some(0),
            Some(rix) => {
                let resource = &self.state.resources[rix];
                let free = resource.free_slot();
                assert!(free.is_none() || resource.waiting == 0, "no claim waits while a slot is free");
                free
            }
        };
        let ttl_us = acquire.ttl_us;
        if let Some(slot) = free_slot {
            // The caller is there.
            acquire.options.particulars.confirm_us = 0;
            self.make_room_for_claim(now, &acquire, out)?;
            let cix = self.enqueue(now, acquire, Time::NEVER, out);
            self.grant(now, cix, slot, ttl_us, None, out);
            return Ok(self.reply_to_claimant(now, cix));
        }
        let wait_until = match acquire.patience {
            Patience::For { wait_us: 0 } => return Err(self.none_free(now, rix)),
            Patience::For { wait_us } => now.at.plus(wait_us).plus(acquire.options.keep_us),
            Patience::Standing => match acquire.options.particulars.wait_ttl_us {
                0 => Time::NEVER,
                wait_ttl_us => now.at.plus(kept_us(wait_ttl_us)),
            },
        };
        self.refuse_past_waiting_limit()?;
        self.refuse_past_waiting_quota(&acquire)?;
        self.make_room_for_claim(now, &acquire, out)?;
        let cix = self.enqueue(now, acquire, wait_until, out);
        self.tell_queued(cix, out);
        Ok(Reply::Waiting(self.state.claims[cix].id))
    }

    /// A node of a cluster sent this very request before, and has not heard: the same id is the same caller, so it gets
    /// its claim as it is, and nothing changes.
    pub(crate) fn asked_again(&self, now: Moment, cix: Cix) -> Answer {
        let claim = &self.state.claims[cix];
        let key = &self.state.resources[claim.resource].key;
        match (claim.status, key.kind()) {
            (Status::Waiting, _) => Ok(Reply::Waiting(claim.id)),
            (Status::Ended(Ending::Deleted), _) => Err(Refusal::NoSuchResource),
            (Status::Ended(Ending::TimedOut | Ending::Withdrawn), Kind::Lock) => Err(self.locked(now, key)),
            (Status::Ended(Ending::TimedOut | Ending::Withdrawn), Kind::Pool | Kind::Claim) => {
                Err(self.none_free(now, Some(claim.resource)))
            }
            // A hand-back undoes a claim, and frees its key.
            (Status::Ended(how), _) if claim.key().is_some() && how != Ending::HandedBack => {
                Err(Refusal::KeySpent { how })
            }
            (Status::Ended(how), _) => Err(Refusal::EndedUntold { how }),
            (_, Kind::Lock) => Ok(Reply::Lock(self.state.view_lock(now, key), LockNews::Acquired { from: None })),
            (_, Kind::Pool | Kind::Claim) => Ok(self.reply_to_claimant(now, cix)),
        }
    }

    /// The claim that an earlier request with the same idempotency key made.
    pub(crate) fn repeated(&self, rix: Option<Rix>, acquire: &Acquire) -> Result<Option<Cix>, Refusal> {
        let (Some(rix), Some(key)) = (rix, &acquire.key) else { return Ok(None) };
        let Some(cix) = self.state.named(rix, &key.name) else { return Ok(None) };
        let claim = &self.state.claims[cix];
        let is_free_again = match acquire.options.key_reuse {
            KeyReuse::Never => false,
            KeyReuse::AfterWait => claim.ending().is_some() && !claim.is_granted(),
            KeyReuse::Always => claim.ending().is_some(),
        };
        if is_free_again {
            return Ok(None);
        }
        if self.is_spent_unused(cix) {
            return Err(Refusal::KeySpent { how: Ending::Withdrawn });
        }
        let fingerprint = claim.key().map(|earlier| earlier.fingerprint);
        let is_another = fingerprint != Some(key.fingerprint)
            && (fingerprint.is_none() || fingerprint != acquire.options.former_fingerprint);
        if is_another && !planted!(KeyFingerprintIgnored) {
            return Err(Refusal::KeyReused);
        }
        match claim.ending() {
            Some(how) => Err(Refusal::KeySpent { how }),
            None => Ok(Some(cix)),
        }
    }

    /// A repeated request is answered with the claim of the first.
    fn join(&mut self, now: Moment, cix: Cix, acquire: &Acquire, out: &mut Outbox) -> Answer {
        let claim = &self.state.claims[cix];
        let id = claim.id;
        let wait_until = match acquire.patience {
            // A question keeps it for as long as any other does, however long this caller would wait.
            _ if claim.wait_ttl_us() > 0 => self.kept_until(now, cix).unwrap_or(claim.deadline),
            Patience::For { wait_us } => now.at.plus(wait_us).plus(claim.keep_us()),
            Patience::Standing => Time::NEVER,
        };
        let waits_longer = claim.status == Status::Waiting && wait_until > claim.deadline;
        self.take_up(now, cix, out);
        if self.state.claims[cix].status == Status::Active {
            self.heed(now, cix, out);
        }
        let claim = &self.state.claims[cix];
        if !claim.seen || waits_longer {
            self.commit(now, Change::Joined { claim: id, wait_until }, out);
        }
        match self.state.claims[cix].status {
            Status::Waiting => Ok(Reply::Waiting(id)),
            Status::Active | Status::Grace | Status::Lapsed => Ok(self.reply_to_claimant(now, cix)),
            Status::Ended(how) => Err(Refusal::KeySpent { how }),
        }
    }

    pub(crate) fn reply_to_claimant(&self, now: Moment, cix: Cix) -> Reply {
        match self.state.kind(self.state.claims[cix].resource) {
            Kind::Pool => Reply::Lease(self.state.view_lease(now, cix)),
            Kind::Claim => Reply::Claim(Box::new(self.state.view_claim(now, cix))),
            Kind::Lock => unreachable!("locks answer for themselves"),
        }
    }

    pub(crate) fn none_free(&self, now: Moment, rix: Option<Rix>) -> Refusal {
        let Some(rix) = rix else { return Refusal::NoneFree { waiting: 0, eta_us: None, pause: None } };
        Refusal::NoneFree {
            waiting: self.state.resources[rix].waiting,
            eta_us: self.state.eta_of_next_us(now, rix),
            pause: self.state.standstill(now, rix).map(Box::new),
        }
    }

    /// Refuses a new claim, or a first capacity of a resource, while the store is nearly full.
    pub(crate) fn refuse_growth(&self) -> Result<(), Refusal> {
        if self.is_store_full && !planted!(FullDiskIgnored) { Err(Refusal::StoreFull) } else { Ok(()) }
    }

    pub(crate) fn refuse_past_limits(&self, resource: &ResourceKey) -> Result<(), Refusal> {
        self.refuse_growth()?;
        let live = self.state.claims.len() - self.state.retained.len();
        if live >= self.limits.claims_max {
            return Err(Refusal::TooManyClaims { limit: self.limits.claims_max });
        }
        self.refuse_past_resource_limit(resource)
    }

    /// Refuses a claim of an owner that has as many claims as it may.
    pub(crate) fn refuse_past_quota(&self, acquire: &Acquire) -> Result<(), Refusal> {
        let limit = acquire.quota.live_max;
        let live = |owner| (self.owned_by(owner) + acquire.quota.elsewhere).live();
        if acquire.owner().is_some_and(|owner| live(owner) >= limit) {
            return Err(Refusal::OverQuota { is_about_waiting: false, limit });
        }
        Ok(())
    }

    /// Refuses a wait of an owner that has as many waiting claims as it may.
    pub(crate) fn refuse_past_waiting_quota(&self, acquire: &Acquire) -> Result<(), Refusal> {
        let limit = acquire.quota.waiting_max;
        let waiting = |owner| (self.owned_by(owner) + acquire.quota.elsewhere).waiting;
        if acquire.owner().is_some_and(|owner| waiting(owner) >= limit) {
            return Err(Refusal::OverQuota { is_about_waiting: true, limit });
        }
        Ok(())
    }

    pub(crate) fn refuse_past_resource_limit(&self, resource: &ResourceKey) -> Result<(), Refusal> {
        if self.state.resources.len() >= self.limits.resources_max && self.state.resource(resource).is_none() {
            return Err(Refusal::TooManyResources { limit: self.limits.resources_max });
        }
        Ok(())
    }

    pub(crate) fn refuse_past_waiting_limit(&self) -> Result<(), Refusal> {
        if self.state.waiting >= self.limits.waiting_max {
            return Err(Refusal::TooManyWaiting { limit: self.limits.waiting_max });
        }
        Ok(())
    }

    pub(crate) fn renew(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        claim: ClaimId,
        ttl_us: u64,
        out: &mut Outbox,
    ) -> Answer {
        let cix = self.held_lease(now, resource, claim)?;
        self.extend(now, cix, ttl_us, out);
        Ok(Reply::Lease(self.state.view_lease(now, cix)))
    }

    pub(crate) fn give_back(&mut self, now: Moment, resource: &ResourceKey, claim: ClaimId, out: &mut Outbox) -> Reply {
        match self.held_lease(now, resource, claim) {
            Ok(cix) => {
                self.end(now, cix, Ending::Released, out);
                Reply::Returned(true)
            }
            Err(_) => Reply::Returned(false),
        }
    }

    /// No caller waits for this claim any more, and none was told of a grant. The claim stays if its place is to be
    /// kept.
    pub(crate) fn withdraw(&mut self, now: Moment, claim: ClaimId, out: &mut Outbox) -> Reply {
        let is_spared =
            |cix: &Cix| planted!(GrantedIsNotWithdrawn) && self.state.claims[*cix].status != Status::Waiting;
        if let Some(cix) = self.state.claim(claim).filter(|cix| !is_spared(cix)) {
            let keep_us = self.state.claims[cix].keep_us();
            match self.state.claims[cix].status {
                Status::Waiting if keep_us > 0 => {
                    let wait_until = now.at.plus(keep_us);
                    self.commit(now, Change::Kept { claim, wait_until }, out);
                }
                Status::Waiting if self.state.claims[cix].wait_ttl_us() > 0 => {
                    let wait_until = now.at.plus(kept_us(self.state.claims[cix].wait_ttl_us()));
                    self.commit(now, Change::Kept { claim, wait_until }, out);
                }
                Status::Waiting => self.end(now, cix, Ending::Withdrawn, out),
                Status::Active | Status::Grace | Status::Lapsed => self.end(now, cix, Ending::HandedBack, out),
                Status::Ended(_) => {}
            }
        }
        Reply::Done
    }

    /// The caller of this claim could not be told of it, and no other caller has heard of it: the claim ends as if it
    /// had never existed. A lock that lapsed meanwhile ends too: it would go on naming a client that never got it.
    pub(crate) fn hand_back(&mut self, now: Moment, claim: ClaimId, heard_by_nobody: bool, out: &mut Outbox) -> Reply {
        if let Some(cix) = self.state.claim(claim) {
            let claim = &self.state.claims[cix];
            let is_unheard = !claim.seen || heard_by_nobody || planted!(HandBackOfWhatIsKnown);
            match claim.status {
                Status::Ended(_) => {}
                Status::Waiting | Status::Active | Status::Grace | Status::Lapsed => {
                    if is_unheard && planted!(LostWakeUpOnHandBack) {
                        self.end_only(now, cix, Ending::HandedBack, out);
                    } else if is_unheard {
                        self.end(now, cix, Ending::HandedBack, out);
                    }
                }
            }
        }
        Reply::Done
    }
}
