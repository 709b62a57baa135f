//! The workloads. One file per question; each returns its part of the report and prints its progress.

mod against;
mod claims;
mod expiry;
mod hand_over;
mod http2;
mod latency;
mod lock;
mod scale;
mod throughput;
mod waiters;

use std::time::Duration;

use anyhow::Result;

use crate::drive::{Line, Outcome, Plan, drive};
use crate::peer::{Contender, Running, Workspace};
use crate::progress::Progress;

pub(crate) use against::{Match, against};
pub(crate) use claims::{ClaimsRow, claims};
pub(crate) use expiry::{MassExpiry, mass_expiry};
pub(crate) use hand_over::{HandOverRow, hand_over};
pub(crate) use http2::{Http2Row, http2, http2_ratio};
pub(crate) use latency::{LoadPoint, latency};
pub(crate) use lock::{LockRow, lock};
pub(crate) use scale::{Scale, scale};
pub(crate) use throughput::{Throughput, p50_ratio, rate_ratio, throughput};
pub(crate) use waiters::{Waiters, waiters};

/// The sizes of all workloads. Only this tells a quick run from a full one.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
    pub(crate) connections: Vec<u64>,
    /// Offered in the open loop, each until the peer cannot keep up.
    pub(crate) rates_per_s: Vec<f64>,
    /// The live leases of three services beside each other, the smallest first.
    pub(crate) leases: [usize; 3],
    pub(crate) waiters: usize,
    pub(crate) expiring: usize,
    pub(crate) syncs: usize,
}

impl Sizes {
    pub(crate) fn full() -> Self {
        Sizes {
            rounds: 3,
            warm_up: Duration::from_millis(500),
            length: Duration::from_secs(3),
            connections: vec![1, 16, 64, 256, 1024],
            rates_per_s: vec![1e3, 2e3, 5e3, 1e4, 1.5e4, 2e4, 2.5e4, 3e4, 4e4, 5e4],
            leases: [1_000, 100_000, 1_000_000],
            waiters: 10_000,
            expiring: 100_000,
            syncs: 3_000,
        }
    }

    pub(crate) fn quick() -> Self {
        Sizes {
            rounds: 1,
            warm_up: Duration::from_millis(100),
            length: Duration::from_millis(400),
            connections: vec![1, 16, 64, 256, 1024],
            rates_per_s: vec![1e3, 5e3, 2e4],
            leases: [1_000, 10_000, 50_000],
            waiters: 1_000,
            expiring: 10_000,
            syncs: 500,
        }
    }
}

/// The input of every workload.
pub(crate) struct Context<'a> {
    pub(crate) sizes: &'a Sizes,
    pub(crate) place: &'a Workspace,
    pub(crate) peers: &'a [Running],
    pub(crate) progress: &'a Progress,
}

impl Context<'_> {
    fn plan(&self) -> Plan<'static> {
        Plan::closed(self.sizes.warm_up, self.sizes.length)
    }

    /// Drives in a closed loop for the usual time.
    fn drive(&self, lines: Vec<Line>) -> Result<Outcome> {
        drive(lines, &self.plan())
    }

    /// The peers in another order each round, so that none always comes after the same one.
    fn rotated(&self, round: usize) -> impl Iterator<Item = &Running> {
        let len = self.peers.len().max(1);
        self.peers.iter().cycle().skip(round % len).take(self.peers.len())
    }

    /// The two builds of Leasehold, for workloads that no other peer supports.
    fn ours(&self) -> impl Iterator<Item = &Running> {
        self.peers.iter().filter(|running| matches!(running.peer, Contender::Leasehold | Contender::LeaseholdMemory))
    }
}
