//! The answer about a key that was made.

use schemars::JsonSchema;
use serde::Serialize;

/// Another key signs proofs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Rotated<'a> {
    /// Its name, in proofs and in the set of public keys.
    pub(super) kid: &'a str,
}
