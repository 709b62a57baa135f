//! Health and readiness as JSON.

use schemars::JsonSchema;
use serde::Serialize;

/// The process lives.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(super) struct Living {
    #[schemars(extend("const" = "ok"))]
    pub(super) status: &'static str,
}

/// The service can commit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Readiness")]
pub(super) struct Ready {
    #[schemars(extend("const" = "ready"))]
    pub(super) status: &'static str,
}
