//! The answer to a deletion, the same for pools and resources.

use schemars::JsonSchema;
use serde::Serialize;

/// The answer to a deletion.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Deleted {
    /// False when there was none.
    pub(crate) deleted: bool,
}
