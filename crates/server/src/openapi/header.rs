//! The headers of answers, each explained once.

use serde_json::{Map, Value, json};

use super::schema::Schema;

const HEADERS: [(&str, &str); 12] = [
    ("X-Request-Id", "The id of this request in logs: the caller's own, or one that was made."),
    (
        "Leasehold-Position",
        "`<epoch>.<position>`: the place of this answer in the order in which things happened. It saw every change up to \
         there and none after.",
    ),
    (
        "Leasehold-Service",
        "Which service answered: the same from every address, after a restart and after a restore, and another for other data.",
    ),
    ("Retry-After", "Seconds after which it is worth to ask again."),
    ("Location", "The absolute URL of what was made."),
    ("Link", "Where the next page is, as `<url>; rel=\"next\"`. Missing on the last page."),
    ("Allow", "The methods that work here."),
    ("WWW-Authenticate", "How to sign on, and what is missing (RFC 6750)."),
    ("Set-Cookie", "The cookies for the browser to keep."),
    ("ETag", "Changes with the content."),
    ("Cache-Control", "How long the answer may be kept."),
    ("Content-Security-Policy", "The sources that the page may load: its own files and nothing else."),
];

/// A header of an answer, by reference.
pub(crate) fn header(name: &str) -> Value {
    assert!(HEADERS.iter().any(|(known, _)| *known == name), "{name} is explained nowhere");
    json!({"$ref": format!("#/components/headers/{name}")})
}

pub(crate) fn headers() -> Map<String, Value> {
    let schema = |name: &str| match name {
        "Retry-After" => Schema::count(),
        "Leasehold-Position" => Schema::string().pattern("^[0-9]+\\.[0-9]+$").example("1.42"),
        "Leasehold-Service" => Schema::string().pattern("^[0-9a-f]{32}$"),
        _ => Schema::string(),
    };
    HEADERS
        .into_iter()
        .map(|(name, says)| (name.to_owned(), json!({"description": says, "schema": Value::from(schema(name))})))
        .collect()
}
