//! Plays a story: reads its commands, asks the engine, writes the story again with what happened.
//!
//! ```text
//! limits grace 5s retain 1m retained 9 claims 9 waiting 9 resources 9 state 9000   settings, before anything else
//! at 5s …                           service time goes on; a line without it stays at the same instant
//! pool A count 2 label builds       capacity db 2           delete pool A          delete claimed db
//! pause lock L for 9s reason R      resume lock L           serve-slot 2 of pool A out R (without `out`: back)
//! name-slots pool A slots a=1,b     name-slots pool A count 2 (without `slots`: no names any more)
//! borrow A ttl 30s wait 5s keep 9s key k body 2 as x                renew x of A ttl 9s    return x to A     lease x of A
//! claim db timeout 30s wait-ttl 8s confirm 5s as c          attend c               attend c no-more
//! claim db timeout 30s key k metadata {} as c               update c ttl 5s timeout 3s status released
//! lock L client ann ttl 30s wait 5s renew no|7 key k as l   unlock L client ann token 7
//! lock L client ann principal p live 3 waiting 1 ttl 30s as l
//! spend k of pool A client ann as s                         place k of pool A      place ann of lock L
//! withdraw x                        hand-back x unheard     told x (what its parked caller is told)
//! show pool A | claimed db | lock L                         view c                 resources after db limit 2
//! list resource db status active ttl 0s..9s created 0s..9s active 0s..9s waiting 0s..9s after 3 limit 2 scan 9
//! take-out 3 of lock L (by its place in the order of creation)
//! revoke 3 of lock L                fence 3 of lock L       inspect lock L         survey after lock L scan 9 texts
//! time                              deadline                totals                 bytes                 wall 1h back|ahead
//! repeat 300 …                      snapshot begin          snapshot walk 2        snapshot drop
//! restart
//! ```

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use leasehold_engine::{
    Acquire, Change, ClaimFilter, ClaimId, ClaimQuery, Command, Effect, Ending, Engine, Fact, IdempotencyKey, KeyReuse,
    Labeling, Limits, Moment, NameSlots, NamedSlot, Options, Outbox, Particulars, Patience, Quota, Renewal,
    ResourceKey, Retelling, Revocable, Spend, StatusFilter, Time, Token, Update, Wall, Wish,
};

use crate::render::{Names, WALL_START, time};
use crate::words::{Words, duration_us};

/// With more changes than this, a story counts them.
const SHOWN_MAX: usize = 24;

pub(crate) struct Play {
    engine: Engine,
    limits: Limits,
    now: Moment,
    out: Outbox,
    names: Names,
    ids: BTreeMap<String, ClaimId>,
    journal: Vec<(Moment, Change)>,
    /// The effects as they were told at the time.
    told: Vec<Effect>,
    snapshot: Option<Snapshot>,
}

struct Snapshot {
    /// When and where in the journal it began, and the facts at that time.
    began_at: Time,
    position: usize,
    true_then: Vec<Fact>,
    /// The facts so far, and whether they are complete.
    facts: Vec<Fact>,
    is_complete: bool,
}

impl Play {
    /// The story as the engine really plays it.
    pub(crate) fn of(name: &str, story: &str) -> String {
        let mut play = Play {
            engine: Engine::new(Limits::default()),
            limits: Limits::default(),
            now: Moment { at: Time(0), wall: Wall(WALL_START) },
            out: Outbox::default(),
            names: Names { claims: BTreeMap::new() },
            ids: BTreeMap::new(),
            journal: Vec::new(),
            told: Vec::new(),
            snapshot: None,
        };
        let mut played: Vec<String> = Vec::new();
        for line in story.lines().filter(|line| !line.starts_with("  ")) {
            played.push(line.to_string());
            if !line.is_empty() && !line.starts_with('#') {
                played.extend(play.line(line).into_iter().map(|said| format!("  {said}")));
                play.engine.check();
            }
        }
        play.finish(name);
        played.join("\n") + "\n"
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        let mut words = Words::of(line);
        if words.skip("limits") {
            self.set_limits(words);
            return Vec::new();
        }
        if words.skip("at") {
            let at = Time(duration_us(words.take()));
            self.now.wall = Wall(self.now.wall.0 + at.since(self.now.at));
            self.now.at = at;
        }
        if words.skip("repeat") {
            return self.repeat(words);
        }
        let verb = words.take();
        match verb {
            "time" => {
                words.finish();
                self.engine.handle_time(self.now, &mut self.out);
                return self.happened();
            }
            "deadline" => return vec![format!("= {}", self.engine.next_deadline().map_or("none".into(), time))],
            "totals" => {
                let t = self.engine.totals();
                let (resources, claims, waiting, retained) = (t.resources, t.claims, t.waiting, t.retained);
                return vec![format!(
                    "= {resources} resources, {claims} claims, {waiting} waiting, {retained} retained"
                )];
            }
            "bytes" => {
                let t = self.engine.totals();
                let (account, used) = (t.state_bytes, t.state_bytes_used);
                return vec![format!("= {account} bytes, {used} with holes")];
            }
            "told" => {
                let told = self.engine.view_for_waiter(self.now, self.id(words.take()));
                return vec![told.map_or("= nothing".into(), |reply| format!("= {}", self.names.reply(&reply)))];
            }
            "wall" => {
                let by_us = duration_us(words.take());
                let wall_us = self.now.wall.0;
                self.now.wall = Wall(if words.take() == "back" { wall_us - by_us } else { wall_us + by_us });
                return Vec::new();
            }
            "disk" => {
                self.engine.set_store_full(words.take() == "full");
                words.finish();
                return Vec::new();
            }
            "snapshot" => return self.take_snapshot(words),
            "restart" => return self.restart(),
            _ => {}
        }
        let command = self.command(verb, words, "");
        self.engine.handle_time_before(self.now, &command, &mut self.out);
        let answer = self.engine.handle(self.now, command, &mut self.out);
        let mut said = self.happened();
        said.extend(self.names.answer(&answer));
        said
    }

    fn set_limits(&mut self, mut words: Words<'_>) {
        let limits = &mut self.limits;
        limits.grace_us = words.duration("grace").unwrap_or(limits.grace_us);
        limits.retain_us = words.duration("retain").unwrap_or(limits.retain_us);
        let mut number = |name, value: &mut usize| {
            *value = words.option(name).map_or(*value, |word| word.parse().expect("a limit is a number"));
        };
        number("retained", &mut limits.retained_max);
        number("claims", &mut limits.claims_max);
        number("waiting", &mut limits.waiting_max);
        number("resources", &mut limits.resources_max);
        let state = words.option("state").map(|word| word.parse().expect("a limit is a number"));
        limits.state_bytes_max = state.unwrap_or(limits.state_bytes_max);
        words.finish();
        assert!(self.journal.is_empty(), "limits come first");
        self.engine = Engine::new(self.limits.clone());
    }

    /// The same command many times; its claims get numbered names. Answers are left out.
    fn repeat(&mut self, mut words: Words<'_>) -> Vec<String> {
        let times: usize = words.number();
        let rest = words.rest();
        for nth in 1..=times {
            let mut words = Words::of(&rest);
            let verb = words.take();
            let command = self.command(verb, words, &nth.to_string());
            self.engine.handle_time_before(self.now, &command, &mut self.out);
            self.engine.handle(self.now, command, &mut self.out).expect("a repeated request is not refused");
        }
        self.happened()
    }

    fn happened(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        if self.out.changes.len() > SHOWN_MAX {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for change in &self.out.changes {
                let kind = match change {
                    Change::Ended { how, .. } => format!("ended, {how:?}"),
                    other => self.names.change(other).split(' ').next().unwrap_or_default().to_string(),
                };
                *counts.entry(kind).or_default() += 1;
            }
            said.extend(counts.into_iter().map(|(kind, count)| format!("+ {count} times {kind}")));
        } else {
            said.extend(self.out.changes.iter().map(|change| format!("+ {}", self.names.change(change))));
            said.extend(self.out.effects.iter().map(|effect| format!("~ {}", self.names.effect(effect))));
        }
        self.journal.extend(self.out.changes.drain(..).map(|change| (self.now, change)));
        self.told.append(&mut self.out.effects);
        self.out.clear();
        said
    }

    fn take_snapshot(&mut self, mut words: Words<'_>) -> Vec<String> {
        if words.skip("begin") {
            self.snapshot = Some(Snapshot {
                began_at: self.now.at,
                position: self.journal.len(),
                true_then: self.engine.facts(),
                facts: Vec::new(),
                is_complete: false,
            });
            self.engine.begin_snapshot();
            return Vec::new();
        }
        if words.skip("drop") {
            self.engine.drop_snapshot();
            self.snapshot = None;
            return Vec::new();
        }
        assert!(words.skip("walk"), "a snapshot begins, walks or is dropped");
        let snapshot = self.snapshot.as_mut().expect("a snapshot was begun");
        snapshot.is_complete = !self.engine.step_snapshot(words.number(), &mut snapshot.facts);
        let rest = if snapshot.is_complete { "complete" } else { "more to come" };
        vec![format!("= {} facts, {rest}", snapshot.facts.len())]
    }

    /// The engine is lost; its changes are kept.
    fn restart(&mut self) -> Vec<String> {
        let replayed = self.replayed();
        assert_eq!(replayed.facts(), self.engine.facts(), "replaying the changes gives an equal engine");
        self.engine = replayed;
        let parked = self.engine.waiting_with_connection();
        let parked: Vec<&str> = parked.iter().map(|&claim| self.names.claim(claim)).collect();
        vec![format!("= the same, and waited with a connection: {parked:?}")]
    }

    fn replayed(&self) -> Engine {
        let mut fresh = Engine::new(self.limits.clone());
        self.journal.iter().for_each(|(now, change)| fresh.apply(*now, change));
        fresh
    }

    /// The effects retold from the same changes, each in the place of its change.
    fn retold(&self) -> Vec<Effect> {
        let mut fresh = Engine::new(self.limits.clone());
        let (mut retelling, mut told) = (Retelling::default(), Vec::new());
        for (now, change) in &self.journal {
            retelling.hear(&fresh, *now, change, (), |(), effect| told.push(effect));
            fresh.apply(*now, change);
        }
        retelling.finish(&fresh, |(), effect| told.push(effect));
        // Which change of its step it was is only known while the step is taken.
        told.iter_mut().zip(&self.told).for_each(|(again, then)| again.nth = then.nth);
        told
    }

    fn finish(mut self, name: &str) {
        let facts = self.engine.facts();
        let replayed = self.replayed();
        replayed.check();
        assert_eq!(self.retold(), self.told, "{name}: what is told of the journal is what was told then");
        assert_eq!(replayed.facts(), facts, "{name}: replaying the changes gives an equal engine");
        if let Some(snapshot) = self.snapshot.take() {
            assert!(snapshot.is_complete, "{name}: the snapshot is walked to its end");
            let mut restored = Engine::new(self.limits.clone());
            snapshot.facts.into_iter().for_each(|fact| restored.restore(fact));
            restored.finish_restore(snapshot.began_at);
            assert_eq!(restored.facts(), snapshot.true_then, "{name}: the snapshot is the state where it began");
            self.journal[snapshot.position..].iter().for_each(|(now, change)| restored.apply(*now, change));
            restored.check();
            assert_eq!(restored.facts(), facts, "{name}: the snapshot and what came after it give an equal engine");
        }
    }

    fn command(&mut self, verb: &str, mut words: Words<'_>, suffix: &str) -> Command {
        let command = match verb {
            "pool" => {
                let resource = pool(words.take());
                assert!(words.skip("count"));
                let capacity = words.number();
                let label = match words.option("label") {
                    None => Labeling::Kept,
                    Some("none") => Labeling::Set(None),
                    Some(label) => Labeling::Set(Some(Arc::from(label))),
                };
                Command::Configure { resource, capacity, label }
            }
            "capacity" => {
                let (resource, label) = (claimed(words.take()), Labeling::Kept);
                Command::Configure { resource, capacity: words.number(), label }
            }
            "name-slots" => {
                let resource = resource(&mut words);
                let slot = |word: &str| {
                    let (name, data) = word.split_once('=').map_or((word, None), |(name, data)| (name, Some(data)));
                    NamedSlot { name: Arc::from(name), data: data.map(Arc::from) }
                };
                let count = words.option("count").map(|word| word.parse().expect("a count is a number"));
                let slots: Option<Arc<[NamedSlot]>> =
                    words.option("slots").map(|list| list.split(',').map(slot).collect());
                let capacity = count.unwrap_or_else(|| {
                    u32::try_from(slots.as_ref().map_or(0, |slots| slots.len())).expect("slots are few")
                });
                Command::NameSlots(Box::new(NameSlots { resource, capacity, slots, label: Labeling::Kept }))
            }
            "pause" => {
                let resource = resource(&mut words);
                let for_us = words.duration("for");
                Command::Pause { resource, reason: Arc::from(words.option("reason").expect("a reason")), for_us }
            }
            "resume" => Command::Resume { resource: resource(&mut words) },
            "serve-slot" => {
                let slot = words.number();
                assert!(words.skip("of"), "a slot is `of` something");
                let resource = resource(&mut words);
                Command::ServeSlot { resource, slot, out: words.option("out").map(Arc::from) }
            }
            "delete" => Command::Unconfigure { resource: resource(&mut words) },
            "borrow" => {
                let pool = pool(words.take());
                Command::Acquire(Box::new(self.acquire(pool, "ttl", &mut words, suffix)))
            }
            "claim" => {
                let claimed = claimed(words.take());
                let acquire = self.acquire(claimed, "timeout", &mut words, suffix);
                Command::Acquire(Box::new(Acquire { patience: Patience::Standing, ..acquire }))
            }
            // A claim that waits with its caller's connection.
            "take" => {
                let claimed = claimed(words.take());
                Command::Acquire(Box::new(self.acquire(claimed, "timeout", &mut words, suffix)))
            }
            "holding" => {
                let resource = claimed(words.take());
                Command::ViewHolding { resource, key: words.option("key").map(Arc::from) }
            }
            "lock" => {
                let lock = lock(words.take());
                Command::Acquire(Box::new(self.acquire(lock, "ttl", &mut words, suffix)))
            }
            "renew" => {
                let (claim, resource) = self.lease_of("of", &mut words);
                Command::Renew { resource, claim, ttl_us: words.duration("ttl").expect("renew has a ttl") }
            }
            "return" => {
                let (claim, resource) = self.lease_of("to", &mut words);
                Command::Return { resource, claim }
            }
            "lease" => {
                let (claim, resource) = self.lease_of("of", &mut words);
                Command::ViewLease { resource, claim }
            }
            "unlock" => {
                let resource = lock(words.take());
                let client = Arc::from(words.option("client").expect("a client unlocks"));
                Command::Unlock { resource, client, token: words.option("token").map(token) }
            }
            "spend" => {
                let key = Arc::from(words.take());
                assert!(words.skip("of"), "a key is spent `of` something");
                let resource = resource(&mut words);
                let (id, client) = (self.draw(&mut words, ""), words.option("client").map(Arc::from));
                Command::Spend(Box::new(Spend { resource, key, client, id }))
            }
            "place" => {
                let name = Arc::from(words.take());
                assert!(words.skip("of"), "a place is `of` something");
                Command::ViewPlace { resource: resource(&mut words), name }
            }
            "update" => {
                let claim = self.id(words.take());
                let (ttl_us, timeout_us) = (words.duration("ttl"), words.duration("timeout"));
                Command::Update {
                    claim,
                    update: Update { ttl_us, timeout_us, status: words.option("status").map(wish) },
                }
            }
            "attend" => Command::Attend { claim: self.id(words.take()), is_attended: !words.skip("no-more") },
            "take-out" => {
                let order = words.number::<u64>();
                assert!(words.skip("of"), "a place is `of` something");
                Command::Revoke { resource: resource(&mut words), which: Revocable::Place(order) }
            }
            "withdraw" => Command::Withdraw { claim: self.id(words.take()) },
            "hand-back" => {
                let claim = self.id(words.take());
                Command::HandBack { claim, heard_by_nobody: words.skip("unheard") }
            }
            "show" => Command::ViewResource { resource: resource(&mut words) },
            "revoke" | "fence" => {
                let token = Token(words.number());
                assert!(words.skip("of"), "a token is `of` something");
                let resource = resource(&mut words);
                if verb == "fence" {
                    Command::ViewFence { resource, token }
                } else {
                    Command::Revoke { resource, which: Revocable::Grant(token) }
                }
            }
            "inspect" => Command::Inspect { resource: resource(&mut words) },
            "survey" => Command::Survey {
                after: words.skip("after").then(|| resource(&mut words)),
                scan_max: words.option("scan").map_or(1_000, |word| word.parse().expect("a bound is a number")),
                with_texts: words.skip("texts"),
            },
            "view" => Command::ViewClaim { claim: self.id(words.take()) },
            "list" => Command::ListClaims(Box::new(query(&mut words))),
            "resources" => Command::ListResources {
                after: words.option("after").map(Arc::from),
                limit: words.option("limit").map_or(100, |word| word.parse().expect("a limit is a number")),
                scan_max: 1_000,
            },
            _ => panic!("no command is called `{verb}`"),
        };
        words.finish();
        command
    }

    fn acquire(&mut self, resource: ResourceKey, ttl: &str, words: &mut Words<'_>, suffix: &str) -> Acquire {
        let id = self.draw(words, suffix);
        let fingerprint = words.option("body").map_or(1, |word| word.parse().expect("a body is a number here"));
        Acquire {
            resource,
            id,
            ttl_us: words.duration(ttl).expect("a claim says how long"),
            patience: Patience::For { wait_us: words.duration("wait").unwrap_or(0) },
            client: words.option("client").map(Arc::from),
            principal: words.option("principal").map(Arc::from),
            key: words.option("key").map(|name| IdempotencyKey { name: Arc::from(name), fingerprint }),
            metadata: words.option("metadata").map(Arc::from),
            quota: Quota {
                live_max: words.option("live").map_or(u32::MAX, |word| word.parse().expect("a quota is a number")),
                waiting_max: words
                    .option("waiting")
                    .map_or(u32::MAX, |word| word.parse().expect("a quota is a number")),
                ..Quota::NONE
            },
            options: Options {
                renewal: match words.option("renew") {
                    None => Renewal::Any,
                    Some("no") => Renewal::Never,
                    Some(word) => Renewal::Only(token(word)),
                },
                keep_us: words.duration("keep").unwrap_or(0),
                key_reuse: match words.option("reuse") {
                    None => KeyReuse::Never,
                    Some("after-wait") => KeyReuse::AfterWait,
                    Some("always") => KeyReuse::Always,
                    Some(other) => panic!("no key is reused {other}"),
                },
                former_fingerprint: words.option("former").map(|word| word.parse().expect("a body is a number here")),
                particulars: Particulars {
                    holder: words.option("holder").map(Arc::from),
                    wait_ttl_us: words.duration("wait-ttl").unwrap_or(0),
                    confirm_us: words.duration("confirm").unwrap_or(0),
                },
            },
        }
    }

    /// A fresh id, for the claim that the story calls so.
    fn draw(&mut self, words: &mut Words<'_>, suffix: &str) -> ClaimId {
        let name = format!("{}{suffix}", words.option("as").expect("a claim has a name in its story"));
        let id = ClaimId(self.ids.len() as u128 + 1);
        assert!(self.ids.insert(name.clone(), id).is_none(), "`{name}` names two claims");
        self.names.claims.insert(id, name);
        id
    }

    fn lease_of(&self, joint: &str, words: &mut Words<'_>) -> (ClaimId, ResourceKey) {
        let claim = self.id(words.take());
        assert!(words.skip(joint), "a lease is `{joint}` a pool");
        (claim, pool(words.take()))
    }

    /// The name `nobody` stands for an id that was never drawn.
    fn id(&self, name: &str) -> ClaimId {
        if name == "nobody" {
            return ClaimId(u128::MAX);
        }
        *self.ids.get(name).unwrap_or_else(|| panic!("no claim is called `{name}`"))
    }
}

fn token(word: &str) -> Token {
    Token(word.parse().expect("a token is a number"))
}

fn resource(words: &mut Words<'_>) -> ResourceKey {
    match words.take() {
        "pool" => pool(words.take()),
        "claimed" => claimed(words.take()),
        "lock" => lock(words.take()),
        other => panic!("`{other}` is no kind of resource"),
    }
}

fn pool(letter: &str) -> ResourceKey {
    ResourceKey::Pool(letter.chars().next().map(u128::from).expect("a pool is called by a letter"))
}

fn claimed(name: &str) -> ResourceKey {
    ResourceKey::Claim(Arc::from(name))
}

fn lock(name: &str) -> ResourceKey {
    ResourceKey::Lock(Arc::from(name))
}

fn wish(word: &str) -> Wish {
    match word {
        "active" => Wish::Active,
        "released" => Wish::Released,
        "revoked" => Wish::Revoked,
        "aborted" => Wish::Aborted,
        "withdrawn" => Wish::Withdrawn,
        _ => panic!("`{word}` is no status to wish for"),
    }
}

fn query(words: &mut Words<'_>) -> ClaimQuery {
    let range = |word: &str| -> RangeInclusive<u64> {
        let (from, to) = word.split_once("..").expect("a range has two ends");
        duration_us(from)..=duration_us(to)
    };
    let status = |word: &str| match word {
        "waiting" => StatusFilter::Waiting,
        "active" => StatusFilter::Active,
        "expired" => StatusFilter::Ended(Ending::Expired),
        other => StatusFilter::Ended(wish(other).ending().expect("every other status is an ending")),
    };
    let number = |word: Option<&str>, default: usize| word.map_or(default, |word| word.parse().expect("a number"));
    let filter = ClaimFilter {
        resource: words.option("resource").map(Arc::from),
        owner: words.option("owner").map(Arc::from),
        statuses: words.option("status").map_or(Vec::new(), |word| word.split(',').map(status).collect()),
        ttl_us: words.option("ttl").map(range),
        created: words
            .option("created")
            .map(range)
            .map(|range| Wall(WALL_START + range.start())..=Wall(WALL_START + range.end())),
        active_us: words.option("active").map(range),
        waiting_us: words.option("waiting").map(range),
    };
    ClaimQuery {
        filter,
        after: number(words.option("after"), 0) as u64,
        limit: number(words.option("limit"), 100),
        scan_max: number(words.option("scan"), 1_000),
    }
}
