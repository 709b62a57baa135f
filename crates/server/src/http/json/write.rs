//! Answers as JSON: a struct that derives `Serialize` is written member by member, in the order of its fields. Leaner
//! than `serde_json` for what every request needs: the names of fields are copied without a look at their bytes, and
//! values that have their text already (`value.rs`) are copied as they are.

use std::fmt;

use serde::Serialize;
use serde::ser::{Impossible, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

/// The answer as bytes. A few more fit in, such as the newline at its end.
pub(crate) fn to_bytes(answer: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    append(&mut bytes, answer);
    bytes
}

/// The same, after what is there already.
pub(crate) fn append(bytes: &mut Vec<u8>, answer: &impl Serialize) {
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
