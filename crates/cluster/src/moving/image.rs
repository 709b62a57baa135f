//! The state of a whole service, put together from its partitions.
//!
//! Each partition counts its own service time, order and tokens. Put together there is one of each: times are moved to
//! the latest one, so that what is left of every lease stays the same; the highest token is the last one of all, so
//! that tokens rise on every resource; and claims are numbered anew where two of them have the same number, in an order
//! that keeps that of each partition, and so of each queue.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::{ClaimFact, Counters, Engine, Fact, Time, Token, Wall};
use leasehold_journal::{Epoch, Position};

/// Facts walked at a time.
const SLICE_FACTS: usize = 4096;

/// The state of one partition, at the end of its stream.
#[derive(Debug)]
pub struct Part {
    /// Its engine.
    pub engine: Engine,
    /// Service time to go on from: that of the last change, or a later one that was written down since.
    pub at: Time,
    /// The highest epoch that an owner of it has had.
    pub epoch: Epoch,
    /// The last change.
    pub head: Position,
}

/// The state of a whole service.
#[derive(Debug)]
pub struct Image {
    parts: Vec<Part>,
    secret: [u8; 32],
    /// New numbers in the order of creation, by part and old number; empty where the old ones stay.
    orders: BTreeMap<(usize, u64), u64>,
    counters: Counters,
    epoch: Epoch,
    /// The part that the walk is at.
    walked: usize,
}

impl Image {
    /// Puts partitions together. `secret` is that of the service.
    pub fn new(mut parts: Vec<Part>, secret: [u8; 32]) -> Image {
        let mut counters = Counters { last_token: Token(0), last_order: 0 };
        let mut claims: Vec<Vec<(u64, Wall)>> = vec![Vec::new(); parts.len()];
        for (part, claims) in parts.iter_mut().zip(&mut claims) {
            walk(&mut part.engine, |fact| match fact {
                Fact::Counters(of) => {
                    counters.last_token = counters.last_token.max(of.last_token);
                    counters.last_order = counters.last_order.max(of.last_order);
                }
                Fact::Claim(claim) => claims.push((claim.order, claim.created.wall)),
                Fact::Resource(_) => {}
            });
            claims.sort_unstable();
        }
        let mut seen = BTreeSet::new();
        let is_free = claims.iter().flatten().all(|(order, _)| seen.insert(*order));
        let orders = if is_free { BTreeMap::new() } else { numbered(&claims) };
        counters.last_order = counters.last_order.max(orders.len() as u64);
        let epoch = parts.iter().map(|part| part.epoch).max().unwrap_or_default();
        Image { parts, secret, orders, counters, epoch, walked: 0 }
    }

    /// Raises the counters to at least these values. A backup needs that: tokens and epochs may have been given out
    /// after it was made.
    #[must_use]
    pub fn raised(mut self, last_token: Token, epoch: Epoch) -> Image {
        self.counters.last_token = self.counters.last_token.max(last_token);
        self.epoch = self.epoch.max(epoch);
        self
    }

    /// The secret of the service.
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// The highest epoch of any owner so far.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The highest position of any change so far, and at least 1: a checkpoint at the start would count as no
    /// checkpoint.
    pub fn head(&self) -> Position {
        self.parts.iter().map(|part| part.head).max().unwrap_or_default().max(Position::START.next())
    }

    /// Service time to go on from.
    pub fn at(&self) -> Time {
        self.parts.iter().map(|part| part.at).max().unwrap_or_default()
    }

    /// The counters to go on from.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Claims that are held or wait, and ended ones that are remembered.
    pub fn claims(&self) -> (usize, usize) {
        let totals = self.parts.iter().map(|part| part.engine.totals());
        totals.fold((0, 0), |(live, ended), of| (live + of.claims, ended + of.retained))
    }

    /// Begins a walk over every resource and claim. The counters are not among the facts.
    pub fn begin(&mut self) {
        self.walked = 0;
        if let Some(part) = self.parts.first_mut() {
            part.engine.begin_snapshot();
        }
    }

    /// More facts of the walk; `None` when there are no more.
    pub fn next_slice(&mut self) -> Option<Vec<Fact>> {
        let at = self.at();
        let (number, orders) = (self.walked, &self.orders);
        let part = self.parts.get_mut(number)?;
        let by_us = at.since(part.at);
        let mut facts = Vec::new();
        let is_more = part.engine.step_snapshot(SLICE_FACTS, &mut facts);
        let as_it_will_be = |fact| match fact {
            Fact::Counters(_) => None,
            Fact::Resource(resource) => Some(Fact::Resource(resource.delayed(by_us))),
            Fact::Claim(claim) => {
                let order = orders.get(&(number, claim.order)).copied().unwrap_or(claim.order);
                Some(Fact::Claim(Box::new(ClaimFact { order, ..claim.delayed(by_us) })))
            }
        };
        let facts = facts.into_iter().filter_map(as_it_will_be).collect();
        if !is_more {
            self.walked += 1;
            if let Some(next) = self.parts.get_mut(self.walked) {
                next.engine.begin_snapshot();
            }
        }
        Some(facts)
    }
}

/// Numbers claims from 1 on: the oldest by the wall clock first, and those of one partition always in their order, even
/// where that clock was turned back.
fn numbered(claims: &[Vec<(u64, Wall)>]) -> BTreeMap<(usize, u64), u64> {
    let mut next = vec![0; claims.len()];
    let mut orders = BTreeMap::new();
    let first = |part: usize| claims[part].first().map(|(_, wall)| (*wall, part));
    let mut oldest: BTreeSet<(Wall, usize)> = (0..claims.len()).filter_map(first).collect();
    while let Some((_, part)) = oldest.pop_first() {
        let (order, _) = claims[part][next[part]];
        next[part] += 1;
        orders.insert((part, order), orders.len() as u64 + 1);
        oldest.extend(claims[part].get(next[part]).map(|(_, wall)| (*wall, part)));
    }
    orders
}

/// Walks every fact, a slice at a time.
pub(super) fn walk(engine: &mut Engine, mut act: impl FnMut(Fact)) {
    engine.begin_snapshot();
    let (mut facts, mut is_more) = (Vec::new(), true);
    while is_more {
        is_more = engine.step_snapshot(SLICE_FACTS, &mut facts);
        facts.drain(..).for_each(&mut act);
    }
}

#[cfg(test)]
mod tests {
    use leasehold_engine::{
        ClaimId, Fittings, Lease, Limits, Moment, Particulars, Pause, ResourceFact, ResourceKey, Status,
    };

    use super::*;

    /// A lock that is held, in a partition of its own where service time is `at` and 10 s of its lease are left.
    fn part(at: u64, order: u64, token: u64, wall: u64) -> Part {
        let (at, resource) = (Time(at), ResourceKey::Lock(format!("job {token}").into()));
        let mut engine = Engine::new(Limits::default());
        engine.restore(Fact::Counters(Counters { last_token: Token(token), last_order: order }));
        let (capacity, last_token) = (1, Token(token));
        let (label, holds) = (None, leasehold_engine::Holds::default());
        let since = Moment { at, wall: Wall(wall) };
        let fittings = Fittings {
            pause: Some(Pause { reason: "upkeep".into(), since, until: at.plus(20_000_000) }),
            ..Fittings::default()
        };
        let known = ResourceFact {
            resource: resource.clone(),
            capacity,
            configured: false,
            last_token,
            label,
            holds,
            fittings: Some(Box::new(fittings)),
        };
        engine.restore(Fact::Resource(known));
        let moment = Moment { at, wall: Wall(wall) };
        engine.restore(Fact::Claim(Box::new(ClaimFact {
            claim: ClaimId(u128::from(token)),
            resource,
            order,
            status: Status::Active,
            seen: false,
            ttl_us: 60,
            wait_until: Time::NEVER,
            keep_us: 0,
            slot: 0,
            token: Token(token),
            lease: Lease { deadline: at.plus(10_000_000), grace_us: 5 },
            created: moment,
            granted: Some(moment),
            ended: None,
            client: Some("me".into()),
            principal: None,
            key: None,
            metadata: None,
            particulars: Particulars::default(),
        })));
        engine.finish_restore(at);
        Part { engine, at, epoch: Epoch(token), head: Position(order) }
    }

    #[test]
    fn partitions_that_are_put_together_have_one_time_one_order_and_the_highest_token() {
        let mut image = Image::new(vec![part(5_000, 3, 40, 20), part(9_000, 3, 7, 10)], [1; 32]);
        assert_eq!((image.at(), image.epoch(), image.head()), (Time(9_000), Epoch(40), Position(3)));
        assert_eq!(image.counters(), Counters { last_token: Token(40), last_order: 3 });
        image.begin();
        let (mut claims, mut pauses) = (Vec::new(), Vec::new());
        while let Some(facts) = image.next_slice() {
            for fact in facts {
                match fact {
                    Fact::Claim(claim) => {
                        claims.push((claim.order, claim.token, claim.lease.deadline, claim.created.at));
                    }
                    Fact::Resource(resource) => pauses.extend(resource.fittings.and_then(|fittings| fittings.pause)),
                    Fact::Counters(_) => {}
                }
            }
        }
        let left: Vec<_> = pauses.iter().map(|pause| (pause.since.at, pause.until)).collect();
        assert_eq!(left, [(Time(9_000), Time(20_009_000)); 2], "twenty seconds are left of each pause");
        let (deadline, at) = (Time(10_009_000), Time(9_000));
        assert_eq!(claims, [(2, Token(40), deadline, at), (1, Token(7), deadline, at)], "ten seconds are left of each");
        let raised = image.raised(Token(1 << 50), Epoch(99));
        assert_eq!((raised.counters().last_token, raised.epoch()), (Token(1 << 50), Epoch(99)));
    }

    #[test]
    fn numbers_that_do_not_meet_stay() {
        let image = Image::new(vec![part(5_000, 3, 40, 20), part(9_000, 4, 7, 10)], [1; 32]);
        assert!(image.orders.is_empty());
    }

    #[test]
    fn new_numbers_keep_the_order_of_each_partition_and_follow_the_clock_between_them() {
        let claims = [vec![(1, Wall(10)), (2, Wall(5)), (9, Wall(30))], vec![(1, Wall(7)), (2, Wall(40))]];
        let orders = numbered(&claims);
        let of = |part, order| orders[&(part, order)];
        assert_eq!([of(1, 1), of(0, 1), of(0, 2), of(0, 9), of(1, 2)], [1, 2, 3, 4, 5]);
    }
}
