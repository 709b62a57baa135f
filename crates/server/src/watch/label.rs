//! The name of a holder whose claim has no client: the metadata of the claim often contains one. The dashboard looks
//! for the same in metadata that it gets in full (`dashboard/assets/history.js`).

use serde_json::Value;

use crate::limits::{NAMING_METADATA_MAX, NAMING_TEXT_MAX};

/// In this order.
const FIELDS: [&str; 8] = ["client", "owner", "user", "name", "who", "job", "host", "by"];

pub(crate) fn label_of(metadata: &str) -> Option<String> {
    if metadata.len() > NAMING_METADATA_MAX || !metadata.starts_with(['{', '"']) {
        return None;
    }
    let is_label = |text: &String| !text.is_empty() && text.len() <= NAMING_TEXT_MAX;
    match serde_json::from_str(metadata).ok()? {
        Value::String(text) => Some(text).filter(is_label),
        Value::Object(mut members) => FIELDS.into_iter().find_map(|field| match members.remove(field) {
            Some(Value::String(text)) => Some(text).filter(is_label),
            _ => None,
        }),
        _ => None,
    }
}

/// False where no label can have `lower_case` in it, at a glance.
pub(crate) fn may_have(metadata: &str, lower_case: &str) -> bool {
    // Escaped text looks different.
    metadata.len() <= NAMING_METADATA_MAX && (metadata.contains('\\') || metadata.to_lowercase().contains(lower_case))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_people_put_it() {
        let long = format!(r#"{{"owner":"{}"}}"#, "x".repeat(NAMING_TEXT_MAX + 1));
        let deep = format!(r#"{{"owner":"ann","why":"{}"}}"#, "x".repeat(NAMING_METADATA_MAX));
        for (metadata, expected) in [
            (r#"{"owner":"ann"}"#, Some("ann")),
            (r#"{"job":"nightly","owner":"ann"}"#, Some("ann")),
            (r#"{"owner":7,"host":"ci-4"}"#, Some("ci-4")),
            (r#"{"owner":"","by":"cron"}"#, Some("cron")),
            (r#""laptop""#, Some("laptop")),
            (r#"{"owner":"a\u006en"}"#, Some("ann")),
            (r#"{"colour":"red"}"#, None),
            (r#"{"owner":{"name":"ann"}}"#, None),
            ("null", None),
            ("17", None),
            (r#"["ann"]"#, None),
            (r#""""#, None),
            (&*long, None),
            (&*deep, None),
        ] {
            assert_eq!(label_of(metadata).as_deref(), expected, "{metadata}");
            assert!(expected.is_none_or(|label| may_have(metadata, label)), "{metadata}");
        }
        assert!(!may_have(r#"{"owner":"ann"}"#, "bob"));
        assert!(may_have(r#"{"owner":"Ann"}"#, "ann"));
    }
}
