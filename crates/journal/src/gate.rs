//! The gate holds every answer, also a read or a refusal, until the changes it depends on are durable and, in a
//! cluster, until a proof that began after the answer was decided has shown that this was still its owner.
//!
//! Positions and proofs enter in order, so a queue is enough, and answers leave in the order in which they were said.

use std::collections::VecDeque;

use leasehold_engine::planted;

use crate::Position;

/// Answers in order, each with the position it waits for. `T` is an answer, or anything else that must not leave early.
#[derive(Debug)]
pub struct Gate<T> {
    held: VecDeque<Held<T>>,
    durable: Position,
    /// The latest proof that is in. Always zero in the embedded service, whose answers need proof zero.
    proven: u64,
}

#[derive(Debug)]
struct Held<T> {
    /// The last change that this depends on.
    until: Position,
    /// The proof that this needs, or a later one.
    proof: u64,
    since_mono_us: u64,
    what: T,
}

impl<T> Gate<T> {
    /// A gate over a journal that is durable up to `durable`.
    pub fn new(durable: Position) -> Self {
        Gate { held: VecDeque::new(), durable, proven: 0 }
    }

    /// Everything up to here is on disk.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// The latest proof that is in.
    pub fn proven(&self) -> u64 {
        self.proven
    }

    /// Answers that are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds `what` until `until` is durable and `proof` is in; returns it at once if both are already.
    pub fn hold(&mut self, until: Position, proof: u64, mono_us: u64, what: T) -> Option<T> {
        if until <= self.durable && proof <= self.proven {
            assert!(self.held.is_empty(), "nothing overtakes what is held");
            return Some(what);
        }
        let last = self.held.back().map_or((Position(0), 0), |held| (held.until, held.proof));
        assert!(until >= last.0 && proof >= last.1, "positions and proofs are said in order");
        self.held.push_back(Held { until, proof, since_mono_us: mono_us, what });
        None
    }

    /// A proof is in: with the next release, answers that waited for it may leave. Each proof stands for all before it.
    pub fn prove(&mut self, proof: u64) {
        self.proven = self.proven.max(proof);
    }

    /// Everything up to `durable` is on disk: answers that waited for it leave.
    pub fn release(&mut self, durable: Position) -> impl Iterator<Item = T> + '_ {
        assert!(durable >= self.durable, "a durable position stays durable");
        self.durable = durable;
        let proven = if planted!(AnswerWithoutProof) { u64::MAX } else { self.proven };
        let reach = if planted!(GateOffByOne) { durable.next() } else { durable };
        // Their number is known ahead, so that the place they go to grows once.
        let is_free = |held: &Held<T>| held.until <= reach && held.proof <= proven;
        let free = if self.held.is_empty() { 0 } else { self.held.partition_point(is_free) };
        (0..free).map(|_| self.held.pop_front().expect("so many are held").what)
    }

    /// Gives up on everything held since `mono_us` or longer.
    pub fn give_up(&mut self, mono_us: u64) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(move || {
            let is_old = self.held.front().is_some_and(|held| held.since_mono_us <= mono_us);
            if is_old { self.held.pop_front().map(|held| held.what) } else { None }
        })
    }

    /// Takes everything that is held, each with whether it depends on a change after `landed`.
    pub fn take_all(&mut self, landed: Position) -> impl Iterator<Item = (T, bool)> + '_ {
        self.held.drain(..).map(move |held| (held.what, held.until > landed))
    }

    /// Everything that is held, oldest first.
    pub fn held_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.held.iter_mut().map(|held| &mut held.what)
    }

    /// Returns whether something is held that only a proof can release: what it depends on is durable.
    pub fn wants_proof(&self) -> bool {
        self.held.front().is_some_and(|held| held.until <= self.durable && held.proof > self.proven)
    }

    /// The answer that has been held for the longest.
    pub fn oldest(&self) -> Option<&T> {
        self.held.front().map(|held| &held.what)
    }

    /// Since when the oldest answer has been held.
    pub fn oldest_mono_us(&self) -> Option<u64> {
        self.held.front().map(|held| held.since_mono_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_nothing_new_passes() {
        let mut gate = Gate::new(Position(7));
        assert_eq!(gate.hold(Position(7), 0, 0, "read"), Some("read"));
        assert_eq!(gate.hold(Position(8), 0, 0, "write"), None);
    }

    #[test]
    fn a_release_frees_what_it_covers_in_order() {
        let mut gate = Gate::new(Position(0));
        for (until, what) in [(1, "a"), (3, "b"), (3, "read of b"), (4, "c")] {
            assert_eq!(gate.hold(Position(until), 0, 0, what), None);
        }
        assert_eq!(gate.release(Position(3)).collect::<Vec<_>>(), ["a", "b", "read of b"]);
        assert_eq!(gate.len(), 1);
        assert_eq!(gate.release(Position(4)).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn giving_up_takes_only_the_old() {
        let mut gate = Gate::new(Position(0));
        gate.hold(Position(1), 0, 100, "old");
        gate.hold(Position(2), 0, 200, "young");
        assert_eq!(gate.give_up(150).collect::<Vec<_>>(), ["old"]);
        assert_eq!(gate.oldest_mono_us(), Some(200));
    }

    #[test]
    fn an_answer_leaves_when_it_is_durable_and_proven_whichever_comes_last() {
        let mut gate = Gate::new(Position(5));
        for (until, proof, what) in [(5, 1, "read"), (6, 1, "write"), (6, 2, "read of it")] {
            assert_eq!(gate.hold(Position(until), proof, 0, what), None);
        }
        assert!(gate.wants_proof(), "the read depends on nothing new");
        gate.prove(1);
        assert_eq!(gate.release(Position(5)).collect::<Vec<_>>(), ["read"]);
        assert!(!gate.wants_proof(), "the write is not durable");
        assert_eq!(gate.release(Position(6)).collect::<Vec<_>>(), ["write"]);
        assert!(gate.wants_proof());
        gate.prove(3);
        gate.prove(2);
        assert_eq!(gate.release(Position(6)).collect::<Vec<_>>(), ["read of it"], "a later proof stands for it");
        assert_eq!(gate.hold(Position(6), 3, 0, "proven"), Some("proven"));
    }

    #[test]
    #[should_panic(expected = "nothing overtakes")]
    fn a_durable_answer_never_overtakes_a_held_one() {
        let mut gate = Gate::new(Position(5));
        gate.hold(Position(6), 0, 0, "write");
        gate.hold(Position(5), 0, 0, "stale read");
    }
}
