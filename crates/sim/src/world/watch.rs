//! Checks from outside whenever a process is at rest or an answer leaves: callers that are gone, callers that wait, and
//! times that are shown.

use std::sync::Arc;

use leasehold_engine::{ClaimId, ClaimView, Command, Refusal, Reply, Time};
use leasehold_journal::{Denial, Told};

use super::World;
use super::bodies::{Call, CallId, CallState};
use crate::ledger::Entry;
use crate::ledger::invariant::{self, Check};
use crate::sometimes::Rare;

impl World {
    /// Returns whether a caller knows of this claim, will be told of it, or may have been told by a process that is
    /// gone.
    pub(super) fn is_stood_for(&self, claim: ClaimId, entry: &Entry) -> bool {
        let stands = |call: &Call| {
            let is_unknown = call.is_excused || call.arrived.is_some() && !self.is_with_owner(call);
            (call.is_inside() || is_unknown) && call.may_stand_for(claim, entry)
        };
        self.known.contains(&claim) || self.calls.iter().any(stands)
    }

    /// Returns whether the process that it reached is the one that owns the stream.
    fn is_with_owner(&self, call: &Call) -> bool {
        self.owner == Some(call.node) && self.nodes[call.node].incarnation == call.incarnation
    }

    /// Returns whether all changes are durable.
    pub(super) fn is_settled(&self, node: usize) -> bool {
        let process = self.nodes[node].process.as_ref();
        process.is_some_and(|process| process.in_flight.is_none() && !process.partition.has_batch())
    }

    /// No caller is parked for longer than it asked for.
    pub(super) fn check_waits(&self, node: usize) -> Check {
        let incarnation = self.nodes[node].incarnation;
        let now = self.when();
        for call in self.calls.iter().filter(|call| call.is_parked()) {
            if let Some(arrived) = call.arrived.filter(|_| call.node == node && call.incarnation == incarnation) {
                invariant::l8_waits::while_parked(call.waits_us(), arrived, now)?;
            }
        }
        Ok(())
    }

    /// The times that an answer shows, and the time at which it is given.
    pub(super) fn check_times(&mut self, node: usize, told: &Told<CallId>) -> Check {
        let call = &self.calls[told.to.0];
        let was_parked = matches!(call.state, CallState::AtServer(Some(_)));
        let is_nothing = matches!(told.answer, Err(Denial::Refused(Refusal::NoneFree { .. } | Refusal::Locked { .. })));
        // A client that gives a lock back leaves its queue, too.
        let is_unlocked = match &call.command {
            Command::Acquire(acquire) => acquire
                .client
                .as_ref()
                .is_some_and(|client| self.asks.unlocks.contains(&(acquire.resource.clone(), Arc::clone(client)))),
            _ => false,
        };
        if let Some(arrived) = call.arrived.filter(|_| was_parked && is_nothing && !is_unlocked) {
            invariant::l8_waits::on_nothing(call.waits_us(), arrived, self.when())?;
        }
        let Some(at) = self.nodes[node].process.as_ref().map(|process| process.partition.service_time()) else {
            return Ok(());
        };
        let Ok(reply) = &told.answer else { return Ok(()) };
        let position = told.position.0;
        for (claim, shown_us) in shown(reply) {
            let lease = self.ledger.claims.get(&claim).and_then(|entry| entry.lease_at(position));
            if let Some(deadline) = lease.map(|lease| lease.deadline) {
                invariant::s17_shown::on_leaving(shown_us, deadline, at)?;
                self.rare.hit_if(deadline <= at, Rare::AnsweredAfterItsLease);
            }
        }
        Ok(())
    }
}

/// How much an answer says is left of each lease that it shows.
fn shown(reply: &Reply) -> Vec<(ClaimId, u64)> {
    let left = |deadline: Time, now: Time| deadline.since(now);
    let claim = |view: &ClaimView| view.ttl_us.map(|ttl_us| (view.id, ttl_us));
    match reply {
        Reply::Lease(view) => vec![(view.claim, left(view.deadline, view.now.at))],
        Reply::Claim(view) => claim(view).into_iter().collect(),
        Reply::Claims(page) => page.claims.iter().filter_map(claim).collect(),
        Reply::Lock(view, _) => {
            let holder = view.holder.as_ref();
            holder.map(|holder| (holder.claim, left(holder.deadline, view.now.at))).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
