//! Claims that no caller asks about any more. A waiting claim may have a `wait_ttl`: it is withdrawn when it was not
//! asked about for that long. It may have to be confirmed: a grant made while no caller was parked on it is short until
//! the claim is asked about.
//!
//! ```text
//!            asked            not written down           written down          wait_ttl after the last question,
//!              │  < wait_ttl / 4      │  ≥ wait_ttl / 4        │              at most a quarter more: withdrawn
//! ```
//!
//! A question is written down only when a quarter of the `wait_ttl` has passed since the last one that was, and then
//! for a quarter longer. So polling costs at most four changes per `wait_ttl`, and no claim is withdrawn too early.

use crate::change::Change;
use crate::fact::Status;
use crate::ids::ClaimId;
use crate::reply::Reply;
use crate::state::Cix;
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

/// How long a question keeps a claim in its queue.
pub(crate) fn kept_us(wait_ttl_us: u64) -> u64 {
    wait_ttl_us + wait_ttl_us / 4
}

impl Engine {
    /// A caller asks about this claim: a waiting one stays, a granted one is confirmed, and its time begins now.
    pub(crate) fn heed(&mut self, now: Moment, cix: Cix, out: &mut Outbox) {
        let claim = &self.state.claims[cix];
        match claim.status {
            Status::Waiting => {
                if let Some(wait_until) = self.kept_until(now, cix).filter(|_| !planted!(QuestionNotHeeded)) {
                    let claim = claim.id;
                    self.commit(now, Change::Kept { claim, wait_until }, out);
                }
            }
            Status::Active if claim.confirm_us() > 0 && !planted!(ConfirmationNotHeeded) => {
                self.extend(now, cix, claim.ttl_us, out);
            }
            Status::Active | Status::Grace | Status::Lapsed | Status::Ended(_) => {}
        }
    }

    /// Until when a question keeps this claim waiting; `None` if the last one that was written down will do.
    pub(crate) fn kept_until(&self, now: Moment, cix: Cix) -> Option<Time> {
        let claim = &self.state.claims[cix];
        let wait_ttl_us = claim.wait_ttl_us();
        let is_stale = claim.deadline.since(now.at) <= wait_ttl_us || planted!(EveryQuestionWritten);
        (wait_ttl_us > 0 && claim.status == Status::Waiting && is_stale).then(|| now.at.plus(kept_us(wait_ttl_us)))
    }

    /// A first caller is parked on this claim, or the last one is gone. Either is a question.
    pub(crate) fn attend(&mut self, now: Moment, claim: ClaimId, is_attended: bool, out: &mut Outbox) -> Reply {
        if let Some(cix) = self.state.claim(claim).filter(|&cix| self.state.claims[cix].is_attentive()) {
            if let Some(rare) = self.state.claims[cix].rare_mut() {
                rare.is_attended = is_attended && !planted!(ParkedNotHeeded);
            }
            self.heed(now, cix, out);
        }
        Reply::Done
    }
}
