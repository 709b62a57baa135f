//! Clients: they ask, wait, lose patience, try again, and believe what they are told for as long as it lasts.

use leasehold_engine::{Command, Kind, Patience, Wish};

use super::bodies::{Call, CallId, CallState, Retry};
use super::clocks::fast;
use super::{Event, World, tell};
use crate::fault::Fault;

impl World {
    pub(super) fn act(&mut self, client: usize) {
        if self.is_calm {
            self.wind_down(client);
            return;
        }
        let think_us = self.clients[client].rng.range(1_000, self.plan.think_max_us);
        self.after(think_us, Event::Act(client));
        if self.now_us < self.clients[client].paused_until_us {
            return;
        }
        if self.fails_at(Fault::ClientPause, self.plan.rate / 4) {
            let pause_us = self.clients[client].rng.range(100_000, 3_000_000);
            self.clients[client].paused_until_us = self.now_us + pause_us;
            return;
        }
        if self.clients[client].pending >= 3 {
            return;
        }
        if let Some(retry) = self.clients[client].retries.pop() {
            self.ask(client, retry.command, retry.listen_us, retry.left);
            return;
        }
        if let Some((command, listen_us)) = self.wish(client) {
            if matches!(&command, Command::Acquire(acquire) if acquire.key.is_none())
                && self.clients[client].rng.chance(self.plan.bursts)
            {
                self.ask_in_a_burst(client, &command, listen_us);
            }
            self.ask(client, command, listen_us, 3);
        }
    }

    /// Sends the same request several times in one instant, so that many claims have the same deadline.
    fn ask_in_a_burst(&mut self, client: usize, command: &Command, listen_us: u64) {
        for _ in 0..self.clients[client].rng.range(1, 4) {
            let again = self.again(command);
            let id = self.make_call(client, again, listen_us, 0);
            self.after(1_000, Event::Arrive(id));
        }
    }

    /// Sends a request, or two of the same under one key.
    pub(super) fn ask(&mut self, client: usize, command: Command, listen_us: u64, retries_left: u32) {
        let is_repeatable = matches!(&command, Command::Acquire(acquire) if acquire.key.is_some());
        if is_repeatable && self.fails(Fault::RequestTwice) {
            let again = self.again(&command);
            self.send_call(client, again, listen_us, 0);
        }
        self.send_call(client, command, listen_us, retries_left);
    }

    /// The same request as its sender repeats it: the server draws another id for it.
    pub(super) fn again(&mut self, command: &Command) -> Command {
        let mut command = command.clone();
        if let Command::Acquire(acquire) = &mut command {
            acquire.id = leasehold_engine::ClaimId(self.chance.next_u128());
        }
        command
    }

    fn send_call(&mut self, client: usize, command: Command, listen_us: u64, retries_left: u32) {
        let id = self.make_call(client, command, listen_us, retries_left);
        if self.fails(Fault::RequestLost) {
            return;
        }
        let mut delay_us = self.chance.range(50, 2_000);
        if self.fails(Fault::RequestLate) {
            delay_us += self.chance.range(10_000, 1_200_000);
        }
        self.after(delay_us, Event::Arrive(id));
    }

    pub(super) fn make_call(&mut self, client: usize, command: Command, listen_us: u64, retries_left: u32) -> CallId {
        self.remember_ask(&command);
        let node = match self.owner {
            Some(owner) if self.clients[client].rng.chance(930) => owner,
            _ => self.clients[client].rng.index(self.nodes.len()),
        };
        let waits_us = listen_us
            + match &command {
                Command::Acquire(acquire) => match acquire.patience {
                    Patience::For { wait_us } => wait_us,
                    Patience::Standing => 0,
                },
                _ => 0,
            };
        let patience_us =
            if self.is_calm { 20_000_000 } else { waits_us + self.clients[client].rng.range(300_000, 2_500_000) };
        let id = CallId(self.calls.len());
        if self.story.is_told() {
            let text: String = format!("{command:?}").chars().take(170).collect();
            tell!(self, "c{client} asks node {node} (call {}): {text}", id.0);
        }
        self.calls.push(Call {
            client,
            node,
            incarnation: 0,
            command,
            listen_us,
            sent_us: self.now_us,
            arrived: None,
            state: CallState::Flying,
            is_left: false,
            is_hung_up: false,
            is_excused: false,
            hangs_up_at_answer: false,
            answer: None,
            heard_us: None,
            retries_left,
        });
        self.clients[client].pending += 1;
        let hangs_up = self.fails(Fault::HangUp);
        let give_up_us = if hangs_up { self.chance.range(300, 60_000 + waits_us) } else { patience_us };
        self.after(give_up_us, Event::GiveUp(id));
        self.calls[id.0].hangs_up_at_answer = self.fails(Fault::HangUpAtAnswer);
        id
    }

    fn remember_ask(&mut self, command: &Command) {
        match command {
            Command::Acquire(acquire) => {
                self.asks.acquisitions.insert(acquire.id);
                if let Some(key) = &acquire.key {
                    *self.asks.keys.entry((acquire.resource.clone(), key.name.clone())).or_default() += 1;
                }
                if let Some(client) = &acquire.client {
                    self.asks.locks.insert((acquire.resource.clone(), client.clone()));
                }
            }
            Command::Renew { claim, .. } => {
                self.asks.renewals.insert(*claim);
            }
            Command::Return { claim, .. } => {
                self.asks.releases.insert(*claim);
            }
            Command::Unlock { resource, client, token: None } => {
                self.asks.unlocks.insert((resource.clone(), client.clone()));
            }
            Command::Unlock { resource, client, token: Some(token) } => {
                self.asks.unlocks_of.insert((resource.clone(), client.clone(), token.0));
            }
            Command::ViewClaim { claim } => {
                self.asks.questions.insert(*claim);
            }
            Command::Update { claim, update } => {
                self.asks.questions.insert(*claim);
                match update.status {
                    Some(Wish::Released) => self.asks.releases.insert(*claim),
                    Some(Wish::Revoked | Wish::Aborted | Wish::Withdrawn) => self.asks.revocations.insert(*claim),
                    Some(Wish::Active) | None => false,
                };
                if update.ttl_us.is_some() {
                    self.asks.renewals.insert(*claim);
                }
            }
            Command::Unconfigure { resource } => {
                self.asks.deletions.insert(resource.clone());
            }
            Command::Resume { resource } => {
                self.asks.resumptions.insert(resource.clone());
            }
            Command::Configure { .. }
            | Command::NameSlots(_)
            | Command::Pause { .. }
            | Command::ServeSlot { .. }
            | Command::Attend { .. }
            | Command::Withdraw { .. }
            | Command::HandBack { .. }
            | Command::Mark
            | Command::Spend(_)
            | Command::ViewPlace { .. }
            | Command::ViewHolding { .. }
            | Command::ViewResource { .. }
            | Command::ViewLease { .. }
            | Command::ListClaims(_)
            | Command::ListResources { .. }
            // Operators' commands: no client here sends them.
            | Command::Revoke { .. }
            | Command::ViewFence { .. }
            | Command::Survey { .. }
            | Command::Inspect { .. } => {}
        }
    }

    /// The client stops listening.
    pub(super) fn leave_call(&mut self, id: CallId) {
        let call = &mut self.calls[id.0];
        if !std::mem::replace(&mut call.is_left, true) {
            self.clients[call.client].pending -= 1;
        }
    }

    pub(super) fn give_up(&mut self, id: CallId) {
        if self.calls[id.0].is_left {
            return;
        }
        tell!(self, "c{} gives up on call {}", self.calls[id.0].client, id.0);
        self.leave_call(id);
        self.plan_retry(id);
        let notice_us = self.chance.range(50, 3_000);
        self.after(notice_us, Event::HangUp(id));
    }

    pub(super) fn broken(&mut self, id: CallId) {
        self.calls[id.0].state = CallState::Over;
        if !self.calls[id.0].is_left {
            self.leave_call(id);
            self.plan_retry(id);
        }
    }

    /// The outcome is unknown. With a key it can be asked for again; a release can be repeated in any case.
    pub(super) fn plan_retry(&mut self, id: CallId) {
        let call = &self.calls[id.0];
        let (client, listen_us, left) = (call.client, call.listen_us, call.retries_left);
        if self.is_calm {
            // It asks again until it gets an answer.
            if matches!(call.command, Command::Configure { .. }) {
                self.clients[client].probes = 0;
                self.after(100_000, Event::Act(client));
            }
            return;
        }
        let is_safe = match &call.command {
            Command::Acquire(acquire) => acquire.key.is_some() || acquire.resource.kind() == Kind::Lock,
            Command::Return { .. } | Command::Configure { .. } => true,
            _ => false,
        };
        if is_safe && left > 0 {
            let command = call.command.clone();
            let command = self.again(&command);
            self.clients[client].retries.push(Retry { command, listen_us, left: left - 1 });
        }
    }

    /// When a stretch that begins now ends on this client's clock.
    pub(super) fn client_until(&self, client: usize, from_us: u64, duration_us: u64) -> u64 {
        from_us + fast(duration_us, -self.clients[client].ppm)
    }
}
