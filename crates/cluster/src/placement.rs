//! Where partitions should be: bounded rendezvous hashing, a pure function of who is alive. Equal views give equal
//! answers, and a node that comes or goes moves only what it has to.

use crate::hash::Partitions;
use crate::ids::NodeId;

/// The target of each partition: partitions in order, each to its highest weight among the nodes that have fewer than
/// their share. `None` without a node.
pub fn targets(partitions: Partitions, nodes: &[NodeId]) -> Vec<Option<NodeId>> {
    let share = (partitions.number() as usize).div_ceil(nodes.len().max(1));
    let mut counts = vec![0_usize; nodes.len()];
    let mut target = |partition: u32| {
        let open = (0..nodes.len()).filter(|&n| counts[n] < share);
        let best = open.max_by_key(|&n| (weight(partition, nodes[n]), nodes[n]))?;
        counts[best] += 1;
        Some(nodes[best])
    };
    partitions.all().map(&mut target).collect()
}

/// The place of a node in line for a partition, or for the burial of another node: 0 is first.
pub fn rank(what: u128, nodes: &[NodeId], me: NodeId) -> u64 {
    let mine = (weight_of(what, me), me);
    nodes.iter().filter(|&&node| (weight_of(what, node), node) > mine).count() as u64
}

fn weight(partition: u32, node: NodeId) -> u64 {
    weight_of(u128::from(partition), node)
}

fn weight_of(what: u128, node: NodeId) -> u64 {
    let [low, high] = [node.0, node.0 >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).expect("64 bits"));
    let [what_low, what_high] =
        [what, what >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).expect("64 bits"));
    mix(mix(mix(mix(low) ^ high) ^ what_low) ^ what_high)
}

fn mix(hash: u64) -> u64 {
    let hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(number: u128) -> Vec<NodeId> {
        (1..=number).map(|n| NodeId(n * 0x1234_5678_9abc_def1)).collect()
    }

    #[test]
    fn no_node_has_more_than_its_share() {
        for count in 1..=9 {
            for power in 0..=8 {
                let partitions = Partitions::new(1 << power).unwrap();
                let nodes = nodes(count);
                let targets = targets(partitions, &nodes);
                let share = partitions.number().div_ceil(u32::try_from(count).unwrap());
                for node in &nodes {
                    let has = targets.iter().filter(|target| **target == Some(*node)).count();
                    assert!(has <= share as usize, "{has} of {partitions:?} among {count}");
                }
                assert!(targets.iter().all(Option::is_some));
            }
        }
        assert_eq!(targets(Partitions::DEFAULT, &[]), vec![None; 8]);
    }

    #[test]
    fn the_order_of_the_nodes_makes_no_difference() {
        let (there, mut back) = (nodes(5), nodes(5));
        back.reverse();
        assert_eq!(targets(Partitions::DEFAULT, &there), targets(Partitions::DEFAULT, &back));
    }

    #[test]
    fn a_node_that_leaves_moves_little_else() {
        let partitions = Partitions::new(64).unwrap();
        let all = nodes(4);
        let before = targets(partitions, &all);
        let after = targets(partitions, &all[..3]);
        let moved = before.iter().zip(&after).filter(|(b, a)| **b != Some(all[3]) && b != a).count();
        assert!(moved <= 16, "{moved} of 48 moved though their node stayed");
    }

    #[test]
    fn ranks_are_the_places_in_line() {
        let nodes = nodes(5);
        let mut ranks: Vec<u64> = nodes.iter().map(|&node| rank(77, &nodes, node)).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1, 2, 3, 4]);
    }
}
