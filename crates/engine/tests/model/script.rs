//! The parts of a random case: settings and steps, small enough that the same instants, names and keys meet often. A
//! step becomes a command only when it is its turn, because its claim depends on what happened so far.

use std::ops::Range;
use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimFact, ClaimFilter, ClaimId, ClaimQuery, Command, Ending, IdempotencyKey, KeyReuse, Kind, Labeling,
    Limits, NameSlots, NamedSlot, Options, Particulars, Patience, Quota, Renewal, ResourceKey, Revocable, Spend,
    StatusFilter, Time, Token, Update, Wall, Wish,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::naive::Naive;
use crate::naive_rows::is_remembered;

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) limits: Limits,
    /// The step before which a snapshot begins, and how much of it is walked between later steps.
    pub(crate) snapshot_at: usize,
    pub(crate) snapshot_budget: usize,
    /// The steps at which the store is nearly full.
    pub(crate) full: Range<usize>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) advance: Advance,
    pub(crate) op: Op,
}

/// How service time goes on before the step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advance {
    By(u64),
    /// Exactly to the next instant at which something is due.
    ToNextDue,
    /// To the last instant before.
    JustBeforeNextDue,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Time,
    Configure { resource: u8, capacity: u32, label: u8 },
    Unconfigure { resource: u8 },
    Borrow { pool: u8, ttl_us: u64, wait_us: u64, keep_us: u64, key: Option<(u8, u64)>, named: bool },
    Claim { resource: u8, ttl_us: u64, wait: Wait, key: Option<(u8, u64)>, with_metadata: bool, terms: (u64, u64) },
    ViewHolding { resource: u8, key: Option<u8> },
    Lock { job: u8, client: u8, ttl_us: u64, wait_us: u64, keep_us: u64, key: Option<(u8, u64)>, renews: Grant },
    Spend { resource: u8, key: u8, client: Option<u8> },
    ViewPlace { resource: u8, name: u8 },
    Renew { whose: Whose, ttl_us: u64, elsewhere: bool },
    Return { whose: Whose, elsewhere: bool },
    Unlock { job: u8, client: u8, only: Grant },
    Pause { resource: u8, reason: u8, for_us: Option<u64> },
    Resume { resource: u8 },
    ServeSlot { resource: u8, slot: u32, out: Option<u8> },
    NameSlots { resource: u8, names: Option<Vec<(u8, u8)>>, count: u32 },
    Update { whose: Whose, update: Update },
    Withdraw { whose: Whose },
    Mark,
    HandBack { whose: Whose, heard_by_nobody: bool },
    Attend { whose: Whose, is_attended: bool },
    Revoke { whose: Whose, waiting: bool },
    Fence { whose: Whose },
    ViewResource { resource: u8 },
    ViewLease { whose: Whose, elsewhere: bool },
    ViewClaim { whose: Whose },
    ListClaims { query: ClaimQuery },
    ListResources { after: Option<u8>, limit: usize, scan_max: usize },
}

/// How a claim waits, and whether its key may be used again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Standing,
    For(u64, KeyReuse),
}

/// Which grant of a lock a step is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grant {
    Any,
    /// The one that holds it, if there is one.
    Present,
    /// One that ended long ago.
    Former,
    None,
}

/// Which claim a step is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// The nth of those that wait or hold, of the kind the step is for, counted from the newest and round again.
    Live(u8),
    /// The nth of those still known, of the kind the step is for, counted from the newest and round again.
    Known(u8),
    /// The nth id drawn so far, counted from the newest, in any status.
    Drawn(u8),
    Nobody,
}

const POOLS: u8 = 2;
const CLAIMED: u8 = 2;
const LOCKS: u8 = 2;

/// Snapshots begin before this step; in a script that has fewer, at its end.
const SNAPSHOT_BY: usize = 150;

/// Scripts of `steps` steps on average. Shorter ones are simpler, so a failure shrinks to a handful.
pub(crate) fn scripts(steps: usize) -> impl Strategy<Value = Script> {
    let steps = vec(step(), 1..=(2 * steps).max(2) - 1);
    (limits(), 0..SNAPSHOT_BY, 1..4usize, full(), steps).prop_map(
        |(limits, snapshot_at, snapshot_budget, full, steps)| Script {
            limits,
            snapshot_at,
            snapshot_budget,
            full,
            steps,
        },
    )
}

/// In every second script the store is nearly full for a while.
fn full() -> impl Strategy<Value = Range<usize>> {
    prop_oneof![Just(0..0), (0..SNAPSHOT_BY, 1..40usize).prop_map(|(from, steps)| from..from + steps)]
}

fn limits() -> impl Strategy<Value = Limits> {
    let roomy = Limits {
        grace_us: 2,
        retain_us: 12,
        retained_max: 50,
        state_bytes_max: 1_000_000,
        claims_max: 1_000,
        waiting_max: 1_000,
        resources_max: 1_000,
        ..Limits::default()
    };
    let few_retained = Limits { retained_max: 3, ..roomy.clone() };
    let long_retained = Limits { retain_us: 60, retained_max: 15, grace_us: 3, ..roomy.clone() };
    let few_claims = Limits { claims_max: 6, ..roomy.clone() };
    let few_waiting = Limits { waiting_max: 3, ..roomy.clone() };
    let few_resources = Limits { resources_max: 4, ..roomy.clone() };
    let few_bytes = Limits { state_bytes_max: 4_000, ..roomy.clone() };
    let few_bytes_of_history = Limits { state_bytes_max: 9_000, retain_us: 60, ..roomy.clone() };
    let no_grace = Limits { grace_us: 0, ..roomy.clone() };
    select(vec![
        roomy.clone(),
        roomy,
        few_retained,
        long_retained,
        few_claims,
        few_waiting,
        few_resources,
        few_bytes,
        few_bytes_of_history,
        no_grace,
    ])
}

fn step() -> impl Strategy<Value = Step> {
    (advance(), op()).prop_map(|(advance, op)| Step { advance, op })
}

fn advance() -> impl Strategy<Value = Advance> {
    prop_oneof![
        40 => Just(Advance::By(0)),
        5 => (1..4u64).prop_map(Advance::By),
        4 => Just(Advance::ToNextDue),
        2 => Just(Advance::JustBeforeNextDue),
        1 => (5..30u64).prop_map(Advance::By),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let resource = 0..(POOLS + CLAIMED);
    let view_of = 0..(POOLS + CLAIMED + LOCKS);
    let ttl_us = || select(vec![1u64, 2, 3, 4, 6, 9]);
    let claim_ttl_us = || select(vec![0u64, 1, 2, 3, 6, 9]);
    let wait_us = || select(vec![0u64, 0, 1, 2, 2, 4, 8]);
    let keep_us = || select(vec![0u64, 0, 0, 1, 3]);
    let key = || option::weighted(0.4, (0..2u8, prop_oneof![5 => Just(1u64), 1 => Just(2u64)]));
    let client = || 0..3u8;
    let elsewhere = || proptest::bool::weighted(0.1);
    prop_oneof![
        3 => Just(Op::Time),
        6 => (resource.clone(), select(vec![0u32, 1, 1, 2, 2, 3]), select(vec![0u8, 0, 0, 0, 1, 2, 3]))
            .prop_map(|(resource, capacity, label)| Op::Configure { resource, capacity, label }),
        1 => resource.clone().prop_map(|resource| Op::Unconfigure { resource }),
        2 => (view_of.clone(), 0..2u8, option::weighted(0.6, 1..9u64))
            .prop_map(|(resource, reason, for_us)| Op::Pause { resource, reason, for_us }),
        2 => view_of.clone().prop_map(|resource| Op::Resume { resource }),
        3 => (resource.clone(), select(vec![0u32, 0, 1, 2]), option::weighted(0.6, 0..2u8))
            .prop_map(|(resource, slot, out)| Op::ServeSlot { resource, slot, out }),
        2 => (resource, option::weighted(0.8, vec((0..3u8, 0..3u8), 0..4)), 0..3u32)
            .prop_map(|(resource, names, count)| Op::NameSlots { resource, names, count }),
        14 => (0..POOLS, ttl_us(), wait_us(), keep_us(), key(), proptest::bool::weighted(0.2)).prop_map(
            |(pool, ttl_us, wait_us, keep_us, key, named)| Op::Borrow { pool, ttl_us, wait_us, keep_us, key, named },
        ),
        14 => (0..CLAIMED, claim_ttl_us(), wait(wait_us()), key(), any::<bool>(), terms()).prop_map(
            |(resource, ttl_us, wait, key, with_metadata, terms)| {
                Op::Claim { resource, ttl_us, wait, key, with_metadata, terms }
            },
        ),
        2 => (0..CLAIMED, option::weighted(0.8, 0..2u8))
            .prop_map(|(resource, key)| Op::ViewHolding { resource, key }),
        14 => (0..LOCKS, client(), ttl_us(), wait_us(), keep_us(), key(), grant()).prop_map(
            |(job, client, ttl_us, wait_us, keep_us, key, renews)| Op::Lock { job, client, ttl_us, wait_us, keep_us, key, renews },
        ),
        3 => (prop_oneof![0..POOLS, POOLS + CLAIMED..POOLS + CLAIMED + LOCKS], 0..2u8, option::weighted(0.3, client()))
            .prop_map(|(resource, key, client)| Op::Spend { resource, key, client }),
        2 => (prop_oneof![0..POOLS, POOLS + CLAIMED..POOLS + CLAIMED + LOCKS], 0..3u8)
            .prop_map(|(resource, name)| Op::ViewPlace { resource, name }),
        4 => (whose(), ttl_us(), elsewhere())
            .prop_map(|(whose, ttl_us, elsewhere)| Op::Renew { whose, ttl_us, elsewhere }),
        5 => (whose(), elsewhere()).prop_map(|(whose, elsewhere)| Op::Return { whose, elsewhere }),
        4 => (0..LOCKS, client(), grant()).prop_map(|(job, client, only)| Op::Unlock { job, client, only }),
        8 => (whose(), update()).prop_map(|(whose, update)| Op::Update { whose, update }),
        3 => whose().prop_map(|whose| Op::Withdraw { whose }),
        1 => Just(Op::Mark),
        3 => (whose(), prop::bool::weighted(0.2))
            .prop_map(|(whose, heard_by_nobody)| Op::HandBack { whose, heard_by_nobody }),
        3 => (whose(), any::<bool>()).prop_map(|(whose, is_attended)| Op::Attend { whose, is_attended }),
        2 => (whose(), prop::bool::weighted(0.3)).prop_map(|(whose, waiting)| Op::Revoke { whose, waiting }),
        1 => whose().prop_map(|whose| Op::Fence { whose }),
        2 => view_of.prop_map(|resource| Op::ViewResource { resource }),
        2 => (whose(), elsewhere()).prop_map(|(whose, elsewhere)| Op::ViewLease { whose, elsewhere }),
        4 => whose().prop_map(|whose| Op::ViewClaim { whose }),
        2 => query().prop_map(|query| Op::ListClaims { query }),
        1 => (option::of(0..CLAIMED), 1..3usize, 1..5usize)
            .prop_map(|(after, limit, scan_max)| Op::ListResources { after, limit, scan_max }),
    ]
}

/// The `wait_ttl` and `confirm` of a claim.
fn terms() -> impl Strategy<Value = (u64, u64)> {
    (select(vec![0u64, 0, 0, 3, 4, 8, 16]), select(vec![0u64, 0, 1, 3, 6]))
}

fn wait(wait_us: impl Strategy<Value = u64>) -> impl Strategy<Value = Wait> {
    let reuse = select(vec![KeyReuse::Never, KeyReuse::AfterWait, KeyReuse::AfterWait, KeyReuse::Always]);
    (any::<bool>(), wait_us, reuse).prop_map(
        |(is_standing, wait_us, reuse)| {
            if is_standing { Wait::Standing } else { Wait::For(wait_us, reuse) }
        },
    )
}

fn grant() -> impl Strategy<Value = Grant> {
    prop_oneof![8 => Just(Grant::Any), 1 => Just(Grant::Present), 1 => Just(Grant::Former), 1 => Just(Grant::None)]
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![
        8 => (0..8u8).prop_map(Whose::Live),
        2 => (0..8u8).prop_map(Whose::Known),
        2 => (0..12u8).prop_map(Whose::Drawn),
        1 => Just(Whose::Nobody),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let wish =
        select(vec![Wish::Active, Wish::Released, Wish::Released, Wish::Revoked, Wish::Aborted, Wish::Withdrawn]);
    (option::weighted(0.3, 0..5u64), option::weighted(0.3, 0..5u64), option::weighted(0.7, wish))
        .prop_map(|(ttl_us, timeout_us, status)| Update { ttl_us, timeout_us, status })
}

fn query() -> impl Strategy<Value = ClaimQuery> {
    let endings = [Ending::Released, Ending::Expired, Ending::Revoked, Ending::Withdrawn].map(StatusFilter::Ended);
    let status = select([vec![StatusFilter::Waiting, StatusFilter::Active], endings.to_vec()].concat());
    let statuses = prop_oneof![2 => Just(Vec::new()), 1 => vec(status, 1..3)];
    let range = || option::weighted(0.15, (0..4u64, 0..6u64).prop_map(|(from, more)| from..=from + more));
    let created = option::weighted(0.1, (0..200u64).prop_map(|from| Wall(from + 1_000)..=Wall(from + 1_050)));
    let filter = (
        option::weighted(0.3, 0..CLAIMED + 1),
        select(vec![0u64, 0, 0, 3, 9]),
        statuses,
        range(),
        range(),
        range(),
        created,
    )
        .prop_map(|(resource, owned, statuses, ttl_us, active_us, waiting_us, created)| ClaimFilter {
            resource: resource.map(|nth| Arc::from(claimed_name(nth))),
            owner: Some(owned).filter(|&owned| owned > 0).and_then(owner),
            statuses,
            ttl_us,
            created,
            active_us,
            waiting_us,
        });
    let after = prop_oneof![2 => Just(0u64), 1 => 0..40u64];
    (filter, after, 1..5usize, select(vec![2usize, 5, 100])).prop_map(|(filter, after, limit, scan_max)| ClaimQuery {
        filter,
        after,
        limit,
        scan_max,
    })
}

fn claimed_name(nth: u8) -> &'static str {
    ["alpha", "beta", "nobody's"][usize::from(nth)]
}

/// Pools first, then claimed resources, then locks.
pub(crate) fn resource(nth: u8) -> ResourceKey {
    match nth {
        0..POOLS => ResourceKey::Pool(u128::from(nth) + 1),
        POOLS.. if nth < POOLS + CLAIMED => ResourceKey::Claim(Arc::from(claimed_name(nth - POOLS))),
        _ => ResourceKey::Lock(Arc::from(["default", "night"][usize::from(nth - POOLS - CLAIMED)])),
    }
}

impl Advance {
    pub(crate) fn from(self, now: Time, next_due: Option<Time>) -> Time {
        let due = next_due.unwrap_or(now).max(now);
        match self {
            Advance::By(span_us) => now.plus(span_us),
            Advance::ToNextDue => due,
            Advance::JustBeforeNextDue => Time(due.0.saturating_sub(1)).max(now),
        }
    }
}

impl Op {
    /// The command of this step, given the present state. Draws an id if the command asks for a claim.
    pub(crate) fn command(&self, model: &Naive, drawn: &mut u128) -> Option<Command> {
        let mut acquire = |resource: ResourceKey, ttl_us: u64, patience: Patience| {
            *drawn += 1;
            let id = ClaimId(*drawn);
            let (client, principal, key, metadata) = (None, None, None, None);
            let (quota, options) = (Quota::NONE, Options::default());
            Acquire { resource, id, ttl_us, patience, client, principal, key, metadata, quota, options }
        };
        Some(match self.clone() {
            Op::Time => return None,
            Op::Configure { resource: nth, capacity, label } => {
                let label = match label {
                    0 => Labeling::Kept,
                    1 => Labeling::Set(None),
                    nth => Labeling::Set(Some(Arc::from("builds".repeat(usize::from(nth))))),
                };
                Command::Configure { resource: resource(nth), capacity, label }
            }
            Op::Pause { resource: nth, reason, for_us } => {
                Command::Pause { resource: resource(nth), reason: reason_text(reason), for_us }
            }
            Op::Resume { resource: nth } => Command::Resume { resource: resource(nth) },
            Op::ServeSlot { resource: nth, slot, out } => {
                Command::ServeSlot { resource: resource(nth), slot, out: out.map(reason_text) }
            }
            Op::NameSlots { resource: nth, names, count } => {
                let slots: Option<Arc<[NamedSlot]>> = names.map(|names| {
                    let slot = |(at, (name, data)): (usize, (u8, u8))| NamedSlot {
                        name: Arc::from(format!("{at}{}", ["a", "a", "b"][usize::from(name)])),
                        data: [None, Some("1"), Some("[2,2]")][usize::from(data)].map(Arc::from),
                    };
                    names.into_iter().enumerate().map(slot).collect()
                });
                let capacity = slots.as_ref().map_or(count, |slots| u32::try_from(slots.len()).expect("few slots"));
                let label = Labeling::Kept;
                Command::NameSlots(Box::new(NameSlots { resource: resource(nth), capacity, slots, label }))
            }
            Op::Unconfigure { resource: nth } => Command::Unconfigure { resource: resource(nth) },
            Op::Borrow { pool, ttl_us, wait_us, keep_us, key, named } => {
                let asked = acquire(resource(pool), ttl_us, Patience::For { wait_us });
                let (client, quota, key) = (owner(ttl_us), quota(ttl_us), key.map(idempotency_key));
                let holder = named.then(|| Arc::from("build 17"));
                let particulars = Particulars { holder, ..Particulars::default() };
                let options = Options { keep_us, particulars, ..Options::default() };
                let metadata = (named && wait_us > 0).then(|| Arc::from("[1]"));
                Command::Acquire(Box::new(Acquire { key, client, quota, options, metadata, ..asked }))
            }
            Op::Claim { resource: nth, ttl_us, wait, key, with_metadata, terms: (wait_ttl_us, confirm_us) } => {
                let metadata = with_metadata.then(|| Arc::from("{\"why\":1}"));
                // The terms are those of a claim that stands by itself.
                let (patience, key_reuse, particulars) = match wait {
                    Wait::Standing => {
                        let particulars = Particulars { holder: None, wait_ttl_us, confirm_us };
                        (Patience::Standing, KeyReuse::Never, particulars)
                    }
                    Wait::For(wait_us, key_reuse) => (Patience::For { wait_us }, key_reuse, Particulars::default()),
                };
                let asked = acquire(resource(POOLS + nth), ttl_us, patience);
                let (client, quota, key) = (owner(ttl_us), quota(ttl_us), key.map(idempotency_key));
                let options = Options { particulars, key_reuse, ..Options::default() };
                Command::Acquire(Box::new(Acquire { key, metadata, client, quota, options, ..asked }))
            }
            Op::ViewHolding { resource: nth, key } => {
                let key = key.map(|name| idempotency_key((name, 0)).name);
                Command::ViewHolding { resource: resource(POOLS + nth), key }
            }
            Op::Lock { job, client, ttl_us, wait_us, keep_us, key, renews } => {
                let asked = acquire(resource(POOLS + CLAIMED + job), ttl_us, Patience::For { wait_us });
                // The fingerprint of a lock's request includes the client.
                let key = key.map(|(name, body)| idempotency_key((name, 10 * u64::from(client) + body)));
                let renewal = match renews {
                    Grant::Any => Renewal::Any,
                    Grant::None => Renewal::Never,
                    Grant::Present | Grant::Former => Renewal::Only(token_of(model, &asked.resource, renews)),
                };
                let options = Options { renewal, keep_us, ..Options::default() };
                let (client, principal, quota) = (Some(client_name(client)), owner(ttl_us), quota(ttl_us));
                Command::Acquire(Box::new(Acquire { client, principal, key, quota, options, ..asked }))
            }
            Op::Spend { resource: nth, key, client } => {
                *drawn += 1;
                let key = idempotency_key((key, 0)).name;
                let client = client.filter(|_| nth >= POOLS).map(client_name);
                Command::Spend(Box::new(Spend { resource: resource(nth), key, client, id: ClaimId(*drawn) }))
            }
            Op::ViewPlace { resource: nth, name } => {
                let name = if nth < POOLS { idempotency_key((name % 2, 0)).name } else { client_name(name) };
                Command::ViewPlace { resource: resource(nth), name }
            }
            Op::Renew { whose, ttl_us, elsewhere } => {
                let claim = whose.pick(model, *drawn, Some(Kind::Pool));
                Command::Renew { resource: pool_of(model, claim, elsewhere), claim, ttl_us }
            }
            Op::Return { whose, elsewhere } => {
                let claim = whose.pick(model, *drawn, Some(Kind::Pool));
                Command::Return { resource: pool_of(model, claim, elsewhere), claim }
            }
            Op::Unlock { job, client, only } => {
                let resource = resource(POOLS + CLAIMED + job);
                let token = match only {
                    Grant::Any | Grant::None => None,
                    Grant::Present | Grant::Former => Some(token_of(model, &resource, only)),
                };
                Command::Unlock { resource, client: client_name(client), token }
            }
            Op::Update { whose, update } => {
                Command::Update { claim: whose.pick(model, *drawn, Some(Kind::Claim)), update }
            }
            Op::Mark => Command::Mark,
            Op::Withdraw { whose } => Command::Withdraw { claim: whose.pick(model, *drawn, None) },
            Op::HandBack { whose, heard_by_nobody } => {
                Command::HandBack { claim: whose.pick(model, *drawn, None), heard_by_nobody }
            }
            Op::Attend { whose, is_attended } => {
                Command::Attend { claim: whose.pick(model, *drawn, Some(Kind::Claim)), is_attended }
            }
            Op::Revoke { whose, waiting } => {
                let claim = whose.pick(model, *drawn, None);
                let (resource, token) = grant_of(model, claim);
                let order = model.claims.iter().find(|row| row.claim == claim).map_or(3, |row| row.order);
                let which = if waiting { Revocable::Place(order) } else { Revocable::Grant(token) };
                Command::Revoke { resource, which }
            }
            Op::Fence { whose } => {
                let (resource, token) = grant_of(model, whose.pick(model, *drawn, None));
                Command::ViewFence { resource, token }
            }
            Op::ViewResource { resource: nth } => Command::ViewResource { resource: resource(nth) },
            Op::ViewLease { whose, elsewhere } => {
                let claim = whose.pick(model, *drawn, Some(Kind::Pool));
                Command::ViewLease { resource: pool_of(model, claim, elsewhere), claim }
            }
            Op::ViewClaim { whose } => Command::ViewClaim { claim: whose.pick(model, *drawn, Some(Kind::Claim)) },
            Op::ListClaims { query } => Command::ListClaims(Box::new(query)),
            Op::ListResources { after, limit, scan_max } => {
                Command::ListResources { after: after.map(|nth| Arc::from(claimed_name(nth))), limit, scan_max }
            }
        })
    }
}

impl Whose {
    fn pick(self, model: &Naive, drawn: u128, kind: Option<Kind>) -> ClaimId {
        let nobody = ClaimId(u128::MAX);
        match self {
            Whose::Live(nth) | Whose::Known(nth) => {
                let is_meant = |row: &ClaimFact| {
                    kind.is_none_or(|kind| kind == row.resource.kind())
                        && (matches!(self, Whose::Known(_)) || !is_remembered(row))
                };
                let meant = model.claims.iter().rev().filter(|row| is_meant(row));
                let meant: Vec<ClaimId> = meant.map(|row| row.claim).collect();
                if meant.is_empty() { nobody } else { meant[usize::from(nth) % meant.len()] }
            }
            Whose::Drawn(nth) => drawn.checked_sub(u128::from(nth)).filter(|&id| id > 0).map_or(nobody, ClaimId),
            Whose::Nobody => nobody,
        }
    }
}

/// The pool a lease is of, or on purpose another.
fn pool_of(model: &Naive, claim: ClaimId, elsewhere: bool) -> ResourceKey {
    let row = model.claims.iter().find(|row| row.claim == claim && row.resource.kind() == Kind::Pool);
    match row {
        Some(row) if !elsewhere => row.resource.clone(),
        Some(row) if row.resource == resource(0) => resource(1),
        _ => resource(0),
    }
}

/// The owner of a lease, claim or lock: some have one, and owners have the same names as keys and clients.
fn owner(ttl_us: u64) -> Option<Arc<str>> {
    match ttl_us {
        1 | 2 => None,
        3 | 4 => Some(client_name(0)),
        _ => Some(idempotency_key((0, 0)).name),
    }
}

/// How much an owner may have: mostly no limit, sometimes little.
fn quota(ttl_us: u64) -> Quota {
    match ttl_us {
        4 => Quota { live_max: 2, waiting_max: 1, ..Quota::NONE },
        9 => Quota { live_max: 4, waiting_max: 0, ..Quota::NONE },
        _ => Quota::NONE,
    }
}

/// The resource and token of a claim. A waiting claim has no token yet, and the token of a forgotten claim is unknown.
fn grant_of(model: &Naive, claim: ClaimId) -> (ResourceKey, Token) {
    let row = model.claims.iter().find(|row| row.claim == claim);
    row.map_or((resource(0), Token(7)), |row| (row.resource.clone(), row.token))
}

fn reason_text(nth: u8) -> Arc<str> {
    Arc::from(["disks", "new disks"][usize::from(nth)])
}

fn client_name(nth: u8) -> Arc<str> {
    Arc::from(["ann", "bob", "cat"][usize::from(nth)])
}

fn token_of(model: &Naive, lock: &ResourceKey, grant: Grant) -> Token {
    let present = model.lock_holder(lock).filter(|_| matches!(grant, Grant::Present));
    present.map_or(Token(1), |at| model.claims[at].token)
}

fn idempotency_key((name, fingerprint): (u8, u64)) -> IdempotencyKey {
    IdempotencyKey { name: Arc::from(["k1", "k2"][usize::from(name)]), fingerprint }
}
