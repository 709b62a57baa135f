//! The meaning of a seed: the size of the world, its faults, its duration. Everything that is drawn once.

use std::collections::BTreeSet;

use leasehold_engine::Limits;
use leasehold_journal::PartitionLimits;

use crate::fault::Fault;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One process with its own disk.
    Embedded,
    /// Several nodes, one store far away.
    Cluster { nodes: usize },
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of the world by itself")]
pub struct Plan {
    pub seed: u64,
    pub place: Deployment,
    /// Nodes of a cluster do not count how long they own the stream: only the store's fencing stops them.
    pub is_careless: bool,
    pub clients: usize,
    pub pools: usize,
    pub claimed: usize,
    pub locks: usize,
    /// Leases and claims have an owner, as where callers sign on.
    pub is_signed_on: bool,
    /// Claims have to be asked about and confirmed.
    pub is_attentive: bool,
    /// Operators pause resources, take slots out of service and name them.
    pub is_fitted: bool,
    pub capacity_max: u32,
    pub faults: BTreeSet<Fault>,
    /// How often a possible fault happens, in a thousand chances.
    pub rate: u64,
    /// Faults happen until then; afterwards everything must come to rest.
    pub chaos_us: u64,
    pub calm_us: u64,
    pub limits: Limits,
    pub partition_limits: PartitionLimits,
    pub checkpoint_every: u64,
    /// How often a client asks for several at once, in a thousand.
    pub bursts: u64,
    pub ttl_max_us: u64,
    pub think_max_us: u64,
    /// The longest pause between two faults of a node.
    pub strike_max_us: u64,
}

/// The parts that a person, or the shrinker, removes from a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    pub without: BTreeSet<Fault>,
    pub clients: Option<usize>,
    pub chaos_us: Option<u64>,
}

impl Plan {
    pub fn of(seed: u64, cuts: &Cuts) -> Plan {
        let mut rng = Rng::new(seed, 1);
        let place =
            if rng.chance(550) { Deployment::Embedded } else { Deployment::Cluster { nodes: 2 + rng.index(2) } };
        let clients = 2 + rng.index(5);
        let (pools, claimed, locks) = (1 + rng.index(2), rng.index(3), rng.index(3));
        let bursts = rng.pick(&[0, 0, 100, 300]);
        let capacity_max = u32::try_from(rng.range(1, 3) + bursts / 100).expect("small");
        // A random subset: with few kinds of faults at a time, each gets far.
        let density = rng.pick(&[150, 300, 500, 800]);
        let faults = Fault::ALL.iter().copied().filter(|_| rng.chance(density)).collect::<Vec<_>>();
        let limits = Limits {
            grace_us: rng.pick(&[0, 1, 200_000, 600_000]),
            retain_us: rng.pick(&[500_000, 2_000_000, 20_000_000]),
            retained_max: rng.pick(&[2, 8, 1000]),
            // Drawn on the side, so that the rest of a seed keeps its meaning.
            state_bytes_max: Rng::new(seed, 12).pick(&[6_000, u64::MAX, u64::MAX, u64::MAX]),
            claims_max: rng.pick(&[6, 12, 1000]),
            waiting_max: rng.pick(&[2, 5, 1000]),
            resources_max: 1000,
            // Small enough that more deadlines are due than one step handles.
            due_per_step: rng.pick(&[1, 2, 256, 256]),
        };
        let partition_limits = PartitionLimits {
            callers_max: rng.pick(&[4, 1000, 1000]),
            store_timeout_us: rng.pick(&[400_000, 1_000_000]),
            backlog_bytes_max: Rng::new(seed, 13).pick(&[3_000, PartitionLimits::BACKLOG_BYTES_MAX]),
        };
        let plan = Plan {
            seed,
            place,
            is_careless: rng.chance(300),
            clients,
            pools,
            claimed,
            locks,
            is_signed_on: rng.chance(400),
            is_attentive: Rng::new(seed, 14).chance(500),
            is_fitted: Rng::new(seed, 15).chance(500),
            capacity_max,
            faults: faults.into_iter().collect(),
            rate: rng.pick(&[40, 100, 200]),
            chaos_us: rng.range(8_000_000, 26_000_000),
            calm_us: 12_000_000,
            limits,
            partition_limits,
            checkpoint_every: rng.pick(&[5, 15, 40, 1_000_000]),
            bursts,
            ttl_max_us: rng.pick(&[400_000, 1_500_000, 4_000_000]),
            think_max_us: rng.pick(&[40_000, 150_000, 400_000]),
            strike_max_us: 500_000,
        };
        let is_sleepy = rng.chance(300);
        if is_sleepy { plan.sleepy(&mut rng).cut(cuts) } else { plan.cut(cuts) }
    }

    /// Little happens, so that effects of time alone can be seen: few clients, long leases, long pauses.
    fn sleepy(self, rng: &mut Rng) -> Plan {
        Plan {
            clients: 1 + rng.index(2),
            ttl_max_us: rng.pick(&[5_000_000, 9_000_000]),
            think_max_us: rng.range(1_000_000, 6_000_000),
            strike_max_us: rng.pick(&[2_500_000, 4_000_000]),
            chaos_us: rng.range(15_000_000, 45_000_000),
            ..self
        }
    }

    fn cut(mut self, cuts: &Cuts) -> Plan {
        for fault in &cuts.without {
            self.faults.remove(fault);
        }
        self.clients = cuts.clients.unwrap_or(self.clients);
        self.chaos_us = cuts.chaos_us.unwrap_or(self.chaos_us);
        self
    }
}
