//! What happened, once it is durable: to the log and to the metrics. Runs on the committer's thread, so it is brief.
//! Pools are named in neither: their id is a credential.

use std::time::Duration;

use leasehold_engine::{Effect, Ending, Kind, ResourceKey, What};
use leasehold_journal::{Batch, Sizes};

use crate::metrics::Metrics;

#[derive(Debug, Default)]
pub struct Observer {
    pub(crate) metrics: Metrics,
}

impl Observer {
    pub fn new() -> Self {
        Observer::default()
    }

    pub(crate) fn appended(&self, batch: &Batch, took: Duration) {
        let changes = batch.last.0 - batch.first.0 + 1;
        self.metrics.batch(changes, batch.record.len(), took);
    }

    /// The store as it was just looked at.
    pub(crate) fn store(&self, sizes: Sizes, syncs: u64, is_low: bool) {
        self.metrics.store(sizes, syncs, is_low);
    }

    pub(crate) fn checkpointed(&self) {
        self.metrics.checkpointed();
    }

    pub(crate) fn happened(&self, effects: impl Iterator<Item = Effect>) {
        for effect in effects {
            self.metrics.effect(&effect);
            match effect.resource.kind() {
                // Few and precious: people follow these in the log.
                Kind::Lock => log_lock(&effect),
                Kind::Pool | Kind::Claim => log_quietly(&effect),
            }
        }
    }
}

fn log_lock(effect: &Effect) {
    let job = effect.resource.name().map_or("", |name| &**name);
    let client = effect.client.as_deref().unwrap_or("");
    match &effect.what {
        What::Granted { token, waited_us, from, .. } => {
            let from = from.as_deref();
            let waited_s = seconds(*waited_us);
            tracing::info!(job, client, from, token = token.0, waited_s, "lock acquired");
        }
        What::Renewed { token, held_us } => {
            tracing::info!(job, client, token = token.0, held_s = seconds(*held_us), "lock renewed");
        }
        What::GraceBegan { token, held_us } => {
            tracing::info!(job, client, token = token.0, held_s = seconds(*held_us), "lock expired, grace begins");
        }
        What::GraceOver { token } => {
            tracing::info!(job, client, token = token.0, "grace over, anybody may take the lock");
        }
        What::Queued => tracing::info!(job, client, "waiting for the lock"),
        What::Ended { how, held_us, .. } => match (how, held_us) {
            (Ending::Released, Some(held_us)) => {
                tracing::info!(job, client, held_s = seconds(*held_us), "lock released");
            }
            (how, Some(held_us)) => tracing::info!(job, client, ?how, held_s = seconds(*held_us), "lock ended"),
            (how, None) => tracing::info!(job, client, ?how, "stopped waiting for the lock"),
        },
        What::Configured { .. } | What::Unconfigured => {}
    }
}

fn log_quietly(effect: &Effect) {
    let kind = effect.resource.kind().as_str();
    let resource = match &effect.resource {
        ResourceKey::Pool(_) => None,
        ResourceKey::Claim(name) | ResourceKey::Lock(name) => Some(&**name),
    };
    match &effect.what {
        What::Granted { slot, token, waited_us, .. } => {
            tracing::debug!(kind, resource, slot, token = token.0, waited_s = seconds(*waited_us), "granted");
        }
        What::Renewed { token, held_us } => {
            tracing::debug!(kind, resource, token = token.0, held_s = seconds(*held_us), "renewed");
        }
        What::Queued => tracing::debug!(kind, resource, "waiting"),
        What::Ended { how, held_us, .. } => {
            tracing::debug!(kind, resource, ?how, held_s = held_us.map(seconds), "ended");
        }
        What::Configured { capacity } => tracing::debug!(kind, resource, capacity, "configured"),
        What::Unconfigured => tracing::debug!(kind, resource, "unconfigured"),
        What::GraceBegan { .. } | What::GraceOver { .. } => {}
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
