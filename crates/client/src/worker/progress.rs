//! Progress for a waiting caller: on change, at most once a second, from a plain look at the queue every ten seconds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Core;
use super::seek::Seek;
use super::wish::{OnProgress, Progress};
use crate::dialect::Look;
use crate::reply::Heard;
use crate::transport::Manner;

const FIRST_LOOK: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(1);

/// Never ends by itself.
pub(super) async fn tell(core: Arc<Core>, seek: Arc<Seek>, on_progress: Option<OnProgress>) {
    let Some(on_progress) = on_progress else { return std::future::pending().await };
    let begun = Instant::now();
    let mut next_look = begun + FIRST_LOOK;
    let mut told = Progress::default();
    let mut look = Look::default();
    let mut next_tick = begun + TICK;
    loop {
        tokio::select! {
            () = sleep_until(next_tick) => {}
            () = seek.changed.notified() => {}
        }
        next_tick = Instant::now() + TICK;
        if Instant::now() >= next_look {
            next_look = Instant::now() + LOOK;
            if let Some(seen) = look_at(&core, &seek).await {
                look = seen;
            }
        }
        let progress = Progress {
            elapsed: begun.elapsed(),
            places_lost: seek.places_lost.load(Ordering::SeqCst),
            queue_position: look.queue_position,
            holders: look.holders.clone(),
            waiting: look.waiting,
            eta: look.eta,
        };
        let is_news = Progress { elapsed: told.elapsed, ..progress.clone() } != told;
        if is_news || told.elapsed.is_zero() {
            told = progress.clone();
            let on_progress = Arc::clone(&on_progress);
            let _ = tokio::task::spawn_blocking(move || on_progress(progress)).await;
        }
    }
}

async fn look_at(core: &Core, seek: &Seek) -> Option<Look> {
    let ask = seek.ask();
    let call = ask.look(seek.claim().as_deref())?;
    match core.transport.call(&call, Manner::PLAIN).await {
        Heard::Reply(reply) if reply.is_success() => Some(ask.read_look(&reply)),
        _ => None,
    }
}
