//! The FIFO queue of one resource: a list linked through its claims, so that leaving from the middle costs the same as
//! leaving from the front. A long queue has ranks, so that a waiter's position costs no walk over those ahead of it.

use super::{Cix, RANKED_FROM, Ranks, Rix, State};

impl State {
    pub(crate) fn queue_push(&mut self, rix: Rix, cix: Cix) {
        let tail = self.resources[rix].queue_tail;
        if let Some(tail) = tail.some() {
            assert!(self.claims[tail].order < self.claims[cix].order, "the queue is in order of creation");
            self.claims[tail].queue_next = cix;
            self.claims[cix].queue_prev = tail;
        } else {
            self.resources[rix].queue_head = cix;
        }
        let resource = &mut self.resources[rix];
        resource.queue_tail = cix;
        resource.waiting += 1;
        if resource.ranks().is_some() || resource.waiting >= RANKED_FROM {
            self.rank(rix, cix);
        }
        self.waiting += 1;
        self.count_waiting(cix, true);
    }

    pub(crate) fn queue_remove(&mut self, rix: Rix, cix: Cix) {
        let claim = &mut self.claims[cix];
        let (prev, next) = (claim.queue_prev, claim.queue_next);
        claim.queue_prev = Cix::NONE;
        claim.queue_next = Cix::NONE;
        match prev.some() {
            Some(prev) => self.claims[prev].queue_next = next,
            None => self.resources[rix].queue_head = next,
        }
        match next.some() {
            Some(next) => self.claims[next].queue_prev = prev,
            None => self.resources[rix].queue_tail = prev,
        }
        let order = self.claims[cix].order;
        let resource = &mut self.resources[rix];
        resource.waiting -= 1;
        if let Some(extra) = &mut resource.extra
            && let Some(ranks) = &mut extra.ranks
        {
            ranks.remove(order);
            if resource.waiting == 0 {
                extra.ranks = None;
            }
        }
        self.waiting -= 1;
        self.count_waiting(cix, false);
    }

    /// Gives the last claim in a long queue its rank; the first time, all claims ahead of it get theirs too.
    fn rank(&mut self, rix: Rix, last: Cix) {
        if let Some(extra) = &mut self.resources[rix].extra
            && let Some(ranks) = &mut extra.ranks
        {
            ranks.push(self.claims[last].order);
            return;
        }
        let mut ranks = Ranks::default();
        for cix in self.queue(rix) {
            ranks.push(self.claims[cix].order);
        }
        self.resources[rix].extra_mut().ranks = Some(Box::new(ranks));
    }

    /// A waiting claim's place in its queue; 1 is next.
    pub(crate) fn queue_position(&self, cix: Cix) -> u32 {
        let claim = &self.claims[cix];
        let ahead = if let Some(ranks) = self.resources[claim.resource].ranks() {
            ranks.ahead_of(claim.order)
        } else {
            let ahead = self.queue(claim.resource).take_while(|&other| other != cix).count();
            u32::try_from(ahead).expect("queues are bounded")
        };
        ahead + 1
    }

    /// The waiting claims of a resource, next one first.
    pub(crate) fn queue(&self, rix: Rix) -> impl Iterator<Item = Cix> {
        std::iter::successors(self.resources[rix].queue_head.some(), |&cix| self.claims[cix].queue_next.some())
    }
}
