//! `GET /v1/observe/series`: the last ten minutes, second by second, a column a figure.

use leasehold_engine::{Totals, Wall};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::to_bytes;
use crate::http::json::value::Seconds;
use crate::watch::Observer;
use crate::watch::series::{Bucket, STEP_S, Window};

/// The last ten minutes, second by second, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Series {
    step_s: u64,
    from_unix: u64,
    grants: Vec<u32>,
    waits: Vec<u32>,
    renewals: Vec<u32>,
    expiries: Vec<u32>,
    ended: Vec<u32>,
    wait_p50_s: Vec<Option<Seconds>>,
    wait_p99_s: Vec<Option<Seconds>>,
    holders: Vec<u32>,
    waiters: Vec<u32>,
}

pub(super) fn answer(observer: &Observer, now: Wall, totals: &Totals) -> Vec<u8> {
    let Window(window) = observer.events.window(now, totals);
    let counts = |count: fn(&Bucket) -> u32| window.iter().map(count).collect();
    let waits = |part| window.iter().map(|bucket| bucket.percentile_us(part).map(Seconds)).collect();
    to_bytes(&Series {
        step_s: STEP_S,
        from_unix: window.first().map_or(0, |bucket| bucket.second),
        grants: counts(|bucket| bucket.grants),
        waits: counts(|bucket| bucket.waits),
        renewals: counts(|bucket| bucket.renewals),
        expiries: counts(|bucket| bucket.expiries),
        ended: counts(|bucket| bucket.ended),
        wait_p50_s: waits(50),
        wait_p99_s: waits(99),
        holders: counts(|bucket| bucket.holders),
        waiters: counts(|bucket| bucket.waiters),
    })
}
