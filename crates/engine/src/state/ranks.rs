//! Counts the waiters ahead of one in a long queue without walking the queue: the orders of creation, which rise, are
//! kept in chunks of bounded length. A rank adds up the lengths of the chunks in front, about one for 256 waiters, and
//! looks for its own place in the last.

use std::collections::VecDeque;

/// A queue at least this long has ranks; a shorter one is walked.
pub(crate) const RANKED_FROM: u32 = 64;

/// A chunk is split off when it would grow past this, and two neighbours that fit into half of it become one. So there
/// are never more than about four chunks for this many waiters, in whichever order they leave.
const CHUNK_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Ranks {
    /// None is empty.
    chunks: VecDeque<Vec<u64>>,
}

impl Ranks {
    /// The next waiter in line; orders rise.
    pub(crate) fn push(&mut self, order: u64) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK_MAX => {
                assert!(last.last().is_some_and(|&before| before < order), "the queue is in order of creation");
                last.push(order);
            }
            _ => self.chunks.push_back(vec![order]),
        }
    }

    pub(crate) fn remove(&mut self, order: u64) {
        let nth = self.chunk_of(order);
        let chunk = &mut self.chunks[nth];
        let at = chunk.binary_search(&order).expect("a waiter that leaves is in the queue");
        chunk.remove(at);
        // A neighbour on either side may take in the remaining orders, so that many departures do not leave many chunks
        // behind.
        let is_small = |nth: usize| self.chunks.get(nth).map_or(usize::MAX, Vec::len);
        if self.chunks[nth].is_empty() {
            self.chunks.remove(nth);
        } else if is_small(nth).saturating_add(is_small(nth + 1)) <= CHUNK_MAX / 2 {
            self.merge(nth);
        } else if nth > 0 && is_small(nth - 1) + is_small(nth) <= CHUNK_MAX / 2 {
            self.merge(nth - 1);
        }
    }

    /// How many are ahead of this waiter.
    pub(crate) fn ahead_of(&self, order: u64) -> u32 {
        let nth = self.chunk_of(order);
        let in_front: usize = self.chunks.iter().take(nth).map(Vec::len).sum();
        let at = self.chunks[nth].binary_search(&order).expect("a waiter is in the queue");
        u32::try_from(in_front + at).expect("queues are bounded")
    }

    fn chunk_of(&self, order: u64) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|&first| first <= order));
        after.checked_sub(1).expect("a waiter is in the queue")
    }

    fn merge(&mut self, nth: usize) {
        if let Some(mut next) = self.chunks.remove(nth + 1) {
            self.chunks[nth].append(&mut next);
        }
    }

    /// Every order, for the check of the invariants.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().flatten().copied()
    }

    #[cfg(test)]
    fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_what_counting_says_at_every_length_around_a_chunk() {
        for waiters in [1, CHUNK_MAX - 1, CHUNK_MAX, CHUNK_MAX + 1, 3 * CHUNK_MAX + 7] {
            let mut ranks = Ranks::default();
            let mut queue: Vec<u64> = (0..waiters as u64).map(|nth| nth * 3 + 1).collect();
            for &order in &queue {
                ranks.push(order);
            }
            // Leave from everywhere, the front, the back and the middle in turn.
            while !queue.is_empty() {
                for (ahead, &order) in (0..).zip(&queue).step_by(queue.len().div_ceil(5)) {
                    assert_eq!(ranks.ahead_of(order), ahead);
                }
                let leaves = queue.remove((queue.len() * 7 / 3) % queue.len());
                ranks.remove(leaves);
                assert!(ranks.iter().eq(queue.iter().copied()));
            }
            assert_eq!(ranks.chunks(), 0);
        }
    }

    #[test]
    fn many_who_leave_do_not_leave_many_chunks() {
        let mut ranks = Ranks::default();
        let mut stayed = 0;
        for order in 0..200_000_u64 {
            ranks.push(order);
            if order % 500 == 0 {
                stayed += 1;
            } else {
                ranks.remove(order);
            }
        }
        assert_eq!(ranks.iter().count(), stayed);
        assert!(ranks.chunks() <= 1 + 4 * stayed / CHUNK_MAX, "{} chunks for {stayed} waiters", ranks.chunks());
    }
}
