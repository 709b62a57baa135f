//! The walk over a body: finds the members of the outermost object, and has `leasehold_json` check all of what is
//! inside them.

use std::borrow::Cow;
use std::fmt;

use leasehold_json::{Fault, Key, Strict, check_keys};
use serde::de::{DeserializeSeed as _, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{BadBody, cut, shown};
use crate::limits::DEPTH_MAX;

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
            return Err(fault.map_or_else(|| BadBody::new("the body must be a JSON object"), |e| bad(&e, Spot::Told)));
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Members).and_then(|members| reader.end().map(|()| members));
    members.map_err(|error| bad(&error, Spot::Told))
}

/// Marks the errors of this file on their way through serde, and stands before the field at fault. No message of
/// `serde_json` begins like this, and no name of a caller's that is shown has it.
const OURS: &str = "\u{1}";

/// A fault of a body, marked, in words for its caller.
fn say(fault: Fault<'_>) -> String {
    match fault {
        Fault::Twice(key) => format!("{OURS}key {} is given twice{OURS}{}", shown(key), cut(key)),
        Fault::TooDeep => format!("{OURS}the body is nested too deeply, at most {DEPTH_MAX} levels are allowed"),
        Fault::NotFinite => format!("{OURS}a number is not finite"),
    }
}

/// Says whether line and column of a syntax error mean anything to the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    Told,
    Omitted,
}

/// An error of serde's in a sentence for the caller.
fn bad(error: &serde_json::Error, place: Spot) -> BadBody {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let sentence = text.strip_suffix(&position).unwrap_or(&text);
    if let Some(ours) = sentence.strip_prefix(OURS) {
        return match ours.split_once(OURS) {
            Some((sentence, field)) => BadBody::about(field.to_owned(), sentence.to_owned()),
            None => BadBody::new(ours.to_owned()),
        };
    }
    let position = if place == Spot::Told { position } else { String::new() };
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
            check_value(&name, raw.get())?;
            members.push((name, raw.get()));
        }
        check_keys(members.iter().map(|(name, _)| &**name), members.len(), say)?;
        Ok(members)
    }
}

/// Checks the parts that reading a raw value leaves unchecked: the inside of objects and arrays, the size of numbers,
/// and halves of surrogate pairs. The field at fault is the member, however deep the fault is.
fn check_value<E: serde::de::Error>(name: &str, raw: &str) -> Result<(), E> {
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
    // The body itself is the first level.
    Strict { levels_left: DEPTH_MAX - 1, say }.deserialize(&mut reader).map_err(|error| {
        let BadBody(sentence, ..) = bad(&error, Spot::Omitted);
        E::custom(format_args!("{OURS}{sentence}{OURS}{}", cut(name)))
    })
}
