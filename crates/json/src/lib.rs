//! Strict JSON, written once for the bodies of callers and the documents of a sign-on provider: an object that names a
//! member twice is refused at any depth, as the next reader might use the other one. `serde_json` reads the syntax;
//! this crate adds the rules that it does not check. The words for a fault are the caller's.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Up to this many keys, comparing each with each is quicker than sorting.
const FEW_KEYS: usize = 8;

/// A value that is JSON, and is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// An object names this member twice.
    Twice(&'a str),
    TooDeep,
    NotFinite,
}

/// Puts a fault into words.
pub type Say = fn(Fault<'_>) -> String;

/// The whole of `bytes` as one value.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let say: Say = |fault| match fault {
        Fault::Twice(name) => format!("the member {name:?} is there twice"),
        Fault::TooDeep => "it is nested too deeply".to_owned(),
        Fault::NotFinite => "a number is not finite".to_owned(),
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // serde_json itself ends at 128 levels.
    Strict { levels_left: usize::MAX, say }.deserialize(&mut reader)?;
    reader.end()?;
    serde_json::from_slice(bytes)
}

/// Checks that every key is different, in any order.
pub fn check_keys<'k, E: Error>(keys: impl Iterator<Item = &'k str> + Clone, count: usize, say: Say) -> Result<(), E> {
    if count <= FEW_KEYS {
        for (index, key) in keys.clone().enumerate() {
            if keys.clone().take(index).any(|earlier| earlier == key) {
                return Err(E::custom(say(Fault::Twice(key))));
            }
        }
        return Ok(());
    }
    let mut sorted: Vec<&str> = keys.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(E::custom(say(Fault::Twice(pair[0])))),
        None => Ok(()),
    }
}

/// Walks over a value and keeps nothing.
#[derive(Clone, Copy, Debug)]
pub struct Strict {
    /// How many objects and arrays may be inside one another here.
    pub levels_left: usize,
    pub say: Say,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.levels_left.checked_sub(1) {
            Some(levels_left) => Ok(Strict { levels_left, ..self }),
            None => Err(E::custom((self.say)(Fault::TooDeep))),
        }
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

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        // serde_json refuses what is out of range itself; this is the pair of that check.
        if value.is_finite() { Ok(()) } else { Err(E::custom((self.say)(Fault::NotFinite))) }
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
        check_keys(keys.iter().map(|key| &**key), keys.len(), self.say)
    }
}

/// A key, borrowed where it has no escapes. (serde's own `Cow` always owns.)
#[derive(Clone, Copy, Debug)]
pub struct Key;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_refused_at_any_depth() {
        for good in [r#"{"a":1,"b":[{"c":2},{"c":3}]}"#, "[]", "1.5", "null", r#""x""#, "-7", "true"] {
            assert_eq!(parse(good.as_bytes()).unwrap(), serde_json::from_str::<Value>(good).unwrap());
        }
        for bad in
            [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"a":2}]}"#, r#"{"a":1,"\u0061":2}"#, "{} {}", "", "{\"a\":1e999}"]
        {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
