//! The label of a resource in a body: a name or a note for people.

use std::sync::Arc;

use leasehold_engine::Labeling;

use crate::http::Problem;
use crate::http::json::Object;
use crate::limits::LABEL_MAX;
use crate::openapi::Schema;

/// Without `label` it stays; `null` or an empty one takes it away.
pub(super) fn parse(body: &Object<'_>) -> Result<Labeling, Problem> {
    if body.raw("label") == Some("null") {
        return Ok(Labeling::Set(None));
    }
    let label = body.string("label", 0..=LABEL_MAX)?;
    Ok(label.map_or(Labeling::Kept, |label| {
        Labeling::Set(Some(label).filter(|label| !label.is_empty()).as_deref().map(Arc::from))
    }))
}

/// The member in the OpenAPI document. `says` is what it is for.
pub(super) fn schema(says: &str) -> Schema {
    let label = Schema::either([Schema::string().length(0, LABEL_MAX), Schema::any().with("type", "null")]);
    label.says(format!(
        "{says}, at most {LABEL_MAX} bytes. Without it the label stays; null or an empty one takes it away."
    ))
}
