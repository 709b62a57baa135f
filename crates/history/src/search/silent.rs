//! Effects that may have happened unheard in a gap of the witness: calls whose answer was lost took effect, and their
//! grants were handed back because their callers could not be told.

use std::collections::BTreeSet;

use super::Known;
use super::world::{Possible, Since, Who};
use crate::order::Witness;
use crate::row::until;
use crate::{Call, Contradiction, End, Wish};

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
            for next in happened.chain(self.given_back(&world)) {
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
        next.awaited.remove(&op);
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
                self.made_unheard(&next, op, by_us)
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
                        vec![next]
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
