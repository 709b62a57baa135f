//! Processes begin, end, stop and go on; and the faults that strike them.

use std::cell::{Cell, RefCell};

use leasehold_journal::record::BatchReader;
use leasehold_journal::store::{Opened, Recovered};
use leasehold_journal::{Batch, Opener, Partition, Recovery, STRETCH_MAX_US, StoreError, recover};

use super::bodies::{CallId, CallState, Process, Pulse};
use super::{Event, World, tell};
use crate::disk::Cut;
use crate::fault::Fault;
use crate::ledger::invariant::{self, Check};
use crate::plan::Deployment;
use crate::sometimes::Rare;

/// How long ownership lasts without a sign of life.
pub(super) const OWNED_US: u64 = 1_200_000;
/// An owner counts on a little less than that, as its clock may be slow.
pub(super) const CERTAIN_US: u64 = OWNED_US - OWNED_US / 100;
const KEEP_ALIVE_EVERY_US: u64 = 300_000;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Killed,
    PowerCut,
    /// By itself: the store failed for good, or it is not the owner any more.
    Exit,
    /// It was told to stop, and has finished.
    ShutDown,
}

/// Passes on the records of a stream and remembers them.
struct Watched<'a> {
    inner: &'a dyn Opener,
    batches: RefCell<Vec<Vec<u8>>>,
    chunks: Cell<u32>,
}

impl Opener for Watched<'_> {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        self.inner.open(partition, &mut |recovered| {
            match recovered {
                Recovered::Batch(record) => self.batches.borrow_mut().push(record.to_vec()),
                Recovered::Chunk(_) => self.chunks.set(self.chunks.get() + 1),
            }
            visit(recovered)
        })
    }
}

impl World {
    pub(super) fn start(&mut self, node: usize) -> Check {
        self.nodes[node].is_starting = false;
        if self.nodes[node].process.is_some() {
            return Ok(());
        }
        if let Deployment::Cluster { .. } = self.plan.place {
            // Every node tries; the store gives the stream to the first one that comes after the lease has run out.
            let is_reachable = self.now_us >= self.nodes[node].cut_until_us && !self.nodes[node].is_stopped;
            if self.now_us < self.owned_until_us || !is_reachable {
                self.start_after(node, 150_000);
                return Ok(());
            }
        }
        self.maybe_rot()?;
        let far = self.far.clone();
        let disk = self.disk.clone();
        let opener: &dyn Opener = match self.plan.place {
            Deployment::Embedded => &disk,
            Deployment::Cluster { .. } => &far,
        };
        let watched = Watched { inner: opener, batches: RefCell::default(), chunks: Cell::new(0) };
        let recovery = match recover(&watched, 0, self.plan.limits.clone()) {
            Ok(recovery) => recovery,
            Err(StoreError::Full { .. }) => {
                self.start_after(node, 200_000);
                return Ok(());
            }
            Err(error) => return invariant::s16_damage::on_open(false, false, &error.to_string()),
        };
        self.recovered(&recovery, &watched.batches.into_inner(), watched.chunks.get())?;
        self.begin(node, recovery);
        Ok(())
    }

    fn recovered(&mut self, recovery: &Recovery, batches: &[Vec<u8>], chunks: u32) -> Check {
        let lost = self.lost.take();
        let mut is_found = false;
        for record in batches {
            let header = BatchReader::open(record).expect("the verifier has seen it").header();
            if header.first.0 <= self.ledger.head {
                continue;
            }
            // Durable, and no caller was told.
            invariant::s10_fencing::on_found(lost.as_ref().map(|(batch, _)| batch), record)?;
            is_found = true;
            let batch = Batch { epoch: header.epoch, first: header.first, last: header.last(), record: record.clone() };
            let whens = lost.as_ref().map(|(_, whens)| whens.clone()).unwrap_or_default();
            self.accept(&batch, &whens)?;
        }
        self.rare.hit_if(is_found, Rare::AppendSurvivedCrashUnacknowledged);
        self.rare.hit_if(lost.is_some() && !is_found, Rare::AppendLostInCrash);
        self.rare.hit_if(recovery.notes.iter().any(|note| note.contains("torn")), Rare::TailTorn);
        self.rare.hit_if(chunks > 0 && batches.is_empty(), Rare::RecoveredFromCheckpoint);
        self.rare.hit_if(chunks > 0 && !batches.is_empty(), Rare::RecoveredFromCheckpointAndTail);
        let facts = recovery.engine.facts();
        invariant::s04_grants::on_recovery(&self.ledger, &self.asks, recovery.head.0, &facts)?;
        invariant::s05_releases::on_recovery(&self.ledger, &facts)?;
        invariant::s15_replay::same("the recovered state", &facts, &self.ledger.standby.facts())?;
        invariant::s15_replay::model(&self.ledger, &facts)?;
        recovery.engine.check();
        let account = |engine: &leasehold_engine::Engine| engine.totals().state_bytes;
        invariant::s15_replay::account(account(&recovery.engine), account(&self.ledger.standby))?;
        self.ledger.opened(recovery.epoch.0)?;
        self.out.recoveries += 1;
        self.rare.hit_if(recovery.engine.totals().claims > 0, Rare::LeaseOutlivedOutages);
        self.rare.hit_if(recovery.at.0 < self.service_seen, Rare::ServiceTimeWentBack);
        tell!(self, "recovered to {} in epoch {}, service time {:?}", recovery.head, recovery.epoch, recovery.at);
        Ok(())
    }

    fn begin(&mut self, node: usize, recovery: Recovery) {
        let Recovery { engine, store, epoch, head, at, .. } = recovery;
        self.stores.push(store);
        if let Some(before) = self.owner
            && before != node
        {
            self.hit(Rare::TakenOver);
            self.outages += 1;
            self.rare.hit_if(self.nodes[before].process.is_some(), Rare::TakenOverFromTheLiving);
        }
        let connected = engine.waiting_with_connection().len();
        self.rare.hit_if(connected > 0, Rare::ConnectedWaiterWithdrawnAtRestart);
        self.rare.hit_if(engine.totals().waiting > connected, Rare::StandingClaimSurvivedRestart);
        self.nodes[node].incarnation += 1;
        let clocks = leasehold_journal::Clocks { mono_us: 0, wall: self.clocks(node).wall };
        let partition: Partition<CallId> =
            Partition::new(engine, 0, epoch, head, at, self.plan.partition_limits.clone(), clocks);
        self.nodes[node].process = Some(Process {
            partition,
            store: self.stores.len() - 1,
            started_us: self.now_us,
            tick_at_us: u64::MAX,
            tick_seq: 0,
            is_pulse_late: false,
            overslept_us: 0,
            in_flight: None,
            requests: 0,
            certain_until_us: CERTAIN_US,
            is_closing: false,
            log: Vec::new(),
            is_pending: false,
            read_us: self.now_us,
            is_low: false,
            is_keeping_up: false,
            pulse: Pulse { since_us: self.now_us, ..Pulse::default() },
            appended: 0,
            checkpoint: None,
            given_up: Vec::new(),
            told_at: 0,
            append_allowance_us: STRETCH_MAX_US,
            stop_allowance_us: STRETCH_MAX_US,
        });
        self.owner = Some(node);
        self.owned_until_us = self.now_us + OWNED_US;
        tell!(self, "node {node} serves in epoch {epoch}");
        self.log_time(node);
        let incarnation = self.nodes[node].incarnation;
        match self.plan.place {
            Deployment::Embedded => self.after(1, Event::LookAtRoom { node, incarnation }),
            Deployment::Cluster { .. } => self.after(KEEP_ALIVE_EVERY_US, Event::KeepAlive { node, incarnation }),
        }
        self.pump(node);
    }

    pub(super) fn start_after(&mut self, node: usize, delay_us: u64) {
        if !std::mem::replace(&mut self.nodes[node].is_starting, true) {
            self.after(delay_us, Event::Start(node));
        }
    }

    /// The process is gone, with everything that was only in memory. Its callers' connections break.
    pub(super) fn end_process(&mut self, node: usize, how: End) {
        let Some(process) = self.nodes[node].process.take() else { return };
        tell!(self, "node {node} ends: {how:?}");
        let incarnation = self.nodes[node].incarnation;
        self.nodes[node].is_stopped = false;
        self.nodes[node].inbox.clear();
        if self.owner == Some(node) {
            self.outages += 1;
        }
        self.out.crashes += u64::from(how != End::ShutDown);
        self.rare.hit_if(process.checkpoint.is_some(), Rare::CheckpointCutByCrash);
        if self.plan.place == Deployment::Embedded {
            self.lost = process.in_flight.map(|in_flight| (in_flight.batch, in_flight.whens));
            if how == End::PowerCut {
                let cut = self.disk.cut_power(&mut self.store_rng);
                tell!(self, "unsynced writes: {cut:?}");
                self.rare.hit_if(cut == Cut::Reordered, Rare::SectorsReordered);
            }
        }
        for id in 0..self.calls.len() {
            let call = &mut self.calls[id];
            let is_here = call.node == node && call.incarnation == incarnation;
            let waits = matches!(call.state, CallState::AtServer(_) | CallState::InChannel { .. });
            // An orderly end has made all consequences of its answers durable.
            call.is_excused |= is_here && (waits || how != End::ShutDown);
            if is_here && waits {
                call.state = CallState::Over;
                if !call.is_left {
                    let delay_us = self.chance.range(100, 20_000);
                    self.after(delay_us, Event::Broken(CallId(id)));
                }
            }
        }
        let delay_us = if self.is_calm { 100_000 } else { self.strike_rng.range(20_000, 900_000) };
        self.start_after(node, delay_us);
    }

    pub(super) fn stop(&mut self, node: usize, for_us: u64) {
        if self.nodes[node].is_stopped || self.nodes[node].process.is_none() {
            return;
        }
        tell!(self, "node {node} stands still for {for_us} us");
        let body = &mut self.nodes[node];
        body.is_stopped = true;
        body.stopped_at_us = self.now_us;
        body.stop_seq += 1;
        let seq = body.stop_seq;
        if let Some(process) = &mut body.process {
            process.stop_allowance_us = STRETCH_MAX_US;
        }
        if self.owner == Some(node) {
            self.outages += 1;
        }
        self.after(for_us, Event::Resume { node, seq });
    }

    pub(super) fn resume(&mut self, node: usize, seq: u64) {
        let body = &mut self.nodes[node];
        if !body.is_stopped || body.stop_seq != seq {
            return;
        }
        body.is_stopped = false;
        let stopped_us = self.now_us - body.stopped_at_us;
        let waiting = std::mem::take(&mut body.inbox);
        tell!(self, "node {node} goes on, {} things waited", waiting.len());
        self.rare.hit_if(stopped_us > self.plan.ttl_max_us, Rare::StoppedLongerThanTtl);
        // The threads may run in any order: requests, the pulse or the store's answer. The world chooses the order.
        for event in waiting {
            let delay_us = self.chance.below(300);
            self.after(delay_us, event);
        }
    }

    /// Returns whether this event must wait because the node stands still.
    pub(super) fn is_deferred(&mut self, node: usize, event: impl FnOnce() -> Event) -> bool {
        let is_stopped = self.nodes[node].is_stopped;
        if is_stopped {
            self.nodes[node].inbox.push(event());
        }
        is_stopped
    }

    /// While a journal rests, a bit of it may flip: then no process may open it. A backup helps.
    fn maybe_rot(&mut self) -> Check {
        if self.plan.place != Deployment::Embedded || !self.fails_at(Fault::BitRot, 500) {
            return Ok(());
        }
        let sound = self.disk.back_up();
        if !self.disk.flip_bit(&mut self.store_rng) {
            return Ok(());
        }
        let opened = recover(&self.disk, 0, self.plan.limits.clone());
        invariant::s16_damage::on_open(true, opened.is_ok(), "")?;
        self.hit(Rare::DamageRefused);
        self.disk.restore_backup(sound);
        Ok(())
    }

    /// Every now and then a fault strikes the owner, or a node that still believes to be it.
    pub(super) fn strike(&mut self) -> Check {
        if self.is_calm {
            return Ok(());
        }
        let pause_us = self.strike_rng.range(30_000, self.plan.strike_max_us);
        self.after(pause_us, Event::Strike);
        let serving: Vec<usize> = (0..self.nodes.len()).filter(|&n| self.nodes[n].process.is_some()).collect();
        if serving.is_empty() {
            return Ok(());
        }
        let node = serving[self.strike_rng.index(serving.len())];
        let is_embedded = self.plan.place == Deployment::Embedded;
        let choice = self.strike_rng.pick(&[
            Fault::Stop,
            Fault::Stop,
            Fault::Kill,
            Fault::PowerCut,
            Fault::SyncFails,
            Fault::DiskLow,
            Fault::DiskFull,
            Fault::Partitioned,
            Fault::WallStep,
            Fault::PulseLate,
            Fault::PulseLate,
            Fault::ShutDown,
        ]);
        let amount_us = self.strike_rng.range(20_000, 3_500_000);
        if !self.plan.faults.contains(&choice) {
            return Ok(());
        }
        match choice {
            Fault::Stop => self.stop(node, amount_us),
            Fault::PulseLate => self.stop(node, 20_000 + amount_us / 12),
            Fault::Kill => self.end_process(node, End::Killed),
            Fault::PowerCut if is_embedded => self.end_process(node, End::PowerCut),
            Fault::SyncFails if is_embedded => self.disk.fail_next_sync(),
            Fault::DiskLow if is_embedded => {
                self.disk.set_low(true);
                self.after(amount_us / 2, Event::RoomAgain { is_full: false });
            }
            Fault::DiskFull if is_embedded => {
                self.disk.set_full(true);
                self.after(amount_us / 3, Event::RoomAgain { is_full: true });
            }
            Fault::Partitioned if !is_embedded => self.nodes[node].cut_until_us = self.now_us + amount_us,
            Fault::WallStep => {
                let by_us = i64::try_from(amount_us).expect("small") * 1000;
                let is_back = amount_us.is_multiple_of(2);
                self.nodes[node].wall_offset_us += if is_back { -by_us } else { by_us };
                self.rare.hit_if(is_back, Rare::WallSteppedBack);
            }
            Fault::ShutDown => self.shut_down(node)?,
            _ => return Ok(()),
        }
        self.struck(choice);
        Ok(())
    }

    pub(super) fn shut_down(&mut self, node: usize) -> Check {
        if self.nodes[node].is_stopped || !self.is_certain(node) {
            return Ok(());
        }
        let clocks = self.clocks(node);
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        if process.is_closing {
            return Ok(());
        }
        process.is_closing = true;
        process.partition.shut_down(clocks);
        self.log_time(node);
        self.deliver(node)?;
        self.pump(node);
        Ok(())
    }
}
