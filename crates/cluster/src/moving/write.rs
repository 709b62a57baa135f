//! Writes an image: into a shared store, its facts divided by hash, or into one stream elsewhere.

use leasehold_engine::{Change, Fact, Moment, Wall};
use leasehold_journal::{Batch, BatchWriter, ChunkWriter, Epoch};

use super::image::Image;
use crate::ids::NodeId;
use crate::map::{Meta, Reign};
use crate::store::{CheckpointId, SharedError, SharedStore, Taking};

/// A stream that begins with a checkpoint.
#[derive(Debug)]
pub struct NewStream {
    /// The epoch of its first batch.
    pub epoch: Epoch,
    /// The last change of the checkpoint.
    pub checkpoint: CheckpointId,
    /// The chunks of the checkpoint.
    pub chunks: u32,
    /// A mark: the first change after the checkpoint.
    pub batch: Batch,
}

/// One partition that is written.
struct Filling {
    reign: Reign,
    writer: ChunkWriter,
    chunks: u32,
}

/// Writes an image into a store whose facts are those of `meta`, which keeps every node out, and lets all partitions
/// go. `node` is the id of a node that never joins.
pub async fn write_all(
    store: &dyn SharedStore,
    image: &mut Image,
    meta: &Meta,
    node: NodeId,
    wall: Wall,
) -> Result<(), SharedError> {
    let (at, head, epoch) = (image.at(), image.head(), image.epoch().next());
    let now = Moment { at, wall };
    let map = store.map().await?;
    let mut all = Vec::new();
    for (partition, seen) in (0..).zip(&map.owners) {
        let taking = Taking { partition, seen: seen.clone(), dead: None, node, epoch, at };
        let reign = store.take(taking).await?;
        let mut writer = ChunkWriter::new(partition, head, now);
        writer.push(&Fact::Counters(image.counters()));
        all.push(Filling { reign, writer, chunks: 0 });
    }
    let checkpoint = CheckpointId { epoch, upto: head };
    image.begin();
    while let Some(facts) = image.next_slice() {
        for fact in facts {
            let resource = match &fact {
                Fact::Counters(_) => continue,
                Fact::Resource(fact) => &fact.resource,
                Fact::Claim(fact) => &fact.resource,
            };
            let filling = &mut all[meta.partitions.of(resource) as usize];
            filling.writer.push(&fact);
            if filling.writer.is_full() {
                put(store, filling, checkpoint).await?;
            }
        }
    }
    for mut filling in all {
        if !filling.writer.is_empty() {
            put(store, &mut filling, checkpoint).await?;
        }
        let Filling { reign, chunks, .. } = filling;
        store.begin_stream(reign, checkpoint, chunks, mark(reign.partition, epoch, head, now)).await?;
        store.let_go(reign, at).await?;
    }
    Ok(())
}

async fn put(store: &dyn SharedStore, filling: &mut Filling, of: CheckpointId) -> Result<(), SharedError> {
    let chunk = filling.writer.seal();
    store.put_chunk(filling.reign, of, filling.chunks, chunk).await?;
    filling.chunks += 1;
    Ok(())
}

/// Writes an image as the stream of one partition. Chunks go to `put`, in order.
pub fn write_stream<E>(
    image: &mut Image,
    partition: u32,
    wall: Wall,
    mut put: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<NewStream, E> {
    let (head, epoch) = (image.head(), image.epoch().next());
    let now = Moment { at: image.at(), wall };
    let mut writer = ChunkWriter::new(partition, head, now);
    let mut chunks = 0;
    writer.push(&Fact::Counters(image.counters()));
    image.begin();
    while let Some(facts) = image.next_slice() {
        for fact in facts {
            writer.push(&fact);
            if writer.is_full() {
                chunks += 1;
                put(&writer.seal())?;
            }
        }
    }
    if !writer.is_empty() {
        chunks += 1;
        put(&writer.seal())?;
    }
    let checkpoint = CheckpointId { epoch, upto: head };
    Ok(NewStream { epoch, checkpoint, chunks, batch: mark(partition, epoch, head, now) })
}

fn mark(partition: u32, epoch: Epoch, head: leasehold_journal::Position, now: Moment) -> Batch {
    let mut writer = BatchWriter::new(partition, epoch, head.next());
    writer.push(now, &Change::Marked);
    writer.seal()
}
