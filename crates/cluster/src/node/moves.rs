//! The last moves of partitions as this node saw them on its maps, for people. Nothing is decided by them.

use std::collections::VecDeque;

use leasehold_engine::Wall;
use leasehold_journal::{Clocks, Epoch};

use crate::ids::NodeId;
use crate::map::Map;

/// So many are remembered.
const MOVES_MAX: usize = 64;

/// A partition has another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMove {
    /// The partition.
    pub partition: u32,
    /// The owner before; `None` when it had none before.
    pub from: Option<NodeId>,
    /// The owner.
    pub to: NodeId,
    /// The epoch of the new owner.
    pub epoch: Epoch,
    /// Why it moved.
    pub why: MoveCause,
    /// When this node saw it.
    pub at: Wall,
    /// How long the partition had no owner that showed signs of life, as far as this node saw, in microseconds.
    pub pause_us: u64,
}

/// Why a partition has another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveCause {
    /// It had none before.
    First,
    /// Its owner let it go.
    LetGo,
    /// Its owner was buried.
    Died,
    /// The store went back, and epochs jumped.
    WentBack,
}

/// The owner that a partition last had.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    owner: Option<NodeId>,
    epoch: Epoch,
    /// Since when no living node owns it.
    free_since_us: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Moves {
    newest_last: VecDeque<PartitionMove>,
    owners: Vec<Last>,
}

impl Moves {
    /// Compares a map with the one before. `silent_us` says how long a node has shown no sign of life.
    pub(super) fn look(&mut self, clocks: Clocks, map: &Map, silent_us: impl Fn(NodeId) -> u64) {
        let is_first = self.owners.is_empty();
        self.owners.resize(map.owners.len(), Last::default());
        for ((seen, last), partition) in map.owners.iter().zip(&mut self.owners).zip(0..) {
            let epoch = seen.value.epoch;
            let Some(to) = seen.value.node.filter(|owner| map.is_alive(*owner)) else {
                last.free_since_us.get_or_insert(clocks.mono_us);
                if is_first {
                    (last.owner, last.epoch) = (seen.value.node, epoch);
                }
                continue;
            };
            let free_us = last.free_since_us.take().map_or(0, |since_us| clocks.mono_us.saturating_sub(since_us));
            if !is_first && (last.owner, last.epoch) != (Some(to), epoch) {
                let why = cause(map, last, epoch);
                // The silence began before the burial, and goes on to be counted after it.
                let silent_us = last.owner.filter(|_| why == MoveCause::Died).map_or(0, &silent_us);
                let pause_us = free_us.max(silent_us);
                let moved = PartitionMove { partition, from: last.owner, to, epoch, why, at: clocks.wall, pause_us };
                self.newest_last.push_back(moved);
            }
            (last.owner, last.epoch) = (Some(to), epoch);
        }
        let surplus = self.newest_last.len().saturating_sub(MOVES_MAX);
        self.newest_last.drain(..surplus);
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &PartitionMove> {
        self.newest_last.iter().rev()
    }
}

/// A taking raises the epoch by one, and so does the letting go before it. Where maps were missed, the record of the
/// last owner has to tell.
fn cause(map: &Map, last: &Last, epoch: Epoch) -> MoveCause {
    let Some(from) = last.owner else { return MoveCause::First };
    let steps = epoch.0.saturating_sub(last.epoch.0);
    if last.epoch < map.epoch_floor() && epoch >= map.epoch_floor() {
        MoveCause::WentBack
    } else if !map.is_alive(from) && steps != 2 {
        MoveCause::Died
    } else {
        MoveCause::LetGo
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Partitions;
    use crate::map::{Meta, NodeRecord, Owner, Seen};

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn map(owner: Option<NodeId>, epoch: u64, buried: &[NodeId]) -> Map {
        let record = |node| NodeRecord { is_buried: buried.contains(&node), ..NodeRecord::new(node, "a:1") };
        Map {
            revision: 1,
            meta: Meta {
                partitions: Partitions::new(1).unwrap(),
                format: 1,
                secret: [0; 32],
                stage: crate::map::Stage::Serving,
            },
            nodes: [A, B].map(|node| Seen { value: record(node), version: 1 }).to_vec(),
            owners: vec![Seen { value: Owner { epoch: Epoch(epoch), node: owner, ..Owner::default() }, version: 1 }],
            drained: Vec::new(),
        }
    }

    fn at(mono_us: u64) -> Clocks {
        Clocks { mono_us, wall: Wall(mono_us + 7) }
    }

    #[test]
    fn a_move_tells_why_and_how_long_the_partition_was_without_an_owner() {
        let mut moves = Moves::default();
        let silent_us = |node| if node == A { 2_000 } else { 0 };
        moves.look(at(0), &map(None, 0, &[]), silent_us);
        moves.look(at(100), &map(Some(A), 1, &[]), silent_us);
        moves.look(at(150), &map(Some(A), 1, &[]), silent_us);
        moves.look(at(5_000), &map(Some(A), 1, &[A]), silent_us);
        moves.look(at(5_030), &map(Some(B), 2, &[A]), silent_us);
        moves.look(at(6_000), &map(None, 3, &[]), silent_us);
        moves.look(at(6_040), &map(Some(A), 4, &[B]), silent_us);
        let told: Vec<_> = moves.newest_first().map(|one| (one.why, one.from, one.to, one.pause_us)).collect();
        let expected = [
            // B let go and ended: it is buried, and did not die.
            (MoveCause::LetGo, Some(B), A, 40),
            (MoveCause::Died, Some(A), B, 2_000),
            (MoveCause::First, None, A, 100),
        ];
        assert_eq!(told, expected);
        assert_eq!(moves.newest_first().next().unwrap().at, Wall(6_047));
    }

    #[test]
    fn what_a_node_finds_at_its_start_is_no_move_and_old_ones_are_forgotten() {
        let mut moves = Moves::default();
        moves.look(at(0), &map(Some(A), 9, &[]), |_| 0);
        assert_eq!(moves.newest_first().count(), 0);
        for epoch in 10..200 {
            moves.look(at(epoch), &map(Some(A), epoch, &[]), |_| 0);
        }
        assert_eq!(moves.newest_first().count(), MOVES_MAX);
        assert_eq!(moves.newest_first().next().unwrap().epoch, Epoch(199));
    }
}
