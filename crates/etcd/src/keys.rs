//! The keys of a cluster, all below its prefix:
//!
//! ```text
//! meta              the facts of the cluster            etcd      the id of the etcd cluster they were made in
//! keyring           the keys of proofs
//! n/<node>          the record of a node                nd/<node> there while the operator drains that node
//! o/<p>             the owner record of a partition     compact   the last compaction, so that one node does it
//! b/<p>/<last>.<sum>          a batch, by its last position and its checksum
//! x/<p>/<last>.<sum>/<k>      parts of a batch that is too large for one request
//! c/<p>                       the checkpoint that counts
//! k/<p>/<upto>.<epoch>/<n>    its chunks
//! ```
//!
//! Numbers are in hexadecimal and of fixed width, so ranges are in order. A batch is found by its *last* position, so
//! that the batch with a given position is the first key of a range; and its checksum is part of its key, so that an
//! append can compare which batch it follows.

use bytes::Bytes;
use leasehold_cluster::{CheckpointId, NodeId, Sum};
use leasehold_journal::{Epoch, Position};

/// From a key up to, and without, another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Bytes,
    pub(crate) to: Bytes,
}

/// Makes keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.to_owned() }
    }

    fn key(&self, rest: &str) -> Bytes {
        Bytes::from(format!("{}/{rest}", self.prefix))
    }

    /// The keys that begin with `<rest>/`; `0` is the byte after the slash.
    fn folder(&self, rest: &str) -> Range {
        Range { from: self.key(&format!("{rest}/")), to: self.key(&format!("{rest}0")) }
    }

    /// Everything below the prefix.
    pub(crate) fn all(&self) -> Range {
        Range { from: Bytes::from(format!("{}/", self.prefix)), to: Bytes::from(format!("{}0", self.prefix)) }
    }

    pub(crate) fn meta(&self) -> Bytes {
        self.key("meta")
    }

    pub(crate) fn etcd(&self) -> Bytes {
        self.key("etcd")
    }

    pub(crate) fn keyring(&self) -> Bytes {
        self.key("keyring")
    }

    pub(crate) fn compact(&self) -> Bytes {
        self.key("compact")
    }

    pub(crate) fn node(&self, node: NodeId) -> Bytes {
        self.key(&format!("n/{:032x}", node.0))
    }

    pub(crate) fn nodes(&self) -> Range {
        self.folder("n")
    }

    pub(crate) fn drain(&self, node: NodeId) -> Bytes {
        self.key(&format!("nd/{:032x}", node.0))
    }

    pub(crate) fn drains(&self) -> Range {
        self.folder("nd")
    }

    /// The node that a key of [`Keys::drains`] names.
    pub(crate) fn drained(&self, key: &[u8]) -> Option<NodeId> {
        let digits = key.strip_prefix(&*self.drains().from)?;
        u128::from_str_radix(str::from_utf8(digits).ok()?, 16).ok().map(NodeId)
    }

    pub(crate) fn owner(&self, partition: u32) -> Bytes {
        self.key(&format!("o/{partition:04x}"))
    }

    pub(crate) fn owners(&self) -> Range {
        self.folder("o")
    }

    /// The partition that a key of [`Keys::owners`] names.
    pub(crate) fn owned(&self, key: &[u8]) -> Option<u32> {
        let digits = key.strip_prefix(&*self.owners().from)?;
        u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    }

    /// Nodes, drains and owners: what the map shows.
    pub(crate) fn map(&self) -> Range {
        Range { from: self.nodes().from, to: self.owners().to }
    }

    pub(crate) fn batch(&self, partition: u32, last: Position, sum: Sum) -> Bytes {
        self.key(&format!("b/{partition:04x}/{:016x}.{:08x}", last.0, sum.0))
    }

    /// The batches whose last position is at least `from`.
    pub(crate) fn batches_from(&self, partition: u32, from: Position) -> Range {
        Range {
            from: self.key(&format!("b/{partition:04x}/{:016x}", from.0)),
            to: self.folder(&format!("b/{partition:04x}")).to,
        }
    }

    /// The batches whose last position is at most `upto`.
    pub(crate) fn batches_upto(&self, partition: u32, upto: Position) -> Range {
        Range {
            from: self.folder(&format!("b/{partition:04x}")).from,
            to: self.key(&format!("b/{partition:04x}/{:016x}/", upto.0)),
        }
    }

    /// The last position of the batch under a key.
    pub(crate) fn last_of(&self, partition: u32, key: &[u8]) -> Option<Position> {
        let rest = key.strip_prefix(&*self.folder(&format!("b/{partition:04x}")).from)?;
        u64::from_str_radix(str::from_utf8(rest.get(..16)?).ok()?, 16).ok().map(Position)
    }

    pub(crate) fn part(&self, partition: u32, last: Position, sum: Sum, number: usize) -> Bytes {
        self.key(&format!("x/{partition:04x}/{:016x}.{:08x}/{number:04x}", last.0, sum.0))
    }

    pub(crate) fn parts(&self, partition: u32, last: Position, sum: Sum) -> Range {
        self.folder(&format!("x/{partition:04x}/{:016x}.{:08x}", last.0, sum.0))
    }

    /// The parts of batches whose last position is at most `upto`.
    pub(crate) fn parts_upto(&self, partition: u32, upto: Position) -> Range {
        Range {
            from: self.folder(&format!("x/{partition:04x}")).from,
            to: self.key(&format!("x/{partition:04x}/{:016x}/", upto.0)),
        }
    }

    pub(crate) fn checkpoint(&self, partition: u32) -> Bytes {
        self.key(&format!("c/{partition:04x}"))
    }

    fn chunks_folder(
        partition: u32,
        CheckpointId { epoch: Epoch(epoch), upto: Position(upto) }: CheckpointId,
    ) -> String {
        format!("k/{partition:04x}/{upto:016x}.{epoch:016x}")
    }

    pub(crate) fn chunk(&self, partition: u32, of: CheckpointId, number: u32) -> Bytes {
        self.key(&format!("{}/{number:08x}", Self::chunks_folder(partition, of)))
    }

    /// The chunks of a checkpoint, from this one on.
    pub(crate) fn chunks_from(&self, partition: u32, of: CheckpointId, number: u32) -> Range {
        Range { from: self.chunk(partition, of, number), to: self.folder(&Self::chunks_folder(partition, of)).to }
    }

    /// The chunks of checkpoints before this one.
    pub(crate) fn chunks_before(&self, partition: u32, of: CheckpointId) -> Range {
        Range {
            from: self.folder(&format!("k/{partition:04x}")).from,
            to: self.folder(&Self::chunks_folder(partition, of)).from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &Range, key: &Bytes) -> bool {
        range.from <= *key && *key < range.to
    }

    #[test]
    fn ranges_hold_their_own_keys_and_no_others() {
        let keys = Keys::new("/a");
        let batch = |last| keys.batch(3, Position(last), Sum(u32::MAX));
        for last in [1, 9, 10, u64::MAX - 1] {
            assert!(holds(&keys.batches_from(3, Position(last)), &batch(last)));
            assert!(!holds(&keys.batches_from(3, Position(last + 1)), &batch(last)));
            assert!(holds(&keys.batches_upto(3, Position(last)), &batch(last)));
            assert!(!holds(&keys.batches_upto(3, Position(last - 1)), &batch(last)));
            assert!(!holds(&keys.batches_from(2, Position(1)), &batch(last)));
            assert!(!holds(&keys.batches_from(4, Position(1)), &batch(last)));
            assert_eq!(keys.last_of(3, &batch(last)), Some(Position(last)));
            let part = keys.part(3, Position(last), Sum(7), 1);
            assert!(holds(&keys.parts(3, Position(last), Sum(7)), &part));
            assert!(!holds(&keys.parts(3, Position(last), Sum(8)), &part));
            assert!(holds(&keys.parts_upto(3, Position(last)), &part));
            assert!(!holds(&keys.parts_upto(3, Position(last - 1)), &part));
        }
        let id = |epoch, upto| CheckpointId { epoch: Epoch(epoch), upto: Position(upto) };
        assert!(holds(&keys.chunks_from(1, id(2, 50), 3), &keys.chunk(1, id(2, 50), 3)));
        assert!(!holds(&keys.chunks_from(1, id(2, 50), 3), &keys.chunk(1, id(2, 50), 2)));
        assert!(!holds(&keys.chunks_from(1, id(2, 50), 0), &keys.chunk(1, id(3, 50), 0)));
        for (older, is_before) in [(id(9, 49), true), (id(1, 50), true), (id(2, 50), false), (id(1, 51), false)] {
            assert_eq!(holds(&keys.chunks_before(1, id(2, 50)), &keys.chunk(1, older, 0)), is_before, "{older:?}");
        }
        let node = NodeId(0xabc);
        for key in [keys.node(node), keys.drain(node), keys.owner(4095)] {
            assert!(holds(&keys.map(), &key) && holds(&keys.all(), &key));
            assert!(!holds(&Keys::new("/ab").all(), &key) && !holds(&Keys::new("/").all(), &key));
        }
        for key in [
            keys.meta(),
            keys.checkpoint(0),
            batch(1),
            keys.chunk(0, id(1, 1), 0),
            keys.part(0, Position(1), Sum(0), 0),
        ] {
            assert!(!holds(&keys.map(), &key) && holds(&keys.all(), &key));
        }
        assert_eq!(keys.drained(&keys.drain(node)), Some(node));
        assert_eq!(keys.owned(&keys.owner(77)), Some(77));
        assert!(!holds(&keys.nodes(), &keys.drain(node)));
    }
}
