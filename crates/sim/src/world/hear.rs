//! An answer arrives: the client's conclusion, and the promises that must hold by the client's own clock.

use leasehold_engine::{
    ClaimId, ClaimStatus, Command, Labeling, LockNews, Refusal, Renewal, Reply, ResourceKey, Token,
};
use leasehold_journal::Denial;

use super::bodies::{CallId, CallState, Holding};
use super::{World, tell};
use crate::ledger::EntryState;
use crate::ledger::invariant::{self, Check};
use crate::sometimes::Rare;

impl World {
    pub(super) fn hear(&mut self, id: CallId) -> Check {
        self.calls[id.0].state = CallState::Over;
        if self.calls[id.0].is_left {
            return Ok(());
        }
        self.leave_call(id);
        self.calls[id.0].heard_us = Some(self.now_us);
        let Some((answer, stamp)) = self.calls[id.0].answer.clone() else { return Ok(()) };
        let position = stamp.position;
        let client = self.calls[id.0].client;
        let command = self.calls[id.0].command.clone();
        match answer {
            Ok(reply) => self.hear_reply(id, client, &command, &reply, position),
            Err(
                Denial::Refused(Refusal::StoreFull)
                | Denial::StoreLate
                | Denial::Overloaded
                | Denial::StoreBehind
                | Denial::ShuttingDown
                | Denial::Moved
                | Denial::Lost
                | Denial::EarlierVersion,
            ) => {
                self.plan_retry(id);
                Ok(())
            }
            Err(Denial::Refused(refusal)) => self.hear_refusal(id, client, &command, &refusal),
        }
    }

    fn hear_reply(&mut self, id: CallId, client: usize, command: &Command, reply: &Reply, position: u64) -> Check {
        match reply {
            Reply::Lease(view) => {
                let left_us = view.deadline.since(view.now.at);
                let resource = match command {
                    Command::Acquire(acquire) => acquire.resource.clone(),
                    Command::Renew { resource, .. } | Command::ViewLease { resource, .. } => resource.clone(),
                    _ => return Ok(()),
                };
                if matches!(command, Command::ViewLease { .. }) {
                    self.hit(Rare::ViewedOwnLease);
                    return Ok(());
                }
                self.believe(id, client, resource, (view.claim, view.token), left_us, position)
            }
            Reply::Lock(view, LockNews::Acquired { .. } | LockNews::Renewed) => {
                let Some(holder) = view.holder.as_ref().filter(|h| h.client == self.clients[client].name) else {
                    return Ok(());
                };
                let left_us = holder.deadline.since(view.now.at);
                let resource = ResourceKey::Lock(view.job.clone());
                self.believe(id, client, resource, (holder.claim, holder.token), left_us, position)
            }
            Reply::Claim(view) => {
                self.clients[client].standing.retain(|mine| *mine != view.id);
                let resource = ResourceKey::Claim(view.resource.clone());
                match (view.status, view.ttl_us.zip(view.token)) {
                    (ClaimStatus::Active, Some((left_us, token))) if !matches!(command, Command::ViewClaim { .. }) => {
                        self.believe(id, client, resource, (view.id, token), left_us, position)
                    }
                    (ClaimStatus::Waiting, _) => {
                        self.clients[client].standing.push(view.id);
                        self.asks.acknowledge(view.id, position);
                        self.remember_key(client, command, view.id)
                    }
                    _ => Ok(()),
                }
            }
            Reply::Returned(false) => {
                self.hit(Rare::LateReleaseRefused);
                Ok(())
            }
            Reply::Resource(_)
            | Reply::Unconfigured(_)
            | Reply::Returned(true)
            | Reply::Lock(..)
            | Reply::Unlocked
            | Reply::Spent(_)
            | Reply::Place(_)
            | Reply::Holding(_)
            | Reply::ClaimEnded(_)
            | Reply::Claims(_)
            | Reply::Resources(_)
            | Reply::Waiting(_)
            | Reply::Revoked(_)
            | Reply::Fence(_)
            | Reply::Survey(_)
            | Reply::Inspection(_)
            | Reply::Resumed(_)
            | Reply::Done => Ok(()),
        }
    }

    /// It holds something, until `left_us` after it asked, on its own clock.
    fn believe(
        &mut self,
        id: CallId,
        client: usize,
        resource: ResourceKey,
        (claim, token): (ClaimId, Token),
        left_us: u64,
        position: u64,
    ) -> Check {
        let epoch = self.calls[id.0].answer.as_ref().map_or(0, |(_, stamp)| stamp.epoch);
        if self.plan.is_careless && epoch < self.ledger.epoch {
            // A read from a node that is no longer the owner and counts the rest by a clock of its own: S11 guards
            // against that. Seed 119817.
            return Ok(());
        }
        let command = self.calls[id.0].command.clone();
        let sent_us = self.calls[id.0].sent_us;
        let until_us = self.client_until(client, sent_us, left_us);
        self.asks.acknowledge(claim, position);
        if let Some(&(expired_position, when)) = self.expired.get(&claim)
            && self.ledger.claims[&claim].is_last_lease(position, expired_position)
        {
            // It ended before the answer came; by the asking client's clock, that must not have been too early.
            self.hit(Rare::LateAnswerOfExpiredLease);
            invariant::s08_lease::by_holders_clock(claim, until_us, when.world_us, left_us)?;
        }
        if let Command::Acquire(acquire) = &command {
            invariant::s13_keys::on_grant_answer(&self.ledger, claim, acquire.key.is_some())?;
            self.rare.hit_if(acquire.id != claim && acquire.key.is_some(), Rare::RetryJoinedItsClaim);
            let is_later = self.ledger.claims.get(&claim).is_some_and(|entry| entry.granted.is_some())
                && self
                    .calls
                    .iter()
                    .any(|call| call.fresh() == Some(claim) && call.incarnation != self.calls[id.0].incarnation);
            self.rare.hit_if(acquire.key.is_some() && is_later, Rare::RetryAfterCrashJoined);
            self.remember_key(client, &command, claim)?;
        } else {
            let stood_still = self.outages > 0;
            self.rare.hit_if(stood_still, Rare::RenewedAfterStop);
        }
        tell!(self, "c{client} holds {claim:?} until {until_us}");
        let told_us = self.now_us;
        let body = &mut self.clients[client];
        body.standing.retain(|mine| *mine != claim);
        match body.holdings.iter_mut().find(|mine| mine.claim == claim) {
            Some(mine) if mine.position <= position => {
                *mine = Holding { resource, claim, token, ttl_us: left_us, until_us, told_us, position };
            }
            Some(_) => {}
            None => {
                // A release may have been sent since: then it does not believe this any more.
                let is_gone = self.asks.releases.contains(&claim)
                    || self.asks.revocations.contains(&claim)
                    || self.asks.unlocks.contains(&(resource.clone(), body.name.clone()))
                    || self.asks.unlocks_of.contains(&(resource.clone(), body.name.clone(), token.0));
                if !is_gone {
                    body.holdings.push(Holding {
                        resource,
                        claim,
                        token,
                        ttl_us: left_us,
                        until_us,
                        told_us,
                        position,
                    });
                }
            }
        }
        Ok(())
    }

    fn remember_key(&mut self, client: usize, command: &Command, claim: ClaimId) -> Check {
        let Command::Acquire(acquire) = command else { return Ok(()) };
        let Some(key) = &acquire.key else { return Ok(()) };
        let got = &mut self.clients[client].got;
        let first = got.iter().find(|(resource, name, _)| *resource == acquire.resource && *name == key.name);
        if let Some((_, _, first)) = first {
            return invariant::s13_keys::on_answers(&self.ledger, *first, claim);
        }
        got.push((acquire.resource.clone(), key.name.clone(), claim));
        Ok(())
    }

    fn hear_refusal(&mut self, id: CallId, client: usize, command: &Command, refusal: &Refusal) -> Check {
        match (command, refusal) {
            (Command::Renew { claim, .. }, Refusal::NotHeld { .. })
            | (Command::Update { claim, .. }, Refusal::Ended(_) | Refusal::NoSuchClaim) => {
                self.hit(Rare::LateRenewalRefused);
                self.clients[client].holdings.retain(|mine| mine.claim != *claim);
                self.clients[client].standing.retain(|mine| mine != claim);
                if let Some(arrived) = self.calls[id.0].arrived {
                    invariant::l5_renewing::on_refusal(&self.ledger, *claim, arrived.fair_us)?;
                }
            }
            (Command::Acquire(acquire), Refusal::NoSuchResource) if !self.is_calm => {
                let command =
                    Command::Configure { resource: acquire.resource.clone(), capacity: 1, label: Labeling::Kept };
                self.ask(client, command, 0, 1);
            }
            (Command::Acquire(acquire), Refusal::NotHeld { .. }) => {
                self.hit(Rare::RenewalOfOldTokenRefused);
                // Its grant is over, and it takes no other.
                if let Renewal::Only(token) = acquire.options.renewal {
                    self.clients[client]
                        .holdings
                        .retain(|mine| mine.resource != acquire.resource || mine.token != token);
                }
            }
            (Command::Acquire(acquire), Refusal::Locked { .. }) => {
                // Another client has it: the earlier belief is over, as the journal knows.
                let lost = |mine: &Holding| mine.resource == acquire.resource;
                let is_over = |mine: &Holding| {
                    self.ledger.claims.get(&mine.claim).is_none_or(|entry| matches!(entry.state, EntryState::Ended(_)))
                };
                let keep: Vec<Holding> = self.clients[client]
                    .holdings
                    .iter()
                    .filter(|mine| !lost(mine) || !is_over(mine))
                    .cloned()
                    .collect();
                self.clients[client].holdings = keep;
            }
            _ => {}
        }
        Ok(())
    }
}
