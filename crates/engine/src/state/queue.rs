//! The FIFO queue of one resource: a list linked through its claims, so that leaving from the middle costs the same as
//! leaving from the front.

use super::{Cix, Rix, State};

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
        self.resources[rix].waiting -= 1;
        self.waiting -= 1;
        self.count_waiting(cix, false);
    }

    /// The waiting claims of a resource, next one first.
    pub(crate) fn queue(&self, rix: Rix) -> impl Iterator<Item = Cix> {
        std::iter::successors(self.resources[rix].queue_head.some(), |&cix| self.claims[cix].queue_next.some())
    }
}
