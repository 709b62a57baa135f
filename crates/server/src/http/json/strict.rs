//! The walk over a body: finds the members of the outermost object, and checks all of what is inside them. `serde_json`
//! reads the syntax; this file adds the rules of the contract that it does not check.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{BadBody, shown};
use crate::limits::DEPTH_MAX;

/// Up to this many keys, comparing each with each is quicker than sorting.
const FEW_KEYS: usize = 8;

/// A double holds every number of fewer digits than this.
const FINITE_DIGITS: usize = 300;

/// The members of the one object that a body is, each value as it was sent.
pub(super) fn members(body: &[u8]) -> Result<Vec<(Cow<'_, str>, &str)>, BadBody> {
    let text = std::str::from_utf8(body).map_err(|_| BadBody::new("the body is not UTF-8"))?;
    match text.trim_ascii_start().bytes().next() {
        Some(b'{') => {}
        None => return Err(BadBody::new("the body is empty, it must be a JSON object")),
        Some(_) => {
            let fault = serde_json::from_str::<IgnoredAny>(text).err();
            return Err(fault.map_or_else(|| BadBody::new("the body must be a JSON object"), |e| bad(&e, Place::Told)));
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Members).and_then(|members| reader.end().map(|()| members));
    members.map_err(|error| bad(&error, Place::Told))
}

/// Marks the errors of this file on their way through serde. No message of `serde_json` begins like this.
const OURS: &str = "\u{1}";

fn ours<E: serde::de::Error>(sentence: impl fmt::Display) -> E {
    E::custom(format_args!("{OURS}{sentence}"))
}

fn duplicate<E: serde::de::Error>(key: &str) -> E {
    ours(format_args!("key {} is given twice", shown(key)))
}

/// Says whether line and column of a syntax error mean anything to the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Told,
    Omitted,
}

/// An error of serde's in a sentence for the caller.
fn bad(error: &serde_json::Error, place: Place) -> BadBody {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let sentence = text.strip_suffix(&position).unwrap_or(&text);
    if let Some(ours) = sentence.strip_prefix(OURS) {
        return BadBody::new(ours.to_owned());
    }
    let position = if place == Place::Told { position } else { String::new() };
    if error.is_eof() {
        BadBody::new(format!("the body is not complete JSON: {sentence}{position}"))
    } else if sentence == "number out of range" {
        BadBody::new(format!("the body has a number that is not finite{position}"))
    } else {
        BadBody::new(format!("the body is not valid JSON: {sentence}{position}"))
    }
}

/// Collects the members of the outermost object.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Self::Value = Vec::with_capacity(4);
        while let Some(name) = map.next_key_seed(Key)? {
            let raw: &'de RawValue = map.next_value()?;
            check_value(raw.get())?;
            members.push((name, raw.get()));
        }
        check_keys(members.iter().map(|(name, _)| &**name), members.len())?;
        Ok(members)
    }
}

/// Checks the parts that reading a raw value leaves unchecked: the inside of objects and arrays, the size of numbers,
/// and halves of surrogate pairs.
fn check_value<E: serde::de::Error>(raw: &str) -> Result<(), E> {
    let suspicious = match raw.as_bytes() {
        [b'{' | b'[', ..] => true,
        [b'-' | b'0'..=b'9', ..] => raw.len() > FINITE_DIGITS || raw.bytes().any(|byte| matches!(byte, b'e' | b'E')),
        [b'"', ..] => raw.contains("\\u"),
        _ => false,
    };
    if !suspicious {
        return Ok(());
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    Strict { depth: 1 }.deserialize(&mut reader).map_err(|error| {
        let BadBody(sentence, _) = bad(&error, Place::Omitted);
        ours(sentence)
    })
}

/// Every key different, in any order.
fn check_keys<'k, E: serde::de::Error>(keys: impl Iterator<Item = &'k str> + Clone, count: usize) -> Result<(), E> {
    if count <= FEW_KEYS {
        for (index, key) in keys.clone().enumerate() {
            if keys.clone().take(index).any(|earlier| earlier == key) {
                return Err(duplicate(key));
            }
        }
        return Ok(());
    }
    let mut sorted: Vec<&str> = keys.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(duplicate(pair[0])),
        None => Ok(()),
    }
}

/// Walks over a value and keeps nothing.
#[derive(Clone, Copy)]
struct Strict {
    /// How many objects and arrays this value is in.
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(ours(format_args!("the body is nested too deeply, at most {DEPTH_MAX} levels are allowed")));
        }
        Ok(Strict { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        // serde_json refuses what is out of range itself; this is the pair of that check.
        if value.is_finite() { Ok(()) } else { Err(ours("a number is not finite")) }
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inside = self.deeper()?;
        while seq.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inside = self.deeper()?;
        let mut keys: Vec<Cow<'de, str>> = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            map.next_value_seed(inside)?;
            keys.push(key);
        }
        check_keys(keys.iter().map(|key| &**key), keys.len())
    }
}

/// A key, borrowed where it has no escapes. (serde's own `Cow` always owns.)
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
