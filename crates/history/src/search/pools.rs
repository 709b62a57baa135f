//! Pools: the meaning of their answers in one world.

use super::Known;
use super::answered::{After, no_answer};
use super::world::{Possible, Who};
use crate::order::Witness;
use crate::row::until;
use crate::{Call, HeardAnswer};

impl Known<'_> {
    pub(super) fn pool_answered(&self, mut world: Possible, one: Witness, answer: &HeardAnswer) -> After {
        let op = &self.history[one.op];
        match (&op.call, answer) {
            (Call::Configure { capacity, .. }, HeardAnswer::Configured) => {
                world.capacity = Some(*capacity);
                let since = world.by(op.start_us);
                world.settle(self, since);
                Ok(vec![world])
            }
            (Call::Delete { .. }, HeardAnswer::Deleted(was_there)) => {
                if world.capacity.is_some() != *was_there {
                    return Err(format!("deleted: {was_there}, but the capacity is {:?}", world.capacity));
                }
                world.capacity = None;
                world.claims.clear();
                Ok(vec![world])
            }
            (Call::Acquire { key, .. }, HeardAnswer::Held { lease, slot, token }) => {
                if let Some(n) = world.asked_for(self, one.op, key.as_deref()) {
                    world.check_own(one.op, *token)?;
                    return found_by_key(world, n, lease, *slot, *token);
                }
                self.granted(world, one, key.as_deref(), lease, *slot, *token)
            }
            (Call::Acquire { .. }, HeardAnswer::Waiting { lease }) => {
                if self.told.contains_key(lease.as_str()) {
                    return Err(format!("{lease} was granted, and is said to wait"));
                }
                if !world.is_full() {
                    return Err(format!("{lease} waits though a slot is free"));
                }
                world.enter(Who::Told(lease.clone()), one.op);
                Ok(vec![world])
            }
            (Call::Acquire { .. }, HeardAnswer::Full) if world.made_by(one.op).is_some() => {
                Err("it was refused, and has a slot".to_owned())
            }
            (Call::Acquire { .. }, HeardAnswer::Full) => match (world.capacity, world.is_full()) {
                (None, _) => Err("it was full, and there is no such pool".to_owned()),
                (Some(capacity), false) => {
                    Err(format!("refused, but at most {} of {capacity} slots can be held", world.in_use()))
                }
                (Some(_), true) => Ok(vec![world]),
            },
            (Call::Acquire { key: Some(key), .. }, HeardAnswer::KeySpent) => self.spent(world, key, one),
            (
                Call::Acquire { .. } | Call::View { .. } | Call::Renew { .. } | Call::ViewLease { .. },
                HeardAnswer::NoResource,
            ) => match world.capacity {
                None => Ok(vec![world]),
                Some(_) => Err("the resource is there and was denied".to_owned()),
            },
            (Call::Renew { lease, ttl_us, .. }, HeardAnswer::Held { lease: told, slot, token }) if lease == told => {
                let (mut world, n) = self.still_held(world, lease, *slot, *token, one.by_us)?;
                if let Some(hold) = &mut world.claims[n].hold {
                    hold.until_us = until(op.start_us, *ttl_us);
                }
                Ok(vec![world])
            }
            (Call::ViewLease { lease, .. }, HeardAnswer::Held { lease: told, slot, token }) if lease == told => {
                self.still_held(world, lease, *slot, *token, one.by_us).map(|(world, _)| vec![world])
            }
            (Call::Renew { lease, .. } | Call::ViewLease { lease, .. }, HeardAnswer::Held { lease: told, .. }) => {
                Err(format!("{lease} was asked about and {told} came back"))
            }
            (Call::Release { lease, .. }, HeardAnswer::Released(true)) => match world.find(lease) {
                Some(n) => {
                    let since = world.by(op.start_us);
                    world.end(self, n, since);
                    Ok(vec![world])
                }
                None if self.told.contains_key(lease.as_str()) => Err(format!("{lease} had ended before")),
                None => Err(format!("{lease} was never granted")),
            },
            (Call::Release { lease, .. }, HeardAnswer::Released(false))
            | (Call::Renew { lease, .. } | Call::ViewLease { lease, .. }, HeardAnswer::NotHeld) => {
                self.not_held(world, lease, one.by_us)
            }
            (Call::View { .. }, HeardAnswer::Seen { capacity, in_use }) => {
                self.seen(world, *capacity, *in_use as usize, one.by_us)
            }
            (_, answer) => no_answer(answer),
        }
    }

    fn granted(
        &self,
        mut world: Possible,
        one: Witness,
        key: Option<&str>,
        lease: &str,
        slot: u32,
        token: u64,
    ) -> After {
        if let Some(before) = key.and_then(|key| self.keys.get(key)) {
            let what = if *before == lease { "had ended".to_owned() } else { format!("now to {lease}") };
            return Err(format!("key {} led to {before}, {what}", key.unwrap_or_default()));
        }
        if self.told.contains_key(lease) {
            return Err(format!("{lease} was granted twice"));
        }
        if let Some(next) = world.line().next() {
            return Err(format!("{lease} overtook {:?}", world.claims[next].who));
        }
        let capacity = world.capacity.unwrap_or(0);
        if slot >= capacity {
            return Err(format!("slot {slot} of {capacity}"));
        }
        let holder = world.holders().find(|(_, hold)| hold.slot == slot);
        if let Some((n, hold)) = holder {
            if hold.until_us > one.by_us {
                let who = &world.claims[n].who;
                return Err(format!("slot {slot} belongs to {who}, which cannot have ended yet"));
            }
            world.run_out(self, n);
        }
        // While there are more holders than the capacity, a lease must have run out for each one above it.
        let too_many = (world.in_use() + 1).saturating_sub(capacity as usize);
        let worlds = self.with_run_out(world, too_many, one.by_us);
        if worlds.is_empty() {
            return Err(format!("{capacity} hold it, and one more was granted"));
        }
        let mut after = Vec::new();
        let mut reason = String::new();
        for mut world in worlds {
            match world.free_slot() {
                Some(lowest) if lowest == slot => {
                    let n = world.enter(Who::Told(lease.to_owned()), one.op);
                    let since = world.by(self.history[one.op].start_us);
                    world.hold(self, n, slot, since);
                    match world.show_token(n, token) {
                        Ok(()) => after.push(world),
                        Err(why) => reason = why,
                    }
                }
                free => reason = format!("slot {slot} was given, slot {free:?} is the lowest that is free"),
            }
        }
        if after.is_empty() { Err(reason) } else { Ok(after) }
    }

    /// A lease that the answer shows as held, with the effects that this requires.
    fn still_held(
        &self,
        mut world: Possible,
        lease: &str,
        slot: u32,
        token: u64,
        by_us: u64,
    ) -> Result<(Possible, usize), String> {
        let Some(mut n) = world.find(lease) else {
            let had = if self.told.contains_key(lease) { "had ended" } else { "was never granted" };
            return Err(format!("{lease} {had}"));
        };
        while world.claims[n].hold.is_none() {
            // Its turn had come: one of the claims before it is gone.
            let Some(&first) = world.may_have_run_out(by_us).first() else {
                return Err(format!("{lease} waits, slot {slot} is held by another"));
            };
            world.run_out(self, first);
            n = world.find(lease).ok_or("it is in line")?;
        }
        world.show_token(n, token)?;
        let is = world.claims[n].hold.map(|hold| hold.slot);
        if is == Some(slot) { Ok((world, n)) } else { Err(format!("{lease} has slot {is:?}")) }
    }

    pub(super) fn not_held(&self, mut world: Possible, lease: &str, by_us: u64) -> After {
        let Some(n) = world.find(lease) else { return Ok(vec![world]) };
        match world.claims[n].hold {
            Some(hold) if hold.until_us > by_us => Err(format!("{lease} cannot have ended yet")),
            Some(_) => {
                world.run_out(self, n);
                Ok(vec![world])
            }
            // It waits, so it is not held.
            None => Ok(vec![world]),
        }
    }

    fn seen(&self, world: Possible, capacity: u32, in_use: usize, by_us: u64) -> After {
        if world.capacity != Some(capacity) {
            return Err(format!("capacity {capacity} was shown, it can be {:?}", world.capacity));
        }
        let (most, least) = (world.in_use(), world.in_use() - world.may_have_run_out(by_us).len());
        if !(least..=most).contains(&in_use) {
            return Err(format!("{in_use} in use was shown, it can be {least} to {most}"));
        }
        Ok(self.with_run_out(world, most - in_use, by_us))
    }

    /// The lease that a key stood for has ended.
    pub(super) fn spent(&self, world: Possible, key: &str, one: Witness) -> After {
        let by_us = one.by_us;
        let Some(n) = world.keyed(self, key) else {
            let was_used = |op: &&crate::Op| op.call.key() == Some(key) && op.start_us <= by_us;
            let times = self.history.iter().filter(was_used).count();
            return if times > 1 || self.repeated.contains(&one.op) {
                Ok(vec![world])
            } else {
                Err(format!("key {key} was never used before"))
            };
        };
        match world.claims[n].hold {
            Some(hold) if hold.until_us <= by_us => {
                let mut world = world;
                world.run_out(self, n);
                Ok(vec![world])
            }
            _ => Err(format!("key {key} is spent, though {} cannot have ended yet", world.claims[n].who)),
        }
    }
}

/// A repeated request is answered with the lease of the first one.
fn found_by_key(mut world: Possible, n: usize, lease: &str, slot: u32, token: u64) -> After {
    match &world.claims[n].who {
        Who::Told(before) if before != lease => return Err(format!("its key led to {before}, now to {lease}")),
        Who::Told(_) => {}
        Who::Untold => world.claims[n].who = Who::Told(lease.to_owned()),
    }
    world.show_token(n, token)?;
    let is = world.claims[n].hold.map(|hold| hold.slot);
    if is == Some(slot) { Ok(vec![world]) } else { Err(format!("{lease} has slot {is:?}, not {slot}")) }
}
