//! Everything that follows from what just happened, for the seats where it happened: answers leave, batches go to the
//! store, proofs begin, partitions are let go, checkpoints go on.

use std::collections::BTreeSet;

use leasehold_engine::planted;
use leasehold_journal::{Clocks, Partition};

use super::seat::{Phase, Seat};
use super::stored::Asked;
use super::{HERE, LOOK_MIN_US, Node};
use crate::ids::Peer;
use crate::message::{Message, Op, Out};

/// A node that is told to end, and has given all partitions away, waits no longer than this for its callers' answers.
const DRAIN_US: u64 = 2_000_000;
/// Partitions in one transaction of appends: what etcd takes.
const APPENDS_MAX: usize = 40;
/// Bytes in one transaction of appends, unless one batch alone has more.
const APPEND_BYTES_MAX: usize = 1 << 20;

impl Node {
    /// Something may have happened at this seat.
    pub(super) fn touch(&mut self, n: usize) {
        if !std::mem::replace(&mut self.seats[n].is_touched, true) {
            self.touched.push(n);
        }
    }

    pub(super) fn flush(&mut self, clocks: Clocks) {
        loop {
            let mut out = Vec::new();
            self.relay.tick(clocks.mono_us, &mut out);
            self.relayed(out);
            self.say_asked();
            self.tell(clocks);
            if self.inbox.is_empty() {
                break;
            }
            while let Some(message) = self.inbox.pop_front() {
                self.hear(clocks, Peer::ME, HERE, message);
            }
        }
        self.look_if_due(clocks);
        self.let_go_if_closed(clocks);
        self.append(clocks);
        self.confirm(clocks);
        self.checkpoint(clocks);
    }

    fn look_if_due(&mut self, clocks: Clocks) {
        let last_us = self.looked_at_us.map_or(0, |at| at + LOOK_MIN_US);
        if clocks.mono_us >= self.look_due_us.max(last_us) && !self.is_looking && self.life.is_some() {
            self.look_due_us = clocks.mono_us + self.config.look_us;
            self.is_looking = true;
            self.sight_asked.clone_from(&self.sight);
            self.ask_store(Op::Map);
        }
    }

    /// Every call that this node stands for is on its way to its owner: the owner may stop waiting for others.
    fn say_asked(&mut self) {
        let (Some(life), false) = (self.life, self.unsaid.is_empty()) else { return };
        for partition in std::mem::take(&mut self.unsaid) {
            let route = self.relay.route_of(partition).filter(|route| route.link.is_some());
            match route.filter(|_| self.relay.is_asked(partition)) {
                Some(route) => self.post(route.to, Message::Asked { partition, epoch: route.epoch, node: life }),
                None => _ = self.unsaid.insert(partition),
            }
        }
    }

    /// Answers that may leave, to their relays.
    fn tell(&mut self, clocks: Clocks) {
        if self.touched.is_empty() {
            return;
        }
        let mut told = Vec::new();
        for n in std::mem::take(&mut self.touched) {
            let seat = &mut self.seats[n];
            seat.is_touched = false;
            if seat.has_append() {
                self.unsaved.insert(n);
            }
            if let Some(owned) = &mut seat.owned {
                self.wants_proof |= owned.wants_proof();
                owned.poll_told(&mut told);
                self.out.extend(seat.poll_news().map(Out::Happened));
            }
        }
        for told in told {
            self.tell_one(told, clocks);
        }
    }

    /// All partitions of this node in one transaction, one transaction at a time. Batches that do not fit
    /// come first in the next one.
    fn append(&mut self, clocks: Clocks) {
        let is_idle = self.unsaved.is_empty() || self.appending.is_some() || self.life.is_none();
        if is_idle || clocks.mono_us < self.append_at_us {
            self.gathering.stop();
            return;
        }
        if self.gathers(clocks) {
            return;
        }
        let mut appends = Vec::new();
        let mut bytes = 0;
        let unsaved = std::mem::take(&mut self.unsaved);
        let first = self.next_append;
        let in_turn = unsaved.range(first..).chain(unsaved.range(..first));
        let mut left = BTreeSet::new();
        for &n in in_turn {
            let seat = &mut self.seats[n];
            let next_bytes = seat.in_flight.as_ref().map_or_else(
                || seat.owned.as_ref().map_or(0, Partition::batch_bytes),
                |append| append.batch.record.len(),
            );
            let is_full = appends.len() >= APPENDS_MAX || bytes + next_bytes > APPEND_BYTES_MAX;
            if !left.is_empty() || is_full && !appends.is_empty() {
                self.next_append = if left.is_empty() { n } else { self.next_append };
                left.insert(n);
            } else if let Some(append) = seat.take_append(clocks) {
                bytes += append.batch.record.len();
                appends.push(append);
                // Until its fate is known.
                self.unsaved.insert(n);
            }
        }
        self.unsaved.extend(left);
        if !appends.is_empty() {
            self.gathering.sent(clocks.mono_us);
            self.appending = Some(self.ask_store(Op::Append(appends)));
        }
    }

    /// One round trip proves for every partition that this node is not buried.
    fn confirm(&mut self, clocks: Clocks) {
        if !self.wants_proof || self.confirming.is_some() || self.life.is_none() || clocks.mono_us < self.confirm_at_us
        {
            return;
        }
        self.wants_proof = false;
        let mut proofs = Vec::new();
        let mut is_wanted = false;
        for seat in &mut self.seats {
            if let (Some(reign), Some(owned)) = (seat.reign, &mut seat.owned) {
                is_wanted |= owned.wants_proof();
                proofs.push((seat.partition, reign.epoch(), owned.begin_proof()));
            }
        }
        if is_wanted {
            let op = self.ask_store(Op::Confirm);
            self.confirming = Some((op, proofs));
        }
    }

    /// One slice of the checkpoint under way.
    pub(super) fn step_checkpoint(&mut self, clocks: Clocks) {
        let Some(seat) = self.checkpointing.map(|n| &mut self.seats[n]) else { return };
        if let (Some(checkpoint), Some(owned)) = (&mut seat.checkpoint, &mut seat.owned) {
            checkpoint.step(owned, clocks);
        }
    }

    fn checkpoint(&mut self, clocks: Clocks) {
        if self.checkpointing.is_some_and(|n| self.seats[n].checkpoint.is_none()) {
            self.checkpointing = None;
        }
        if self.checkpointing.is_none() && !self.due.is_empty() {
            let batches = self.config.checkpoint_every;
            let seats = &self.seats;
            self.due.retain(|&n| seats[n].is_checkpoint_due(batches));
            let seats = &mut self.seats;
            let is_begun = |n: &usize| clocks.mono_us >= seats[*n].again_at_us && seats[*n].begin_checkpoint(clocks);
            self.checkpointing = self.due.iter().copied().find(is_begun);
            self.step_checkpoint(clocks);
        }
        let Some(seat) = self.checkpointing.map(|n| &mut self.seats[n]) else { return };
        let is_open = seat.is_op_open || seat.phase != Phase::Serving || clocks.mono_us < seat.again_at_us;
        let (Some(reign), Some(checkpoint), Some(owned)) = (seat.reign, &seat.checkpoint, &seat.owned) else { return };
        if let Some(op) = checkpoint.op(owned, reign).filter(|_| !is_open) {
            seat.is_op_open = true;
            self.ask_store(op);
        }
    }

    /// Begins to give a partition away.
    pub(super) fn close(&mut self, clocks: Clocks, n: usize) {
        let seat = &mut self.seats[n];
        if seat.phase != Phase::Serving || seat.owned.is_none() {
            return;
        }
        seat.drop_checkpoint();
        if let Some(owned) = &mut seat.owned {
            owned.close(clocks);
        }
        seat.phase = Phase::Closing;
        seat.is_op_open = false;
        seat.again_at_us = 0;
        self.closing.insert(n);
        self.touch(n);
    }

    fn let_go_if_closed(&mut self, clocks: Clocks) {
        if !self.closing.is_empty() {
            for n in std::mem::take(&mut self.closing) {
                self.check_newest(clocks, n);
                let op = let_go(&mut self.seats[n], clocks);
                if matches!(self.seats[n].phase, Phase::Closing | Phase::LettingGo) {
                    self.closing.insert(n);
                }
                if let Some(op) = op {
                    self.ask_store(op);
                }
            }
        }
        if self.is_draining {
            self.end_if_empty(clocks);
        }
    }

    fn end_if_empty(&mut self, clocks: Clocks) {
        let is_empty = self.seats.iter().all(|seat| seat.phase == Phase::Following);
        if !is_empty {
            return;
        }
        // Counted from here: what came back late from the store still has to be handed back to the next owners.
        let emptied_at_us = *self.emptied_at_us.get_or_insert(clocks.mono_us);
        let is_late = clocks.mono_us >= emptied_at_us + DRAIN_US;
        // It may be the only one that knows that the store went back: it stays until that is in its record.
        let is_told = self.floor_told >= self.floor;
        if is_told && (is_late || self.relay.len() == 0) {
            let mine = self.life.and_then(|life| self.map.as_ref()?.node(life).cloned());
            if let Some(mine) = mine.filter(|_| !self.open.values().any(|(_, op)| matches!(op, Asked::Bury(_)))) {
                self.ask_store(Op::Bury(mine));
            }
        }
    }

    pub(super) fn ask_store(&mut self, op: Op) -> u64 {
        self.next_op += 1;
        self.open.insert(self.next_op, (self.life, Asked::of(&op)));
        self.out.push_back(Out::Store(self.next_op, op));
        self.next_op
    }
}

/// The letting go of a closed partition, once all that was decided in it is durable and answered.
fn let_go(seat: &mut Seat, clocks: Clocks) -> Option<Op> {
    let reign = seat.reign?;
    if seat.is_op_open || clocks.mono_us < seat.again_at_us {
        return None;
    }
    match (seat.phase, &mut seat.owned) {
        (Phase::LettingGo, _) => {}
        (Phase::Closing, Some(owned)) if planted!(GivenWithoutDrain) => {
            owned.depose(false);
            seat.in_flight = None;
        }
        (Phase::Closing, Some(owned)) if owned.is_at_rest() && seat.in_flight.is_none() && seat.is_checked => {}
        _ => return None,
    }
    seat.phase = Phase::LettingGo;
    seat.is_op_open = true;
    let at = seat.owned.as_ref().filter(|_| !planted!(TimeOfGivingLost)).map(Partition::service_time);
    // Sent again, it is the same.
    Some(Op::LetGo(reign, *seat.let_go_at.get_or_insert(at.unwrap_or(reign.owner.at))))
}
