//! The bytes of the records that a shared store keeps beside batches and chunks.
//!
//! ```text
//! node    "LHN\n" version:u16 node:u128 flags:u8 beat:u64 low:u16 high:u16 policy:u64 address marks unreachable [floor]  crc32:u32
//! owner   "LHO\n" version:u16 epoch:u64 owned:u8 [node:u128] at:u64                                             crc32:u32
//! meta    "LHM\n" version:u16 partitions:u32 format:u16 secret:32 bytes [stage:u8 move:u128 other]                 crc32:u32
//! linked  version:u8 first:u64 sum:u32   the batch's record as the journal has it
//! ```
//!
//! Integers of fixed width are little endian, varints are LEB128, texts and lists have their length in front. Equal
//! values have equal bytes, so that a store may compare bytes. A change to any of this raises [`VERSION`].
//!
//! The facts of a cluster that nodes may join are of version 1. Those of one that is being moved are of version 2,
//! which builds that know nothing of moves refuse, as they should.

use leasehold_engine::Time;
use leasehold_journal::record::bytes::{Reader, put_str, put_varint};
use leasehold_journal::record::{Flaw, RecordError};
use leasehold_journal::{Epoch, Position};

use crate::hash::Partitions;
use crate::ids::{Link, NodeId, Sum};
use crate::map::{Mark, Meta, NodeRecord, Owner, Stage, Transfer};

/// The version that this build writes, and the highest it reads.
pub const VERSION: u16 = 1;

/// The version of facts with a stage.
const META_STAGED: u16 = 2;
const MOVING_IN: u8 = 1;
const MOVED_OUT: u8 = 2;

const NODE: [u8; 4] = *b"LHN\n";
const OWNER: [u8; 4] = *b"LHO\n";
const META: [u8; 4] = *b"LHM\n";
const LINKED: u8 = 1;

const DRAINING: u8 = 0x01;
const BURIED: u8 = 0x02;
/// An epoch floor follows.
const FLOOR: u8 = 0x04;

/// The bytes of a node's record.
pub fn encode_node(record: &NodeRecord) -> Vec<u8> {
    let NodeRecord { node, address, speaks, beat, marks, is_draining, unreachable, policy, epoch_floor, is_buried } =
        record;
    let has_floor = *epoch_floor > Epoch(0);
    let mut out = begin(NODE);
    out.extend_from_slice(&node.0.to_le_bytes());
    let flags = [(*is_draining, DRAINING), (*is_buried, BURIED), (has_floor, FLOOR)];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
    out.extend_from_slice(&beat.to_le_bytes());
    out.extend_from_slice(&speaks.0.to_le_bytes());
    out.extend_from_slice(&speaks.1.to_le_bytes());
    out.extend_from_slice(&policy.to_le_bytes());
    put_str(&mut out, address);
    put_varint(&mut out, marks.len() as u64);
    for Mark { partition, epoch, at } in marks {
        put_varint(&mut out, u64::from(*partition));
        put_varint(&mut out, epoch.0);
        put_varint(&mut out, at.0);
    }
    put_varint(&mut out, unreachable.len() as u64);
    for node in unreachable {
        out.extend_from_slice(&node.0.to_le_bytes());
    }
    if has_floor {
        put_varint(&mut out, epoch_floor.0);
    }
    seal(out)
}

/// Reads a node's record.
pub fn decode_node(record: &[u8]) -> Result<NodeRecord, RecordError> {
    let mut reader = open(record, NODE)?;
    let node = NodeId(reader.u128("node")?);
    let flags = reader.u8("flags")?;
    if flags & !(DRAINING | BURIED | FLOOR) != 0 {
        return Err(reader.error("flags", Flaw::Unknown(flags)));
    }
    let beat = reader.u64("beat")?;
    let speaks = (reader.u16("lowest version")?, reader.u16("highest version")?);
    let policy = reader.u64("policy")?;
    let address = reader.str("address")?;
    if address.len() > NodeRecord::ADDRESS_MAX {
        return Err(reader.error("address", Flaw::Range));
    }
    let mut marks = Vec::with_capacity(reader.count("number of marks")?);
    for _ in 0..marks.capacity() {
        let partition = reader.varint("partition")?;
        let Ok(partition) = u32::try_from(partition) else { return Err(reader.error("partition", Flaw::Range)) };
        marks.push(Mark { partition, epoch: Epoch(reader.varint("epoch")?), at: Time(reader.varint("service time")?) });
    }
    let mut unreachable = Vec::new();
    for _ in 0..reader.count("number of nodes")? {
        unreachable.push(NodeId(reader.u128("unreachable node")?));
    }
    let epoch_floor = Epoch(if flags & FLOOR == 0 { 0 } else { reader.varint("epoch floor")? });
    reader.end("end of the node")?;
    let (is_draining, is_buried) = (flags & DRAINING != 0, flags & BURIED != 0);
    let address = address.to_owned();
    Ok(NodeRecord { node, address, speaks, beat, marks, is_draining, unreachable, policy, epoch_floor, is_buried })
}

/// The bytes of an owner record.
pub fn encode_owner(owner: &Owner) -> Vec<u8> {
    let mut out = begin(OWNER);
    out.extend_from_slice(&owner.epoch.0.to_le_bytes());
    out.push(u8::from(owner.node.is_some()));
    if let Some(node) = owner.node {
        out.extend_from_slice(&node.0.to_le_bytes());
    }
    out.extend_from_slice(&owner.at.0.to_le_bytes());
    seal(out)
}

/// Reads an owner record.
pub fn decode_owner(record: &[u8]) -> Result<Owner, RecordError> {
    let mut reader = open(record, OWNER)?;
    let epoch = Epoch(reader.u64("epoch")?);
    let node = match reader.u8("owned")? {
        0 => None,
        1 => Some(NodeId(reader.u128("node")?)),
        unknown => return Err(reader.error("owned", Flaw::Unknown(unknown))),
    };
    let at = Time(reader.u64("service time")?);
    reader.end("end of the owner")?;
    Ok(Owner { epoch, node, at })
}

/// The bytes of the facts about the whole cluster.
pub fn encode_meta(meta: &Meta) -> Vec<u8> {
    let Meta { partitions, format, secret, stage } = meta;
    let staged = match stage {
        Stage::Serving => None,
        Stage::MovingIn(way) => Some((MOVING_IN, way)),
        Stage::MovedOut(way) => Some((MOVED_OUT, way)),
    };
    let mut out = begin_version(META, if staged.is_some() { META_STAGED } else { VERSION });
    out.extend_from_slice(&partitions.number().to_le_bytes());
    out.extend_from_slice(&format.to_le_bytes());
    out.extend_from_slice(secret);
    if let Some((number, Transfer { id, other })) = staged {
        out.push(number);
        out.extend_from_slice(&id.to_le_bytes());
        put_str(&mut out, other);
    }
    seal(out)
}

/// Reads the facts about the whole cluster.
pub fn decode_meta(record: &[u8]) -> Result<Meta, RecordError> {
    let (version, mut reader) = open_upto(record, META, META_STAGED)?;
    let number = reader.u32("number of partitions")?;
    let Some(partitions) = Partitions::new(number) else {
        return Err(reader.error("number of partitions", Flaw::Range));
    };
    let (format, secret) = (reader.u16("format")?, reader.array("secret")?);
    let stage = if version < META_STAGED { Stage::Serving } else { stage(&mut reader)? };
    let meta = Meta { partitions, format, secret, stage };
    reader.end("end of the facts")?;
    Ok(meta)
}

fn stage(reader: &mut Reader<'_>) -> Result<Stage, RecordError> {
    let number = reader.u8("stage")?;
    let id = reader.u128("move")?;
    let other = reader.str("other side")?;
    if other.len() > Transfer::OTHER_MAX {
        return Err(reader.error("other side", Flaw::Range));
    }
    let way = Transfer { id, other: other.to_owned() };
    match number {
        MOVING_IN => Ok(Stage::MovingIn(way)),
        MOVED_OUT => Ok(Stage::MovedOut(way)),
        unknown => Err(reader.error("stage", Flaw::Unknown(unknown))),
    }
}

/// The bytes of a batch as a shared store keeps it: with the link to the batch before it.
pub fn encode_linked(before: Link, record: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + 8 + 4 + record.len());
    out.push(LINKED);
    out.extend_from_slice(&before.first.0.to_le_bytes());
    out.extend_from_slice(&before.sum.0.to_le_bytes());
    out.extend_from_slice(record);
    out
}

/// Takes the link off a batch. The record after it has a checksum of its own, which is compared when it is read.
pub fn decode_linked(stored: &[u8]) -> Result<(Link, &[u8]), RecordError> {
    let mut reader = Reader::new(stored);
    match reader.u8("version")? {
        LINKED => {}
        unknown => return Err(RecordError { offset: 0, field: "version", problem: Flaw::Unknown(unknown) }),
    }
    let link = Link { first: Position(reader.u64("batch before")?), sum: Sum(reader.u32("checksum before")?) };
    let rest = reader.left() as u64;
    Ok((link, reader.take("batch", rest)?))
}

fn begin(magic: [u8; 4]) -> Vec<u8> {
    begin_version(magic, VERSION)
}

fn begin_version(magic: [u8; 4], version: u16) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&version.to_le_bytes());
    out
}

fn seal(mut out: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Checks the frame, and compares the checksum before it believes any field.
fn open(record: &[u8], magic: [u8; 4]) -> Result<Reader<'_>, RecordError> {
    open_upto(record, magic, VERSION).map(|(_, reader)| reader)
}

/// The same for records of several versions. Returns the one that was found.
fn open_upto(record: &[u8], magic: [u8; 4], highest: u16) -> Result<(u16, Reader<'_>), RecordError> {
    let mut reader = Reader::new(record);
    if reader.array::<4>("magic")? != magic {
        return Err(RecordError { offset: 0, field: "magic", problem: Flaw::Magic });
    }
    let found = reader.u16("version")?;
    if !(1..=highest).contains(&found) {
        return Err(RecordError { offset: 4, field: "version", problem: Flaw::Range });
    }
    let Some((before, stored)) = record.split_last_chunk::<4>() else {
        return Err(reader.error("checksum", Flaw::Short { needed: 4, left: 0 }));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32fast::hash(before));
    if stored != computed {
        return Err(RecordError {
            offset: before.len(),
            field: "checksum",
            problem: Flaw::Checksum { stored, computed },
        });
    }
    let mut reader = Reader::new(before);
    reader.take("magic and version", 6)?;
    Ok((found, reader))
}
