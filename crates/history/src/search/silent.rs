//! Effects that may have happened unheard in a gap of the witness: calls whose answer was lost took effect, and their
//! grants were handed back because their callers could not be told.

use std::collections::BTreeSet;

use super::Known;
use super::world::{Possible, Since, Who};
use crate::order::Witness;
use crate::row::until;
use crate::{Call, Contradiction, End, HeardAnswer, Outcome, Wish};

impl Known<'_> {
    /// The possible worlds when the next answer is due, including the present ones.
    pub(super) fn whatever_may_have_been(
        &self,
        worlds: BTreeSet<Possible>,
        one: Witness,
    ) -> Result<BTreeSet<Possible>, Contradiction> {
        let mut open: Vec<Possible> = worlds.iter().cloned().collect();
        let mut all = worlds;
        while let Some(world) = open.pop() {
            let happened = world.awaited.iter().flat_map(|&op| self.happened(&world, op, one.by_us));
            let next: Vec<Possible> = happened.chain(self.given_back(&world)).collect();
            for next in next.into_iter().map(|next| self.with_refusals(next, one.by_us)) {
                if !all.contains(&next) {
                    all.insert(next.clone());
                    open.push(next);
                }
            }
            if all.len() > self.rules.worlds_max {
                let why = format!("the search was given up: more than {} worlds", self.rules.worlds_max);
                return Err(Contradiction { op: one.op, why });
            }
        }
        Ok(all)
    }

    /// Notes the calls under way whose refusal is true now. A call that waited and was refused, and is asked for again,
    /// is told so again, whatever has become of the resource.
    pub(super) fn with_refusals(&self, mut world: Possible, by_us: u64) -> Possible {
        for &op in self.repeated.iter().filter(|op| world.awaited.contains(op)) {
            let Outcome::Answered { answer, stamp, .. } = &self.history[op].outcome else { continue };
            let is_refusal =
                matches!(answer, HeardAnswer::Full | HeardAnswer::NoResource | HeardAnswer::LockedBy { .. });
            if is_refusal && self.answered(world.clone(), Witness { stamp: *stamp, op, by_us }, answer).is_ok() {
                world.refused.insert(op);
            }
        }
        world
    }

    /// The earliest time at which an unanswered call can have happened.
    fn since(&self, op: usize) -> Since {
        self.open.get(&op).copied().unwrap_or_default()
    }

    /// The grant of an unanswered claim, handed back while the process that knew of it lived.
    fn given_back(&self, world: &Possible) -> Vec<Possible> {
        let is_open =
            |n: &usize| world.claims[*n].who == Who::Untold && self.open.contains_key(&world.claims[*n].maker);
        let untold = (0..world.claims.len()).filter(is_open);
        let without = |n: usize| {
            let mut next = world.clone();
            let since = self.since(next.claims[n].maker);
            next.end(self, n, since);
            next
        };
        untold.map(without).collect()
    }

    /// The worlds after an unanswered call took effect; none if it would have had no effect.
    fn happened(&self, world: &Possible, op: usize, by_us: u64) -> Vec<Possible> {
        let (since, start_us) = (self.since(op), self.history[op].start_us);
        let mut next = world.clone();
        let repeats = self.repeated.contains(&op);
        if repeats && world.made_by(op).is_some() {
            return Vec::new();
        }
        if !repeats {
            next.awaited.remove(&op);
        }
        let changed = |next: Possible| if next == *world { Vec::new() } else { vec![next] };
        match self.call(op) {
            Call::Configure { capacity, .. } => {
                next.capacity = Some(*capacity);
                next.settle(self, since);
                vec![next]
            }
            Call::Delete { .. } => {
                next.capacity = None;
                next.claims.clear();
                vec![next]
            }
            Call::Acquire { key, .. } | Call::Claim { key, .. } => {
                let is_used = |key: &str| next.keyed(self, key).is_some() || self.keys.contains_key(key);
                if key.as_deref().is_some_and(is_used) || next.capacity.is_none() {
                    return Vec::new();
                }
                self.with_its_token(self.made_unheard(&next, op, by_us), op)
            }
            Call::Renew { lease, ttl_us, .. } => {
                let Some(n) = next.find(lease) else { return Vec::new() };
                let Some(hold) = &mut next.claims[n].hold else { return Vec::new() };
                hold.until_us = until(start_us, *ttl_us);
                changed(next)
            }
            Call::Release { lease, .. } => {
                let Some(n) = next.find(lease) else { return Vec::new() };
                next.end(self, n, since);
                vec![next]
            }
            Call::Update { claim, wish, .. } => self.updated_unheard(next, claim, *wish, since, by_us),
            Call::Lock { client, ttl_us, .. } => {
                let held = self.lock_of(&next).map(|(holder, hold)| (holder == client, self.has_lapsed(hold, by_us)));
                match held {
                    Some((true, _)) => {
                        let who = next.claims[0].who.clone();
                        self.relock(&mut next, op, start_us, *ttl_us);
                        // If a call renewed it whose answer no client heard, it may still be unknown to all clients.
                        next.claims[0].who = who;
                        changed(next)
                    }
                    None | Some((false, true)) => {
                        self.take_lock(&mut next, Who::Untold, op, since);
                        self.with_its_token(vec![next], op)
                    }
                    Some((false, false)) => Vec::new(),
                }
            }
            Call::Unlock { client, .. } => match self.lock_of(&next) {
                Some((holder, _)) if holder == client => {
                    next.claims.clear();
                    vec![next]
                }
                _ => Vec::new(),
            },
            Call::View { .. } | Call::ViewLease { .. } | Call::ViewClaim { .. } | Call::ViewLock { .. } => Vec::new(),
        }
    }

    /// A call that will be answered got this grant, or one that was handed back before its answer: of the former the
    /// slot and the token are known.
    fn with_its_token(&self, mut worlds: Vec<Possible>, op: usize) -> Vec<Possible> {
        let Outcome::Answered { answer, .. } = &self.history[op].outcome else { return worlds };
        let (slot, token) = match answer {
            HeardAnswer::Held { slot, token, .. } => (*slot, *token),
            HeardAnswer::Locked { token, .. } => (0, *token),
            _ => return worlds,
        };
        let has_slot = |world: &Possible, n: usize| world.claims[n].hold.is_some_and(|hold| hold.slot == slot);
        let heard = worlds.iter().filter(|world| token > world.last_token).filter_map(|world| {
            let n = world.made_by(op).filter(|&n| has_slot(world, n))?;
            let mut world = world.clone();
            world.show_token(n, token).ok()?;
            Some(world)
        });
        let heard: Vec<Possible> = heard.collect();
        worlds.extend(heard);
        worlds
    }

    /// An unheard call got a slot, or stands in line.
    fn made_unheard(&self, world: &Possible, op: usize, by_us: u64) -> Vec<Possible> {
        let (since, is_standing) = (self.since(op), matches!(self.call(op), Call::Claim { .. }));
        let take = |mut world: Possible| {
            let slot = world.free_slot()?;
            if world.line().next().is_some() {
                return None;
            }
            let n = world.enter(Who::Untold, op);
            world.hold(self, n, slot, since);
            Some(world)
        };
        let mut worlds: Vec<Possible> = Vec::new();
        if is_standing && world.is_full() {
            let mut waiting = world.clone();
            waiting.enter(Who::Untold, op);
            worlds.push(waiting);
        }
        // Its slot depends on how many leases had run out by then.
        worlds.extend(self.with_any_run_out(world.clone(), by_us).into_iter().filter_map(take));
        worlds
    }

    fn updated_unheard(&self, world: Possible, claim: &str, wish: Wish, since: Since, by_us: u64) -> Vec<Possible> {
        let as_found = match wish {
            // A claim whose turn had come has been granted already.
            Wish::Active => return Vec::new(),
            Wish::Revoked => vec![world],
            Wish::Released | Wish::Ttl { .. } => self.in_which_active(world, claim, by_us),
        };
        let update = |mut world: Possible| {
            let n = world.find(claim)?;
            match wish {
                Wish::Active => {}
                Wish::Ttl { ttl_us } => world.claims[n].hold.as_mut()?.until_us = until(since.at_us, ttl_us),
                Wish::Released | Wish::Revoked => {
                    let how = if wish == Wish::Released { End::Released } else { End::Revoked };
                    world.ends.insert(claim.to_owned(), how);
                    world.end(self, n, since);
                }
            }
            Some(world)
        };
        as_found.into_iter().filter_map(update).collect()
    }
}
