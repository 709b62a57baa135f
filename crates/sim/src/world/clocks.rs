//! Every clock of the world: nodes' monotonic and wall clocks, clients' clocks, and the two counters that say how much
//! of the time could have been service (`fair_us`, never less than the time that leases may be charged) and how much
//! certainly was (`served_us`).

use leasehold_engine::Wall;
use leasehold_journal::{Clocks, STRETCH_MAX_US};

use super::World;
use crate::ledger::When;

impl World {
    pub(super) fn pass_time(&mut self, to_us: u64) {
        let passed_us = to_us - self.now_us;
        self.now_us = to_us;
        let Some(owner) = self.owner else { return };
        let node = &mut self.nodes[owner];
        let Some(process) = &mut node.process else { return };
        if node.is_stopped {
            let counts_us = passed_us.min(process.stop_allowance_us);
            process.stop_allowance_us -= counts_us;
            self.fair_us += counts_us;
        } else if process.is_pending {
            let counts_us = passed_us.min(process.append_allowance_us);
            process.append_allowance_us -= counts_us;
            self.fair_us += counts_us;
            self.served_us += counts_us;
        } else {
            self.fair_us += passed_us;
            self.served_us += passed_us;
        }
    }

    pub(super) fn when(&self) -> When {
        When {
            world_us: self.now_us,
            fair_us: self.fair_us,
            served_us: self.served_us,
            outages: self.outages,
            is_low: self.owner.and_then(|n| self.nodes[n].process.as_ref()).is_some_and(|process| process.is_low),
        }
    }

    /// The monotonic clock of a node's process, which counts from its start.
    pub(super) fn mono_us(&self, node: usize) -> u64 {
        let started_us = self.nodes[node].process.as_ref().map_or(0, |process| process.started_us);
        fast(self.now_us - started_us, self.nodes[node].ppm)
    }

    pub(super) fn clocks(&self, node: usize) -> Clocks {
        let wall = self.now_us.saturating_add_signed(self.nodes[node].wall_offset_us);
        Clocks { mono_us: self.mono_us(node), wall: Wall(wall) }
    }

    /// When a node's clock will show this.
    pub(super) fn world_us(&self, node: usize, mono_us: u64) -> u64 {
        let started_us = self.nodes[node].process.as_ref().map_or(0, |process| process.started_us);
        let ppm = self.nodes[node].ppm;
        let mut passed_us = fast(mono_us, -ppm).saturating_sub(2);
        // In a few steps, however far away that is.
        while fast(passed_us, ppm) < mono_us {
            passed_us += mono_us - fast(passed_us, ppm);
        }
        started_us + passed_us
    }

    /// Remembers the service time, to tell later when a change was decided.
    pub(super) fn log_time(&mut self, node: usize) {
        let when = self.when();
        let Some(process) = &mut self.nodes[node].process else { return };
        let at = process.partition.service_time().0;
        let is_pending = process.in_flight.is_some() || process.partition.has_batch();
        if is_pending && !process.is_pending {
            process.append_allowance_us = STRETCH_MAX_US;
        }
        process.is_pending = is_pending;
        process.read_us = when.world_us;
        self.service_seen = self.service_seen.max(at);
        // The first time it was that: while service time stands still nothing new becomes due.
        match process.log.last_mut() {
            Some((last, earlier)) if *last >= at => earlier.is_low &= when.is_low,
            _ => process.log.push((at, when)),
        }
    }
}

/// A stretch of time on a clock that is fast by this many millionths.
pub(super) fn fast(passed_us: u64, ppm: i64) -> u64 {
    let passed = i128::from(passed_us);
    u64::try_from(passed + passed * i128::from(ppm) / 1_000_000).expect("drift is small")
}
