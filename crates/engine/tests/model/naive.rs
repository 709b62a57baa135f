//! The rules of Leasehold once more, deliberately naive: two vectors, linear scans, no index, no cleverness. Written
//! from the HTTP contract and the design, not from the engine, so that the two can disagree. Facts serve as rows,
//! because a row is then compared whole. Finding rows is in `naive_rows`, showing them in `naive_views`; this file
//! decides and changes; pauses and named slots are in `naive_fittings`.

use std::sync::Arc;

use leasehold_engine::{
    Acquire, Answer, Change, ClaimFact, ClaimId, Command, Counters, Ending, Fact, FenceView, Fittings, IdempotencyKey,
    KeyReuse, Kind, Labeling, Lease, Limits, LockNews, Moment, Options, Particulars, Patience, Quota, Refusal, Renewal,
    Reply, ResourceFact, ResourceKey, Revocable, Spend, Spent, Status, Time, Token, Update, Wall, Wish,
};

use crate::naive_rows::{default_capacity, due_at, ended_at, holds, is_remembered, shown};

#[derive(Debug)]
pub(crate) struct Naive {
    pub(crate) limits: Limits,
    /// Configured, or referred to by a claim.
    pub(crate) resources: Vec<ResourceFact>,
    /// In order of creation. Waiting, holding, or ended and still remembered.
    pub(crate) claims: Vec<ClaimFact>,
    /// The highest number so far: freed entries are used again, but not given back.
    pub(crate) claims_most: usize,
    pub(crate) resources_most: usize,
    /// Nothing new is taken on.
    pub(crate) is_store_full: bool,
    /// The claims that a caller is parked on.
    pub(crate) attended: Vec<ClaimId>,
    last_token: u64,
    last_order: u64,
}

impl Naive {
    pub(crate) fn new(limits: Limits) -> Self {
        Naive {
            limits,
            resources: Vec::new(),
            claims: Vec::new(),
            claims_most: 0,
            resources_most: 0,
            is_store_full: false,
            attended: Vec::new(),
            last_token: 0,
            last_order: 0,
        }
    }

    pub(crate) fn facts(&self) -> Vec<Fact> {
        let counters = Counters { last_token: Token(self.last_token), last_order: self.last_order };
        let mut facts = vec![Fact::Counters(counters)];
        facts.extend(self.resources.iter().cloned().map(Fact::Resource));
        facts.extend(self.claims.iter().cloned().map(|row| Fact::Claim(Box::new(row))));
        facts.sort();
        facts
    }

    /// The first moment at which time alone changes something.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let claims = self.claims.iter().filter_map(due_at);
        let forgotten = self.remembered().map(|row| ended_at(row).plus(self.limits.retain_us.max(1)));
        claims.chain(forgotten).chain(self.next_resumed().map(|(until, _)| until)).min()
    }

    /// `ties` settles what the rules leave open: of several claims due at the same instant, which one is first. It is
    /// the engine's own list of changes; the order of deadlines and everything that follows is still decided here.
    pub(crate) fn handle(&mut self, now: Moment, command: Command, ties: &[Change]) -> Answer {
        self.handle_time(now, ties);
        match command {
            Command::Configure { resource, capacity, label } => self.configure(now, &resource, capacity, label),
            Command::Unconfigure { resource } => Ok(Reply::Unconfigured(self.unconfigure(now, &resource))),
            Command::NameSlots(naming) => self.name_slots(now, *naming),
            Command::Pause { resource, reason, for_us } => self.pause(now, &resource, reason, for_us),
            Command::Resume { resource } => self.resume(now, &resource),
            Command::ServeSlot { resource, slot, out } => self.serve_slot(now, &resource, slot, out),
            Command::Acquire(acquire) if acquire.resource.kind() == Kind::Lock => self.lock(now, *acquire),
            Command::Acquire(acquire) => self.acquire(now, *acquire),
            Command::Renew { resource, claim, ttl_us } => {
                let at = self.held_lease(&resource, claim)?;
                self.extend(now, at, ttl_us);
                Ok(Reply::Lease(self.view_lease(now, at)))
            }
            Command::Return { resource, claim } => {
                let held = self.held_lease(&resource, claim);
                if let Ok(at) = held {
                    self.end(now, at, Ending::Released);
                }
                Ok(Reply::Returned(held.is_ok()))
            }
            Command::Unlock { resource, client, token } => self.unlock(now, &resource, &client, token),
            Command::Spend(spend) => self.spend(now, *spend),
            Command::ViewHolding { resource, key } => {
                Ok(Reply::Holding(Box::new(self.view_holding(now, &resource, key.as_ref()))))
            }
            Command::ViewPlace { resource, name } => self.answer_place(now, &resource, &name),
            Command::Update { claim, update } => self.update(now, claim, update),
            Command::Mark => Ok(Reply::Done),
            Command::Attend { claim, is_attended } => {
                self.attended.retain(|&attended| attended != claim);
                if let Some(at) = self.find(claim).filter(|&at| self.claims[at].status == Status::Waiting) {
                    let Particulars { wait_ttl_us, confirm_us, .. } = self.claims[at].particulars;
                    if is_attended && wait_ttl_us + confirm_us > 0 {
                        self.attended.push(claim);
                    }
                    self.heed(now, at);
                }
                Ok(Reply::Done)
            }
            Command::Withdraw { claim } => {
                if let Some(at) = self.find(claim) {
                    match self.claims[at].status {
                        Status::Waiting if self.claims[at].keep_us > 0 => {
                            self.claims[at].wait_until = now.at.plus(self.claims[at].keep_us);
                        }
                        Status::Waiting if self.claims[at].particulars.wait_ttl_us > 0 => {
                            self.claims[at].wait_until = now.at.plus(kept_us(&self.claims[at].particulars));
                        }
                        Status::Waiting => self.end(now, at, Ending::Withdrawn),
                        Status::Active | Status::Grace | Status::Lapsed => self.end(now, at, Ending::HandedBack),
                        Status::Ended(_) => {}
                    }
                }
                Ok(Reply::Done)
            }
            Command::HandBack { claim, heard_by_nobody } => {
                let unheard_of =
                    |row: &ClaimFact| (!row.seen || heard_by_nobody) && !matches!(row.status, Status::Ended(_));
                if let Some(at) = self.find(claim).filter(|&at| unheard_of(&self.claims[at])) {
                    self.end(now, at, Ending::HandedBack);
                }
                Ok(Reply::Done)
            }
            Command::Revoke { resource, which } => {
                let is_meant = |row: &ClaimFact| match which {
                    Revocable::Grant(token) => row.token == token && holds(row),
                    Revocable::Place(order) => row.order == order && row.status == Status::Waiting,
                };
                let holder = self.claims.iter().position(|row| row.resource == resource && is_meant(row));
                if let Some(at) = holder {
                    self.end(now, at, Ending::Revoked);
                }
                Ok(Reply::Revoked(holder.is_some()))
            }
            Command::ViewFence { resource, token } => {
                let is_current = self.holders(&resource).any(|row| row.token == token && row.status == Status::Active);
                let known = self.resources.iter().find(|row| row.resource == resource);
                Ok(Reply::Fence(FenceView { is_current, latest: known.map_or(Token(0), |row| row.last_token) }))
            }
            Command::Survey { .. } | Command::Inspect { .. } => unreachable!("stories tell of these"),
            Command::ViewResource { resource } => self.answer_resource(now, &resource),
            Command::ViewLease { resource, claim } => match self.held_lease(&resource, claim) {
                Ok(at) => Ok(Reply::Lease(self.view_lease(now, at))),
                Err(_) => Err(Refusal::NoSuchClaim),
            },
            Command::ViewClaim { claim } => {
                let at = self.find_public(claim)?;
                self.heed(now, at);
                Ok(Reply::Claim(Box::new(self.view_claim(now, at))))
            }
            Command::ListClaims(query) => Ok(Reply::Claims(self.list_claims(now, &query))),
            Command::ListResources { after, limit, scan_max } => {
                Ok(Reply::Resources(self.list_resources(now, after.as_ref(), limit, scan_max)))
            }
        }
    }

    /// Handles deadlines in their order, then forgets what need not be remembered any longer.
    pub(crate) fn handle_time(&mut self, now: Moment, mut ties: &[Change]) {
        loop {
            let due = self.claims.iter().filter_map(due_at).min().filter(|&due| due <= now.at);
            let resumed = self.next_resumed().filter(|&(until, _)| until <= now.at);
            // A claim that is due at the instant at which a pause ends goes first.
            let due = match (due, resumed) {
                (Some(due), Some((until, _))) if due <= until => due,
                (Some(due), None) => due,
                (_, Some((_, key))) => {
                    self.end_pause(now, &key);
                    continue;
                }
                (None, None) => break,
            };
            let first: Vec<usize> =
                (0..self.claims.len()).filter(|&at| due_at(&self.claims[at]) == Some(due)).collect();
            let named = ties.iter().enumerate().find_map(|(nth, change)| {
                let id = by_time(change)?;
                first.iter().find(|&&at| self.claims[at].claim == id).map(|&at| (nth, at))
            });
            let at = named.map_or(first[0], |(_, at)| at);
            ties = named.map_or(ties, |(nth, _)| &ties[nth + 1..]);
            self.expire(now, at);
        }
        // How a claim ended can be read at the time at which it ended.
        while let Some(row) =
            self.oldest(false).filter(|row| ended_at(row).plus(self.limits.retain_us.max(1)) <= now.at)
        {
            let id = row.claim;
            self.forget(id);
        }
        while self.has_too_much_remembered()
            && let Some(row) = self.oldest(true).filter(|row| ended_at(row) < now.at)
        {
            let id = row.claim;
            self.forget(id);
        }
    }

    /// Of the remembered claims, the oldest goes; to make room, the oldest without a key before any with one.
    pub(crate) fn oldest(&self, to_make_room: bool) -> Option<&ClaimFact> {
        self.remembered().min_by_key(|row| (to_make_room && row.key.is_some(), ended_at(row), row.order))
    }

    pub(crate) fn forget(&mut self, id: ClaimId) {
        self.claims.retain(|row| row.claim != id);
        self.drop_unused_resources();
    }

    fn expire(&mut self, now: Moment, at: usize) {
        let row = &mut self.claims[at];
        match row.status {
            Status::Waiting if row.particulars.wait_ttl_us > 0 && self.attended.contains(&row.claim) => {
                row.wait_until = now.at.plus(kept_us(&row.particulars));
            }
            Status::Waiting if row.particulars.wait_ttl_us > 0 => self.end(now, at, Ending::Withdrawn),
            Status::Waiting => self.end(now, at, Ending::TimedOut),
            Status::Active if row.resource.kind() == Kind::Lock => row.status = Status::Grace,
            Status::Active => self.end(now, at, Ending::Expired),
            Status::Grace => {
                row.status = Status::Lapsed;
                row.ended = Some(now);
                let (resource, granted) = (row.resource.clone(), row.granted);
                self.count_hold(now, &resource, granted);
                self.settle(now, &resource);
            }
            Status::Lapsed | Status::Ended(_) => unreachable!("nothing is due"),
        }
    }

    fn configure(&mut self, now: Moment, key: &ResourceKey, capacity: u32, label: Labeling) -> Answer {
        if let Some(slots) = self.fittings(key).slots.filter(|slots| slots.len() != capacity as usize) {
            return Err(Refusal::SlotsNamed { capacity: u32::try_from(slots.len()).expect("few slots") });
        }
        self.refuse_configuring(key)?;
        self.make_room_for_label(key, &label, 0)?;
        self.set_capacity(key, capacity, label);
        self.settle(now, key);
        Ok(Reply::Resource(self.view_resource(now, key)))
    }

    pub(crate) fn refuse_configuring(&self, key: &ResourceKey) -> Result<(), Refusal> {
        self.refuse_new_resource(key)?;
        if self.is_store_full && !self.resources.iter().any(|row| row.resource == *key && row.configured) {
            return Err(Refusal::StoreFull);
        }
        Ok(())
    }

    pub(crate) fn set_capacity(&mut self, key: &ResourceKey, capacity: u32, label: Labeling) {
        let row = self.resource_row(key);
        row.capacity = capacity;
        row.configured = true;
        if let Labeling::Set(label) = label {
            row.label = label;
        }
        let mut fittings = self.fittings(key);
        fittings.out_of_service.retain(|&slot, _| slot < capacity);
        self.refit(key, fittings);
    }

    fn unconfigure(&mut self, now: Moment, key: &ResourceKey) -> bool {
        let Some(row) = self.resources.iter_mut().find(|row| row.resource == *key && row.configured) else {
            return false;
        };
        row.configured = false;
        row.capacity = default_capacity(key);
        row.label = None;
        let pause = self.fittings(key).pause.filter(|_| key.kind() != Kind::Pool);
        self.refit(key, Fittings { pause, ..Fittings::default() });
        if key.kind() == Kind::Pool {
            // With no capacity nothing is granted while its claims end one by one.
            while let Some(at) = self.claims.iter().position(|row| row.resource == *key && !is_remembered(row)) {
                self.end(now, at, Ending::Deleted);
            }
        }
        self.settle(now, key);
        self.drop_unused_resources();
        true
    }

    fn acquire(&mut self, now: Moment, mut asked: Acquire) -> Answer {
        let key = asked.resource.clone();
        if key.kind() == Kind::Pool && !self.resources.iter().any(|row| row.resource == key && row.configured) {
            return Err(Refusal::NoSuchResource);
        }
        if let Some(at) = self.repeated(&asked)? {
            if self.claims[at].status == Status::Waiting {
                self.heed(now, at);
                let row = &mut self.claims[at];
                row.seen = true;
                if row.particulars.wait_ttl_us == 0 {
                    row.wait_until = row.wait_until.max(until(now, asked.patience, row.keep_us));
                }
                return Ok(Reply::Waiting(row.claim));
            }
            self.take_up(now, at);
            self.heed(now, at);
            return Ok(self.reply_to_claimant(now, at));
        }
        self.refuse_new_claim(&key)?;
        self.refuse_past_quota(&asked)?;
        if let Some(slot) = self.free_slot(&key) {
            asked.options.particulars.confirm_us = 0;
            self.make_room_for_claim(&asked)?;
            let at = self.enqueue(now, asked, Time::NEVER);
            self.grant(now, at, slot);
            return Ok(self.reply_to_claimant(now, at));
        }
        if asked.patience == (Patience::For { wait_us: 0 }) {
            return Err(self.none_free(now, &key));
        }
        self.refuse_new_waiter()?;
        self.refuse_past_waiting_quota(&asked)?;
        self.make_room_for_claim(&asked)?;
        let particulars = &asked.options.particulars;
        let wait_until = match asked.patience {
            Patience::Standing if particulars.wait_ttl_us > 0 => now.at.plus(kept_us(particulars)),
            patience => until(now, patience, asked.options.keep_us),
        };
        let at = self.enqueue(now, asked, wait_until);
        Ok(Reply::Waiting(self.claims[at].claim))
    }

    /// The live claim that this idempotency key stands for.
    fn repeated(&self, asked: &Acquire) -> Result<Option<usize>, Refusal> {
        let Some(key) = &asked.key else { return Ok(None) };
        let Some(at) = self.find_key(&asked.resource, &key.name) else { return Ok(None) };
        let row = &self.claims[at];
        let has_ended = matches!(row.status, Status::Ended(_));
        match asked.options.key_reuse {
            KeyReuse::AfterWait if has_ended && row.granted.is_none() => return Ok(None),
            KeyReuse::Always if has_ended => return Ok(None),
            KeyReuse::Never | KeyReuse::AfterWait | KeyReuse::Always => {}
        }
        let is_unused = row.resource.kind() != Kind::Claim && row.granted.is_none();
        let earlier = row.key.as_ref().map(|key| key.fingerprint);
        let is_same = earlier == Some(key.fingerprint) || earlier == asked.options.former_fingerprint;
        match row.status {
            Status::Ended(_) if is_unused => Err(Refusal::KeySpent { how: Ending::Withdrawn }),
            _ if !is_same => Err(Refusal::KeyReused),
            Status::Ended(how) => Err(Refusal::KeySpent { how }),
            Status::Grace | Status::Lapsed => Err(Refusal::KeySpent { how: Ending::Expired }),
            Status::Waiting | Status::Active => Ok(Some(at)),
        }
    }

    /// The claim of the key ends, and the key is spent.
    fn spend(&mut self, now: Moment, spend: Spend) -> Answer {
        let Spend { resource, key, client, id } = spend;
        if resource.kind() == Kind::Pool && !self.resources.iter().any(|row| row.resource == resource && row.configured)
        {
            return Err(Refusal::NoSuchResource);
        }
        let Some(at) = self.find_key(&resource, &key) else {
            self.refuse_new_claim(&resource)?;
            self.make_room_for_key(&resource, &key)?;
            let key = Some(IdempotencyKey { name: key, fingerprint: 0 });
            let at = self.remember_asked(now, resource, id, key);
            self.claims[at].status = Status::Ended(Ending::Released);
            self.claims[at].ended = Some(now);
            return Ok(Reply::Spent(Spent::Nothing));
        };
        let row = &self.claims[at];
        let had = match row.status {
            Status::Ended(_) => return Ok(Reply::Spent(Spent::Nothing)),
            _ if client.is_some() && row.client != client => return Err(Refusal::NotTheHolder),
            Status::Waiting => Spent::Waited,
            Status::Active | Status::Grace | Status::Lapsed => Spent::Held,
        };
        self.end(now, at, Ending::Released);
        Ok(Reply::Spent(had))
    }

    fn remember_asked(
        &mut self,
        now: Moment,
        resource: ResourceKey,
        id: ClaimId,
        key: Option<IdempotencyKey>,
    ) -> usize {
        let asked = Acquire {
            resource,
            id,
            ttl_us: 0,
            patience: Patience::For { wait_us: 0 },
            client: None,
            principal: None,
            key,
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        };
        self.enqueue(now, asked, Time::NEVER)
    }

    /// Its last holder gives a lock back, or a client leaves its queue.
    fn unlock(&mut self, now: Moment, key: &ResourceKey, client: &Arc<str>, token: Option<Token>) -> Answer {
        let is_own = |row: &ClaimFact| row.resource == *key && row.client.as_ref() == Some(client);
        let is_meant = |row: &ClaimFact| is_own(row) && holds(row) && token.is_none_or(|token| row.token == token);
        if let Some(at) = self.claims.iter().position(is_meant) {
            self.end(now, at, Ending::Released);
            return Ok(Reply::Unlocked);
        }
        let waits = |row: &ClaimFact| is_own(row) && row.status == Status::Waiting && token.is_none();
        let at = self.claims.iter().position(waits).ok_or(Refusal::NotTheHolder)?;
        self.end(now, at, Ending::Withdrawn);
        Ok(Reply::Spent(Spent::Waited))
    }

    fn lock(&mut self, now: Moment, asked: Acquire) -> Answer {
        let key = asked.resource.clone();
        let holder = self.lock_holder(&key);
        if let Some(at) = self.repeated(&asked)?.filter(|&at| self.claims[at].status == Status::Active) {
            self.take_up(now, at);
            return Ok(Reply::Lock(self.view_lock(now, &key), LockNews::Acquired { from: None }));
        }
        let own = holder.filter(|&at| self.claims[at].client == asked.client);
        let renewed = match asked.options.renewal {
            Renewal::Any => own,
            Renewal::Never => None,
            Renewal::Only(token) if own.is_some_and(|at| self.claims[at].token == token) => own,
            Renewal::Only(_) => return Err(Refusal::NotHeld { how: None }),
        };
        if let Some(at) = renewed {
            self.extend(now, at, asked.ttl_us);
            return Ok(Reply::Lock(self.view_lock(now, &key), LockNews::Renewed));
        }
        let is_open = holder.is_none_or(|at| self.claims[at].status == Status::Lapsed);
        if is_open && self.fittings(&key).pause.is_none() {
            self.refuse_new_claim(&key)?;
            self.refuse_past_quota(&asked)?;
            self.make_room_for_claim(&asked)?;
            // The client that let it lapse goes first, if it was not forgotten just now.
            let from = self.supersede_lapsed(now, &key);
            let at = self.enqueue(now, asked, Time::NEVER);
            self.grant(now, at, 0);
            return Ok(Reply::Lock(self.view_lock(now, &key), LockNews::Acquired { from }));
        }
        if matches!(asked.patience, Patience::Standing | Patience::For { wait_us: 0 }) {
            return Err(self.locked(now, &key));
        }
        let standing =
            |row: &&mut ClaimFact| row.resource == key && row.client == asked.client && row.status == Status::Waiting;
        if let Some(row) = self.claims.iter_mut().find(standing) {
            row.seen = true;
            row.wait_until = row.wait_until.max(until(now, asked.patience, row.keep_us));
            row.ttl_us = asked.ttl_us;
            return Ok(Reply::Waiting(row.claim));
        }
        self.refuse_new_claim(&key)?;
        self.refuse_past_quota(&asked)?;
        self.refuse_new_waiter()?;
        self.refuse_past_waiting_quota(&asked)?;
        self.make_room_for_claim(&asked)?;
        let wait_until = until(now, asked.patience, asked.options.keep_us);
        let at = self.enqueue(now, asked, wait_until);
        Ok(Reply::Waiting(self.claims[at].claim))
    }

    /// The caller asks again for what it was granted. If it was away then, its time begins now.
    fn take_up(&mut self, now: Moment, at: usize) {
        let row = &mut self.claims[at];
        let granted = row.granted.expect("it holds something");
        if row.keep_us > 0 && row.lease.deadline.since(granted.at) < row.ttl_us {
            let ttl_us = row.ttl_us;
            self.extend(now, at, ttl_us);
        } else if !row.seen {
            row.seen = true;
            row.keep_us = 0;
        }
    }

    pub(crate) fn locked(&self, now: Moment, key: &ResourceKey) -> Refusal {
        let in_grace = self.lock_holder(key).is_some_and(|at| self.claims[at].status == Status::Grace);
        Refusal::Locked { lock: Box::new(self.view_lock(now, key)), in_grace, eta_us: self.eta_us(now, key, None) }
    }

    /// The table of the claims dialect.
    fn update(&mut self, now: Moment, claim: ClaimId, update: Update) -> Answer {
        let at = self.find_public(claim)?;
        if self.claims[at].status == Status::Waiting {
            self.heed(now, at);
        }
        let row = &mut self.claims[at];
        match (row.status, update.status) {
            (Status::Ended(how), _) => return Err(Refusal::Ended(shown(how))),
            // At rest it is never a waiting claim's turn: a claim whose turn had come has been granted already.
            (Status::Waiting, Some(Wish::Active)) => return Err(Refusal::Contended),
            (Status::Waiting, Some(Wish::Released)) => return Err(Refusal::StillWaiting),
            (Status::Waiting, _) if update.ttl_us.is_some() => return Err(Refusal::StillWaiting),
            _ => {}
        }
        row.ttl_us = update.timeout_us.unwrap_or(row.ttl_us);
        let how = match update.status {
            None | Some(Wish::Active) => {
                match update.ttl_us {
                    Some(ttl_us) => self.extend(now, at, ttl_us),
                    None => self.heed(now, at),
                }
                return Ok(Reply::Claim(Box::new(self.view_claim(now, at))));
            }
            Some(Wish::Released) => Ending::Released,
            Some(Wish::Revoked) => Ending::Revoked,
            Some(Wish::Aborted) => Ending::Aborted,
            Some(Wish::Withdrawn) => Ending::Withdrawn,
        };
        self.end(now, at, how);
        Ok(Reply::ClaimEnded(how))
    }

    fn enqueue(&mut self, now: Moment, asked: Acquire, wait_until: Time) -> usize {
        self.resource_row(&asked.resource);
        // A key names one claim, the last one that was made under it.
        if let Some(at) = asked.key.as_ref().and_then(|key| self.find_key(&asked.resource, &key.name)) {
            self.claims[at].key = None;
        }
        self.last_order += 1;
        let is_shown = asked.resource.kind() == Kind::Claim;
        self.claims.push(ClaimFact {
            claim: asked.id,
            order: self.last_order,
            status: Status::Waiting,
            seen: false,
            ttl_us: asked.ttl_us,
            wait_until,
            keep_us: if wait_until == Time::NEVER { 0 } else { asked.options.keep_us },
            slot: 0,
            token: Token(0),
            lease: Lease { deadline: Time(0), grace_us: 0 },
            created: Moment { at: now.at, wall: if is_shown { now.wall } else { Wall(0) } },
            granted: None,
            ended: None,
            resource: asked.resource,
            client: asked.client,
            principal: asked.principal,
            key: asked.key,
            metadata: asked.metadata,
            particulars: asked.options.particulars,
        });
        self.claims_most = self.claims_most.max(self.claims.len());
        self.claims.len() - 1
    }

    fn grant(&mut self, now: Moment, at: usize, slot: u32) {
        self.last_token += 1;
        let token = Token(self.last_token);
        let row = &mut self.claims[at];
        row.status = Status::Active;
        row.slot = slot;
        row.token = token;
        // None of its calls is connected any more: the grant lasts as long as the place would have been kept, or not at
        // all.
        let left_us = row.wait_until.since(now.at);
        let is_away = row.keep_us > 0 && left_us <= row.keep_us;
        let mut ttl_us = if is_away { row.ttl_us.min(left_us) } else { row.ttl_us };
        // No caller sees it happen: it has to be confirmed.
        if self.attended.contains(&row.claim) {
            row.particulars.confirm_us = 0;
        } else if row.particulars.confirm_us > 0 {
            ttl_us = row.particulars.confirm_us;
        }
        let claim = row.claim;
        self.attended.retain(|&attended| attended != claim);
        let row = &mut self.claims[at];
        row.wait_until = Time::NEVER;
        row.granted =
            Some(Moment { at: now.at, wall: if row.resource.kind() == Kind::Claim { now.wall } else { Wall(0) } });
        let resource = row.resource.clone();
        self.claims[at].lease = self.lease(now, &resource, ttl_us);
        self.resource_row(&resource).last_token = token;
    }

    fn extend(&mut self, now: Moment, at: usize, ttl_us: u64) {
        let lease = self.lease(now, &self.claims[at].resource, ttl_us);
        let row = &mut self.claims[at];
        assert!(holds(row), "only a holder renews");
        row.status = Status::Active;
        row.ended = None;
        row.seen = true;
        row.keep_us = 0;
        row.particulars.confirm_us = 0;
        row.lease = lease;
        if row.resource.kind() != Kind::Claim {
            row.ttl_us = ttl_us;
        }
    }

    fn lease(&self, now: Moment, resource: &ResourceKey, ttl_us: u64) -> Lease {
        let grace_us = if resource.kind() == Kind::Lock { self.limits.grace_us } else { 0 };
        Lease { deadline: now.at.plus(ttl_us), grace_us }
    }

    fn end(&mut self, now: Moment, at: usize, how: Ending) {
        let row = &self.claims[at];
        if matches!(row.status, Status::Active | Status::Grace) && how != Ending::HandedBack && how != Ending::Deleted {
            let (resource, granted) = (row.resource.clone(), row.granted);
            self.count_hold(now, &resource, granted);
        }
        let row = &mut self.claims[at];
        let resource = row.resource.clone();
        let is_used = row.granted.is_some() || how == Ending::Released;
        let is_spent = row.key.is_some() && is_used && how != Ending::HandedBack;
        let is_kept = resource.kind() == Kind::Claim || is_spent;
        if is_kept {
            row.status = Status::Ended(how);
            row.ended = Some(now);
            if how == Ending::HandedBack {
                row.key = None;
            }
        } else {
            self.claims.remove(at);
        }
        self.settle(now, &resource);
        self.drop_unused_resources();
    }

    /// The claim is asked about. A waiting one stays for a while, a granted one is confirmed.
    fn heed(&mut self, now: Moment, at: usize) {
        let row = &mut self.claims[at];
        let Particulars { wait_ttl_us, confirm_us, .. } = row.particulars;
        match row.status {
            Status::Waiting if wait_ttl_us > 0 && row.wait_until.since(now.at) <= wait_ttl_us => {
                row.wait_until = now.at.plus(kept_us(&row.particulars));
            }
            Status::Active if confirm_us > 0 => {
                let ttl_us = row.ttl_us;
                self.extend(now, at, ttl_us);
            }
            _ => {}
        }
    }

    fn count_hold(&mut self, now: Moment, resource: &ResourceKey, granted: Option<Moment>) {
        let held_us = now.at.since(granted.expect("it was held").at);
        let row = self.resource_row(resource);
        let weight = u64::from(row.holds.count + 1).min(16);
        row.holds.count = (row.holds.count + 1).min(16);
        // In whole microseconds, towards the former mean.
        let (mean, held) = (i128::from(row.holds.mean_us), i128::from(held_us));
        row.holds.mean_us = u64::try_from(mean + (held - mean) / i128::from(weight)).expect("it is between the two");
    }

    /// First come, first served, as long as there is a free slot. Returns the client whose lapsed lock was taken.
    pub(crate) fn settle(&mut self, now: Moment, key: &ResourceKey) -> Option<Arc<str>> {
        let mut from = None;
        while let Some(at) = self.claims.iter().position(|row| row.resource == *key && row.status == Status::Waiting) {
            let id = self.claims[at].claim;
            if self.fittings(key).pause.is_some() {
                break;
            }
            from = self.supersede_lapsed(now, key).or(from);
            let Some(slot) = self.free_slot(key) else { break };
            let at = self.find(id).expect("it still waits");
            self.grant(now, at, slot);
        }
        from
    }

    /// The client that let a lock lapse loses it; returns that client's name.
    fn supersede_lapsed(&mut self, now: Moment, key: &ResourceKey) -> Option<Arc<str>> {
        let lapsed = self.lock_holder(key).filter(|&at| self.claims[at].status == Status::Lapsed)?;
        let row = &mut self.claims[lapsed];
        let from = row.client.clone();
        if row.key.is_some() {
            row.status = Status::Ended(Ending::Superseded);
            row.ended = Some(now);
        } else {
            self.claims.remove(lapsed);
            self.drop_unused_resources();
        }
        from
    }
}

/// A question counts for a quarter longer, so that not every one has to be written down.
fn kept_us(particulars: &Particulars) -> u64 {
    particulars.wait_ttl_us + particulars.wait_ttl_us / 4
}

fn until(now: Moment, patience: Patience, keep_us: u64) -> Time {
    match patience {
        Patience::For { wait_us } => now.at.plus(wait_us).plus(keep_us),
        Patience::Standing => Time::NEVER,
    }
}

/// The claim, if this is a change that time makes.
fn by_time(change: &Change) -> Option<ClaimId> {
    match change {
        Change::Ended { claim, how: Ending::Expired | Ending::TimedOut | Ending::Withdrawn }
        | Change::Kept { claim, .. }
        | Change::GraceBegan { claim }
        | Change::GraceOver { claim } => Some(*claim),
        _ => None,
    }
}
