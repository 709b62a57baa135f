//! The bytes of messages between nodes: `MessagePack` with the names of fields, so that a node that knows a field more
//! and one that does not understand each other. A frame holds several messages, one after the other; framing itself is
//! the link's. Messages of a peer are decoded with care, but peers are nodes: they have proved that they know
//! the cluster's secret.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::message::Message;

/// The version of messages that this build speaks.
pub const VERSION: u16 = 1;
/// The largest frame. A page of a list is far smaller; a longer frame is a mistake.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a message of a peer cannot be read: {0}")]
pub struct Garbled(String);

/// Appends a value to a frame.
pub fn encode(value: &impl Serialize, frame: &mut Vec<u8>) {
    let mut serializer = rmp_serde::Serializer::new(frame).with_struct_map();
    value.serialize(&mut serializer).expect("a vector takes all bytes, and messages have nothing that has none");
}

/// Reads the one value of a frame.
pub fn decode<'f, T: Deserialize<'f>>(frame: &'f [u8]) -> Result<T, Garbled> {
    rmp_serde::from_slice(frame).map_err(|error| Garbled(error.to_string()))
}

/// Reads the messages of a frame.
pub fn messages(frame: &[u8]) -> impl Iterator<Item = Result<Message, Garbled>> {
    let mut rest = frame;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
        let message = Message::deserialize(&mut deserializer).map_err(|error| Garbled(error.to_string()));
        if message.is_err() {
            // Where the next one would begin is unknown.
            rest = &[];
        }
        Some(message)
    })
}
