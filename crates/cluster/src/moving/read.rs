//! Reads the streams of a shared store to their ends and verifies them, as a taker does and somewhat more.

use leasehold_engine::{Fact, Limits, Time};
use leasehold_journal::record::{BatchReader, ChunkReader};
use leasehold_journal::{Epoch, Position};

use super::image::{Part, walk};
use crate::follower::Follower;
use crate::hash::Partitions;
use crate::ids::NodeId;
use crate::map::{Map, Reign};
use crate::store::{Piece, SharedError, SharedStore, Taking};

/// A stream that is swept while it is read is read again this often.
const ATTEMPTS_MAX: usize = 8;

/// The stream of a partition as it was read.
#[derive(Debug)]
pub struct Checked {
    /// The state at its end.
    pub part: Part,
    /// The checkpoint is of this position.
    pub checkpoint: Option<Position>,
    /// Chunks of the checkpoint, and their bytes.
    pub chunks: (u64, u64),
    /// Batches after the checkpoint, and their bytes.
    pub batches: (u64, u64),
}

/// The facts that are the same for all partitions.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The number of partitions.
    pub partitions: Partitions,
    /// The store, for messages.
    pub place: String,
}

/// The service time of a partition as far as it was written down: by the owner record, or by a beat of its owner.
pub fn service_time(map: &Map, partition: u32) -> Time {
    let Some(owner) = map.owners.get(partition as usize) else { return Time(0) };
    let beat = owner.value.node.and_then(|node| map.node(node)?.value.mark_of(partition, owner.value.epoch));
    owner.value.at.max(beat.unwrap_or_default())
}

/// Becomes the owner of every partition, so that no batch of an earlier owner lands any more. Every node has to be
/// buried.
pub async fn take_all(store: &dyn SharedStore, map: &Map, node: NodeId) -> Result<Vec<Reign>, SharedError> {
    let mut reigns = Vec::new();
    for (partition, seen) in (0..).zip(&map.owners) {
        let taking = Taking {
            partition,
            seen: seen.clone(),
            dead: seen.value.node.and_then(|owner| map.node(owner)).cloned(),
            node,
            epoch: seen.value.epoch.next(),
            at: service_time(map, partition),
        };
        reigns.push(store.take(taking).await?);
    }
    Ok(reigns)
}

/// Reads every partition to its end.
pub async fn read_all(store: &dyn SharedStore, map: &Map, streams: &Streams) -> Result<Vec<Checked>, SharedError> {
    let mut all = Vec::new();
    for partition in streams.partitions.all() {
        all.push(read_partition(store, map, streams, partition).await?);
    }
    Ok(all)
}

/// Reads one partition to its end. An owner may append and sweep meanwhile.
pub async fn read_partition(
    store: &dyn SharedStore,
    map: &Map,
    streams: &Streams,
    partition: u32,
) -> Result<Checked, SharedError> {
    for _ in 1..ATTEMPTS_MAX {
        match read_once(store, map, streams, partition).await {
            Err(SharedError::Gone) => {}
            outcome => return outcome,
        }
    }
    read_once(store, map, streams, partition).await
}

/// Where a stream has been read to, for what a follower does not compare.
struct Place<'a> {
    streams: &'a Streams,
    partition: u32,
    next_chunk: u32,
    epoch: Epoch,
}

impl Place<'_> {
    fn damaged(&self, what: impl Into<String>) -> SharedError {
        let place = format!("the stream of partition {} in {}", self.partition, self.streams.place);
        SharedError::Damaged { place, what: what.into() }
    }

    fn chunk(&mut self, number: u32, record: &[u8]) -> Result<(), SharedError> {
        let header = ChunkReader::open(record).map_err(|error| self.damaged(error.to_string()))?.header();
        if header.partition != self.partition {
            return Err(self.damaged(format!("a chunk is of partition {}", header.partition)));
        }
        if (header.number, number) != (self.next_chunk, self.next_chunk) {
            let (found, wanted) = (header.number, self.next_chunk);
            return Err(self.damaged(format!("chunk {found} is in the place of chunk {wanted}")));
        }
        self.next_chunk += 1;
        Ok(())
    }

    fn batch(&mut self, record: &[u8]) -> Result<(), SharedError> {
        let header = BatchReader::open(record).map_err(|error| self.damaged(error.to_string()))?.header();
        let first = header.first;
        if header.partition != self.partition {
            return Err(self.damaged(format!("the batch at {first} is of partition {}", header.partition)));
        }
        if header.epoch < self.epoch {
            let (found, before) = (header.epoch, self.epoch);
            return Err(self.damaged(format!("the batch at {first} is of epoch {found}, after one of epoch {before}")));
        }
        self.epoch = header.epoch;
        Ok(())
    }
}

async fn read_once(
    store: &dyn SharedStore,
    map: &Map,
    streams: &Streams,
    partition: u32,
) -> Result<Checked, SharedError> {
    let mut place = Place { streams, partition, next_chunk: 0, epoch: Epoch(0) };
    let mut follower = Follower::new(Limits::default());
    let mut epoch = Epoch(0);
    let (mut checkpoint, mut chunks, mut batches) = (None, (0, 0), (0, 0));
    loop {
        let page = store.read(partition, follower.cursor()).await?;
        epoch = epoch.max(page.owner.value.epoch);
        for piece in &page.pieces {
            match piece {
                Piece::Chunk { of, number, record, .. } => {
                    place.chunk(*number, record)?;
                    checkpoint = Some(of.upto);
                    chunks = (chunks.0 + 1, chunks.1 + record.len() as u64);
                }
                Piece::Batch { record, .. } => {
                    place.batch(record)?;
                    batches = (batches.0 + 1, batches.1 + record.len() as u64);
                }
            }
        }
        if follower.take_page(&page).map_err(|broken| place.damaged(broken.to_string()))? {
            break;
        }
    }
    if epoch < place.epoch {
        let batch = place.epoch;
        return Err(place.damaged(format!("it says it is in epoch {epoch}, but has a batch of epoch {batch}")));
    }
    let (head, at) = (follower.head(), follower.at().max(service_time(map, partition)));
    let Some((mut engine, _)) = follower.into_parts() else {
        return Err(place.damaged("its newest batch is missing"));
    };
    let mut strangers = 0_usize;
    walk(&mut engine, |fact| {
        let resource = match &fact {
            Fact::Counters(_) => return,
            Fact::Resource(fact) => &fact.resource,
            Fact::Claim(fact) => &fact.resource,
        };
        strangers += usize::from(streams.partitions.of(resource) != partition);
    });
    if strangers > 0 {
        return Err(place.damaged(format!("{strangers} of its facts belong to other partitions")));
    }
    Ok(Checked { part: Part { engine, at, epoch, head }, checkpoint, chunks, batches })
}
