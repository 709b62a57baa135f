//! Claims: the meaning of their answers in one world. Their answers show places in line, but no slots.

use super::Known;
use super::answered::{After, no_answer};
use super::world::{Possible, Who};
use crate::order::Witness;
use crate::row::until;
use crate::{Call, End, HeardAnswer, Status, Wish};

impl Known<'_> {
    pub(super) fn claim_answered(&self, world: Possible, one: Witness, answer: &HeardAnswer) -> After {
        let op = &self.history[one.op];
        match (&op.call, answer) {
            (Call::Claim { key, .. }, HeardAnswer::Active { claim, token }) => {
                match world.asked_for(self, one.op, key.as_deref()) {
                    Some(n) => self.shown_active(named(world, n, claim)?, claim, *token, one.by_us),
                    None => self.made_active(world, one, claim, *token),
                }
            }
            (Call::Claim { key, .. }, HeardAnswer::Waiting { lease }) => {
                match world.asked_for(self, one.op, key.as_deref()) {
                    Some(n) => self.shown_waiting(named(world, n, lease)?, lease, None, one.by_us),
                    None => self.made_waiting(world, one, lease),
                }
            }
            (Call::Claim { key: Some(key), .. }, HeardAnswer::KeySpent) => self.spent(world, key, one),
            (Call::Update { claim, wish, .. }, HeardAnswer::Active { claim: told, token }) if claim == told => {
                let mut worlds = self.shown_active(world, claim, *token, one.by_us)?;
                if let Wish::Ttl { ttl_us } = wish {
                    for world in &mut worlds {
                        world.renew(claim, until(op.start_us, *ttl_us));
                    }
                }
                Ok(worlds)
            }
            (Call::ViewClaim { claim, .. }, HeardAnswer::Active { claim: told, token }) if claim == told => {
                self.shown_active(world, claim, *token, one.by_us)
            }
            (Call::ViewClaim { claim, .. }, HeardAnswer::InLine { claim: told, place }) if claim == told => {
                self.shown_waiting(world, claim, Some(*place), one.by_us)
            }
            (Call::ViewClaim { claim, .. }, HeardAnswer::Ended { claim: told, how }) if claim == told => {
                self.shown_ended(world, claim, *how, one.by_us)
            }
            (Call::Update { claim, wish, .. }, HeardAnswer::Released(true)) => {
                self.ended_as_wished(world, claim, *wish, op.start_us, one.by_us)
            }
            (Call::Update { claim, .. }, HeardAnswer::Refused { status: Status::Waiting }) => {
                self.shown_waiting(world, claim, None, one.by_us)
            }
            (Call::Update { claim, .. }, HeardAnswer::Refused { status: Status::Ended(how) }) => {
                self.shown_ended(world, claim, *how, one.by_us)
            }
            (Call::Update { claim, .. }, HeardAnswer::Refused { status: Status::Active }) => {
                Err(format!("{claim} is active, and that was refused"))
            }
            (Call::Update { claim, .. } | Call::ViewClaim { claim, .. }, HeardAnswer::NoClaim) => {
                if self.told.contains_key(claim.as_str()) {
                    return Err(format!("{claim} was told of, and is denied"));
                }
                Ok(vec![world])
            }
            (_, answer) => no_answer(answer),
        }
    }

    /// The claim was made and active at once: no claim was in line, and a slot was free.
    fn made_active(&self, world: Possible, one: Witness, claim: &str, token: u64) -> After {
        if self.told.contains_key(claim) {
            return Err(format!("{claim} was made twice"));
        }
        let mut reason = match (world.line().next(), world.holders().next()) {
            (Some(next), _) => format!("{claim} overtook {}", world.claims[next].who),
            (None, Some((n, _))) => format!("{claim} is active, though {} cannot have ended yet", world.claims[n].who),
            (None, None) => format!("{claim} is active, and nothing is there"),
        };
        let mut after = Vec::new();
        // All claims before it may have run out by then, one after the other.
        for mut world in self.with_any_run_out(world, one.by_us) {
            let Some(slot) = world.free_slot() else { continue };
            let op = &self.history[one.op];
            let n = world.enter(Who::Told(claim.to_owned()), one.op);
            let since = world.by(op.start_us);
            world.hold(self, n, slot, since);
            match world.show_token(n, token) {
                Ok(()) => after.push(world),
                Err(why) => reason = why,
            }
        }
        if after.is_empty() { Err(reason) } else { Ok(after) }
    }

    fn made_waiting(&self, mut world: Possible, one: Witness, claim: &str) -> After {
        if self.told.contains_key(claim) {
            return Err(format!("{claim} was made twice"));
        }
        if !world.is_full() {
            return Err(format!("{claim} waits though nothing is in its way"));
        }
        world.enter(Who::Told(claim.to_owned()), one.op);
        Ok(vec![world])
    }

    /// The worlds in which a claim is active: it is, or its turn came because those before it ran out.
    pub(super) fn in_which_active(&self, world: Possible, claim: &str, by_us: u64) -> Vec<Possible> {
        let mut open = vec![world];
        let mut active = Vec::new();
        while let Some(world) = open.pop() {
            match world.find(claim).map(|n| world.claims[n].hold.is_some()) {
                Some(true) => active.push(world),
                Some(false) => open.extend(self.with_run_out(world, 1, by_us)),
                None => {}
            }
        }
        active
    }

    fn shown_active(&self, world: Possible, claim: &str, token: u64, by_us: u64) -> After {
        let mut reason = self.why_not_active(&world, claim);
        let mut after = Vec::new();
        for mut world in self.in_which_active(world, claim, by_us) {
            let n = world.find(claim).ok_or("it was just found")?;
            match world.show_token(n, token) {
                Ok(()) => after.push(world),
                Err(why) => reason = why,
            }
        }
        if after.is_empty() { Err(reason) } else { Ok(after) }
    }

    /// The claim waits at this place: the difference of claims before it may have been active, and have run out since.
    fn shown_waiting(&self, world: Possible, claim: &str, place: Option<u32>, by_us: u64) -> After {
        let mut reason = None;
        let mut open = vec![world];
        let mut after = Vec::new();
        while let Some(world) = open.pop() {
            let is = match world.find(claim) {
                Some(n) if world.claims[n].hold.is_some() => Err(format!("{claim} waits, though it is active")),
                Some(n) => Ok(world.line().take_while(|&before| before != n).count() + 1),
                None => Err(format!("{claim} waits, though it had ended")),
            };
            match (is, place) {
                (Ok(is), Some(place)) if is != place as usize => {
                    reason = reason.or(Some(format!("{claim} is number {is} in line, not {place}")));
                    if is > place as usize {
                        open.extend(self.with_run_out(world, 1, by_us));
                    }
                }
                (Ok(_), _) => after.push(world),
                (Err(why), _) => reason = reason.or(Some(why)),
            }
        }
        if after.is_empty() { Err(reason.unwrap_or_default()) } else { Ok(after) }
    }

    fn why_not_active(&self, world: &Possible, claim: &str) -> String {
        match world.find(claim) {
            Some(n) => {
                let holder = world.holders().next().map(|(n, _)| world.claims[n].who.to_string());
                let place = world.line().take_while(|&before| before != n).count() + 1;
                format!("{claim} is number {place} in line behind {}", holder.unwrap_or_default())
            }
            None if self.told.contains_key(claim) => format!("{claim} had ended"),
            None => format!("{claim} was never made"),
        }
    }

    fn ended_as_wished(&self, world: Possible, claim: &str, wish: Wish, start_us: u64, by_us: u64) -> After {
        let worlds = match wish {
            Wish::Revoked if world.find(claim).is_some() => vec![world],
            Wish::Revoked | Wish::Released => {
                let reason = self.why_not_active(&world, claim);
                let active = self.in_which_active(world, claim, by_us);
                if active.is_empty() {
                    return Err(reason);
                }
                active
            }
            Wish::Active | Wish::Ttl { .. } => return Err("that ends nothing".to_owned()),
        };
        let end = |mut world: Possible| {
            let n = world.find(claim)?;
            let since = world.by(start_us);
            world.end(self, n, since);
            Some(world)
        };
        Ok(worlds.into_iter().filter_map(end).collect())
    }

    /// The claim has ended in this way.
    fn shown_ended(&self, mut world: Possible, claim: &str, how: End, by_us: u64) -> After {
        if !self.told.contains_key(claim) {
            return Err(format!("{claim} was never made"));
        }
        if let Some(told) = self.ended.get(claim) {
            let is_same = *told == how;
            return if is_same { Ok(vec![world]) } else { Err(format!("{claim} was {told:?}, and now {how:?}")) };
        }
        if let Some(was) = world.ends.remove(claim) {
            return if was == how { Ok(vec![world]) } else { Err(format!("{claim} was {was:?}, not {how:?}")) };
        }
        if world.find(claim).is_none() || how != End::Expired {
            return Err(format!("{claim} is {how:?}, and no call asked for that"));
        }
        let mut after = Vec::new();
        for mut world in self.in_which_active(world, claim, by_us) {
            let n = world.find(claim).ok_or("it was just found")?;
            if world.may_have_run_out(by_us).contains(&n) {
                world.run_out(self, n);
                world.ends.remove(claim);
                after.push(world);
            }
        }
        if after.is_empty() { Err(format!("{claim} cannot have ended yet")) } else { Ok(after) }
    }
}

/// An answer names the claim that a key leads to, for the first time or again.
fn named(mut world: Possible, n: usize, claim: &str) -> Result<Possible, String> {
    match &world.claims[n].who {
        Who::Told(before) if before != claim => Err(format!("its key led to {before}, now to {claim}")),
        Who::Told(_) => Ok(world),
        Who::Untold => {
            world.claims[n].who = Who::Told(claim.to_owned());
            Ok(world)
        }
    }
}

impl Possible {
    fn renew(&mut self, claim: &str, until_us: u64) {
        if let Some(n) = self.find(claim)
            && let Some(hold) = &mut self.claims[n].hold
        {
            hold.until_us = until_us;
        }
    }
}
