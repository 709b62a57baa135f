//! Checks that an answer is true of the state at the position it carries: the ledger is the witness.

use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimId, ClaimStatus, Command, Ending, Refusal, Renewal, Reply, ResourceKey, Spent, Token,
};

use super::{Entry, Ledger};
use crate::ledger::invariant::{Check, ensure, s07_holder, s21_names};

const NAME: &str = "S6";

impl Ledger {
    /// Checks a definite answer: a reply or a refusal by the engine.
    pub(crate) fn witness(&self, command: &Command, answer: &Result<Reply, Refusal>, position: u64) -> Check {
        match answer {
            Ok(reply) => self.witness_reply(command, reply, position),
            Err(refusal) => self.witness_refusal(command, refusal, position),
        }
    }

    /// Returns whether this client holds this lock, by the grant with this token if one is named.
    fn holds(&self, lock: &ResourceKey, client: &Arc<str>, token: Option<Token>, position: u64) -> bool {
        self.claims.values().any(|entry| {
            let is_its = entry.resource == *lock && entry.client.as_ref() == Some(client);
            is_its && entry.held_at(position) && entry.is_of(token)
        })
    }

    /// The claim that an answer at this position is about.
    fn told_of(&self, claim: ClaimId, position: u64) -> Result<&Entry, crate::Violation> {
        let before = self.claimed_before.iter().rev().filter(|(before, _)| *before == claim).map(|(_, entry)| entry);
        let newest = self.claims.get(&claim);
        let entry = newest.into_iter().chain(before).find(|entry| entry.claimed <= position).or(newest);
        entry.ok_or_else(|| crate::Violation {
            invariant: NAME,
            what: format!("an answer told of {claim:?}, which is not in the journal"),
        })
    }

    fn witness_reply(&self, command: &Command, reply: &Reply, position: u64) -> Check {
        match reply {
            Reply::Lease(view) => {
                let entry = self.told_of(view.claim, position)?;
                ensure(entry.held_at(position), NAME, || format!("{:?} was not held at {position}", view.claim))?;
                let lease = entry.lease_at(position).map(|lease| lease.deadline);
                let held = entry.granted.map(|held| (held.slot, held.token));
                let shown = (Some((view.slot, view.token.0)), Some(view.deadline));
                ensure((held, lease) == shown, NAME, || {
                    format!("a lease was shown as {shown:?}, it is {held:?} {lease:?}")
                })?;
                s21_names::on_answer(&self.fit_at(&entry.resource, position), view.slot, view.named.as_deref())
            }
            Reply::Claim(view) => {
                let entry = self.told_of(view.id, position)?;
                let is_right = match view.status {
                    ClaimStatus::Waiting => entry.waited_at(position),
                    ClaimStatus::Active => {
                        crate::ledger::invariant::s18_attention::on_answer(view.id, entry, position)?;
                        entry.held_at(position)
                    }
                    ClaimStatus::Ended(_) => entry.ended_by(position),
                };
                ensure(is_right, NAME, || {
                    format!("{:?} was shown as {:?} at {position}: {entry:?}", view.id, view.status)
                })?;
                let token = entry.granted.filter(|held| held.position <= position).map(|held| held.token);
                ensure(view.token.map(|token| token.0) == token, NAME, || {
                    format!("token {:?}, not {token:?}", view.token)
                })?;
                let fit = self.fit_at(&entry.resource, position);
                match view.status {
                    ClaimStatus::Active => {
                        let slot = entry.granted.map_or(0, |held| held.slot);
                        s21_names::on_answer(&fit, slot, view.slot.as_ref().map(|slot| &slot.named))
                    }
                    ClaimStatus::Waiting => {
                        let (is, shown) = (fit.paused_until.is_some(), &view.pause);
                        let is_shown = shown.as_ref().is_some_and(|pause| !pause.is_by_slots);
                        ensure(is == is_shown, "S19", || format!("a waiter was shown {shown:?}, paused: {is}"))
                    }
                    ClaimStatus::Ended(_) => Ok(()),
                }
            }
            Reply::Lock(view, _) => {
                let Some(holder) = &view.holder else {
                    let (Command::ViewResource { resource } | Command::Unlock { resource, .. }) = command else {
                        return Ok(());
                    };
                    let in_use = self.in_use_at(resource, position);
                    return ensure(in_use == 0, NAME, || format!("a lock was shown free at {position}"));
                };
                let entry = self.told_of(holder.claim, position)?;
                ensure(entry.held_at(position), NAME, || format!("{:?} was not held at {position}", holder.claim))?;
                let lease = entry.lease_at(position).map(|lease| lease.deadline);
                ensure(lease == Some(holder.deadline), NAME, || format!("until {:?}, not {lease:?}", holder.deadline))?;
                match command {
                    Command::Acquire(acquire) if let Renewal::Only(token) = acquire.options.renewal => {
                        s07_holder::on_renewed_by_token(token.0, entry.granted.map_or(0, |held| held.token))
                    }
                    _ => Ok(()),
                }
            }
            Reply::Resource(view) => {
                let (capacity, configured) = self.shape_at(&view.resource, position);
                let (in_use, waiting) =
                    (self.in_use_at(&view.resource, position), self.waiting_at(&view.resource, position));
                let shown = (view.capacity, view.configured, view.in_use as usize, view.waiting as usize);
                let is = (capacity, configured, in_use, waiting);
                ensure(shown == is, NAME, || format!("a resource was shown as {shown:?}, it is {is:?} at {position}"))
            }
            Reply::Returned(was_held) => {
                let Command::Return { claim, .. } = command else { return Ok(()) };
                match self.claims.get(claim) {
                    Some(entry) if *was_held => {
                        let ended = entry.ended;
                        let right = ended.is_some_and(|(at, how)| at <= position && how == Ending::Released);
                        ensure(right, "S5", || format!("{claim:?} was returned, but the journal says {ended:?}"))
                    }
                    Some(entry) => {
                        ensure(!entry.held_at(position), NAME, || format!("{claim:?} is held, return said no"))
                    }
                    None => ensure(!was_held, NAME, || format!("{claim:?} was returned and never was")),
                }
            }
            Reply::ClaimEnded(how) => {
                let Command::Update { claim, .. } = command else { return Ok(()) };
                let ended = self.told_of(*claim, position)?.ended;
                let right = ended.is_some_and(|(at, as_told)| at <= position && as_told == *how);
                ensure(right, "S5", || format!("{claim:?} was told to have ended {how:?}, it is {ended:?}"))
            }
            Reply::Unlocked => {
                let Command::Unlock { resource, client, token } = command else { return Ok(()) };
                let released = self.claims.values().any(|entry| {
                    entry.resource == *resource
                        && entry.client.as_ref() == Some(client)
                        && entry.ended.is_some_and(|(at, how)| at <= position && how == Ending::Released)
                        && entry.is_of(*token)
                });
                ensure(released, "S5", || format!("{client} was told it released a lock, the journal says no"))
            }
            Reply::Spent(Spent::Waited) => {
                let Command::Unlock { resource, client, .. } = command else { return Ok(()) };
                let left = self.claims.values().any(|entry| {
                    entry.resource == *resource
                        && entry.client.as_ref() == Some(client)
                        && entry.granted.is_none()
                        && entry.ended.is_some_and(|(at, how)| at <= position && how == Ending::Withdrawn)
                });
                ensure(left, "S5", || format!("{client} was told it left the queue, the journal says no"))
            }
            Reply::Spent(_)
            | Reply::Place(_)
            | Reply::Holding(_)
            | Reply::Claims(_)
            | Reply::Resources(_)
            | Reply::Unconfigured(_)
            | Reply::Waiting(_)
            | Reply::Revoked(_)
            | Reply::Fence(_)
            | Reply::Survey(_)
            | Reply::Inspection(_)
            | Reply::Resumed(_)
            | Reply::Done => Ok(()),
        }
    }

    /// The position that a refusal is true of: a waiter is refused as of the end of its wait, and in the same step more
    /// deadlines may have become due.
    fn refused_as_of(&self, acquire: &Acquire, position: u64) -> u64 {
        let waited = self.claims.iter().find(|(id, entry)| {
            let is_its = **id == acquire.id || (acquire.key.is_some() && entry.key == acquire.key);
            is_its && entry.resource == acquire.resource && entry.granted.is_none() && entry.ended_by(position)
        });
        waited.and_then(|(_, entry)| entry.ended).map_or(position, |(at, _)| at)
    }

    fn witness_refusal(&self, command: &Command, refusal: &Refusal, position: u64) -> Check {
        let is_full = |resource: &ResourceKey, position: u64| !self.has_room_at(resource, position);
        match (refusal, command) {
            (Refusal::NoneFree { .. }, Command::Acquire(acquire)) => {
                let as_of = self.refused_as_of(acquire, position);
                ensure(is_full(&acquire.resource, as_of), NAME, || format!("none free was said at {as_of}, one is"))
            }
            (Refusal::NoSuchResource, Command::Acquire(acquire)) => {
                let (_, configured) = self.shape_at(&acquire.resource, position);
                ensure(!configured, NAME, || format!("a pool that is there was denied at {position}"))
            }
            (Refusal::NotHeld { .. }, Command::Renew { claim, .. }) => match self.claims.get(claim) {
                Some(entry) => {
                    let held = entry.held_at(position);
                    ensure(!held, NAME, || format!("{claim:?} is held, a renewal was told it is not"))
                }
                None => Ok(()),
            },
            (Refusal::Locked { lock, .. }, command) => {
                if let Some(holder) = &lock.holder {
                    let held = self.told_of(holder.claim, position)?.held_at(position);
                    return ensure(held, NAME, || format!("locked by {:?}, which does not hold it", holder.claim));
                }
                let as_of = match command {
                    Command::Acquire(acquire) => self.refused_as_of(acquire, position),
                    _ => position,
                };
                let key = ResourceKey::Lock(Arc::clone(&lock.job));
                // Only a waiter may be shown a lock that was freed or resumed since its wait ended.
                let is_locked = if as_of < position {
                    is_full(&key, as_of)
                } else {
                    self.fit_at(&key, as_of).paused_until.is_some()
                };
                ensure(is_locked, NAME, || format!("neither held nor paused at {as_of}, and yet locked"))
            }
            (Refusal::NotTheHolder, Command::Unlock { resource, client, token }) => {
                let holds = self.holds(resource, client, *token, position);
                ensure(!holds, NAME, || format!("{client} holds the lock and was told it does not"))
            }
            (Refusal::KeySpent { .. }, Command::Acquire(acquire)) => {
                let key = acquire.key.as_ref();
                let spent = self.claims.values().any(|entry| {
                    entry.resource == acquire.resource
                        && entry.key.as_ref() == key
                        && entry.ended_by(position)
                        && entry.ended.is_some_and(|(_, how)| how != Ending::HandedBack)
                });
                ensure(spent, "S13", || "a key was called spent, but nothing that ended had it".to_owned())
            }
            (Refusal::EndedUntold { how }, Command::Acquire(acquire)) => {
                let ended = self.told_of(acquire.id, position)?.ended;
                let right = ended.is_some_and(|(at, as_told)| at <= position && as_told == *how);
                ensure(right, NAME, || format!("{:?} was told to have ended {how:?}, it is {ended:?}", acquire.id))
            }
            (Refusal::NotHeld { .. }, Command::Acquire(acquire))
                if let (Renewal::Only(token), Some(client)) = (acquire.options.renewal, &acquire.client) =>
            {
                let holds = self.holds(&acquire.resource, client, Some(token), position);
                ensure(!holds, NAME, || format!("{client} holds token {token:?} and was told it does not"))
            }
            // A caller that asks for a slot names no claim that could be missing.
            (Refusal::NoSuchClaim | Refusal::NotHeld { .. } | Refusal::Ended(_), Command::Acquire(acquire)) => {
                ensure(false, NAME, || format!("{:?} was asked for, and the answer was {refusal:?}", acquire.id))
            }
            (Refusal::NoSuchClaim, Command::Update { claim, .. } | Command::ViewClaim { claim }) => {
                match self.claims.get(claim) {
                    Some(entry) => {
                        let gone = entry.forgotten.is_some_and(|at| at <= position) || entry.claimed > position;
                        ensure(gone, NAME, || format!("{claim:?} is in the journal and was denied"))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
