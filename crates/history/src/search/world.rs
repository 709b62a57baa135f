//! One possible state of a resource.

use std::collections::{BTreeMap, BTreeSet};

use super::Known;
use crate::row::until;
use crate::{Call, End, Kind};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Possible {
    /// `None`: there is no such pool.
    pub(super) capacity: Option<u32>,
    /// Holders and those in line, in the order in which they came.
    pub(super) claims: Vec<Claim>,
    pub(super) last_token: u64,
    /// Calls without an answer that have not happened, by their place in the history.
    pub(super) awaited: BTreeSet<usize>,
    /// The endings of claims that no client was told of yet.
    pub(super) ends: BTreeMap<String, End>,
    /// Calls that may have been refused when they were asked first, by their place in the history: the refusal that
    /// they were told was true once since then.
    pub(super) refused: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    pub(super) who: Who,
    /// The call that made it, by its place in the history.
    pub(super) maker: usize,
    pub(super) hold: Option<Hold>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Told(String),
    /// The call that made it was not answered.
    Untold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hold {
    pub(super) slot: u32,
    /// Known once a client was told.
    pub(super) token: Option<u64>,
    /// It must be greater than this.
    pub(super) token_above: u64,
    /// It cannot have run out before.
    pub(super) until_us: u64,
}

/// The earliest time at which an effect can have happened, and the token it follows. For an unheard effect this is the
/// same wherever along the witness it is tried, so that the worlds after it are the same, too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since {
    pub(super) at_us: u64,
    pub(super) token: u64,
}

impl Since {
    /// When a lease ran out.
    pub(super) fn end_of(hold: Hold) -> Since {
        Since { at_us: hold.until_us, token: hold.token.unwrap_or(hold.token_above) }
    }
}

impl Possible {
    pub(super) fn new(kind: Kind) -> Self {
        let capacity = match kind {
            Kind::Pool => None,
            Kind::Claim | Kind::Lock => Some(1),
        };
        Possible {
            capacity,
            claims: Vec::new(),
            last_token: 0,
            awaited: BTreeSet::new(),
            ends: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    pub(super) fn awaiting(mut self, op: usize) -> Self {
        self.awaited.insert(op);
        self
    }

    pub(super) fn without(mut self, ops: &[usize]) -> Self {
        self.awaited.retain(|op| !ops.contains(op));
        self.refused.retain(|op| !ops.contains(op));
        self
    }

    pub(super) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.claims.iter().position(|claim| matches!(&claim.who, Who::Told(told) if told == id))
    }

    /// The claim that a key leads to.
    pub(super) fn keyed(&self, known: &Known<'_>, key: &str) -> Option<usize> {
        self.claims.iter().position(|claim| known.call(claim.maker).key() == Some(key))
    }

    /// The claim that a call made, before its own answer.
    pub(super) fn made_by(&self, op: usize) -> Option<usize> {
        self.claims.iter().position(|claim| claim.maker == op)
    }

    /// Checks that a claim which a call made before its own answer is the one that the answer tells of: its token was
    /// known then.
    pub(super) fn check_own(&self, op: usize, token: u64) -> Result<(), String> {
        match self.made_by(op).and_then(|n| self.claims[n].hold) {
            Some(hold) if hold.token != Some(token) => Err(format!("{:?} was granted, not {token}", hold.token)),
            _ => Ok(()),
        }
    }

    /// The claim that a call with this key leads to, or that the call itself made when it was asked for the first time.
    pub(super) fn asked_for(&self, known: &Known<'_>, op: usize, key: Option<&str>) -> Option<usize> {
        key.and_then(|key| self.keyed(known, key)).or_else(|| self.made_by(op))
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = (usize, Hold)> + '_ {
        self.claims.iter().enumerate().filter_map(|(n, claim)| Some((n, claim.hold?)))
    }

    pub(super) fn in_use(&self) -> usize {
        self.holders().count()
    }

    /// Those in line, the next one first.
    pub(super) fn line(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.claims.len()).filter(|&n| self.claims[n].hold.is_none())
    }

    /// Holders whose lease may have run out by then.
    pub(super) fn may_have_run_out(&self, by_us: u64) -> Vec<usize> {
        self.holders().filter(|(_, hold)| hold.until_us <= by_us).map(|(n, _)| n).collect()
    }

    /// The slot that the next claim gets, if one is free.
    pub(super) fn free_slot(&self) -> Option<u32> {
        let capacity = self.capacity.unwrap_or(0);
        if self.in_use() >= capacity as usize {
            return None;
        }
        (0..capacity).find(|slot| self.holders().all(|(_, hold)| hold.slot != *slot))
    }

    pub(super) fn is_full(&self) -> bool {
        self.free_slot().is_none()
    }

    /// A claim gets a slot, no earlier than `since`.
    pub(super) fn hold(&mut self, known: &Known<'_>, n: usize, slot: u32, since: Since) {
        let until_us = until(since.at_us, ttl_us(known.call(self.claims[n].maker)));
        self.claims[n].hold = Some(Hold { slot, token: None, token_above: since.token, until_us });
    }

    pub(super) fn enter(&mut self, who: Who, maker: usize) -> usize {
        self.claims.push(Claim { who, maker, hold: None });
        self.claims.len() - 1
    }

    /// A claim ends. The next in line gets its slot.
    pub(super) fn end(&mut self, known: &Known<'_>, n: usize, since: Since) {
        self.claims.remove(n);
        self.settle(known, since);
    }

    /// A lease ran out, as it may have.
    pub(super) fn run_out(&mut self, known: &Known<'_>, n: usize) {
        let claim = &self.claims[n];
        let since = claim.hold.map(Since::end_of).unwrap_or_default();
        if let (Who::Told(id), Call::Claim { .. }) = (&claim.who, known.call(claim.maker)) {
            self.ends.insert(id.clone(), End::Expired);
        }
        self.end(known, n, since);
    }

    /// Waiters get the free slots.
    pub(super) fn settle(&mut self, known: &Known<'_>, since: Since) {
        loop {
            let next = self.line().next();
            let (Some(slot), Some(next)) = (self.free_slot(), next) else { return };
            self.hold(known, next, slot, since);
        }
    }

    /// The present, for a call that was sent at `start_us`.
    pub(super) fn by(&self, start_us: u64) -> Since {
        Since { at_us: start_us, token: self.last_token }
    }

    /// A client was told this token of a claim that holds a slot.
    pub(super) fn show_token(&mut self, n: usize, token: u64) -> Result<(), String> {
        let last = self.last_token;
        let hold = self.claims[n].hold.as_mut().ok_or("it waits, and has a token")?;
        match hold.token {
            Some(known) if known != token => return Err(format!("its token is {known}, not {token}")),
            Some(_) => {}
            None if token <= hold.token_above => return Err(format!("token {token} after {}", hold.token_above)),
            None => hold.token = Some(token),
        }
        self.last_token = last.max(token);
        Ok(())
    }
}

/// The ttl that a claim starts with.
fn ttl_us(call: &Call) -> u64 {
    match call {
        Call::Acquire { ttl_us, .. } | Call::Claim { ttl_us, .. } | Call::Lock { ttl_us, .. } => *ttl_us,
        _ => 0,
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Who::Told(id) => f.write_str(id),
            Who::Untold => f.write_str("a holder that no answer named"),
        }
    }
}
