//! Clients: each has one call at a time, at any machine, and holds at most one lease.

use leasehold_cluster::{AskAnswer, claim_id};
use leasehold_engine::{
    Acquire, ClaimId, ClaimStatus, Command, LockNews, Options, Patience, Quota, Refusal, Reply, ResourceKey, Update,
    Wish,
};
use leasehold_journal::Denial;

use super::{ClusterWorld, Event, LAST_CALLS_US, REST_US, tell};
use crate::Violation;
use crate::ledger::EntryState;
use crate::ledger::invariant::{Check, ensure, s06_durable, s10_fencing};

#[derive(Debug)]
pub(super) struct Client {
    name: std::sync::Arc<str>,
    pub(super) holding: Option<(ResourceKey, ClaimId)>,
    call: Option<u64>,
}

impl Client {
    pub(super) fn new(n: usize) -> Self {
        Client { name: format!("client-{n}").into(), holding: None, call: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    client: usize,
    pub(super) machine: usize,
    pub(super) boot: u64,
    pub(super) partition: u32,
    pub(super) command: Command,
    wait_us: u64,
    sent_us: u64,
    pub(super) sent_epoch: u64,
    pub(super) sent_head: u64,
    pub(super) state: CallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    Open,
    Answered,
    /// Its caller was told that nothing is known, or could not be told, or left.
    GivenUp,
    /// The machine that stood for it died.
    Dead,
}

impl Call {
    /// Returns whether it gives back what its client holds: the client does so once, whatever comes of it.
    fn releases(&self) -> bool {
        matches!(self.command, Command::Return { .. } | Command::Unlock { .. } | Command::Update { .. })
    }

    pub(super) fn claim(&self) -> Option<ClaimId> {
        match &self.command {
            Command::Acquire(acquire) => Some(acquire.id),
            _ => None,
        }
    }
}

impl ClusterWorld {
    pub(super) fn act(&mut self, client: usize) -> Result<(), Violation> {
        if self.clients[client].call.is_some() {
            return Ok(());
        }
        let is_over = self.now_us >= self.plan.chaos_us + REST_US - LAST_CALLS_US;
        if self.is_calm && (is_over || self.clients[client].holding.is_none()) {
            return Ok(());
        }
        let machine = self.rng.index(self.plan.machines);
        if self.machines[machine].node.is_none() || self.machines[machine].is_draining {
            let at_us = self.now_us + self.rng.range(20_000, 200_000);
            self.at(at_us, Event::Act { client });
            return Ok(());
        }
        let command = self.wish(client);
        let partition = match &command {
            Command::Update { claim, .. } | Command::ViewClaim { claim } => {
                self.plan.partitions.of_claim(*claim).unwrap_or_default()
            }
            Command::Acquire(acquire) => self.plan.partitions.of(&acquire.resource),
            Command::Configure { resource, .. }
            | Command::Renew { resource, .. }
            | Command::Return { resource, .. }
            | Command::Unlock { resource, .. }
            | Command::ViewResource { resource } => self.plan.partitions.of(resource),
            _ => 0,
        };
        self.remember(client, &command);
        let wait_us = match &command {
            Command::Acquire(acquire) => match acquire.patience {
                Patience::For { wait_us } => wait_us,
                Patience::Standing => 0,
            },
            _ => 0,
        };
        let id = self.counts.calls + 1;
        self.counts.calls += 1;
        tell!(self, "client {client} asks m{machine} #{id}: {command:?}");
        let ledger = &self.ledgers[partition as usize];
        let call = Call {
            client,
            machine,
            boot: self.machines[machine].boot,
            partition,
            command: command.clone(),
            wait_us,
            sent_us: self.now_us,
            sent_epoch: ledger.epoch,
            sent_head: ledger.head,
            state: CallState::Open,
        };
        self.calls.insert(id, call);
        self.clients[client].call = Some(id);
        if self.rng.chance(150) {
            let at_us = self.now_us + self.rng.range(100, 3_000_000);
            self.at(at_us, Event::Leave { call: id });
        }
        if self.now_us < self.machines[machine].paused_until_us {
            // It arrives when the machine goes on: as if it were sent then, for all that matters here.
            self.calls.remove(&id);
            self.clients[client].call = None;
            let at_us = self.machines[machine].paused_until_us.min(self.now_us + 300_000);
            self.at(at_us, Event::Act { client });
            return Ok(());
        }
        self.drive(machine, |node, clocks| node.call(clocks, id, partition, command.into()))
    }

    fn wish(&mut self, client: usize) -> Command {
        let die = self.rng.below(100);
        if let Some((resource, claim)) = self.clients[client].holding.clone() {
            let ttl_us = self.rng.range(1_000_000, self.plan.ttl_max_us);
            let is_kept = die < 45 && !self.is_calm;
            return match &resource {
                ResourceKey::Pool(_) if is_kept => Command::Renew { resource, claim, ttl_us },
                ResourceKey::Pool(_) => Command::Return { resource, claim },
                ResourceKey::Lock(_) if is_kept => self.acquire(client, resource),
                ResourceKey::Lock(_) => {
                    Command::Unlock { resource, client: self.clients[client].name.clone(), token: None }
                }
                ResourceKey::Claim(_) if is_kept => Command::ViewClaim { claim },
                ResourceKey::Claim(_) => {
                    let update = Update { status: Some(Wish::Released), ..Update::default() };
                    Command::Update { claim, update }
                }
            };
        }
        let resource = match self.rng.below(5) {
            n @ (0 | 1) => ResourceKey::Pool(u128::from(n) * 0x9e37_79b9_7f4a_7c15_f39c_0c5a_1111),
            2 => ResourceKey::Lock("nightly".into()),
            3 => ResourceKey::Lock("@ci/deploy".into()),
            _ => ResourceKey::Claim("printer".into()),
        };
        match die {
            0..8 if matches!(resource, ResourceKey::Pool(_)) => Command::Configure {
                resource,
                capacity: u32::try_from(self.rng.range(1, 2)).expect("small"),
                label: leasehold_engine::Labeling::Kept,
            },
            8..30 => Command::ViewResource { resource },
            _ => self.acquire(client, resource),
        }
    }

    fn acquire(&mut self, client: usize, resource: ResourceKey) -> Command {
        let random = u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64());
        let is_lock = matches!(resource, ResourceKey::Lock(_));
        let wait_us = if self.rng.chance(300) { 0 } else { self.rng.range(1, self.plan.wait_max_us) };
        let patience = match &resource {
            ResourceKey::Claim(_) => Patience::Standing,
            ResourceKey::Pool(_) | ResourceKey::Lock(_) => Patience::For { wait_us },
        };
        Command::Acquire(Box::new(Acquire {
            id: claim_id(&resource, random),
            resource,
            ttl_us: self.rng.range(1_000_000, self.plan.ttl_max_us),
            patience,
            client: is_lock.then(|| self.clients[client].name.clone()),
            principal: None,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }))
    }

    /// Notes the command, as its changes may happen from now on.
    fn remember(&mut self, client: usize, command: &Command) {
        match command {
            Command::Acquire(acquire) => {
                self.asks.acquisitions.insert(acquire.id);
                if let ResourceKey::Lock(_) = acquire.resource {
                    self.asks.locks.insert((acquire.resource.clone(), self.clients[client].name.clone()));
                }
            }
            Command::Renew { claim, .. } => _ = self.asks.renewals.insert(*claim),
            Command::Return { claim, .. } | Command::Update { claim, .. } => _ = self.asks.releases.insert(*claim),
            Command::Unlock { resource, client, .. } => {
                self.asks.unlocks.insert((resource.clone(), client.clone()));
            }
            _ => {}
        }
    }

    pub(super) fn leave(&mut self, id: u64) -> Result<(), Violation> {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.state == CallState::Open) else { return Ok(()) };
        let (machine, client, boot) = (call.machine, call.client, call.boot);
        if self.now_us < self.machines[machine].paused_until_us || self.machines[machine].boot != boot {
            let at_us = self.now_us + 200_000;
            self.at(at_us, Event::Leave { call: id });
            return Ok(());
        }
        call.state = CallState::GivenUp;
        if call.releases() {
            self.clients[client].holding = None;
        }
        self.counts.left += 1;
        tell!(self, "client {client} leaves #{id}");
        self.next(client);
        self.drive(machine, |node, clocks| node.leave(clocks, id))
    }

    pub(super) fn open_calls(&self) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| call.state == CallState::Open).map(|(id, _)| *id).collect()
    }

    fn next(&mut self, client: usize) {
        self.clients[client].call = None;
        let at_us = self.now_us + self.rng.range(1_000, 400_000);
        self.at(at_us, Event::Act { client });
    }

    /// The process that stood for these callers is gone.
    pub(super) fn lose_callers(&mut self, n: usize) {
        let of: Vec<(usize, bool)> = self
            .calls
            .values_mut()
            .filter(|call| call.machine == n && call.state == CallState::Open)
            .map(|call| {
                call.state = CallState::Dead;
                (call.client, call.releases())
            })
            .collect();
        for (client, releases) in of {
            if releases {
                self.clients[client].holding = None;
            }
            self.next(client);
        }
    }

    pub(super) fn answer(&mut self, n: usize, id: u64, answer: AskAnswer) -> Result<(), Violation> {
        self.counts.answers += 1;
        self.note(answer.position.0);
        let Some(call) = self.calls.get(&id).cloned() else {
            return ensure(false, "C6", || format!("call {id} is not known"));
        };
        tell!(self, "answer to #{id} in epoch {} at {}: {:?}", answer.epoch, answer.position, answer.answer);
        ensure(call.state == CallState::Open && call.machine == n, "C6", || {
            format!("call {id} was answered, and is {:?} already", call.state)
        })?;
        match &answer.answer {
            Ok(reply) => self.check_definite(&call, &answer, Ok(reply.clone()))?,
            Err(Denial::Refused(refusal)) => self.check_definite(&call, &answer, Err(refusal.clone()))?,
            Err(Denial::Moved) => self.counts.moved += 1,
            Err(Denial::Lost) => self.counts.lost += 1,
            Err(_) => {}
        }
        let is_gone = self.rng.chance(40) && answer.untold.is_some();
        let state = match &answer.answer {
            _ if is_gone => CallState::GivenUp,
            Err(Denial::Moved | Denial::Lost | Denial::StoreLate) => CallState::GivenUp,
            _ => CallState::Answered,
        };
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = state;
        }
        self.next(call.client);
        if is_gone {
            return self.undelivered(n, call.partition, &answer);
        }
        match &answer.answer {
            Ok(reply) => self.believe(&call, reply, answer.position.0),
            Err(Denial::Refused(refusal)) => {
                self.asks.refused.extend(call.claim());
                if matches!(
                    refusal,
                    Refusal::NotHeld { .. } | Refusal::NoSuchClaim | Refusal::NotTheHolder | Refusal::Ended(_)
                ) {
                    self.clients[call.client].holding = None;
                }
            }
            Err(Denial::Overloaded | Denial::StoreBehind) => self.asks.refused.extend(call.claim()),
            Err(_)
                if matches!(call.command, Command::Return { .. } | Command::Unlock { .. } | Command::Update { .. }) =>
            {
                self.clients[call.client].holding = None;
            }
            Err(_) => self.asks.given_up.extend(call.claim()),
        }
        Ok(())
    }

    /// The answer must be true, durable, of the latest owner, and of a time after the call was sent.
    fn check_definite(&self, call: &Call, answer: &AskAnswer, said: Result<Reply, Refusal>) -> Check {
        let ledger = &self.ledgers[call.partition as usize];
        let (epoch, position) = (answer.epoch.0, answer.position.0);
        if self.is_lost(call.partition, epoch) {
            // It was true of what was lost.
            return Ok(());
        }
        s06_durable::on_answer(ledger, position)?;
        s10_fencing::on_answer(ledger, epoch, position)?;
        ensure(epoch >= call.sent_epoch, "S11", || {
            format!("epoch {epoch} answered a call that was sent in epoch {}", call.sent_epoch)
        })?;
        ensure(position >= call.sent_head, "S11", || {
            format!("an answer at {position} left for a call that was sent at {}", call.sent_head)
        })?;
        let began = ledger.reigns.iter().find(|(of, _)| *of == epoch).map_or(0, |(_, head)| *head);
        ensure(position > began, "C3", || format!("epoch {epoch} answered at {position}, before its first batch"))?;
        if let Err(Refusal::NoSuchClaim) = said
            && let Command::Update { claim, .. } | Command::ViewClaim { claim } = &call.command
        {
            let is_there = self.ledgers.iter().any(|ledger| ledger.live.contains(claim));
            ensure(!is_there, "S6", || format!("{claim:?} was denied, and another partition has it"))?;
        }
        let is_early = matches!(said, Err(Refusal::NoneFree { .. } | Refusal::Locked { .. }))
            && self.now_us + 2_000 < call.sent_us + call.wait_us;
        ensure(!is_early, "S12", || {
            format!("a caller that waits {} us lost its place after {}", call.wait_us, self.now_us - call.sent_us)
        })?;
        if let (Ok(Reply::Returned(false)), Command::Return { claim, .. }) = (&said, &call.command) {
            let ended = ledger.claims.get(claim).map(|entry| entry.state);
            let is_released = ended == Some(EntryState::Ended(leasehold_engine::Ending::Released));
            ensure(!is_released, "S14", || {
                format!("{claim:?} was released, and its only caller heard that it was not")
            })?;
        }
        match &said {
            // An id asked again is answered as of now; that of a waiter, as of the end of its wait.
            Err(Refusal::NoneFree { .. }) if call.wait_us > 0 => Ok(()),
            _ => ledger.witness(&call.command, &said, position),
        }
    }

    fn believe(&mut self, call: &Call, reply: &Reply, position: u64) {
        let client = call.client;
        match (reply, &call.command) {
            (Reply::Lease(view), Command::Acquire(acquire)) => {
                self.asks.acknowledge(view.claim, position);
                self.clients[client].holding = Some((acquire.resource.clone(), view.claim));
            }
            (Reply::Lock(view, LockNews::Acquired { .. } | LockNews::Renewed), Command::Acquire(acquire)) => {
                if let Some(holder) = &view.holder {
                    self.asks.acknowledge(holder.claim, position);
                    self.clients[client].holding = Some((acquire.resource.clone(), holder.claim));
                }
            }
            (Reply::Claim(view), Command::Acquire(acquire)) => {
                self.asks.acknowledge(view.id, position);
                self.clients[client].holding = Some((acquire.resource.clone(), view.id));
            }
            (Reply::Claim(view), _) if matches!(view.status, ClaimStatus::Ended(_)) => {
                self.clients[client].holding = None;
            }
            (Reply::Returned(_) | Reply::Unlocked | Reply::Spent(_) | Reply::ClaimEnded(_), _) => {
                self.clients[client].holding = None;
            }
            _ => {}
        }
    }
}
