//! One partition, its callers and its store, driven by hand. The bench keeps what callers know and a replay of the
//! journal, and compares both with the partition.

use std::collections::BTreeSet;

use leasehold_engine::{
    Acquire, ClaimId, ClaimStatus, Command, Engine, Fact, IdempotencyKey, Kind, Limits, Moment, Options, Patience,
    Quota, Refusal, Reply, Status, Time, Wall,
};
use leasehold_journal::record::decode_batch;
use leasehold_journal::{Batch, Clocks, Denial, Epoch, Partition, PartitionLimits, Position, Request, Ticket, Told};

use super::{CallerWish, Callers, Step, UNIT_US};

/// The state of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Home,
    /// It asked, at this service time, and has no answer.
    Asks {
        at: Time,
        ticket: Option<Ticket>,
    },
    /// It hung up while its answer waits for the store.
    Gone,
    /// It got its only answer.
    Told,
}

#[derive(Debug)]
pub(super) struct Bench<'a> {
    scope: &'a Callers,
    partition: Partition<usize>,
    now_us: u64,
    callers: Vec<Caller>,
    /// The claims that callers were told of.
    known: BTreeSet<ClaimId>,
    written: Option<Batch>,
    /// The position of the last answer.
    last: Position,
    /// The journal replayed.
    shadow: Shadow,
    is_full: bool,
    is_deleted: bool,
}

/// The state according to the durable bytes.
struct Shadow {
    engine: Engine,
    head: Position,
    at: Time,
    /// Durable, and not looked at yet: an answer may be of any of these positions.
    ahead: Vec<(Moment, leasehold_engine::Change)>,
}

/// It follows from the rest.
impl std::fmt::Debug for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

fn limits() -> Limits {
    Limits { grace_us: UNIT_US, retain_us: UNIT_US, due_per_step: 1, ..Limits::default() }
}

fn new_partition(engine: Engine, epoch: u64, head: Position, at: Time, now_us: u64) -> Partition<usize> {
    let limits = PartitionLimits {
        callers_max: 100,
        store_timeout_us: 3 * UNIT_US,
        backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
    };
    Partition::new(engine, 0, Epoch(epoch), head, at, limits, Clocks { mono_us: now_us, wall: Wall(0) })
}

impl<'a> Bench<'a> {
    pub(super) fn new(scope: &'a Callers) -> Self {
        let partition = new_partition(Engine::new(limits()), 1, Position(0), Time(0), 0);
        let shadow = Shadow { engine: Engine::new(limits()), head: Position(0), at: Time(0), ahead: Vec::new() };
        let mut bench = Bench {
            scope,
            partition,
            now_us: 0,
            callers: vec![Caller::Home; scope.wishes.len()],
            known: BTreeSet::new(),
            written: None,
            last: Position(0),
            shadow,
            is_full: false,
            is_deleted: false,
        };
        if !scope.is_journaled {
            bench.partition.stop_journaling();
        }
        if let Some(configuration) = scope.configuration() {
            bench.partition.submit(bench.clocks(), configuration.into(), usize::MAX);
        }
        bench.store();
        bench
    }

    /// The steps that can happen now.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Pass, Step::Tick];
        for (n, caller) in self.callers.iter().enumerate() {
            match caller {
                Caller::Home => steps.push(Step::Ask(n)),
                Caller::Asks { .. } => steps.push(Step::Leave(n)),
                Caller::Gone | Caller::Told => {}
            }
        }
        if self.written.is_some() {
            steps.push(Step::Land);
        } else if self.partition.has_batch() {
            steps.push(Step::Write);
        }
        if self.scope.resource.kind() == Kind::Pool && !self.is_deleted {
            steps.push(Step::Delete);
        }
        if !self.is_full {
            steps.push(Step::StoreFull);
        }
        steps
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Ask(n) => self.ask(n),
            Step::Leave(n) => self.leave(n),
            Step::Pass => self.now_us += UNIT_US,
            Step::Tick => self.partition.tick(self.clocks()),
            Step::Write => self.write(),
            Step::Land => self.land(),
            Step::Delete => {
                self.is_deleted = true;
                let command = Command::Unconfigure { resource: self.scope.resource.clone() };
                self.partition.submit(self.clocks(), command.into(), usize::MAX);
            }
            Step::StoreFull => {
                self.is_full = true;
                self.partition.set_store_full(true);
            }
        }
        self.deliver();
    }

    fn clocks(&self) -> Clocks {
        Clocks { mono_us: self.now_us, wall: Wall(self.now_us) }
    }

    fn ask(&mut self, n: usize) {
        let CallerWish { client, key, ttl, wait } = self.scope.wishes[n];
        let resource = self.scope.resource.clone();
        let (patience, listen_us) = match resource.kind() {
            Kind::Claim => (Patience::Standing, wait * UNIT_US),
            Kind::Pool | Kind::Lock => (Patience::For { wait_us: wait * UNIT_US }, 0),
        };
        let command = Command::Acquire(Box::new(Acquire {
            resource,
            id: ClaimId(100 + n as u128),
            ttl_us: ttl * UNIT_US,
            patience,
            client: client.map(Into::into),
            principal: None,
            key: key.map(|name| IdempotencyKey { name: name.into(), fingerprint: 1 }),
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }));
        let ticket = self.partition.submit(self.clocks(), Request { command, listen_us, only_while_waiting: false }, n);
        self.callers[n] = Caller::Asks { at: self.partition.service_time(), ticket };
    }

    fn leave(&mut self, n: usize) {
        if let Caller::Asks { ticket, .. } = std::mem::replace(&mut self.callers[n], Caller::Gone)
            && let Some(ticket) = ticket
        {
            self.partition.leave(self.clocks(), ticket);
        }
    }

    fn write(&mut self) {
        self.written = self.partition.take_batch(self.clocks());
    }

    fn land(&mut self) {
        let Some(batch) = self.written.take() else { return };
        self.shadow.ahead.extend(decode_batch(&batch.record).expect("a batch just sealed can be read").changes);
        self.partition.append_done(self.clocks());
    }

    /// Each caller that is still there hears its answer; an answer without a caller is handed back.
    fn deliver(&mut self) {
        let mut told = Vec::new();
        self.partition.poll_told(&mut told);
        self.partition.poll_effects(&mut Vec::new());
        for told in told {
            assert!(told.position >= self.last, "an answer at {} left after one at {}", told.position, self.last);
            self.last = told.position;
            let durable = self.partition.durable();
            assert!(
                durable >= self.last,
                "an answer that depends on nothing would be placed at {durable} after {}",
                self.last
            );
            if self.scope.is_journaled {
                self.shadow.witness(&told);
            }
            let Told { to, answer, untold, .. } = told;
            let Some(caller) = self.callers.get_mut(to) else { continue };
            if *caller == Caller::Gone {
                if let Some(claim) = untold {
                    self.partition.hand_back(self.clocks(), claim);
                }
                continue;
            }
            *caller = Caller::Told;
            let is_own_fault = self.is_full && answer == Err(Denial::Refused(Refusal::StoreFull));
            assert!(!is_own_fault || !self.has_its_own(to), "caller {to} has it already and was told {answer:?}");
            self.known.extend(answer.ok().as_ref().and_then(told_of));
        }
    }

    /// Returns whether a live claim exists under this caller's key or, for a lock, its name.
    fn has_its_own(&self, n: usize) -> bool {
        let CallerWish { client, key, .. } = self.scope.wishes[n];
        let is_lock = self.scope.resource.kind() == Kind::Lock;
        self.partition.engine().facts().iter().any(|fact| match fact {
            Fact::Claim(claim) if matches!(claim.status, Status::Waiting | Status::Active) => {
                let same_key = key.is_some() && claim.key.as_ref().map(|key| &*key.name) == key;
                same_key || is_lock && claim.client.as_deref() == client
            }
            _ => false,
        })
    }

    /// Everything becomes durable.
    fn store(&mut self) {
        self.land();
        self.deliver();
        while self.partition.has_batch() {
            self.write();
            self.land();
            self.deliver();
        }
    }

    /// Handles all due deadlines, in as many steps as it takes.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.partition.tick(self.clocks());
            self.deliver();
            let at = self.partition.service_time();
            if self.partition.engine().next_deadline().is_none_or(|due_at| due_at > at) {
                return;
            }
        }
        panic!("L3: something is due and never done");
    }

    fn holds_nothing_unknown(&mut self, what: &str) {
        self.partition.check();
        let unknown = live(self.partition.engine()).into_iter().find(|claim| !self.known.contains(claim));
        assert!(unknown.is_none(), "L7: {unknown:?} lives on, and no caller knows of it: {what}");
        self.shadow.catch_up();
        let is_same = !self.scope.is_journaled || self.partition.engine().facts() == self.shadow.engine.facts();
        assert!(is_same, "S15: the journal says something else: {what}");
    }

    pub(super) fn everybody_leaves(mut self, what: &str) {
        for n in 0..self.callers.len() {
            if matches!(self.callers[n], Caller::Asks { .. }) {
                self.leave(n);
                self.deliver();
            }
        }
        self.store();
        self.holds_nothing_unknown(what);
        // Once everything is over, there is nothing left to keep.
        self.known.clear();
        for _ in 0..40 {
            self.now_us += UNIT_US;
            self.settle();
            self.store();
        }
        self.partition.check();
    }

    pub(super) fn nobody_waits_too_long(mut self, what: &str) {
        self.store();
        self.settle();
        self.store();
        let now = self.partition.service_time();
        for (n, caller) in self.callers.iter().enumerate() {
            if let Caller::Asks { at, .. } = caller {
                let until = at.plus(self.scope.wishes[n].wait * UNIT_US);
                assert!(until > now, "L8: caller {n} waits until {until:?}, and has no answer at {now:?}: {what}");
            }
        }
        self.partition.check();
    }

    pub(super) fn shuts_down(mut self, what: &str) {
        self.partition.shut_down(self.clocks());
        self.deliver();
        self.store();
        let asks = self.callers.iter().position(|caller| matches!(caller, Caller::Asks { .. }));
        assert!(asks.is_none(), "L6: caller {asks:?} has no answer: {what}");
        self.holds_nothing_unknown(what);
    }

    /// The process dies with everything that is only in memory; a write under way may have become durable.
    pub(super) fn restarts(mut self, what: &str) {
        if let Some(batch) = self.written.take() {
            self.shadow.ahead.extend(decode_batch(&batch.record).expect("a batch just sealed can be read").changes);
        }
        self.shadow.catch_up();
        let head = self.shadow.head;
        let engine = std::mem::replace(&mut self.shadow.engine, Engine::new(limits()));
        let at = self.shadow.at;
        let orphans: BTreeSet<ClaimId> = engine.waiting_with_connection().into_iter().collect();
        self.partition = new_partition(engine, 2, head, at, self.now_us);
        self.callers.fill(Caller::Told);
        self.store();
        let left = live(self.partition.engine()).into_iter().find(|claim| orphans.contains(claim));
        assert!(left.is_none(), "L7: the connection of {left:?} is gone, and it lives on: {what}");
        self.partition.check();
    }
}

impl Shadow {
    /// Takes in all durable changes.
    fn catch_up(&mut self) {
        self.take_in(self.ahead.len());
    }

    fn take_in(&mut self, changes: usize) {
        for (now, change) in self.ahead.drain(..changes) {
            self.engine.apply(now, &change);
            self.at = now.at;
            self.head = self.head.next();
        }
    }

    /// S6: an answer is true at its position.
    fn witness(&mut self, told: &Told<usize>) {
        let behind = usize::try_from(told.position.0.saturating_sub(self.head.0)).expect("few");
        self.take_in(behind);
        let is_odd = matches!(told.answer, Err(Denial::Refused(Refusal::NoSuchClaim)));
        assert!(!is_odd, "S6: a caller that asks for a slot names no claim that could be missing");
        let Ok(reply) = &told.answer else { return };
        let Some(claim) = told_of(reply) else { return };
        let holds = matches!(reply, Reply::Lease(_) | Reply::Lock(..))
            || matches!(reply, Reply::Claim(view) if view.status == ClaimStatus::Active);
        let fact = self.engine.facts().into_iter().find_map(|fact| match fact {
            Fact::Claim(fact) if fact.claim == claim => Some(fact),
            _ => None,
        });
        let is_so = fact.as_ref().is_some_and(|fact| (fact.status == Status::Active) == holds);
        assert!(is_so, "S6: {reply:?} was said at {}, where it is {fact:?}", told.position);
    }
}

/// Claims that wait or hold.
fn live(engine: &Engine) -> Vec<ClaimId> {
    let claims = engine.facts().into_iter().filter_map(|fact| match fact {
        Fact::Claim(claim) if !matches!(claim.status, Status::Ended(_)) => Some(claim.claim),
        _ => None,
    });
    claims.collect()
}

/// The claim that an answer tells its caller of, if the caller asked for one.
fn told_of(reply: &Reply) -> Option<ClaimId> {
    match reply {
        Reply::Lease(view) => Some(view.claim),
        Reply::Claim(view) => Some(view.id),
        Reply::Lock(view, _) => view.holder.as_ref().map(|holder| holder.claim),
        _ => None,
    }
}
