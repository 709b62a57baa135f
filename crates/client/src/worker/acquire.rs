//! One acquisition from the caller's wish to a confirmed lease. A lease that ended before the caller heard of it is
//! asked for afresh under a new name; a caller that gives up, or whose time is over, leaves nothing behind (`settle`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::held::{Held, Offer};
use super::seek::{Seek, Sought, seek};
use super::wish::Wish;
use super::{Core, factor, keep, progress, settle};
use crate::clock::Moment;
use crate::error::Error;
use crate::terms::backoff;

/// Runs until a lease is held, or it failed; ends early when `given_up` resolves.
pub(crate) async fn acquire(
    core: Arc<Core>,
    wish: Wish,
    mut given_up: oneshot::Receiver<()>,
) -> Result<Arc<Held>, Error> {
    // Closing waits until acquisitions that were given up are undone.
    let _busy = core.busy();
    let started = core.clock.now();
    let seek_state = Arc::new(Seek::new(wish.ask(), started));
    let telling = progress::tell(Arc::clone(&core), Arc::clone(&seek_state), wish.on_progress.clone());
    tokio::pin!(telling);
    let mut ended = 0;
    loop {
        let sought = tokio::select! {
            sought = seek(&core, &wish, &seek_state) => sought,
            () = time_over(&core, &wish, started) => Sought::TimeOver,
            _ = &mut given_up => Sought::GivenUp,
            () = core.closed() => Sought::GivenUp,
            () = &mut telling => unreachable!("telling goes on for ever"),
        };
        match sought {
            Sought::Granted { grant, terms } => {
                let Wish { ttl, max_hold, persists, on_notice, tells_renewals, .. } = wish;
                return Ok(keep::hold(
                    &core,
                    Offer { grant, terms, ttl, max_hold, persists, on_notice, tells_renewals },
                ));
            }
            Sought::Ended => {
                ended += 1;
                seek_state.lose_place();
                sleep(backoff(ended, factor())).await;
                seek_state.begin_afresh(wish.ask());
            }
            Sought::Failed(error) => {
                settle::begin(&core, &seek_state);
                return Err(error);
            }
            Sought::GivenUp => {
                settle::begin(&core, &seek_state);
                return Err(Error::Closed);
            }
            Sought::TimeOver => {
                settle::begin(&core, &seek_state);
                return Err(seek_state.out_of_time(&wish));
            }
        }
    }
}

/// Zero is no end of time: a caller that asks once waits for the answer.
async fn time_over(core: &Core, wish: &Wish, started: Moment) {
    let Some(timeout) = wish.timeout.filter(|timeout| !timeout.is_zero()) else {
        return std::future::pending().await;
    };
    let over = started + timeout;
    loop {
        let left = over.since(core.clock.now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(Duration::from_secs(1))).await;
    }
}

impl Seek {
    pub(super) fn lose_place(&self) {
        self.places_lost.fetch_add(1, Ordering::SeqCst);
        tracing::debug!(target = %self.ask().target, "place in the queue lost");
        self.changed.notify_one();
    }
}
