//! The sticky lock. It stays with its last holder: held, then in grace, then lapsed but still renewable until another
//! client takes it.
//!
//! ```text
//!           granted          deadline            deadline + grace
//!              │   held          │      grace         │   lapsed …
//!   others:    │   refused       │      refused       │   may take it
//!   holder:    │   renews        │      renews        │   renews
//! ```

use std::sync::Arc;

use crate::change::{Change, Ending};
use crate::command::{Acquire, Patience, Renewal};
use crate::fact::Status;
use crate::ids::{ResourceKey, Token};
use crate::reply::{Answer, LockHolder, LockNews, Refusal, Reply, Spent};
use crate::state::{Cix, Rix};
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn lock(&mut self, now: Moment, acquire: Acquire, out: &mut Outbox) -> Answer {
        if let Some(cix) = self.state.claim(acquire.id) {
            return self.asked_again(now, cix);
        }
        let key = acquire.resource.clone();
        let client = Arc::clone(acquire.client.as_ref().expect("a lock is asked for by a client"));
        let rix = self.state.resource(&key);
        let holder = rix.and_then(|rix| self.touched_holder(now, rix));

        if let Some(repeated) = self.repeated(self.state.resource(&key), &acquire)?
            && self.state.claims[repeated].status == Status::Active
        {
            // The answer to the first call was lost: this call gets what the first one got, and no more.
            self.take_up(now, repeated, out);
            let claim = &self.state.claims[repeated];
            if !claim.seen {
                self.commit(now, Change::Joined { claim: claim.id, wait_until: now.at }, out);
            }
            return Ok(Reply::Lock(self.state.view_lock(now, &key), LockNews::Acquired { from: None }));
        }
        let own = holder.filter(|&holder| self.state.claims[holder].client() == Some(&client));
        let renewed = match acquire.options.renewal {
            Renewal::Any => own,
            Renewal::Never => None,
            Renewal::Only(token) => {
                let granted =
                    own.filter(|&holder| self.state.claims[holder].token == token || planted!(RenewalOfAnyToken));
                Some(granted.ok_or(Refusal::NotHeld { how: None })?)
            }
        };
        if let Some(holder) = renewed {
            if self.is_store_full && planted!(FullDiskRefusesRenewals) {
                return Err(Refusal::StoreFull);
            }
            self.extend(now, holder, acquire.ttl_us, out);
            return Ok(Reply::Lock(self.state.view_lock(now, &key), LockNews::Renewed));
        }
        let is_open = match holder {
            None => true,
            Some(holder) if planted!(GraceForStrangers) => self.state.claims[holder].status != Status::Active,
            Some(holder) => self.state.claims[holder].status == Status::Lapsed,
        };
        let is_paused = rix.is_some_and(|rix| self.state.resources[rix].is_paused());
        if is_open && !is_paused {
            assert!(
                rix.is_none_or(|rix| self.state.resources[rix].waiting == 0),
                "no claim waits while a slot is free"
            );
            self.refuse_past_limits(&key)?;
            self.refuse_past_quota(&acquire)?;
            self.make_room_for_claim(now, &acquire, out)?;
            // Making room may have forgotten the client that let it lapse.
            let holder = self.state.resource(&key).and_then(|rix| self.state.lock_holder(rix));
            let from = holder.and_then(|holder| self.supersede(now, holder, out));
            let ttl_us = acquire.ttl_us;
            let cix = self.enqueue(now, acquire, crate::Time::NEVER, out);
            self.grant(now, cix, 0, ttl_us, from.clone(), out);
            return Ok(Reply::Lock(self.state.view_lock(now, &key), LockNews::Acquired { from }));
        }
        match acquire.patience {
            Patience::For { wait_us: 0 } | Patience::Standing => Err(self.locked(now, &key)),
            Patience::For { wait_us } => self.queue_for_lock(now, rix, acquire, &client, wait_us, out),
        }
    }

    fn queue_for_lock(
        &mut self,
        now: Moment,
        rix: Option<Rix>,
        acquire: Acquire,
        client: &Arc<str>,
        wait_us: u64,
        out: &mut Outbox,
    ) -> Answer {
        let until = |keep_us: u64| now.at.plus(wait_us).plus(keep_us);
        // A client stands in the queue once: a second call joins the first and has the last word on the ttl.
        if let Some(cix) = rix.and_then(|rix| self.state.waiting_client(rix, client)) {
            let claim = &self.state.claims[cix];
            let (id, ttl_us, wait_until) = (claim.id, claim.ttl_us, until(claim.keep_us()));
            self.commit(now, Change::Joined { claim: id, wait_until }, out);
            if ttl_us != acquire.ttl_us {
                self.commit(now, Change::Retimed { claim: id, ttl_us: acquire.ttl_us }, out);
            }
            return Ok(Reply::Waiting(id));
        }
        self.refuse_past_limits(&acquire.resource)?;
        self.refuse_past_quota(&acquire)?;
        self.refuse_past_waiting_limit()?;
        self.refuse_past_waiting_quota(&acquire)?;
        self.make_room_for_claim(now, &acquire, out)?;
        let wait_until = until(acquire.options.keep_us);
        let cix = self.enqueue(now, acquire, wait_until, out);
        self.tell_queued(cix, out);
        Ok(Reply::Waiting(self.state.claims[cix].id))
    }

    pub(crate) fn unlock(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        client: &Arc<str>,
        token: Option<Token>,
        out: &mut Outbox,
    ) -> Answer {
        let holder = self.state.resource(resource).and_then(|rix| self.touched_holder(now, rix));
        if let Some(holder) = holder {
            let claim = &self.state.claims[holder];
            let is_own = claim.client() == Some(client) || planted!(ReleaseByStranger);
            if is_own && token.is_none_or(|token| claim.token == token) {
                self.end(now, holder, Ending::Released, out);
                return Ok(Reply::Unlocked);
            }
        }
        // Expiry may have granted it, or dropped the resource.
        let rix = self.state.resource(resource).filter(|_| token.is_none());
        let Some(place) = rix.and_then(|rix| self.state.waiting_client(rix, client)) else {
            return Err(Refusal::NotTheHolder);
        };
        self.end(now, place, Ending::Withdrawn, out);
        Ok(Reply::Spent(Spent::Waited))
    }

    /// The claim that holds the lock, or held it last.
    fn touched_holder(&self, now: Moment, rix: Rix) -> Option<Cix> {
        let holder = self.state.lock_holder(rix)?;
        self.assert_touched(now, holder);
        Some(holder)
    }

    pub(crate) fn locked(&self, now: Moment, resource: &ResourceKey) -> Refusal {
        let lock = self.state.view_lock(now, resource);
        // A paused lock may be refused after its grace, too.
        let is_in_grace = |holder: &LockHolder| holder.deadline <= now.at && now.at < holder.grace_until;
        let in_grace = lock.holder.as_ref().is_some_and(is_in_grace);
        let eta_us = self.state.resource(resource).and_then(|rix| self.state.eta_of_next_us(now, rix));
        Refusal::Locked { lock: Box::new(lock), in_grace, eta_us }
    }
}
