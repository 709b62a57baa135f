//! The bytes of the records: as they were written for ever, every damage noticed, made-up ones refused with a place.

use leasehold_cluster::record::{
    VERSION, decode_linked, decode_meta, decode_node, decode_owner, encode_linked, encode_meta, encode_node,
    encode_owner,
};
use leasehold_cluster::{Link, Mark, Meta, NodeId, NodeRecord, Owner, Partitions, Stage, Sum, Transfer};
use leasehold_engine::Time;
use leasehold_journal::record::RecordError;
use leasehold_journal::{Epoch, Position};

fn node() -> NodeRecord {
    NodeRecord {
        node: NodeId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        address: "eu-1.example:8081".to_owned(),
        speaks: (1, 3),
        beat: 4711,
        marks: vec![
            Mark { partition: 0, epoch: Epoch(1), at: Time(5) },
            Mark { partition: 4095, epoch: Epoch(u64::MAX), at: Time(u64::MAX) },
        ],
        is_draining: true,
        unreachable: vec![NodeId(7), NodeId(u128::MAX)],
        policy: 0xdead_beef,
        epoch_floor: Epoch(0),
        is_buried: false,
    }
}

fn owner() -> Owner {
    Owner { epoch: Epoch(9), node: Some(NodeId(0xabcd)), at: Time(1_000_000) }
}

fn meta() -> Meta {
    Meta { partitions: Partitions::new(16).unwrap(), format: 1, secret: [0x5a; 32], stage: Stage::Serving }
}

fn link() -> Link {
    Link { first: Position(17), sum: Sum(0x0102_0304) }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

#[test]
fn records_are_read_as_they_were_written() {
    let floor = NodeRecord { epoch_floor: Epoch(u64::MAX), ..node() };
    for record in [node(), floor, NodeRecord::new(NodeId(1), ""), NodeRecord { is_buried: true, ..node() }] {
        assert_eq!(decode_node(&encode_node(&record)), Ok(record));
    }
    for record in [owner(), Owner::default()] {
        assert_eq!(decode_owner(&encode_owner(&record)), Ok(record));
    }
    let way = || Transfer { id: u128::MAX, other: "/var/lib/leasehold".to_owned() };
    for stage in [Stage::Serving, Stage::MovingIn(way()), Stage::MovedOut(way())] {
        let meta = Meta { stage, ..meta() };
        assert_eq!(decode_meta(&encode_meta(&meta)), Ok(meta));
    }
    assert_eq!(decode_linked(&encode_linked(link(), b"batch")), Ok((link(), &b"batch"[..])));
}

/// The bytes that are in the stores of users: a line here never changes.
#[test]
fn the_bytes_of_version_1_stay() {
    assert_eq!(VERSION, 1, "keep these and add those of the new version");
    let expected = [
        (
            encode_node(&node()),
            "4c484e0a0100100f0e0d0c0b0a09080706050403020101671200000000000001000300efbeadde000000001165752d31 \
             2e6578616d706c653a3830383102000105ff1fffffffffffffffffff01ffffffffffffffffff01020700000000000000 \
             0000000000000000ffffffffffffffffffffffffffffffffa7f49737",
        ),
        (
            encode_owner(&owner()),
            "4c484f0a0100090000000000000001cdab000000000000000000000000000040420f0000000000d8aa8095",
        ),
        (
            encode_meta(&meta()),
            "4c484d0a01001000000001005a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5acc218126",
        ),
        (encode_linked(link(), b"batch"), "0111000000000000000403020162617463 68"),
    ];
    for (bytes, expected) in expected {
        assert_eq!(hex(&bytes), expected.replace([' ', '\n'], ""));
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let spoil = |bytes: &[u8], read: &dyn Fn(&[u8]) -> bool| {
        for at in 0..bytes.len() {
            assert!(!read(&bytes[..at]), "cut at {at}");
            for bit in 0..8 {
                let mut spoilt = bytes.to_vec();
                spoilt[at] ^= 1 << bit;
                assert!(!read(&spoilt), "bit {bit} of byte {at}");
            }
        }
    };
    spoil(&encode_node(&node()), &|bytes| decode_node(bytes).is_ok());
    spoil(&encode_owner(&owner()), &|bytes| decode_owner(bytes).is_ok());
    spoil(&encode_meta(&meta()), &|bytes| decode_meta(bytes).is_ok());
}

#[test]
fn made_up_records() {
    leasehold_fuzz::run("cluster", &["LHN\n", "LHO\n", "LHM\n"], any);
}

/// A made-up record with a checksum that fits: an error with a place in it, or a record that can be written and read
/// again.
fn any(bytes: &[u8]) -> u64 {
    let _ = (decode_node(bytes), decode_owner(bytes), decode_meta(bytes), decode_linked(bytes));
    let mut record = bytes.to_vec();
    record.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let told = |error: RecordError| {
        assert!(error.offset <= record.len(), "{error} of {} bytes", record.len());
        leasehold_fuzz::outcome(&(error.field, std::mem::discriminant(&error.problem)))
    };
    match bytes.get(2) {
        Some(b'N') => match decode_node(&record) {
            Ok(node) => {
                assert_eq!(decode_node(&encode_node(&node)), Ok(node.clone()));
                leasehold_fuzz::outcome(&(node.marks.len(), node.unreachable.len(), node.is_buried))
            }
            Err(error) => told(error),
        },
        Some(b'O') => match decode_owner(&record) {
            Ok(owner) => {
                assert_eq!(decode_owner(&encode_owner(&owner)), Ok(owner));
                u64::from(owner.node.is_some())
            }
            Err(error) => told(error),
        },
        _ => match decode_meta(&record) {
            Ok(meta) => {
                assert_eq!(decode_meta(&encode_meta(&meta)), Ok(meta));
                2
            }
            Err(error) => told(error),
        },
    }
}
