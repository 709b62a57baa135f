//! The loop: which line may ask now, which has been answered, until when. `line` has the sockets, the scripts have the
//! words.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mio::{Events, Interest, Poll, Token};

use super::line::{Line, LineState};
use super::timer::Timer;
use super::{Ask, Outcome, Pace, Plan};
use crate::figures::{duration_ns, float, histogram};

const EVENTS_MAX: usize = 1024;
const TIMER: Token = Token(usize::MAX);
/// How long scripts may take to finish their current cycle. Longer means that an answer got lost.
const DRAIN_MAX: Duration = Duration::from_secs(20);
/// How often the loop checks for an early end.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(super) struct Load<'a> {
    plan: &'a Plan<'a>,
    poll: Poll,
    timer: Timer,
    lines: Vec<Line>,
    /// Lines that are free, the longest first. Open loop only: a closed one asks at once.
    idle: VecDeque<usize>,
    asleep: BinaryHeap<Reverse<(Instant, usize)>>,
    done: usize,
    began_at: Instant,
    counted_from: Instant,
    ends_at: Instant,
    over: bool,
    /// Requests of the open loop that have fallen due and been sent.
    arrivals: u64,
    outcome: Outcome,
}

impl<'a> Load<'a> {
    pub(super) fn new(lines: Vec<Line>, plan: &'a Plan<'a>) -> Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let began_at = Instant::now();
        let outcome = Outcome { answered: 0, heard: 0, offered: 0, elapsed: Duration::ZERO, latency: histogram() };
        Ok(Load {
            plan,
            poll,
            timer,
            idle: VecDeque::with_capacity(lines.len()),
            lines,
            asleep: BinaryHeap::new(),
            done: 0,
            began_at,
            counted_from: began_at,
            ends_at: began_at,
            over: false,
            arrivals: 0,
            outcome,
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome> {
        for (index, line) in self.lines.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut line.stream, Token(index), interest)?;
        }
        self.began_at = Instant::now();
        self.counted_from = self.began_at + self.plan.warm_up;
        self.ends_at = self.counted_from + self.plan.length;
        let began_at = self.began_at;
        for index in 0..self.lines.len() {
            self.free(index, began_at)?;
        }

        let mut events = Events::with_capacity(EVENTS_MAX);
        while self.done < self.lines.len() {
            let now = Instant::now();
            self.end_if_over(now)?;
            self.wake(now)?;
            self.send_arrivals(now)?;
            self.poll(&mut events)?;
            for event in &events {
                if event.token() == TIMER {
                    continue;
                }
                let index = event.token().0;
                if event.is_writable() {
                    self.lines[index].flush()?;
                }
                if event.is_readable() && self.lines[index].state != LineState::Done {
                    self.lines[index].fill()?;
                    self.hear(index)?;
                }
            }
        }
        if !self.over {
            self.settle(Instant::now());
        }
        Ok(self.outcome)
    }

    /// A line has nothing under way: a closed loop asks, an open one waits for the next request to fall due.
    fn free(&mut self, index: usize, now: Instant) -> Result<()> {
        if matches!(self.plan.pace, Pace::Closed) || self.over {
            return self.ask(index, now, now);
        }
        self.lines[index].state = LineState::Idle;
        self.idle.push_back(index);
        Ok(())
    }

    fn ask(&mut self, index: usize, now: Instant, due_at: Instant) -> Result<()> {
        match self.lines[index].ask(now, due_at, self.over)? {
            Ask::Sent => {}
            Ask::At(at) => self.asleep.push(Reverse((at, index))),
            Ask::Done => self.done += 1,
        }
        Ok(())
    }

    fn hear(&mut self, index: usize) -> Result<()> {
        let now = Instant::now();
        // Several answers may have come at once where several callers share a line.
        while let Some(due_at) = self.lines[index].hear(now)? {
            self.outcome.heard += 1;
            if !self.over && now >= self.counted_from {
                self.outcome.answered += 1;
                self.outcome.latency.saturating_record(duration_ns(now.saturating_duration_since(due_at)));
            }
            self.free(index, now)?;
            if self.lines[index].state == LineState::Done {
                break;
            }
        }
        Ok(())
    }

    fn wake(&mut self, now: Instant) -> Result<()> {
        while let Some(&Reverse((at, index))) = self.asleep.peek() {
            if at > now && !self.over {
                break;
            }
            self.asleep.pop();
            self.ask(index, now, now)?;
        }
        Ok(())
    }

    fn send_arrivals(&mut self, now: Instant) -> Result<()> {
        if self.over {
            return Ok(());
        }
        while let Some(due_at) = self.next_arrival_at().filter(|&due_at| due_at <= now) {
            let Some(index) = self.idle.pop_front() else { break };
            self.arrivals += 1;
            self.ask(index, now, due_at)?;
        }
        Ok(())
    }

    fn next_arrival_at(&self) -> Option<Instant> {
        match self.plan.pace {
            Pace::Closed => None,
            Pace::Open { rate_per_s } => {
                Some(self.began_at + Duration::from_secs_f64(float(self.arrivals) / rate_per_s))
            }
        }
    }

    fn end_if_over(&mut self, now: Instant) -> Result<()> {
        if self.over {
            if now > self.ends_at + DRAIN_MAX {
                let waiting = self.lines.len() - self.done;
                bail!("{waiting} of {} conversations did not finish: an answer got lost", self.lines.len());
            }
            return Ok(());
        }
        if now < self.ends_at && !self.plan.stop_when.is_some_and(|stop| stop()) {
            return Ok(());
        }
        self.settle(now);
        self.over = true;
        self.ends_at = now;
        for index in std::mem::take(&mut self.idle) {
            self.ask(index, now, now)?;
        }
        Ok(())
    }

    /// Records the length of the measured time.
    fn settle(&mut self, now: Instant) {
        self.outcome.elapsed = now.saturating_duration_since(self.counted_from);
        if let Pace::Open { rate_per_s } = self.plan.pace {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count well below 2^53")]
            let offered = (rate_per_s * self.outcome.elapsed.as_secs_f64()) as u64;
            self.outcome.offered = offered;
        }
    }

    /// Sleeps until a socket has something, or something falls due.
    fn poll(&mut self, events: &mut Events) -> Result<()> {
        if self.done == self.lines.len() {
            return Ok(());
        }
        let now = Instant::now();
        let ends_at = if self.over { self.ends_at + DRAIN_MAX } else { self.ends_at };
        let arrival_at = if self.over || self.idle.is_empty() { None } else { self.next_arrival_at() };
        let wake_at = self.asleep.peek().map(|Reverse((at, _))| *at);
        let look_at = self.plan.stop_when.filter(|_| !self.over).map(|_| now + LOOK_EVERY);
        let due_at = [arrival_at, wake_at, look_at].into_iter().flatten().fold(ends_at, Instant::min);
        if due_at > now {
            self.timer.arm(now, due_at)?;
        }
        let timeout = (due_at <= now).then_some(Duration::ZERO);
        loop {
            match self.poll.poll(events, timeout) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                outcome => return outcome.context("polling failed"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::drive::{Heard, Script, drive};

    /// One byte there, the same byte back.
    struct Echo {
        left: usize,
    }

    impl Script for Echo {
        fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
            if over || self.left == 0 {
                return Ask::Done;
            }
            self.left -= 1;
            out.push(b'x');
            Ask::Sent
        }

        fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
            anyhow::ensure!(input == b"x", "one answer at a time");
            Ok(Heard::Answer(1))
        }
    }

    /// Answers on one connection, the first byte only after `stall`.
    fn echo(stall: Duration) -> (SocketAddr, thread::JoinHandle<u64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut byte, mut answered) = ([0], 0);
            while stream.read(&mut byte).unwrap() > 0 {
                if answered == 0 {
                    thread::sleep(stall);
                }
                stream.write_all(&byte).unwrap();
                answered += 1;
            }
            answered
        });
        (addr, server)
    }

    #[test]
    fn a_closed_loop_ends_when_its_scripts_do_and_counts_every_answer() {
        let (addr, server) = echo(Duration::ZERO);
        let line = Line::open(addr, Echo { left: 100 }).unwrap();
        let outcome = drive(vec![line], &Plan::to_the_end(Duration::from_secs(30))).unwrap();
        assert_eq!((outcome.answered, outcome.heard, server.join().unwrap()), (100, 100, 100));
        assert_eq!(outcome.latency.len(), 100);
    }

    #[test]
    fn an_open_loop_charges_a_stall_to_everybody_who_fell_due_meanwhile() {
        let (addr, server) = echo(Duration::from_millis(50));
        let line = Line::open(addr, Echo { left: 200 }).unwrap();
        let pace = Pace::Open { rate_per_s: 1000.0 };
        let outcome = drive(vec![line], &Plan { pace, ..Plan::to_the_end(Duration::from_secs(30)) }).unwrap();
        assert_eq!((outcome.heard, server.join().unwrap()), (200, 200));
        // One request was slow; about fifty were due while it was, one a millisecond.
        let late = outcome.latency.count_between(10_000_000, u64::MAX);
        assert!(late >= 39, "{late} requests waited for 10 ms or more");
    }
}
