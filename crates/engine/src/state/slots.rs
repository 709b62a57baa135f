//! Which claim has which slot of one resource. Locks and most claimed resources have a single slot, so slot 0 lives
//! inline and only pools allocate.

use super::Cix;

#[derive(Debug)]
pub(crate) struct Slots {
    first: Cix,
    /// Slots 1, 2, …; shorter than the capacity when the high ones were never used.
    rest: Vec<Cix>,
    used: u32,
    /// No slot below this one is free: where to look for the lowest.
    lowest_hint: u32,
}

impl Default for Slots {
    fn default() -> Self {
        Slots { first: Cix::NONE, rest: Vec::new(), used: 0, lowest_hint: 0 }
    }
}

impl Slots {
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// The highest slot in use, zero if there is none: how long the list of slots is.
    pub(crate) fn highest(&self) -> u64 {
        self.rest.len() as u64
    }

    pub(crate) fn holder(&self, slot: u32) -> Option<Cix> {
        if slot == 0 { self.first.some() } else { self.rest.get(slot as usize - 1).and_then(|cix| cix.some()) }
    }

    /// The lowest free slot below `capacity`; `None` too while more are held than a lowered capacity allows.
    pub(crate) fn lowest_free(&self, capacity: u32) -> Option<u32> {
        if self.used >= capacity && !planted!(CapacityNotHeeded) {
            return None;
        }
        let from = self.lowest_hint;
        let slot = if from == 0 && self.first.is_none() {
            0
        } else {
            let skip = (from.max(1) - 1) as usize;
            let ahead = self.rest.get(skip..).unwrap_or(&[]);
            let hole = ahead.iter().position(|cix| cix.is_none()).unwrap_or(ahead.len());
            u32::try_from(skip + hole).expect("slots are counted in u32") + 1
        };
        (slot < capacity).then_some(slot)
    }

    /// The lowest free slot below `capacity` that is not among those that are out.
    pub(crate) fn lowest_free_but(&self, capacity: u32, is_out: impl Fn(u32) -> bool) -> Option<u32> {
        (self.lowest_hint..capacity).find(|&slot| self.holder(slot).is_none() && !is_out(slot))
    }

    pub(crate) fn take(&mut self, slot: u32, cix: Cix) {
        assert!(self.holder(slot).is_none(), "a slot has one holder");
        if slot == 0 {
            self.first = cix;
        } else {
            let at = slot as usize - 1;
            if self.rest.len() <= at {
                self.rest.resize(at + 1, Cix::NONE);
            }
            self.rest[at] = cix;
        }
        self.used += 1;
        if slot == self.lowest_hint {
            self.lowest_hint = slot + 1;
        }
    }

    pub(crate) fn free(&mut self, slot: u32, cix: Cix) {
        assert_eq!(self.holder(slot), Some(cix), "only the holder's own slot is freed");
        if slot == 0 {
            self.first = Cix::NONE;
        } else {
            self.rest[slot as usize - 1] = Cix::NONE;
            while self.rest.last().is_some_and(|cix| cix.is_none()) {
                self.rest.pop();
            }
            // A list that was long once is shortened when only a few slots are left in use.
            if self.rest.capacity() > 2 * self.rest.len().max(4) {
                self.rest.shrink_to_fit();
            }
        }
        self.used -= 1;
        self.lowest_hint = self.lowest_hint.min(slot);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Cix)> {
        std::iter::once(&self.first)
            .chain(&self.rest)
            .zip(0u32..)
            .filter_map(|(cix, slot)| cix.some().map(|cix| (slot, cix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cix(raw: u32) -> Cix {
        Cix::from_raw(raw)
    }

    #[test]
    fn the_lowest_free_slot_comes_first() {
        let mut slots = Slots::default();
        for n in 0..5 {
            assert_eq!(slots.lowest_free(5), Some(n));
            slots.take(n, cix(n));
        }
        assert_eq!(slots.lowest_free(5), None);
        slots.free(3, cix(3));
        slots.free(1, cix(1));
        assert_eq!(slots.lowest_free(5), Some(1));
        slots.take(1, cix(11));
        assert_eq!(slots.lowest_free(5), Some(3));
    }

    #[test]
    fn a_lowered_capacity_blocks_until_enough_are_back() {
        let mut slots = Slots::default();
        (0..4).for_each(|n| slots.take(n, cix(n)));
        slots.free(0, cix(0));
        assert_eq!(slots.lowest_free(3), None, "three of three are held");
        slots.free(3, cix(3));
        assert_eq!(slots.lowest_free(3), Some(0));
        assert_eq!(slots.lowest_free(0), None);
    }

    #[test]
    #[should_panic(expected = "only the holder's own slot")]
    fn a_stranger_frees_nothing() {
        let mut slots = Slots::default();
        slots.take(0, cix(7));
        slots.free(0, cix(8));
    }
}
