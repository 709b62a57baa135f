//! Changing a claim: the table of the claims dialect, applied as one step or not at all.

use crate::change::Change;
use crate::command::{Update, Wish};
use crate::fact::Status;
use crate::ids::ClaimId;
use crate::reply::{Answer, Refusal, Reply};
use crate::state::Cix;
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn update(&mut self, now: Moment, claim: ClaimId, update: Update, out: &mut Outbox) -> Answer {
        let cix = self.touched_claim(now, claim)?;
        match self.state.claims[cix].status {
            Status::Ended(how) => Err(Refusal::Ended(crate::view::shown_ending(how))),
            Status::Waiting => {
                // Also when it is refused: this is how callers of the claims dialect ask whether it is their turn.
                self.heed(now, cix, out);
                self.update_waiting(now, cix, update, out)
            }
            Status::Active | Status::Grace | Status::Lapsed => Ok(self.update_active(now, cix, update, out)),
        }
    }

    fn update_waiting(&mut self, now: Moment, cix: Cix, update: Update, out: &mut Outbox) -> Answer {
        // Every refusal comes before the first change.
        let activates_in = match (update.status, update.ttl_us) {
            (Some(Wish::Active), _) => Some(self.slot_for_next(cix).ok_or(Refusal::Contended)?),
            (Some(Wish::Released), _) | (_, Some(_)) => return Err(Refusal::StillWaiting),
            (Some(Wish::Revoked | Wish::Aborted | Wish::Withdrawn) | None, None) => None,
        };
        self.retime(now, cix, update.timeout_us, out);
        if let Some(slot) = activates_in {
            let ttl_us = update.ttl_us.unwrap_or(self.state.claims[cix].ttl_us);
            self.grant(now, cix, slot, ttl_us, None, out);
            self.confirm(now, cix, out);
        }
        Ok(self.finish_update(now, cix, update.status, out))
    }

    fn update_active(&mut self, now: Moment, cix: Cix, update: Update, out: &mut Outbox) -> Reply {
        self.retime(now, cix, update.timeout_us, out);
        let ends = update.status.and_then(Wish::ending).is_some();
        match update.ttl_us {
            _ if ends => {}
            Some(ttl_us) => self.extend(now, cix, ttl_us, out),
            None => self.heed(now, cix, out),
        }
        self.finish_update(now, cix, update.status, out)
    }

    fn finish_update(&mut self, now: Moment, cix: Cix, wish: Option<Wish>, out: &mut Outbox) -> Reply {
        match wish.and_then(Wish::ending) {
            Some(how) => {
                self.end(now, cix, how, out);
                Reply::ClaimEnded(how)
            }
            None => Reply::Claim(Box::new(self.state.view_claim(now, cix))),
        }
    }

    fn retime(&mut self, now: Moment, cix: Cix, timeout_us: Option<u64>, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        if let Some(ttl_us) = timeout_us.filter(|&ttl_us| ttl_us != claim.ttl_us) {
            let claim = claim.id;
            self.commit(now, Change::Retimed { claim, ttl_us }, out);
        }
    }

    /// The free slot of a claim whose turn it is. At rest there is none: a claim whose turn had come has been granted
    /// already.
    fn slot_for_next(&self, cix: Cix) -> Option<u32> {
        let resource = &self.state.resources[self.state.claims[cix].resource];
        let is_next = resource.queue_head == cix;
        resource.free_slot().filter(|_| is_next)
    }
}
