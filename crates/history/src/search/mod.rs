//! The search: along the witness with every world that the answers so far allow.
//!
//! ```text
//!  worlds ──▶ in the gap before the next answer, whatever may have happened unheard, or not ──▶ more worlds
//!    ▲                                                                                              │
//!    └───────────── those in which the next answer is true ◀─────────────────────────────────────────┘
//! ```
//!
//! A world (`world`) is one possible state of a resource: its holders, its waiters, and the unanswered calls that have
//! not happened yet. Resources do not touch one another, so each is searched by itself. Equal worlds are merged, which
//! keeps this small: in the end the effect of an unanswered call matters, not its time. If there are still too many,
//! the search gives up, and that is a failure: it has shown nothing.
//!
//! The search tries a call without an answer in every gap from the time it was sent to the time its process was gone
//! (`silent`). A lease that may have run out counts as held until an answer shows that it is not.
//!
//! Behind a relay that asks again, a call with an answer is one without until its answer comes: it may have taken
//! effect in every gap from the time it was sent, been handed back, and taken effect again.

mod answered;
mod claims;
mod locks;
mod pools;
mod silent;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use crate::order::{self, Witness};
use crate::{Call, Contradiction, End, HeardAnswer, Kind, Op, Outcome, Status};
use world::{Possible, Since};

/// Settings of the service that are known beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long after its end only the last holder may take a lock.
    pub grace_us: u64,
    /// The search gives up past this many worlds at once.
    pub worlds_max: usize,
    /// A relay may ask an owner again whose predecessor died before it answered. The call then takes effect when it was
    /// asked first, and its answer has the position of the last time. This is believed only of calls that were under
    /// way when an answer came that cannot be true otherwise.
    pub asks_repeat: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { grace_us: 5_000_000, worlds_max: 20_000, asks_repeat: false }
    }
}

/// The effort of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    pub answered: usize,
    /// Calls without an answer that may have changed something.
    pub unknown: usize,
    pub resources: usize,
    /// Resources whose answers can be true only if a call was asked again.
    pub asked_again: usize,
    /// Worlds looked at.
    pub worlds: usize,
    /// Most of them at once.
    pub widest: usize,
}

/// Checks that a history is possible. The ops may come in any order.
pub fn search(history: &[Op], rules: Rules) -> Result<Searched, Contradiction> {
    let witness = order::witness(history)?;
    let mut by_resource: BTreeMap<(Kind, &str), Walk<'_>> = BTreeMap::new();
    for (n, op) in history.iter().enumerate() {
        let name = (op.call.kind(), op.call.resource());
        let walk = by_resource.entry(name).or_insert_with(|| Walk::new(history, rules, name.0));
        if let (Outcome::Unknown { .. }, true) = (&op.outcome, op.call.changes()) {
            walk.unheard.push(n);
        }
    }
    let mut searched = Searched { answered: witness.len(), resources: by_resource.len(), ..Searched::default() };
    for one in witness {
        let call = &history[one.op].call;
        let walk = by_resource.get_mut(&(call.kind(), call.resource())).expect("every resource has its walk");
        walk.witness.push(one);
    }
    for (_, mut walk) in by_resource {
        searched.unknown += walk.unheard.len();
        while let Err(contradiction) = walk.run(&mut searched) {
            if !rules.asks_repeat || !walk.ask_again(contradiction.op) {
                return Err(contradiction);
            }
        }
        searched.asked_again += usize::from(!walk.known.repeated.is_empty());
    }
    Ok(searched)
}

/// The last place along the witness that mentions each claim.
fn last_mentions<'a>(history: &'a [Op], witness: &[Witness]) -> BTreeMap<&'a str, usize> {
    let named = |one: &Witness| match &history[one.op].call {
        Call::Update { claim, .. } | Call::ViewClaim { claim, .. } => Some(claim.as_str()),
        _ => None,
    };
    witness.iter().enumerate().filter_map(|(place, one)| Some((named(one)?, place))).collect()
}

/// The ending of a claim does not matter once no later answer mentions the claim: worlds that differ in nothing else
/// are merged.
fn forget(worlds: BTreeSet<Possible>, matters: impl Fn(&str) -> bool) -> BTreeSet<Possible> {
    if worlds.iter().all(|world| world.ends.keys().all(|claim| matters(claim))) {
        return worlds;
    }
    let forgetful = |mut world: Possible| {
        world.ends.retain(|claim, _| matters(claim));
        world
    };
    worlds.into_iter().map(forgetful).collect()
}

impl Call {
    fn changes(&self) -> bool {
        !matches!(self, Call::View { .. } | Call::ViewLease { .. } | Call::ViewClaim { .. } | Call::ViewLock { .. })
    }

    /// Returns whether a relay asks for it again: asking twice is asking once, but for the time of its effect.
    fn is_repeatable(&self) -> bool {
        matches!(self, Call::Acquire { .. } | Call::Renew { .. } | Call::Claim { .. } | Call::Lock { .. })
    }
}

/// The search of one resource.
struct Walk<'a> {
    kind: Kind,
    witness: Vec<Witness>,
    /// Calls without an answer, by their place in the history.
    unheard: Vec<usize>,
    known: Known<'a>,
}

/// The knowledge that is the same in every world.
struct Known<'a> {
    history: &'a [Op],
    rules: Rules,
    /// Calls that may have been asked again.
    repeated: BTreeSet<usize>,
    /// Leases and claims that a client was told of, and the token of those that had one.
    told: BTreeMap<&'a str, Option<u64>>,
    /// The claim that each key was told to stand for.
    keys: BTreeMap<&'a str, &'a str>,
    /// The endings that clients were told.
    ended: BTreeMap<&'a str, End>,
    /// Unanswered calls whose process was not gone yet, and the earliest time at which they can have happened.
    open: BTreeMap<usize, Since>,
}

impl<'a> Walk<'a> {
    fn new(history: &'a [Op], rules: Rules, kind: Kind) -> Self {
        Walk { kind, witness: Vec::new(), unheard: Vec::new(), known: Known::new(history, rules) }
    }

    /// From now on, the calls that were under way when this answer came may have been asked again. Returns whether
    /// there is one more. Others cannot explain the answer: once a call has its own, its effect is where the answer
    /// says.
    fn ask_again(&mut self, denied: usize) -> bool {
        let history = self.known.history;
        let Outcome::Answered { end_us, .. } = history[denied].outcome else { return false };
        let answered = self.witness.iter().map(|one| one.op).skip_while(|&op| op != denied);
        let under_way = answered.chain(self.unheard.iter().copied()).filter(|&op| match &history[op].outcome {
            Outcome::Answered { answer, .. } => *answer != HeardAnswer::Malformed,
            Outcome::Unknown { gone_us } => gone_us.is_none_or(|gone_us| gone_us >= history[denied].start_us),
        });
        let before = self.known.repeated.len();
        self.known
            .repeated
            .extend(under_way.filter(|&op| history[op].call.is_repeatable() && history[op].start_us <= end_us));
        self.known.repeated.len() > before
    }

    fn run(&mut self, searched: &mut Searched) -> Result<(), Contradiction> {
        let mut worlds = BTreeSet::from([Possible::new(self.kind)]);
        let repeated = std::mem::take(&mut self.known.repeated);
        let unheard: BTreeSet<usize> = self.unheard.iter().chain(&repeated).copied().collect();
        let mut unheard: Vec<usize> = unheard.into_iter().collect();
        self.known = Known { repeated, ..Known::new(self.known.history, self.known.rules) };
        unheard.sort_by_key(|&n| self.known.history[n].start_us);
        let mut unheard = unheard.into_iter().peekable();
        let witness = self.witness.clone();
        let mentions = last_mentions(self.known.history, &witness);
        let mut heard = BTreeSet::new();
        for (place, one) in witness.into_iter().enumerate() {
            let op = &self.known.history[one.op];
            let Outcome::Answered { answer, .. } = &op.outcome else { continue };
            // From here on it may have happened.
            while let Some(n) = unheard.next_if(|&n| self.known.history[n].start_us <= one.by_us) {
                if heard.contains(&n) {
                    continue;
                }
                let token = worlds.first().map_or(0, |world| world.last_token);
                self.known.open.insert(n, Since { at_us: self.known.history[n].start_us, token });
                worlds = worlds.into_iter().map(|world| world.awaiting(n)).collect();
            }
            worlds = worlds.into_iter().map(|world| self.known.with_refusals(world, one.by_us)).collect();
            let narrow = worlds.len();
            worlds = self.known.whatever_may_have_been(worlds, one)?;
            searched.widest = searched.widest.max(worlds.len());
            searched.worlds += worlds.len().max(narrow);
            worlds = self.close(worlds, op.start_us);
            worlds = self.known.those_with(worlds, one, answer)?;
            self.known.learn(op, answer);
            heard.insert(one.op);
            if self.known.open.remove(&one.op).is_some() {
                worlds = worlds.into_iter().map(|world| world.without(&[one.op])).collect();
            }
            worlds = forget(worlds, |claim| mentions.get(claim).is_some_and(|&last| last > place));
        }
        Ok(())
    }

    /// A call to a process that is gone by now has happened, or never will.
    fn close(&mut self, worlds: BTreeSet<Possible>, start_us: u64) -> BTreeSet<Possible> {
        let history = self.known.history;
        let is_gone = |n: &usize| match history[*n].outcome {
            Outcome::Unknown { gone_us: Some(gone_us) } => gone_us < start_us,
            _ => false,
        };
        let gone: Vec<usize> = self.known.open.keys().copied().filter(is_gone).collect();
        if gone.is_empty() {
            return worlds;
        }
        self.known.open.retain(|n, _| !gone.contains(n));
        worlds.into_iter().map(|world| world.without(&gone)).collect()
    }
}

impl<'a> Known<'a> {
    fn new(history: &'a [Op], rules: Rules) -> Self {
        let (told, keys) = (BTreeMap::new(), BTreeMap::new());
        Known { history, rules, repeated: BTreeSet::new(), told, keys, ended: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// The worlds in which this answer is true, in their state after it.
    fn those_with(
        &self,
        worlds: BTreeSet<Possible>,
        one: Witness,
        answer: &HeardAnswer,
    ) -> Result<BTreeSet<Possible>, Contradiction> {
        let count = worlds.len();
        let mut possible = BTreeSet::new();
        // The reason that counts is that of the plainest world: the one with the fewest unheard effects.
        let mut reason: Option<(usize, String)> = None;
        for world in worlds {
            let plainness = world.awaited();
            match self.answered(world, one, answer) {
                Ok(after) => possible.extend(after),
                Err(why) => {
                    if reason.as_ref().is_none_or(|(plainest, _)| *plainest < plainness) {
                        reason = Some((plainness, why));
                    }
                }
            }
        }
        match reason {
            Some((_, why)) if possible.is_empty() => {
                let others = if count > 1 { format!(" (nor in {} other worlds)", count - 1) } else { String::new() };
                Err(Contradiction { op: one.op, why: format!("{why}{others}") })
            }
            _ => Ok(possible),
        }
    }

    /// Records what this answer shows for all worlds.
    fn learn(&mut self, op: &'a Op, answer: &'a HeardAnswer) {
        let told = match answer {
            HeardAnswer::Held { lease, token, .. } => Some((lease, Some(*token))),
            HeardAnswer::Active { claim, token } => Some((claim, Some(*token))),
            HeardAnswer::Waiting { lease } => Some((lease, None)),
            HeardAnswer::InLine { claim, .. } => Some((claim, None)),
            HeardAnswer::Ended { claim, how } => {
                self.ended.insert(claim, *how);
                None
            }
            _ => None,
        };
        if let Some((id, token)) = told {
            let known = self.told.entry(id).or_default();
            *known = known.or(token);
            if let Some(key) = op.call.key() {
                self.keys.insert(key, id);
            }
        }
        match (&op.call, answer) {
            (Call::Update { claim, wish: crate::Wish::Revoked, .. }, HeardAnswer::Released(true)) => {
                self.ended.insert(claim, End::Revoked);
            }
            (Call::Update { claim, .. }, HeardAnswer::Released(true)) => {
                self.ended.insert(claim, End::Released);
            }
            (Call::Update { claim, .. }, HeardAnswer::Refused { status: Status::Ended(how) }) => {
                self.ended.insert(claim, *how);
            }
            _ => {}
        }
    }

    /// The call that made a claim, or asked for it first as far as is known.
    fn call(&self, op: usize) -> &'a Call {
        &self.history[op].call
    }
}
