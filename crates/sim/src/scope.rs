//! Exhaustive small scopes: every interleaving of three clients on two resources of capacity at most two, on the real
//! engine, breadth first, to a depth. States are compared in a canonical form, in which only the order of tokens and
//! claims and the distance of deadlines from now count, so that the walk comes back to where it has been.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leasehold_engine::{
    Acquire, Change, ClaimFact, ClaimId, Command, Counters, Engine, Fact, Holds, IdempotencyKey, Kind, Labeling,
    Limits, Moment, Options, Outbox, Patience, Quota, ResourceKey, Status, Time, Token, Update, Wall, Wish,
};
use leasehold_journal::record::decode_chunk;
use leasehold_journal::{ChunkWriter, Position};

/// One tick of the small clock.
const UNIT: u64 = 10;
/// Every canonical state is at this moment.
const NOW: Moment = Moment { at: Time(1_000), wall: Wall(0) };
const CLIENTS: u8 = 3;

/// The dimensions of a walk.
#[derive(Clone, Debug)]
pub struct Scope {
    pub resources: [ResourceKey; 2],
    pub depth: u32,
    /// The walk ends here, though the depth is not reached.
    pub states_max: usize,
}

/// How far a walk got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    pub states: usize,
    pub steps: usize,
    /// Every state up to this depth was seen.
    pub depth: u32,
    pub is_complete: bool,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Ask for a slot, and stand in line or not.
    Acquire {
        client: u8,
        resource: u8,
        waits: bool,
    },
    /// Ask again under the same key.
    Repeat {
        client: u8,
        resource: u8,
    },
    Renew {
        client: u8,
        resource: u8,
    },
    Release {
        client: u8,
        resource: u8,
    },
    /// The caller of a waiting claim is gone.
    Leave {
        client: u8,
        resource: u8,
    },
    /// The answer reached no caller.
    HandBack {
        client: u8,
        resource: u8,
    },
    Configure {
        resource: u8,
        capacity: u32,
    },
    Delete {
        resource: u8,
    },
    Tick,
}

impl Scope {
    /// Walks, and panics with the way there when an invariant does not hold.
    pub fn walk(&self) -> Walked {
        let start = canonical(Engine::new(limits()).facts(), NOW.at);
        let mut seen = BTreeSet::from([digest(&pack(&start))]);
        let mut frontier = VecDeque::from([(pack(&start), 0_u32)]);
        let mut walked = Walked { states: 1, ..Walked::default() };
        while let Some((packed, depth)) = frontier.pop_front() {
            walked.depth = depth;
            if depth == self.depth {
                walked.is_complete = true;
                break;
            }
            let facts = unpack(&packed);
            for action in self.actions(&facts) {
                walked.steps += 1;
                let next = pack(&self.step(&facts, action, walked.steps.is_multiple_of(16)));
                if seen.insert(digest(&next)) {
                    frontier.push_back((next, depth + 1));
                }
            }
            if seen.len() >= self.states_max {
                break;
            }
        }
        walked.states = seen.len();
        walked.is_complete |= frontier.is_empty();
        walked
    }

    /// Applies one action to a state, on an engine restored from it.
    fn step(&self, facts: &[Fact], action: Move, is_replayed: bool) -> Vec<Fact> {
        let mut engine = restored(facts);
        let mut out = Outbox::default();
        let now = if action == Move::Tick { Moment { at: NOW.at.plus(UNIT), ..NOW } } else { NOW };
        match self.command(facts, action) {
            Some(command) => {
                let is_in_vain = self.is_in_vain(facts, action);
                engine.handle_time_before(now, &command, &mut out);
                let _answer = engine.handle(now, command, &mut out);
                assert!(!is_in_vain || out.changes.is_empty(), "S7: {action:?} changed {:?}: {facts:?}", out.changes);
            }
            None => engine.handle_time(now, &mut out),
        }
        assert_tokens_rise(facts, &out.changes);
        engine.check();
        let after = engine.facts();
        if is_replayed {
            let mut standby = restored(facts);
            out.changes.iter().for_each(|change| standby.apply(now, change));
            assert_eq!(standby.facts(), after, "S15: {action:?} replays to something else");
        }
        canonical(after, now.at)
    }

    fn actions(&self, facts: &[Fact]) -> Vec<Move> {
        let mut actions = vec![Move::Tick];
        for resource in 0..2 {
            let kind = self.resources[usize::from(resource)].kind();
            if kind != Kind::Lock {
                actions.extend((0..=2).map(|capacity| Move::Configure { resource, capacity }));
                actions.push(Move::Delete { resource });
            }
            for client in 0..CLIENTS {
                let mine = self.mine(facts, client, resource);
                match mine.map(|claim| claim.status) {
                    None => {
                        actions.push(Move::Acquire { client, resource, waits: true });
                        actions.push(Move::Acquire { client, resource, waits: false });
                        // In vain: it has nothing.
                        actions.push(Move::Release { client, resource });
                    }
                    Some(Status::Waiting) => {
                        actions.push(Move::Leave { client, resource });
                        actions.push(Move::Repeat { client, resource });
                    }
                    Some(_) => {
                        actions.push(Move::Release { client, resource });
                        actions.push(Move::Renew { client, resource });
                        actions.push(Move::HandBack { client, resource });
                        actions.push(Move::Repeat { client, resource });
                    }
                }
            }
        }
        actions
    }

    /// The live claim of a client.
    fn mine<'a>(&self, facts: &'a [Fact], client: u8, resource: u8) -> Option<&'a ClaimFact> {
        let key = &self.resources[usize::from(resource)];
        facts.iter().find_map(|fact| match fact {
            Fact::Claim(claim)
                if claim.resource == *key
                    && owner(claim.claim) == client
                    && !matches!(claim.status, Status::Ended(_)) =>
            {
                Some(claim.as_ref())
            }
            _ => None,
        })
    }

    /// A release by a client that holds nothing.
    fn is_in_vain(&self, facts: &[Fact], action: Move) -> bool {
        match action {
            Move::Release { client, resource } => self.mine(facts, client, resource).is_none(),
            _ => false,
        }
    }

    fn command(&self, facts: &[Fact], action: Move) -> Option<Command> {
        let key = |resource: u8| self.resources[usize::from(resource)].clone();
        let id = |client, resource| {
            let claim = self.mine(facts, client, resource).map(|claim| claim.claim);
            claim.unwrap_or(fresh(facts, client, 9))
        };
        Some(match action {
            Move::Acquire { client, resource, waits } => self.acquire(facts, client, resource, waits),
            Move::Repeat { client, resource } => self.acquire(facts, client, resource, true),
            Move::Renew { client, resource } => match key(resource).kind() {
                Kind::Pool => Command::Renew { resource: key(resource), claim: id(client, resource), ttl_us: 2 * UNIT },
                Kind::Claim => {
                    let update = Update { ttl_us: Some(2 * UNIT), ..Update::default() };
                    Command::Update { claim: id(client, resource), update }
                }
                Kind::Lock => self.acquire(facts, client, resource, false),
            },
            Move::Release { client, resource } => match key(resource).kind() {
                Kind::Pool => Command::Return { resource: key(resource), claim: id(client, resource) },
                Kind::Claim => {
                    let update = Update { status: Some(Wish::Released), ..Update::default() };
                    Command::Update { claim: id(client, resource), update }
                }
                Kind::Lock => Command::Unlock { resource: key(resource), client: name(client), token: None },
            },
            Move::Leave { client, resource } => Command::Withdraw { claim: id(client, resource) },
            Move::HandBack { client, resource } => {
                Command::HandBack { claim: id(client, resource), heard_by_nobody: false }
            }
            Move::Configure { resource, capacity } => {
                Command::Configure { resource: key(resource), capacity, label: Labeling::Kept }
            }
            Move::Delete { resource } => Command::Unconfigure { resource: key(resource) },
            Move::Tick => return None,
        })
    }

    fn acquire(&self, facts: &[Fact], client: u8, resource: u8, waits: bool) -> Command {
        let key = &self.resources[usize::from(resource)];
        let wait_us = if waits { UNIT + UNIT / 2 } else { 0 };
        let is_lock = key.kind() == Kind::Lock;
        Command::Acquire(Box::new(Acquire {
            resource: key.clone(),
            id: fresh(facts, client, resource),
            ttl_us: 2 * UNIT,
            patience: if key.kind() == Kind::Claim { Patience::Standing } else { Patience::For { wait_us } },
            client: is_lock.then(|| name(client)),
            principal: None,
            key: (!is_lock && client == 0).then(|| IdempotencyKey { name: "k".into(), fingerprint: 1 }),
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }))
    }
}

fn limits() -> Limits {
    Limits {
        grace_us: UNIT,
        retain_us: UNIT,
        retained_max: 3,
        claims_max: 5,
        waiting_max: 3,
        resources_max: 2,
        ..Limits::default()
    }
}

fn name(client: u8) -> Arc<str> {
    ["a", "b", "c"][usize::from(client)].into()
}

/// An id that shows its client and that no claim has.
fn fresh(facts: &[Fact], client: u8, resource: u8) -> ClaimId {
    let taken = |id: ClaimId| facts.iter().any(|fact| matches!(fact, Fact::Claim(claim) if claim.claim == id));
    let ids = (0_u128..).map(|n| ClaimId(u128::from(client) << 64 | u128::from(resource) << 32 | n));
    ids.into_iter().find(|id| !taken(*id)).expect("few ids are taken")
}

fn owner(claim: ClaimId) -> u8 {
    u8::try_from(claim.0 >> 64).expect("ids begin with their client")
}

fn restored(facts: &[Fact]) -> Engine {
    let mut engine = Engine::new(limits());
    facts.iter().cloned().for_each(|fact| engine.restore(fact));
    engine.finish_restore(NOW.at);
    engine
}

fn assert_tokens_rise(facts: &[Fact], changes: &[Change]) {
    let mut last = facts.iter().find_map(|fact| match fact {
        Fact::Counters(counters) => Some(counters.last_token),
        _ => None,
    });
    for change in changes {
        if let Change::Granted { token, .. } = change {
            assert!(last.is_none_or(|last| last < *token), "S3: token {token} after {last:?}");
            last = Some(*token);
        }
    }
}

/// The same state as it would look now at `NOW`, with tokens and orders counted from one.
fn canonical(mut facts: Vec<Fact>, now: Time) -> Vec<Fact> {
    let mut tokens = BTreeSet::new();
    let mut orders = BTreeSet::new();
    for fact in &facts {
        match fact {
            Fact::Counters(_) => {}
            Fact::Resource(resource) => {
                tokens.insert(resource.last_token);
            }
            Fact::Claim(claim) => {
                tokens.insert(claim.token);
                orders.insert(claim.order);
            }
        }
    }
    tokens.remove(&Token(0));
    let token_ranks: BTreeMap<Token, Token> = tokens.into_iter().zip((1..).map(Token)).collect();
    let order_ranks: BTreeMap<u64, u64> = orders.into_iter().zip(1..).collect();
    let rank = |token: Token| token_ranks.get(&token).copied().unwrap_or(Token(0));
    // The distant past makes no difference any more.
    let shift = |time: Time| match time {
        Time::NEVER => time,
        Time(us) => Time((us + NOW.at.0).saturating_sub(now.0).max(NOW.at.0 - 5 * UNIT)),
    };
    for fact in &mut facts {
        match fact {
            Fact::Counters(counters) => {
                *counters =
                    Counters { last_token: Token(token_ranks.len() as u64), last_order: order_ranks.len() as u64 };
            }
            Fact::Resource(resource) => {
                resource.last_token = rank(resource.last_token);
                // The past decides nothing, it is only told to waiters.
                resource.holds = Holds::default();
            }
            Fact::Claim(claim) => {
                claim.token = rank(claim.token);
                claim.order = order_ranks[&claim.order];
                claim.wait_until = shift(claim.wait_until);
                claim.lease.deadline = shift(claim.lease.deadline);
                claim.created = NOW;
                claim.granted = claim.granted.map(|_| NOW);
                claim.ended = claim.ended.map(|ended| Moment { at: shift(ended.at), wall: Wall(0) });
            }
        }
    }
    facts
}

fn pack(facts: &[Fact]) -> Vec<u8> {
    let mut chunk = ChunkWriter::new(0, Position(1), NOW);
    for fact in facts {
        chunk.push(fact);
    }
    chunk.seal()
}

fn unpack(packed: &[u8]) -> Vec<Fact> {
    decode_chunk(packed).expect("it was packed here").facts
}

fn digest(packed: &[u8]) -> u128 {
    packed.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}
