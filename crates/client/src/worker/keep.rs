//! Renews a lease until it is lost or released: carries out the actions of its watch. One attempt at a time; while it
//! is under way the clock goes on deciding.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::held::{Held, Offer};
use super::{Core, factor};
use crate::clock::Moment;
use crate::dialect::{Id, Match};
use crate::error::Error;
use crate::loss::{Cause, Loss};
use crate::reply::{Heard, Trouble};
use crate::table::{Renewed, renewed};
use crate::terms::Terms;
use crate::transport::Manner;
use crate::watch::Step;

/// While a lease is held no timer sleeps for longer: timers stop with the machine.
const SLICE: Duration = Duration::from_secs(1);
/// The most attempts of a single renewal.
const ATTEMPTS: u32 = 4;

type Attempt = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub(super) struct Outcome {
    sent_at: Moment,
    meaning: Meaning,
}

pub(super) enum Meaning {
    Held(Duration),
    Ended(Cause),
    /// A lock that was granted anew by accident has to be given back.
    Anew(u64),
    Failed {
        error: String,
        retry_after: Option<Duration>,
    },
}

/// Begins to renew. On the worker's thread.
pub(crate) fn hold(core: &Arc<Core>, offer: Offer) -> Arc<Held> {
    let held = Arc::new(Held::new(offer));
    held.set_renewer(tokio::spawn(keep(Arc::clone(core), Arc::downgrade(&held))));
    core.remember(&held);
    held
}

/// Holds its lease weakly, so that a lease that was dropped is renewed no further.
async fn keep(core: Arc<Core>, held: Weak<Held>) {
    let mut attempt: Option<Attempt> = None;
    let mut is_fresh = false;
    loop {
        let Some(lease) = held.upgrade() else { return };
        let now = core.clock.now();
        let step = lease.watch().poll(now);
        match step {
            Step::Send => {
                let (id, terms) = (lease.id.clone(), lease.watch().terms());
                attempt = Some(Box::pin(renew(Arc::clone(&core), id, lease.token, lease.ttl, terms, is_fresh)));
            }
            Step::AtRisk => lease.tell_at_risk(),
            Step::Lose => {
                lease.tell_lost(&core);
                if !lease.persists || lease.watch().loss(now).is_some_and(|cause| cause.is_told_by_service()) {
                    // It may still be held at the service: one release, best effort. Not from here, as it ends this
                    // task.
                    let core = Arc::clone(&core);
                    tokio::spawn(async move { lease.release(&core, super::SETTLE).await });
                    return;
                }
            }
            Step::End => return,
            Step::Wait(until) => {
                drop(lease);
                let nap = tokio::time::sleep(until.since(now).min(SLICE));
                let running = async {
                    match &mut attempt {
                        Some(running) => running.await,
                        None => std::future::pending().await,
                    }
                };
                let outcome = tokio::select! {
                    outcome = running => Some(outcome),
                    () = nap => None,
                };
                let (Some(outcome), Some(lease)) = (outcome, held.upgrade()) else { continue };
                attempt = None;
                is_fresh = matches!(outcome.meaning, Meaning::Failed { .. });
                handle(&core, &lease, outcome);
            }
        }
    }
}

fn handle(core: &Arc<Core>, lease: &Arc<Held>, Outcome { sent_at, meaning }: Outcome) {
    let now = core.clock.now();
    match meaning {
        Meaning::Held(length) => {
            let terms = Terms::new(sent_at, length);
            let is_held = lease.watch().handle_renewed(now, terms, factor());
            if is_held {
                lease.tell_renewed(terms);
            }
        }
        Meaning::Ended(cause) => lease.watch().handle_ended(cause),
        Meaning::Anew(token) => {
            lease.watch().handle_ended(Cause::Expired);
            let (call, core) = (lease.id.release(token), Arc::clone(core));
            let busy = core.busy();
            tokio::spawn(async move {
                core.transport.call(&call, Manner::PLAIN).await;
                drop(busy);
            });
        }
        Meaning::Failed { error, retry_after } => {
            tracing::debug!(lease = %lease.id, error, "renewal failed");
            lease.watch().handle_failed(now, error, retry_after, factor());
        }
    }
}

/// One attempt.
pub(super) async fn renew(core: Arc<Core>, id: Id, token: u64, ttl: Duration, terms: Terms, is_fresh: bool) -> Outcome {
    let sent_at = core.clock.now();
    let call = id.renew(token, ttl);
    let heard = core.transport.call(&call, Manner::renewal(terms.attempt_timeout(), is_fresh)).await;
    Outcome { sent_at, meaning: understand(&core, &id, token, ttl, &heard) }
}

/// Several attempts, for a caller that does not renew in the background.
pub(crate) async fn renew_once(core: &Arc<Core>, id: &Id, token: u64, ttl: Duration) -> Result<Terms, Error> {
    let lost = |cause| Error::Lost(Loss { resource: id.to_string(), token, cause, last_error: None });
    let mut reason = String::new();
    for attempt in 0..ATTEMPTS {
        let terms = Terms::new(core.clock.now(), ttl);
        let outcome = renew(Arc::clone(core), id.clone(), token, ttl, terms, attempt > 0).await;
        match outcome.meaning {
            Meaning::Held(length) => return Ok(Terms::new(outcome.sent_at, length)),
            Meaning::Ended(cause) => return Err(lost(cause)),
            Meaning::Anew(token) => {
                core.transport.call(&id.release(token), Manner::PLAIN).await;
                return Err(lost(Cause::Expired));
            }
            Meaning::Failed { error, .. } => {
                reason = error;
                tokio::time::sleep(terms.retry_pause(attempt + 1, factor())).await;
            }
        }
    }
    let url = core.transport.addresses()[0].to_string();
    Err(Error::Unavailable(Trouble { message: reason, url, request_id: String::new() }))
}

impl Outcome {
    pub(super) fn meaning(self) -> (Moment, Meaning) {
        (self.sent_at, self.meaning)
    }
}

fn understand(core: &Core, id: &Id, token: u64, ttl: Duration, heard: &Heard) -> Meaning {
    let failed =
        |trouble: Trouble, why: &str| Meaning::Failed { error: format!("{trouble}: {why}"), retry_after: None };
    if let Heard::Reply(reply) = heard
        && core.transport.is_of_the_past(reply)
    {
        return failed(reply.trouble(), "the answer is of an earlier reign of the service");
    }
    match (renewed(id.kind(), heard), heard) {
        (Renewed::Held, Heard::Reply(reply)) => match id.read_renewal(token, ttl, reply) {
            Match::Ours(length) => Meaning::Held(length),
            Match::Anew(token) => Meaning::Anew(token),
            Match::Foreign => failed(reply.trouble(), "the answer is about something else"),
        },
        (Renewed::Lost(cause), _) => Meaning::Ended(cause),
        (Renewed::Failed { error, retry_after }, _) => Meaning::Failed { error, retry_after },
        (Renewed::Held, _) => Meaning::Failed { error: "no answer".into(), retry_after: None },
    }
}
