//! One client of the load: makes random calls, one at a time, and notes exactly what it was told.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Client, Position, Response, random_uuid};

/// The pools, locks and resources.
#[derive(Clone, Debug)]
pub(crate) struct Rig {
    pub(crate) pools: Vec<Pool>,
    pub(crate) jobs: Vec<String>,
    pub(crate) resources: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) id: String,
    pub(crate) count: u64,
}

/// A worker and its notes.
#[derive(Debug)]
pub(crate) struct Worker {
    world: Rig,
    pub(crate) name: String,
    /// The request that is under way, if it changes anything: unknown until its answer is there.
    pub(crate) doubt: Option<Doubt>,
    /// Borrowed and not returned.
    pub(crate) leases: Vec<Lease>,
    pub(crate) returned: Vec<Lease>,
    /// Jobs whose lock it holds, with the token.
    pub(crate) locks: BTreeMap<String, u64>,
    /// The answers it got about locks, and their place in the order of things.
    pub(crate) lock_events: Vec<LockEvent>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) grants: Vec<Grant>,
    /// The last position it was shown.
    pub(crate) seen: Position,
    pub(crate) answers: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Doubt {
    Borrow { pool: usize, key: String },
    Return { lease: Lease },
    Lock { job: String },
    Unlock { job: String },
    Create { resource: String, key: String },
    End { claim: String, wish: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) pool: usize,
    pub(crate) id: String,
    pub(crate) slot: u64,
    pub(crate) token: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct LockEvent {
    pub(crate) at: Position,
    pub(crate) job: String,
    /// The token of an acquisition; `None` for a release.
    pub(crate) token: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) resource: String,
    /// As last told: a waiting one may have become active since.
    pub(crate) status: String,
    pub(crate) token: Option<u64>,
    /// How many restarts it has been looked up after its end.
    pub(crate) audits_since_end: u32,
}

/// A token and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) token: u64,
    /// Where the grant is in the order of things, if the answer was about the grant itself.
    pub(crate) at: Option<Position>,
}

/// Long enough that nothing ends by itself.
const TTL_S: u32 = 3_600;
const LEASES_MAX: usize = 4;
const CLAIMS_MAX: usize = 3;

impl Worker {
    pub(crate) fn new(world: &Rig, number: usize) -> Self {
        Worker {
            world: world.clone(),
            name: format!("worker-{number}"),
            doubt: None,
            leases: Vec::new(),
            returned: Vec::new(),
            locks: BTreeMap::new(),
            lock_events: Vec::new(),
            claims: Vec::new(),
            grants: Vec::new(),
            seen: Position::default(),
            answers: 0,
        }
    }

    /// Asks for one thing after the other until the connection breaks or the service says that it cannot go on, and
    /// returns how it did. The request under way at that time is in doubt.
    pub(crate) fn run(&mut self, addr: SocketAddr, answers: &AtomicU64) -> io::Error {
        let mut client = match Client::connect(addr) {
            Ok(client) => client.ending_with_the_service(),
            Err(error) => return error,
        };
        loop {
            if let Err(error) = self.step(&mut client) {
                return error;
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn step(&mut self, client: &mut Client) -> io::Result<()> {
        match rand::random_range(0..10) {
            0..4 if self.leases.len() < LEASES_MAX && rand::random() => self.borrow(client),
            0..3 if !self.leases.is_empty() => self.give_back(client),
            3..4 if !self.leases.is_empty() => self.renew(client),
            4..6 => self.lock(client),
            6 => self.unlock(client),
            _ => self.claim(client),
        }
    }

    fn borrow(&mut self, client: &mut Client) -> io::Result<()> {
        let pool = rand::random_range(0..self.world.pools.len());
        let key = random_uuid();
        self.doubt = Some(Doubt::Borrow { pool, key: key.clone() });
        let answer = self.send_borrow(client, pool, &key)?;
        self.doubt = None;
        let at = Some(self.note(&answer));
        self.take_lease(pool, &answer, at);
        Ok(())
    }

    /// The same key has the same body, now and after a restart.
    pub(crate) fn send_borrow(&self, client: &mut Client, pool: usize, key: &str) -> io::Result<Response> {
        let target = format!("/l/{}/borrow", self.world.pools[pool].id);
        let body = format!("{{\"ttl\":{TTL_S},\"wait\":0.01}}");
        client.call_with("POST", &target, &[("idempotency-key", key)], body.as_bytes())
    }

    pub(crate) fn take_lease(&mut self, pool: usize, answer: &Response, at: Option<Position>) {
        if answer.status == 409 {
            return;
        }
        assert_eq!(answer.status, 200, "{}", answer.json());
        let (slot, token) = (answer.number("position"), answer.number("token"));
        let lease = Lease { pool, id: answer.text("lease"), slot, token };
        self.grants.push(Grant { resource: format!("pool {pool}"), holder: lease.id.clone(), token, at });
        self.leases.push(lease);
    }

    fn give_back(&mut self, client: &mut Client) -> io::Result<()> {
        let lease = self.leases.swap_remove(rand::random_range(0..self.leases.len()));
        self.doubt = Some(Doubt::Return { lease: lease.clone() });
        let target = format!("/l/{}/return", self.world.pools[lease.pool].id);
        let answer = client.call("POST", &target, &format!("{{\"lease\":\"{}\"}}", lease.id))?.expect(200);
        self.doubt = None;
        self.note(&answer);
        assert_eq!(answer.json()["returned"], true, "{lease:?}");
        self.returned.push(lease);
        Ok(())
    }

    fn renew(&mut self, client: &mut Client) -> io::Result<()> {
        let lease = self.leases[rand::random_range(0..self.leases.len())].clone();
        let target = format!("/l/{}/renew", self.world.pools[lease.pool].id);
        let body = format!("{{\"lease\":\"{}\",\"ttl\":{TTL_S}}}", lease.id);
        let answer = client.call("POST", &target, &body)?.expect(200);
        self.note(&answer);
        assert_eq!((answer.number("position"), answer.number("token")), (lease.slot, lease.token));
        Ok(())
    }

    fn lock(&mut self, client: &mut Client) -> io::Result<()> {
        let job = self.world.jobs[rand::random_range(0..self.world.jobs.len())].clone();
        self.doubt = Some(Doubt::Lock { job: job.clone() });
        let target = format!("/lock?job={job}&client={}&ttl={TTL_S}s", self.name);
        let answer = client.call("POST", &target, "")?;
        self.doubt = None;
        let at = self.note(&answer);
        match (answer.status, self.locks.get(&job)) {
            (200, Some(&held)) => {
                assert_eq!((answer.number("token"), &*answer.text("message")), (held, "renewed"));
            }
            (200, None) => {
                let token = answer.number("token");
                assert!(answer.text("message").starts_with("acquired"), "{}", answer.json());
                let resource = format!("lock {job}");
                self.grants.push(Grant { resource, holder: self.name.clone(), token, at: Some(at) });
                self.lock_events.push(LockEvent { at, job: job.clone(), token: Some(token) });
                self.locks.insert(job, token);
            }
            (409, None) => {}
            (status, held) => panic!("{status} while holding {held:?}: {}", answer.json()),
        }
        Ok(())
    }

    fn unlock(&mut self, client: &mut Client) -> io::Result<()> {
        let Some(job) = self.locks.keys().next().cloned() else { return self.lock(client) };
        self.doubt = Some(Doubt::Unlock { job: job.clone() });
        let answer = client.call("DELETE", &format!("/lock?job={job}&client={}", self.name), "")?.expect(200);
        self.doubt = None;
        let at = self.note(&answer);
        self.locks.remove(&job);
        self.lock_events.push(LockEvent { at, job, token: None });
        Ok(())
    }

    fn claim(&mut self, client: &mut Client) -> io::Result<()> {
        let live: Vec<usize> = (0..self.claims.len()).filter(|&index| self.claims[index].is_live()).collect();
        if live.len() < CLAIMS_MAX && rand::random() || live.is_empty() {
            return self.create(client);
        }
        let index = live[rand::random_range(0..live.len())];
        match (&*self.claims[index].status, rand::random_range(0..4)) {
            ("active", 0..3) => self.end(client, index, "released"),
            ("waiting", 0..3) => self.activate(client, index),
            _ => self.end(client, index, "revoked"),
        }
    }

    fn create(&mut self, client: &mut Client) -> io::Result<()> {
        let resource = self.world.resources[rand::random_range(0..self.world.resources.len())].clone();
        let key = random_uuid();
        self.doubt = Some(Doubt::Create { resource: resource.clone(), key: key.clone() });
        let answer = self.send_create(client, &resource, &key)?;
        self.doubt = None;
        let at = Some(self.note(&answer));
        let status = self.take_claim(resource, &answer, at);
        assert_eq!(answer.status, if status == "active" { 201 } else { 202 });
        Ok(())
    }

    pub(crate) fn send_create(&self, client: &mut Client, resource: &str, key: &str) -> io::Result<Response> {
        let body = format!("{{\"resource\":\"{resource}\",\"timeout\":{TTL_S},\"metadata\":\"{}\"}}", self.name);
        client.call_with("POST", "/v1/claims/", &[("idempotency-key", key)], body.as_bytes())
    }

    pub(crate) fn take_claim(&mut self, resource: String, answer: &Response, at: Option<Position>) -> String {
        assert!(matches!(answer.status, 201 | 202), "{}", answer.json());
        let mut claim =
            Claim { id: answer.text("id"), resource, status: String::new(), token: None, audits_since_end: 0 };
        self.grants.extend(claim.learn(answer, at));
        let status = claim.status.clone();
        self.claims.push(claim);
        status
    }

    fn activate(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let target = format!("/v1/claims/{}/", self.claims[index].id);
        let answer = client.call("PATCH", &target, "{\"status\":\"active\"}")?;
        self.note(&answer);
        match answer.status {
            200 => self.grants.extend(self.claims[index].learn(&answer, None)),
            status => assert_eq!(status, 409, "{}", answer.json()),
        }
        Ok(())
    }

    fn end(&mut self, client: &mut Client, index: usize, wish: &'static str) -> io::Result<()> {
        let claim = self.claims[index].id.clone();
        let target = format!("/v1/claims/{claim}/");
        self.doubt = Some(Doubt::End { claim, wish });
        let answer = client.call("PATCH", &target, &format!("{{\"status\":\"{wish}\"}}"))?.expect(204);
        self.doubt = None;
        self.note(&answer);
        wish.clone_into(&mut self.claims[index].status);
        Ok(())
    }

    /// Every answer has a position, and one client's never go back.
    fn note(&mut self, answer: &Response) -> Position {
        let at = answer.position().unwrap_or_else(|| panic!("no position in {answer:?}"));
        assert!(self.seen <= at, "{at:?} after {:?}", self.seen);
        self.seen = at;
        self.answers += 1;
        at
    }
}

impl Claim {
    pub(crate) fn is_live(&self) -> bool {
        matches!(&*self.status, "waiting" | "active")
    }

    /// Takes over the status in an answer. The first time it shows a token, that is a grant.
    pub(crate) fn learn(&mut self, answer: &Response, at: Option<Position>) -> Option<Grant> {
        self.status = answer.text("status");
        let token = answer.json()["token"].as_u64();
        assert!(self.token.is_none() || self.token == token, "{self:?} became {}", answer.json());
        let is_new = self.token.is_none();
        self.token = token;
        let resource = format!("claim {}", self.resource);
        token.filter(|_| is_new).map(|token| Grant { resource, holder: self.id.clone(), token, at })
    }
}
