//! The wishes of clients, drawn by chance: few resources, small capacities, short leases, so that they get in each
//! other's way all the time.

use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimFilter, ClaimId, ClaimQuery, Command, IdempotencyKey, Kind, Labeling, NameSlots, NamedSlot, Options,
    Particulars, Patience, Quota, Renewal, ResourceKey, Token, Update, Wish,
};

use super::World;
use super::bodies::Holding;
use crate::rng::Rng;

/// The key of a pool.
pub(super) fn pool(n: usize) -> ResourceKey {
    ResourceKey::Pool(0x1ea5_e000 + n as u128)
}

impl World {
    /// A command, and how long to listen.
    pub(super) fn wish(&mut self, client: usize) -> Option<(Command, u64)> {
        if let Some(holding) = self.in_need_of_renewal(client) {
            return self.renewal(client, &holding);
        }
        let rng = &mut self.clients[client].rng;
        match rng.below(100) {
            0..48 => Some(self.acquisition(client)),
            48..68 => {
                let holding = self.any_holding(client)?;
                Some((self.release(client, &holding), 0))
            }
            68..76 => Some(self.look(client)),
            76..86 => Some((self.configuration(client), 0)),
            _ => self.claim_update(client),
        }
    }

    /// A holding in the second third of its lease, and now and then one that is long over.
    fn in_need_of_renewal(&mut self, client: usize) -> Option<Holding> {
        let now_us = self.now_us;
        let body = &mut self.clients[client];
        // Until it is over by its own clock, and a moment longer for some: late holders are part of the world.
        let lateness_us = if body.rng.chance(100) { 3_000_000 } else { 20_000 };
        body.holdings.retain(|holding| holding.until_us + lateness_us > now_us);
        let is_due = |holding: &&Holding| now_us > holding.told_us + holding.ttl_us / 3;
        let holding = body.holdings.iter().find(is_due).cloned()?;
        body.rng.chance(600).then_some(holding)
    }

    fn any_holding(&mut self, client: usize) -> Option<Holding> {
        let body = &mut self.clients[client];
        if body.holdings.is_empty() {
            return None;
        }
        let n = body.rng.index(body.holdings.len());
        Some(body.holdings[n].clone())
    }

    fn ttl(&mut self, client: usize) -> u64 {
        let max_us = self.plan.ttl_max_us;
        self.clients[client].rng.range(30_000, max_us)
    }

    fn renewal(&mut self, client: usize, holding: &Holding) -> Option<(Command, u64)> {
        let ttl_us = self.ttl(client);
        // From the moment of sending, a shorter lease may be what it has.
        let until_us = self.client_until(client, self.now_us, ttl_us);
        let mine = self.clients[client].holdings.iter_mut().find(|mine| mine.claim == holding.claim)?;
        mine.until_us = mine.until_us.min(until_us);
        mine.told_us = self.now_us;
        let (resource, claim) = (holding.resource.clone(), holding.claim);
        let command = match resource.kind() {
            Kind::Pool => Command::Renew { resource, claim, ttl_us },
            Kind::Claim => Command::Update { claim, update: Update { ttl_us: Some(ttl_us), ..Update::default() } },
            Kind::Lock => {
                let rng = &mut self.clients[client].rng;
                let renewal = match rng.below(20) {
                    0..10 => Renewal::Only(holding.token),
                    // By mistake, or because the caller was away for long: the token of another grant.
                    10 => Renewal::Only(Token(holding.token.0.saturating_sub(rng.below(3)))),
                    11 => Renewal::Never,
                    _ => Renewal::Any,
                };
                self.lock(client, resource, ttl_us, renewal)
            }
        };
        Some((command, 0))
    }

    pub(super) fn release(&mut self, client: usize, holding: &Holding) -> Command {
        let name = Arc::clone(&self.clients[client].name);
        self.clients[client].holdings.retain(|mine| mine.claim != holding.claim);
        let (resource, claim) = (holding.resource.clone(), holding.claim);
        match resource.kind() {
            Kind::Pool => Command::Return { resource, claim },
            Kind::Claim => {
                Command::Update { claim, update: Update { status: Some(Wish::Released), ..Update::default() } }
            }
            Kind::Lock => {
                let token = self.clients[client].rng.chance(500).then_some(holding.token);
                Command::Unlock { resource, client: name, token }
            }
        }
    }

    fn some_resource(&mut self, client: usize) -> ResourceKey {
        let (pools, claimed, locks) = (self.plan.pools, self.plan.claimed, self.plan.locks);
        let n = self.clients[client].rng.index(pools + claimed + locks);
        if n < pools {
            pool(n)
        } else if n < pools + claimed {
            ResourceKey::Claim(format!("r{}", n - pools).into())
        } else {
            ResourceKey::Lock(format!("l{}", n - pools - claimed).into())
        }
    }

    fn acquisition(&mut self, client: usize) -> (Command, u64) {
        let resource = self.some_resource(client);
        let ttl_us = self.ttl(client);
        if resource.kind() == Kind::Lock {
            return (self.lock(client, resource, ttl_us, Renewal::Any), 0);
        }
        let key = self.some_key(client, ttl_us);
        let owner = self.plan.is_signed_on.then(|| Arc::clone(&self.clients[client].name));
        let rng = &mut self.clients[client].rng;
        let listen_us = if rng.chance(500) { rng.range(0, 900_000) } else { 0 };
        let patience = match resource.kind() {
            Kind::Claim => Patience::Standing,
            Kind::Pool | Kind::Lock if rng.chance(650) => Patience::For { wait_us: rng.range(0, 1_500_000) },
            Kind::Pool | Kind::Lock => Patience::For { wait_us: 0 },
        };
        let listen_us = if resource.kind() == Kind::Claim { listen_us } else { 0 };
        // As the HTTP contract has it: a place is found again by its key.
        let is_kept = resource.kind() == Kind::Pool && key.is_some() && rng.chance(400);
        let keep_us = if is_kept { rng.range(20_000, 1_200_000) } else { 0 };
        let ttl_us = if resource.kind() == Kind::Claim && rng.chance(20) { 0 } else { ttl_us };
        let id = ClaimId(rng.next_u128());
        let options = Options { keep_us, particulars: self.particulars(&resource, id), ..Options::default() };
        let acquire = Acquire {
            resource,
            id,
            ttl_us,
            patience,
            client: owner,
            principal: None,
            key,
            metadata: None,
            quota: Quota::NONE,
            options,
        };
        (Command::Acquire(Box::new(acquire)), listen_us)
    }

    /// Some claims have to be asked about, some confirmed. Taken from the id, so that the rest of a seed keeps its
    /// meaning.
    fn particulars(&self, resource: &ResourceKey, id: ClaimId) -> Particulars {
        if resource.kind() != Kind::Claim || !self.plan.is_attentive {
            return Particulars::default();
        }
        let drawn = |shift: u32, values: [u64; 4]| values[(id.0 >> shift) as usize % 4];
        let wait_ttl_us = drawn(3, [0, 60_000, 200_000, 700_000]);
        let confirm_us = drawn(5, [0, 40_000, 150_000, 600_000]);
        Particulars { holder: None, wait_ttl_us, confirm_us }
    }

    fn lock(&mut self, client: usize, resource: ResourceKey, ttl_us: u64, renewal: Renewal) -> Command {
        let name = Arc::clone(&self.clients[client].name);
        // A lock is renewed by asking for it again: from now on the shorter of both leases may be what it has.
        let until_us = self.client_until(client, self.now_us, ttl_us);
        for mine in self.clients[client].holdings.iter_mut().filter(|mine| mine.resource == resource) {
            mine.until_us = mine.until_us.min(until_us);
        }
        let principal = self.plan.is_signed_on.then(|| Arc::clone(&name));
        let rng = &mut self.clients[client].rng;
        let wait_us = if rng.chance(500) { rng.range(1, 1_500_000) } else { 0 };
        let keep_us = if wait_us > 0 && rng.chance(300) { rng.range(20_000, 1_200_000) } else { 0 };
        let acquire = Acquire {
            resource,
            id: ClaimId(rng.next_u128()),
            ttl_us,
            patience: Patience::For { wait_us },
            client: Some(name),
            principal,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: Options { renewal, keep_us, ..Options::default() },
        };
        Command::Acquire(Box::new(acquire))
    }

    fn some_key(&mut self, client: usize, ttl_us: u64) -> Option<IdempotencyKey> {
        let body = &mut self.clients[client];
        if body.rng.chance(450) {
            return None;
        }
        if body.rng.chance(60)
            && let Some((_, name, _)) = body.got.last()
        {
            // By mistake, an old key for something new.
            return Some(IdempotencyKey { name: Arc::clone(name), fingerprint: ttl_us });
        }
        body.keys += 1;
        let name = format!("{}-{}", body.name, body.keys).into();
        Some(IdempotencyKey { name, fingerprint: ttl_us })
    }

    fn look(&mut self, client: usize) -> (Command, u64) {
        let holding = self.any_holding(client);
        let resource = self.some_resource(client);
        let rng = &mut self.clients[client].rng;
        let listen_us = if rng.chance(400) { rng.range(1, 500_000) } else { 0 };
        let command = match (rng.below(4), holding) {
            (0 | 1, Some(Holding { resource, claim, .. })) => match resource.kind() {
                Kind::Pool => Command::ViewLease { resource, claim },
                Kind::Claim => return (Command::ViewClaim { claim }, listen_us),
                Kind::Lock => Command::ViewResource { resource },
            },
            (2, _) => Command::ListClaims(Box::new(ClaimQuery {
                filter: ClaimFilter::default(),
                after: 0,
                limit: 10,
                scan_max: 100,
            })),
            _ => Command::ViewResource { resource },
        };
        (command, 0)
    }

    fn configuration(&mut self, client: usize) -> Command {
        let max = u64::from(self.plan.capacity_max);
        let resource = self.some_resource(client);
        if let Some(command) = self.fitting(client, &resource) {
            return command;
        }
        let rng = &mut self.clients[client].rng;
        if resource.kind() == Kind::Lock {
            // There is nothing to configure; a client can ask to release another client's lock, in vain.
            let client = Arc::clone(&self.clients[client].name);
            return Command::Unlock { resource, client, token: None };
        }
        if rng.chance(150) {
            return Command::Unconfigure { resource };
        }
        let low = u64::from(rng.chance(850));
        let capacity = u32::try_from(rng.range(low, max)).expect("small");
        Command::Configure { resource, capacity, label: Labeling::Kept }
    }

    /// A pause, a slot out of service, or names. Drawn on the side, so that the rest of a seed keeps its meaning.
    fn fitting(&self, client: usize, resource: &ResourceKey) -> Option<Command> {
        let mut rng = Rng::new(self.plan.seed ^ self.now_us.rotate_left(20), 16 + client as u64);
        if !self.plan.is_fitted || rng.chance(300) {
            return None;
        }
        let resource = resource.clone();
        let reason: Arc<str> = rng.pick(&["disks", "a drill", "new cables"]).into();
        let slots = u64::from(self.plan.capacity_max);
        let slot = u32::try_from(rng.below(slots)).expect("small");
        Some(match rng.below(if resource.kind() == Kind::Lock { 4 } else { 11 }) {
            0..3 => {
                let for_us = rng.chance(800).then(|| rng.range(1, 900_000));
                Command::Pause { resource, reason, for_us }
            }
            3 | 4 => Command::Resume { resource },
            5 | 6 => Command::ServeSlot { resource, slot, out: Some(reason) },
            7 => Command::ServeSlot { resource, slot, out: None },
            8 => {
                let capacity = slot + 1;
                Command::NameSlots(Box::new(NameSlots { resource, capacity, slots: None, label: Labeling::Kept }))
            }
            _ => {
                let named = |n: u64, rng: &mut Rng| NamedSlot {
                    name: format!("{n}{}", rng.pick(&["a", "a", "b"])).into(),
                    data: rng.chance(700).then(|| rng.below(100).to_string().into()),
                };
                let count = 1 + rng.below(slots);
                let slots: Arc<[NamedSlot]> = (0..count).map(|n| named(n, &mut rng)).collect();
                let capacity = u32::try_from(count).expect("small");
                Command::NameSlots(Box::new(NameSlots {
                    resource,
                    capacity,
                    slots: Some(slots),
                    label: Labeling::Kept,
                }))
            }
        })
    }

    /// The end of a pause that does not end by itself, or of the last slots that are out of service.
    pub(super) fn unfitting(&self) -> Option<Command> {
        self.ledger.rows.iter().find_map(|(resource, row)| {
            let resource = resource.clone();
            if row.fit.paused_until.is_some() {
                return Some(Command::Resume { resource });
            }
            let slot = row.fit.out.first().copied()?;
            Some(Command::ServeSlot { resource, slot, out: None })
        })
    }

    fn claim_update(&mut self, client: usize) -> Option<(Command, u64)> {
        let ttl_us = self.ttl(client);
        let standing = self.clients[client].standing.clone();
        let holding = self.any_holding(client).filter(|holding| holding.resource.kind() == Kind::Claim);
        let rng = &mut self.clients[client].rng;
        let listen_us = if rng.chance(600) { rng.range(1, 900_000) } else { 0 };
        let claim = match (standing.is_empty(), holding) {
            (false, _) => standing[rng.index(standing.len())],
            (true, Some(holding)) => {
                // Ending an active claim by other words.
                if rng.chance(300) {
                    let claim = holding.claim;
                    self.clients[client].holdings.retain(|mine| mine.claim != claim);
                    let status = Some(Wish::Aborted);
                    return Some((Command::Update { claim, update: Update { status, ..Update::default() } }, 0));
                }
                holding.claim
            }
            (true, None) => return None,
        };
        let update = match rng.below(6) {
            0..3 => Update { status: Some(Wish::Active), ..Update::default() },
            3 => Update { timeout_us: Some(ttl_us), ..Update::default() },
            4 => Update { status: Some(Wish::Released), ..Update::default() },
            _ => Update { status: Some(Wish::Revoked), ..Update::default() },
        };
        if matches!(update.status, Some(Wish::Released | Wish::Revoked)) {
            self.clients[client].holdings.retain(|mine| mine.claim != claim);
            self.clients[client].standing.retain(|mine| *mine != claim);
        }
        Some((Command::Update { claim, update }, listen_us))
    }
}
