//! Room for as many connections as are allowed: each is an open file, and the operating system limits how many a
//! process may have. The accept loop handles connections beyond that.

use leasehold_server::http::limits::beyond_max;

/// Open files beside connections: the database and its log, the runtime's, the log's, a few to spare; and connections
/// over the limit.
fn beside(connections_max: u32) -> u64 {
    64 + u64::from(beyond_max(connections_max))
}

/// How many open files there may be. `None` stands for "no limit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowed {
    now: Option<u64>,
    /// The limit that the process may set by itself.
    at_most: Option<u64>,
}

/// The resulting limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    raise_to: Option<u64>,
    connections_max: u32,
}

/// As many files as are needed, as far as the process may decide that; and no more connections than those leave room
/// for, so that a client past the limit is told so and does not wait in vain.
fn plan(allowed: Allowed, connections_max: u32) -> Plan {
    let needed = u64::from(connections_max) + beside(connections_max);
    if allowed.now.is_none_or(|now| now >= needed) {
        return Plan { raise_to: None, connections_max };
    }
    let reachable = allowed.at_most.map_or(needed, |at_most| at_most.min(needed));
    // No more are over the limit than with as many connections as there may be files.
    let files = u32::try_from(reachable).unwrap_or(u32::MAX);
    let room = reachable.saturating_sub(beside(files)).max(1);
    Plan {
        raise_to: allowed.now.filter(|now| *now < reachable).map(|_| reachable),
        connections_max: u32::try_from(room).map_or(connections_max, |room| room.min(connections_max)),
    }
}

/// Raises the limit on open files as far as needed, and returns how many connections fit.
#[cfg(unix)]
pub(crate) fn make_room(connections_max: u32) -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = Allowed { now: current, at_most: maximum };
    let mut planned = plan(allowed, connections_max);
    if let Some(files) = planned.raise_to {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }) {
            Ok(()) => tracing::debug!(files, "raised the limit of open files"),
            Err(error) => {
                tracing::debug!(%error, files, "the limit of open files stays as it is");
                allowed.at_most = current;
                planned = plan(allowed, connections_max);
            }
        }
    }
    if planned.connections_max < connections_max {
        tracing::warn!(
            "no more than {} files may be open, which is enough for {} connections and not for connections_max = \
             {connections_max}; raise the limit (ulimit -Hn, LimitNOFILE=) or lower connections_max",
            allowed.at_most.unwrap_or(u64::MAX),
            planned.connections_max,
        );
    }
    planned.connections_max
}

#[cfg(not(unix))]
pub(crate) fn make_room(connections_max: u32) -> u32 {
    connections_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes_and_no_further_than_needed() {
        let few = beside(100);
        for (now, at_most, connections_max, raise_to, fit) in [
            (Some(1024), Some(20_000), 100, None, 100),
            (Some(1024), Some(20_000), 16_384, Some(16_384 + 384), 16_384),
            (Some(1024), Some(4096), 16_384, Some(4096), 4096 - 64 - 128),
            (Some(256), Some(256), 16_384, None, 128),
            (Some(1024), None, 16_384, Some(16_384 + 384), 16_384),
            (None, None, 16_384, None, 16_384),
            (Some(100 + few), Some(100 + few), 100, None, 100),
            (Some(99 + few), Some(99 + few), 100, None, 99),
            (Some(20), Some(20), 100, None, 1),
        ] {
            let planned = plan(Allowed { now, at_most }, connections_max);
            assert_eq!(planned, Plan { raise_to, connections_max: fit }, "{now:?} {at_most:?} {connections_max}");
        }
    }
}
