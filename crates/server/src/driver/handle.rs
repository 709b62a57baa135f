//! Calls to the partition from async code. A caller that goes away while it waits is an ordered command like any other.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use leasehold_engine::{ClaimId, Command, Reply, Time, Totals, Wall};
use leasehold_journal::{Callers, Clocks, Denial, Epoch, Position, Request, Ticket};

use super::Shared;
use crate::sync::oneshot;

/// An answer, with its place in the order of things.
#[derive(Debug)]
pub struct Answered {
    pub answer: Result<Reply, Denial>,
    pub epoch: Epoch,
    pub position: Position,
    /// The claim that this answer tells its caller of: if the answer cannot be delivered, hand it back.
    pub(crate) untold: Option<ClaimId>,
}

/// The entrance for requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Handle { shared }
    }

    /// Submits the request at once. The returned future waits for the durable answer, and withdraws the request if it
    /// is dropped before. It holds nothing else: an `async fn` would keep the request for as long as its caller is
    /// parked.
    pub fn call(&self, request: impl Into<Request>) -> Listening<'_> {
        let (to, answered) = oneshot::channel();
        let (ticket, asked_at, leaving) = {
            let mut inner = self.shared.lock();
            let clocks = self.shared.clock.read();
            let ticket = inner.partition.submit(clocks, request.into(), to);
            let asked_at = inner.partition.service_time();
            (ticket, asked_at, self.shared.after_change(&mut inner))
        };
        let listening = Listening { shared: &self.shared, ticket, asked_at, answered, is_over: false };
        self.shared.deliver(leaving);
        listening
    }

    /// An answer was made and could not be delivered: its claim is handed back, unless another caller knows of it.
    pub(crate) fn hand_back(&self, untold: ClaimId) {
        let leaving = self.shared.hand_back(&[untold]);
        self.shared.deliver(leaving);
    }

    /// Returns whether changes become durable: makes one, of the smallest kind, and waits for it.
    pub async fn is_ready(&self) -> bool {
        self.call(Command::Mark).await.answer.is_ok()
    }

    /// Everything up to here is durable: the position of an answer that depends on nothing.
    pub fn durable(&self) -> (Epoch, Position) {
        (self.shared.epoch, Position(self.shared.durable.load(Ordering::Relaxed)))
    }

    /// The wall clock's reading, for people.
    pub fn wall(&self) -> Wall {
        self.shared.clock.read().wall
    }

    /// With a manual clock: lets this much time pass while the service runs, handling all deadlines on the way.
    pub fn advance(&self, duration_us: u64) {
        let mut left_us = duration_us;
        loop {
            let (leaving, step_us) = {
                let mut inner = self.shared.lock();
                let clocks = self.shared.clock.read();
                inner.partition.tick(clocks);
                let wake_us = inner.partition.next_wake().unwrap_or(u64::MAX);
                (self.shared.after_change(&mut inner), wake_us.saturating_sub(clocks.mono_us).min(left_us))
            };
            self.shared.deliver(leaving);
            if left_us == 0 {
                return;
            }
            self.shared.clock.advance(step_us);
            left_us -= step_us;
        }
    }

    /// The resource and the owner of a claim. Neither changes in its life, so a command may be authorised by them; but
    /// an answer about the claim has to come through the gate.
    pub(crate) fn owner_of(&self, claim: ClaimId) -> Option<(Arc<str>, Option<Arc<str>>)> {
        self.shared.lock().partition.engine().owner_of(claim)
    }

    /// For modules that do not deal with leases.
    pub(crate) fn now(&self) -> leasehold_auth::Now {
        let Clocks { mono_us, wall } = self.shared.clock.read();
        leasehold_auth::Now { unix_s: wall.0 / 1_000_000, mono_us }
    }

    /// Returns whether no append is under way or due, and every answer that could leave has left.
    pub fn is_at_rest(&self) -> bool {
        self.shared.lock().partition.is_at_rest()
    }

    pub fn totals(&self) -> Totals {
        self.shared.lock().partition.totals()
    }

    pub fn callers(&self) -> Callers {
        self.shared.lock().partition.callers()
    }

    /// The partition's figures for metrics, in one look.
    pub(crate) fn readings(&self) -> Readings {
        let inner = self.shared.lock();
        let now_us = self.shared.clock.mono_us();
        let oldest_us = inner.partition.oldest_held_mono_us();
        Readings {
            totals: inner.partition.totals(),
            callers: inner.partition.callers(),
            oldest_held_us: oldest_us.map_or(0, |oldest_us| now_us.saturating_sub(oldest_us)),
            uncharged_us: inner.partition.uncharged_us(),
            epoch: self.shared.epoch,
        }
    }
}

/// The partition in figures, as metrics show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings {
    pub(crate) totals: Totals,
    pub(crate) callers: Callers,
    /// How long the oldest answer has been waiting for the store.
    pub(crate) oldest_held_us: u64,
    /// How far service time fell behind the clock.
    pub(crate) uncharged_us: u64,
    pub(crate) epoch: Epoch,
}

/// A caller on the line. Dropping it early tells the partition that the caller left.
#[derive(Debug)]
#[must_use = "dropping it withdraws what was asked"]
pub struct Listening<'a> {
    shared: &'a Shared,
    ticket: Option<Ticket>,
    /// Service time when it called, to compute how long it waited.
    pub(crate) asked_at: Time,
    answered: oneshot::Receiver<Answered>,
    is_over: bool,
}

impl Future for Listening<'_> {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answered> {
        let answered = ready!(Pin::new(&mut self.answered).poll(cx));
        self.is_over = true;
        // The sender is dropped unanswered only when the store failed; the process is about to end.
        Poll::Ready(answered.unwrap_or(Answered {
            answer: Err(Denial::ShuttingDown),
            epoch: Epoch(0),
            position: Position(0),
            untold: None,
        }))
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Close first: from here on a late answer cannot be sent, and the sender hands it back.
        self.answered.close();
        match (self.answered.try_recv(), self.ticket) {
            (Ok(answered), _) => {
                if let Some(claim) = answered.untold {
                    let leaving = self.shared.hand_back(&[claim]);
                    self.shared.deliver(leaving);
                }
            }
            (Err(_), Some(ticket)) => {
                let leaving = {
                    let mut inner = self.shared.lock();
                    let clocks = self.shared.clock.read();
                    inner.partition.leave(clocks, ticket);
                    self.shared.after_change(&mut inner)
                };
                self.shared.deliver(leaving);
            }
            (Err(_), None) => {}
        }
    }
}
