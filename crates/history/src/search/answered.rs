//! An answer in one world: the worlds that may follow, or why it is impossible.

use std::collections::BTreeSet;

use super::Known;
use super::world::Possible;
use crate::order::Witness;
use crate::{HeardAnswer, Kind};

/// The worlds after an answer. Usually one.
pub(super) type After = Result<Vec<Possible>, String>;

impl Known<'_> {
    pub(super) fn answered(&self, world: Possible, one: Witness, answer: &HeardAnswer) -> After {
        match self.call(one.op).kind() {
            _ if *answer == HeardAnswer::Malformed || world.refused.contains(&one.op) => Ok(vec![world]),
            Kind::Pool => self.pool_answered(world, one, answer),
            Kind::Claim => self.claim_answered(world, one, answer),
            Kind::Lock => self.lock_answered(world, one, answer),
        }
    }

    /// All worlds that differ from this one only in leases that may have run out, one after the other.
    pub(super) fn with_any_run_out(&self, world: Possible, by_us: u64) -> BTreeSet<Possible> {
        let mut open = vec![world];
        let mut all = BTreeSet::new();
        while let Some(world) = open.pop() {
            if all.insert(world.clone()) {
                open.extend(self.with_run_out(world, 1, by_us));
            }
        }
        all
    }

    /// Worlds in which this many of the leases that may have run out did.
    pub(super) fn with_run_out(&self, world: Possible, count: usize, by_us: u64) -> Vec<Possible> {
        let mut worlds = vec![world];
        for _ in 0..count {
            let mut next: Vec<Possible> = Vec::new();
            for world in worlds {
                for n in world.may_have_run_out(by_us) {
                    let mut after = world.clone();
                    after.run_out(self, n);
                    if !next.contains(&after) {
                        next.push(after);
                    }
                }
            }
            worlds = next;
        }
        worlds
    }
}

/// An answer that does not belong to the call.
pub(super) fn no_answer(answer: &HeardAnswer) -> After {
    Err(format!("{answer:?} is no answer to that"))
}
