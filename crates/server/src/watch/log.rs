//! The log lines of effects. Pools are not named there: their id is a credential. The targets of these lines are part
//! of the contract, for filters of the log: they do not follow the modules of the program.

use leasehold_engine::{Effect, Ending, ResourceKey, What};

/// The target of lines about locks.
const LOCKS: &str = "leasehold::lock";
/// The target of lines about pools and claims.
const CLAIMS: &str = "leasehold::claims";

/// Renewals are by far the most and tell little, so they are at `debug` unless `logs_renewals`.
pub(super) fn lock(effect: &Effect, logs_renewals: bool) {
    let job = effect.resource.name().map_or("", |name| &**name);
    let client = effect.client.as_deref().unwrap_or("");
    let token = effect.grant.map(|grant| grant.token.0);
    match &effect.what {
        What::Granted { waited_us, from, .. } => {
            let from = from.as_deref();
            let waited_s = seconds(*waited_us);
            tracing::info!(target: LOCKS, job, client, from, token, waited_s, "lock acquired");
        }
        What::Renewed { held_us, .. } if logs_renewals => {
            tracing::info!(target: LOCKS, job, client, token, held_s = seconds(*held_us), "lock renewed");
        }
        What::Renewed { held_us, .. } => {
            tracing::debug!(target: LOCKS, job, client, token, held_s = seconds(*held_us), "lock renewed");
        }
        What::GraceBegan { held_us } => {
            tracing::info!(target: LOCKS, job, client, token, held_s = seconds(*held_us), "lock expired, grace begins");
        }
        What::GraceOver => {
            tracing::info!(target: LOCKS, job, client, token, "grace over, any client may take the lock");
        }
        What::Queued => tracing::info!(target: LOCKS, job, client, "waiting for the lock"),
        What::Ended { how, held_us, .. } => match (how, held_us) {
            (Ending::Released, Some(held_us)) => {
                tracing::info!(target: LOCKS, job, client, held_s = seconds(*held_us), "lock released");
            }
            (how, Some(held_us)) => {
                tracing::info!(target: LOCKS, job, client, ?how, held_s = seconds(*held_us), "lock ended");
            }
            (how, None) => tracing::info!(target: LOCKS, job, client, ?how, "stopped waiting for the lock"),
        },
        What::Paused { reason, .. } => tracing::info!(target: LOCKS, job, reason = &**reason, "lock paused"),
        What::Resumed { paused_us } => {
            tracing::info!(target: LOCKS, job, paused_s = seconds(*paused_us), "lock resumed");
        }
        What::Configured { .. } | What::Unconfigured | What::SlotServed { .. } => {}
    }
}

pub(super) fn quietly(effect: &Effect) {
    let kind = effect.resource.kind().as_str();
    let resource = match &effect.resource {
        ResourceKey::Pool(_) => None,
        ResourceKey::Claim(name) | ResourceKey::Lock(name) => Some(&**name),
    };
    let (slot, token) = (effect.grant.map(|grant| grant.slot), effect.grant.map(|grant| grant.token.0));
    match &effect.what {
        What::Granted { waited_us, .. } => {
            tracing::debug!(target: CLAIMS, kind, resource, slot, token, waited_s = seconds(*waited_us), "granted");
        }
        What::Renewed { held_us, .. } => {
            tracing::debug!(target: CLAIMS, kind, resource, token, held_s = seconds(*held_us), "renewed");
        }
        What::Queued => tracing::debug!(target: CLAIMS, kind, resource, "waiting"),
        What::Ended { how, held_us, .. } => {
            tracing::debug!(target: CLAIMS, kind, resource, ?how, held_s = held_us.map(seconds), "ended");
        }
        What::Configured { capacity } => tracing::debug!(target: CLAIMS, kind, resource, capacity, "configured"),
        What::Unconfigured => tracing::debug!(target: CLAIMS, kind, resource, "unconfigured"),
        What::Paused { reason, .. } => tracing::info!(target: CLAIMS, kind, resource, reason = &**reason, "paused"),
        What::Resumed { paused_us } => {
            tracing::info!(target: CLAIMS, kind, resource, paused_s = seconds(*paused_us), "resumed");
        }
        What::SlotServed { slot, out } => {
            let reason = out.as_deref();
            tracing::info!(target: CLAIMS, kind, resource, slot, is_out = out.is_some(), reason, "slot service changed");
        }
        What::GraceBegan { .. } | What::GraceOver => {}
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
