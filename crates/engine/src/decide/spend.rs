//! Spending an idempotency key: the claim it stands for ends, and a later copy of its request gets nothing, also when
//! the key was never seen before.

use crate::change::{Ending, IdempotencyKey};
use crate::command::{Acquire, Options, Patience, Quota, Spend};
use crate::fact::Status;
use crate::ids::Kind;
use crate::reply::{Answer, Refusal, Reply, Spent};
use crate::state::Cix;
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn spend(&mut self, now: Moment, spend: Spend, out: &mut Outbox) -> Answer {
        if spend.resource.kind() == Kind::Pool {
            self.known(&spend.resource)?;
        }
        let rix = self.state.resource(&spend.resource);
        let Some(cix) = rix.and_then(|rix| self.state.named(rix, &spend.key)) else {
            self.refuse_past_limits(&spend.resource)?;
            self.remember_spent(now, spend, out)?;
            return Ok(Reply::Spent(Spent::Nothing));
        };
        self.assert_touched(now, cix);
        let had = match self.state.claims[cix].status {
            Status::Active | Status::Grace | Status::Lapsed => Spent::Held,
            Status::Waiting => Spent::Waited,
            Status::Ended(_) => return Ok(Reply::Spent(Spent::Nothing)),
        };
        if spend.client.is_some() && self.state.claims[cix].client() != spend.client.as_ref() {
            return Err(Refusal::NotTheHolder);
        }
        self.end(now, cix, Ending::Released, out);
        Ok(Reply::Spent(had))
    }

    /// A key that stands for no claim is remembered by a claim that ended before it had a slot. That claim belongs to
    /// no client, so a lookup still finds the client's real place in the queue.
    fn remember_spent(&mut self, now: Moment, spend: Spend, out: &mut Outbox) -> Result<(), Refusal> {
        let Spend { resource, key, client: _, id } = spend;
        let acquire = Acquire {
            resource,
            id,
            ttl_us: 0,
            patience: Patience::For { wait_us: 0 },
            client: None,
            principal: None,
            key: Some(IdempotencyKey { name: key, fingerprint: 0 }),
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        };
        self.make_room_for_claim(now, &acquire, out)?;
        let cix = self.enqueue(now, acquire, Time::NEVER, out);
        self.tell_queued(cix, out);
        self.end_only(now, cix, Ending::Released, out);
        Ok(())
    }

    /// Returns whether this claim remembers a key that was spent before it got anything. The fingerprint of the key
    /// does not matter then.
    pub(crate) fn is_spent_unused(&self, cix: Cix) -> bool {
        let claim = &self.state.claims[cix];
        claim.status == Status::Ended(Ending::Released) && !claim.is_granted()
    }
}
