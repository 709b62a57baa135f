//! JSON by hand for the few shapes that every request needs, and times as people read them. Strings go through
//! `serde_json`, which escapes them.

use jiff::Timestamp;

const S_US: u64 = 1_000_000;

/// An object being written: `{"a":1,"b":"x"}`.
#[derive(Debug)]
pub(crate) struct Object {
    bytes: Vec<u8>,
}

impl Object {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(192);
        bytes.push(b'{');
        Object { bytes }
    }

    /// Goes on with the members of an object whose opening brace is in `bytes` already.
    pub(crate) fn nested(bytes: Vec<u8>) -> Self {
        let mut object = Object { bytes };
        object.bytes.push(b'{');
        object
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }

    /// The value of `name` comes next, written by the caller.
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if self.bytes.last() != Some(&b'{') {
            self.bytes.push(b',');
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        &mut self.bytes
    }

    pub(crate) fn integer(&mut self, name: &str, value: u64) -> &mut Self {
        let bytes = self.name(name);
        bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self
    }

    pub(crate) fn boolean(&mut self, name: &str, value: bool) -> &mut Self {
        let text: &[u8] = if value { b"true" } else { b"false" };
        self.name(name).extend_from_slice(text);
        self
    }

    pub(crate) fn string(&mut self, name: &str, value: &str) -> &mut Self {
        write_string(self.name(name), value);
        self
    }

    pub(crate) fn uuid(&mut self, name: &str, value: u128) -> &mut Self {
        let bytes = self.name(name);
        bytes.push(b'"');
        let mut buffer = uuid::Uuid::encode_buffer();
        bytes.extend_from_slice(uuid::Uuid::from_u128(value).hyphenated().encode_lower(&mut buffer).as_bytes());
        bytes.push(b'"');
        self
    }

    /// JSON as it is.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name).extend_from_slice(json.as_bytes());
        self
    }

    /// Seconds that read as a float everywhere: `30.0`.
    pub(crate) fn float_seconds(&mut self, name: &str, value_us: u64) -> &mut Self {
        let bytes = self.name(name);
        write_seconds(bytes, value_us);
        if value_us.is_multiple_of(S_US) {
            bytes.extend_from_slice(b".0");
        }
        self
    }

    pub(crate) fn null(&mut self, name: &str) -> &mut Self {
        self.raw(name, "null")
    }

    pub(crate) fn optional_string(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.string(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn optional_integer(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.integer(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn optional_uuid(&mut self, name: &str, value: Option<u128>) -> &mut Self {
        match value {
            Some(value) => self.uuid(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn optional_seconds(&mut self, name: &str, value_us: Option<u64>) -> &mut Self {
        match value_us {
            Some(value_us) => self.float_seconds(name, value_us),
            None => self.null(name),
        }
    }
}

/// `[{…},{…}]`
pub(crate) fn array<T>(items: &[T], write: impl Fn(&mut Object, &T)) -> Vec<u8> {
    let mut bytes = vec![b'['];
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        let mut object = Object::nested(bytes);
        write(&mut object, item);
        bytes = object.end();
    }
    bytes.push(b']');
    bytes
}

pub(crate) fn write_string(bytes: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(bytes, value).expect("a string can be written to memory");
}

pub(crate) fn write_seconds(bytes: &mut Vec<u8>, value_us: u64) {
    let mut buffer = itoa::Buffer::new();
    bytes.extend_from_slice(buffer.format(value_us / S_US).as_bytes());
    let mut fraction = value_us % S_US;
    if fraction == 0 {
        return;
    }
    let mut digits = 6;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        digits -= 1;
    }
    let fraction = buffer.format(fraction);
    bytes.push(b'.');
    bytes.extend(std::iter::repeat_n(b'0', digits - fraction.len()));
    bytes.extend_from_slice(fraction.as_bytes());
}

/// `2024-01-15T10:30:00Z`, with as much of a fraction as there is.
pub(crate) fn rfc3339(unix_us: u64) -> String {
    let microseconds = i64::try_from(unix_us).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX).to_string()
}

/// Whole seconds since 1970, the fraction cut off.
pub(crate) fn unix_seconds(unix_us: u64) -> u64 {
    unix_us / S_US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_in_full_and_no_more() {
        for (value_us, short, float) in [
            (0, "0", "0.0"),
            (30 * S_US, "30", "30.0"),
            (2_500_000, "2.5", "2.5"),
            (1, "0.000001", "0.000001"),
            (10, "0.00001", "0.00001"),
            (86_400_123_456, "86400.123456", "86400.123456"),
            (1_050_000, "1.05", "1.05"),
        ] {
            let mut object = Object::new();
            object.float_seconds("b", value_us);
            assert_eq!(String::from_utf8(object.end()).unwrap(), format!("{{\"b\":{float}}}"));
            let mut bytes = Vec::new();
            write_seconds(&mut bytes, value_us);
            assert_eq!(bytes, short.as_bytes());
        }
    }

    #[test]
    fn members_are_separated_and_strings_escaped() {
        let mut object = Object::new();
        object.string("job", "a\"b\n").boolean("ok", true).integer("n", 7).raw("x", "[1]").uuid("id", 1);
        let written = String::from_utf8(object.end()).unwrap();
        assert_eq!(written, r#"{"job":"a\"b\n","ok":true,"n":7,"x":[1],"id":"00000000-0000-0000-0000-000000000001"}"#);
    }

    #[test]
    fn whole_seconds_are_cut() {
        assert_eq!(unix_seconds(1_705_314_600_999_999), 1_705_314_600);
    }
}
