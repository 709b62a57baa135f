//! The walk along the witness that carries bounds: pools only, one pass.

use std::collections::BTreeMap;

use super::order::{self, Witness};
use super::row::{Lease, Row, until};
use super::{Call, Contradiction, HeardAnswer, Kind, Op, Outcome};

/// Checks that the calls about pools in a history are possible. The ops may come in any order.
pub fn check(history: &[Op]) -> Result<(), Contradiction> {
    Walk::new(history).run(&order::witness(history)?)
}

struct Walk<'a> {
    history: &'a [Op],
    rows: BTreeMap<&'a str, Row>,
    /// When each key was first used, and how often: a lease found by its key may be as old as that.
    uses: BTreeMap<(&'a str, &'a str), (u64, u32)>,
    /// When a call was sent that may have ended this lease and whose outcome no client heard: a release, or a renewal
    /// with a shorter ttl.
    unheard: BTreeMap<(&'a str, &'a str), u64>,
    /// When a deletion was sent whose outcome no client heard.
    unheard_deletion: BTreeMap<&'a str, u64>,
    /// The token of every lease that a client heard of.
    tokens: BTreeMap<(&'a str, &'a str), u64>,
}

impl<'a> Walk<'a> {
    fn new(history: &'a [Op]) -> Self {
        let mut walk = Walk {
            history,
            rows: BTreeMap::new(),
            uses: BTreeMap::new(),
            unheard: BTreeMap::new(),
            unheard_deletion: BTreeMap::new(),
            tokens: BTreeMap::new(),
        };
        let earliest = |known: &mut u64, start_us: u64| *known = (*known).min(start_us);
        for op in history.iter().filter(|op| op.call.kind() == Kind::Pool) {
            let resource = op.call.resource();
            if let Call::Acquire { key: Some(key), .. } = &op.call {
                let (first_us, times) = walk.uses.entry((resource, key)).or_insert((op.start_us, 0));
                earliest(first_us, op.start_us);
                *times += 1;
            }
            if let Outcome::Answered { answer: HeardAnswer::Held { lease, token, .. }, .. } = &op.outcome {
                walk.tokens.insert((resource, lease), *token);
            }
            let row = walk.rows.entry(resource).or_default();
            row.capacities.insert(None);
            if matches!(op.outcome, Outcome::Unknown { .. }) {
                match &op.call {
                    Call::Acquire { .. } => row.unknown_acquires_us.push(op.start_us),
                    Call::Configure { capacity, .. } => row.unknown_shapes.push((op.start_us, Some(*capacity))),
                    Call::Delete { .. } => {
                        row.unknown_shapes.push((op.start_us, None));
                        earliest(walk.unheard_deletion.entry(resource).or_insert(op.start_us), op.start_us);
                    }
                    Call::Renew { lease, .. } | Call::Release { lease, .. } => {
                        earliest(walk.unheard.entry((resource, lease)).or_insert(op.start_us), op.start_us);
                    }
                    _ => {}
                }
            }
        }
        walk.rows.values_mut().for_each(|row| row.unknown_acquires_us.sort_unstable());
        walk
    }

    fn run(mut self, witness: &[Witness]) -> Result<(), Contradiction> {
        for Witness { stamp, op: n, .. } in witness {
            let op = &self.history[*n];
            if let (Outcome::Answered { end_us, answer, .. }, Kind::Pool) = (&op.outcome, op.call.kind()) {
                self.step(op, *end_us, answer, stamp.position).map_err(|why| Contradiction { op: *n, why })?;
            }
        }
        Ok(())
    }

    fn row(&mut self, op: &Op) -> &mut Row {
        self.rows.get_mut(op.call.resource()).expect("every resource has its row")
    }

    fn step(&mut self, op: &'a Op, end_us: u64, answer: &HeardAnswer, position: u64) -> Result<(), String> {
        match (&op.call, answer) {
            (Call::Configure { capacity, .. }, HeardAnswer::Configured) => {
                let row = self.row(op);
                row.capacities = [Some(*capacity)].into();
                Ok(())
            }
            (Call::Delete { .. }, HeardAnswer::Deleted(was_there)) => self.deleted(op, end_us, *was_there),
            (Call::Acquire { ttl_us, key, .. }, HeardAnswer::Held { lease, slot, token }) => {
                self.acquired(op, end_us, *ttl_us, key.as_deref(), lease, *slot, *token)
            }
            (Call::Acquire { .. }, HeardAnswer::Waiting { lease }) => self.queued(op, end_us, lease, position),
            (Call::Acquire { .. }, HeardAnswer::Full) => self.full(op, end_us),
            (
                Call::Acquire { .. } | Call::View { .. } | Call::Renew { .. } | Call::ViewLease { .. },
                HeardAnswer::NoResource,
            ) => {
                let is_possible = self.row(op).possible(end_us).contains(&None);
                if is_possible { Ok(()) } else { Err("the resource is there and was denied".to_owned()) }
            }
            (Call::Renew { lease, ttl_us, .. }, HeardAnswer::Held { lease: told, slot, token }) => {
                if lease != told {
                    return Err(format!("{lease} was renewed and {told} came back"));
                }
                self.still_held(op, end_us, lease, *slot, *token)?;
                let until_us = until(op.start_us, *ttl_us);
                let known = self.row(op).leases.get_mut(lease).expect("it was just found");
                known.until_us = until_us;
                Ok(())
            }
            (Call::ViewLease { lease, .. }, HeardAnswer::Held { lease: told, slot, token }) => {
                if lease != told {
                    return Err(format!("{lease} was looked at and {told} was shown"));
                }
                self.still_held(op, end_us, lease, *slot, *token)
            }
            (Call::Release { lease, .. }, HeardAnswer::Released(true)) => self.released(op, lease),
            (Call::Release { lease, .. }, HeardAnswer::Released(false))
            | (Call::Renew { lease, .. } | Call::ViewLease { lease, .. }, HeardAnswer::NotHeld) => {
                self.gone(op, end_us, lease)
            }
            (Call::View { .. }, HeardAnswer::Seen { capacity, in_use }) => self.seen(op, end_us, *capacity, *in_use),
            (_, HeardAnswer::Malformed) => Ok(()),
            (call, answer) => Err(format!("{answer:?} is no answer to {call:?}")),
        }
    }

    fn deleted(&mut self, op: &Op, end_us: u64, was_there: bool) -> Result<(), String> {
        let row = self.row(op);
        let possible = row.possible(end_us);
        let is_possible = if was_there { possible.iter().any(Option::is_some) } else { possible.contains(&None) };
        if !is_possible {
            return Err(format!("deleted: {was_there}, but the capacity can only be {possible:?}"));
        }
        row.capacities = [None].into();
        row.end_all();
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the calls and their answers, in one place")]
    fn acquired(
        &mut self,
        op: &'a Op,
        end_us: u64,
        ttl_us: u64,
        key: Option<&'a str>,
        lease: &str,
        slot: u32,
        token: u64,
    ) -> Result<(), String> {
        let resource = op.call.resource();
        let uses = key.and_then(|key| self.uses.get(&(resource, key))).copied();
        let (first_us, times) = uses.unwrap_or((op.start_us, 1));
        let may_end_from_us = self.may_end_from(resource, lease);
        let row = self.row(op);
        if let Some(key) = key {
            match row.keys.get(key) {
                Some(before) if before != lease => return Err(format!("key {key} led to {before}, now to {lease}")),
                _ => row.keys.insert(key.to_owned(), lease.to_owned()),
            };
        }
        if row.leases.contains_key(lease) || row.ended.contains(lease) {
            if key.is_none() {
                return Err(format!("{lease} was granted twice"));
            }
            return self.still_held(op, end_us, lease, slot, token);
        }
        // Found by its key, it may have been granted when the key was first used, before others that were heard of.
        // The capacity may have been lowered since, too.
        let may_be_older = times > 1 && !row.tokens.contains(&token);
        if token <= row.last_token && !may_be_older {
            return Err(format!("token {token} after {}", row.last_token));
        }
        let earlier = row.waiting.get(lease).copied();
        let overtaken = row.waiting.iter().find(|(_, since)| earlier.is_none_or(|earlier| **since < earlier));
        if let Some((overtaken, since)) = overtaken {
            // A waiter may have left unheard; one that is granted later has not.
            let (overtaken, since) = (overtaken.clone(), *since);
            if self.tokens.get(&(resource, overtaken.as_str())).is_some_and(|later| *later > token) {
                return Err(format!("{lease} overtook {overtaken}, which waits since {since}"));
            }
        }
        let row = self.row(op);
        row.waiting.remove(lease);
        if slot >= row.capacity_max(end_us) && !may_be_older {
            return Err(format!("slot {slot} of {}", row.capacity_max(end_us)));
        }
        let before = row.leases.iter().find(|(_, held)| held.slot == slot);
        if let Some((other, held)) = before.map(|(other, held)| (other.clone(), held)) {
            if !held.may_be_gone(end_us) {
                return Err(format!("slot {slot} belongs to {other}, which cannot have ended yet"));
            }
            row.end(&other);
        }
        if row.certain(end_us) >= row.capacity_max(end_us) as usize && !may_be_older {
            return Err(format!("{} hold it, and one more was granted", row.certain(end_us)));
        }
        row.last_token = row.last_token.max(token);
        row.tokens.insert(token);
        let until_us = until(first_us, ttl_us);
        row.leases.insert(lease.to_owned(), Lease { slot, token, until_us, may_end_from_us });
        Ok(())
    }

    fn may_end_from(&self, resource: &str, lease: &str) -> Option<u64> {
        let named = self.unheard.get(&(resource, lease));
        [named, self.unheard_deletion.get(resource)].into_iter().flatten().copied().min()
    }

    fn queued(&mut self, op: &Op, end_us: u64, lease: &str, position: u64) -> Result<(), String> {
        let row = self.row(op);
        if row.leases.contains_key(lease) || row.ended.contains(lease) {
            return Err(format!("{lease} was granted, and is said to wait"));
        }
        if row.possible_holders(end_us) < row.capacity_min(end_us) as usize {
            return Err(format!("{lease} waits though a slot is free"));
        }
        row.waiting.entry(lease.to_owned()).or_insert(position);
        Ok(())
    }

    fn still_held(&mut self, op: &Op, end_us: u64, lease: &str, slot: u32, token: u64) -> Result<(), String> {
        let row = self.row(op);
        let was_waiting = row.waiting.remove(lease).is_some();
        match row.leases.get(lease) {
            Some(known) if (known.slot, known.token) != (slot, token) => {
                Err(format!("{lease} has slot {} and token {}", known.slot, known.token))
            }
            Some(_) => Ok(()),
            // Granted while it stood in line; this answer is the first to tell of it.
            None if was_waiting => {
                let is_taken = row.leases.values().any(|held| held.slot == slot && !held.may_be_gone(end_us));
                if is_taken {
                    return Err(format!("slot {slot} is held by another"));
                }
                row.last_token = row.last_token.max(token);
                row.tokens.insert(token);
                let until_us = op.start_us;
                row.leases.retain(|_, held| held.slot != slot);
                let known = Lease { slot, token, until_us, may_end_from_us: None };
                row.leases.insert(lease.to_owned(), known);
                Ok(())
            }
            None if row.ended.contains(lease) => Err(format!("{lease} had ended")),
            None => Err(format!("{lease} was never granted")),
        }
    }

    fn released(&mut self, op: &Op, lease: &str) -> Result<(), String> {
        let row = self.row(op);
        match row.leases.get(lease) {
            Some(_) => {
                row.end(lease);
                Ok(())
            }
            None if row.ended.contains(lease) => Err(format!("{lease} had ended before")),
            // Granted and given back before a client heard of the grant.
            None if row.waiting.remove(lease).is_some() => {
                row.end(lease);
                Ok(())
            }
            None => Err(format!("{lease} was never granted")),
        }
    }

    fn gone(&mut self, op: &Op, end_us: u64, lease: &str) -> Result<(), String> {
        let row = self.row(op);
        match row.leases.get(lease) {
            Some(known) if !known.may_be_gone(end_us) => Err(format!("{lease} cannot have ended yet")),
            Some(_) => {
                row.end(lease);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn full(&mut self, op: &Op, end_us: u64) -> Result<(), String> {
        let row = self.row(op);
        let (holders, capacity) = (row.possible_holders(end_us), row.capacity_min(end_us));
        if holders < capacity as usize {
            return Err(format!("refused, but at most {holders} of {capacity} slots can be held"));
        }
        Ok(())
    }

    fn seen(&mut self, op: &Op, end_us: u64, capacity: u32, in_use: u32) -> Result<(), String> {
        let row = self.row(op);
        if !row.possible(end_us).contains(&Some(capacity)) {
            return Err(format!("capacity {capacity} was shown, it can be {:?}", row.possible(end_us)));
        }
        let (low, high) = (row.certain(end_us), row.possible_holders(end_us) + row.waiting.len());
        if !(low..=high).contains(&(in_use as usize)) {
            return Err(format!("{in_use} in use was shown, it can be {low} to {high}"));
        }
        // The effect of an unheard configuration is known from here on.
        row.capacities = [Some(capacity)].into();
        Ok(())
    }
}
