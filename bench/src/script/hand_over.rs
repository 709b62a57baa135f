//! Many callers at one pool with few slots: each waits, holds, returns, and stands in line again. It measures the way
//! of a slot from one holder to the next: from sending the return until the next holder of that slot has its answer.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hdrhistogram::Histogram;

use super::pool::{is_returned, lease_in, put_pool, return_request, set_lease};
use super::{expect_status, pool_id};
use crate::drive::{Ask, Heard, Script};
use crate::figures::{duration_ns, histogram};
use crate::wire::http;

/// State that all callers of one pool share.
#[derive(Debug)]
pub(crate) struct HandOvers {
    /// By position: when the return that freed it was sent.
    freed_at: Vec<Option<Instant>>,
    lent: Vec<bool>,
    pub(crate) latency: Histogram<u64>,
    pool: String,
    hold: Duration,
}

impl HandOvers {
    pub(crate) fn new(addr: SocketAddr, number: u64, slots: usize, hold: Duration) -> Result<Rc<RefCell<Self>>> {
        let pool = pool_id(2, number);
        put_pool(addr, &pool, slots)?;
        let (freed_at, lent) = (vec![None; slots], vec![false; slots]);
        Ok(Rc::new(RefCell::new(HandOvers { freed_at, lent, latency: histogram(), pool, hold })))
    }

    fn granted(&mut self, position: usize, now: Instant) -> Result<()> {
        let lent = self.lent.get_mut(position).context("a position beyond the pool")?;
        if std::mem::replace(lent, true) {
            bail!("position {position} was lent twice");
        }
        if let Some(freed_at) = self.freed_at[position].take() {
            self.latency.saturating_record(duration_ns(now - freed_at));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct HandOver {
    shared: Rc<RefCell<HandOvers>>,
    borrow: Vec<u8>,
    give_back: Vec<u8>,
    state: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Out,
    Waiting,
    Holding { position: usize, until: Instant },
    Returning,
}

impl HandOver {
    pub(crate) fn new(shared: &Rc<RefCell<HandOvers>>) -> Self {
        let pool = &shared.borrow().pool;
        let borrow = http::request("POST", &format!("/l/{pool}/borrow"), r#"{"ttl":60,"wait":60}"#);
        HandOver { shared: Rc::clone(shared), borrow, give_back: return_request(pool), state: Step::Out }
    }
}

impl Script for HandOver {
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        match self.state {
            Step::Out if over => Ask::Done,
            Step::Out => {
                out.extend_from_slice(&self.borrow);
                self.state = Step::Waiting;
                Ask::Sent
            }
            Step::Holding { until, .. } if until > now && !over => Ask::At(until),
            Step::Holding { position, .. } => {
                let mut shared = self.shared.borrow_mut();
                shared.lent[position] = false;
                shared.freed_at[position] = Some(now);
                out.extend_from_slice(&self.give_back);
                self.state = Step::Returning;
                Ask::Sent
            }
            Step::Waiting | Step::Returning => unreachable!("asked only when answered"),
        }
    }

    fn hear(&mut self, now: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        let body = expect_status(&answer, &[200])?;
        self.state = match self.state {
            Step::Waiting => {
                set_lease(&mut self.give_back, lease_in(body)?);
                let position = http::integer(body, b"\"position\":").context("a grant without a position")?;
                let position = usize::try_from(position)?;
                let mut shared = self.shared.borrow_mut();
                shared.granted(position, now)?;
                Step::Holding { position, until: now + shared.hold }
            }
            Step::Returning if is_returned(body) => Step::Out,
            other => bail!("{} came while {other:?}", String::from_utf8_lossy(body)),
        };
        Ok(Heard::Answer(answer.len))
    }
}
