//! The accepted bodies, and the sentences callers get for the others.

use super::*;
use crate::limits::DEPTH_MAX;

const TTL: Seconds = Seconds { least: Least::AboveZero, max_us: 86_400_000_000, above_max: AboveMax::Clamp };
const WAIT: Seconds = Seconds { least: Least::Zero, max_us: 300_000_000, above_max: AboveMax::Refuse };

fn parse(body: &str) -> Result<Vec<(String, String)>, String> {
    match Object::parse(body.as_bytes()) {
        Ok(object) => Ok(object.members.iter().map(|(name, raw)| (name.to_string(), (*raw).to_owned())).collect()),
        Err(BadBody(reason, ..)) => Err(reason.into_owned()),
    }
}

fn members(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, raw)| ((*name).to_owned(), (*raw).to_owned())).collect()
}

/// The outcome of one getter on `{"x": <value>}`.
fn with_x<T>(value: &str, get: impl Fn(&Object<'_>) -> Result<T, BadBody>) -> Result<T, String> {
    let body = format!(r#"{{"x": {value}}}"#);
    let object = Object::parse(body.as_bytes()).expect("the value is JSON");
    get(&object).map_err(|BadBody(reason, ..)| reason.into_owned())
}

#[test]
fn objects_are_taken_as_they_were_sent() {
    assert_eq!(parse("{}"), Ok(members(&[])));
    assert_eq!(parse(" \n{ \"a\" : 1 }\t"), Ok(members(&[("a", "1")])));
    assert_eq!(
        parse(r#"{"b":"x","a":[1, {"c": null}]}"#),
        Ok(members(&[("b", r#""x""#), ("a", r#"[1, {"c": null}]"#)]))
    );
    assert_eq!(parse(r#"{"\u0061":true}"#), Ok(members(&[("a", "true")])));
    assert_eq!(parse(r#"{"a":{"x":1},"b":{"x":1}}"#), Ok(members(&[("a", r#"{"x":1}"#), ("b", r#"{"x":1}"#)])));
    assert_eq!(parse(r#"{"a":1e308}"#), Ok(members(&[("a", "1e308")])));
    assert_eq!(parse(r#"{"a":"\ud83d\ude00"}"#), Ok(members(&[("a", r#""\ud83d\ude00""#)])));
}

#[test]
fn anything_else_is_refused_with_a_sentence() {
    for (body, expected) in [
        ("", "the body is empty, it must be a JSON object"),
        (" \n", "the body is empty, it must be a JSON object"),
        ("[]", "the body must be a JSON object"),
        ("3", "the body must be a JSON object"),
        ("null", "the body must be a JSON object"),
        ("ttl=30", "the body is not valid JSON: expected ident at line 1 column 2"),
        ("{", "the body is not complete JSON: EOF while parsing an object at line 1 column 1"),
        (r#"{"ttl":30"#, "the body is not complete JSON: EOF while parsing an object at line 1 column 9"),
        (r#"{"ttl":30,}"#, "the body is not valid JSON: trailing comma at line 1 column 11"),
        (r#"{"ttl":30} x"#, "the body is not valid JSON: trailing characters at line 1 column 12"),
        (r#"{"ttl":30}{}"#, "the body is not valid JSON: trailing characters at line 1 column 11"),
        ("{'ttl':30}", "the body is not valid JSON: key must be a string at line 1 column 2"),
        (r#"{"ttl":NaN}"#, "the body is not valid JSON: expected value at line 1 column 8"),
        (r#"{"ttl":Infinity}"#, "the body is not valid JSON: expected value at line 1 column 8"),
        (r#"{"ttl":-Infinity}"#, "the body is not valid JSON: invalid number at line 1 column 9"),
        (r#"{"ttl":.5}"#, "the body is not valid JSON: expected value at line 1 column 8"),
        (r#"{"ttl":01}"#, "the body is not valid JSON: invalid number at line 1 column 9"),
        (r#"{"ttl":1e999}"#, "the body has a number that is not finite"),
        (r#"{"ttl":-1E+999}"#, "the body has a number that is not finite"),
        (r#"{"m":{"n":[1e999]}}"#, "the body has a number that is not finite"),
        (r#"{"a":1,"b":2,"a":3}"#, r#"key "a" is given twice"#),
        (r#"{"a":1,"\u0061":3}"#, r#"key "a" is given twice"#),
        (r#"{"m":{"k":1,"k":1}}"#, r#"key "k" is given twice"#),
        (r#"{"m":[0,{"x":{"k":1,"k":1}}]}"#, r#"key "k" is given twice"#),
        (r#"{"a":"\ud800"}"#, "the body is not valid JSON: unexpected end of hex escape"),
        (r#"{"m":["\udc00"]}"#, "the body is not valid JSON: lone leading surrogate in hex escape"),
    ] {
        assert_eq!(parse(body), Err(expected.to_owned()), "{body}");
    }
    assert_eq!(Object::parse(b"{\"a\":\"\xff\"}").unwrap_err().0, "the body is not UTF-8");
}

#[test]
fn the_member_at_fault_is_told_apart() {
    let long = "k".repeat(1000);
    for (body, expected) in [
        (r#"{"a":1,"b":2,"a":3}"#, Some("a")),
        (r#"{"a":1,"\u0061":3}"#, Some("a")),
        (r#"{"m":[0,{"x":{"k":1,"k":1}}]}"#, Some("m")),
        (r#"{"a":0,"m":{"n":[1e999]}}"#, Some("m")),
        (r#"{"ttl":1e999}"#, Some("ttl")),
        (r#"{"a":"\ud800"}"#, Some("a")),
        (r#"{"\u0001":1,"\u0001":1}"#, Some("\u{fffd}")),
        (r#"{"ttl":NaN}"#, None),
        ("[]", None),
    ] {
        let BadBody(sentence, field, _) = Object::parse(body.as_bytes()).unwrap_err();
        assert_eq!(field.as_deref(), expected, "{body}");
        assert!(!sentence.contains('\u{1}'), "{sentence}");
    }
    let BadBody(_, field, _) = Object::parse(format!(r#"{{"{long}":1,"{long}":1}}"#).as_bytes()).unwrap_err();
    assert!(field.unwrap().len() < 200, "as long as in the sentence");
}

#[test]
fn a_number_of_very_many_digits_is_not_finite() {
    let digits = |count: usize| parse(&format!(r#"{{"a":{}}}"#, "9".repeat(count))).map(|_| ());
    assert_eq!(digits(308), Ok(()));
    assert_eq!(digits(310), Err("the body has a number that is not finite".to_owned()));
}

#[test]
fn duplicates_are_found_among_many_keys() {
    let many = |last: &str| {
        let keys: Vec<String> = (0..1000).map(|i| format!(r#""k{i}":0"#)).collect();
        format!(r#"{{{},"{last}":0}}"#, keys.join(","))
    };
    assert!(parse(&many("new")).is_ok());
    assert_eq!(parse(&many("k77")), Err(r#"key "k77" is given twice"#.to_owned()));
    assert!(parse(&format!(r#"{{"m":{}}}"#, many("new"))).is_ok());
    assert_eq!(parse(&format!(r#"{{"m":{}}}"#, many("k77"))), Err(r#"key "k77" is given twice"#.to_owned()));
}

#[test]
fn depth_is_limited() {
    // The outermost object is the first level.
    let nested = |levels: usize| format!(r#"{{"m":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1));
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    let expected = Err("the body is nested too deeply, at most 64 levels are allowed".to_owned());
    assert_eq!(parse(&nested(DEPTH_MAX + 1)), expected);
    assert_eq!(parse(&nested(30_000)), expected);
}

#[test]
fn seconds_become_microseconds() {
    for (value, expected) in [
        ("30", 30_000_000),
        ("0.5", 500_000),
        ("1.000001", 1_000_001),
        ("0.1", 100_000),
        ("3e1", 30_000_000),
        ("0.0000001", 1),
        ("1e-300", 1),
        ("86400", 86_400_000_000),
        ("86400.5", 86_400_000_000),
        ("18446744073709551615", 86_400_000_000),
        ("99999999999999999999999", 86_400_000_000),
        ("1e300", 86_400_000_000),
    ] {
        assert_eq!(with_x(value, |object| object.seconds("x", TTL)), Ok(Some(expected)), "{value}");
    }
    for zero in ["0", "0.0", "-0", "-0.0", "0e5"] {
        assert_eq!(with_x(zero, |object| object.seconds("x", WAIT)), Ok(Some(0)), "{zero}");
    }
}

#[test]
fn seconds_that_are_none_are_refused_with_the_range() {
    for value in ["0", "0.0", "-0", "-1", "-0.5", "true", "null", "[]", "{}", r#""30""#, r#""inf""#] {
        let expected = format!("x must be a number greater than 0 (seconds), got {value}");
        assert_eq!(with_x(value, |object| object.seconds("x", TTL)), Err(expected), "{value}");
    }
    for value in ["-1", "300.000001", "301", "1e300", r#""abc""#] {
        let expected = format!("x must be a number of at least 0 and at most 300 (seconds), got {value}");
        assert_eq!(with_x(value, |object| object.seconds("x", WAIT)), Err(expected), "{value}");
    }
}

#[test]
fn integers_are_whole_and_in_range() {
    for (value, expected) in [("0", 0), ("1000", 1000), ("3.0", 3), ("1e2", 100), ("-0", 0)] {
        assert_eq!(with_x(value, |object| object.integer("x", 0..=1000)), Ok(Some(expected)), "{value}");
    }
    for value in ["-1", "1001", "1.5", "1e30", "18446744073709551616", "null", r#""5""#, "false"] {
        let expected = format!("x must be an integer from 0 to 1000, got {value}");
        assert_eq!(with_x(value, |object| object.integer("x", 0..=1000)), Err(expected), "{value}");
    }
}

#[test]
fn strings_are_unescaped_and_measured_in_bytes() {
    for (value, expected) in [(r#""a""#, "a"), (r#""a\n\"b""#, "a\n\"b"), (r#""\u00e9""#, "é"), (r#""éé""#, "éé")]
    {
        assert_eq!(
            with_x(value, |object| Ok(object.string("x", 1..=4)?.unwrap().into_owned())),
            Ok(expected.to_owned())
        );
    }
    let get = |value: &str| with_x(value, |object| object.string("x", 1..=4).map(|_| ()));
    assert_eq!(get(r#""ééé""#), Err("x must be a string of 1 to 4 bytes, got 6 bytes".to_owned()));
    assert_eq!(get(r#""""#), Err("x must be a string of 1 to 4 bytes, got 0 bytes".to_owned()));
    assert_eq!(get("5"), Err("x must be a string of 1 to 4 bytes, got 5".to_owned()));
}

#[test]
fn missing_fields_are_named_with_what_they_must_be() {
    let object = Object::parse(b"{}").unwrap();
    for (bad, expected) in [
        (
            object.required_seconds("ttl", TTL).unwrap_err(),
            "ttl is missing, it must be a number greater than 0 (seconds)",
        ),
        (object.required_integer("count", 0..=9).unwrap_err(), "count is missing, it must be an integer from 0 to 9"),
        (object.required_string("r", 1..=9).unwrap_err(), "r is missing, it must be a string of 1 to 9 bytes"),
        (object.required_secret("lease", "a UUID").unwrap_err(), "lease is missing, it must be a UUID"),
    ] {
        assert_eq!(bad.0, expected);
    }
    assert_eq!(object.seconds("ttl", TTL), Ok(None));
    assert_eq!(object.json("metadata", 10), Ok(None));
}

#[test]
fn secrets_are_not_repeated() {
    let get = |value: &str| with_x(value, |object| object.required_secret("x", "a UUID").map(Cow::into_owned));
    assert_eq!(get(r#""s3cret""#), Ok("s3cret".to_owned()));
    assert_eq!(get("12345"), Err("x must be a UUID".to_owned()));
    assert_eq!(get(r#"["s3cret"]"#), Err("x must be a UUID".to_owned()));
}

#[test]
fn any_json_is_kept_as_sent_up_to_its_size() {
    let get = |value: &str| with_x(value, |object| object.json("x", 8).map(|raw| raw.map(str::to_owned)));
    assert_eq!(get(r#"{"a": 1}"#), Ok(Some(r#"{"a": 1}"#.to_owned())));
    assert_eq!(get(r#"{"a":  1}"#), Err("x has 9 bytes, at most 8 are allowed".to_owned()));
}

#[test]
fn unknown_fields_are_refused_by_name() {
    let object = Object::parse(br#"{"ttl": 1, "tll": 2}"#).unwrap();
    assert_eq!(object.refuse_unknown(&["ttl", "tll"]), Ok(()));
    assert_eq!(object.refuse_unknown(&["ttl", "wait"]).unwrap_err().0, r#"unknown field "tll", allowed are ttl, wait"#);
}

#[test]
fn what_errors_repeat_is_short_and_printable() {
    assert_eq!(shown("short"), r#""short""#);
    assert_eq!(shown(&"é".repeat(41)), format!("\"{}…\"", "é".repeat(40)));
    assert_eq!(shown("a\u{1b}[31m\n"), "\"a\u{fffd}[31m\u{fffd}\"");
    let long = format!("\"{}\"", "x".repeat(60_000));
    let reason = with_x(&long, |object| object.seconds("x", TTL)).unwrap_err();
    assert!(reason.len() < 120, "{reason}");
}

#[test]
fn ids_that_went_astray_are_not_repeated() {
    let id = "0b8f5d1e-5f0c-4A8E-9a4e-2f1f6a1d7c11";
    let bare = id.replace('-', "");
    for (text, expected) in [
        (id.to_owned(), "\"(an id)\"".to_owned()),
        (bare.clone(), "\"(an id)\"".to_owned()),
        (format!("{{{id}}}"), "\"{(an id)}\"".to_owned()),
        (format!("two {id} and {bare}0"), "\"two (an id) and (an id)\"".to_owned()),
        // Cut off, half of it would still be there.
        (format!("{}{id}", "x".repeat(30)), format!("\"{}(an id)\"", "x".repeat(30))),
        (id[..34].to_owned(), format!("\"{}\"", &id[..34])),
        ("deadbeef".to_owned(), "\"deadbeef\"".to_owned()),
    ] {
        assert_eq!(shown(&text), expected);
    }
    let body = format!("{{\"ttl\":\"{id}\",\"{id}\":1}}");
    let object = Object::parse(body.as_bytes()).unwrap();
    let allowed = Seconds { least: Least::AboveZero, max_us: 1, above_max: AboveMax::Clamp };
    for error in [object.seconds("ttl", allowed).unwrap_err(), object.refuse_unknown(&["ttl"]).unwrap_err()] {
        assert!(!error.0.contains("5f0c") && error.0.contains("(an id)"), "{error}");
    }
}
