//! Waiters that leave around the moment of their grant leave nothing behind. A waiter here hangs up by closing its
//! sending half and then listens to the end: either it gets its answer in full and has the lease, or it never will and
//! the service must have given the slot to another waiter. There is no third outcome, so the numbers at the end are
//! exact.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Client, Launch, PATIENCE, Response, Server, gauge, part_of_the_machine, random_uuid, report, until,
};

const WAITERS: usize = 500;
/// Threads that cut them off.
const CUTTERS: usize = 4;

/// A resource with slots that callers wait for.
trait Lent: Sync {
    fn ask(&self, client: &mut Client, who: usize);
    /// The call that gives back the slot of this answer.
    fn give_back(&self, granted: &Response) -> (&'static str, String, String);
    fn capacity(&self) -> usize;
    /// How many hold it.
    fn holders(&self, client: &mut Client) -> u64;
}

struct Pool {
    path: String,
    count: usize,
}

impl Pool {
    fn new(server: &Server, count: usize) -> Pool {
        let path = format!("/l/{}", random_uuid());
        server.client().call("PUT", &path, &format!("{{\"count\":{count}}}")).unwrap().expect(200);
        Pool { path, count }
    }
}

impl Lent for Pool {
    fn ask(&self, client: &mut Client, _who: usize) {
        client.send("POST", &format!("{}/borrow", self.path), &[], b"{\"ttl\":3600,\"wait\":120}").unwrap();
    }

    fn give_back(&self, granted: &Response) -> (&'static str, String, String) {
        ("POST", format!("{}/return", self.path), format!("{{\"lease\":\"{}\"}}", granted.text("lease")))
    }

    fn capacity(&self) -> usize {
        self.count
    }

    fn holders(&self, client: &mut Client) -> u64 {
        client.call("GET", &self.path, "").unwrap().number("in_use")
    }
}

struct Lock;

impl Lent for Lock {
    fn ask(&self, client: &mut Client, who: usize) {
        client.send("POST", &format!("/lock?client=c{who}&ttl=1h&wait=2m"), &[], b"").unwrap();
    }

    fn give_back(&self, granted: &Response) -> (&'static str, String, String) {
        ("DELETE", format!("/lock?client={}", granted.text("holder")), String::new())
    }

    fn capacity(&self) -> usize {
        1
    }

    fn holders(&self, client: &mut Client) -> u64 {
        u64::from(!client.call("GET", "/lock", "").unwrap().text("holder").is_empty())
    }
}

#[test]
fn waiters_of_a_pool_that_leave_around_their_grant_leave_no_slot_behind() {
    let _machine = part_of_the_machine();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    leave_in_a_crowd(&server, &Pool::new(&server, 5), "pool");
    leave_just_then(&server, &Pool::new(&server, 1), "pool");
}

#[test]
fn waiters_for_a_lock_that_leave_around_their_grant_do_not_keep_it() {
    let _machine = part_of_the_machine();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    leave_in_a_crowd(&server, &Lock, "lock");
    leave_just_then(&server, &Lock, "lock");
}

/// All stand in the queue at once; several threads cut off waiters near its head while others give slots back.
fn leave_in_a_crowd(server: &Server, lent: &dyn Lent, name: &str) {
    let mut client = server.client();
    let granted: VecDeque<Response> = (0..lent.capacity())
        .map(|number| {
            lent.ask(&mut client, WAITERS + number);
            client.receive().unwrap().expect(200)
        })
        .collect();
    let parked = Mutex::new(VecDeque::from(park(server, lent, WAITERS)));
    let returns = Mutex::new(granted);
    let uncut = AtomicUsize::new(WAITERS);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CUTTERS {
            scope.spawn(|| {
                while let Some(mut waiter) = near_the_head(&parked) {
                    sleep_us(4_000);
                    if let Some(granted) = cut(&mut waiter) {
                        taken.fetch_add(1, Ordering::Relaxed);
                        returns.lock().unwrap().push_back(granted);
                    }
                    uncut.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                loop {
                    // Before looking for work: once no waiter is left, no more work will come.
                    let is_last_look = uncut.load(Ordering::SeqCst) == 0;
                    let granted = returns.lock().unwrap().pop_front();
                    match granted {
                        Some(granted) => {
                            sleep_us(1_000);
                            let (method, target, body) = lent.give_back(&granted);
                            client.call(method, &target, &body).unwrap().expect(200);
                        }
                        None if is_last_look => return,
                        None => sleep_us(500),
                    }
                }
            });
        }
    });
    is_all_free(server, lent);
    let taken = taken.into_inner();
    report(format_args!(
        "sockets: {WAITERS} waiters for a {name} cut at random, {taken} had got their answer, nothing is left behind"
    ));
}

/// One after the other, each aimed at: the next in line leaves within a fraction of a millisecond of its grant.
fn leave_just_then(server: &Server, lent: &dyn Lent, name: &str) {
    assert_eq!(lent.capacity(), 1, "so that giving back grants to the first in line");
    let mut client = server.client();
    lent.ask(&mut client, WAITERS);
    let mut holder = Some(client.receive().unwrap().expect(200));
    let mut parked: VecDeque<Client> = park(server, lent, WAITERS).into();
    let (mut taken, mut missed, mut gone) = (0, 0, 0);
    while let Some(mut waiter) = parked.pop_front() {
        let (method, target, body) = lent.give_back(&holder.take().expect("a client holds it while others wait"));
        let mut give_back = || client.send(method, &target, &[], body.as_bytes()).unwrap();
        match rand::random_range(0..4) {
            0 => {
                // Gone for good before there is anything to be had.
                drop(waiter);
                give_back();
                gone += 1;
            }
            1 => {
                waiter.hang_up().unwrap();
                pause_us(100);
                give_back();
                holder = answer_of(&mut waiter);
            }
            _ => {
                give_back();
                pause_us(1_000);
                waiter.hang_up().unwrap();
                holder = answer_of(&mut waiter);
            }
        }
        client.receive().unwrap().expect(200);
        if holder.is_some() {
            taken += 1;
        } else {
            missed += 1;
            // Then the one behind it has the slot, or no waiter is left and it is free.
            holder = parked.pop_front().map(|mut next| next.receive().unwrap().expect(200));
        }
    }
    if let Some(last) = holder {
        let (method, target, body) = lent.give_back(&last);
        client.call(method, &target, &body).unwrap().expect(200);
    }
    is_all_free(server, lent);
    report(format_args!(
        "sockets: {} waiters for a {name} left at their grant: {taken} had it, {missed} did not ({gone} were gone before)",
        taken + missed
    ));
}

/// Hangs up and listens to the end.
fn cut(waiter: &mut Client) -> Option<Response> {
    waiter.hang_up().unwrap();
    answer_of(waiter)
}

fn answer_of(waiter: &mut Client) -> Option<Response> {
    match waiter.receive() {
        Ok(answer) => Some(answer.expect(200)),
        Err(error) => {
            let is_end = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
            assert!(is_end, "neither an answer nor the end: {error}");
            None
        }
    }
}

/// Clients that stand in the queue in this order: each is seen to before the next one asks.
fn park(server: &Server, lent: &dyn Lent, count: usize) -> Vec<Client> {
    let mut client = server.client();
    let waiting_before = gauge(&mut client, "leasehold_waiters");
    let park_one = |who: usize| {
        let mut waiter = server.client();
        lent.ask(&mut waiter, who);
        let waiting = waiting_before + who as u64 + 1;
        until("it is queued", PATIENCE, || (gauge(&mut client, "leasehold_waiters") == waiting).then_some(()));
        waiter
    };
    (0..count).map(park_one).collect()
}

/// Within a second or two nothing is held or waited for, and as many as there are slots can be had at once.
fn is_all_free(server: &Server, lent: &dyn Lent) {
    let mut client = server.client();
    until("nothing is left behind", Duration::from_secs(2), || {
        (lent.holders(&mut client) == 0 && gauge(&mut client, "leasehold_waiters") == 0).then_some(())
    });
    let granted: Vec<Response> = (0..lent.capacity())
        .map(|number| {
            let asked_at = Instant::now();
            lent.ask(&mut client, number);
            let granted = client.receive().unwrap().expect(200);
            assert!(asked_at.elapsed() < Duration::from_secs(1), "it was not free");
            granted
        })
        .collect();
    for granted in &granted {
        let (method, target, body) = lent.give_back(granted);
        client.call(method, &target, &body).unwrap().expect(200);
    }
}

fn sleep_us(at_most: u64) {
    std::thread::sleep(Duration::from_micros(rand::random_range(0..at_most)));
}

/// Up to this long, to the microsecond: a sleep would always be longer than what is aimed at.
fn pause_us(at_most: u64) {
    let until = Instant::now() + Duration::from_micros(rand::random_range(0..at_most));
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

fn near_the_head(parked: &Mutex<VecDeque<Client>>) -> Option<Client> {
    let mut parked = parked.lock().unwrap();
    let near = parked.len().min(2 * CUTTERS);
    if near == 0 { None } else { parked.remove(rand::random_range(0..near)) }
}
