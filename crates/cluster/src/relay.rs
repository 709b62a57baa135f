//! The relay of a node: it stands for the callers that came to this node, and asks the owners of partitions on their
//! behalf, its own node's partitions included. It sends a call again under the same id, as often as owners change, but
//! only where asking twice is asking once (rule C6), and it hands back what it gave up on until that is durable.
//!
//! ```text
//! call ─▶ unsent ─▶ sent ─┬─▶ answered
//!            ▲            ├─▶ Moved: nothing was done ──────────────┐
//!            │            └─▶ link lost, Lost, another owner        │
//!            │                     ├─ repeatable ───────────────────┤
//!            └─────────────────────┼────────────────────────────────┘
//!                                  └─ else in doubt: one second for a word, then Lost
//! ```

use std::collections::BTreeMap;

use leasehold_engine::{ClaimId, Command, Patience, Time, Wish, planted};
use leasehold_journal::{Denial, Epoch, Position, Request};

use crate::hash::claim_id;
use crate::message::{AskAnswer, Message, PeerAddress};

/// How long a call waits for a partition to have an owner.
const FORWARD_WAIT_US: u64 = 5_000_000;
/// How long a call in doubt waits for a word.
const DOUBT_US: u64 = 1_000_000;
/// After `Moved`, the owner that the map names may not serve yet.
const AGAIN_US: u64 = 20_000;
/// The hand-backs that may be open for one partition: with more, nothing new is sent there.
const HAND_BACKS_MAX: usize = 4_096;

/// The way to the owner of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: PeerAddress,
    pub(crate) epoch: Epoch,
    /// The number of the link; `None` while there is none.
    pub(crate) link: Option<u64>,
}

#[derive(Clone, Debug)]
struct Call {
    /// The caller; `None` for a hand-back.
    caller: Option<u64>,
    request: Request,
    partition: u32,
    began_us: u64,
    /// The way that the latest sending took, while its answer may come.
    sent: Option<Route>,
    sending: u64,
    sent_at_us: u64,
    /// When the first sending left whose outcome is unknown.
    unknown_since_us: Option<u64>,
    /// Since when it has not been on its way.
    unsent_since_us: u64,
    not_before_us: u64,
    doubt_since_us: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum RelayOut {
    Send(PeerAddress, Message),
    Answer(u64, AskAnswer),
}

#[derive(Debug, Default)]
pub(crate) struct Relay {
    calls: BTreeMap<u64, Call>,
    asks: BTreeMap<u64, u64>,
    routes: BTreeMap<u32, Route>,
    next_ask: u64,
    hand_backs: BTreeMap<u32, usize>,
}

impl Relay {
    /// Numbers begin at random, so that those of an earlier process of this address are others.
    pub(crate) fn new(first_ask: u64) -> Self {
        Relay { next_ask: first_ask, ..Relay::default() }
    }

    pub(crate) fn call(&mut self, now_us: u64, caller: u64, partition: u32, request: Request, out: &mut Vec<RelayOut>) {
        if self.hand_backs.get(&partition).is_some_and(|open| *open >= HAND_BACKS_MAX) {
            out.push(RelayOut::Answer(caller, denied(Denial::Overloaded)));
            return;
        }
        let ask = self.add(now_us, Some(caller), partition, request);
        self.asks.insert(caller, ask);
        self.send(now_us, ask, out);
    }

    fn add(&mut self, now_us: u64, caller: Option<u64>, partition: u32, request: Request) -> u64 {
        self.next_ask = self.next_ask.wrapping_add(1);
        let call = Call {
            caller,
            request,
            partition,
            began_us: now_us,
            sent: None,
            sending: 0,
            sent_at_us: 0,
            unknown_since_us: None,
            unsent_since_us: now_us,
            not_before_us: 0,
            doubt_since_us: None,
        };
        self.calls.insert(self.next_ask, call);
        self.next_ask
    }

    /// Where a partition is asked from now on. Calls on another way are sent again, or are in doubt.
    pub(crate) fn route(&mut self, now_us: u64, partition: u32, route: Option<&Route>) {
        match route {
            Some(route) => _ = self.routes.insert(partition, route.clone()),
            None => _ = self.routes.remove(&partition),
        }
        for call in self.calls.values_mut().filter(|call| call.partition == partition) {
            let is_lost = call.sent.as_ref().is_some_and(|sent| route != Some(sent));
            if is_lost && call.doubt_since_us.is_none() {
                call.lose(now_us);
            }
        }
    }

    /// Sends what may be sent, and gives up on what waited too long.
    pub(crate) fn tick(&mut self, now_us: u64, out: &mut Vec<RelayOut>) {
        let asks: Vec<u64> = self.calls.keys().copied().collect();
        for ask in asks {
            self.send(now_us, ask, out);
            let Some(call) = self.calls.get(&ask) else { continue };
            let is_doubtful = call.doubt_since_us.is_some_and(|since| now_us >= since + DOUBT_US);
            let is_stuck =
                call.caller.is_some() && call.sent.is_none() && now_us >= call.unsent_since_us + FORWARD_WAIT_US;
            if is_doubtful || is_stuck {
                self.give_up(now_us, ask, out);
            }
        }
    }

    fn give_up(&mut self, now_us: u64, ask: u64, out: &mut Vec<RelayOut>) {
        let Some(call) = self.calls.remove(&ask) else { return };
        let Some(caller) = call.caller else { return };
        self.asks.remove(&caller);
        // Nothing is known of a call that was sent at some time; one that never was is safe to repeat elsewhere.
        let denial = if call.sending > 0 { Denial::Lost } else { Denial::Moved };
        out.push(RelayOut::Answer(caller, denied(denial)));
        self.hand_back_call(now_us, &call);
    }

    fn hand_back_call(&mut self, now_us: u64, call: &Call) {
        if let (Command::Acquire(acquire), true) = (&call.request.command, call.sending > 0) {
            self.hand_back(now_us, call.partition, acquire.id);
        }
    }

    /// A claim that its caller could not be told of: asked of the owner until it says that it is durable.
    pub(crate) fn hand_back(&mut self, now_us: u64, partition: u32, claim: ClaimId) {
        if planted!(RelayForgetsHandBack) {
            return;
        }
        *self.hand_backs.entry(partition).or_default() += 1;
        let command = Command::HandBack { claim, heard_by_nobody: false };
        self.add(now_us, None, partition, command.into());
    }

    fn send(&mut self, now_us: u64, ask: u64, out: &mut Vec<RelayOut>) {
        let Some(call) = self.calls.get_mut(&ask) else { return };
        let Some(route) = self.routes.get(&call.partition).filter(|route| route.link.is_some()) else { return };
        if call.sent.is_some() || call.doubt_since_us.is_some() || now_us < call.not_before_us {
            return;
        }
        if call.sending > 0
            && planted!(RelayDrawsNewId)
            && let Command::Acquire(acquire) = &mut call.request.command
        {
            acquire.id = claim_id(&acquire.resource, acquire.id.0.rotate_left(17));
        }
        if call
            .unknown_since_us
            .is_some_and(|since| !is_repeatable(&call.request.command, now_us.saturating_sub(since)))
        {
            self.give_up(now_us, ask, out);
            return;
        }
        call.sending += 1;
        call.sent_at_us = now_us;
        call.sent = Some(route.clone());
        let message = Message::Ask {
            ask,
            sending: call.sending,
            partition: call.partition,
            epoch: route.epoch,
            request: call.rest(now_us),
        };
        out.push(RelayOut::Send(route.to.clone(), message));
    }

    /// An answer came. Only the answer to the latest sending counts.
    pub(crate) fn answered(&mut self, now_us: u64, ask: u64, sending: u64, answer: AskAnswer, out: &mut Vec<RelayOut>) {
        // It was answered already, or its caller left: the hand-back sees to it.
        let Some(call) = self.calls.get_mut(&ask).filter(|call| call.sending == sending) else { return };
        match (&answer.answer, call.caller) {
            (Err(Denial::Moved), _) => call.unsend(now_us),
            (Err(Denial::Lost), _) => {
                call.doubt_since_us = None;
                call.lose(now_us);
                if call.doubt_since_us.is_some() {
                    self.give_up(now_us, ask, out);
                }
            }
            (_, Some(caller)) => {
                self.calls.remove(&ask);
                self.asks.remove(&caller);
                out.push(RelayOut::Answer(caller, answer));
            }
            (Ok(_), None) => {
                if let Some(call) = self.calls.remove(&ask)
                    && let Some(open) = self.hand_backs.get_mut(&call.partition)
                {
                    *open = open.saturating_sub(1);
                }
            }
            // A hand-back that came to nothing for now.
            (Err(_), None) => call.unsend(now_us),
        }
    }

    /// The caller left before its answer.
    pub(crate) fn leave(&mut self, now_us: u64, caller: u64, out: &mut Vec<RelayOut>) {
        let Some(ask) = self.asks.remove(&caller) else { return };
        let Some(call) = self.calls.remove(&ask) else { return };
        if let Some(sent) = call.sent.as_ref().filter(|sent| self.routes.get(&call.partition) == Some(sent)) {
            out.push(RelayOut::Send(sent.to.clone(), Message::Leave { ask }));
        }
        self.hand_back_call(now_us, &call);
    }

    /// Returns whether every call for this partition is on its way by the present route.
    pub(crate) fn is_asked(&self, partition: u32) -> bool {
        let route = self.routes.get(&partition);
        self.calls.values().all(|call| {
            call.partition != partition
                || call.sent.is_some() && call.sent.as_ref() == route
                || call.doubt_since_us.is_some()
        })
    }

    /// Calls without an answer, and hand-backs that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
}

impl Call {
    /// Known not to have been executed: it is asked again.
    fn unsend(&mut self, now_us: u64) {
        self.doubt_since_us = None;
        self.sent = None;
        self.unsent_since_us = now_us;
        self.not_before_us = now_us + AGAIN_US;
    }

    /// It is unknown whether it was executed.
    fn lose(&mut self, now_us: u64) {
        let since_us = *self.unknown_since_us.get_or_insert(self.sent_at_us);
        if is_repeatable(&self.request.command, now_us.saturating_sub(since_us)) {
            self.unsend(now_us);
            self.not_before_us = now_us;
        } else {
            self.doubt_since_us = Some(now_us);
        }
    }

    /// The request with what is left of its wait.
    fn rest(&self, now_us: u64) -> Request {
        let mut request = self.request.clone();
        let passed_us = now_us.saturating_sub(self.began_us);
        request.listen_us = request.listen_us.saturating_sub(passed_us);
        if let Command::Acquire(acquire) = &mut request.command
            && let Patience::For { wait_us } = &mut acquire.patience
            && *wait_us > 0
        {
            *wait_us = wait_us.saturating_sub(passed_us).max(1);
        }
        request
    }
}

/// Returns whether executing it twice is the same as once, `passed_us` after it was first sent and not heard of.
fn is_repeatable(command: &Command, passed_us: u64) -> bool {
    match command {
        // The owner knows it by its id; while its ttl has not run out, it cannot have been granted, ended and forgotten.
        Command::Acquire(acquire) => passed_us < acquire.ttl_us,
        Command::Update { update, .. } => update.status == Some(Wish::Active),
        Command::Renew { .. }
        | Command::HandBack { .. }
        | Command::Mark
        | Command::ViewResource { .. }
        | Command::ViewPlace { .. }
        | Command::ViewLease { .. }
        | Command::ViewHolding { .. }
        | Command::ViewClaim { .. }
        | Command::ListClaims(_)
        | Command::ListResources { .. }
        | Command::ViewFence { .. }
        | Command::Survey { .. }
        | Command::Inspect { .. } => true,
        Command::Configure { .. }
        | Command::Unconfigure { .. }
        | Command::Return { .. }
        | Command::Unlock { .. }
        | Command::Spend(_)
        | Command::Attend { .. }
        | Command::Withdraw { .. }
        | Command::Revoke { .. } => planted!(RelayRepeatsReturn),
    }
}

fn denied(denial: Denial) -> AskAnswer {
    AskAnswer { answer: Err(denial), epoch: Epoch(0), position: Position::START, at: Time::default(), untold: None }
}
