//! Callers that wait for a change of a claim, found by claim, by ticket and by the time at which they give up. Only in
//! memory: after a restart there are no connections left to answer.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::{ClaimId, ResourceKey, Time, Update};

/// A parked caller's number, to leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A caller that is waiting.
#[derive(Debug)]
pub(super) struct Parked<R> {
    pub(super) to: R,
    pub(super) claim: ClaimId,
    pub(super) for_what: ForWhat,
    /// When it wants an answer even if nothing happened. The claim may live on: another call that joined it may wait
    /// longer.
    pub(super) until: Time,
}

#[derive(Debug)]
pub(super) enum ForWhat {
    /// A slot: borrow and lock. The claim lives and dies with its callers.
    Slot { resource: ResourceKey },
    /// A claim of the claims dialect that its caller just asked for, waiting for its turn.
    Turn,
    /// An update that was refused only because it is not the claim's turn.
    Update(Update),
    /// Any change of status.
    News,
}

/// A caller whose update is to be tried again, because its claim's status changed.
#[derive(Debug)]
pub(super) struct Turn<R> {
    pub(super) to: R,
    pub(super) claim: ClaimId,
    pub(super) update: Update,
}

#[derive(Debug)]
pub(super) struct ParkedCallers<R> {
    by_ticket: BTreeMap<Ticket, Parked<R>>,
    by_claim: BTreeSet<(ClaimId, Ticket)>,
    by_time: BTreeSet<(Time, Ticket)>,
    last_ticket: u64,
}

impl<R> ParkedCallers<R> {
    pub(super) fn new() -> Self {
        ParkedCallers {
            by_ticket: BTreeMap::new(),
            by_claim: BTreeSet::new(),
            by_time: BTreeSet::new(),
            last_ticket: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    pub(super) fn park(&mut self, parked: Parked<R>) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.by_claim.insert((parked.claim, ticket));
        if parked.until != Time::NEVER {
            self.by_time.insert((parked.until, ticket));
        }
        self.by_ticket.insert(ticket, parked);
        ticket
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Parked<R>> {
        let parked = self.by_ticket.remove(&ticket)?;
        self.by_claim.remove(&(parked.claim, ticket));
        self.by_time.remove(&(parked.until, ticket));
        Some(parked)
    }

    pub(super) fn is_awaited(&self, claim: ClaimId) -> bool {
        self.first_on(claim).is_some()
    }

    fn first_on(&self, claim: ClaimId) -> Option<Ticket> {
        let from = (claim, Ticket(0));
        self.by_claim.range(from..).next().filter(|(id, _)| *id == claim).map(|&(_, ticket)| ticket)
    }

    /// Takes one of the callers parked on this claim, in the order in which they came.
    pub(super) fn take_on(&mut self, claim: ClaimId) -> Option<Parked<R>> {
        let ticket = self.first_on(claim)?;
        self.take(ticket)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Parked<R>> {
        let &(until, ticket) = self.by_time.first()?;
        if until > now {
            return None;
        }
        self.take(ticket)
    }

    pub(super) fn take_any(&mut self) -> Option<Parked<R>> {
        let (&ticket, _) = self.by_ticket.first_key_value()?;
        self.take(ticket)
    }

    /// Every claim that a caller is parked on.
    pub(super) fn claims(&self) -> impl Iterator<Item = ClaimId> {
        self.by_claim.iter().map(|&(claim, _)| claim)
    }

    /// Panics when one of the indexes does not find a caller.
    pub(super) fn check(&self) {
        let timed = self.by_ticket.values().filter(|parked| parked.until != Time::NEVER).count();
        assert_eq!((self.by_claim.len(), self.by_time.len()), (self.by_ticket.len(), timed), "parked callers");
        for (ticket, parked) in &self.by_ticket {
            assert!(self.by_claim.contains(&(parked.claim, *ticket)), "a parked caller is found by its claim");
            let is_timed = self.by_time.contains(&(parked.until, *ticket));
            assert_eq!(is_timed, parked.until != Time::NEVER, "a parked caller is found by its time");
        }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.by_time.first().map(|&(until, _)| until)
    }
}
