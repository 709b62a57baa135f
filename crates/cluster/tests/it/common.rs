//! Configurations of nodes in a time of their own, and the commands of their callers.

use leasehold_cluster::{Birth, Config, Partitions, PeerAddress, claim_id, format};
use leasehold_engine::{Acquire, Command, Limits, Options, Patience, Quota, ResourceKey};
use leasehold_journal::PartitionLimits;

/// A node at this address, of a cluster of so many partitions.
pub(crate) fn config(address: PeerAddress, partitions: u32) -> Config {
    Config {
        address,
        birth: Birth { partitions: Partitions::new(partitions), format: format::FORMAT, secret: [1; 32] },
        limits: Limits::default(),
        partition_limits: PartitionLimits {
            callers_max: 1_000,
            store_timeout_us: 10_000_000,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        },
        node_ttl_us: 3_000_000,
        settle_us: 0,
        beat_us: 1_000_000,
        look_us: 200_000,
        checkpoint_every: 1_000_000,
        forget_us: 60_000_000,
    }
}

/// The lock of this name, for a call with this number.
pub(crate) fn lock(name: &str, number: u64) -> Command {
    let resource = ResourceKey::Lock(name.into());
    Command::Acquire(Box::new(Acquire {
        id: claim_id(&resource, u128::from(number)),
        resource,
        ttl_us: 3_600_000_000,
        patience: Patience::For { wait_us: 0 },
        client: Some("client".into()),
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
}
