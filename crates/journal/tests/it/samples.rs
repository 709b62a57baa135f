//! Changes and facts to try things with: one fixed set that has every variant, and strategies that make them up.

use std::sync::Arc;

use leasehold_engine::{
    Change, ClaimFact, ClaimId, Claimed, Counters, Ending, Fact, Fittings, Holds, IdempotencyKey, Lease, Moment,
    NamedSlot, OutOfService, Particulars, Pause, ResourceFact, ResourceKey, Status, Time, Token, Wall,
};
use proptest::prelude::*;

pub(crate) const ENDINGS: [Ending; 9] = [
    Ending::Released,
    Ending::Expired,
    Ending::Revoked,
    Ending::Aborted,
    Ending::Withdrawn,
    Ending::TimedOut,
    Ending::Deleted,
    Ending::HandedBack,
    Ending::Superseded,
];

/// Which variant it is. A new one fails to compile here, and then has to be added to the fixed set below.
pub(crate) fn variant(change: &Change) -> usize {
    match change {
        Change::Marked => 0,
        Change::Configured { .. } => 1,
        Change::Unconfigured { .. } => 2,
        Change::Claimed(_) => 3,
        Change::Joined { .. } => 4,
        Change::Granted { .. } => 5,
        Change::Renewed { .. } => 6,
        Change::Retimed { .. } => 7,
        Change::GraceBegan { .. } => 8,
        Change::GraceOver { .. } => 9,
        Change::Ended { .. } => 10,
        Change::Forgotten { .. } => 11,
        Change::Kept { .. } => 12,
        Change::Confirmed { .. } => 13,
        Change::Labeled { .. } => 14,
        Change::Jumped { .. } => 15,
        Change::Paused { .. } => 16,
        Change::Resumed { .. } => 17,
        Change::SlotServed { .. } => 18,
        Change::SlotsNamed { .. } => 19,
    }
}
pub(crate) const VARIANTS: usize = 20;

fn resources() -> [ResourceKey; 3] {
    [
        ResourceKey::Pool(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        ResourceKey::Claim("reports/übersicht".into()),
        ResourceKey::Lock("nightly".into()),
    ]
}

fn key() -> IdempotencyKey {
    IdempotencyKey { name: "order-17".into(), fingerprint: 0xfeed_beef_dead_cafe }
}

/// The same with the additions of version 5.
pub(crate) fn changes() -> Vec<(Moment, Change)> {
    let mut changes = changes_4();
    let last = changes.last().expect("there are some").0;
    let [pool, claimed, lock] = resources();
    let reason = || Arc::<str>::from("new disks, until noon");
    let named = |resource: &ResourceKey, slots| Change::SlotsNamed { resource: resource.clone(), slots };
    let served = |out| Change::SlotServed { resource: pool.clone(), slot: 300, out };
    let added = [
        Change::Paused { resource: lock.clone(), reason: reason(), until: Time::NEVER },
        Change::Paused { resource: claimed.clone(), reason: reason(), until: Time(last.at.0 + 60_000_000) },
        Change::Resumed { resource: lock },
        served(Some(reason())),
        served(None),
        named(&pool, Some(named_slots())),
        named(&claimed, None),
    ];
    changes.extend(added.map(|change| (last, change)));
    changes
}

fn named_slots() -> Arc<[NamedSlot]> {
    let slot = |name: &str, data: Option<&str>| NamedSlot { name: name.into(), data: data.map(Into::into) };
    [slot("bench-1", Some(r#"{"port":1}"#)), slot("bänk", None)].into()
}

/// The same with the additions of version 4.
pub(crate) fn changes_4() -> Vec<(Moment, Change)> {
    let mut changes = changes_3();
    let last = changes.last().expect("there are some").0;
    let claimed = |claim, particulars: Particulars, principal: Option<Arc<str>>| Claimed {
        claim: ClaimId(claim),
        resource: resources()[1].clone(),
        ttl_us: 30_000_000,
        wait_until: Time(70_000_000),
        keep_us: 0,
        client: principal.clone(),
        principal,
        key: None,
        metadata: None,
        particulars,
    };
    let [some, all] = particulars();
    let claimed = [claimed(12, some, None), claimed(13, all, Some("ann@example.org".into()))];
    changes.extend(claimed.map(|claimed| (last, Change::Claimed(Box::new(claimed)))));
    changes.push((last, Change::Confirmed { claim: ClaimId(13) }));
    let labels = [Some("build slots".into()), None];
    changes.extend(labels.map(|label| (last, Change::Labeled { resource: resources()[0].clone(), label })));
    changes.push((last, Change::Jumped { last_token: Token(1 << 51) }));
    changes
}

fn particulars() -> [Particulars; 2] {
    let some = Particulars { wait_ttl_us: 60_000_000, ..Particulars::default() };
    [some, Particulars { holder: Some("build 17".into()), wait_ttl_us: 5_000_000, confirm_us: 30_000_000 }]
}

/// The same with the additions of version 3.
pub(crate) fn changes_3() -> Vec<(Moment, Change)> {
    let mut changes = changes_2();
    let last = changes.last().expect("there are some").0;
    let claimed = |claim, key: Option<IdempotencyKey>, keep_us| Claimed {
        claim: ClaimId(claim),
        resource: resources()[2].clone(),
        ttl_us: 30_000_000,
        wait_until: Time(70_000_000),
        keep_us,
        client: Some("worker 3".into()),
        principal: Some("ann@example.org".into()),
        metadata: key.as_ref().map(|_| "{}".into()),
        key,
        particulars: Particulars::default(),
    };
    let claimed = [claimed(10, None, 0), claimed(11, Some(key()), 60_000_000)];
    changes.extend(claimed.map(|claimed| (last, Change::Claimed(Box::new(claimed)))));
    changes
}

/// The same with the additions of version 2.
pub(crate) fn changes_2() -> Vec<(Moment, Change)> {
    let mut changes = changes_1();
    let last = changes.last().expect("there are some").0;
    let claim = ClaimId(9);
    let claimed = Claimed {
        claim,
        resource: resources()[2].clone(),
        ttl_us: 1,
        wait_until: Time(70_000_000),
        keep_us: 60_000_000,
        client: Some("worker 2".into()),
        principal: None,
        key: None,
        metadata: None,
        particulars: Particulars::default(),
    };
    let kept = Change::Kept { claim, wait_until: Time(60_000_000) };
    changes.extend([Change::Claimed(Box::new(claimed)), kept].map(|change| (last, change)));
    changes
}

/// Every variant of every enum, every optional part there and not there. Part of the fixtures: never changed.
pub(crate) fn changes_1() -> Vec<(Moment, Change)> {
    let (one, two) = (ClaimId(0x1111_2222_3333_4444_5555_6666_7777_8888), ClaimId(7));
    let lease = Lease { deadline: Time(5_000_000 + 30_000_000), grace_us: 5_000_000 };
    let mut changes = vec![Change::Marked];
    changes.extend(resources().map(|resource| Change::Configured { resource, capacity: 3 }));
    changes.extend(resources().map(|resource| Change::Unconfigured { resource }));
    changes.extend(resources().map(|resource| {
        let ttl_us = 30_000_000;
        let wait_until = Time::NEVER;
        let claimed = Claimed {
            claim: one,
            resource,
            ttl_us,
            wait_until,
            keep_us: 0,
            client: None,
            principal: None,
            key: None,
            metadata: None,
            particulars: Particulars::default(),
        };
        Change::Claimed(Box::new(claimed))
    }));
    changes.push(Change::Claimed(Box::new(Claimed {
        claim: two,
        resource: ResourceKey::Claim("reports".into()),
        ttl_us: u64::MAX,
        wait_until: Time(1),
        keep_us: 0,
        client: Some("worker 1".into()),
        principal: None,
        key: Some(key()),
        metadata: Some(r#"{"why":"test"}"#.into()),
        particulars: Particulars::default(),
    })));
    changes.extend([
        Change::Granted { claim: two, slot: 2, token: Token(u64::MAX), lease },
        Change::Joined { claim: one, wait_until: Time(6_000_000) },
        Change::Granted { claim: one, slot: u32::MAX, token: Token(17), lease },
        Change::Renewed { claim: one, lease: Lease { deadline: Time::NEVER, grace_us: 0 } },
        Change::Retimed { claim: one, ttl_us: 60_000_000 },
        Change::GraceBegan { claim: one },
        Change::GraceOver { claim: one },
    ]);
    changes.extend(ENDINGS.map(|how| Change::Ended { claim: two, how }));
    changes.push(Change::Forgotten { claim: two });
    // Time stands still, passes, and the wall clock goes with it, ahead of it and back.
    let moments = (0_u64..).map(|i| Moment {
        at: Time(5_000_000 + i / 2 * 1_000),
        wall: Wall(1_700_000_000_000_000 + i / 2 * 1_000 + [0, 0, 500, 3_600_000_000][(i / 3 % 4) as usize]),
    });
    moments.zip(changes).collect()
}

pub(crate) const CHECKPOINT_AT: Moment = Moment { at: Time(9_000_000), wall: Wall(1_700_000_009_000_000) };

/// As `changes`, for facts.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts = facts_4();
    let since = Moment { at: Time(8_000_000), wall: Wall(1_700_000_008_000_000) };
    let reason = || Arc::<str>::from("new disks, until noon");
    let pause = |until| Some(Pause { reason: reason(), since, until });
    let out = [(0, "old".into()), (300, reason())].map(|(slot, reason)| (slot, OutOfService { reason, since }));
    let fitted = [
        Fittings { pause: pause(Time::NEVER), out_of_service: out.into(), slots: Some(named_slots()) },
        Fittings { slots: Some(named_slots()), ..Fittings::default() },
        Fittings { pause: pause(Time(70_000_000)), ..Fittings::default() },
    ];
    facts.extend(resources().into_iter().zip(fitted).map(|(resource, fittings)| {
        let (label, holds) = (None, Holds::default());
        let fittings = Some(Box::new(fittings));
        Fact::Resource(ResourceFact {
            resource,
            capacity: 2,
            configured: false,
            last_token: Token(7),
            label,
            holds,
            fittings,
        })
    }));
    facts
}

/// As `changes_4`, for facts.
pub(crate) fn facts_4() -> Vec<Fact> {
    let mut facts = facts_3();
    let claims = facts.iter().filter_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None });
    let mut claims: Vec<ClaimFact> = claims.rev().take(2).map(|claim| (**claim).clone()).collect();
    for ((claim, fact), particulars) in (12..).zip(&mut claims).zip(particulars()) {
        fact.claim = ClaimId(claim);
        fact.particulars = particulars;
    }
    facts.extend(claims.into_iter().map(|claim| Fact::Claim(Box::new(claim))));
    let holds = Holds { count: 7, mean_us: 2_000_000 };
    let more = [(Some("build slots".into()), Holds::default()), (None, holds), (Some("".into()), holds)];
    facts.extend(resources().into_iter().zip(more).map(|(resource, (label, holds))| {
        let (last_token, fittings) = (Token(6), None);
        Fact::Resource(ResourceFact { resource, capacity: 2, configured: true, last_token, label, holds, fittings })
    }));
    facts
}

/// As `changes_3`, for facts.
pub(crate) fn facts_3() -> Vec<Fact> {
    let mut facts = facts_2();
    let claims = facts.iter().filter_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None });
    // The last two: one with every optional part, one with as few as there can be.
    let mut signed: Vec<ClaimFact> = claims.rev().take(2).map(|claim| (**claim).clone()).collect();
    for (claim, fact) in (10..).zip(&mut signed) {
        fact.claim = ClaimId(claim);
        fact.principal = Some("ann@example.org".into());
    }
    facts.extend(signed.into_iter().map(|claim| Fact::Claim(Box::new(claim))));
    facts
}

/// As `changes_2`, for facts.
pub(crate) fn facts_2() -> Vec<Fact> {
    let mut facts = facts_1();
    let Some(Fact::Claim(last)) = facts.last() else { panic!("claims come last") };
    let kept =
        ClaimFact { claim: ClaimId(9), status: Status::Waiting, keep_us: 60_000_000, ended: None, ..(**last).clone() };
    facts.push(Fact::Claim(Box::new(kept)));
    facts
}

/// As `changes_1`, for facts.
pub(crate) fn facts_1() -> Vec<Fact> {
    let mut facts = vec![Fact::Counters(Counters { last_token: Token(99), last_order: 12_345 })];
    facts.extend(resources().into_iter().zip([true, false, true]).map(|(resource, configured)| {
        let (label, holds) = (None, Holds::default());
        let (last_token, fittings) = (Token(5), None);
        Fact::Resource(ResourceFact { resource, capacity: 1, configured, last_token, label, holds, fittings })
    }));
    let statuses = [Status::Waiting, Status::Active, Status::Grace, Status::Lapsed];
    let statuses = statuses.into_iter().chain(ENDINGS.map(Status::Ended));
    for (order, status) in (1..).zip(statuses) {
        let full = order % 2 == 0;
        let moment = Moment { at: Time(order * 1_000_000), wall: Wall(if full { 1_700_000_000_000_000 } else { 0 }) };
        facts.push(Fact::Claim(Box::new(ClaimFact {
            claim: ClaimId(u128::from(order) << 64),
            resource: resources()[(order % 3) as usize].clone(),
            order,
            status,
            seen: full,
            ttl_us: 30_000_000,
            wait_until: if full { Time(40_000_000) } else { Time::NEVER },
            keep_us: 0,
            slot: u32::from(full),
            token: Token(if full { order } else { 0 }),
            lease: Lease { deadline: Time(if full { 33_000_000 } else { 0 }), grace_us: 0 },
            created: moment,
            granted: full.then_some(moment),
            ended: matches!(status, Status::Ended(_)).then_some(moment),
            client: full.then(|| "worker 1".into()),
            principal: None,
            key: full.then(key),
            metadata: full.then(|| "{}".into()),
            particulars: Particulars::default(),
        })));
    }
    facts
}

/// Numbers of all magnitudes, the edges among them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift)]
}

fn small() -> impl Strategy<Value = u32> {
    number().prop_map(|value| u32::try_from(value & 0xffff_ffff).unwrap())
}

fn time() -> impl Strategy<Value = Time> {
    number().prop_map(Time)
}

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof!["\\PC{0,20}", "[a-z]{200,300}"].prop_map(Into::into)
}

fn resource() -> impl Strategy<Value = ResourceKey> {
    prop_oneof![
        any::<u128>().prop_map(ResourceKey::Pool),
        text().prop_map(ResourceKey::Claim),
        text().prop_map(ResourceKey::Lock),
    ]
}

/// From a small set, so that the same claim is named twice in a row at times.
fn claim() -> impl Strategy<Value = ClaimId> {
    prop_oneof![(0_u128..3).prop_map(ClaimId), any::<u128>().prop_map(ClaimId)]
}

fn lease() -> impl Strategy<Value = Lease> {
    (time(), number()).prop_map(|(deadline, grace_us)| Lease { deadline, grace_us })
}

fn idempotency_key() -> impl Strategy<Value = IdempotencyKey> {
    (text(), any::<u64>()).prop_map(|(name, fingerprint)| IdempotencyKey { name, fingerprint })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop::sample::select(ENDINGS.to_vec())
}

fn rare() -> impl Strategy<Value = Particulars> {
    let some = (prop::option::of(text()), number(), number());
    let some = some.prop_map(|(holder, wait_ttl_us, confirm_us)| Particulars { holder, wait_ttl_us, confirm_us });
    prop_oneof![Just(Particulars::default()), some]
}

fn claimed() -> impl Strategy<Value = Claimed> {
    let names = (prop::option::of(text()), prop::option::of(text()));
    let said = (names, prop::option::of(idempotency_key()), prop::option::of(text()));
    (claim(), resource(), number(), (time(), number()), said, rare()).prop_map(
        |(claim, resource, ttl_us, waits, said, particulars)| {
            let ((wait_until, keep_us), ((client, principal), key, metadata)) = (waits, said);
            Claimed { claim, resource, ttl_us, wait_until, keep_us, client, principal, key, metadata, particulars }
        },
    )
}

fn slots() -> impl Strategy<Value = Option<Arc<[NamedSlot]>>> {
    let slot = (text(), prop::option::of(text())).prop_map(|(name, data)| NamedSlot { name, data });
    prop::option::of(prop::collection::vec(slot, 0..4).prop_map(Into::into))
}

fn fittings() -> impl Strategy<Value = Fittings> {
    let pause = (text(), moment(), time()).prop_map(|(reason, since, until)| Pause { reason, since, until });
    let out = (small(), text(), moment()).prop_map(|(slot, reason, since)| (slot, OutOfService { reason, since }));
    (prop::option::of(pause), prop::collection::vec(out, 0..4), slots()).prop_map(|(pause, out, slots)| Fittings {
        pause,
        out_of_service: out.into_iter().collect(),
        slots,
    })
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Marked),
        (resource(), small()).prop_map(|(resource, capacity)| Change::Configured { resource, capacity }),
        resource().prop_map(|resource| Change::Unconfigured { resource }),
        claimed().prop_map(|claimed| Change::Claimed(Box::new(claimed))),
        (claim(), time()).prop_map(|(claim, wait_until)| Change::Joined { claim, wait_until }),
        (claim(), time()).prop_map(|(claim, wait_until)| Change::Kept { claim, wait_until }),
        (claim(), small(), number(), lease()).prop_map(|(claim, slot, token, lease)| Change::Granted {
            claim,
            slot,
            token: Token(token),
            lease
        }),
        claim().prop_map(|claim| Change::Confirmed { claim }),
        (resource(), prop::option::of(text())).prop_map(|(resource, label)| Change::Labeled { resource, label }),
        number().prop_map(|token| Change::Jumped { last_token: Token(token) }),
        (resource(), text(), time()).prop_map(|(resource, reason, until)| Change::Paused { resource, reason, until }),
        resource().prop_map(|resource| Change::Resumed { resource }),
        (resource(), small(), prop::option::of(text())).prop_map(|(resource, slot, out)| Change::SlotServed {
            resource,
            slot,
            out
        }),
        (resource(), slots()).prop_map(|(resource, slots)| Change::SlotsNamed { resource, slots }),
        (claim(), lease()).prop_map(|(claim, lease)| Change::Renewed { claim, lease }),
        (claim(), number()).prop_map(|(claim, ttl_us)| Change::Retimed { claim, ttl_us }),
        claim().prop_map(|claim| Change::GraceBegan { claim }),
        claim().prop_map(|claim| Change::GraceOver { claim }),
        (claim(), ending()).prop_map(|(claim, how)| Change::Ended { claim, how }),
        claim().prop_map(|claim| Change::Forgotten { claim }),
    ]
}

/// A batch's worth: service time never runs backwards, the wall clock does as it pleases.
pub(crate) fn history() -> impl Strategy<Value = Vec<(Moment, Change)>> {
    let step = prop_oneof![Just(0_u64), number().prop_map(|step| step >> 8)];
    let wall = prop_oneof![Just(None), number().prop_map(Some)];
    prop::collection::vec((step, wall, change()), 1..40).prop_map(|steps| {
        let mut now = Moment::default();
        let mut history = Vec::new();
        for (step, wall, change) in steps {
            now.at = now.at.plus(step);
            now.wall = wall.map_or(now.wall.plus(step), Wall);
            history.push((now, change));
        }
        history
    })
}

pub(crate) fn moment() -> impl Strategy<Value = Moment> {
    (time(), number()).prop_map(|(at, wall)| Moment { at, wall: Wall(wall) })
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Waiting),
        Just(Status::Active),
        Just(Status::Grace),
        Just(Status::Lapsed),
        ending().prop_map(Status::Ended),
    ]
}

fn claim_fact() -> impl Strategy<Value = ClaimFact> {
    let grant = prop_oneof![
        Just((0, Token(0), Lease { deadline: Time(0), grace_us: 0 })),
        (small(), number().prop_map(Token), lease()),
    ];
    let moments = (moment(), prop::option::of(moment()), prop::option::of(moment()));
    (claimed(), number(), status(), any::<bool>(), grant, moments).prop_map(
        |(claimed, order, status, seen, (slot, token, lease), (created, granted, ended))| {
            let Claimed { claim, resource, ttl_us, wait_until, keep_us, client, principal, key, metadata, particulars } =
                claimed;
            ClaimFact {
                claim,
                resource,
                order,
                status,
                seen,
                ttl_us,
                wait_until,
                keep_us,
                slot,
                token,
                lease,
                created,
                granted,
                ended,
                client,
                principal,
                key,
                metadata,
                particulars,
            }
        },
    )
}

pub(crate) fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        (number(), number())
            .prop_map(|(token, last_order)| Fact::Counters(Counters { last_token: Token(token), last_order })),
        (
            resource(),
            small(),
            any::<bool>(),
            number(),
            prop::option::of(text()),
            (small(), number()),
            prop::option::of(fittings().prop_map(Box::new))
        )
            .prop_map(|(resource, capacity, configured, token, label, (count, mean_us), fittings)| {
                let (last_token, holds) = (Token(token), Holds { count, mean_us });
                Fact::Resource(ResourceFact { resource, capacity, configured, last_token, label, holds, fittings })
            }),
        claim_fact().prop_map(|fact| Fact::Claim(Box::new(fact))),
    ]
}
