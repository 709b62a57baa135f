//! One spelling for each JSON value: members in the order of their names, no spaces, numbers and strings as they come
//! out of being read. Two texts mean the same exactly when these are equal.

use serde_json::Value;

/// The one spelling of a value that was read before.
pub fn canonical(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    match serde_json::from_str(text) {
        Ok(value) => write(&mut bytes, &value),
        // A string with half a surrogate pair is JSON and cannot be read: it has the spelling it came in.
        Err(_) => bytes.extend_from_slice(text.as_bytes()),
    }
    bytes
}

fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            bytes.push(b'{');
            for (name, value) in sorted {
                scalar(bytes, &Value::from(name.as_str()));
                write(bytes, value);
            }
            bytes.push(b'}');
        }
        Value::Array(items) => {
            bytes.push(b'[');
            for item in items {
                write(bytes, item);
            }
            bytes.push(b']');
        }
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
            Some(whole) => scalar(bytes, &Value::from(whole)),
            None => scalar(bytes, value),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => scalar(bytes, value),
    }
}

/// Each ends with a comma, so that two of them are not read as one.
fn scalar(bytes: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(&mut *bytes, value).expect("a value can be written to memory");
    bytes.push(b',');
}

/// `3.0` is `3`, as far as an f64 knows whole numbers apart.
fn whole(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53 of zero")]
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_has_one_spelling() {
        for (one, other) in [
            (r#"{"a":1,"b":[2,{"c":3,"d":null}]}"#, r#"{ "b": [2.0, {"d": null, "c": 3}], "a": 1e0 }"#),
            (r#""\u0061""#, r#""a""#),
            ("-0", "0"),
            ("1e2", "100"),
            ("0.5", "5e-1"),
        ] {
            assert_eq!(canonical(one), canonical(other), "{one} {other}");
        }
    }

    #[test]
    fn other_values_have_other_spellings() {
        let values = [
            "null",
            "true",
            "0",
            "1",
            "0.1",
            "\"1\"",
            "\"\"",
            "[]",
            "{}",
            "[1]",
            "[1,2]",
            "[12]",
            "[[1],2]",
            "[[1,2]]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"b":1}"#,
            r#"["a",1]"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            "9007199254740993",
            "9007199254740992",
            r#""\ud800""#,
        ];
        for (n, one) in values.iter().enumerate() {
            for other in &values[n + 1..] {
                assert_ne!(canonical(one), canonical(other), "{one} {other}");
            }
        }
    }
}
