//! One client of the history: makes random calls, one at a time, and writes all of it down. When it hears nothing for a
//! while, or the connection breaks, it goes on with a new one and does not know the outcome.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_history::{Call, HeardAnswer, Op, Outcome, Stamp, Status, Wish};

use super::wire::{self, Request};
use super::{Noted, Service};
use crate::support::{Client, random_uuid};

/// How many leases, and how many claims, it remembers.
const REMEMBERED: usize = 2;

pub(crate) struct Player<'a> {
    service: &'a Service,
    number: usize,
    name: String,
    notes: Vec<Noted>,
    /// Pool and lease, resource and claim, as told; they may have ended since.
    leases: Vec<(String, String)>,
    claims: Vec<(String, String)>,
    /// A call with a key that was not answered: it can be asked again.
    again: Option<(Call, u32)>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(service: &'a Service, number: usize) -> Self {
        let name = format!("c{number}");
        Player { service, number, name, notes: Vec::new(), leases: Vec::new(), claims: Vec::new(), again: None }
    }

    pub(crate) fn play(mut self) -> Vec<Noted> {
        while !self.service.is_over() {
            let found = self.service.find();
            let connected = found.and_then(|(addr, life)| Some((Client::connect(addr).ok()?, life)));
            let Some((mut client, life)) = connected else {
                // It was killed just now; the next one is about to be there.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            while !self.service.is_over() && self.step(&mut client, life).is_ok() {}
        }
        self.notes
    }

    fn step(&mut self, client: &mut Client, life: usize) -> io::Result<()> {
        let (call, wait_ms) = match self.again.take() {
            Some(again) if rand::random_ratio(3, 4) => again,
            _ => match rand::random_range(0..9) {
                0..3 => self.about_pools(),
                3..6 => self.about_claims(),
                _ => self.about_locks(),
            },
        };
        let has_words =
            matches!(call, Call::Acquire { .. } | Call::Renew { .. } | Call::Claim { .. } | Call::Lock { .. });
        let request =
            if has_words && rand::random_ratio(1, 20) { wire::nonsense(&call) } else { wire::request(&call, wait_ms) };
        self.ask(client, life, call, wait_ms, request)
    }

    /// Asks, and writes down the outcome. An error is the end of this connection.
    fn ask(&mut self, client: &mut Client, life: usize, call: Call, wait_ms: u32, request: Request) -> io::Result<()> {
        let start_us = self.service.now_us();
        let Request { method, target, key, body, is_nonsense } = request;
        let headers: Vec<(&str, &str)> = key.iter().map(|key| ("idempotency-key", key.as_str())).collect();
        let is_cut = rand::random_ratio(1, self.service.calls_per_cut);
        let heard = client.send(method, &target, &headers, body.as_bytes()).and_then(|()| {
            if is_cut {
                Err(io::ErrorKind::ConnectionAborted.into())
            } else {
                client.receive_within(self.service.patience)
            }
        });
        let end_us = self.service.now_us();
        let response = match heard {
            Ok(response) if !matches!(response.status, 502 | 503) => response,
            // Said of calls that were never sent to an owner.
            Ok(response) if response.text("error").contains("is moving") => return Ok(()),
            unheard => {
                if key.is_some() {
                    self.again = Some((call.clone(), wait_ms));
                }
                self.note((life, None), start_us, call, Outcome::Unknown { gone_us: None });
                return unheard.map(|_| ());
            }
        };
        self.service.answers.fetch_add(1, Ordering::Relaxed);
        let partition = response.header("leasehold-partition").map(|number| number.parse().unwrap());
        let Some(at) = response.position() else {
            // With several partitions, a call without sense saw none of them.
            assert!(is_nonsense && response.status == 400, "no position in {response:?}");
            return Ok(());
        };
        let answer = if is_nonsense {
            assert_eq!(response.status, 400, "{target} {body} was answered {}", response.json());
            Some(HeardAnswer::Malformed)
        } else {
            wire::answer(&call, wait_ms > 0, &response)
        };
        if let Some(answer) = answer {
            self.learn(&call, &answer);
            let stamp = Stamp { epoch: at.epoch, position: at.change };
            self.note((life, partition), start_us, call, Outcome::Answered { end_us, answer, stamp });
        }
        Ok(())
    }

    fn note(&mut self, (life, partition): (usize, Option<u32>), start_us: u64, call: Call, outcome: Outcome) {
        let op = Op { client: self.name.clone(), start_us, call, outcome };
        self.notes.push(Noted { op, life, partition });
    }

    /// Remembers what it was told of, to come back to it.
    fn learn(&mut self, call: &Call, answer: &HeardAnswer) {
        let resource = call.resource().to_owned();
        let (list, known) = match (call, answer) {
            (Call::Acquire { .. }, HeardAnswer::Held { lease, .. }) => (&mut self.leases, (resource, lease.clone())),
            (Call::Claim { .. }, HeardAnswer::Active { claim, .. } | HeardAnswer::Waiting { lease: claim }) => {
                (&mut self.claims, (resource, claim.clone()))
            }
            // It looks at an ended claim once more, now and then.
            (Call::ViewClaim { claim, .. }, HeardAnswer::Ended { .. })
            | (
                Call::Update { claim, .. },
                HeardAnswer::Released(true) | HeardAnswer::Refused { status: Status::Ended(_) },
            ) if rand::random_ratio(2, 3) => {
                self.claims.retain(|(_, known)| known != claim);
                return;
            }
            (Call::ViewLease { lease, .. }, HeardAnswer::NotHeld | HeardAnswer::NoResource) => {
                self.leases.retain(|(_, known)| known != lease);
                return;
            }
            _ => return,
        };
        if !list.contains(&known) {
            list.push(known);
        }
        if list.len() > REMEMBERED {
            list.remove(0);
        }
    }

    fn about_pools(&mut self) -> (Call, u32) {
        let resource = one_of(&self.service.pools);
        let view = Call::View { resource: resource.clone() };
        let call = match rand::random_range(0..100) {
            // One of the clients makes the pools, and sets their sizes.
            0..6 if self.number == 0 => Call::Configure { resource, capacity: rand::random_range(1..4) },
            6 if self.number == 0 => Call::Delete { resource },
            0..35 => {
                let key = rand::random::<bool>().then(random_uuid);
                let wait_ms = if rand::random_ratio(1, 3) { rand::random_range(1..100) } else { 0 };
                return (Call::Acquire { resource, ttl_us: ttl_us(), key }, wait_ms);
            }
            roll => match (roll, pick(&self.leases)) {
                (_, None) | (90.., _) => view,
                (35..65, Some((resource, lease))) => Call::Release { resource, lease },
                (65..80, Some((resource, lease))) => Call::Renew { resource, lease, ttl_us: ttl_us() },
                (_, Some((resource, lease))) => Call::ViewLease { resource, lease },
            },
        };
        (call, 0)
    }

    fn about_claims(&mut self) -> (Call, u32) {
        let resource = one_of(&self.service.resources);
        // Short ones, mostly: else all clients would stand in line all the time.
        let ttl_us = if rand::random_ratio(4, 5) { rand::random_range(10_000..60_000) } else { ttl_us() };
        let create = || Call::Claim { resource, ttl_us, key: rand::random::<bool>().then(random_uuid) };
        let listen_ms = if rand::random_ratio(1, 3) { rand::random_range(1..60) } else { 0 };
        let Some((resource, claim)) = pick(&self.claims) else { return (create(), 0) };
        let roll = rand::random_range(if self.claims.len() < REMEMBERED { 0..100 } else { 22..100 });
        let update = |wish: Wish| Call::Update { resource: resource.clone(), claim: claim.clone(), wish };
        match roll {
            0..22 => (create(), 0),
            22..42 => (update(Wish::Released), 0),
            42..50 => (update(Wish::Revoked), 0),
            50..62 => (update(Wish::Ttl { ttl_us }), 0),
            62..76 => (update(Wish::Active), listen_ms),
            _ => (Call::ViewClaim { resource, claim }, listen_ms),
        }
    }

    fn about_locks(&mut self) -> (Call, u32) {
        let (resource, client) = (one_of(&self.service.jobs), self.name.clone());
        match rand::random_range(0..100) {
            0..50 => {
                let wait_ms = if rand::random_ratio(1, 3) { rand::random_range(1..60) } else { 0 };
                (Call::Lock { resource, client, ttl_us: ttl_us() }, wait_ms)
            }
            50..80 => (Call::Unlock { resource, client }, 0),
            _ => (Call::ViewLock { resource }, 0),
        }
    }
}

/// Some run out while all clients are busy, some outlive a kill or two.
fn ttl_us() -> u64 {
    let ttl_ms = if rand::random() { rand::random_range(20..300) } else { rand::random_range(1_000..5_000) };
    ttl_ms * 1_000
}

fn one_of(names: &[String]) -> String {
    names[rand::random_range(0..names.len())].clone()
}

fn pick(known: &[(String, String)]) -> Option<(String, String)> {
    if known.is_empty() { None } else { Some(known[rand::random_range(0..known.len())].clone()) }
}
