//! The targets, as `make fuzz` uses them, too: of the public interface only.

use std::fmt::Write as _;

use leasehold_server::duration::{DurationError, format_us, parse_go, parse_setting};
use leasehold_server::http::json::{AboveMax, Least, Object, Seconds};
use leasehold_server::http::query::{Query, decode_segment};

/// An error for a caller is one short line that can be printed.
fn is_sentence(text: &str) -> u64 {
    assert!(!text.is_empty() && text.chars().count() < 400, "{} characters: {text}", text.chars().count());
    assert!(!text.chars().any(char::is_control), "{text:?}");
    // The words without the quoted value: that would make every input different.
    let words = text.split_whitespace().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
    leasehold_fuzz::outcome(&words.collect::<Vec<_>>())
}

const TTL_MAX_US: u64 = 86_400_000_000;

pub(crate) fn body(bytes: &[u8]) -> u64 {
    let reference = serde_json::from_slice::<serde_json::Value>(bytes);
    let object = match Object::parse(bytes) {
        Ok(object) => object,
        Err(error) => return is_sentence(&error.0),
    };
    // An accepted body is JSON to every other reader as well, and means the same.
    let reference = reference.expect("stricter than serde_json");
    let reference = reference.as_object().expect("a body is an object");
    let mut outcomes = vec![reference.len() as u64];
    for (field, value) in reference {
        let raw = object.raw(field).expect("every member is found by its name");
        assert_eq!(&serde_json::from_str::<serde_json::Value>(raw).expect("a value is JSON"), value);
    }
    for above_max in [AboveMax::Clamp, AboveMax::Refuse] {
        for least in [Least::Zero, Least::AboveZero] {
            let allowed = Seconds { least, max_us: TTL_MAX_US, above_max };
            outcomes.push(match object.seconds("ttl", allowed) {
                Ok(None) => 0,
                Ok(Some(ttl_us)) => {
                    assert!(ttl_us <= TTL_MAX_US && (ttl_us > 0 || least == Least::Zero), "{ttl_us}");
                    let seconds = reference["ttl"].as_f64().expect("only a number is taken for one");
                    assert!(seconds >= 0.0 && (seconds > 0.0 || least == Least::Zero), "{seconds} became {ttl_us}");
                    1
                }
                Err(error) => is_sentence(&error.0),
            });
        }
    }
    outcomes.push(match object.integer("count", 0..=1_000) {
        Ok(count) => {
            assert_eq!(count.is_some(), object.has("count"));
            assert!(count.is_none_or(|count| count <= 1_000));
            0
        }
        Err(error) => is_sentence(&error.0),
    });
    outcomes.push(match object.string("resource", 1..=1_024) {
        Ok(resource) => {
            assert_eq!(resource.as_deref(), reference.get("resource").map(|value| value.as_str().expect("a string")));
            assert!(resource.is_none_or(|resource| (1..=1_024).contains(&resource.len())));
            0
        }
        Err(error) => is_sentence(&error.0),
    });
    outcomes.push(match object.required_secret("lease", "a UUID") {
        Ok(lease) => {
            assert_eq!(Some(&*lease), reference["lease"].as_str());
            0
        }
        Err(error) => {
            // Two sentences there are, and neither repeats anything.
            assert!(matches!(&*error.0, "lease must be a UUID" | "lease is missing, it must be a UUID"), "{error}");
            1
        }
    });
    outcomes.push(object.json("metadata", 16 * 1024).map_or_else(|error| is_sentence(&error.0), |_| 0));
    outcomes.push(object.refuse_unknown(&["ttl", "count"]).map_or_else(|error| is_sentence(&error.0), |()| 0));
    leasehold_fuzz::outcome(&outcomes)
}

pub(crate) fn query(bytes: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let segment = match decode_segment("id", text) {
        Ok(decoded) => {
            assert_eq!(
                decode_segment("id", &percent_encoded(&decoded)).expect("an encoded text can be decoded"),
                decoded
            );
            1
        }
        Err(problem) => {
            assert_eq!(problem.status, 400);
            is_sentence(&problem.reason)
        }
    };
    let query = match Query::parse(Some(text)) {
        Ok(query) => query,
        Err(problem) => {
            assert_eq!(problem.status, 400);
            return leasehold_fuzz::outcome(&(segment, is_sentence(&problem.reason)));
        }
    };
    let pairs: Vec<(&str, &str)> = query.iter().collect();
    assert!(pairs.len() <= 64);
    for (index, (name, value)) in pairs.iter().enumerate() {
        assert_eq!(query.get(name), Some(*value));
        assert!(pairs[..index].iter().all(|(earlier, _)| earlier != name), "{name} is there twice");
    }
    // Written by the book it reads the same.
    let encoded = |(name, value): &(&str, &str)| format!("{}={}", percent_encoded(name), percent_encoded(value));
    let again = pairs.iter().map(encoded).collect::<Vec<_>>().join("&");
    let again = Query::parse(Some(&again)).expect("an encoded text can be decoded");
    assert_eq!(again.iter().collect::<Vec<_>>(), pairs);
    leasehold_fuzz::outcome(&(segment, pairs.len(), query.refuse_unknown(&["client", "wait"]).is_ok()))
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(3 * text.len());
    for byte in text.bytes() {
        write!(encoded, "%{byte:02X}").expect("memory can be written to");
    }
    encoded
}

pub(crate) fn duration(bytes: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let (go, setting) = (parse_go(text), parse_setting(text));
    if let Ok(duration_us) = setting {
        let written = format_us(duration_us);
        assert_eq!(parse_setting(&written), Ok(duration_us), "{text} is {written}");
        assert_eq!(
            parse_go(&written),
            Ok(i64::try_from(duration_us).expect("292 years at most")),
            "{text} is {written}"
        );
        // Only days are more than Go has.
        assert!(go == Ok(i64::try_from(duration_us).expect("as above")) || text.contains('d'), "{text}: {go:?}");
    } else if go.is_ok() {
        assert!(text.starts_with(['-', '+']), "{text}: {go:?} and {setting:?}");
    }
    // A sign is all that it is.
    if let (Ok(plus), false) = (go, text.starts_with(['-', '+'])) {
        assert_eq!((parse_go(&format!("-{text}")), parse_go(&format!("+{text}"))), (Ok(-plus), Ok(plus)));
    }
    let kind = |result: Option<DurationError>| result.map_or(0, |error| leasehold_fuzz::outcome(&error));
    let units = text.bytes().filter(u8::is_ascii_alphabetic).count();
    leasehold_fuzz::outcome(&(kind(go.err()), kind(setting.err()), units.min(8)))
}
