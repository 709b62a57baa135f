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

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::{ClaimId, Command, Patience, Time, Wish, planted};
use leasehold_journal::{Denial, Epoch, Position, Request};

use crate::hash::claim_id;
use crate::ids::Peer;
use crate::message::{AskAnswer, Message};

/// How long a call waits for a partition to have an owner.
const FORWARD_WAIT_US: u64 = 5_000_000;
/// How long a call in doubt waits for a word.
const DOUBT_US: u64 = 1_000_000;
/// After `Moved`, the owner that the map names may not serve yet.
const AGAIN_US: u64 = 20_000;
/// The hand-backs that may be open for one partition: with more, nothing new is sent there.
const HAND_BACKS_MAX: usize = 4_096;

/// The way to the owner of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: Peer,
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
    Send(Peer, Message),
    Answer(u64, AskAnswer),
}

#[derive(Debug, Default)]
pub(crate) struct Relay {
    calls: BTreeMap<u64, Call>,
    asks: BTreeMap<u64, u64>,
    /// Calls that are not on their way, by partition: few, while every partition has an owner.
    unsent: BTreeSet<(u32, u64)>,
    /// Calls in doubt, by the time since which they have been.
    doubtful: BTreeSet<(u64, u64)>,
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
        self.unsent.insert((partition, self.next_ask));
        self.next_ask
    }

    /// Where a partition is asked from now on. Calls on another way are sent again, or are in doubt. Returns whether it
    /// is another way than before.
    pub(crate) fn route(&mut self, now_us: u64, partition: u32, route: Option<Route>) -> bool {
        if self.routes.get(&partition).copied() == route {
            return false;
        }
        match route {
            Some(route) => _ = self.routes.insert(partition, route),
            None => _ = self.routes.remove(&partition),
        }
        for (ask, call) in self.calls.iter_mut().filter(|(_, call)| call.partition == partition) {
            let is_lost = call.sent.is_some_and(|sent| route != Some(sent));
            if is_lost && call.doubt_since_us.is_none() {
                call.lose(now_us);
                index(&mut self.unsent, &mut self.doubtful, *ask, call);
            }
        }
        true
    }

    /// The way to the owner of a partition.
    pub(crate) fn route_of(&self, partition: u32) -> Option<Route> {
        self.routes.get(&partition).copied()
    }

    /// Returns whether this call has no answer yet.
    #[cfg(test)]
    fn knows(&self, ask: u64) -> bool {
        self.calls.contains_key(&ask)
    }

    /// Sends what may be sent, and gives up on what waited too long. Looks at no call that is on its way.
    pub(crate) fn tick(&mut self, now_us: u64, out: &mut Vec<RelayOut>) {
        if !self.unsent.is_empty() {
            let asks: Vec<u64> = self.unsent.iter().map(|&(_, ask)| ask).collect();
            for ask in asks {
                self.send(now_us, ask, out);
                let Some(call) = self.calls.get(&ask).filter(|call| call.caller.is_some()) else { continue };
                if call.sent.is_none() && now_us >= call.unsent_since_us + FORWARD_WAIT_US {
                    self.give_up(now_us, ask, out);
                }
            }
        }
        while let Some(&(_, ask)) = self.doubtful.first().filter(|(since_us, _)| now_us >= since_us + DOUBT_US) {
            self.give_up(now_us, ask, out);
        }
    }

    /// Takes a call out, with all that finds it.
    fn remove(&mut self, ask: u64) -> Option<Call> {
        let call = self.calls.remove(&ask)?;
        if call.sent.is_none() {
            self.unsent.remove(&(call.partition, ask));
        }
        if let Some(since_us) = call.doubt_since_us {
            self.doubtful.remove(&(since_us, ask));
        }
        Some(call)
    }

    fn give_up(&mut self, now_us: u64, ask: u64, out: &mut Vec<RelayOut>) {
        let Some(call) = self.remove(ask) else { return };
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
        call.sent = Some(*route);
        self.unsent.remove(&(call.partition, ask));
        let message = Message::Ask {
            ask,
            sending: call.sending,
            partition: call.partition,
            epoch: route.epoch,
            request: call.rest(now_us),
        };
        out.push(RelayOut::Send(route.to, message));
    }

    /// An answer came. Only the answer to the latest sending counts.
    pub(crate) fn answered(&mut self, now_us: u64, ask: u64, sending: u64, answer: AskAnswer, out: &mut Vec<RelayOut>) {
        // It was answered already, or its caller left: the hand-back sees to it.
        let Some(call) = self.calls.get_mut(&ask).filter(|call| call.sending == sending) else { return };
        if let Some(since_us) = call.doubt_since_us.take() {
            self.doubtful.remove(&(since_us, ask));
        }
        match (&answer.answer, call.caller) {
            (Err(Denial::Moved), _) => {
                call.unsend(now_us);
                index(&mut self.unsent, &mut self.doubtful, ask, call);
            }
            (Err(Denial::Lost), _) => {
                call.lose(now_us);
                index(&mut self.unsent, &mut self.doubtful, ask, call);
                if call.doubt_since_us.is_some() {
                    self.give_up(now_us, ask, out);
                }
            }
            (_, Some(caller)) => {
                let Some(call) = self.remove(ask) else { return };
                self.asks.remove(&caller);
                let answer = self.settle(now_us, &call, answer);
                out.push(RelayOut::Answer(caller, answer));
            }
            (Ok(_), None) => {
                if let Some(call) = self.remove(ask)
                    && let Some(open) = self.hand_backs.get_mut(&call.partition)
                {
                    *open = open.saturating_sub(1);
                }
            }
            // A hand-back that came to nothing for now.
            (Err(_), None) => {
                call.unsend(now_us);
                index(&mut self.unsent, &mut self.doubtful, ask, call);
            }
        }
    }

    /// The answer that a caller may hear. An owner that turns a call away speaks of this sending only: of an earlier
    /// one nothing is known. And an owner whose store is late hands a grant back in its own stream, which may end
    /// before that and after the grant.
    fn settle(&mut self, now_us: u64, call: &Call, mut answer: AskAnswer) -> AskAnswer {
        let is_turned_away =
            matches!(answer.answer, Err(Denial::Overloaded | Denial::StoreBehind | Denial::ShuttingDown));
        if is_turned_away && call.unknown_since_us.is_some() {
            answer.answer = Err(Denial::Lost);
        }
        if let Err(Denial::Lost | Denial::StoreLate) = answer.answer {
            self.hand_back_call(now_us, call);
        }
        answer
    }

    /// The caller left before its answer.
    pub(crate) fn leave(&mut self, now_us: u64, caller: u64, out: &mut Vec<RelayOut>) {
        let Some(ask) = self.asks.remove(&caller) else { return };
        let Some(call) = self.remove(ask) else { return };
        if let Some(sent) = call.sent.filter(|sent| self.routes.get(&call.partition) == Some(sent)) {
            out.push(RelayOut::Send(sent.to, Message::Leave { ask }));
        }
        self.hand_back_call(now_us, &call);
    }

    /// Returns whether every call for this partition is on its way by the present route.
    pub(crate) fn is_asked(&self, partition: u32) -> bool {
        // A call whose way changed was taken off it when the way changed.
        self.unsent.range((partition, 0)..=(partition, u64::MAX)).next().is_none()
    }

    /// Calls without an answer, and hand-backs that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
}

/// Puts a call that is not on its way, or in doubt, where it is found again.
fn index(unsent: &mut BTreeSet<(u32, u64)>, doubtful: &mut BTreeSet<(u64, u64)>, ask: u64, call: &Call) {
    if call.sent.is_none() {
        unsent.insert((call.partition, ask));
    }
    if let Some(since_us) = call.doubt_since_us {
        doubtful.insert((since_us, ask));
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
        // The owner knows it by its id; while its ttl has not run out, it cannot have been granted, ended and
        // forgotten.
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
        | Command::NameSlots(_)
        | Command::Pause { .. }
        | Command::Resume { .. }
        | Command::ServeSlot { .. }
        | Command::Return { .. }
        | Command::Unlock { .. }
        | Command::Spend(_)
        | Command::Attend { .. }
        | Command::Withdraw { .. }
        | Command::Revoke { .. } => planted!(RelayRepeatsReturn),
    }
}

pub(crate) fn denied(denial: Denial) -> AskAnswer {
    AskAnswer { answer: Err(denial), epoch: Epoch(0), position: Position::START, at: Time::default(), untold: None }
}

#[cfg(test)]
mod tests {
    use leasehold_engine::{Acquire, Options, Quota, ResourceKey};

    use super::*;

    const S: u64 = 1_000_000;
    const ID: ClaimId = ClaimId(7);

    fn acquire() -> Request {
        Command::Acquire(Box::new(Acquire {
            id: ID,
            resource: ResourceKey::Pool(1),
            ttl_us: 60 * S,
            patience: Patience::For { wait_us: 0 },
            client: None,
            principal: None,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }))
        .into()
    }

    /// A relay with a way to partition 0, and a call of caller 1 that was sent as often.
    fn asked(sendings: u64) -> (Relay, u64) {
        let mut relay = Relay::new(0);
        let mut out = Vec::new();
        for link in 1..=sendings {
            relay.route(link * S, 0, Some(Route { to: Peer(1), epoch: Epoch(3), link: Some(link) }));
            if link == 1 {
                relay.call(S, 1, 0, acquire(), &mut out);
            }
            relay.tick(link * S, &mut out);
        }
        let sent = out.iter().filter(|out| matches!(out, RelayOut::Send(_, Message::Ask { ask: 1, .. }))).count();
        assert_eq!(sent as u64, sendings);
        (relay, 1)
    }

    /// The answers that callers heard, and the claims that were handed back.
    fn heard(relay: &mut Relay, ask: u64, sending: u64, denial: Denial) -> (Vec<Denial>, Vec<ClaimId>) {
        let mut out = Vec::new();
        relay.answered(10 * S, ask, sending, denied(denial), &mut out);
        relay.tick(10 * S, &mut out);
        let (mut denials, mut claims) = (Vec::new(), Vec::new());
        for out in out {
            match out {
                RelayOut::Answer(1, AskAnswer { answer: Err(denial), .. }) => denials.push(denial),
                RelayOut::Send(_, Message::Ask { request, .. }) => match request.command {
                    Command::HandBack { claim, .. } => claims.push(claim),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        (denials, claims)
    }

    #[test]
    fn a_claim_of_a_late_store_is_handed_back_by_the_relay_as_well() {
        let (mut relay, ask) = asked(1);
        assert_eq!(heard(&mut relay, ask, 1, Denial::StoreLate), (vec![Denial::StoreLate], vec![ID]));
        assert_eq!(relay.len(), 1, "until its owner says that the hand-back is durable");
    }

    #[test]
    fn a_call_that_is_turned_away_was_not_executed() {
        for denial in [Denial::Overloaded, Denial::StoreBehind, Denial::ShuttingDown] {
            let (mut relay, ask) = asked(1);
            assert_eq!(heard(&mut relay, ask, 1, denial.clone()), (vec![denial], vec![]));
        }
    }

    #[test]
    fn of_a_repeated_call_that_is_turned_away_nothing_is_known() {
        for denial in [Denial::Overloaded, Denial::StoreBehind, Denial::ShuttingDown] {
            let (mut relay, ask) = asked(2);
            assert_eq!(heard(&mut relay, ask, 2, denial), (vec![Denial::Lost], vec![ID]));
        }
    }

    #[test]
    fn only_the_answer_to_the_latest_sending_is_heard() {
        let (mut relay, ask) = asked(3);
        assert_eq!(heard(&mut relay, ask, 2, Denial::Overloaded), (vec![], vec![]));
        assert!(relay.knows(ask) && relay.is_asked(0));
        relay.route(11 * S, 0, None);
        assert!(!relay.is_asked(0), "it is not on its way any more");
    }
}
