//! The duties of a partition in a cluster beside serving: proofs, orphans that are waited for, time marks for the beat,
//! batches of bounded size, and an orderly or sudden end. The embedded service uses none of it.
//!
//! ```text
//! taken ─▶ first append ─▶ serve ─┬─▶ close ─▶ at rest ─▶ let go        nothing is lost, callers ask again elsewhere
//!                                 └─▶ depose                            fenced: the engine is thrown away
//! ```

use std::collections::{BTreeSet, VecDeque};

use leasehold_engine::limits::TOKEN_MAX;
use leasehold_engine::{Change, ClaimId, Command, Engine, Moment, Time, Token, planted};

use super::{Clocks, Denial, Partition, Request, Ticket};
use crate::jump::{TOKENS_SKIPPED, last_token_lost};
use crate::limits::PartitionLimits;
use crate::record::Batch;
use crate::{Epoch, Position};

/// A step that brings the batch past this many bytes is its last. A step is never split.
const BATCH_BYTES: usize = 512 << 10;

/// Orphans are waited for no longer than this, in service time.
const ORPHANS_US: u64 = 10_000_000;

/// The fate of claims whose callers waited with a connection to the owner before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// Their connections are gone: they are withdrawn at once.
    Withdraw,
    /// They may be connected to other nodes, which ask for them again: see [`Partition::end_orphans`].
    Await,
}

#[derive(Debug, Default)]
pub(super) struct Reign {
    /// The store is shared: answers need proofs, and beats carry the time.
    pub(super) is_shared: bool,
    /// The last proof that began.
    begun: u64,
    /// Batches that are complete, oldest first.
    pub(super) sealed: VecDeque<Batch>,
    /// Claims whose callers have not asked again yet.
    pub(super) orphans: BTreeSet<ClaimId>,
    /// Service time after which the orphans are not waited for.
    orphans_until: Time,
    /// Nothing more is decided here.
    pub(super) is_closed: bool,
}

impl Reign {
    pub(super) fn sealed_bytes(&self) -> usize {
        self.sealed.iter().map(|batch| batch.record.len()).sum()
    }
}

impl<R> Partition<R> {
    /// Goes on from the end of a stream that was taken from another owner. Its first batch is there at once: callers
    /// are served when that is durable. `is_jump`: the store lost changes of this stream.
    #[expect(clippy::too_many_arguments, reason = "as `new`, and what a taking adds")]
    pub fn taken(
        engine: Engine,
        number: u32,
        epoch: Epoch,
        head: Position,
        at: Time,
        limits: PartitionLimits,
        clocks: Clocks,
        orphans: Orphans,
        is_jump: bool,
    ) -> Self {
        let mut partition = Self::bare(engine, number, epoch, head, at, limits, clocks);
        partition.reign.is_shared = true;
        if is_jump {
            partition.jump(clocks);
        }
        let waiting = partition.engine.waiting_with_connection();
        if orphans == Orphans::Await && !planted!(OrphansDroppedAtOnce) {
            partition.reign.orphans = waiting.into_iter().collect();
            partition.reign.orphans_until = at.plus(ORPHANS_US);
        } else {
            for claim in waiting {
                partition.order(clocks, Command::Withdraw { claim });
            }
        }
        // Service time may be later than the last change: what is due comes first.
        let now = partition.pass_time(clocks, None);
        if partition.batch.is_empty() {
            partition.mark(now);
        }
        partition
    }

    /// The store lost changes of this partition in which tokens may have been given out. Before anything else is
    /// decided, the counter jumps above all of them, in the first batch.
    fn jump(&mut self, clocks: Clocks) {
        let now = self.now(clocks);
        let last = self.engine.last_token();
        let jumped = last_token_lost(last, now.wall);
        // A clock that is wrong by centuries does not use the tokens up.
        let is_too_far = jumped.0 > TOKEN_MAX - TOKENS_SKIPPED;
        let last_token = if is_too_far { Token(last.0 + TOKENS_SKIPPED.min(TOKEN_MAX - last.0)) } else { jumped };
        let change = Change::Jumped { last_token };
        self.engine.apply(now, &change);
        self.push(now, &change);
    }

    /// The proof that an answer decided now needs: the next one to begin.
    pub(super) fn next_proof(&self) -> u64 {
        match self.reign.is_shared {
            true if planted!(ProofBegunBefore) => self.reign.begun,
            true => self.reign.begun + 1,
            false => 0,
        }
    }

    /// A round trip to the store begins, which will show whether this is still the owner. An append is one by itself.
    pub fn begin_proof(&mut self) -> u64 {
        self.reign.begun += u64::from(self.reign.is_shared);
        self.reign.begun
    }

    /// That round trip showed that this was the owner after it began.
    pub fn proof_done(&mut self, clocks: Clocks, proof: u64) {
        self.now(clocks);
        self.answers.prove(proof);
        self.release(self.answers.durable());
    }

    /// Returns whether an answer waits for a proof and for nothing else.
    pub fn wants_proof(&self) -> bool {
        self.reign.is_shared && self.answers.wants_proof()
    }

    /// Service time, to be written down with a beat. Until [`Partition::beat_done`] at most a tenth of a second counts.
    pub fn begin_beat(&mut self, clocks: Clocks) -> Time {
        let now = self.now(clocks);
        self.clock.beat_begun();
        now.at
    }

    /// The beat is in the store.
    pub fn beat_done(&mut self, clocks: Clocks) {
        self.now(clocks);
        self.clock.beat_done();
    }

    /// Returns whether callers of an earlier owner are still waited for.
    pub fn has_orphans(&self) -> bool {
        !self.reign.orphans.is_empty()
    }

    /// Every node has asked again for its callers. The claims of the others are withdrawn, or handed back if they were
    /// granted meanwhile, unless another caller waits for the claim or has shown that it knows of it.
    pub fn end_orphans(&mut self, clocks: Clocks) {
        if planted!(OrphansKeptForEver) {
            return;
        }
        self.pass_time(clocks, None);
        for claim in std::mem::take(&mut self.reign.orphans) {
            if self.parked.is_awaited(claim) {
                continue;
            }
            let is_waiting = self.engine.is_waiting(claim);
            let hand_back = Command::HandBack { claim, heard_by_nobody: false };
            self.order(clocks, if is_waiting { Command::Withdraw { claim } } else { hand_back });
        }
        self.take_turns(clocks);
    }

    pub(super) fn give_up_on_orphans(&mut self, clocks: Clocks, now: Moment) {
        if !self.reign.orphans.is_empty() && now.at >= self.reign.orphans_until {
            self.end_orphans(clocks);
        }
    }

    /// A call that its relay sent again, under the same id. It was let in before: no bound stops it.
    pub(super) fn is_asked_again(&self, request: &Request) -> bool {
        match &request.command {
            Command::Acquire(acquire) => self.engine.is_known(acquire.id) && !planted!(ReaskRefusedFull),
            Command::HandBack { .. } => true,
            _ => false,
        }
    }

    /// A caller has asked again by another way, under the same id, and waits there by now. Its earlier call goes
    /// without a trace, parked or with an answer that is held: if that answer cannot leave, nothing is handed back for
    /// it.
    pub fn supersede(&mut self, ticket: Option<Ticket>, id: Option<ClaimId>, is_its: impl Fn(&R) -> bool) {
        let parked = ticket.and_then(|ticket| self.parked.take(ticket)).map(|parked| parked.claim);
        let its = self.answers.held_mut().filter(|told| is_its(&told.to));
        let held: Vec<_> = its.filter_map(|told| told.untold.take()).collect();
        for claim in parked.into_iter().chain(held).filter(|claim| Some(*claim) != id) {
            // It was counted among those that share the claim, and the later call was counted again.
            self.company.left(claim);
        }
    }

    pub(super) fn seal_if_large(&mut self) {
        if self.batch.bytes() >= BATCH_BYTES {
            let batch = self.batch.seal();
            self.reign.sealed.push_back(batch);
        }
    }

    /// Decides nothing from now on, time included. Parked callers are told to ask elsewhere; what was decided is still
    /// appended and answered. Returns the service time to let go with.
    pub fn close(&mut self, clocks: Clocks) -> Time {
        let now = self.now(clocks);
        if planted!(GiverServesOn) {
            return now.at;
        }
        self.is_shutting_down = true;
        self.reign.is_closed = true;
        while let Some(parked) = self.parked.take_any() {
            self.tell_now(parked.to, Denial::Moved);
        }
        now.at
    }

    /// Returns whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.reign.is_closed
    }

    /// This is not the owner any more. Every caller without an answer is told so: `Lost` where its changes are in the
    /// append under way and the outcome of that is unknown, else `Moved`, since nothing of it will ever be durable.
    pub fn depose(&mut self, is_append_unknown: bool) {
        self.reign.is_closed = true;
        self.is_shutting_down = true;
        let durable = self.answers.durable();
        let unknown_until = match self.in_flight {
            Some((last, _)) if is_append_unknown => last,
            _ => durable,
        };
        let held: Vec<_> = self.answers.take_all(unknown_until).collect();
        for (mut told, is_after) in held {
            let is_unknown = !is_after && told.position > durable;
            told.answer = Err(if is_unknown { Denial::Lost } else { Denial::Moved });
            (told.untold, told.position) = (None, durable);
            self.told.push(told);
        }
        while let Some(parked) = self.parked.take_any() {
            self.tell_now(parked.to, Denial::Moved);
        }
    }
}
