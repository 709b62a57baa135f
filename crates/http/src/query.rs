//! Text out of a request target: percent-decoding and query pairs, strictly. A `%` that is not followed by two hex
//! digits, bytes that are no UTF-8, or a parameter given twice is the caller's mistake; the service never guesses.

use std::borrow::Cow;

use super::json::{cut, shown};
use super::problem::Problem;
use crate::limits::PARAMETERS_MAX;

/// One segment of a path, decoded. `what` names it in the error; the value is not repeated there, as it may be secret.
pub fn decode_segment<'a>(what: &str, raw: &'a str) -> Result<Cow<'a, str>, Problem> {
    decode(raw, Plus::IsPlus).map_err(|fault| Problem::bad_request(format!("{what} in the path {fault}")))
}

/// The parameters of a query in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads what follows the `?` of a request target. `+` is a space, as forms write it; `a` alone is `a=`.
    pub fn parse(raw: Option<&'a str>) -> Result<Self, Problem> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name, Plus::IsSpace)
                .map_err(|fault| Problem::bad_request(format!("the name of a query parameter {fault}")))?;
            let value = decode(value, Plus::IsSpace)
                .map_err(|fault| Problem::about(cut(&name), format!("query parameter {} {fault}", shown(&name))))?;
            if pairs.len() == PARAMETERS_MAX {
                let reason = format!("the query has too many parameters, at most {PARAMETERS_MAX} are allowed");
                return Err(Problem::bad_request(reason));
            }
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(Problem::about(cut(&name), format!("query parameter {} is given twice", shown(&name))));
            }
            pairs.push((name, value));
        }
        Ok(Query { pairs })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Refuses, by name, the first parameter that is not in `allowed`.
    pub fn refuse_unknown(&self, allowed: &[&str]) -> Result<(), Problem> {
        match self.pairs.iter().find(|(name, _)| !allowed.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => {
                let reason = format!("unknown query parameter {}, allowed are {}", shown(name), allowed.join(", "));
                Err(Problem::about(cut(name), reason))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    IsPlus,
    IsSpace,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("has a % that is not followed by two hex digits")]
    Escape,
    #[error("is not UTF-8 once decoded")]
    Encoding,
}

fn decode(raw: &str, plus: Plus) -> Result<Cow<'_, str>, Fault> {
    let is_special = |byte: u8| byte == b'%' || (byte == b'+' && plus == Plus::IsSpace);
    if !raw.bytes().any(is_special) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let (high, low) = (bytes.next().and_then(hex_digit), bytes.next().and_then(hex_digit));
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or(Fault::Escape)?
            }
            b'+' if plus == Plus::IsSpace => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| Fault::Encoding)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_decode_strictly() {
        for (raw, expected) in [
            ("plain", Ok("plain")),
            ("", Ok("")),
            ("a%2Fb", Ok("a/b")),
            ("a%2fb%25", Ok("a/b%")),
            ("a+b", Ok("a+b")),
            ("caf%C3%A9", Ok("café")),
            ("%00", Ok("\0")),
            ("%", Err("x in the path has a % that is not followed by two hex digits")),
            ("a%2", Err("x in the path has a % that is not followed by two hex digits")),
            ("%zz", Err("x in the path has a % that is not followed by two hex digits")),
            ("%+1", Err("x in the path has a % that is not followed by two hex digits")),
            ("%C3", Err("x in the path is not UTF-8 once decoded")),
            ("%ED%A0%80", Err("x in the path is not UTF-8 once decoded")),
            ("%C0%AF", Err("x in the path is not UTF-8 once decoded")),
        ] {
            let decoded = decode_segment("x", raw).map_err(|problem| problem.reason.into_owned());
            assert_eq!(decoded.as_deref().map_err(String::as_str), expected, "{raw}");
        }
    }

    #[test]
    fn queries_keep_their_order_and_read_forms() {
        for (raw, expected) in [
            (None, vec![]),
            (Some(""), vec![]),
            (Some("client=a&ttl=30s"), vec![("client", "a"), ("ttl", "30s")]),
            (Some("b=2&a=1&&"), vec![("b", "2"), ("a", "1")]),
            (Some("flag&empty="), vec![("flag", ""), ("empty", "")]),
            (Some("q=a+b%2Bc&x=1=2"), vec![("q", "a b+c"), ("x", "1=2")]),
        ] {
            let query = Query::parse(raw).unwrap();
            assert_eq!(query.iter().collect::<Vec<_>>(), expected, "{raw:?}");
        }
    }

    #[test]
    fn mistakes_in_queries_are_named() {
        for (raw, field, expected) in [
            ("a=1&b=2&a=3", Some("a"), r#"query parameter "a" is given twice"#),
            ("a=1&%61=3", Some("a"), r#"query parameter "a" is given twice"#),
            ("ttl=%3", Some("ttl"), r#"query parameter "ttl" has a % that is not followed by two hex digits"#),
            ("%=1", None, "the name of a query parameter has a % that is not followed by two hex digits"),
            ("client=%ff", Some("client"), r#"query parameter "client" is not UTF-8 once decoded"#),
        ] {
            let problem = Query::parse(Some(raw)).unwrap_err();
            assert_eq!((problem.field.as_deref(), &*problem.reason), (field, expected), "{raw}");
        }
    }

    #[test]
    fn parameters_are_limited() {
        let query = |count: usize| (0..count).map(|i| format!("p{i}=1")).collect::<Vec<_>>().join("&");
        assert!(Query::parse(Some(&query(PARAMETERS_MAX))).is_ok());
        let reason = Query::parse(Some(&query(PARAMETERS_MAX + 1))).unwrap_err().reason;
        assert_eq!(reason, "the query has too many parameters, at most 64 are allowed");
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        let query = Query::parse(Some("limit=5&colour=red")).unwrap();
        assert_eq!(query.refuse_unknown(&["limit", "colour"]), Ok(()));
        let problem = query.refuse_unknown(&["limit", "offset"]).unwrap_err();
        assert_eq!(problem.reason, r#"unknown query parameter "colour", allowed are limit, offset"#);
        assert_eq!(problem.field.as_deref(), Some("colour"));
        // A name of the caller's is cut like in the sentence, and an id in it is not repeated.
        let name = format!("0123456789abcdef0123456789abcdef{}", "x".repeat(100));
        let problem = Query::parse(Some(&name)).unwrap().refuse_unknown(&[]).unwrap_err();
        assert_eq!(problem.field, Some(format!("(an id){}…", "x".repeat(33)).into()));
    }
}
