//! Locks: the meaning of their answers in one world. A lock stays with its last holder until another takes it.

use super::Known;
use super::answered::{After, no_answer};
use super::world::{Hold, Possible, Since, Who};
use crate::order::Witness;
use crate::row::until;
use crate::{Call, HeardAnswer, Taken};

impl Known<'_> {
    pub(super) fn lock_answered(&self, mut world: Possible, one: Witness, answer: &HeardAnswer) -> After {
        let op = &self.history[one.op];
        let lock = self.lock_of(&world);
        match (&op.call, answer) {
            (Call::Lock { client, ttl_us, .. }, HeardAnswer::Locked { token, how }) => match (how, lock) {
                (Taken::Renewed, Some((holder, _))) if holder == client => {
                    self.relock(&mut world, one.op, op.start_us, *ttl_us);
                    world.show_token(0, *token)?;
                    Ok(vec![world])
                }
                (Taken::Renewed, lock) => Err(format!("{client} renewed what {:?} holds", name(lock))),
                (Taken::Acquired { .. }, Some(_)) if world.made_by(one.op).is_some() => {
                    world.check_own(one.op, *token)?;
                    world.claims[0].who = Who::Told(client.clone());
                    world.show_token(0, *token)?;
                    Ok(vec![world])
                }
                (Taken::Acquired { from }, lock) => {
                    self.may_take(client, from.as_deref(), lock, one.by_us)?;
                    let since = world.by(op.start_us);
                    self.take_lock(&mut world, Who::Told(client.clone()), one.op, since);
                    world.show_token(0, *token)?;
                    Ok(vec![world])
                }
            },
            (Call::Lock { client, .. }, HeardAnswer::LockedBy { holder, in_grace }) => match lock {
                _ if holder == client => Err(format!("{client} was refused its own lock")),
                Some((is, hold)) if is == holder => {
                    if *in_grace && hold.until_us > one.by_us {
                        return Err(format!("the lease of {holder} cannot have run out yet"));
                    }
                    Ok(vec![world])
                }
                lock => Err(format!("locked by {holder}, but {:?} holds it", name(lock))),
            },
            (Call::Unlock { client, .. }, HeardAnswer::Released(true)) => match lock {
                Some((holder, _)) if holder == client => {
                    world.claims.clear();
                    Ok(vec![world])
                }
                lock => Err(format!("{client} released what {:?} holds", name(lock))),
            },
            (Call::Unlock { client, .. }, HeardAnswer::NotTheHolder) => match lock {
                Some((holder, _)) if holder == client => {
                    Err(format!("{client} holds it, and was told that it does not"))
                }
                _ => Ok(vec![world]),
            },
            (Call::ViewLock { .. }, HeardAnswer::LockSeen { holder: None, .. }) => match lock {
                None => Ok(vec![world]),
                Some((holder, _)) => Err(format!("free was shown, {holder} holds it")),
            },
            (Call::ViewLock { .. }, HeardAnswer::LockSeen { holder: Some((shown, token)), is_expired }) => match lock {
                Some((holder, hold)) if holder == shown => {
                    if *is_expired && hold.until_us > one.by_us {
                        return Err(format!("the lease of {holder} cannot have run out yet"));
                    }
                    world.show_token(0, *token)?;
                    Ok(vec![world])
                }
                lock => Err(format!("{shown} was shown, but {:?} holds it", name(lock))),
            },
            (_, answer) => no_answer(answer),
        }
    }

    /// The client that has the lock, or had it last.
    pub(super) fn lock_of(&self, world: &Possible) -> Option<(&str, Hold)> {
        let claim = world.claims.first()?;
        match self.call(claim.maker) {
            Call::Lock { client, .. } => Some((client, claim.hold?)),
            _ => None,
        }
    }

    /// Checks that the lock can go to this client, from the client that let it lapse.
    fn may_take(&self, client: &str, from: Option<&str>, lock: Option<(&str, Hold)>, by_us: u64) -> Result<(), String> {
        match lock {
            None if from.is_none() => Ok(()),
            None => Err(format!("{client} took it from {from:?}, who does not have it")),
            Some((holder, _)) if holder == client => Err(format!("{client} acquired what it holds")),
            Some((holder, _)) if from != Some(holder) => {
                Err(format!("{client} took it from {from:?}, {holder} has it"))
            }
            Some((holder, hold)) if !self.has_lapsed(hold, by_us) => {
                Err(format!("{client} took it, though {holder} cannot have let it lapse yet"))
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) fn has_lapsed(&self, hold: Hold, by_us: u64) -> bool {
        hold.until_us.saturating_add(self.rules.grace_us) <= by_us
    }

    /// A client gets the lock, from any holder.
    pub(super) fn take_lock(&self, world: &mut Possible, who: Who, op: usize, since: Since) {
        world.claims.clear();
        let n = world.enter(who, op);
        world.hold(self, n, 0, since);
    }

    /// The holder renews, so it knows of it.
    pub(super) fn relock(&self, world: &mut Possible, op: usize, start_us: u64, ttl_us: u64) {
        if let (Call::Lock { client, .. }, Some(claim)) = (self.call(op), world.claims.first_mut()) {
            claim.who = Who::Told(client.clone());
            if let Some(hold) = &mut claim.hold {
                hold.until_us = until(start_us, ttl_us);
            }
        }
    }
}

fn name(lock: Option<(&str, Hold)>) -> Option<&str> {
    lock.map(|(holder, _)| holder)
}
