//! `GET /v1/observe/service`: which version runs, since when, and where it keeps its data. For the head of the
//! dashboard, and for people who wonder whether they look at the right one.

use leasehold_engine::Wall;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::to_bytes;
use crate::http::json::value::FloatSeconds;
use crate::watch::Observer;

/// The service itself.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObservedService<'a> {
    /// The same as in `Leasehold-Service`.
    service: &'a str,
    version: &'static str,
    started_unix: FloatSeconds,
    uptime_s: FloatSeconds,
    /// `sqlite`, or `memory`, which is gone with the process.
    store: &'static str,
}

pub(super) fn answer(observer: &Observer, store: &'static str, now: Wall) -> Vec<u8> {
    let started = observer.metrics.process.started();
    to_bytes(&ObservedService {
        service: &observer.digester().service(),
        version: env!("CARGO_PKG_VERSION"),
        started_unix: FloatSeconds(started.0),
        uptime_s: FloatSeconds(now.0.saturating_sub(started.0)),
        store,
    })
}
