//! The values of a statement, owned, as a statement may outlive the call that sent it.

use std::sync::Arc;

use tokio_postgres::types::ToSql;

/// Values in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(pub(super) Arc<Vec<Box<dyn ToSql + Sync + Send>>>);

impl Params {
    pub(crate) fn new() -> Params {
        Params::default()
    }

    /// One more.
    #[must_use]
    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'static) -> Params {
        Arc::get_mut(&mut self.0).expect("it is not shared before it is sent").push(Box::new(value));
        self
    }
}
