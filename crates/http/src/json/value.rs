//! The values that answers are made of, each with its text and its schema. A field of a shape has one of these types,
//! or a number, a boolean or a string as Rust has it; `null` is an `Option`, a member that may be missing is a `May`.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

const S_US: u64 = 1_000_000;

/// `impl JsonSchema` for a value: it is described where it is used, not by name.
macro_rules! describe {
    ($($value:ty: $schema:tt),+ $(,)?) => {$(
        impl JsonSchema for $value {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($value).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

describe! {
    UuidText: {"type": "string", "format": "uuid"},
    Rfc3339: {"type": "string", "format": "date-time"},
    UnixSeconds: {"type": "integer", "minimum": 0},
    Seconds: {"type": "number", "minimum": 0},
    FloatSeconds: {"type": "number", "minimum": 0},
    FencingToken: {
        "type": "integer", "minimum": 1,
        "description": "The fencing token: strictly increasing for one resource, kept by renewals, below 2^53.",
    },
    Raw<'_>: {},
    Fixed<true>: {"const": true},
    Fixed<false>: {"const": false},
}

/// A member that may be missing. Its field has `#[serde(skip_serializing_if = "May::is_missing")]`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub struct May<T>(pub Option<T>);

impl<T> May<T> {
    pub fn is_missing(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: JsonSchema> JsonSchema for May<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A UUID.
#[derive(Clone, Copy, Debug)]
pub struct UuidText(pub u128);

impl Serialize for UuidText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut quoted = [b'"'; 38];
        uuid::Uuid::from_u128(self.0).hyphenated().encode_lower(&mut quoted[1..37]);
        serializer.serialize_bytes(&quoted)
    }
}

/// Microseconds since 1970, shown as `2024-01-15T10:30:00Z`, with as much of a fraction as there is.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub u64);

impl Rfc3339 {
    /// Cut to the millisecond, so that it never says more than is true.
    pub fn to_ms(unix_us: u64) -> Self {
        Rfc3339(unix_us / 1_000 * 1_000)
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(34);
        text.push('"');
        let timestamp = i64::try_from(self.0).ok().and_then(|unix_us| Timestamp::from_microsecond(unix_us).ok());
        let printed = DateTimePrinter::new().print_timestamp(&timestamp.unwrap_or(Timestamp::MAX), &mut text);
        printed.expect("memory takes it");
        text.push('"');
        serializer.serialize_bytes(text.as_bytes())
    }
}

/// Microseconds since 1970, shown as whole seconds: the fraction is cut off.
#[derive(Clone, Copy, Debug)]
pub struct UnixSeconds(pub u64);

impl Serialize for UnixSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0 / S_US)
    }
}

/// Microseconds, shown as seconds in as few digits as it takes: `30`, `2.5`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub u64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(S_US) {
            return serializer.serialize_u64(self.0 / S_US);
        }
        let mut text = [0; TEXT_MAX];
        serializer.serialize_bytes(decimal(self.0, &mut text))
    }
}

/// Microseconds, shown as seconds that read as a float everywhere: `30.0`.
#[derive(Clone, Copy, Debug)]
pub struct FloatSeconds(pub u64);

impl Serialize for FloatSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0; TEXT_MAX];
        serializer.serialize_bytes(decimal(self.0, &mut text))
    }
}

/// The longest text of a `u64` of microseconds: fourteen digits, the point and six more.
const TEXT_MAX: usize = 21;

/// Seconds with a point and as many digits after it as it takes, at least one.
fn decimal(value_us: u64, text: &mut [u8; TEXT_MAX]) -> &[u8] {
    let mut buffer = itoa::Buffer::new();
    let whole = buffer.format(value_us / S_US).as_bytes();
    let point = whole.len();
    text[..point].copy_from_slice(whole);
    text[point] = b'.';
    let mut fraction = value_us % S_US;
    let mut len = point + 2;
    for at in (point + 1..=point + 6).rev() {
        let digit = u8::try_from(fraction % 10).expect("one digit");
        text[at] = b'0' + digit;
        fraction /= 10;
        if digit != 0 {
            len = len.max(at + 1);
        }
    }
    &text[..len]
}

/// The number of a grant.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FencingToken(pub u64);

/// JSON as it is. A caller gave it, and it was checked then.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a>(pub &'a str);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0.as_bytes())
    }
}

/// The same in every answer.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const VALUE: bool>;

impl<const VALUE: bool> Serialize for Fixed<VALUE> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::to_bytes;
    use super::*;

    fn text(value: &impl Serialize) -> String {
        String::from_utf8(to_bytes(value)).unwrap()
    }

    #[test]
    fn seconds_are_written_in_full_and_no_more() {
        for (value_us, short, float) in [
            (0, "0", "0.0"),
            (30 * S_US, "30", "30.0"),
            (2_500_000, "2.5", "2.5"),
            (1, "0.000001", "0.000001"),
            (10, "0.00001", "0.00001"),
            (999_999, "0.999999", "0.999999"),
            (86_400_123_456, "86400.123456", "86400.123456"),
            (1_050_000, "1.05", "1.05"),
            (u64::MAX, "18446744073709.551615", "18446744073709.551615"),
        ] {
            assert_eq!(text(&Seconds(value_us)), short);
            assert_eq!(text(&FloatSeconds(value_us)), float);
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        assert_eq!(text(&Rfc3339(1_705_314_600_000_000)), r#""2024-01-15T10:30:00Z""#);
        assert_eq!(text(&Rfc3339::to_ms(1_705_314_600_123_999)), r#""2024-01-15T10:30:00.123Z""#);
        assert_eq!(text(&UnixSeconds(1_705_314_600_999_999)), "1705314600");
    }

    /// One of every value: the same members, in the same order, as `serde_json` reads out of the bytes.
    #[derive(Serialize, JsonSchema)]
    struct Sample<'a> {
        #[serde(flatten)]
        inner: Inner,
        #[serde(flatten)]
        gone: Option<Inner>,
        name: &'a str,
        raw: Raw<'a>,
        none: Option<u32>,
        items: Vec<Inner>,
        empty: Vec<u32>,
        fixed: Fixed<true>,
        #[serde(skip_serializing_if = "May::is_missing")]
        missing: May<u64>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        id: UuidText,
        #[serde(skip_serializing_if = "May::is_missing")]
        token: May<FencingToken>,
    }

    #[test]
    fn members_come_in_the_order_of_the_fields_and_strings_are_escaped() {
        let inner = |token| Inner { id: UuidText(1), token: May(token) };
        let sample = Sample {
            inner: inner(Some(FencingToken(7))),
            gone: None,
            name: "a\"b\n",
            raw: Raw("[1, {}]"),
            none: None,
            items: vec![inner(None), inner(Some(FencingToken(8)))],
            empty: Vec::new(),
            fixed: Fixed,
            missing: May(None),
        };
        let id = r#""id":"00000000-0000-0000-0000-000000000001""#;
        let expected = format!(
            r#"{{{id},"token":7,"name":"a\"b\n","raw":[1, {{}}],"none":null,"items":[{{{id}}},{{{id},"token":8}}],"empty":[],"fixed":true}}"#
        );
        assert_eq!(text(&sample), expected);
    }
}
