//! `GET /lock?wait=&after=`: a caller that looks out for a change of the lock. It says what it saw last, and is
//! answered as soon as the lock is otherwise, or after its time with the lock as it is. The engine knows nothing of it:
//! it sleeps until the ring has an event of the lock, and then reads the lock like any other caller.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use http::Response;
use leasehold_engine::{Command, Reply, Token};
use leasehold_journal::Denial;
use tokio::time::{Instant, sleep_until};

use super::show;
use super::wire::{LockState, Topic};
use crate::code::Code;
use crate::faces::{Service, ask, unserved};
use crate::http::{Body, Problem, RequestId};
use crate::limits::LOOKOUTS_MAX;

/// A caller that looks out.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) wait_us: u64,
    /// How the lock was when the caller saw it last; without it, how this call finds it.
    pub(super) last_seen: Option<LastSeen>,
    /// Where the caller is.
    pub(super) ip: IpAddr,
}

/// Everything about a lock that an answer waits for a change of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastSeen {
    /// No client holds it, and none is remembered.
    Free,
    Granted(Token, LockState),
}

impl LastSeen {
    /// The lock in a reply; `None` where there is none in it.
    fn of(reply: &Reply) -> Option<LastSeen> {
        match reply {
            Reply::Lock(view, _) => Some(
                view.holder
                    .as_ref()
                    .map_or(LastSeen::Free, |holder| LastSeen::Granted(holder.token, LockState::of(holder, view.now))),
            ),
            Reply::Place(place) => LastSeen::of(&place.seen),
            _ => None,
        }
    }

    /// A renewal changes nothing about it.
    fn is_held(self) -> bool {
        matches!(self, LastSeen::Granted(_, LockState::Held))
    }
}

pub(super) async fn look_out(
    service: &Service,
    topic: Topic,
    command: Command,
    watching: Watching,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let events = &service.observer.events;
    let until = Instant::now() + Duration::from_micros(watching.wait_us);
    let Some(lookout) = events.lookouts.stand(&topic.job, watching.ip) else {
        let reason = format!("the limit of {LOOKOUTS_MAX} callers that look out for a change of a lock is reached");
        return Err(Problem::unavailable(reason, 1).coded(Code::Overloaded));
    };
    let mut last_seen = watching.last_seen;
    loop {
        // It listens before it reads, so that no change in between goes unheard.
        let (mut changed, mut renewed) =
            (pin!(lookout.bells.changed.notified()), pin!(lookout.bells.renewed.notified()));
        changed.as_mut().enable();
        renewed.as_mut().enable();
        let is_over = until <= Instant::now();
        let (envelope, answer) = ask(&service.driver, command.clone().into(), id).await;
        let seen = answer.as_ref().ok().and_then(LastSeen::of);
        let sleeps = seen.is_some_and(|seen| *last_seen.get_or_insert(seen) == seen);
        if is_over || !sleeps {
            return envelope.word(|envelope| show(&topic, envelope, answer));
        }
        if events.is_closed() {
            return Err(unserved(Denial::ShuttingDown).expect_err("it is no refusal of the engine's"));
        }
        let _parked = lookout.park();
        let heeds_renewals = !seen.is_some_and(LastSeen::is_held);
        tokio::select! {
            () = changed => {}
            () = renewed, if heeds_renewals => {}
            () = sleep_until(until) => {}
        }
    }
}
