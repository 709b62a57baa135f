//! `GET /v1/observe/series`: the last ten minutes, second by second, a column a figure.

use leasehold_engine::{Totals, Wall};

use crate::http::json::write::{Object, write_seconds};
use crate::watch::Observer;
use crate::watch::series::{Bucket, STEP_S, Window};

pub(super) fn answer(observer: &Observer, now: Wall, totals: &Totals) -> Vec<u8> {
    let Window(window) = observer.events.window(now, totals);
    let mut object = Object::new();
    object.integer("step_s", STEP_S).integer("from_unix", window.first().map_or(0, |bucket| bucket.second));
    let mut column = |name: &str, value: fn(&Bucket) -> Option<u64>, write: fn(&mut Vec<u8>, u64)| {
        let bytes = object.name(name);
        bytes.push(b'[');
        for (nth, bucket) in window.iter().enumerate() {
            if nth > 0 {
                bytes.push(b',');
            }
            match value(bucket) {
                Some(value) => write(bytes, value),
                None => bytes.extend_from_slice(b"null"),
            }
        }
        bytes.push(b']');
    };
    let count: fn(&mut Vec<u8>, u64) =
        |bytes, value| bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    column("grants", |bucket| Some(bucket.grants.into()), count);
    column("waits", |bucket| Some(bucket.waits.into()), count);
    column("renewals", |bucket| Some(bucket.renewals.into()), count);
    column("expiries", |bucket| Some(bucket.expiries.into()), count);
    column("ended", |bucket| Some(bucket.ended.into()), count);
    column("wait_p50_s", |bucket| bucket.percentile_us(50), write_seconds);
    column("wait_p99_s", |bucket| bucket.percentile_us(99), write_seconds);
    column("holders", |bucket| Some(bucket.holders.into()), count);
    column("waiters", |bucket| Some(bucket.waiters.into()), count);
    object.end()
}
