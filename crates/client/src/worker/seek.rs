//! The search for a lease under one name: calls that wait in rounds, each joining the place of the one before, until
//! one is granted. Claims stand in their queue by themselves; pools and locks keep a place as long as a call that
//! joined it and a little longer (`KEEP`), so the next round begins before the last one ends.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::keep::{Meaning, renew};
use super::wish::Wish;
use super::{Core, factor};
use crate::clock::Moment;
use crate::dialect::{Ask, Grant, KEEP, Kind, claim_round};
use crate::error::{Error, Holder};
use crate::reply::{Heard, Reply};
use crate::table::{Again, Asked, Pause, asked};
use crate::terms::{Terms, backoff};
use crate::transport::Manner;

/// So long before a round ends the next one begins.
const OVERLAP: Duration = Duration::from_secs(5);
/// A caller that asks once still settles an unknown outcome, for so long.
const ONCE: Duration = Duration::from_secs(5);
/// A call that lasted longer than this stood in a queue.
const PARKED: Duration = Duration::from_millis(100);

/// How a search ended.
#[derive(Debug)]
pub(super) enum Sought {
    Granted {
        grant: Grant,
        terms: Terms,
    },
    /// It was granted and ended unheard.
    Ended,
    Failed(Error),
    TimeOver,
    GivenUp,
}

/// The knowledge while it goes on; settling needs it after it was cut off.
#[derive(Debug)]
pub(super) struct Seek {
    state: Mutex<Seeking>,
    pub(super) places_lost: AtomicU32,
    /// There is something to tell.
    pub(super) changed: Notify,
    started: Moment,
}

#[derive(Debug)]
struct Seeking {
    ask: Ask,
    /// The id of the claim, once it is known.
    claim: Option<String>,
    /// A call may have reached the service: giving up has to undo it.
    is_open: bool,
    /// The last obstacle.
    last_error: Option<Error>,
    last_holder: Option<Holder>,
    /// `true` once the service has answered.
    is_reached: bool,
}

impl Seek {
    pub(super) fn new(ask: Ask, started: Moment) -> Seek {
        let state =
            Seeking { ask, claim: None, is_open: false, last_error: None, last_holder: None, is_reached: false };
        Seek { state: Mutex::new(state), places_lost: AtomicU32::new(0), changed: Notify::new(), started }
    }

    pub(super) fn begin_afresh(&self, ask: Ask) {
        let mut state = self.state();
        state.ask = ask;
        state.claim = None;
        state.is_open = false;
    }

    pub(super) fn ask(&self) -> Ask {
        self.state().ask.clone()
    }

    pub(super) fn claim(&self) -> Option<String> {
        self.state().claim.clone()
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().is_open
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Seeking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) {
        self.state().is_open = true;
    }

    fn heard(&self, heard: &Heard) {
        if matches!(heard, Heard::Reply(_)) {
            self.state().is_reached = true;
        }
    }

    /// The error for a caller whose time is over.
    pub(super) fn out_of_time(&self, wish: &Wish) -> Error {
        let state = self.state();
        match (&state.last_holder, &state.last_error) {
            (Some(holder), _) if wish.asks_once() => Error::Conflict(holder.clone()),
            (None, Some(error)) if wish.asks_once() || !state.is_reached => error.clone(),
            (_, error) => {
                let cause = error.as_ref().map(ToString::to_string);
                let cause = cause.or_else(|| state.last_holder.as_ref().map(ToString::to_string));
                Error::Timeout { resource: wish.target.to_string(), cause }
            }
        }
    }

    /// Remembers why it was not carried out; says whether to give up.
    fn gives_up(&self, core: &Core, wish: &Wish, again: &Again) -> Option<Error> {
        let mut state = self.state();
        state.last_error = Some(again.error.clone());
        let elapsed = core.clock.now().since(self.started);
        let is_over = match (wish.asks_once(), again.is_unknown) {
            (true, true) => elapsed >= ONCE,
            (true, false) => true,
            (false, _) => !state.is_reached && wish.unreachable_after.is_some_and(|limit| elapsed >= limit),
        };
        is_over.then(|| again.error.clone())
    }
}

pub(super) async fn seek(core: &Arc<Core>, wish: &Wish, seek: &Arc<Seek>) -> Sought {
    match wish.target.kind() {
        Kind::Claim => seek_claim(core, wish, seek).await,
        Kind::Lock | Kind::Pool => seek_place(core, wish, seek).await,
    }
}

/// Pools and locks: rounds that overlap.
async fn seek_place(core: &Arc<Core>, wish: &Wish, seek: &Arc<Seek>) -> Sought {
    let ask = seek.ask();
    let call = ask.acquire();
    let mut flights: JoinSet<(Moment, Heard)> = JoinSet::new();
    let mut failures = 0;
    // Less than requested where the service waits for less.
    let mut round = ask.wait;
    let mut round_began = core.clock.now();
    // Since when no call of ours is at the service, which keeps the place for a while.
    let mut away_since: Option<Moment> = None;
    loop {
        let overlap = OVERLAP.min(round / 2);
        let next_at = round_began + round.saturating_sub(overlap);
        let now = core.clock.now();
        if flights.is_empty() || (flights.len() == 1 && !round.is_zero() && now >= next_at) {
            seek.opened();
            round_began = now;
            if flights.is_empty() && away_since.is_some_and(|since| now.since(since) > KEEP) {
                seek.lose_place();
                away_since = Some(now);
            }
            let (core, call, wait) = (Arc::clone(core), call.clone(), ask.wait);
            flights.spawn(async move {
                let sent_at = core.clock.now();
                (sent_at, core.transport.call(&call, Manner::poll(wait)).await)
            });
        }
        let next_at = round_began + round.saturating_sub(overlap);
        let until_next = next_at.since(core.clock.now()).min(Duration::from_secs(1));
        let joined = tokio::select! {
            joined = flights.join_next() => joined,
            () = sleep(until_next), if flights.len() == 1 && !round.is_zero() => continue,
        };
        let Some(Ok((sent_at, heard))) = joined else { continue };
        seek.heard(&heard);
        let took = core.clock.now().since(sent_at);
        if matches!(heard, Heard::Reply(_)) {
            failures = 0;
        }
        if took > PARKED {
            // It stood in line until now.
            away_since = None;
        }
        match (asked(&ask.target, &heard), &heard) {
            (Asked::Granted, Heard::Reply(reply)) => {
                let Some(grant) = ask.read_grant(reply) else {
                    return Sought::Failed(Error::Protocol(reply.trouble()));
                };
                drain(core, &ask, &grant, flights);
                return confirm(core, &ask, grant, sent_at).await;
            }
            (Asked::NextRound(holder), _) => {
                seek.state().last_holder = Some(holder);
                if wish.asks_once() {
                    return Sought::TimeOver;
                }
                if took + Duration::from_secs(1) < round {
                    round = took.max(Duration::from_millis(500));
                }
                if flights.is_empty() && took < Duration::from_millis(250) {
                    sleep(backoff(3, factor())).await;
                }
            }
            (Asked::Ended, _) => return Sought::Ended,
            (Asked::Fail(error), _) => return Sought::Failed(error),
            (Asked::Again(again), _) => {
                if let Some(error) = seek.gives_up(core, wish, &again) {
                    return Sought::Failed(error);
                }
                if flights.is_empty() {
                    // One that was sent and cut off soon may have had a place, too.
                    if took > PARKED || (again.is_unknown && away_since.is_none()) {
                        away_since = Some(core.clock.now());
                    }
                    failures += 1;
                    sleep(pause(again.pause, failures)).await;
                }
            }
            (Asked::Granted | Asked::Waiting, _) => {
                return Sought::Failed(strange(&heard));
            }
        }
    }
}

/// Claims: made once, then asked for in rounds.
async fn seek_claim(core: &Arc<Core>, wish: &Wish, seek: &Arc<Seek>) -> Sought {
    let ask = seek.ask();
    let mut failures = 0;
    loop {
        let claim = seek.claim();
        let (call, manner) = match &claim {
            None => (ask.acquire(), Manner::PLAIN),
            Some(id) => (claim_round(id, ask.wait, ask.ttl), Manner::poll(ask.wait)),
        };
        seek.opened();
        let sent_at = core.clock.now();
        let heard = core.transport.call(&call, manner).await;
        seek.heard(&heard);
        if matches!(heard, Heard::Reply(_)) {
            failures = 0;
        }
        match (asked(&ask.target, &heard), &heard) {
            (Asked::Granted, Heard::Reply(reply)) => {
                let Some(grant) = ask.read_grant(reply) else {
                    return Sought::Failed(Error::Protocol(reply.trouble()));
                };
                return confirm(core, &ask, grant, sent_at).await;
            }
            (Asked::Waiting, Heard::Reply(reply)) => {
                let Some(id) = reply.text("id") else { return Sought::Failed(Error::Protocol(reply.trouble())) };
                seek.state().claim = Some(id.to_owned());
                seek.changed.notify_one();
                if wish.asks_once() {
                    seek.state().last_holder = Some(waits_behind(&ask, reply));
                    return Sought::TimeOver;
                }
            }
            (Asked::NextRound(holder), _) => {
                seek.state().last_holder = Some(holder);
                // Where the service waits for less than requested.
                if core.clock.now().since(sent_at) < Duration::from_millis(250) {
                    sleep(backoff(3, factor())).await;
                }
            }
            (Asked::Ended, _) => return Sought::Ended,
            (Asked::Fail(error), _) => return Sought::Failed(error),
            (Asked::Again(again), _) => {
                if let Some(error) = seek.gives_up(core, wish, &again) {
                    return Sought::Failed(error);
                }
                failures += 1;
                sleep(pause(again.pause, failures)).await;
            }
            (Asked::Granted | Asked::Waiting, _) => return Sought::Failed(strange(&heard)),
        }
    }
}

/// A grant that was waited for is renewed once, as its time of sending is long past; its caller gets it then.
async fn confirm(core: &Arc<Core>, ask: &Ask, grant: Grant, sent_at: Moment) -> Sought {
    let heard_at = core.clock.now();
    let took = heard_at.since(sent_at);
    let mut terms = Terms::new(sent_at, grant.length);
    if took <= terms.confirm_after() {
        return Sought::Granted { grant, terms };
    }
    // The service tells how long this very call waited.
    if let Some(waited) = grant.waited {
        terms.sent_at = (sent_at + waited).min(heard_at);
        if heard_at < terms.at_risk() {
            return Sought::Granted { grant, terms };
        }
    }
    let gives_up_at = heard_at + grant.length;
    let mut failures = 0;
    while core.clock.now() < gives_up_at {
        let outcome = renew(Arc::clone(core), grant.id.clone(), grant.token, ask.ttl, terms, failures > 0).await;
        match outcome.meaning() {
            (sent_at, Meaning::Held(length)) => {
                return Sought::Granted { grant, terms: Terms::new(sent_at, length) };
            }
            (_, Meaning::Ended(_)) => return Sought::Ended,
            (_, Meaning::Anew(token)) => {
                let call = grant.id.release(token);
                core.transport.call(&call, Manner::PLAIN).await;
                return Sought::Ended;
            }
            (_, Meaning::Failed { retry_after, .. }) => {
                failures += 1;
                let pause = terms.retry_pause(failures, factor());
                sleep(retry_after.map_or(pause, |asked| asked.min(ask.ttl / 10))).await;
            }
        }
    }
    Sought::Ended
}

/// The call of the round before hears of the same lease. If it got one of its own, that is given back.
fn drain(core: &Arc<Core>, ask: &Ask, granted: &Grant, mut flights: JoinSet<(Moment, Heard)>) {
    if flights.is_empty() {
        return;
    }
    let (core, ask, token) = (Arc::clone(core), ask.clone(), granted.token);
    let busy = core.busy();
    tokio::spawn(async move {
        while let Ok(Some(joined)) = timeout(Duration::from_secs(2), flights.join_next()).await {
            if let Ok((_, Heard::Reply(reply))) = joined
                && let Some(other) = ask.read_grant(&reply)
                && other.token != token
            {
                core.transport.call(&other.id.release(other.token), Manner::PLAIN).await;
            }
        }
        drop(busy);
    });
}

fn pause(pause: Pause, failures: u32) -> Duration {
    match pause {
        Pause::Backoff => backoff(failures, factor()),
        Pause::After(span) => span + Duration::from_secs(1).mul_f64(factor()),
    }
}

fn waits_behind(ask: &Ask, reply: &Reply) -> Holder {
    let look = ask.read_look(reply);
    Holder {
        resource: ask.target.to_string(),
        name: look.holders.first().cloned(),
        reason: "others hold it".into(),
        request_id: reply.request_id.clone(),
    }
}

/// An answer that no call of ours can have.
fn strange(heard: &Heard) -> Error {
    match heard {
        Heard::Reply(reply) => Error::Protocol(reply.trouble()),
        Heard::NotSent(trouble)
        | Heard::WrongHost(trouble)
        | Heard::Tls(trouble)
        | Heard::OtherService(trouble)
        | Heard::Unknown { trouble, .. } => Error::Unavailable(trouble.clone()),
    }
}
