//! After a restart: the workers' notes against the service's answers, the unknown settled, and the numbers exact.

use std::collections::{BTreeMap, BTreeSet};

use super::worker::{Doubt, Grant, Lease, LockEvent, Rig, Worker};
use crate::support::{Client, Position, Response};

/// About this many leases and claims of each worker that ended before the last restart are looked up again.
const OLD_SAMPLE: usize = 10;

#[derive(Debug)]
pub(crate) struct Audit {
    world: Rig,
    /// Holder and token of each lock after the last restart.
    locks: BTreeMap<String, Option<(String, u64)>>,
    last: Position,
    /// How many of each worker's returned leases have been looked up before.
    audited_returns: BTreeMap<String, usize>,
    pub(crate) unknown: usize,
    pub(crate) unknown_had_happened: usize,
    pub(crate) looked_up: usize,
}

impl Audit {
    pub(crate) fn new(world: &Rig) -> Self {
        Audit {
            world: world.clone(),
            locks: world.jobs.iter().map(|job| (job.clone(), None)).collect(),
            last: Position::default(),
            audited_returns: BTreeMap::new(),
            unknown: 0,
            unknown_had_happened: 0,
            looked_up: 0,
        }
    }

    pub(crate) fn after_restart(&mut self, client: &mut Client, workers: &mut [Worker]) {
        self.unknown += workers.iter().filter(|worker| worker.doubt.is_some()).count();
        self.positions_go_on(client, workers);
        self.pools_have_what_was_lent(client, workers);
        self.no_returned_lease_is_back(client, workers);
        self.locks_are_as_told(client, workers);
        self.claims_are_as_told(client, workers);
        self.settle(client, workers);
        self.pools_have_exactly_what_was_lent(client, workers);
        self.no_free_resource_has_a_queue(client);
    }

    /// A new life has a greater epoch, and everything that was acknowledged is before it.
    fn positions_go_on(&mut self, client: &mut Client, workers: &[Worker]) {
        let acknowledged = workers.iter().map(|worker| worker.seen).max().expect("there are workers").max(self.last);
        let now = self.get(client, "/v1/resources/nothing").expect(404).position().expect("a read has one, too");
        assert!(now.epoch > acknowledged.epoch, "{now:?} after {acknowledged:?}");
        assert!(now.change >= acknowledged.change, "{now:?} after {acknowledged:?}");
        self.last = now;
    }

    fn pools_have_what_was_lent(&mut self, client: &mut Client, workers: &[Worker]) {
        for lease in workers.iter().flat_map(|worker| &worker.leases) {
            let shown = self.get_lease(client, lease).expect(200);
            assert_eq!((shown.number("position"), shown.number("token")), (lease.slot, lease.token), "{lease:?}");
        }
        for pool in 0..self.world.pools.len() {
            let sure = workers.iter().flat_map(|worker| &worker.leases).filter(|lease| lease.pool == pool).count();
            let unknown = workers.iter().filter(|worker| worker.doubts_pool(pool)).count();
            let in_use = self.in_use(client, pool);
            assert!((sure..=sure + unknown).contains(&in_use), "{in_use} in use, {sure} known, {unknown} unknown");
        }
    }

    fn no_returned_lease_is_back(&mut self, client: &mut Client, workers: &[Worker]) {
        for worker in workers {
            let audited = self.audited_returns.insert(worker.name.clone(), worker.returned.len()).unwrap_or(0);
            let (old, new) = worker.returned.split_at(audited);
            for lease in new.iter().chain(sample(old)) {
                self.get_lease(client, lease).expect(404);
            }
        }
    }

    fn locks_are_as_told(&mut self, client: &mut Client, workers: &mut [Worker]) {
        for job in self.world.jobs.clone() {
            let told = self.lock_as_told(&job, workers);
            let shown = self.get(client, &format!("/lock?job={job}")).expect(200).json();
            let holder = shown["holder"].as_str().expect("always there").to_owned();
            let holds = (!holder.is_empty()).then(|| (holder.clone(), shown["token"].as_u64().expect("held")));
            if holds == told {
                self.locks.insert(job, holds);
                continue;
            }
            // Only what was under way can have changed it.
            let may_have_taken = |name: &str| {
                let worker = workers.iter().find(|worker| worker.name == name);
                worker.is_some_and(|w| matches!(&w.doubt, Some(Doubt::Lock { job: asked }) if *asked == job))
            };
            let may_be_free = told.as_ref().is_none_or(|(name, _)| {
                let worker = workers.iter().find(|worker| worker.name == *name).expect("only workers hold");
                matches!(&worker.doubt, Some(Doubt::Unlock { job: asked }) if *asked == job)
            });
            let is_possible = match &holds {
                None => may_be_free,
                Some((name, _)) => may_be_free && may_have_taken(name),
            };
            assert!(is_possible, "lock {job} is held by {holds:?}, told was {told:?}");
            self.unknown_had_happened += 1;
            if let Some((name, token)) = &holds {
                let worker = workers.iter_mut().find(|worker| worker.name == *name).expect("just found");
                let resource = format!("lock {job}");
                worker.grants.push(Grant { resource, holder: name.clone(), token: *token, at: None });
            }
            self.locks.insert(job, holds);
        }
        for worker in workers {
            let held = self.locks.iter().filter_map(|(job, holds)| Some((job, holds.as_ref()?)));
            let mine = held.filter(|(_, (name, _))| *name == worker.name);
            worker.locks = mine.map(|(job, (_, token))| (job.clone(), *token)).collect();
            worker.lock_events.clear();
        }
    }

    /// The last answer to any worker about this lock.
    fn lock_as_told(&self, job: &str, workers: &[Worker]) -> Option<(String, u64)> {
        let events = workers.iter().flat_map(|worker| worker.lock_events.iter().map(move |event| (worker, event)));
        match events.filter(|(_, event)| event.job == job).max_by_key(|(_, event)| event.at) {
            None => self.locks[job].clone(),
            Some((_, LockEvent { token: None, .. })) => None,
            Some((worker, LockEvent { token: Some(token), .. })) => Some((worker.name.clone(), *token)),
        }
    }

    fn claims_are_as_told(&mut self, client: &mut Client, workers: &mut [Worker]) {
        for worker in workers {
            let wished = match &worker.doubt {
                Some(Doubt::End { claim, wish }) => Some((claim.clone(), *wish)),
                _ => None,
            };
            let claims_count = worker.claims.len();
            for claim in &mut worker.claims {
                let is_old = claim.audits_since_end > 0;
                if is_old && rand::random_range(0..claims_count) >= OLD_SAMPLE {
                    continue;
                }
                let shown = self.get(client, &format!("/v1/claims/{}/", claim.id)).expect(200);
                let told = claim.status.clone();
                let had = claim.token;
                worker.grants.extend(claim.learn(&shown, None));
                let is_as_told = claim.status == told || (told == "waiting" && claim.status == "active");
                let happened = wished.as_ref().is_some_and(|(id, wish)| *id == claim.id && *wish == claim.status);
                assert!(is_as_told || happened, "{claim:?} was {told} with token {had:?}");
                self.unknown_had_happened += usize::from(happened);
                claim.audits_since_end += u32::from(!claim.is_live());
            }
        }
    }

    /// Asks again, so that nothing is unknown any more: a key has one effect, however often it is used.
    fn settle(&mut self, client: &mut Client, workers: &mut [Worker]) {
        for worker in workers {
            let Some(doubt) = worker.doubt.take() else { continue };
            match doubt {
                Doubt::Borrow { pool, key } => {
                    let before = self.in_use(client, pool);
                    let answer = worker.send_borrow(client, pool, &key).unwrap();
                    worker.take_lease(pool, &answer, None);
                    let was_there = answer.status == 200 && self.in_use(client, pool) == before;
                    self.unknown_had_happened += usize::from(was_there);
                }
                Doubt::Return { lease } => match self.get_lease(client, &lease).status {
                    200 => worker.leases.push(lease),
                    status => {
                        assert_eq!(status, 404);
                        worker.returned.push(lease);
                        self.unknown_had_happened += 1;
                    }
                },
                Doubt::Create { resource, key } => {
                    let answer = worker.send_create(client, &resource, &key).unwrap();
                    worker.take_claim(resource, &answer, None);
                }
                // Their outcome was seen when they were looked up.
                Doubt::Lock { .. } | Doubt::Unlock { .. } | Doubt::End { .. } => {}
            }
        }
    }

    fn pools_have_exactly_what_was_lent(&mut self, client: &mut Client, workers: &[Worker]) {
        for pool in 0..self.world.pools.len() {
            let lent: Vec<&Lease> =
                workers.iter().flat_map(|worker| &worker.leases).filter(|lease| lease.pool == pool).collect();
            assert_eq!(self.in_use(client, pool), lent.len(), "pool {pool}");
            let slots: BTreeSet<u64> = lent.iter().map(|lease| lease.slot).collect();
            assert_eq!(slots.len(), lent.len(), "two leases share a slot of pool {pool}: {lent:?}");
            assert!(slots.iter().all(|&slot| slot < self.world.pools[pool].count), "{slots:?}");
        }
    }

    fn no_free_resource_has_a_queue(&mut self, client: &mut Client) {
        for resource in self.world.resources.clone() {
            let shown = self.get(client, &format!("/v1/resources/{resource}"));
            if shown.status == 404 {
                continue;
            }
            let (in_use, waiting) = (shown.number("in_use"), shown.number("waiting"));
            assert!(in_use == 1 || (in_use == 0 && waiting == 0), "{}", shown.json());
        }
    }

    fn get_lease(&mut self, client: &mut Client, lease: &Lease) -> Response {
        let pool = self.world.pools[lease.pool].id.clone();
        self.get(client, &format!("/l/{pool}/leases/{}", lease.id))
    }

    fn in_use(&mut self, client: &mut Client, pool: usize) -> usize {
        let pool = self.world.pools[pool].id.clone();
        let shown = self.get(client, &format!("/l/{pool}")).expect(200);
        usize::try_from(shown.number("in_use")).unwrap()
    }

    fn get(&mut self, client: &mut Client, target: &str) -> Response {
        self.looked_up += 1;
        client.call("GET", target, "").unwrap()
    }
}

/// No token twice, and in the order of things they only rise. Returns how many there were.
pub(crate) fn check_tokens(workers: &[Worker]) -> usize {
    let mut by_resource: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for grant in workers.iter().flat_map(|worker| &worker.grants) {
        by_resource.entry(&grant.resource).or_default().push(grant);
    }
    let mut count = 0;
    for (resource, grants) in &mut by_resource {
        let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
        for grant in grants.iter() {
            let first = holders.insert(grant.token, &grant.holder);
            assert_eq!(first, None, "{resource} gave token {} to {} as well", grant.token, grant.holder);
        }
        count += holders.len();
        grants.retain(|grant| grant.at.is_some());
        grants.sort_by_key(|grant| (grant.at, grant.token));
        for pair in grants.windows(2) {
            assert!(pair[0].token < pair[1].token, "{resource}: {:?} before {:?}", pair[0], pair[1]);
        }
    }
    count
}

impl Worker {
    fn doubts_pool(&self, asked: usize) -> bool {
        match &self.doubt {
            Some(Doubt::Borrow { pool, .. }) => *pool == asked,
            Some(Doubt::Return { lease }) => lease.pool == asked,
            _ => false,
        }
    }
}

fn sample<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let step = items.len() / OLD_SAMPLE + 1;
    items.iter().skip(rand::random_range(0..step)).step_by(step)
}
