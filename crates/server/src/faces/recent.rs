//! Results of checks that are too dear for every call, each with the time of its check. `health` takes and renews them.

use tokio::sync::Mutex;

use crate::metrics::Queues;

/// When it was last checked that changes become durable, and the result.
#[derive(Debug, Default)]
pub(crate) struct Readiness(pub(super) Mutex<Option<(u64, bool)>>);

/// When the queues were last looked over, and the result.
#[derive(Debug, Default)]
pub(crate) struct Queueing(pub(super) Mutex<Option<(u64, Queues)>>);
