//! Answers as JSON: a struct that derives `Serialize` is written member by member, in the order of its fields. Leaner
//! than `serde_json` for what every request needs: the names of fields are copied without a look at their bytes, and
//! values that have their text already (`value.rs`) are copied as they are.

use std::fmt;

use serde::Serialize;
use serde::ser::{Impossible, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

/// The answer as bytes. A few more fit in, such as the newline at its end.
pub fn to_bytes(answer: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    append(&mut bytes, answer);
    bytes
}

/// The same, after what is there already.
pub fn append(bytes: &mut Vec<u8>, answer: &impl Serialize) {
    answer.serialize(Writer { bytes, is_name: false }).expect("answers have only the values that `Writer` knows");
}

/// Writes one value.
struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    /// It is the name of a member: one of our own, so there is nothing to escape.
    is_name: bool,
}

/// The inside of an object or an array.
struct Inside<'a> {
    bytes: &'a mut Vec<u8>,
    end: u8,
}

impl<'a> Writer<'a> {
    fn open(self, start: u8, end: u8) -> Inside<'a> {
        self.bytes.push(start);
        Inside { bytes: self.bytes, end }
    }
}

impl Inside<'_> {
    /// A comma, unless this is the first.
    #[inline]
    fn next(&mut self) {
        if !matches!(self.bytes.last(), Some(b'{' | b'[')) {
            self.bytes.push(b',');
        }
    }

    #[inline]
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> fmt::Result {
        self.next();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        value.serialize(Writer { bytes: self.bytes, is_name: false })
    }

    fn close(self) {
        self.bytes.push(self.end);
    }
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = Inside<'a>;
    type SerializeMap = Inside<'a>;
    type SerializeStruct = Inside<'a>;
    type SerializeTuple = Impossible<(), fmt::Error>;
    type SerializeTupleStruct = Impossible<(), fmt::Error>;
    type SerializeTupleVariant = Impossible<(), fmt::Error>;
    type SerializeStructVariant = Impossible<(), fmt::Error>;

    fn serialize_bool(self, value: bool) -> fmt::Result {
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> fmt::Result {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> fmt::Result {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> fmt::Result {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> fmt::Result {
        self.serialize_u64(value.into())
    }

    fn serialize_str(self, value: &str) -> fmt::Result {
        if self.is_name {
            self.bytes.push(b'"');
            self.bytes.extend_from_slice(value.as_bytes());
            self.bytes.push(b'"');
        } else {
            serde_json::to_writer(self.bytes, value).expect("a string can be written to memory");
        }
        Ok(())
    }

    /// JSON as it is: the text of a value of `value.rs`.
    fn serialize_bytes(self, json: &[u8]) -> fmt::Result {
        self.bytes.extend_from_slice(json);
        Ok(())
    }

    fn serialize_none(self) -> fmt::Result {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> fmt::Result {
        value.serialize(self)
    }

    fn serialize_unit(self) -> fmt::Result {
        self.serialize_bytes(b"null")
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> fmt::Result {
        value.serialize(self)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Inside<'a>, fmt::Error> {
        Ok(self.open(b'[', b']'))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Inside<'a>, fmt::Error> {
        Ok(self.open(b'{', b'}'))
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Inside<'a>, fmt::Error> {
        Ok(self.open(b'{', b'}'))
    }

    // No answer has any of these.

    fn serialize_i8(self, _: i8) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_i16(self, _: i16) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_i32(self, _: i32) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_i64(self, _: i64) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_f32(self, _: f32) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_f64(self, _: f64) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_char(self, _: char) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_unit_struct(self, _: &'static str) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> fmt::Result {
        self.serialize_str(name)
    }

    fn serialize_newtype_variant<T: ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> fmt::Result {
        Err(fmt::Error)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, fmt::Error> {
        Err(fmt::Error)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, fmt::Error> {
        Err(fmt::Error)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, fmt::Error> {
        Err(fmt::Error)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, fmt::Error> {
        Err(fmt::Error)
    }
}

impl SerializeStruct for Inside<'_> {
    type Ok = ();
    type Error = fmt::Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> fmt::Result {
        self.member(name, value)
    }

    fn end(self) -> fmt::Result {
        self.close();
        Ok(())
    }
}

/// A struct with flattened fields is a map to `serde`.
impl SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = fmt::Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> fmt::Result {
        self.next();
        name.serialize(Writer { bytes: self.bytes, is_name: true })
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> fmt::Result {
        self.bytes.push(b':');
        value.serialize(Writer { bytes: self.bytes, is_name: false })
    }

    fn end(self) -> fmt::Result {
        self.close();
        Ok(())
    }
}

impl SerializeSeq for Inside<'_> {
    type Ok = ();
    type Error = fmt::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> fmt::Result {
        self.next();
        value.serialize(Writer { bytes: self.bytes, is_name: false })
    }

    fn end(self) -> fmt::Result {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Every kind of value that the writer knows, in any nesting.
    #[derive(Clone, Debug, Serialize)]
    #[serde(untagged)]
    enum Tree {
        Unit(()),
        Bool(bool),
        Small(u8),
        Short(u16),
        Medium(u32),
        Long(u64),
        Text(String),
        Word(Word),
        Maybe(Option<Box<Tree>>),
        Newtype(Wrapped),
        List(Vec<Tree>),
        Map(BTreeMap<&'static str, Tree>),
        Struct(Box<Shape>),
    }

    #[derive(Clone, Copy, Debug, Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        One,
        TwoWords,
    }

    #[derive(Clone, Debug, Serialize)]
    struct Wrapped(Box<Tree>);

    /// As answers are.
    #[derive(Clone, Debug, Serialize)]
    struct Shape {
        first: Tree,
        #[serde(skip_serializing_if = "Option::is_none")]
        skipped: Option<String>,
        null: Option<u32>,
        #[serde(rename = "ID")]
        renamed: Tree,
        #[serde(flatten)]
        flat: Flat,
        #[serde(flatten)]
        gone: Option<Flat>,
        items: Vec<Tree>,
    }

    #[derive(Clone, Debug, Serialize)]
    struct Flat {
        inner: Tree,
        count: u64,
    }

    /// Quotes, escapes, control characters, and characters of every length in UTF-8.
    fn text() -> impl Strategy<Value = String> {
        let letter = prop_oneof![
            any::<char>(),
            proptest::char::range('\0', '\u{20}'),
            proptest::sample::select(vec!['"', '\\', '/', '\u{7f}', '\u{2028}', 'é', '€', '😀']),
        ];
        proptest::collection::vec(letter, 0..12).prop_map(|letters| letters.into_iter().collect())
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            Just(Tree::Unit(())),
            Just(Tree::Maybe(None)),
            any::<bool>().prop_map(Tree::Bool),
            any::<u8>().prop_map(Tree::Small),
            any::<u16>().prop_map(Tree::Short),
            any::<u32>().prop_map(Tree::Medium),
            any::<u64>().prop_map(Tree::Long),
            text().prop_map(Tree::Text),
            proptest::sample::select(vec![Word::One, Word::TwoWords]).prop_map(Tree::Word),
        ];
        leaf.prop_recursive(4, 48, 4, |inner| {
            let names = proptest::sample::select(vec!["", "a", "b_c", "x-events", "über"]);
            let items = proptest::collection::vec(inner.clone(), 0..4);
            let skipped = proptest::option::of(text());
            let flat = (inner.clone(), any::<u64>()).prop_map(|(inner, count)| Flat { inner, count });
            let gone = proptest::option::of(flat.clone());
            let shape = (inner.clone(), skipped, any::<Option<u32>>(), inner.clone(), flat, gone, items.clone());
            prop_oneof![
                inner.clone().prop_map(|inner| Tree::Maybe(Some(Box::new(inner)))),
                inner.clone().prop_map(|inner| Tree::Newtype(Wrapped(Box::new(inner)))),
                items.prop_map(Tree::List),
                proptest::collection::btree_map(names, inner, 0..4).prop_map(Tree::Map),
                shape.prop_map(|(first, skipped, null, renamed, flat, gone, items)| {
                    Tree::Struct(Box::new(Shape { first, skipped, null, renamed, flat, gone, items }))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_written_as_serde_json_writes_it(tree in tree()) {
            let expected = serde_json::to_string(&tree).unwrap();
            prop_assert_eq!(String::from_utf8(to_bytes(&tree)).unwrap(), expected);
        }
    }
}
